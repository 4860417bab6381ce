//! Programs of generators that go step by step.

use std::borrow::Cow;
use std::ops::Range;

use fsage_core::{Op, PathTable, SourceError};

use crate::ops::Ops;
use crate::program::{Length, Phase, Program, Role, Staged, Stream, stages};

/// A generator works this many operations ahead of the target at the least: enough to make the call
/// cheap, few enough that a run which ends by time ends soon.
const AHEAD: usize = 32;

/// A generator of one process whose phases are parts of one history. Each step ends in a state that
/// later stages can build on: a run may be stopped behind it.
pub trait Steps: Send + 'static {
    /// Appends the operations of step `index` of `stage`; false if the stage has ended before it.
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool;
}

/// One phase of a workload whose processes are alike.
#[derive(Debug, Clone)]
pub struct Plan {
    role: Role,
    name: Cow<'static, str>,
    cold: bool,
    laid_out: Vec<Vec<u8>>,
}

impl Plan {
    /// The same, after which it is told how these files, or files of these directories, lie.
    pub fn laid_out(self, laid_out: Vec<Vec<u8>>) -> Self {
        Self { laid_out, ..self }
    }
}

/// A phase of set-up.
pub fn setup(name: impl Into<Cow<'static, str>>) -> Plan {
    Plan {
        role: Role::Setup,
        name: name.into(),
        cold: false,
        laid_out: Vec::new(),
    }
}

/// A phase that is measured, with caches as they are.
pub fn run(name: impl Into<Cow<'static, str>>) -> Plan {
    Plan {
        role: Role::Run,
        ..setup(name)
    }
}

/// A phase that is measured, with cold caches at its start.
pub fn run_cold(name: impl Into<Cow<'static, str>>) -> Plan {
    Plan {
        cold: true,
        ..run(name)
    }
}

/// The program of processes that all go through `plans`, stage by stage, and then remove what is
/// left of what they made. No directory may be shared between processes.
pub fn program<G: Steps>(
    workload: &'static str,
    processes: Vec<G>,
    plans: Vec<Plan>,
    length: Length,
) -> Program {
    let stages = plans.len();
    let setups = plans.iter().filter(|p| p.role == Role::Setup).count();
    let mut streams: Vec<_> = (1..)
        .zip(processes)
        .map(|(process, generator)| {
            let mut stepped = Stepped::new(workload, process, generator, stages);
            if length == Length::Endless {
                stepped.endless = setups..stages;
            }
            self::stages(stepped, stages + 1).into_iter()
        })
        .collect();
    let mut take = |plan: Plan| Phase {
        role: plan.role,
        name: plan.name,
        cold: plan.cold,
        laid_out: plan.laid_out,
        streams: streams
            .iter_mut()
            .filter_map(|stages| Some(Box::new(stages.next()?) as Stream))
            .collect(),
    };
    let mut phases: Vec<Phase> = plans.into_iter().map(&mut take).collect();
    phases.push(take(Plan {
        role: Role::Teardown,
        ..setup("remove")
    }));
    Program::new(phases)
}

/// As [`program`] for one process; a run without end goes through the measured phases again and
/// again as one phase called `cycle` and removes what they made in between.
pub fn repeated<G: Steps>(
    workload: &'static str,
    generator: G,
    plans: Vec<Plan>,
    length: Length,
) -> Program {
    if length != Length::Endless {
        return program(workload, vec![generator], plans, length);
    }
    let setups = plans.iter().filter(|p| p.role == Role::Setup).count();
    let cycle = Cycle {
        generator,
        setups,
        stages: plans.len(),
        at: (setups, 0),
        kept: None,
    };
    let mut plans = plans;
    plans.truncate(setups);
    plans.push(run("cycle"));
    program(workload, vec![cycle], plans, length)
}

/// A generator whose measured stages are one without end.
#[derive(Debug)]
struct Cycle<G> {
    generator: G,
    setups: usize,
    stages: usize,
    /// The stage, and the step in it.
    at: (usize, u64),
    /// What there was before the first measured stage.
    kept: Option<u64>,
}

impl<G: Steps> Steps for Cycle<G> {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage < self.setups {
            return self.generator.step(stage, index, ops);
        }
        let kept = *self.kept.get_or_insert(ops.made);
        let before = ops.out.len();
        // Behind the last stage what the cycle made is removed; a cycle that does nothing ends.
        for _ in 0..self.stages + 2 {
            let (at, step) = self.at;
            let more = if at < self.stages {
                self.generator.step(at, step, ops)
            } else {
                ops.remove_one(kept)
            };
            self.at = match more {
                true => (at, step + 1),
                false if at < self.stages => (at + 1, 0),
                false => (self.setups, 0),
            };
            if more || ops.out.len() > before {
                return true;
            }
        }
        false
    }
}

/// [`Steps`] as a [`Staged`] source, with a stage behind the last that removes what is left.
#[derive(Debug)]
pub struct Stepped<G> {
    generator: G,
    ops: Ops,
    stages: usize,
    endless: Range<usize>,
    stage: usize,
    index: u64,
    ended: bool,
}

impl<G: Steps> Stepped<G> {
    /// The source of process number `process` (from 1) of the workload, whose generator has `stages`
    /// stages.
    pub fn new(workload: &'static str, process: u32, generator: G, stages: usize) -> Self {
        Self {
            generator,
            ops: Ops::new(workload, process),
            stages,
            endless: 0..0,
            stage: usize::MAX,
            index: 0,
            ended: false,
        }
    }
}

impl<G: Steps> Staged for Stepped<G> {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, stage: usize, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        if self.stage != stage {
            (self.stage, self.index, self.ended) = (stage, 0, false);
            // What an earlier stage left open was closed with its stream.
            self.ops.open.clear();
        }
        while self.ops.out.len() < AHEAD && self.ops.failed.is_none() && !self.ended {
            self.ended = if stage < self.stages {
                !self.generator.step(stage, self.index, &mut self.ops)
            } else {
                !self.ops.remove_one(0)
            };
            self.index += 1;
        }
        self.ops.give(batch)
    }

    fn skip(&mut self, stage: usize) -> Result<(), SourceError> {
        if self.endless.contains(&stage) {
            return Err(SourceError::new(format!(
                "a run of workload '{}' without an end leaves nothing that a phase of its own could \
                 know; expected run and teardown together",
                self.ops.workload
            )));
        }
        let mut batch = Vec::new();
        while self.next_batch(stage, &mut batch)? > 0 {
            batch.clear();
        }
        Ok(())
    }
}
