//! A whole evaluation: every run, then the judgement.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::Clock;
use fsage_format::FormatError;
use fsage_format::result::evaluation::{Evaluation, FailedSide};
use fsage_host::MonotonicClock;
use serde::{Deserialize, Serialize};

use super::judge::{judge, left_out};
use super::plan::{EvaluatePlan, Side, TargetCaches};
use super::step::{SideRun, measure};
use crate::engine::record::{Results, kept, record_path};
use crate::engine::{Ended, ExperimentError, How, Progress, Series, Verb, With, carry_out};

/// What the first line of the record says that it is of.
const KIND: &str = "evaluate";

/// A run that ended, as one line of `runs.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SideStep {
    /// The plan's digest.
    plan: String,
    /// How long all of the step took, nanoseconds.
    took_ns: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "lowercase")]
enum Outcome {
    Run(Box<SideRun>),
    Failed(FailedSide),
}

/// The runs of a side on a target.
pub(super) type Runs = BTreeMap<(usize, Side), Vec<SideRun>>;

/// Carries out a plan. What is measured is kept in its directory as it comes. Interrupted, it judges what there is
/// and says so.
pub fn run(
    plan: &EvaluatePlan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Evaluation, ExperimentError> {
    plan.check()?;
    let results = Results::open(&plan.dir, KIND)?;
    let mut making = Evaluating {
        plan,
        digest: plan.digest(),
        caches: plan.caches()?,
        runs: Runs::new(),
        failed: Vec::new(),
        ended: BTreeMap::new(),
    };
    if plan.resume {
        making.resume(&plan.dir)?;
    }
    let how = How {
        seed: plan.seed,
        keep_going: plan.keep_going,
        cpu: None,
        resident: (0..plan.targets.len()).any(|target| !plan.is_virtual(target)),
        stop,
    };
    let ended = carry_out(&mut making, &mut results.record()?, how, progress)?;
    if let Ended::AfterFailure(why) = ended {
        return Err(why);
    }
    let mut evaluation = judge(plan, &making.runs, making.failed);
    evaluation.left_out = left_out(&making.runs);
    for (target, caches) in plan.targets.iter().zip(&making.caches) {
        if caches.lacks_cold {
            evaluation.warnings.push(format!(
                "{target}: its caches cannot be made cold here; both sides began with what their set-up left in them"
            ));
        }
    }
    evaluation.interrupted = stop.load(Ordering::Relaxed);
    Ok(evaluation)
}

struct Evaluating<'a> {
    plan: &'a EvaluatePlan,
    digest: String,
    /// Of each target.
    caches: Vec<TargetCaches>,
    runs: Runs,
    failed: Vec<FailedSide>,
    /// How many steps have ended and how long they took, nanoseconds.
    ended: BTreeMap<(usize, Side), (u32, u64)>,
}

/// What the steps of a series make.
fn of(series: usize) -> (usize, Side) {
    let side = if series.is_multiple_of(2) {
        Side::Original
    } else {
        Side::Model
    };
    (series / 2, side)
}

impl Evaluating<'_> {
    /// Takes what the directory holds of the same plan; failed runs are made again.
    fn resume(&mut self, dir: &Path) -> Result<(), ExperimentError> {
        let steps: Vec<SideStep> = kept(dir, KIND)?;
        let found = steps.len();
        let ours = steps.into_iter().filter(|step| step.plan == self.digest);
        let ours: Vec<SideStep> = ours.collect();
        if ours.is_empty() && found > 0 {
            return Err(FormatError::corrupt(
                &record_path(dir),
                "every record",
                "they are of another evaluation (another original, model, target or seed), expected those of this \
                 one; continue with the same or name another directory",
            )
            .into());
        }
        for step in ours {
            if matches!(step.outcome, Outcome::Run(_)) {
                self.take(step)?;
            }
        }
        Ok(())
    }

    fn number(&self, of: (usize, Side)) -> u32 {
        self.ended.get(&of).map_or(0, |ended| ended.0)
    }
}

impl Verb for Evaluating<'_> {
    type Entry = SideStep;
    type Failure = ExperimentError;

    fn series(&self) -> Vec<Series> {
        let series = |at| {
            let (target, side) = of(at);
            let (attempts, took_ns) = self.ended.get(&(target, side)).copied().unwrap_or((0, 0));
            Series {
                attempts,
                wanted: self.plan.wanted(target).saturating_sub(attempts),
                took_ns,
                like: vec![format!("target {target}"), side.name().into()],
            }
        };
        (0..2 * self.plan.targets.len()).map(series).collect()
    }

    fn describe(&self, series: usize) -> String {
        let (target, side) = of(series);
        let name = self.plan.targets.get(target).map_or("", |t| &t.name);
        let run = self.number((target, side)) + 1;
        format!("run {run} of the {} on {name}", side.name())
    }

    fn make(&mut self, series: usize, with: With<'_>) -> Result<Vec<SideStep>, ExperimentError> {
        let (target, side) = of(series);
        let began_ns = MonotonicClock.now_ns();
        let Some(&caches) = self.caches.get(target) else {
            return Err(ExperimentError::Plan("there is no such target".into()));
        };
        let number = self.number((target, side));
        let run = measure(self.plan, (target, side, number), caches, with.stop)?;
        Ok(vec![SideStep {
            plan: self.digest.clone(),
            took_ns: MonotonicClock.now_ns().saturating_sub(began_ns),
            outcome: Outcome::Run(Box::new(run)),
        }])
    }

    fn failed(&self, series: usize, failure: &ExperimentError, took_ns: u64) -> SideStep {
        let (target, side) = of(series);
        let spec = self.plan.targets.get(target).map(|t| t.spec.to_string());
        SideStep {
            plan: self.digest.clone(),
            took_ns,
            outcome: Outcome::Failed(FailedSide {
                target: spec.unwrap_or_default(),
                side: side.name().into(),
                run: self.number((target, side)),
                reason: format!("failed to {failure}"),
            }),
        }
    }

    fn take(&mut self, step: SideStep) -> Result<(), FormatError> {
        let (spec, side) = match &step.outcome {
            Outcome::Run(run) => (&run.target, Some(run.side)),
            Outcome::Failed(failed) => {
                let side = Side::ALL
                    .into_iter()
                    .find(|side| side.name() == failed.side);
                (&failed.target, side)
            }
        };
        let mut targets = self.plan.targets.iter();
        let place = targets.position(|target| target.spec.to_string() == *spec);
        let Some(of) = place.zip(side) else {
            return Ok(());
        };
        if let Outcome::Run(run) = &step.outcome {
            // One that stands in the record twice was made once.
            let mut known = self.runs.get(&of).into_iter().flatten();
            if known.any(|known| (known.run, known.start_unix_ns) == (run.run, run.start_unix_ns)) {
                return Ok(());
            }
        }
        let ended = self.ended.entry(of).or_default();
        (ended.0, ended.1) = (ended.0 + 1, ended.1 + step.took_ns);
        match step.outcome {
            Outcome::Run(run) => self.runs.entry(of).or_default().push(*run),
            Outcome::Failed(failed) => self.failed.push(failed),
        }
        Ok(())
    }
}
