//! The workload of a run that no tracer sees: fsage's own calls, as it measures them.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Place, Target};
use fsage_exec::Door;
use fsage_format::trace::TraceMeta;
use fsage_workload::{Phase, Role};

use super::ValidateError;
use super::step::{Kept, MeasuredRun};
use crate::measured::{METHOD, MeasuredError, MeasuredTrace, trace_root};
use crate::plan::{NamedTarget, NamedWorkload};
use crate::running::{
    self, RunRequest, RunningError, execute_to, fs_options, make_cold, trace_meta,
};

/// Phases are not told by their points.
const ONE_POINT_NS: u64 = u64::MAX;

/// A run in the making.
pub(super) struct OwnRun<'a> {
    names: (&'a NamedWorkload, &'a NamedTarget),
    request: RunRequest,
    on: (&'a dyn Target, &'a dyn Place),
    stop: &'a AtomicBool,
    /// What follows the setup.
    rest: Vec<Phase>,
}

impl<'a> OwnRun<'a> {
    /// Runs the phases that prepare a directory.
    pub fn set_up(
        names: (&'a NamedWorkload, &'a NamedTarget),
        on: (&'a dyn Target, &'a dyn Place),
        stop: &'a AtomicBool,
    ) -> Result<Self, ValidateError> {
        let request = RunRequest::of(names.0.spec.clone());
        let (phases, run_for_ns) =
            running::program(&request, None).map_err(|e| failed(names, e))?;
        let (setup, rest) = phases.into_iter().partition(|p| p.role == Role::Setup);
        let made = Self {
            names,
            request: RunRequest {
                run_for_ns,
                ..request
            },
            on,
            stop,
            rest,
        };
        made.phases(None, setup)?;
        Ok(made)
    }

    /// Runs those that are measured, as a trace where one is kept.
    pub fn measure(
        mut self,
        kept: Option<&Kept>,
        result: &mut MeasuredRun,
    ) -> Result<(), ValidateError> {
        let phases = std::mem::take(&mut self.rest);
        let fs = self.on.1.file_system(fs_options(&self.request))?;
        let (_, target) = self.names;
        let meta = TraceMeta {
            snapshot: kept.map(|k| k.snapshot.to_string_lossy().into_owned()),
            ..trace_meta(&self.request, &*target.spec)
        };
        let broke = |e: MeasuredError| failed(self.names, e.into());
        let path = kept.map(|k| k.trace.as_path());
        let traced = MeasuredTrace::begin((path, true), &*fs, trace_root(self.on.1), meta);
        let traced = traced.map_err(broke)?;
        let ran = phases.into_iter().filter(|p| p.role == Role::Run).collect();
        let ran = self.phases(Some(traced.door()), ran);
        let stopped = self.stop.load(Ordering::Relaxed).then_some("interrupted");
        let sealed = traced.finish(stopped.or(ran.is_err().then_some("failed")));
        ran?;
        let sealed = sealed.map_err(broke)?;
        result.method = METHOD.into();
        result.elapsed_ns = sealed.elapsed_ns;
        result.held_back_ns = sealed.held_back_ns;
        result.measured = sealed.sums;
        Ok(())
    }

    /// One phase after the other.
    fn phases(&self, door: Option<&Door>, phases: Vec<Phase>) -> Result<(), ValidateError> {
        for phase in phases {
            if phase.cold {
                let fs = self.on.1.file_system(fs_options(&self.request))?;
                // Where it cannot be made cold, caches are as they are.
                let _ = make_cold(&*fs, door);
            }
            let name = phase.name.clone().into_owned();
            let ran = execute_to(
                door,
                self.on.1,
                &self.request,
                phase,
                ONE_POINT_NS,
                self.stop,
            );
            let ran = ran.map_err(|e| self.on.0.explain(failed(self.names, e.of(name))))?;
            if let Some(unexpected) = ran.failed {
                let (workload, target) = self.names;
                return Err(ValidateError::Failed(format!(
                    "run workload `{workload}` on {target}: {} of '{}' gave {}, expected {}",
                    unexpected.kind, unexpected.path, unexpected.actual, unexpected.expected
                )));
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
        doing: format!("run workload `{workload}` on {target}"),
        source: Box::new(source),
    }
}
