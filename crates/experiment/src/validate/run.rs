//! A whole validation: every step, then the predictions, then the judgement.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Clock, ColdPolicy};
use fsage_format::profile::SystemProfile;
use fsage_format::result::validation::{VALIDATION_FILE, Validation};
use fsage_format::{FileKind, FormatError};
use fsage_host::{MonotonicClock, machine};
use fsage_profile::ProfileRequest;

use super::ValidateError;
use super::kept::{
    KIND, Measurements, Outcome, ProfileRun, StepRecord, profile_file, remove_traces, resumed,
    save, target_profile, trace_files,
};
use super::merge::merge;
use super::plan::{ValidatePlan, ValidateStep};
use super::step::measure;
use crate::engine::record::Results;
use crate::engine::{Ended, How, Progress, Series, Verb, With, carry_out};
use crate::plan::KeepTraces;
use crate::profiling::profile_target;

/// What a reader of figures must know that were measured without privileges.
const PTRACE_NOTE: &str = "measured under ptrace, whose stops put some microseconds, and under load \
    tens of them, on every call: the errors say as much of the tracer as of the prediction; as root \
    eBPF measures instead";

/// Carries out a plan. What is measured is kept in its directory as it comes, so that an error or an
/// interruption loses nothing that was finished. Interrupted, it judges what there is, says so in the result
/// and leaves the directory's own result as it was.
pub fn run(
    plan: &ValidatePlan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Validation, ValidateError> {
    plan.check()?;
    let results = Results::open(&plan.dir, KIND)?;
    let result_file = results.result(VALIDATION_FILE, FileKind::Validation)?;
    let (started_unix_ns, start_ns) = (machine::unix_time_ns(), MonotonicClock.now_ns());
    let mut making = Validating {
        plan,
        digest: plan.digest(),
        found: if plan.resume {
            resumed(plan)?
        } else {
            Measurements::default()
        },
    };
    let all_virtual = (0..plan.targets.len()).all(|target| plan.is_virtual(target));
    let how = How {
        seed: plan.seed,
        keep_going: plan.keep_going,
        cpu: plan.cpu,
        resident: !all_virtual,
        stop,
    };
    let ended = carry_out(&mut making, &mut results.record()?, how, progress)?;
    if let Ended::AfterFailure(why) = ended {
        return Err(why);
    }
    let mut found = making.found;
    let computed_ns = found.ended.values().sum();
    let profiles = profiles(plan, &mut found)?;
    let mut validation = super::outcome::outcome(plan, &profiles, found)?;
    validation.interrupted = stop.load(Ordering::Relaxed);
    validation.started_unix_ns = started_unix_ns;
    validation.elapsed_ns = if all_virtual {
        computed_ns
    } else {
        MonotonicClock.now_ns().saturating_sub(start_ns)
    };
    if !validation.interrupted {
        save(&validation, &result_file)?;
        if plan.keep_traces == KeepTraces::None {
            remove_traces(plan)?;
        }
    }
    Ok(validation)
}

/// A validation that is being carried out.
struct Validating<'a> {
    plan: &'a ValidatePlan,
    digest: String,
    found: Measurements,
}

impl Validating<'_> {
    /// The next step of a series.
    fn step(&self, series: usize) -> ValidateStep {
        let first = self.plan.firsts().nth(series);
        self.found.next(self.plan, first.unwrap_or_default())
    }
}

impl Verb for Validating<'_> {
    type Entry = StepRecord;
    type Failure = ValidateError;

    fn series(&self) -> Vec<Series> {
        let of = |first| self.found.series(self.plan, first);
        self.plan.firsts().map(of).collect()
    }

    fn describe(&self, series: usize) -> String {
        let step = self.step(series);
        let target = &self.plan.targets[step.target];
        match step.workload {
            None => format!("profile {target}"),
            Some(workload) => {
                let workload = &self.plan.workloads[workload];
                format!("run {} of {workload} on {target}", step.number + 1)
            }
        }
    }

    fn make(&mut self, series: usize, with: With<'_>) -> Result<Vec<StepRecord>, ValidateError> {
        let (plan, step) = (self.plan, self.step(series));
        let began_ns = MonotonicClock.now_ns();
        let (outcome, computed_ns) = match step.workload {
            None => profile(plan, step, with)?,
            Some(workload) => {
                let wanted =
                    plan.keep_traces == KeepTraces::Compressed || plan.predicts_from(step.target);
                // The first that ends well keeps its trace.
                let kept = wanted && self.found.of(workload, step.target).is_empty();
                let kept = kept.then(|| trace_files(plan, step.target, workload));
                let place = (step.target, workload, step.number);
                let run = measure(plan, place, kept.as_ref(), with.one_cpu, with.stop)?;
                let elapsed_ns = run.elapsed_ns;
                (Outcome::Run(run), elapsed_ns)
            }
        };
        Ok(vec![StepRecord {
            plan: self.digest.clone(),
            // The machine's clock says nothing of time that is computed.
            step_ns: if plan.is_virtual(step.target) {
                computed_ns
            } else {
                MonotonicClock.now_ns().saturating_sub(began_ns)
            },
            outcome,
        }])
    }

    fn failed(&self, series: usize, failure: &ValidateError, took_ns: u64) -> StepRecord {
        let step = self.step(series);
        let is_virtual = self.plan.is_virtual(step.target);
        let error = format!("failed to {failure}");
        StepRecord {
            plan: self.digest.clone(),
            step_ns: if is_virtual { 0 } else { took_ns },
            outcome: Outcome::Failed(self.plan.failed(step, error)),
        }
    }

    fn take(&mut self, entry: StepRecord) -> Result<(), FormatError> {
        self.found.take(self.plan, entry)
    }
}

/// One profile of each target, from its instances, kept; `None` for a target without any.
fn profiles(
    plan: &ValidatePlan,
    found: &mut Measurements,
) -> Result<Vec<Option<SystemProfile>>, ValidateError> {
    let mut instances = std::mem::take(&mut found.profiles);
    let mut profiles = Vec::new();
    for target in 0..plan.targets.len() {
        let of_target = (0..plan.profiles)
            .filter_map(|instance| instances.remove(&(target, instance)))
            .collect();
        let merged = merge(of_target);
        if let Some(profile) = &merged {
            profile.save(&plan.dir.join(target_profile(target)))?;
        }
        profiles.push(merged);
    }
    Ok(profiles)
}

/// Makes a profile; returns how long it took by the target's own clock too.
fn profile(
    plan: &ValidatePlan,
    step: ValidateStep,
    with: With<'_>,
) -> Result<(Outcome, u64), ValidateError> {
    let (target, instance) = (&plan.targets[step.target], step.number);
    let open = target.spec.open()?;
    let request = ProfileRequest {
        quick: plan.quick,
        seed: plan.seed.wrapping_add(u64::from(instance)),
        max_time_ns: plan.profile_time_ns,
        ..ProfileRequest::default()
    };
    let detail = with.detail;
    let mut progress = |step: fsage_profile::Progress<'_>| detail(step.metric);
    let mut profile = profile_target(
        &*open,
        &*target.spec,
        ColdPolicy::Auto,
        &request,
        with.one_cpu,
        &mut progress,
        with.stop,
    )
    .map_err(|source| ValidateError::Profiling {
        target: target.to_string(),
        source,
    })?;
    open.close()?;
    profile.name.clone_from(&target.name);
    let file = profile_file(plan, step.target, instance);
    // A part of a profile is no profile of the target.
    if !with.stop.load(Ordering::Relaxed) {
        profile.save(&plan.dir.join(&file))?;
    }
    let made = ProfileRun {
        target: target.to_string(),
        instance,
        file,
    };
    Ok((Outcome::Profile(made), profile.measurement.elapsed_ns))
}

/// What a reader must know of the runs.
pub(super) fn notes(found: &Measurements) -> Vec<String> {
    let mut notes = found.notes.clone();
    for run in found.runs.values() {
        if run.held_back_ns > 0 {
            notes.push(format!(
                "{} on {}: the capture held its calls back by {:.2} % of its time, so that none was lost",
                run.workload,
                run.target,
                100.0 * run.held_back_share()
            ));
        }
        if run.lost > 0 {
            notes.push(format!(
                "{} on {}: {} operations lost by the capture",
                run.workload, run.target, run.lost
            ));
        }
        if run.method == "ptrace" {
            notes.push(PTRACE_NOTE.into());
        }
    }
    notes.sort();
    notes.dedup();
    notes
}
