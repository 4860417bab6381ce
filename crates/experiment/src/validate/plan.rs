//! What is to be validated, checked before anything happens.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use fsage_format::result::validation::FailedStep;

use super::ValidateError;
use super::kept::Outcome;
use crate::plan::{CacheState, KeepTraces, NamedTarget, NamedWorkload, digest};
use crate::target::check_commands;

/// What one validation does.
#[derive(Debug, Clone)]
pub struct ValidatePlan {
    /// What is run.
    pub workloads: Vec<NamedWorkload>,
    /// Where.
    pub targets: Vec<NamedTarget>,
    /// Which half of its plan the workloads are, `open` or `sealed`; `None` where the plan has no halves.
    pub half: Option<String>,
    /// What of it is measured now; all is judged that its directory holds.
    pub part: Part,
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
    /// What stays of the traces and snapshots that predictions are made from.
    pub keep_traces: KeepTraces,
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

/// Some of the workloads and some of the targets of a plan, by their places; none named are all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The workloads.
    pub workloads: Vec<usize>,
    /// The targets.
    pub targets: Vec<usize>,
}

impl Part {
    /// Whether that target is of it.
    pub fn has_target(&self, target: usize) -> bool {
        self.targets.is_empty() || self.targets.contains(&target)
    }

    fn has_workload(&self, workload: usize) -> bool {
        self.workloads.is_empty() || self.workloads.contains(&workload)
    }

    /// Whether that step is of it.
    pub(super) fn has(&self, step: ValidateStep) -> bool {
        self.has_target(step.target) && step.workload.is_none_or(|w| self.has_workload(w))
    }
}

/// One step of a validation: a profile of a target, or a workload that is measured there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ValidateStep {
    /// By its place in the plan.
    pub target: usize,
    /// By its place in the plan; `None` for a profile.
    pub workload: Option<usize>,
    /// Which profile or run it is.
    pub number: u32,
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
            half: None,
            part: Part::default(),
            runs: 3,
            cache: CacheState::Cold,
            trace_on: 0,
            group_trace_on: BTreeMap::new(),
            quick: true,
            profiles: 1,
            profile_time_ns: None,
            cpu: None,
            keep_going: false,
            keep_traces: KeepTraces::default(),
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

    /// The first target that predictions of the part need a trace on and that is not of it.
    pub fn lacks_trace_on(&self) -> Option<&NamedTarget> {
        let of_part = (0..self.targets.len()).filter(|&target| self.part.has_target(target));
        let mut traced_on = of_part.map(|target| self.traced_on(target));
        let lacks = traced_on.find(|&source| !self.part.has_target(source))?;
        self.targets.get(lacks)
    }

    /// Whether a trace on that target is predicted from.
    pub(super) fn predicts_from(&self, source: usize) -> bool {
        (0..self.targets.len()).any(|target| self.traced_on(target) == source)
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
        digest(&text)
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
        let mut names = BTreeSet::new();
        if let Some(twice) = self.workloads.iter().find(|w| !names.insert(&w.name)) {
            return refuse(format!(
                "two workloads are called `{twice}`; name them apart with NAME=WORKLOAD"
            ));
        }
        if let Some(workload) = self.workloads.iter().find(|w| w.spec.in_target().is_some()) {
            return refuse(format!(
                "`{workload}` works on the files of the target itself, and a validation gives each workload a \
                 directory of its own; expected another, or `fsage run`"
            ));
        }
        let (mut names, mut specs) = (BTreeSet::new(), BTreeSet::new());
        for (place, target) in self.targets.iter().enumerate() {
            if !(names.insert(&target.name) && specs.insert(target.spec.to_string())) {
                return refuse(format!("target {target} stands twice"));
            }
            let is_command = |w: &NamedWorkload| w.spec.command().is_some() || w.setup.is_some();
            let mut workloads = self.workloads.iter().enumerate();
            let command = workloads.find(|(w, its)| self.part.has_workload(*w) && is_command(its));
            if let Some((_, workload)) = command.filter(|_| self.part.has_target(place)) {
                check_commands(&*target.spec, &format!("run a command of `{workload}`"))?;
            }
        }
        Ok(())
    }

    /// The first step of each series.
    pub(super) fn firsts(&self) -> impl Iterator<Item = ValidateStep> {
        let each = 1 + self.workloads.len();
        (0..self.targets.len() * each).map(move |at| ValidateStep {
            target: at / each,
            workload: (at % each).checked_sub(1),
            number: 0,
        })
    }

    /// How many steps the series of one has.
    pub(super) fn wanted(&self, of: ValidateStep) -> u32 {
        match of.workload {
            None => self.profiles,
            Some(_) => self.runs,
        }
    }

    /// Whether a target's time is computed.
    pub(super) fn is_virtual(&self, target: usize) -> bool {
        let target = self.targets.get(target);
        target.is_some_and(|target| target.spec.has_virtual_time())
    }

    /// The step of which a record tells; `None` if it is none of this plan's.
    pub(super) fn step_of(&self, outcome: &Outcome) -> Option<ValidateStep> {
        let (target, workload, number) = match outcome {
            Outcome::Run(run) => (&run.target, Some(&run.workload), run.run),
            Outcome::Profile(profile) => (&profile.target, None, profile.instance),
            Outcome::Failed(failed) => (&failed.target, failed.workload.as_ref(), failed.run),
        };
        let place = |name: &String| self.workloads.iter().position(|w| w.name == *name);
        let workload = match workload {
            Some(name) => Some(place(name)?),
            None => None,
        };
        Some(ValidateStep {
            target: self.targets.iter().position(|t| t.name == *target)?,
            workload,
            number,
        })
    }

    /// A step that gave no result.
    pub(super) fn failed(&self, step: ValidateStep, error: String) -> FailedStep {
        FailedStep {
            target: self.targets[step.target].to_string(),
            workload: step.workload.map(|w| self.workloads[w].to_string()),
            run: step.number,
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::directory;

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
    fn every_series_is_there_once() {
        let firsts: Vec<_> = plan().firsts().map(|s| (s.target, s.workload)).collect();
        let each = [None, Some(0), Some(1)];
        let all: Vec<_> = each
            .map(|w| (0, w))
            .into_iter()
            .chain(each.map(|w| (1, w)))
            .collect();
        assert_eq!(firsts, all);
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
    fn a_part_needs_the_traces_that_it_is_predicted_from() {
        let mut plan = plan();
        plan.part.targets = vec![1];
        assert_eq!(plan.lacks_trace_on().unwrap().name, "/a");
        plan.targets[1].group = Some("disk".into());
        plan.group_trace_on.insert("disk".into(), 1);
        assert_eq!(plan.lacks_trace_on(), None);
        plan.part.workloads = vec![0];
        let has = |target, workload| {
            plan.part.has(ValidateStep {
                target,
                workload,
                number: 0,
            })
        };
        let all = [
            has(1, None),
            has(1, Some(0)),
            has(1, Some(1)),
            has(0, Some(0)),
            has(0, None),
        ];
        assert_eq!(all, [true, true, false, false, false]);
    }

    #[test]
    fn the_digest_tells_what_is_measured_apart() {
        let digest = plan().digest();
        assert_eq!(digest.len(), 32);
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
