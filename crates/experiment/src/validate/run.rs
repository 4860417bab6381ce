//! A whole validation: every step, then the predictions, then the judgement.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::Clock;
use fsage_core::ColdPolicy;
use fsage_format::profile::SystemProfile;
use fsage_format::result::validation::{FailedStep, VALIDATION_FILE, Validation};
use fsage_host::{MonotonicClock, machine};
use fsage_profile::ProfileRequest;

use super::ValidateError;
use super::kept::{
    Measurements, Outcome, ProfileRun, StepRecord, open_record, profile_file, resumed, save,
    target_profile, trace_files,
};
use super::merge::merge;
use super::plan::{Step, ValidatePlan};
use super::step::measure;
use crate::alone::alone;
use crate::one_cpu::OneCpu;
use crate::profiling::profile_target;

/// What a reader of figures must know that were measured without privileges.
const PTRACE_NOTE: &str = "measured under ptrace, whose stops put some microseconds, and under load \
    tens of them, on every call: the errors say as much of the tracer as of the prediction; as root \
    eBPF measures instead";

/// How far a validation is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Steps that are done.
    pub done: usize,
    /// Steps there are.
    pub total: usize,
    /// What is done now.
    pub what: String,
    /// How long the rest takes, seconds; `None` before the first step has ended.
    pub eta_s: Option<f64>,
}

/// Carries out a plan. What is measured is kept in its directory as it comes, so that an error or an
/// interruption loses nothing that was finished. Interrupted, it judges what there is, says so in the result
/// and leaves the directory's own result as it was.
pub fn run(
    plan: &ValidatePlan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Validation, ValidateError> {
    plan.check()?;
    std::fs::create_dir_all(&plan.dir)
        .map_err(|e| fsage_format::FormatError::io("make directory", &plan.dir, e))?;
    let _alone = alone(&plan.dir)?;
    let (started_unix_ns, start_ns) = (machine::unix_time_ns(), MonotonicClock.now_ns());
    let mut found = if plan.resume {
        resumed(plan)?
    } else {
        Measurements::default()
    };
    let mut record = open_record(plan)?;
    let digest = plan.digest();
    let one_cpu = plan.cpu.map(OneCpu::keep);
    let all = plan.steps();
    let steps: Vec<Step> = all.iter().copied().filter(|s| !found.has(*s)).collect();
    let (mut interrupted, mut steps_ns) = (false, 0);
    for (index, &step) in steps.iter().enumerate() {
        let mut now = Progress {
            done: all.len() - steps.len() + index,
            total: all.len(),
            what: describe(plan, step),
            eta_s: found.pace.remaining_s(&steps[index..]),
        };
        progress(&now);
        let began_ns = MonotonicClock.now_ns();
        let what = now.what.clone();
        let mut detail = |text: &str| {
            now.what = format!("{what}: {text}");
            progress(&now);
        };
        let outcome = one_step(plan, step, &mut found, one_cpu.as_ref(), &mut detail, stop);
        // What fails while fsage stops, fails because of it.
        interrupted = stop.load(Ordering::Relaxed);
        if interrupted {
            break;
        }
        let outcome = match outcome {
            Err(error) if plan.keep_going => passed_over(plan, step, &error),
            other => other?,
        };
        let took_ns = MonotonicClock.now_ns().saturating_sub(began_ns);
        let step_ns = computed_ns(plan, step, &outcome, &found).unwrap_or(took_ns);
        steps_ns += step_ns;
        let entry = StepRecord {
            plan: digest.clone(),
            step_ns,
            outcome,
        };
        record.append(&entry)?;
        found.pace.add(step, took_ns);
        settle(&mut found, step, entry.outcome);
    }
    let profiles = profiles(plan, &mut found)?;
    let mut validation = super::outcome::outcome(plan, &profiles, found)?;
    validation.interrupted = interrupted || stop.load(Ordering::Relaxed);
    validation.started_unix_ns = started_unix_ns;
    validation.elapsed_ns = if plan.targets.iter().all(|t| t.spec.has_virtual_time()) {
        steps_ns
    } else {
        MonotonicClock.now_ns().saturating_sub(start_ns)
    };
    if !validation.interrupted {
        save(&validation, &plan.dir.join(VALIDATION_FILE))?;
    }
    Ok(validation)
}

/// How long a step took by the clock of a target in virtual time: the machine's says nothing of it.
fn computed_ns(
    plan: &ValidatePlan,
    step: Step,
    outcome: &Outcome,
    found: &Measurements,
) -> Option<u64> {
    let (Step::Profile { target, .. } | Step::Measure { target, .. }) = step;
    let is_virtual = plan.targets.get(target)?.spec.has_virtual_time();
    is_virtual.then(|| match outcome {
        Outcome::Run(run) => run.elapsed_ns,
        Outcome::Profile(profile) => {
            let made = found.profiles.get(&(target, profile.instance));
            made.map_or(0, |made| made.measurement.elapsed_ns)
        }
        Outcome::Failed(_) => 0,
    })
}

/// Makes one step. A profile is put where it belongs at once, everything else by [`settle`].
fn one_step(
    plan: &ValidatePlan,
    step: Step,
    found: &mut Measurements,
    one_cpu: Option<&OneCpu>,
    detail: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<Outcome, ValidateError> {
    match step {
        Step::Profile { target, instance } => {
            let profile = profile(plan, (target, instance), one_cpu, detail, stop)?;
            let file = profile_file(plan, target, instance);
            // A part of a profile is no profile of the target.
            if !stop.load(Ordering::Relaxed) {
                profile.save(&plan.dir.join(&file))?;
                found.profiles.insert((target, instance), profile);
            }
            Ok(Outcome::Profile(ProfileRun {
                target: plan.targets[target].to_string(),
                instance,
                file,
            }))
        }
        Step::Measure {
            target,
            workload,
            run,
        } => {
            // The first that ends well keeps its trace.
            let first = found.of(workload, target).is_empty();
            let kept = first.then(|| trace_files(plan, target, workload));
            let place = (target, workload, run);
            measure(plan, place, kept.as_ref(), one_cpu, stop).map(Outcome::Run)
        }
    }
}

fn passed_over(plan: &ValidatePlan, step: Step, error: &ValidateError) -> Outcome {
    let (target, workload, run) = match step {
        Step::Profile { target, instance } => (target, None, instance),
        Step::Measure {
            target,
            workload,
            run,
        } => (target, Some(plan.workloads[workload].to_string()), run),
    };
    Outcome::Failed(FailedStep {
        target: plan.targets[target].to_string(),
        workload,
        run,
        error: format!("failed to {error}"),
    })
}

fn settle(found: &mut Measurements, step: Step, outcome: Outcome) {
    match (step, outcome) {
        (
            Step::Measure {
                target,
                workload,
                run,
            },
            Outcome::Run(result),
        ) => {
            found.runs.insert((workload, target, run), result);
        }
        (_, Outcome::Failed(failed)) => found.failed.push(failed),
        _ => {}
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

fn profile(
    plan: &ValidatePlan,
    (target, instance): (usize, u32),
    one_cpu: Option<&OneCpu>,
    detail: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<SystemProfile, ValidateError> {
    let target = &plan.targets[target];
    let open = target.spec.open()?;
    let request = ProfileRequest {
        quick: plan.quick,
        seed: plan.seed.wrapping_add(u64::from(instance)),
        max_time_ns: plan.profile_time_ns,
        ..ProfileRequest::default()
    };
    let mut progress =
        |step: fsage_profile::Progress<'_>| detail(&format!("{} {}", step.group, step.metric));
    let mut profile = profile_target(
        &*open,
        &*target.spec,
        ColdPolicy::Auto,
        &request,
        one_cpu,
        &mut progress,
        stop,
    )
    .map_err(|source| ValidateError::Profiling {
        target: target.to_string(),
        source,
    })?;
    open.close()?;
    profile.name.clone_from(&target.name);
    Ok(profile)
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

fn describe(plan: &ValidatePlan, step: Step) -> String {
    match step {
        Step::Profile { target, .. } => format!("profile {}", plan.targets[target]),
        Step::Measure {
            target,
            workload,
            run,
        } => {
            format!(
                "run {} of {} on {}",
                run + 1,
                plan.workloads[workload],
                plan.targets[target]
            )
        }
    }
}
