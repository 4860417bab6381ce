//! One measured run: a fresh directory, prepared, made cold, and the workload under the tracer.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use fsage_capture::{CaptureRequest, What};
use fsage_core::{ColdEvidence, FileSystem};
use fsage_host::guard::GuardedDir;
use fsage_host::{ColdPolicy, Confinement, HostOptions};
use fsage_workload::WorkloadSpec;
use serde::{Deserialize, Serialize};

use super::ValidateError;
use super::measure::Measured;
use super::plan::ValidatePlan;
use super::run::place_threads;
use crate::tracing::trace_to;
use crate::tree::write_snapshot;

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
    target: usize,
    workload: usize,
    run: u32,
    kept: Option<&Kept>,
    stop: &AtomicBool,
) -> Result<MeasuredRun, ValidateError> {
    let (target, workload) = (&plan.targets[target], &plan.workloads[workload]);
    let open = target.open()?;
    let dir = GuardedDir::create(open.dir(), ".fsage-run-")?;
    if let Some(setup) = &plan.setup {
        shell(setup, dir.path())?;
    }
    // The file system is asked for its root only now: a remount needs it to be unused.
    let options = HostOptions {
        confinement: Confinement::Trusted,
        cold: ColdPolicy::Auto,
    };
    let cold = open.file_system(options)?.platform().make_cold().ok();
    if let Some(kept) = kept {
        write_snapshot(dir.path(), &kept.snapshot, stop)?;
        // Walking the tree has warmed its names again.
        open.file_system(options)?.platform().make_cold().ok();
    }
    // A remount has made new threads.
    let _placed = place_threads(plan, &open);
    let request = CaptureRequest {
        under: vec![dir.path().to_owned()],
        ..CaptureRequest::new(What::Command {
            argv: command(plan, &workload.spec, dir.path()),
            cwd: Some(dir.path().to_owned()),
            env: Vec::new(),
        })
    };
    let snapshot = kept.map(|k| k.snapshot.to_string_lossy().into_owned());
    let traced = trace_to(
        kept.map(|k| k.trace.as_path()),
        &request,
        snapshot.as_deref(),
        stop,
        &mut |_| {},
    )?;
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
    };
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(ValidateError::Interrupted);
    }
    match traced.summary.exit_status {
        Some(0) => Ok(result),
        status => Err(ValidateError::Workload {
            workload: workload.to_string(),
            target: target.to_string(),
            status: status.map_or("no exit status".into(), |s| format!("exit status {s}")),
        }),
    }
}

fn describe_cold(evidence: ColdEvidence) -> String {
    format!("{:?}, {:?}", evidence.method, evidence.level).to_lowercase()
}

/// How the workload is started: through a child of this program where it is generated here or must
/// be kept on a CPU.
fn command(plan: &ValidatePlan, workload: &WorkloadSpec, dir: &Path) -> Vec<OsString> {
    match (workload, plan.cpu) {
        (WorkloadSpec::Command(text), None) => vec!["/bin/sh".into(), "-c".into(), text.into()],
        (spec, cpu) => {
            let mut argv = plan.child.clone();
            argv.extend(cpu.map(|cpu| format!("--cpu={cpu}").into()));
            argv.push(spec.to_string().into());
            argv.push(dir.into());
            argv
        }
    }
}

/// Runs a command of the user's; its stdout is not data of ours and goes nowhere.
fn shell(text: &str, dir: &Path) -> Result<(), ValidateError> {
    let failed = |why: String| ValidateError::Setup {
        command: text.to_string(),
        why,
    };
    let output = Command::new("/bin/sh")
        .args(["-c", text])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(failed(format!("{} {last}", output.status)))
}
