//! `fsage trace`.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use fsage_capture::{Buffers, CaptureRequest, CaptureStart, CaptureSummary, Method, Notice, What};
use fsage_core::Pid;
use fsage_experiment::tracing::{Beside, Traced, default_spool_mib, trace_to};
use fsage_format::FileKind;
use fsage_format::result::summary::TraceSummary;
use fsage_format::whole::ReaderGone;
use fsage_host::signals;
use fsage_report::units;

use crate::args::{MethodArg, TraceArgs};
use crate::exit::{Exit, UsageError};
use crate::files::writable;
use crate::made::Made;
use crate::{out, ui};

/// How long a command that was asked to stop gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(mut args: TraceArgs) -> Result<Exit> {
    if args.command.first().is_some_and(|word| word.is_empty()) {
        return Err(
            UsageError("'' is no command: expected a program's name behind --".into()).into(),
        );
    }
    let stop = signals::install()?;
    let asked = std::mem::take(&mut args.output);
    let to_stdout = asked == Path::new("-");
    let output = out::file(&asked, args.json, &stop)?;
    writable(&output, Made::Own(FileKind::Trace))?;
    let json = args.json;
    let is_command = args.pid.is_empty();
    let mut request = request(args)?;
    request.output_to_stderr |= to_stdout;
    let mut begun = Begun::default();
    let traced = trace_to(
        Some(&output),
        &request,
        &Beside::default(),
        &stop,
        &mut |reported| {
            if let Notice::Started(start) = reported {
                begun = begin(start, is_command);
            } else {
                notice(reported, is_command);
            }
        },
    );
    signals::forward_to(None);
    let traced = traced?;
    let summary = &traced.summary;
    if json {
        out::document(&to_json(&output, &traced, &begun))?;
    }
    tell(&asked, &traced, is_command);
    if summary.mounted_again > 0 && !request.under.is_empty() {
        ui::line(&format!(
            "directories were mounted at second places ({}x): what was named by way of these is not known to be below \
             --under and may be missing",
            units::count(summary.mounted_again)
        ));
    }
    if summary.strayed > 0 {
        ui::line(&format!(
            "directories were renamed by others and not found again ({}x): names relative to them are told with the old \
             ones",
            units::count(summary.strayed)
        ));
    }
    Ok(match summary.exit_status {
        Some(status) => Exit::Status(u8::try_from(status).unwrap_or(1)),
        None if stop.load(Ordering::Relaxed) && is_command => Exit::Interrupted,
        None if summary.lost > 0 => Exit::Incomplete,
        None => Exit::Done,
    })
}

/// What is asked for.
fn request(args: TraceArgs) -> Result<CaptureRequest> {
    Ok(CaptureRequest {
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
        buffers: Buffers {
            ring_mib: args.ring_mib,
            spool_mib: args.spool_mib.unwrap_or_else(default_spool_mib),
            throttle: !args.no_throttle,
        },
        patience: PATIENCE,
        keep_running: args.keep_running,
        output_to_stderr: args.json,
        output_to: None,
    })
}

/// Says what happens while it runs.
fn notice(reported: &Notice<'_>, is_command: bool) {
    match reported {
        Notice::Waiting { .. }
        | Notice::Started(_)
        | Notice::Lost { .. }
        | Notice::CommandEnded { running_on: [] } => {}
        Notice::EndedUntraced { exit_status } => ui::line(&format!(
            "the command has ended, {}",
            exit_status.map_or("nobody knows how".into(), |s| format!("exit status {s}"))
        )),
        Notice::CommandEnded { running_on } => ui::line(&format!(
            "the command has ended; still traced to the end, because under ptrace nothing it started \
             can live without its tracer: {} ({}); Ctrl-C ends that",
            processes(running_on.len()),
            numbers(running_on),
        )),
        Notice::Broken { why, ends } => ui::line(&format!(
            "{}; {}",
            if why.ends_with(&ReaderGone.to_string()) {
                "nobody reads the trace any more".to_owned()
            } else {
                format!("the capture cannot go on: failed to {why}")
            },
            match (ends, is_command) {
                (true, _) => "the command is ended (with --keep-running it would go on untraced)",
                (false, true) => "the command goes on untraced",
                (false, false) => "what was traced goes on",
            }
        )),
    }
}

fn to_json(output: &Path, traced: &Traced, begun: &Begun) -> TraceSummary {
    let summary = &traced.summary;
    TraceSummary {
        file: output.to_owned(),
        file_bytes: traced.file_bytes,
        method: summary.method.into(),
        method_reason: summary.method_reason.clone(),
        not_seen: begun.unseen.iter().map(ToString::to_string).collect(),
        refused_pids: begun.refused.iter().map(|pid| pid.0).collect(),
        operations: summary.operations,
        lost: summary.lost,
        lost_32_bit: summary.lost_32_bit,
        operations_left_out: summary.left_out,
        operations_nameless: summary.nameless,
        mounted_again: summary.mounted_again,
        directories_strayed: summary.strayed,
        throttled_ns: summary.held_back.total_ns,
        throttled_calls: summary.held_back.calls,
        late: summary.late,
        elapsed_ns: traced.span_ns,
        latency_total_ns: traced.in_file_system_ns,
        exit_status: summary.exit_status,
        running_on_pids: summary.running_on.iter().map(|pid| pid.0).collect(),
    }
}

/// What was known at the start.
#[derive(Debug, Default)]
struct Begun {
    unseen: Vec<&'static str>,
    refused: Vec<Pid>,
}

/// Says how the capture is made and what it cannot see.
fn begin(start: &CaptureStart, is_command: bool) -> Begun {
    if is_command {
        signals::forward_to(Some(start.pid.0));
    }
    ui::note(&format!(
        "tracing with {}: {}",
        start.method, start.method_reason
    ));
    // What hardly any capture meets is told when it is met.
    let worth: Vec<&str> = start
        .unseen
        .iter()
        .copied()
        .filter(|what| !what.ends_with("(counted)"))
        .collect();
    if !worth.is_empty() {
        ui::line(&format!("not seen by it: {}", worth.join(", ")));
    }
    if !start.refused.is_empty() {
        ui::line(&format!(
            "{} may not be traced and are left out: {}",
            processes(start.refused.len()),
            numbers(&start.refused)
        ));
    }
    Begun {
        unseen: start.unseen.clone(),
        refused: start.refused.clone(),
    }
}

/// The result on stderr, and what a user should know of it.
fn tell(output: &Path, traced: &Traced, is_command: bool) {
    let summary = &traced.summary;
    ui::note(&format!(
        "{}: {} in {}, {} in the file system, {} lost, {}",
        out::shown(output),
        units::counted(summary.operations, "operation"),
        units::duration(traced.span_ns as f64),
        units::duration(traced.in_file_system_ns as f64),
        units::count(summary.lost),
        units::bytes(traced.file_bytes),
    ));
    tell_losses(summary);
    if summary.lost_32_bit > 0 {
        ui::line(&format!(
            "the trace is not whole: {} calls of 32-bit programs were seen and not recorded",
            units::count(summary.lost_32_bit)
        ));
    }
    if is_command && !summary.running_on.is_empty() {
        ui::line(&format!(
            "still running, untraced: {} of the command: {}",
            processes(summary.running_on.len()),
            numbers(&summary.running_on)
        ));
    }
}

/// What is missing, and what was done so that nothing is.
fn tell_losses(summary: &CaptureSummary) {
    if summary.cut_short > 0 {
        ui::line(&format!(
            "the trace is not whole: {} events were seen and had not become operations when a signal ended it",
            units::count(summary.cut_short)
        ));
    }
    let explained = summary.lost_32_bit + summary.left_out + summary.cut_short;
    let no_room = summary.lost.saturating_sub(explained);
    if no_room > 0 {
        ui::line(&format!(
            "the trace is not whole: {} events are missing: for lack of room (without --no-throttle, \
             or with a larger --ring-mib, fewer are), or as io_uring opened files that got no \
             descriptor",
            units::count(no_room)
        ));
    }
    if summary.left_out > 0 {
        ui::line(&format!(
            "{} more operations are left out: the opening of their files was lost, so nobody knows \
             whether they belong below --under",
            units::count(summary.left_out)
        ));
    }
    if summary.nameless > 0 {
        ui::line(&format!(
            "{} operations are without the name of their file or directory: it was lost",
            units::count(summary.nameless)
        ));
    }
    if summary.held_back.calls > 0 {
        ui::line(&format!(
            "the traced processes were faster than fsage: {} calls were held back, so that none is \
             lost, by {} in all; that is in the pauses between operations, not in their latencies",
            units::count(summary.held_back.calls),
            units::duration(summary.held_back.total_ns as f64)
        ));
    }
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".into(),
        more => format!("{more} processes"),
    }
}

/// The first few numbers.
fn numbers(pids: &[Pid]) -> String {
    const SHOWN: usize = 8;
    let mut text: Vec<String> = pids.iter().take(SHOWN).map(|p| p.0.to_string()).collect();
    if pids.len() > SHOWN {
        text.push("…".into());
    }
    text.join(", ")
}

/// Directories must be there, and are compared without symbolic links.
fn absolute(dirs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    dirs.iter()
        .map(|dir| {
            let real = dir.canonicalize();
            let real = real.with_context(|| format!("find --under directory {}", dir.display()))?;
            if !real.is_dir() {
                let why = format!("--under {}: expected a directory", dir.display());
                return Err(UsageError(why).into());
            }
            Ok(real)
        })
        .collect()
}
