//! What is to be validated, checked before anything happens.

use std::ffi::OsString;
use std::path::PathBuf;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::ValidateError;
use super::workload::NamedWorkload;
use crate::target::TargetSpec;

/// What one validation does.
#[derive(Debug, Clone)]
pub struct ValidatePlan {
    /// What is run.
    pub workloads: Vec<NamedWorkload>,
    /// Where.
    pub targets: Vec<TargetSpec>,
    /// A shell command that prepares the directory of each run, unmeasured.
    pub setup: Option<String>,
    /// Measured runs of each workload on each target.
    pub runs: u32,
    /// The target, by its place, whose trace is predicted from.
    pub trace_on: usize,
    /// Whether profiles are quick ones.
    pub quick: bool,
    /// Profiles of each target, each on a file system of its own where the target is scratch.
    pub profiles: u32,
    /// The longest that one profile should take, nanoseconds; `None` for the suite's own.
    pub profile_time_ns: Option<u64>,
    /// The CPU on which profiles, workloads and (as root) the kernel's work for them run alike; `None`
    /// for any. An fsync costs a few times more when the thread that waits and those of the kernel
    /// that work for it run on different CPUs, and which of it happens is chance.
    pub cpu: Option<usize>,
    /// Where the order of runs starts.
    pub seed: u64,
    /// Where everything is kept.
    pub dir: PathBuf,
    /// The program and its first arguments that run a generated workload: the workload's
    /// specification and a directory are appended.
    pub child: Vec<OsString>,
}

/// One step of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Profile a target, for the n-th time.
    Profile {
        /// By its place in the plan.
        target: usize,
        /// Which profile of it.
        instance: u32,
    },
    /// Run a workload on a target under the tracer.
    Measure {
        /// By its place in the plan.
        target: usize,
        /// By its place in the plan.
        workload: usize,
        /// Which run of it.
        run: u32,
    },
}

impl ValidatePlan {
    /// Refuses what cannot be carried out, by name.
    pub fn check(&self) -> Result<(), ValidateError> {
        let refuse = |what: String| Err(ValidateError::Plan(what));
        if self.workloads.is_empty() || self.targets.is_empty() {
            return refuse("expected at least one workload and one target".into());
        }
        if self.runs == 0 || self.profiles == 0 {
            return refuse("expected at least one run and one profile".into());
        }
        if self.trace_on >= self.targets.len() {
            return refuse("the target to trace on is none of the targets".into());
        }
        for (i, workload) in self.workloads.iter().enumerate() {
            if self
                .workloads
                .iter()
                .skip(i + 1)
                .any(|other| other.name == workload.name)
            {
                return refuse(format!(
                    "two workloads are called `{workload}`; name them apart with NAME=WORKLOAD"
                ));
            }
        }
        for (i, target) in self.targets.iter().enumerate() {
            if self.targets.iter().skip(i + 1).any(|other| other == target) {
                return refuse(format!("target {target} stands twice"));
            }
        }
        Ok(())
    }

    /// All steps in the order in which they are made: interleaved, so that drift of the machine
    /// falls on all targets alike (Traeger 2007, section 4). The seed gives the order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for target in 0..self.targets.len() {
            steps.extend((0..self.profiles).map(|instance| Step::Profile { target, instance }));
            for workload in 0..self.workloads.len() {
                steps.extend((0..self.runs).map(|run| Step::Measure {
                    target,
                    workload,
                    run,
                }));
            }
        }
        steps.shuffle(&mut Pcg64::seed_from_u64(self.seed));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn plan() -> ValidatePlan {
        ValidatePlan {
            workloads: vec!["cmd: true".parse().unwrap(), "postmark".parse().unwrap()],
            targets: vec![
                TargetSpec::Directory("/a".into()),
                TargetSpec::Directory("/b".into()),
            ],
            setup: None,
            runs: 3,
            trace_on: 0,
            quick: true,
            profiles: 1,
            profile_time_ns: None,
            cpu: None,
            seed: 7,
            dir: PathBuf::new(),
            child: vec![],
        }
    }

    #[test]
    fn every_step_is_made_once_in_the_order_of_the_seed() {
        let plan = plan();
        let steps = plan.steps();
        assert_eq!(steps.len(), 2 * (1 + 2 * 3));
        let distinct: HashSet<String> = steps.iter().map(|s| format!("{s:?}")).collect();
        assert_eq!(distinct.len(), steps.len());
        assert_eq!(steps, plan.steps());
        assert_ne!(steps, ValidatePlan { seed: 8, ..plan }.steps());
    }

    #[test]
    fn impossible_plans_are_refused_by_name() {
        let twice = ValidatePlan {
            targets: vec![TargetSpec::Directory("/a".into()); 2],
            ..plan()
        };
        assert!(
            twice
                .check()
                .unwrap_err()
                .to_string()
                .contains("/a stands twice")
        );
        assert!(
            ValidatePlan {
                trace_on: 2,
                ..plan()
            }
            .check()
            .is_err()
        );
        assert!(ValidatePlan { runs: 0, ..plan() }.check().is_err());
        plan().check().unwrap();
    }
}
