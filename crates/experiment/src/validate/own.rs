//! One measured run where no tracer sees what happens: fsage's own calls, as it measures them.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Place, Target};
use fsage_exec::Door;
use fsage_format::trace::TraceMeta;
use fsage_host::machine;
use fsage_workload::{Phase, Role};

use super::ValidateError;
use super::plan::ValidatePlan;
use super::step::{Kept, MeasuredRun, settle};
use crate::measured::{METHOD, MeasuredError, MeasuredTrace, Sealed, trace_root};
use crate::plan::{NamedTarget, NamedWorkload};
use crate::running::{
    self, RunRequest, RunningError, describe_cold, execute_to, fs_options, make_cold, trace_meta,
};
use crate::tree::write_target_snapshot;

/// Phases are not told by their points.
const ONE_POINT_NS: u64 = u64::MAX;

/// A run in the making.
struct Run<'a> {
    names: (&'a NamedWorkload, &'a NamedTarget),
    request: RunRequest,
    open: Box<dyn Target>,
    place: Box<dyn Place>,
    stop: &'a AtomicBool,
}

/// Makes one run. With `kept`, the trace and a snapshot of the directory before the run are written.
pub(super) fn measure(
    plan: &ValidatePlan,
    (target, workload, run): (usize, usize, u32),
    kept: Option<&Kept>,
    stop: &AtomicBool,
) -> Result<MeasuredRun, ValidateError> {
    let (target, workload) = (&plan.targets[target], &plan.workloads[workload]);
    let open = target.spec.open()?;
    let full_speed = open.full_speed();
    let place = open.place(".fsage-run-")?;
    let names = (workload, target);
    let request = RunRequest::of(workload.spec.clone());
    let (phases, run_for_ns) = running::program(&request).map_err(|e| failed(names, e))?;
    let made = Run {
        names,
        request: RunRequest {
            run_for_ns,
            ..request
        },
        open,
        place,
        stop,
    };
    let (setup, rest): (Vec<_>, Vec<_>) = phases.into_iter().partition(|p| p.role == Role::Setup);
    made.phases(None, setup)?;
    let mut cold = settle(plan, &*made.open);
    if let Some(kept) = kept {
        write_target_snapshot(&*made.place, &kept.snapshot, stop)?;
        // Walking the tree has warmed its names again.
        cold = settle(plan, &*made.open);
    }
    drop(full_speed);
    let start_unix_ns = machine::unix_time_ns();
    let sealed = made.traced(kept, rest)?;
    if stop.load(Ordering::Relaxed) {
        return Err(ValidateError::Interrupted);
    }
    made.open.check()?;
    Ok(MeasuredRun {
        workload: workload.to_string(),
        target: target.to_string(),
        run,
        start_unix_ns,
        elapsed_ns: sealed.elapsed_ns,
        cold: cold.map(describe_cold),
        method: METHOD.into(),
        lost: 0,
        held_back_ns: sealed.held_back_ns,
        measured: sealed.sums,
        mkfs_options: None,
        disk: made.open.statistics(),
        others_share: None,
    })
}

impl Run<'_> {
    /// The phases that are measured, as a trace.
    fn traced(&self, kept: Option<&Kept>, phases: Vec<Phase>) -> Result<Sealed, ValidateError> {
        let fs = self.place.file_system(fs_options(&self.request))?;
        let (_, target) = self.names;
        let meta = TraceMeta {
            snapshot: kept.map(|k| k.snapshot.to_string_lossy().into_owned()),
            ..trace_meta(&self.request, &*target.spec)
        };
        let broke = |e: MeasuredError| failed(self.names, e.into());
        let path = kept.map(|k| k.trace.as_path());
        let traced = MeasuredTrace::begin_summed(path, &*fs, trace_root(&*self.place), meta);
        let traced = traced.map_err(broke)?;
        let ran = phases.into_iter().filter(|p| p.role == Role::Run).collect();
        let ran = self.phases(Some(traced.door()), ran);
        let stopped = self.stop.load(Ordering::Relaxed).then_some("interrupted");
        let sealed = traced.finish(stopped.or(ran.is_err().then_some("failed")));
        ran?;
        sealed.map_err(broke)
    }

    /// One phase after the other.
    fn phases(&self, door: Option<&Door>, phases: Vec<Phase>) -> Result<(), ValidateError> {
        for phase in phases {
            if phase.cold {
                let fs = self.place.file_system(fs_options(&self.request))?;
                // Where it cannot be made cold, caches are as they are.
                let _ = make_cold(&*fs, door);
            }
            let name = phase.name.clone().into_owned();
            let ran = execute_to(
                door,
                &*self.place,
                &self.request,
                phase,
                ONE_POINT_NS,
                self.stop,
            );
            let ran = ran.map_err(|e| self.open.explain(failed(self.names, e.of(name))))?;
            if let Some(unexpected) = ran.failed {
                let (workload, target) = self.names;
                return Err(ValidateError::Workload {
                    workload: workload.to_string(),
                    target: target.to_string(),
                    status: format!(
                        "{} of '{}' gave {}, expected {}",
                        unexpected.kind, unexpected.path, unexpected.actual, unexpected.expected
                    ),
                });
            }
        }
        Ok(())
    }
}

fn failed(
    (workload, target): (&NamedWorkload, &NamedTarget),
    source: RunningError,
) -> ValidateError {
    ValidateError::Running {
        workload: workload.to_string(),
        target: target.to_string(),
        source: Box::new(source),
    }
}
