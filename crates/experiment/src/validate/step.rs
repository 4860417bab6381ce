//! One measured run: a fresh directory, prepared, made cold, and the workload under the tracer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_capture::{Buffers, CaptureRequest, Notice, What};
use fsage_core::{ColdEvidence, FsOptions, Target};
use fsage_host::descendants::Descendants;
use fsage_host::observe::{Clocks, MachineTimes, Usage, Whose, running_children_user_ns};
use fsage_host::{HostError, kthread, machine};
use fsage_workload::WorkloadSpec;
use serde::{Deserialize, Serialize};

use super::ValidateError;
use super::measure::Measured;
use super::own::OwnRun;
use super::plan::ValidatePlan;
use super::prepare::{run_setup, shell};
use crate::bench::marks::LEAST_TICKS_NS;
use crate::one_cpu::{self, OneCpu};
use crate::plan::{CacheState, NamedWorkload};
use crate::running::command::{aside, last_line};
use crate::running::describe_cold;
use crate::target::{command_dir, own_device};
use crate::tracing::{Beside, Traced, TracingError, trace_to};
use crate::tree::write_target_snapshot;

/// Room for what a workload of several threads does while the tracer waits for a CPU.
const RING_MIB: u32 = 128;

/// One operation in so many may be lost; it is noted.
const BEARABLE_LOSS: u64 = 1000;

/// The capture may hold a run up by this share of its time.
const BEARABLE_HOLD: f64 = 0.02;

/// A measured run as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// By how long in all the capture held calls back so that it lost none, nanoseconds.
    #[serde(default)]
    pub held_back_ns: u64,
    /// What the operations took.
    pub measured: Measured,
    /// The options of mkfs, for a scratch target.
    pub mkfs_options: Option<String>,
    /// What an emulated disk served and how late it was, by name; empty without one.
    #[serde(default)]
    pub disk: BTreeMap<String, String>,
    /// Processors that other processes used meanwhile, in user mode; `None` where it is not known.
    #[serde(default)]
    pub others_share: Option<f64>,
    /// What the machine's reference work took before and after it on average, nanoseconds; `None` where time is
    /// computed.
    #[serde(default)]
    pub reference_ns: Option<u64>,
}

/// The clock, the machine's time in user mode and this process's and its children's part of it.
fn processor_times() -> Option<(u64, u64, u64)> {
    let own = Usage::of(Whose::Process).user_ns
        + Usage::of(Whose::Children).user_ns
        + running_children_user_ns();
    Some((
        Clocks::now().monotonic_ns,
        MachineTimes::now()?.user_ns,
        own,
    ))
}

/// What others used between two readings, in processors. The kernel counts in ticks of 10 ms: less than
/// ten of them are chance.
fn others_share(before: Option<(u64, u64, u64)>, after: Option<(u64, u64, u64)>) -> Option<f64> {
    let ((from, user_before, own_before), (to, user, own)) = before.zip(after)?;
    let user = user.saturating_sub(user_before);
    let others = user.saturating_sub(own.saturating_sub(own_before));
    let elapsed = to.saturating_sub(from).max(1);
    Some(if others < LEAST_TICKS_NS {
        0.0
    } else {
        others as f64 / elapsed as f64
    })
}

impl MeasuredRun {
    /// What the capture added to the run by holding calls back, as a share of what it took.
    pub(super) fn held_back_share(&self) -> f64 {
        self.held_back_ns as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// Where a run keeps its trace and the snapshot before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The trace.
    pub trace: PathBuf,
    /// The snapshot.
    pub snapshot: PathBuf,
}

impl Kept {
    /// Whether both are there.
    pub(super) fn are_there(&self) -> bool {
        self.trace.exists() && self.snapshot.exists()
    }
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
    let explained = |error: ValidateError| open.explain(error);
    // Nothing of this is measured, so an emulated disk needs not delay it.
    let full_speed = open.full_speed();
    let place = open.place(".fsage-run-");
    let place = place.map_err(|e| explained(e.into()))?;
    let names = (workload.name.as_str(), target.name.as_str());
    if let Some(command) = &workload.setup {
        let dir = command_dir(&*place)?;
        run_setup(names, shell(command), dir, stop).map_err(explained)?;
    }
    let mut own = None;
    match place.host_dir() {
        Some(dir) if workload.spec.command().is_none() => {
            // What it reads is named from where fsage was started.
            let argv = child(plan, &workload.spec, "setup", dir);
            run_setup(names, argv, Path::new("."), stop).map_err(explained)?;
        }
        Some(_) => {}
        None => own = Some(OwnRun::set_up((workload, target), (&*open, &*place), stop)?),
    }
    let mut cold = settle(plan, &*open);
    if let Some(kept) = kept {
        let written = write_target_snapshot(&*place, &kept.snapshot, stop);
        written.map_err(|e| explained(e.into()))?;
        // Walking the tree has warmed its names again.
        cold = settle(plan, &*open);
    }
    let mut result = MeasuredRun {
        workload: workload.to_string(),
        target: target.to_string(),
        run,
        start_unix_ns: machine::unix_time_ns(),
        cold: cold.map(describe_cold),
        mkfs_options: fsage_host::target::mkfs_options(&*open),
        ..MeasuredRun::default()
    };
    let mut said = said_by(workload)?;
    let exit_status = if let Some(own) = own {
        drop(full_speed);
        own.measure(kept, &mut result)?;
        Some(0)
    } else {
        // A remount has made new threads.
        let _placed = one_cpu
            .zip(own_device(&*open))
            .map(|(one, device)| kthread::confine_of_device(&device, &[one.cpu()]));
        let request = CaptureRequest {
            output_to: said
                .as_ref()
                .map(|(to, said)| (to.as_raw_fd(), said.as_raw_fd())),
            ..request(plan, workload, command_dir(&*place)?)
        };
        drop(full_speed);
        traced(&request, kept, one_cpu, stop, &mut result).map_err(explained)?
    };
    result.disk = open.statistics();
    let full_speed = open.full_speed();
    drop(place);
    drop(full_speed);
    if stop.load(Ordering::Relaxed) {
        return Err(ValidateError::Interrupted);
    }
    open.check()?;
    let last = said
        .as_mut()
        .map(|(_, said)| last_line(said))
        .unwrap_or_default();
    judged(result, exit_status, &last)
}

/// Runs the workload under the tracer; returns how it ended.
fn traced(
    request: &CaptureRequest,
    kept: Option<&Kept>,
    one_cpu: Option<&OneCpu>,
    stop: &AtomicBool,
    result: &mut MeasuredRun,
) -> Result<Option<i32>, ValidateError> {
    let placed = one_cpu.map(|one| (one_cpu::ENTRY.to_string(), one.describe()));
    let beside = Beside {
        snapshot: kept.map(|k| k.snapshot.to_string_lossy().into_owned()),
        extra: placed.into_iter().collect(),
        cpu: one_cpu.map(OneCpu::cpu),
    };
    let before = processor_times();
    request
        .under
        .iter()
        .try_for_each(|dir| fsage_host::guard::is_there(dir))?;
    let traced = trace_own(kept.map(|k| k.trace.as_path()), request, &beside, stop)?;
    result.others_share = others_share(before, processor_times());
    result.reference_ns = traced.reference_ns;
    result.start_unix_ns = traced.summary.start_unix_ns;
    result.elapsed_ns = traced.summary.elapsed_ns;
    result.method = traced.summary.method.to_string();
    result.lost = traced.summary.lost;
    result.held_back_ns = traced.summary.held_back.total_ns;
    result.measured = traced.measured;
    Ok(traced.summary.exit_status)
}

/// The run, if it says something.
fn judged(
    result: MeasuredRun,
    exit_status: Option<i32>,
    last: &str,
) -> Result<MeasuredRun, ValidateError> {
    let MeasuredRun {
        workload, target, ..
    } = &result;
    let percent = (100.0 * result.held_back_share()).round();
    Err(ValidateError::Failed(match exit_status {
        Some(0) if too_lossy(&result) => format!(
            "trace workload `{workload}` on {target}: {} of its operations were lost, expected at most one in a \
             thousand; a smaller workload, fewer threads or a quieter machine loses less",
            result.lost
        ),
        Some(0) if result.held_back_share() > BEARABLE_HOLD => format!(
            "trace workload `{workload}` on {target}: so that nothing was lost its calls were held back by \
             {percent} % of its time, expected at most 2 %; fewer threads or a quieter machine need less"
        ),
        Some(0) => return Ok(result),
        status => {
            let status = status.map_or("no exit status".into(), |s| format!("exit status {s}"));
            let last = if last.is_empty() {
                String::new()
            } else {
                format!(": {last}")
            };
            format!("run workload `{workload}` on {target}: {status}, expected 0{last}")
        }
    }))
}

/// Traces what is this run's own: interrupted or killed, it leaves nothing running.
fn trace_own(
    trace: Option<&Path>,
    request: &CaptureRequest,
    beside: &Beside,
    stop: &AtomicBool,
) -> Result<Traced, TracingError> {
    let descendants = Descendants::ready_for_another();
    trace_to(trace, request, beside, stop, &mut |reported| {
        if let Notice::Waiting { pid } = reported {
            descendants.take_in(pid.0);
        }
    })
}

/// Whether so much was lost that neither the sums nor a prediction from the trace say anything.
fn too_lossy(run: &MeasuredRun) -> bool {
    run.lost > run.measured.operations() / BEARABLE_LOSS
}

/// Where what a command prints and what it says goes: it is no progress of ours.
fn said_by(workload: &NamedWorkload) -> Result<Option<(File, File)>, HostError> {
    let files = || Ok((File::options().write(true).open("/dev/null")?, aside()?));
    let files = workload.spec.command().map(|_| files()).transpose();
    files.map_err(|e: std::io::Error| HostError::io("put aside what a command says", e))
}

/// The capture of a workload in a directory.
fn request(plan: &ValidatePlan, workload: &NamedWorkload, dir: &Path) -> CaptureRequest {
    let argv = match (workload.spec.command(), plan.cpu) {
        (Some(text), None) => shell(text),
        _ => child(plan, &workload.spec, "run", dir),
    };
    CaptureRequest {
        under: vec![dir.to_owned()],
        // Standard output is for the result.
        output_to_stderr: true,
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
fn settle(plan: &ValidatePlan, open: &dyn Target) -> Option<ColdEvidence> {
    let fs = open.file_system(FsOptions::TRUSTED).ok()?;
    match plan.cache {
        CacheState::Cold => fs.platform().make_cold().ok(),
        CacheState::Warm => {
            // What cannot be written back now is written during the run, which is what is measured.
            let _ = fs.sync();
            None
        }
    }
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
    fn what_others_use_is_told_from_ones_own() {
        let second = 1_000_000_000;
        let share = |user, own| others_share(Some((5, 0, 0)), Some((5 + second, user, own)));
        assert_eq!(share(second, second / 2), Some(0.5));
        assert_eq!(share(second, second), Some(0.0));
        assert_eq!(share(90_000_000, 0), Some(0.0), "less than ten ticks");
        assert_eq!(others_share(None, Some((1, 1, 1))), None);
    }

    #[test]
    fn a_run_bears_a_small_loss() {
        let mut run = MeasuredRun::default();
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
