//! What a validation keeps as its steps end, and what a continued one finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_format::profile::SystemProfile;
use fsage_format::result::validation::{FailedStep, NotPredicted};
use fsage_format::{FormatError, record};
use serde::{Deserialize, Serialize};

use super::plan::{ValidatePlan, ValidateStep};
use super::step::{Kept, MeasuredRun};
use crate::engine::Series;
use crate::engine::record::{kept, record_path};

/// What the first line of the record says that it is of.
pub(super) const KIND: &str = "validate";

/// A step that ended, as one line of `runs.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The plan's digest.
    pub plan: String,
    /// How long all of the step took, nanoseconds; on a target in virtual time what was measured, by its
    /// clock.
    pub step_ns: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "lowercase")]
pub enum Outcome {
    /// A workload was measured.
    Run(MeasuredRun),
    /// A target was profiled.
    Profile(ProfileRun),
    /// Neither.
    Failed(FailedStep),
}

/// A profile that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRun {
    /// The target's name.
    pub target: String,
    /// Which profile of it, from 0.
    pub instance: u32,
    /// Its file in the directory.
    pub file: String,
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    /// By target and instance.
    pub profiles: BTreeMap<(usize, u32), SystemProfile>,
    /// By workload, target and run.
    pub runs: BTreeMap<(usize, usize, u32), MeasuredRun>,
    /// What failed and was passed over.
    pub failed: Vec<FailedStep>,
    /// What has no prediction.
    pub not_predicted: Vec<NotPredicted>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// How long every step took that has ended, well or not, nanoseconds.
    pub ended: BTreeMap<ValidateStep, u64>,
}

impl Measurements {
    /// The runs of a workload on a target.
    pub fn of(&self, workload: usize, target: usize) -> Vec<&MeasuredRun> {
        self.runs
            .range((workload, target, 0)..=(workload, target, u32::MAX))
            .map(|(_, run)| run)
            .collect()
    }

    /// The step that follows `first` in its series; all have ended if it is none that is wanted.
    pub fn next(&self, plan: &ValidatePlan, first: ValidateStep) -> ValidateStep {
        let of = |number| ValidateStep { number, ..first };
        let open = (0..plan.wanted(first)).find(|&number| !self.ended.contains_key(&of(number)));
        of(open.unwrap_or(u32::MAX))
    }

    /// How far the series is that begins with `first`.
    pub fn series(&self, plan: &ValidatePlan, first: ValidateStep) -> Series {
        let last = ValidateStep {
            number: u32::MAX,
            ..first
        };
        let ended = self.ended.range(first..=last);
        let (attempts, took_ns) = ended.fold((0, 0), |sum, (_, ns)| (sum.0 + 1, sum.1 + ns));
        Series {
            attempts,
            wanted: if plan.part.has(first) {
                plan.wanted(first).saturating_sub(attempts)
            } else {
                0
            },
            took_ns: if plan.is_virtual(first.target) {
                0
            } else {
                took_ns
            },
            like: match first.workload {
                None => vec!["profile".into()],
                Some(workload) => vec![format!("run {workload}"), "run".into()],
            },
        }
    }

    /// Takes a step that ended, if it is one of the plan's.
    pub fn take(&mut self, plan: &ValidatePlan, record: StepRecord) -> Result<(), FormatError> {
        let step = plan.step_of(&record.outcome);
        let Some(step) = step.filter(|step| step.number < plan.wanted(*step)) else {
            return Ok(());
        };
        let ValidateStep { target, number, .. } = step;
        match (record.outcome, step.workload) {
            (Outcome::Run(run), Some(workload)) => {
                self.runs.insert((workload, target, number), run);
            }
            (Outcome::Profile(profile), _) => {
                let path = plan.dir.join(&profile.file);
                if !path.exists() {
                    return Ok(());
                }
                let loaded = SystemProfile::load(&path)?;
                self.profiles.insert((target, number), loaded);
            }
            (Outcome::Failed(failed), _) => self.failed.push(failed),
            (Outcome::Run(_), None) => return Ok(()),
        }
        self.ended.insert(step, record.step_ns);
        Ok(())
    }

    /// Takes those of the steps that are of the plan with that digest; returns how many are of others.
    pub fn take_all(
        &mut self,
        plan: &ValidatePlan,
        digest: &str,
        records: Vec<StepRecord>,
    ) -> Result<usize, FormatError> {
        let mut others = 0;
        for record in records {
            if record.plan == digest {
                self.take(plan, record)?;
            } else {
                others += 1;
            }
        }
        Ok(others)
    }
}

/// What the plan's directory holds of the same plan. Runs without the trace that predictions need are
/// made again, and so are failed steps.
pub(super) fn resumed(plan: &ValidatePlan) -> Result<Measurements, FormatError> {
    let mut found = Measurements::default();
    let others = found.take_all(plan, &plan.digest(), kept(&plan.dir, KIND)?)?;
    if others > 0 && found.runs.is_empty() && found.profiles.is_empty() {
        return Err(FormatError::corrupt(
            &record_path(&plan.dir),
            "every record",
            "they are of another plan (other workloads, targets, profiles or seed), expected those \
             of this one; continue with the same plan or name another directory",
        ));
    }
    let Measurements {
        runs,
        profiles,
        failed,
        ended,
        ..
    } = &mut found;
    runs.retain(|(workload, target, _), _| {
        !plan.predicts_from(*target) || trace_files(plan, *target, *workload).are_there()
    });
    failed.clear();
    ended.retain(|step, _| match step.workload {
        None => profiles.contains_key(&(step.target, step.number)),
        Some(workload) => runs.contains_key(&(workload, step.target, step.number)),
    });
    Ok(found)
}

/// Where the first run of a workload on a target keeps its trace and snapshot.
pub(super) fn trace_files(plan: &ValidatePlan, target: usize, workload: usize) -> Kept {
    let file = |extension: &str| -> PathBuf {
        plan.dir
            .join(format!("workload{workload}-target{target}.{extension}"))
    };
    Kept {
        trace: file("fst"),
        snapshot: file("fss"),
    }
}

/// Removes all traces and snapshots.
pub(super) fn remove_traces(plan: &ValidatePlan) -> Result<(), FormatError> {
    for workload in 0..plan.workloads.len() {
        for target in 0..plan.targets.len() {
            let Kept { trace, snapshot } = trace_files(plan, target, workload);
            for file in [trace, snapshot].iter().filter(|file| file.exists()) {
                std::fs::remove_file(file).map_err(|e| FormatError::io("remove", file, e))?;
            }
        }
    }
    Ok(())
}

/// The file of a target's profile.
pub fn target_profile(target: usize) -> String {
    format!("target{target}.fsp")
}

/// The file of one profile of a target: the target's own where there is only one.
pub(super) fn profile_file(plan: &ValidatePlan, target: usize, instance: u32) -> String {
    if plan.profiles == 1 {
        target_profile(target)
    } else {
        format!("target{target}-instance{instance}.fsp")
    }
}

/// Writes a result, whole or not at all.
pub(super) fn save<T: Serialize>(value: &T, path: &Path) -> Result<(), FormatError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|e| FormatError::unwritable(path, e.to_string()))?;
    text.push(b'\n');
    record::write_whole(path, &text)
}
