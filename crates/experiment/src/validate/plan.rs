//! What is to be validated, checked before anything happens.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use sha2::{Digest, Sha256};

use super::ValidateError;
use crate::plan::{CacheState, NamedTarget, NamedWorkload};
use crate::target::check_commands;

/// Half of a digest tells plans apart.
const DIGEST_BYTES: usize = 16;

/// What one validation does.
#[derive(Debug, Clone)]
pub struct ValidatePlan {
    /// What is run.
    pub workloads: Vec<NamedWorkload>,
    /// Where.
    pub targets: Vec<NamedTarget>,
    /// Measured runs of each workload on each target.
    pub runs: u32,
    /// What the caches hold when a workload begins.
    pub cache: CacheState,
    /// The target, by its place, whose trace is predicted from.
    pub trace_on: usize,
    /// The same for the targets of some groups.
    pub group_trace_on: BTreeMap<String, usize>,
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
    /// Whether a step that fails is recorded and passed over.
    pub keep_going: bool,
    /// Whether steps that the directory holds already are not repeated.
    pub resume: bool,
    /// Where the order of runs starts.
    pub seed: u64,
    /// Where everything is kept.
    pub dir: PathBuf,
    /// The program and its first arguments that run a workload in a child: options, the workload's
    /// specification and a directory are appended.
    pub child: Vec<OsString>,
}

/// One step of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Three cold runs of each, one quick profile, predicted from the first target's trace.
    pub fn new(
        workloads: Vec<NamedWorkload>,
        targets: Vec<NamedTarget>,
        dir: PathBuf,
        child: Vec<OsString>,
    ) -> Self {
        Self {
            workloads,
            targets,
            runs: 3,
            cache: CacheState::Cold,
            trace_on: 0,
            group_trace_on: BTreeMap::new(),
            quick: true,
            profiles: 1,
            profile_time_ns: None,
            cpu: None,
            keep_going: false,
            resume: false,
            seed: 1,
            dir,
            child,
        }
    }

    /// The target, by its place, whose trace that target's prediction uses.
    pub fn traced_on(&self, target: usize) -> usize {
        self.targets
            .get(target)
            .and_then(|t| self.group_trace_on.get(t.group.as_ref()?))
            .copied()
            .unwrap_or(self.trace_on)
    }

    /// Tells plans apart by everything that decides what a step measures. How many runs are made, and
    /// which trace predictions use, may change between one validation and its continuation.
    pub fn digest(&self) -> String {
        let mut text = format!(
            "validate {:?} {} {} {:?} {} {}\n",
            self.cache,
            self.quick,
            self.profiles,
            self.profile_time_ns,
            self.cpu.is_some(),
            self.seed
        );
        for workload in &self.workloads {
            let (spec, setup) = (&workload.spec, &workload.setup);
            text.push_str(&format!(
                "{:?} {:?} {setup:?}\n",
                workload.name,
                spec.to_string()
            ));
        }
        for target in &self.targets {
            text.push_str(&format!(
                "{:?} {:?}\n",
                target.name,
                target.spec.to_string()
            ));
        }
        let digest = Sha256::digest(text.as_bytes());
        let mut hex = String::new();
        for byte in digest.iter().take(DIGEST_BYTES) {
            hex.push_str(&format!("{byte:02x}"));
        }
        hex
    }

    /// Refuses what cannot be carried out, by name.
    pub fn check(&self) -> Result<(), ValidateError> {
        let refuse = |what: String| Err(ValidateError::Plan(what));
        if self.workloads.is_empty() || self.targets.is_empty() {
            return refuse("expected at least one workload and one target".into());
        }
        if self.runs == 0 || self.profiles == 0 {
            return refuse("expected at least one run and one profile".into());
        }
        let traced = self.group_trace_on.values().chain([&self.trace_on]);
        if traced.max() >= Some(&self.targets.len()) {
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
            let mut later = self.targets.iter().skip(i + 1);
            let spec = target.spec.to_string();
            if later.any(|other| other.name == target.name || other.spec.to_string() == spec) {
                return refuse(format!("target {target} stands twice"));
            }
            let commands = |w: &&NamedWorkload| w.spec.command().is_some() || w.setup.is_some();
            if let Some(workload) = self.workloads.iter().find(commands) {
                check_commands(&*target.spec, &format!("run a command of `{workload}`"))?;
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
    use crate::target::directory;
    use std::collections::HashSet;

    fn directory(path: &str) -> NamedTarget {
        directory::spec(path.as_ref()).into()
    }

    fn plan() -> ValidatePlan {
        let workloads = vec!["cmd: true".parse().unwrap(), "postmark".parse().unwrap()];
        let targets = vec![directory("/a"), directory("/b")];
        ValidatePlan {
            seed: 7,
            ..ValidatePlan::new(workloads, targets, PathBuf::new(), vec![])
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
            targets: vec![directory("/a"); 2],
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

    #[test]
    fn a_group_may_have_a_trace_of_its_own() {
        let mut plan = plan();
        plan.targets[1].group = Some("disk".into());
        assert_eq!((plan.traced_on(0), plan.traced_on(1)), (0, 0));
        plan.group_trace_on.insert("disk".into(), 1);
        assert_eq!((plan.traced_on(0), plan.traced_on(1)), (0, 1));
        plan.group_trace_on.insert("disk".into(), 2);
        assert!(plan.check().is_err());
    }

    #[test]
    fn the_digest_tells_what_is_measured_apart() {
        let digest = plan().digest();
        assert_eq!(digest.len(), 2 * DIGEST_BYTES);
        let same = ValidatePlan {
            runs: 9,
            trace_on: 1,
            keep_going: true,
            dir: "/elsewhere".into(),
            ..plan()
        };
        assert_eq!(same.digest(), digest);
        let mut others = vec![
            ValidatePlan { seed: 8, ..plan() },
            ValidatePlan {
                quick: false,
                ..plan()
            },
            ValidatePlan {
                cpu: Some(0),
                ..plan()
            },
            ValidatePlan {
                cache: CacheState::Warm,
                ..plan()
            },
        ];
        others.extend((0..3).map(|which| {
            let mut plan = plan();
            match which {
                0 => plan.targets[0] = directory("/c"),
                1 => plan.workloads[0].setup = Some("true".into()),
                _ => plan.workloads[1].spec = "postmark:seed=1".parse().unwrap(),
            }
            plan
        }));
        for other in others {
            assert_ne!(other.digest(), digest, "{other:?}");
        }
    }
}
