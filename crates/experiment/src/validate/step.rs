//! One measured run: a fresh directory, prepared, made cold, and the workload under the tracer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_capture::{Buffers, CaptureRequest, Notice, What};
use fsage_core::{ColdEvidence, FileSystem};
use fsage_host::guard::GuardedDir;
use fsage_host::kin::Kin;
use fsage_host::{ColdPolicy, Confinement, HostOptions, kthread};
use fsage_workload::WorkloadSpec;
use serde::{Deserialize, Serialize};

use super::ValidateError;
use super::measure::Measured;
use super::plan::ValidatePlan;
use super::prepare::{run_setup, shell};
use crate::one_cpu::{self, OneCpu};
use crate::plan::{CacheState, NamedWorkload};
use crate::target::OpenTarget;
use crate::tracing::{Beside, Traced, TracingError, trace_to};
use crate::tree::write_snapshot;

/// Room for what a workload of several threads does while the tracer waits for a CPU.
const RING_MIB: u32 = 128;

/// One operation in so many may be lost; it is noted.
const BEARABLE_LOSS: u64 = 1000;

/// A measured run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// The workload as it was asked for.
    pub workload: String,
    /// The target as it was asked for.
    pub target: String,
    /// Which run of it, from 0.
    pub run: u32,
    /// Wall clock at the start, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// How long the workload took, nanoseconds.
    pub elapsed_ns: u64,
    /// How caches were made cold; `None` where nothing could be done.
    pub cold: Option<String>,
    /// `ebpf` or `ptrace`.
    pub method: String,
    /// Operations that the capture lost.
    pub lost: u64,
    /// What the operations took.
    pub measured: Measured,
    /// The options of mkfs, for a scratch target.
    pub mkfs_options: Option<String>,
    /// What an emulated disk served and how late it was, by name; empty without one.
    #[serde(default)]
    pub disk: BTreeMap<String, String>,
}

/// Where a run keeps its trace and the snapshot before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The trace.
    pub trace: PathBuf,
    /// The snapshot.
    pub snapshot: PathBuf,
}

/// Makes one run. With `kept`, the trace and a snapshot of the directory before the run are written.
pub fn measure(
    plan: &ValidatePlan,
    (target, workload, run): (usize, usize, u32),
    kept: Option<&Kept>,
    one_cpu: Option<&OneCpu>,
    stop: &AtomicBool,
) -> Result<MeasuredRun, ValidateError> {
    let (target, workload) = (&plan.targets[target], &plan.workloads[workload]);
    let open = target.spec.open()?;
    // Nothing of this is measured, so an emulated disk needs not delay it.
    let full_speed = open.full_speed();
    let dir = GuardedDir::create(open.dir(), ".fsage-run-")
        .map_err(|e| open.explain(ValidateError::from(e)))?;
    let names = (workload.name.as_str(), target.name.as_str());
    if let Some(command) = &workload.setup {
        run_setup(names, shell(command), dir.path(), stop).map_err(|e| open.explain(e))?;
    }
    if workload.spec.command().is_none() {
        // What it reads is named from where fsage was started.
        let argv = child(plan, &workload.spec, "setup", dir.path());
        run_setup(names, argv, Path::new("."), stop).map_err(|e| open.explain(e))?;
    }
    let mut cold = settle(plan, &open);
    if let Some(kept) = kept {
        write_snapshot(dir.path(), &kept.snapshot, stop)
            .map_err(|e| open.explain(ValidateError::from(e)))?;
        // Walking the tree has warmed its names again.
        cold = settle(plan, &open);
    }
    // A remount has made new threads.
    let device = open.record().and_then(|r| r.device.file_name()?.to_str());
    let _placed = one_cpu
        .zip(device)
        .map(|(one, device)| kthread::confine_of_device(device, &[one.cpu()]));
    let request = request(plan, workload, dir.path());
    let placed = one_cpu.map(|one| (one_cpu::ENTRY.to_string(), one.describe()));
    let beside = Beside {
        snapshot: kept.map(|k| k.snapshot.to_string_lossy().into_owned()),
        extra: placed.into_iter().collect::<BTreeMap<_, _>>(),
    };
    let trace = kept.map(|k| k.trace.as_path());
    drop(full_speed);
    let traced = dir.is_there().map_err(ValidateError::from);
    let traced = traced.and_then(|()| Ok(trace_own(trace, &request, &beside, stop)?));
    let traced = traced.map_err(|e| open.explain(e))?;
    let result = MeasuredRun {
        workload: workload.to_string(),
        target: target.to_string(),
        run,
        start_unix_ns: traced.summary.start_unix_ns,
        elapsed_ns: traced.summary.elapsed_ns,
        cold: cold.map(describe_cold),
        method: traced.summary.method.to_string(),
        lost: traced.summary.lost,
        measured: traced.measured,
        mkfs_options: open.record().map(|r| r.mkfs_options.clone()),
        disk: open.disk_statistics(),
    };
    let full_speed = open.full_speed();
    drop(dir);
    drop(full_speed);
    if stop.load(Ordering::Relaxed) {
        return Err(ValidateError::Interrupted);
    }
    open.check()?;
    match traced.summary.exit_status {
        Some(0) if too_lossy(&result) => Err(ValidateError::Lost {
            workload: result.workload,
            target: result.target,
            lost: result.lost,
        }),
        Some(0) => Ok(result),
        status => Err(ValidateError::Workload {
            workload: workload.to_string(),
            target: target.to_string(),
            status: status.map_or("no exit status".into(), |s| format!("exit status {s}")),
        }),
    }
}

/// Traces what is this run's own: interrupted or killed, it leaves nothing running.
fn trace_own(
    trace: Option<&Path>,
    request: &CaptureRequest,
    beside: &Beside,
    stop: &AtomicBool,
) -> Result<Traced, TracingError> {
    let kin = Kin::ready_for_another();
    trace_to(trace, request, beside, stop, &mut |told| {
        if let Notice::Waiting { pid } = told {
            kin.take_in(pid.0);
        }
    })
}

/// Whether so much was lost that neither the sums nor a prediction from the trace say anything.
fn too_lossy(run: &MeasuredRun) -> bool {
    run.lost > run.measured.operations() / BEARABLE_LOSS
}

/// The capture of a workload in a directory.
fn request(plan: &ValidatePlan, workload: &NamedWorkload, dir: &Path) -> CaptureRequest {
    let argv = match (workload.spec.command(), plan.cpu) {
        (Some(text), None) => shell(text),
        _ => child(plan, &workload.spec, "run", dir),
    };
    CaptureRequest {
        under: vec![dir.to_owned()],
        buffers: Buffers {
            ring_mib: RING_MIB,
            ..Buffers::default()
        },
        ..CaptureRequest::new(What::Command {
            argv,
            cwd: workload.spec.command().map(|_| dir.to_owned()),
            env: Vec::new(),
        })
    }
}

/// Brings the caches into the state that the plan asks for; returns how they were made cold.
fn settle(plan: &ValidatePlan, open: &OpenTarget) -> Option<ColdEvidence> {
    let options = HostOptions {
        confinement: Confinement::Trusted,
        cold: ColdPolicy::Auto,
    };
    // The file system is opened only now: a remount needs it to be unused.
    let fs = open.file_system(options).ok()?;
    match plan.cache {
        CacheState::Cold => fs.platform().make_cold().ok(),
        CacheState::Warm => {
            // What cannot be written back now is written during the run, which is what is measured.
            let _ = fs.sync();
            None
        }
    }
}

fn describe_cold(evidence: ColdEvidence) -> String {
    format!("{:?}, {:?}", evidence.method, evidence.level).to_lowercase()
}

/// A workload, or a part of it, in a child of this program: what is generated here, and what must be
/// kept on a CPU.
fn child(plan: &ValidatePlan, workload: &WorkloadSpec, role: &str, dir: &Path) -> Vec<OsString> {
    let mut argv = plan.child.clone();
    argv.extend(plan.cpu.map(|cpu| format!("--cpu={cpu}").into()));
    argv.push(format!("--role={role}").into());
    argv.push(workload.to_string().into());
    argv.push(dir.into());
    argv
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::OpKind;

    #[test]
    fn a_run_bears_a_small_loss() {
        let mut run = MeasuredRun {
            workload: "w".into(),
            target: "t".into(),
            run: 0,
            start_unix_ns: 0,
            elapsed_ns: 1,
            cold: None,
            method: "ebpf".into(),
            lost: 0,
            measured: Measured::default(),
            mkfs_options: None,
            disk: BTreeMap::new(),
        };
        assert!(!too_lossy(&run));
        for _ in 0..2000 {
            run.measured.add(OpKind::Read, 1);
        }
        run.lost = 2;
        assert!(!too_lossy(&run));
        run.lost = 3;
        assert!(too_lossy(&run));
    }
}
