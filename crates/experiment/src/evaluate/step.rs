//! One run of one side: a fresh directory, made cold, and every operation of the run as figures.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{FsOptions, Target, TargetError};
use fsage_exec::replay::Order;
use fsage_format::result::experiment::DeviceActivity;
use fsage_format::trace::TraceReader;
use fsage_host::machine;
use fsage_model::figures::{FigureSink, Figures};
use serde::{Deserialize, Serialize};

use super::plan::{EvaluatePlan, Original, Side, TargetCaches, gather};
use crate::engine::ExperimentError;
use crate::measured::Wanted;
use crate::plan::{CacheState, NamedTarget, NamedWorkload};
use crate::replaying::{ReplayRequest, ReplayingError, replay};
use crate::running::describe_cold;
use crate::validate::own::OwnRun;
use crate::validate::plan::ValidatePlan;
use crate::validate::step::{Kept, measure as trace};

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideRun {
    /// The target as it was asked for.
    pub target: String,
    /// Which side.
    pub side: Side,
    /// Which run of it, from 0.
    pub run: u32,
    /// Wall clock at the start, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// How caches were made cold; `None` where they were left.
    pub made_cold: Option<String>,
    /// Results that were not the trace's, of a replay.
    pub differ: u64,
    /// What the operations come to.
    pub figures: Figures,
    /// What the device did until all was written back; `None` where the target does not count it.
    pub device: Option<DeviceActivity>,
}

/// Makes one run.
pub(super) fn measure(
    plan: &EvaluatePlan,
    (target, side, run): (usize, Side, u32),
    caches: TargetCaches,
    stop: &AtomicBool,
) -> Result<SideRun, ExperimentError> {
    let Some(on) = plan.targets.get(target) else {
        return Err(ExperimentError::Plan("there is no such target".into()));
    };
    let empty = SideRun {
        target: on.spec.to_string(),
        side,
        run,
        start_unix_ns: machine::unix_time_ns(),
        made_cold: None,
        differ: 0,
        figures: Figures::default(),
        device: None,
    };
    let made = match (side, &plan.original) {
        (_, original) if original.is_command() => {
            traced(plan, (target, side, run), caches, empty, stop)
        }
        (Side::Model, _) => generated((&plan.model, false), on, caches, empty, stop),
        (Side::Original, Original::Workload(workload)) => {
            generated((workload, plan.whole), on, caches, empty, stop)
        }
        (Side::Original, Original::Trace { .. }) => replayed(plan, on, caches, empty, stop),
    }?;
    if stop.load(Ordering::Relaxed) {
        return Err(ExperimentError::Interrupted);
    }
    if made.figures.operations == 0 {
        return Err(ExperimentError::Failed(format!(
            "measure the {} on {on}: it did nothing on the target",
            side.name()
        )));
    }
    Ok(made)
}

/// The trace, replayed.
fn replayed(
    plan: &EvaluatePlan,
    on: &NamedTarget,
    caches: TargetCaches,
    empty: SideRun,
    stop: &AtomicBool,
) -> Result<SideRun, ExperimentError> {
    let Original::Trace { path, snapshot } = &plan.original else {
        return Err(ExperimentError::Plan("there is no trace".into()));
    };
    let request = ReplayRequest {
        trace: path.clone(),
        snapshot: snapshot.clone(),
        target: std::sync::Arc::clone(&on.spec),
        pace: plan.pace,
        order: Order::File,
        map: Vec::new(),
        cold: caches.cold,
        verify: false,
        keep: false,
        seed: plan.seed,
        measured: None,
        figures: Some(caches.pages.to_vec()),
    };
    let reader = TraceReader::open(path)?;
    let (result, sealed) = replay(reader, &request, &mut |_| {}, stop).map_err(failed)?;
    let sealed = sealed.ok_or(ExperimentError::Interrupted)?;
    Ok(SideRun {
        made_cold: result.made_cold,
        differ: result.differ,
        figures: sealed.figures.unwrap_or_default(),
        device: sealed.device,
        ..empty
    })
}

fn failed(error: ReplayingError) -> ExperimentError {
    match error {
        ReplayingError::Format(error) => error.into(),
        ReplayingError::Target(error) => error.into(),
        error => ExperimentError::Failed(error.to_string()),
    }
}

/// A workload, set up and run by fsage itself; `whole`: what sets it up and takes it down is measured, too.
fn generated(
    (workload, whole): (&NamedWorkload, bool),
    on: &NamedTarget,
    caches: TargetCaches,
    empty: SideRun,
    stop: &AtomicBool,
) -> Result<SideRun, ExperimentError> {
    let open = on.spec.open()?;
    // Nothing of this is measured, so an emulated disk needs not delay it.
    let full_speed = open.full_speed();
    let place = open.place(".fsage-run-")?;
    let named = (workload, on);
    let own = if whole {
        OwnRun::whole(named, (&*open, &*place), stop)?
    } else {
        OwnRun::set_up(named, (&*open, &*place), stop)?
    };
    // What a configuration of FileRunner finds in the caches is part of it: its phases see to that.
    let made_cold = if caches.cold && workload.spec.short_name() != "filerunner" {
        Some(cold(&*open, on)?)
    } else {
        let fs = open.file_system(FsOptions::TRUSTED)?;
        let refused = |errno| TargetError::refused("write the set-up back", errno);
        fs.sync().map_err(refused)?;
        None
    };
    drop(full_speed);
    let wanted = Wanted {
        figures: Some(&caches.pages),
        ..Wanted::default()
    };
    let sealed = own.run(wanted, None)?;
    let full_speed = open.full_speed();
    drop(place);
    drop(full_speed);
    open.check()?;
    open.close()?;
    Ok(SideRun {
        made_cold,
        figures: sealed.figures.unwrap_or_default(),
        device: sealed.device,
        ..empty
    })
}

fn cold(open: &dyn Target, on: &NamedTarget) -> Result<String, ExperimentError> {
    let fs = open.file_system(FsOptions::TRUSTED)?;
    let refused = |errno| TargetError::refused(format!("make the caches of {on} cold"), errno);
    Ok(describe_cold(fs.platform().make_cold().map_err(refused)?))
}

/// A side under the tracer, as a command can be measured in no other way.
fn traced(
    plan: &EvaluatePlan,
    (target, side, run): (usize, Side, u32),
    caches: TargetCaches,
    empty: SideRun,
    stop: &AtomicBool,
) -> Result<SideRun, ExperimentError> {
    let workload = match (side, &plan.original) {
        (Side::Original, Original::Workload(workload)) => workload,
        _ => &plan.model,
    };
    let directory = tempfile::tempdir_in(&plan.dir);
    let directory = directory
        .map_err(|e| fsage_format::FormatError::io("make a directory in", &plan.dir, e))?;
    let kept = Kept {
        trace: directory.path().join("run.fst"),
        snapshot: directory.path().join("run.fss"),
    };
    let validation = ValidatePlan {
        runs: plan.runs,
        cache: if caches.cold {
            CacheState::Cold
        } else {
            CacheState::Warm
        },
        seed: plan.seed,
        ..ValidatePlan::new(
            vec![workload.clone()],
            plan.targets.clone(),
            plan.dir.clone(),
            plan.child.clone(),
        )
    };
    let ran = trace(&validation, (target, 0, run), Some(&kept), None, stop)?;
    let mut reader = TraceReader::open(&kept.trace)?;
    let under = reader.meta().roots();
    // A command does more than any model: what that is is told and is not held against it.
    let mut sink = FigureSink::new(&under, false, &caches.pages).as_modelled();
    gather(&mut reader, &mut sink)?;
    Ok(SideRun {
        made_cold: ran.cold,
        figures: sink.finish(),
        ..empty
    })
}
