//! What a validation keeps as its steps end, and what a continued one finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_format::profile::SystemProfile;
use fsage_format::record::{RecordWriter, holds_records, read_records};
use fsage_format::result::validation::FailedStep;
use fsage_format::{FormatError, record};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::eta::Pace;
use super::plan::{Step, ValidatePlan};
use super::step::{Kept, MeasuredRun};

/// What the first line of the record says that it is of.
const KIND: &str = "validate";

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
    /// Neither, and the plan goes on.
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
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What the steps took.
    pub pace: Pace,
}

impl Measurements {
    /// Whether a step needs not be made.
    pub fn has(&self, step: Step) -> bool {
        match step {
            Step::Profile { target, instance } => self.profiles.contains_key(&(target, instance)),
            Step::Measure {
                target,
                workload,
                run,
            } => self.runs.contains_key(&(workload, target, run)),
        }
    }

    /// The runs of a workload on a target.
    pub fn of(&self, workload: usize, target: usize) -> Vec<&MeasuredRun> {
        self.runs
            .range((workload, target, 0)..=(workload, target, u32::MAX))
            .map(|(_, run)| run)
            .collect()
    }
}

/// Where a validation's record is.
pub fn record_path(dir: &Path) -> PathBuf {
    dir.join("runs.jsonl")
}

/// The record, to append to.
pub(super) fn open_record(plan: &ValidatePlan) -> Result<RecordWriter, FormatError> {
    RecordWriter::open(&record_path(&plan.dir), KIND)
}

/// What the plan's directory holds of the same plan. Runs without the trace that predictions need are
/// made again, and so are failed steps.
pub(super) fn resumed(plan: &ValidatePlan) -> Result<Measurements, FormatError> {
    let mut found = Measurements::default();
    let path = record_path(&plan.dir);
    if !holds_records(&path) {
        return Ok(found);
    }
    let others = runs_of(plan, &plan.digest(), &mut found)?;
    if others > 0 && found.runs.is_empty() && found.profiles.is_empty() {
        return Err(FormatError::corrupt(
            &path,
            "every record",
            "they are of another plan (other workloads, targets, profiles or seed), expected those \
             of this one; continue with the same plan or name another directory",
        ));
    }
    for workload in 0..plan.workloads.len() {
        for target in 0..plan.targets.len() {
            let kept = trace_files(plan, target, workload);
            if !(kept.trace.exists() && kept.snapshot.exists()) {
                found
                    .runs
                    .retain(|(w, t, _), _| (*w, *t) != (workload, target));
            }
        }
    }
    Ok(found)
}

/// Takes what the record holds of the plan with that digest; returns how many records are of others.
pub(super) fn runs_of(
    plan: &ValidatePlan,
    digest: &str,
    found: &mut Measurements,
) -> Result<usize, FormatError> {
    let path = record_path(&plan.dir);
    let records = read_records::<Box<RawValue>>(&path)?;
    if records.head.kind != KIND {
        return Err(FormatError::corrupt(
            &path,
            "line 1",
            format!("it is of `{}`, expected `{KIND}`", records.head.kind),
        ));
    }
    let mut others = 0;
    for (index, text) in records.records.into_iter().enumerate() {
        let bad = |e: serde_json::Error| {
            FormatError::corrupt(&path, format!("record {}", index + 1), e.to_string())
        };
        let value: Value = serde_json::from_str(text.get()).map_err(bad)?;
        if value.get("plan").and_then(Value::as_str) != Some(digest) {
            others += 1;
            continue;
        }
        let record: StepRecord = serde_json::from_value(value).map_err(bad)?;
        take(plan, record, found)?;
    }
    Ok(others)
}

fn take(
    plan: &ValidatePlan,
    record: StepRecord,
    found: &mut Measurements,
) -> Result<(), FormatError> {
    let target_of = |name: &str| plan.targets.iter().position(|t| t.name == name);
    let workload_of = |name: &str| plan.workloads.iter().position(|w| w.name == name);
    match record.outcome {
        Outcome::Run(run) => {
            let place = workload_of(&run.workload).zip(target_of(&run.target));
            if let (Some((workload, target)), true) = (place, run.run < plan.runs) {
                let step = Step::Measure {
                    target,
                    workload,
                    run: run.run,
                };
                found.pace.add(step, record.step_ns);
                found.runs.insert((workload, target, run.run), run);
            }
        }
        Outcome::Profile(profile) => {
            let path = plan.dir.join(&profile.file);
            if let (Some(target), true) = (target_of(&profile.target), path.exists()) {
                let instance = profile.instance;
                found
                    .pace
                    .add(Step::Profile { target, instance }, record.step_ns);
                let loaded = SystemProfile::load(&path)?;
                found.profiles.insert((target, instance), loaded);
            }
        }
        Outcome::Failed(_) => {}
    }
    Ok(())
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
