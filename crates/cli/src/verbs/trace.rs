//! `fsage trace`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use fsage_capture::{CaptureRequest, Method, What};
use fsage_core::Pid;
use fsage_experiment::tracing::trace_to;
use fsage_host::signals;
use fsage_report::units;
use serde::Serialize;

use crate::args::{MethodArg, TraceArgs};
use crate::exit::Exit;
use crate::files::writable;
use crate::{out, ui};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct TraceSummary<'a> {
    file: &'a std::path::Path,
    file_bytes: u64,
    method: &'static str,
    method_reason: &'a str,
    operations: u64,
    lost: u64,
    late: u64,
    elapsed_ns: u64,
    latency_total_ns: u64,
    exit_status: Option<i32>,
}

pub fn run(args: TraceArgs) -> Result<Exit> {
    writable(&args.output)?;
    let stop = signals::install()?;
    let request = CaptureRequest {
        method: match args.method {
            MethodArg::Auto => Method::Auto,
            MethodArg::Ebpf => Method::Ebpf,
            MethodArg::Ptrace => Method::Ptrace,
        },
        under: absolute(&args.under)?,
        what: if args.pid.is_empty() {
            What::Command {
                argv: args.command,
                cwd: None,
                env: Vec::new(),
            }
        } else {
            What::Pids(args.pid.iter().map(|&pid| Pid(pid)).collect())
        },
        limit: args.duration,
        ring_mib: args.ring_mib,
    };
    let traced = trace_to(Some(&args.output), &request, None, &stop, &mut |start| {
        ui::line(&format!(
            "tracing with {}: {}",
            start.method, start.method_reason
        ));
    })?;
    let summary = &traced.summary;
    if args.json {
        out::json(&TraceSummary {
            file: &args.output,
            file_bytes: traced.file_bytes,
            method: summary.method,
            method_reason: &summary.method_reason,
            operations: summary.operations,
            lost: summary.lost,
            late: summary.late,
            elapsed_ns: summary.elapsed_ns,
            latency_total_ns: traced.measured.total_ns(),
            exit_status: summary.exit_status,
        })?;
    }
    ui::line(&format!(
        "{}: {} operations in {}, {} in the file system, {} lost, {}",
        args.output.display(),
        units::count(summary.operations),
        units::duration(summary.elapsed_ns as f64),
        units::duration(traced.measured.total_ns() as f64),
        units::count(summary.lost),
        units::bytes(traced.file_bytes),
    ));
    if summary.lost > 0 {
        ui::line("the trace is not whole; a larger --ring-mib loses less");
    }
    Ok(match summary.exit_status {
        Some(status) => Exit::Status(u8::try_from(status).unwrap_or(1)),
        None if stop.load(Ordering::Relaxed) && args.pid.is_empty() => Exit::Interrupted,
        None if summary.lost > 0 => Exit::Incomplete,
        None => Exit::Done,
    })
}

/// Directories must be there, and are compared without symbolic links.
fn absolute(dirs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    dirs.iter()
        .map(|dir| {
            dir.canonicalize()
                .with_context(|| format!("find --under directory {}", dir.display()))
        })
        .collect()
}
