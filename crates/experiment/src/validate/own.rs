//! The workload of a run that no tracer sees: fsage's own calls, as it measures them.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Place, Target};
use fsage_exec::Door;
use fsage_format::trace::TraceMeta;
use fsage_workload::{Phase, Role};

use super::ValidateError;
use super::step::{Kept, MeasuredRun};
use crate::measured::{
    DeviceWatch, METHOD, MeasuredError, MeasuredTrace, Sealed, Wanted, trace_root,
};
use crate::plan::{NamedTarget, NamedWorkload};
use crate::running::{
    self, RunRequest, RunningError, execute_to, fs_options, make_cold, trace_meta,
};

/// Phases are not told by their points.
const ONE_POINT_NS: u64 = u64::MAX;

/// A run in the making.
pub(crate) struct OwnRun<'a> {
    names: (&'a NamedWorkload, &'a NamedTarget),
    request: RunRequest,
    on: (&'a dyn Target, &'a dyn Place),
    stop: &'a AtomicBool,
    /// What follows the setup.
    rest: Vec<Phase>,
    /// Whether all of it is measured.
    whole: bool,
}

impl<'a> OwnRun<'a> {
    /// Runs the phases that prepare a directory.
    pub fn set_up(
        names: (&'a NamedWorkload, &'a NamedTarget),
        on: (&'a dyn Target, &'a dyn Place),
        stop: &'a AtomicBool,
    ) -> Result<Self, ValidateError> {
        let made = Self::whole(names, on, stop)?;
        let (setup, rest) = made.rest.into_iter().partition(|p| p.role == Role::Setup);
        let made = Self {
            rest,
            whole: false,
            ..made
        };
        made.phases(None, setup)?;
        Ok(made)
    }

    /// Runs none before: all of them are measured.
    pub fn whole(
        names: (&'a NamedWorkload, &'a NamedTarget),
        on: (&'a dyn Target, &'a dyn Place),
        stop: &'a AtomicBool,
    ) -> Result<Self, ValidateError> {
        let request = RunRequest::of(names.0.spec.clone());
        let program = running::program(&request, None).map_err(|e| failed(names, e))?;
        Ok(Self {
            names,
            request: RunRequest {
                run_for_ns: program.run_for_ns,
                ..request
            },
            on,
            stop,
            rest: program.phases,
            whole: true,
        })
    }

    /// Runs those that are measured, as a trace where one is kept.
    pub fn measure(
        self,
        kept: Option<&Kept>,
        result: &mut MeasuredRun,
    ) -> Result<(), ValidateError> {
        let wanted = Wanted {
            path: kept.map(|k| k.trace.as_path()),
            sums: true,
            figures: None,
        };
        let snapshot = kept.map(|k| k.snapshot.to_string_lossy().into_owned());
        let sealed = self.run(wanted, snapshot)?;
        result.method = METHOD.into();
        result.elapsed_ns = sealed.elapsed_ns;
        result.held_back_ns = sealed.held_back_ns;
        result.measured = sealed.sums;
        Ok(())
    }

    /// Runs those that are measured; what was before them is told in `snapshot`.
    pub fn run(
        mut self,
        wanted: Wanted<'_>,
        snapshot: Option<String>,
    ) -> Result<Sealed, ValidateError> {
        let phases = std::mem::take(&mut self.rest);
        let fs = self.on.1.file_system(fs_options(&self.request))?;
        let (_, target) = self.names;
        let meta = TraceMeta {
            snapshot,
            ..trace_meta(&self.request, &*target.spec)
        };
        let broke = |e: MeasuredError| failed(self.names, e.into());
        let traced = MeasuredTrace::begin(wanted, &*fs, trace_root(self.on.1), meta);
        let traced = traced.map_err(broke)?;
        let watch = wanted.figures.map(|_| DeviceWatch::begin(&*fs));
        let is_measured = |p: &Phase| self.whole || p.role == Role::Run;
        let ran = phases.into_iter().filter(is_measured).collect();
        let ran = self.phases(Some(traced.door()), ran);
        let stopped = self.stop.load(Ordering::Relaxed).then_some("interrupted");
        let device = watch.and_then(DeviceWatch::finish);
        let sealed = traced.finish(stopped.or(ran.is_err().then_some("failed")));
        ran?;
        let sealed = sealed.map_err(broke)?;
        Ok(Sealed { device, ..sealed })
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
                    "run workload `{workload}` on {target}: {}",
                    unexpected.in_words()
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
