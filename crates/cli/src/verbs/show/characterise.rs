//! `fsage show TRACE --characterise` and `fsage show A --against B`.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use fsage_core::{OpSource, PathTable};
use fsage_format::FileKind;
use fsage_format::record::write_whole;
use fsage_format::result::character::Characterised;
use fsage_format::trace::TraceReader;
use fsage_host::signals;
use fsage_model::fsm::Character;
use fsage_model::likeness::likeness;
use fsage_report::{characterised, plot, units};
use fsage_workload::characterize::Characterizer;

use super::super::model::{all, roots};
use crate::args::ShowArgs;
use crate::exit::{Exit, UsageError};
use crate::files::{apart, no_stream, open_trace, remark, writable};
use crate::made::{Made, mark};
use crate::{out, ui};

/// Whether it is; a mistake in what goes with it is an error.
pub fn is_asked(args: &ShowArgs) -> Result<bool, UsageError> {
    let asked = args.characterise || args.against.is_some();
    let given = [
        ("--svg", args.svg.is_some()),
        ("--under", !args.under.is_empty()),
    ];
    match given.into_iter().find(|g| g.1 && !asked) {
        Some((option, _)) => Err(UsageError(format!(
            "{option} is for --characterise and --against"
        ))),
        None => Ok(asked),
    }
}

/// Shows one trace, or two.
pub fn run(args: &ShowArgs) -> Result<Exit> {
    let traces: Vec<&Path> = [Some(&args.file), args.against.as_ref()]
        .into_iter()
        .flatten()
        .map(std::path::PathBuf::as_path)
        .collect();
    for path in &traces {
        let kind = fsage_format::sniff(path)?;
        if kind != FileKind::Trace {
            bail!(UsageError(format!(
                "--characterise and --against are for traces, and {} is none",
                path.display()
            )));
        }
    }
    if let Some(svg) = &args.svg {
        no_stream("--svg", Some(svg))?;
        apart(traces.iter().copied(), [svg.as_path()])?;
        writable(svg, Made::Plot)?;
    }
    let stop = signals::install()?;
    let (a, mut whole) = characterised(args, &args.file, &stop)?;
    let Some(against) = &args.against else {
        if let Some(svg) = &args.svg {
            write_whole(svg, mark::plot(plot::character::one(&a)?).as_bytes())?;
        }
        print(args, &a, |width| {
            characterised::text(&a, args.details, width)
        })?;
        return Ok(exit(whole));
    };
    let (b, whole_too) = characterised(args, against, &stop)?;
    whole &= whole_too;
    let found = likeness(a, b);
    if let Some(svg) = &args.svg {
        write_whole(svg, mark::plot(plot::character::two(&found)?).as_bytes())?;
    }
    print(args, &found, |width| {
        characterised::against(&found, args.details, width)
    })?;
    Ok(exit(whole))
}

fn print<T: serde::Serialize + fsage_format::result::Document>(
    args: &ShowArgs,
    found: &T,
    text: impl FnOnce(u16) -> String,
) -> Result<()> {
    if args.json {
        return out::document(found);
    }
    Ok(out::text(&text(out::width()))?)
}

fn exit(whole: bool) -> Exit {
    if whole { Exit::Done } else { Exit::Incomplete }
}

/// What a trace is like, and whether it lacks nothing.
fn characterised(args: &ShowArgs, path: &Path, stop: &AtomicBool) -> Result<(Characterised, bool)> {
    let mut reader = open_trace(path)?;
    remark(path, &reader);
    let run = of_run(path, &reader);
    let (first_ns, last_ns) = ends(path, &run)?;
    let mut character = Character::new(&roots(&args.under, &reader), first_ns, last_ns);
    let mut others = Characterizer::new();
    let mut number = 0;
    all(&mut reader, stop, |op, paths: &PathTable| {
        if run.contains(&number) {
            character.take(op, paths);
            others.take(op, paths);
        }
        number += 1;
        Ok(())
    })?;
    let found = super::finished(others, &reader);
    let Some(known) = character.finish() else {
        bail!(
            "characterise {}: it has no operation on a file{}: expected at least one",
            path.display(),
            if args.under.is_empty() {
                ""
            } else {
                " below the directories of --under"
            }
        );
    };
    let found = Characterised {
        trace: path.to_owned(),
        operations_on_files: known.operations,
        phases: known.phases,
        groups: known.groups,
        reuse: known.reuse,
        popularity: known.popularity,
        concurrency: known.concurrency,
        timeline: known.timeline,
        found,
    };
    Ok((found, reader.loss().is_none()))
}

/// How many operations at a trace's end are looked at for the one that began last: they need not be in that order.
const LAST: u64 = 1000;

/// Which operations of a trace are its workload's: what set that up and took it down again is not. Says how many are left
/// out.
fn of_run(path: &Path, reader: &TraceReader) -> Range<u64> {
    let all = reader.total_operations();
    let (setup, teardown) = reader.end().map_or((0, 0), |end| {
        (end.setup_operations, end.teardown_operations)
    });
    let run = setup.min(all)..all.saturating_sub(teardown);
    if run.is_empty() || run == (0..all) {
        return 0..all;
    }
    let of = |n: u64, what: &str| (n > 0).then(|| format!("{} of its {what}", units::count(n)));
    let left = [of(setup, "set-up"), of(teardown, "teardown")];
    let left: Vec<String> = left.into_iter().flatten().collect();
    ui::line(&format!(
        "{}: left out are the operations that are not the workload's: {}",
        path.display(),
        left.join(", ")
    ));
    run
}

/// When the first and the last of these operations begin.
fn ends(path: &Path, run: &Range<u64>) -> Result<(u64, u64)> {
    let mut batch = Vec::new();
    let mut reader = TraceReader::open(path)?;
    reader.skip(run.start)?;
    reader.next_batch(&mut batch)?;
    let first_ns = batch.first().map_or(0, |op| op.start_ns);
    let mut reader = TraceReader::open(path)?;
    let mut at = run.end.saturating_sub(LAST).max(run.start);
    reader.skip(at)?;
    let mut last_ns = first_ns;
    loop {
        batch.clear();
        if reader.next_batch(&mut batch)? == 0 || at >= run.end {
            return Ok((first_ns, last_ns));
        }
        let left = (run.end - at) as usize;
        let starts = batch.iter().take(left).map(|op| op.start_ns);
        last_ns = starts.fold(last_ns, u64::max);
        at += batch.len() as u64;
    }
}
