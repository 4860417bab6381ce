//! A whole validation: every step, then the predictions, then the judgement.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::Clock;
use fsage_format::profile::SystemProfile;
use fsage_format::record::RecordWriter;
use fsage_format::result::validation::Validation;
use fsage_host::kthread::{self, Moved, WorkqueueMask};
use fsage_host::{ColdPolicy, MonotonicClock, machine};
use fsage_profile::ProfileRequest;

use super::ValidateError;
use super::merge::merge;
use super::plan::{Step, ValidatePlan};
use super::step::{Kept, MeasuredRun, measure};
use crate::profiling::profile_target;
use crate::target::OpenTarget;

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
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    /// By target, in its instances.
    pub profiles: BTreeMap<usize, Vec<SystemProfile>>,
    /// By workload and target.
    pub runs: BTreeMap<(usize, usize), Vec<MeasuredRun>>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Carries out a plan. What is measured is kept in its directory as it comes, so that an error or an
/// interruption loses nothing that was finished.
pub fn run(
    plan: &ValidatePlan,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Validation, ValidateError> {
    plan.check()?;
    std::fs::create_dir_all(&plan.dir)
        .map_err(|e| fsage_format::FormatError::io("make directory", &plan.dir, e))?;
    let (started_unix_ns, start_ns) = (machine::unix_time_ns(), MonotonicClock.now_ns());
    let mut record = RecordWriter::open(&plan.dir.join("runs.jsonl"), "validate")?;
    let steps = plan.steps();
    let _placed = plan.cpu.and_then(place_workqueues);
    let mut measured = Measurements::default();
    for (done, &step) in steps.iter().enumerate() {
        progress(&Progress {
            done,
            total: steps.len(),
            what: describe(plan, step),
        });
        match step {
            Step::Profile { target, instance } => {
                let profile = profile(plan, target, instance, stop)?;
                measured.profiles.entry(target).or_default().push(profile);
            }
            Step::Measure {
                target,
                workload,
                run,
            } => {
                let kept = (run == 0).then(|| kept(plan, target, workload));
                let result = measure(plan, target, workload, run, kept.as_ref(), stop)?;
                if result.lost > 0 {
                    measured.notes.push(format!(
                        "{} on {}: {} operations lost by the capture",
                        result.workload, result.target, result.lost
                    ));
                }
                if result.method == "ptrace" {
                    measured.notes.push(PTRACE_NOTE.into());
                }
                record.append(&result)?;
                measured
                    .runs
                    .entry((workload, target))
                    .or_default()
                    .push(result);
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ValidateError::Interrupted);
        }
    }
    let mut profiles = Vec::new();
    for (target, instances) in std::mem::take(&mut measured.profiles) {
        if let Some(profile) = merge(instances) {
            profile.save(&plan.dir.join(format!("target{target}.fsp")))?;
            profiles.push(profile);
        }
    }
    let mut validation = super::outcome::outcome(plan, &profiles, measured)?;
    validation.started_unix_ns = started_unix_ns;
    validation.elapsed_ns = MonotonicClock.now_ns().saturating_sub(start_ns);
    super::save(&validation, &plan.dir.join("validation.json"))?;
    Ok(validation)
}

/// Where the first run of a workload on a target keeps its trace and snapshot.
pub(super) fn kept(plan: &ValidatePlan, target: usize, workload: usize) -> Kept {
    let file = |extension: &str| -> PathBuf {
        plan.dir
            .join(format!("workload{workload}-target{target}.{extension}"))
    };
    Kept {
        trace: file("fst"),
        snapshot: file("fss"),
    }
}

fn profile(
    plan: &ValidatePlan,
    target: usize,
    instance: u32,
    stop: &AtomicBool,
) -> Result<SystemProfile, ValidateError> {
    let spec = &plan.targets[target];
    let open = spec.open()?;
    let request = ProfileRequest {
        quick: plan.quick,
        seed: plan.seed.wrapping_add(u64::from(instance)),
        max_time_ns: plan.profile_time_ns,
        ..ProfileRequest::default()
    };
    let name = spec.to_string();
    let _pinned = plan.cpu.map(fsage_host::thread::pin).transpose()?;
    let profile = profile_target(&open, &name, ColdPolicy::Auto, &request, &mut |_| {}, stop)?;
    open.close()?;
    if plan.profiles > 1 {
        profile.save(
            &plan
                .dir
                .join(format!("target{target}-instance{instance}.fsp")),
        )?;
    }
    Ok(profile)
}

/// Work that the kernel does for others (loop devices, write-back) on the plan's CPU. Without root it
/// stays where it is.
fn place_workqueues(cpu: usize) -> Option<WorkqueueMask> {
    kthread::confine_workqueues(&[cpu]).ok()
}

/// The journal's threads of a scratch file system on the plan's CPU. A remount makes new ones; a
/// profile places its own after each.
pub(super) fn place_threads(plan: &ValidatePlan, target: &OpenTarget) -> Vec<Moved> {
    let device = target.record().and_then(|r| r.device.file_name()?.to_str());
    match (plan.cpu, device) {
        (Some(cpu), Some(device)) => kthread::confine_of_device(device, &[cpu]),
        _ => Vec::new(),
    }
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
