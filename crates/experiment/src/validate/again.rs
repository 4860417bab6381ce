//! A validation judged again by what it kept, without measuring.

use std::path::Path;

use fsage_core::TargetError;
use fsage_format::profile::SystemProfile;
use fsage_format::result::validation::{
    NamedSpec, NamedTarget as KeptTarget, VALIDATION_FILE, Validation,
};
use fsage_format::{FormatError, result};

use super::ValidateError;
use super::kept::{KIND, Measurements, target_profile, trace_files};
use super::outcome::outcome;
use super::plan::ValidatePlan;
use crate::engine::record::recorded;
use crate::plan::{CacheState, NamedTarget, NamedWorkload};
use crate::target::schemes;

/// Predicts and judges again what `dir` holds of a validation that has ended. Nothing is written. Returns
/// what was said when it ended, and what is said now. Fails where its traces, profiles or record are gone.
pub fn again(dir: &Path) -> Result<(Validation, Validation), ValidateError> {
    let file = dir.join(VALIDATION_FILE);
    let before: Validation = result::load(&file)?;
    let plan = planned(&before, dir)?;
    let mut found = Measurements::default();
    found.take_all(&plan, &before.plan, recorded(dir, KIND)?)?;
    found.failed.clone_from(&before.failed);
    // As older results keep what could not be predicted: it is tried again.
    found
        .failed
        .retain(|step| !step.error.starts_with("failed to predict"));
    for (workload, source, _) in found.runs.keys() {
        let files = trace_files(&plan, *source, *workload);
        if plan.predicts_from(*source) && !files.are_there() {
            return Err(ValidateError::NoTraces(files.trace));
        }
    }
    let profile = |target| {
        let path = dir.join(target_profile(target));
        path.exists()
            .then(|| SystemProfile::load(&path))
            .transpose()
    };
    let profiles: Vec<_> = (0..plan.targets.len())
        .map(profile)
        .collect::<Result<_, _>>()?;
    let mut after = outcome(&plan, &profiles, found)?;
    after.plan.clone_from(&before.plan);
    after.started_unix_ns = before.started_unix_ns;
    after.elapsed_ns = before.elapsed_ns;
    Ok((before, after))
}

/// The plan that a result tells of.
fn planned(reported: &Validation, dir: &Path) -> Result<ValidatePlan, ValidateError> {
    let bad = |what: String| FormatError::corrupt(&dir.join(VALIDATION_FILE), "its plan", what);
    let workload = |w: &NamedSpec| {
        let spec = w
            .spec
            .parse()
            .map_err(|e| bad(format!("workload {}: {e}", w.name)))?;
        Ok(NamedWorkload {
            name: w.name.clone(),
            spec,
            setup: w.setup.clone(),
        })
    };
    let target = |t: &KeptTarget| {
        let spec = schemes().parse(&t.spec);
        let spec = spec.map_err(|e: TargetError| bad(format!("target {}: {e}", t.name)))?;
        Ok(NamedTarget {
            name: t.name.clone(),
            spec,
            group: t.group.clone(),
        })
    };
    let workloads: Result<_, FormatError> = reported.workloads.iter().map(workload).collect();
    let targets: Result<Vec<_>, FormatError> = reported.targets.iter().map(target).collect();
    let targets = targets?;
    let place = |name: &str| {
        let place = targets.iter().position(|t: &NamedTarget| t.name == name);
        place.ok_or_else(|| {
            bad(format!(
                "it predicts from a trace on `{name}`, expected one of its targets"
            ))
        })
    };
    let cache = [CacheState::Cold, CacheState::Warm];
    let cache = cache
        .into_iter()
        .find(|state| state.name() == reported.cache);
    let mut plan = ValidatePlan {
        half: reported.half.clone(),
        runs: reported.runs,
        seed: reported.seed,
        cpu: reported.cpu,
        cache: cache.unwrap_or_default(),
        trace_on: place(&reported.trace_on)?,
        ..ValidatePlan::new(workloads?, Vec::new(), dir.to_owned(), Vec::new())
    };
    for target in &reported.targets {
        if let Some(group) = &target.group {
            let traced_on = place(&target.trace_on)?;
            plan.group_trace_on.insert(group.clone(), traced_on);
        }
    }
    plan.targets = targets;
    Ok(plan)
}
