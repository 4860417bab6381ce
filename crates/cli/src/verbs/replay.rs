//! `fsage replay`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use fsage_exec::replay::{BuildError, Order, Pace};
use fsage_experiment::replaying::{ReplayRequest, ReplayingError, Stage, replay};
use fsage_experiment::target;
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::replay::Replay;
use fsage_host::signals;

use super::validate::isolate_for;
use crate::args::{OrderArg, ReplayArgs};
use crate::exit::{Exit, UsageError};
use crate::files::{apart, open_whole_snapshot, open_whole_trace, outputs, sealed_note};
use crate::{out, ui};

pub fn run(args: &ReplayArgs) -> Result<Exit> {
    let target = target::parse(&args.target)?;
    if args.keep && target.is_temporary() {
        let text = "--keep needs a directory as target: a scratch file system goes when fsage ends";
        return Err(UsageError(text.into()).into());
    }
    let request = ReplayRequest {
        trace: args.trace.clone(),
        snapshot: args.snapshot.clone(),
        target,
        pace: args.speed,
        order: match args.order {
            OrderArg::Process => Order::Process,
            OrderArg::File => Order::File,
            OrderArg::Strict => Order::Strict,
        },
        map: args.map.clone(),
        cold: args.cold,
        verify: args.verify,
        keep: args.keep,
        seed: args.seed,
        measured: args.measured.clone(),
        figures: None,
    };
    let (output, json) = out::places(args.output.as_deref(), args.json);
    let measured = args.measured.as_deref();
    let uses = request.target.uses();
    let reads = args.snapshot.as_deref().into_iter().chain([&*args.trace]);
    let reads = reads.chain(uses.iter().map(PathBuf::as_path));
    apart(reads, output.into_iter().chain(measured))?;
    isolate_for([&request.target])?;
    // An open may wait, of a pipe without a writer: until there is something to undo, a signal just ends it.
    let reader = open_whole_trace(&args.trace, args.allow_lossy)?;
    if let Some(path) = &args.snapshot {
        open_whole_snapshot(path, args.allow_lossy)?;
    }
    let stop = signals::install()?;
    outputs(
        output,
        "--trace",
        measured,
        [FileKind::Replay, FileKind::Trace],
    )?;
    for path in output.into_iter().chain(measured) {
        out::wait_for_reader(path, &stop)?;
    }
    super::prepare([&request.target], &stop)?;
    let bar = ui::Progress::new(4, "reading the trace");
    let replayed = replay(reader, &request, &mut |stage| show(&bar, stage), &stop);
    drop(bar);
    let (result, sealed) = match replayed {
        Err(ReplayingError::Build(BuildError::Interrupted)) => {
            ui::line("fsage: interrupted");
            return Ok(Exit::Interrupted);
        }
        other => other?,
    };
    sealed_note(measured, sealed);
    if let Some(output) = output {
        let text = serde_json::to_string_pretty(&result)? + "\n";
        write_whole(output, text.as_bytes())?;
    }
    if json {
        out::json(&result)?;
    } else {
        out::text(&fsage_report::replay::text(&result, out::width()))?;
    }
    Ok(exit(&result))
}

fn show(bar: &ui::Progress, stage: Stage) {
    let (step, what) = match stage {
        Stage::Scan => (0, "reading the trace"),
        Stage::Build => (1, "making the initial tree"),
        Stage::Replay => (2, "replaying"),
        Stage::Verify => (3, "comparing the trees"),
    };
    bar.set(step, 4, what, None);
}

fn exit(result: &Replay) -> Exit {
    if result.interrupted {
        ui::line("fsage: interrupted");
        return Exit::Interrupted;
    }
    if let Some(verified) = result.verified.as_ref().filter(|v| v.wrong > 0) {
        ui::line(&format!(
            "fsage: failed to verify the tree: {} of {} names are not as the trace leads to",
            verified.wrong, verified.names
        ));
        return Exit::Failed;
    }
    if result.differ > 0 {
        ui::line(&format!(
            "{} of {} results differ from the trace's",
            result.differ, result.replayed
        ));
        return Exit::Incomplete;
    }
    let untold = result.changes_untold();
    if untold > 0 && result.verified.is_some() {
        ui::line(&format!(
            "{untold} operations changed files by descriptors of which the trace does not tell: what they changed is in no \
             tree that was compared"
        ));
        return Exit::Incomplete;
    }
    let unlike = result
        .verified
        .as_ref()
        .map_or(0, |v| v.not_verified.values().sum());
    if unlike > 0 {
        ui::line(&format!(
            "{unlike} operations changed names or sizes by what no target has a call for: that is in no tree that was compared"
        ));
        return Exit::Incomplete;
    }
    Exit::Done
}

/// `afap`, `original`, `x2`, `x0.5`.
pub fn parse_speed(text: &str) -> Result<Pace, String> {
    match text {
        "afap" => return Ok(Pace::AsFastAsPossible),
        "original" => return Ok(Pace::Times(1.0)),
        _ => {}
    }
    let number = text.strip_prefix('x').and_then(|n| n.parse::<f64>().ok());
    number
        .filter(|n| (1e-3..=1e6).contains(n))
        .map(Pace::Times)
        .ok_or_else(|| {
            format!("`{text}` is not a speed; expected afap, original or xN with N from 0.001 to 1000000")
        })
}

/// `FROM=TO`.
pub fn parse_map(text: &std::ffi::OsStr) -> Result<(Vec<u8>, Vec<u8>), String> {
    let bytes = text.as_bytes();
    let shown = fsage_core::text::of_path(bytes);
    let at = bytes.iter().position(|&b| b == b'=');
    let parts = at.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)));
    let (from, to) = parts.ok_or_else(|| format!("`{shown}` is not FROM=TO"))?;
    if from.first() != Some(&b'/') {
        return Err(format!(
            "`{shown}`: FROM must be an absolute directory of the traced machine"
        ));
    }
    if to.first() == Some(&b'/') || to.split(|&b| b == b'/').any(|part| part == b"..") {
        return Err(format!(
            "`{shown}`: TO must be relative to the target and without `..`"
        ));
    }
    Ok((from.to_vec(), to.to_vec()))
}
