//! `fsage age apply`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fsage_age::apply::State;
use fsage_experiment::aging::{AgingError, AgingRequest, age_held, made_of};
use fsage_experiment::target;
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::aged::AgedRun;
use fsage_host::signals;
use fsage_report::units;

use crate::args::AgeApplyArgs;
use crate::exit::{Exit, Interrupted, UsageError};
use crate::files::{apart, open_whole_trace, outputs};
use crate::limits::too_large;
use crate::verbs::validate::isolate_for;
use crate::verbs::with_days;
use crate::{out, ui};

pub fn run(args: &AgeApplyArgs) -> Result<Exit> {
    let target = target::parse(&args.target)?;
    let (output, json) = out::places(args.output.as_deref(), args.json);
    if args.resume && (target.is_temporary() || output.is_none()) {
        let text = "--resume needs a directory as target and -o with a file: a scratch file system goes with its run";
        return Err(UsageError(text.into()).into());
    }
    isolate_for([&target])?;
    let keep = args.keep.as_deref();
    let uses = target.uses();
    let reads = uses.iter().map(PathBuf::as_path).chain([&*args.workload]);
    apart(reads, output.into_iter().chain(keep))?;
    let workload = open_whole_trace(&args.workload, args.allow_lossy)?;
    made_of(&workload, &args.workload)?;
    let stop = signals::install()?;
    outputs(output, "--keep", keep, [FileKind::AgedRun, FileKind::Image])?;
    if args.resume {
        unfinished(output)?;
    }
    let request = AgingRequest {
        workload: args.workload.clone(),
        state: output.filter(|_| !target.is_temporary()).map(part),
        target,
        fast: args.fast,
        seed: args.seed,
        score: !args.no_score,
        resume: args.resume,
        keep: args.keep.clone(),
    };
    let aged = with_days(|progress| age_held(workload, &request, progress, &stop));
    let (result, state) = match aged {
        Err(AgingError::Interrupted) => return Err(Interrupted.into()),
        other => other?,
    };
    if let Some(output) = output.filter(|_| state.is_none() || !result.interrupted) {
        let text = serde_json::to_string_pretty(&result)? + "\n";
        write_whole(output, text.as_bytes())?;
    }
    if json {
        out::json(&result)?;
    } else {
        out::text(&in_words(&result, out::width()))?;
    }
    Ok(ended(&result, state))
}

/// What a terminal shows of it.
pub fn in_words(result: &AgedRun, width: u16) -> String {
    let was_temporary = target::was_temporary(&result.target);
    fsage_report::aged::text(result, was_temporary, width)
}

/// Fails where the run has finished: its result is there, and nothing to go on with.
fn unfinished(output: Option<&Path>) -> Result<()> {
    if let Some(output) = output.filter(|output| !part(output).exists())
        && matches!(fsage_format::sniff(output), Ok(FileKind::AgedRun))
    {
        bail!(
            "go on with {}: it has finished already and is its result: nothing is left to be done",
            output.display()
        );
    }
    Ok(())
}

/// Where it is kept what was done.
fn part(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn ended(result: &AgedRun, state: Option<State>) -> Exit {
    if result.interrupted {
        ui::line(match state {
            Some(_) => "fsage: interrupted; --resume with the same -o goes on with it",
            None => "fsage: interrupted",
        });
        return Exit::Interrupted;
    }
    if let Some(state) = state {
        // The result says it all; what cannot be removed is replaced by the next run.
        let _ = state.remove();
    }
    if let Some(kept) = &result.kept {
        ui::note(&format!("kept in {kept}"));
    }
    let tally = &result.tally;
    if tally.too_large > 0 {
        ui::line(&format!(
            "{} operations would have made too large a file: {}",
            units::count(tally.too_large),
            too_large()
        ));
    }
    let others = tally.no_space + tally.absent + tally.refused;
    if others > 0 {
        ui::line(&format!(
            "{} operations met a full disk, {} what is not there, {} were refused",
            units::count(tally.no_space),
            units::count(tally.absent),
            units::count(tally.refused)
        ));
    }
    if others + tally.too_large == 0 {
        Exit::Done
    } else {
        Exit::Incomplete
    }
}
