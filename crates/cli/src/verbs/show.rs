//! `fsage show`.

mod characterise;
mod model;

use std::path::Path;

use anyhow::{Result, bail};
use fsage_core::OpSource;
use fsage_core::metric::{FamilyId, MetricId, family};
use fsage_format::FileKind;
use fsage_format::image::ImageReader;
use fsage_format::profile::SystemProfile;
use fsage_format::record::{ShownRecord, read_records};
use fsage_format::result::aged::AgedRun;
use fsage_format::result::characterization::{Characterization, ProcessStats};
use fsage_format::result::comparison::Comparison;
use fsage_format::result::compliance::Compliance;
use fsage_format::result::experiment::Experiment;
use fsage_format::result::prediction::Prediction;
use fsage_format::result::replay::Replay;
use fsage_format::result::run::WorkloadRun;
use fsage_format::result::validation::Validation;
use fsage_format::result::{Head, load};
use fsage_format::trace::{Annotations, TraceReader};
use fsage_predict::whatif::parts;
use fsage_report::page::Page;
use fsage_report::{
    characterization, comparison, compliance, experiment, ops, prediction, profile, snapshot,
    units, validation,
};
use fsage_workload::characterize::Characterizer;
use serde::Serialize;

use crate::args::ShowArgs;
use crate::exit::{Exit, UsageError};
use crate::files::{open_snapshot, open_trace};
use crate::{out, ui};

pub fn run(args: &ShowArgs) -> Result<Exit> {
    if !args.file.exists()
        && let Some(exit) = metric(args)?
    {
        return Ok(exit);
    }
    if characterise::is_asked(args)? {
        return characterise::run(args);
    }
    if args.file.is_dir() {
        let (file, _) = super::check::format_of(&args.file)?;
        return run(&ShowArgs {
            file,
            ..args.clone()
        });
    }
    let kind = fsage_format::sniff(&args.file)?;
    if args.ops.is_some() && kind != FileKind::Trace {
        bail!(UsageError(format!(
            "--ops is for traces, and {} is none",
            args.file.display()
        )));
    }
    of_kind(args, kind)
}

fn of_kind(args: &ShowArgs, kind: FileKind) -> Result<Exit> {
    match kind {
        FileKind::Trace => match &args.ops {
            Some(range) => operations(args, range),
            None => trace(args),
        },
        FileKind::Snapshot => tree(args),
        FileKind::Profile => system_profile(args),
        FileKind::Record => record(args),
        FileKind::Prediction => show(args, &load::<Prediction>(&args.file)?, |found, width| {
            prediction::text(found, args.details, width)
        }),
        FileKind::Validation => show(args, &load::<Validation>(&args.file)?, |found, width| {
            validation::text(found, args.details, width)
        }),
        FileKind::Experiment => show(args, &Experiment::load(&args.file)?, |found, width| {
            experiment::text(found, args.details, width)
        }),
        FileKind::Comparison => show(args, &load::<Comparison>(&args.file)?, |found, width| {
            comparison::text(found, args.details, false, width)
        }),
        FileKind::Run => show(
            args,
            &load::<WorkloadRun>(&args.file)?,
            fsage_report::run::text,
        ),
        FileKind::Replay => show(
            args,
            &load::<Replay>(&args.file)?,
            fsage_report::replay::text,
        ),
        FileKind::AgedRun => show(
            args,
            &load::<AgedRun>(&args.file)?,
            super::age::apply::in_words,
        ),
        FileKind::Image => {
            let mut reader = ImageReader::open(&args.file)?;
            let contents = reader.check()?;
            if args.json {
                out::document(reader.head())?;
            } else {
                let text = fsage_report::aged::image(reader.head(), contents, out::width());
                out::text(&text)?;
            }
            Ok(Exit::Done)
        }
        FileKind::Model | FileKind::FileRunner => model::run(args, kind),
        FileKind::Compliance => show(args, &load::<Compliance>(&args.file)?, |found, width| {
            compliance::text(found, args.details, width)
        }),
    }
}

/// What the name of a metric means, where no file has it; `None` where it cannot be one.
fn metric(args: &ShowArgs) -> Result<Option<Exit>> {
    let name = args.file.to_string_lossy().to_uppercase();
    let of = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(of) {
        return Ok(None);
    }
    let explained = fsage_report::metric::explain(&name, out::width());
    let group = parts::families(&name.to_lowercase());
    let group = group.filter(|_| explained.is_none());
    let of_group = |families: &Vec<FamilyId>| {
        fsage_report::metric::group(&name.to_lowercase(), families, out::width())
    };
    let Some(text) = explained.or_else(|| group.as_ref().map(of_group)) else {
        bail!(
            "find {}: no file and no metric has that name; the nearest are {}",
            args.file.display(),
            parts::nearest_metrics(&name).join(", ")
        );
    };
    if args.json {
        let id = MetricId::parse(&name).map(MetricId::family);
        let family = id.or_else(|| family(&name)).filter(|_| group.is_none());
        let all: Vec<FamilyId> = group.into_iter().flatten().chain(family).collect();
        out::json(&super::profile::metric_list(|row| {
            all.iter().any(|f| f.row().stem == row.stem)
        }))?;
    } else {
        out::text(&text)?;
    }
    Ok(Some(Exit::Done))
}

/// A result as JSON or as text.
fn show<T: Serialize>(
    args: &ShowArgs,
    loaded: &T,
    text: impl FnOnce(&T, u16) -> String,
) -> Result<Exit> {
    if args.json {
        out::json(loaded)?;
    } else {
        out::text(&text(loaded, out::width()))?;
    }
    Ok(Exit::Done)
}

fn system_profile(args: &ShowArgs) -> Result<Exit> {
    let file = args.file.display().to_string();
    show(
        args,
        &SystemProfile::load(&args.file)?,
        |found, width| match out::lines().filter(|_| !args.details) {
            Some(lines) => profile::screen(found, &file, lines, width),
            None => profile::text(found, &file, args.details, width),
        },
    )
}

fn trace(args: &ShowArgs) -> Result<Exit> {
    let mut reader = open_trace(&args.file)?;
    crate::files::remark(&args.file, &reader);
    let mut sink = Characterizer::new();
    crate::files::copy(&mut reader, &mut sink)?;
    let found = finished(sink, &reader);
    let shown = characterization::ShownTrace {
        meta: reader.meta().clone(),
        end: reader.end().cloned(),
        loss: reader.loss().clone(),
        found,
    };
    if args.json {
        out::document(&shown)?;
    } else {
        out::text(&characterization::text(
            &shown,
            &args.file.display().to_string(),
            args.details,
            out::width(),
        ))?;
    }
    Ok(if reader.loss().is_none() {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

/// What was found, with the names of all programs that the trace knows.
fn finished(sink: Characterizer, reader: &TraceReader) -> Characterization {
    let mut found = sink.finish(reader.loss().operations_lost);
    // Where calls outside of some directories were left out, the end of the trace has the names.
    let programs = reader.end().map(|end| &end.programs);
    // Of a number that several processes had it says what the last of them ran, whichever that is.
    let several = found.shared_numbers();
    let unnamed = |p: &&mut ProcessStats| p.name.is_none() && !several.contains(&p.pid);
    for process in found.processes.iter_mut().filter(unnamed) {
        process.name = programs.and_then(|all| all.get(&process.pid)).cloned();
    }
    found
}

/// Prints the operations of `FIRST..LAST` (either may be missing), streaming.
fn operations(args: &ShowArgs, range: &str) -> Result<Exit> {
    let (first, last) = parse_range(range)?;
    let mut reader = open_trace(&args.file)?;
    let total = reader.total_operations();
    if first > 0 && first >= total {
        bail!(
            "show operations {range} of {}: it has {}, counted from 0",
            args.file.display(),
            units::counted(total, "operation")
        );
    }
    if args.json {
        let head = serde_json::to_string(&Head::of::<ops::OpRow>())?;
        out::json_lines(&(head + "\n"))?;
    }
    let mut index = reader.skip(first)?;
    let mut batch = Vec::new();
    let mut notes = Annotations::default();
    let mut text = String::new();
    if total == 0 {
        ui::line(&format!("fsage: {} has no operations", args.file.display()));
    }
    while index < last {
        batch.clear();
        if reader.next_annotated(&mut batch, &mut notes)? == 0 {
            break;
        }
        text.clear();
        for (row, op) in batch.iter().enumerate() {
            if index >= last {
                break;
            }
            text.push_str(&line(args.json, index, op, &reader, notes.row(row))?);
            text.push('\n');
            index += 1;
        }
        if args.json {
            out::json_lines(&text)?;
        } else {
            out::page(&text)?;
        }
    }
    Ok(if reader.loss().is_none() {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

fn line(
    json: bool,
    index: u64,
    op: &fsage_core::Op,
    reader: &TraceReader,
    values: &[fsage_format::trace::AnnotationValue],
) -> Result<String> {
    let columns = reader.annotation_columns();
    if json {
        return Ok(serde_json::to_string(&ops::OpRow::new(
            index,
            op,
            reader.paths(),
            columns,
            values,
        ))?);
    }
    Ok(ops::line(index, op, reader.paths()) + &ops::annotations(columns, values))
}

fn parse_range(text: &str) -> Result<(u64, u64)> {
    let bad = || {
        UsageError(format!(
            "`{text}` is no range of operations; expected FIRST..LAST"
        ))
    };
    let number = |part: &str, missing: u64| {
        if part.is_empty() {
            Ok(missing)
        } else {
            part.parse().map_err(|_| bad())
        }
    };
    if let Some((first, last)) = text.split_once("..") {
        let range = (number(first, 0)?, number(last, u64::MAX)?);
        return if range.0 < range.1 {
            Ok(range)
        } else {
            Err(UsageError(format!(
                "`{text}` holds no operation; expected FIRST..LAST with FIRST below LAST"
            ))
            .into())
        };
    }
    let only: u64 = text.parse().map_err(|_| bad())?;
    Ok((only, only.saturating_add(1)))
}

fn tree(args: &ShowArgs) -> Result<Exit> {
    let mut reader = open_snapshot(&args.file)?;
    let mut summary = snapshot::SnapshotSummary::new(reader.meta().clone());
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            summary.add(&entry);
        }
    }
    let shown = summary.finish(reader.end().cloned(), reader.loss().bytes_dropped);
    if args.json {
        out::document(&shown)?;
    } else {
        out::text(&snapshot::text(
            &shown,
            &args.file.display().to_string(),
            args.details,
            out::width(),
        ))?;
    }
    Ok(if reader.loss().is_none() {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

/// A run record: what it is of, or all of its lines.
fn record(args: &ShowArgs) -> Result<Exit> {
    let read = read_records::<Box<serde_json::value::RawValue>>(&args.file)?;
    if args.json {
        out::document(&ShownRecord {
            head: read.head,
            records: read.records,
        })?;
        return Ok(Exit::Done);
    }
    let mut page = Page::new(out::width());
    let dir = args.file.parent().unwrap_or(Path::new(".")).display();
    page.say(format!(
        "the record of a {}: {} steps, written as each ended",
        read.head.kind,
        units::count(read.records.len() as u64)
    ));
    page.say(format!(
        "its result is made from it by fsage {} --resume -o {dir}; the record itself: --json",
        read.head.kind
    ));
    out::text(&page.finish())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::parse_range;

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(parse_range("..").unwrap(), (0, u64::MAX));
        assert_eq!(parse_range("5..9").unwrap(), (5, 9));
        assert_eq!(parse_range("7").unwrap(), (7, 8));
        assert!(parse_range("a..b").is_err());
        for empty in ["5..3", "5..5"] {
            let error = parse_range(empty).unwrap_err().to_string();
            assert!(error.contains("holds no operation"), "{error}");
        }
    }
}
