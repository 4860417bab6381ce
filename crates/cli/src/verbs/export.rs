//! `fsage export`.

mod model;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fsage_core::OpSource;
use fsage_format::FileKind;
use fsage_format::foreign::csv::CsvSink;
use fsage_format::foreign::hbench::snapshot::SnapshotText;
use fsage_format::foreign::hbench::{self, HbenchSink};
use fsage_format::foreign::strace::StraceSink;
use fsage_format::profile::SystemProfile;
use fsage_format::result::summary::{Content, ConversionSummary};
use fsage_format::trace::{Annotations, TraceReader};
use fsage_format::whole::Whole;
use fsage_report::units;

use crate::args::{ExportArgs, ExportFormat};
use crate::exit::{Exit, UsageError};
use crate::files::{apart, copy, open_whole_snapshot, open_whole_trace};
use crate::made::{Made, may_replace};
use crate::{out, ui};

pub fn run(args: &ExportArgs) -> Result<Exit> {
    let convert = match args.to {
        ExportFormat::Filebench | ExportFormat::Fio | ExportFormat::Wml => {
            model::check_kind(args)?;
            model::write
        }
        _ => of_kind(args)?,
    };
    convert_by(args, convert)
}

/// How a file that is no model is converted.
fn of_kind(args: &ExportArgs) -> Result<Convert> {
    let kind = fsage_format::sniff(&args.file)?;
    Ok(match (kind, args.to) {
        (FileKind::Trace, _) => trace,
        (FileKind::Snapshot, ExportFormat::Hbench) => snapshot,
        (FileKind::Profile, ExportFormat::Hbench) => profile,
        (kind, format) => bail!(UsageError(format!(
            "{} is {}, which cannot be written as {}",
            args.file.display(),
            kind.what(),
            format!("{format:?}").to_lowercase()
        ))),
    })
}

fn convert_by(args: &ExportArgs, convert: Convert) -> Result<Exit> {
    if args.output.as_os_str() == "-" {
        return to_stdout(args, convert);
    }
    apart([&*args.file], [&*args.output])?;
    may_replace(&args.output, Made::Export(args.to))?;
    let failed = || format!("write {}", args.output.display());
    let mut output =
        BufWriter::with_capacity(1 << 20, Whole::create(&args.output).with_context(failed)?);
    let summary = convert(args, &mut output)?;
    let whole = output
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error);
    whole.and_then(Whole::commit).with_context(failed)?;
    tell(&summary);
    if args.json {
        out::document(&summary)?;
    }
    Ok(Exit::Done)
}

/// `-o -`: the data itself is what stdout gets.
fn to_stdout(args: &ExportArgs, convert: Convert) -> Result<Exit> {
    if args.json {
        bail!(UsageError(
            "--json prints the summary where --output - writes the data: give one of them".into()
        ));
    }
    let stdout = out::data()?;
    let mut output = BufWriter::with_capacity(1 << 20, stdout);
    let summary = convert(args, &mut output)?;
    output.flush().context("write stdout")?;
    tell(&summary);
    Ok(Exit::Done)
}

fn tell(summary: &ConversionSummary) {
    if summary.content == Content::Model {
        return model::tell(summary);
    }
    let left_out: u64 = summary.left_out.values().sum();
    ui::note(&format!(
        "{}: {} {}; {} left out",
        out::shown(&summary.file),
        units::count(summary.written),
        summary.content.items(),
        units::count(left_out)
    ));
    for (what, count) in &summary.left_out {
        ui::line(&format!(
            "  left out, the format has none: {what}: {}",
            units::count(*count)
        ));
    }
}

type Output<'a> = &'a mut dyn Write;

type Convert = fn(&ExportArgs, Output<'_>) -> Result<ConversionSummary>;

fn summary(
    args: &ExportArgs,
    content: Content,
    read: u64,
    left_out: BTreeMap<String, u64>,
) -> ConversionSummary {
    ConversionSummary {
        file: args.output.clone(),
        content,
        written: read.saturating_sub(left_out.values().sum()),
        left_out,
        run_by: None,
        made: None,
    }
}

fn trace(args: &ExportArgs, output: Output<'_>) -> Result<ConversionSummary> {
    let mut reader = open_whole_trace(&args.file, args.allow_lossy)?;
    let start_unix_ns = reader.meta().start_unix_ns;
    let mut not_carried = BTreeMap::new();
    let operations = match args.to {
        ExportFormat::Strace => {
            let mut sink = StraceSink::new(output, &args.output, start_unix_ns);
            let count = copy(&mut reader, &mut sink)?;
            not_carried = sink.finish()?;
            count
        }
        ExportFormat::Hbench => {
            let mut sink = HbenchSink::new(output, &args.output, start_unix_ns);
            let count = copy(&mut reader, &mut sink)?;
            not_carried = sink.finish()?;
            count
        }
        ExportFormat::Csv => csv(&mut reader, output, &args.output)?,
        ExportFormat::Filebench | ExportFormat::Fio | ExportFormat::Wml => {
            bail!(UsageError("a trace is no model".into()))
        }
    };
    let left_out = not_carried
        .into_iter()
        .map(|(kind, count)| (kind.to_string(), count))
        .collect();
    Ok(summary(args, Content::Trace, operations, left_out))
}

/// Writes a trace with what an analysis has added to it; returns how many operations.
fn csv(reader: &mut TraceReader, output: Output<'_>, name: &Path) -> Result<u64> {
    let mut sink = CsvSink::new(output, name, reader.annotation_columns())?;
    let (mut batch, mut notes) = (Vec::new(), Annotations::default());
    let mut count = 0;
    while reader.next_annotated(&mut batch, &mut notes)? > 0 {
        for (row, op) in batch.iter().enumerate() {
            sink.push_annotated(op, reader.paths(), notes.row(row))?;
        }
        count += batch.len() as u64;
        batch.clear();
    }
    sink.finish()?;
    Ok(count)
}

fn snapshot(args: &ExportArgs, output: Output<'_>) -> Result<ConversionSummary> {
    let mut reader = open_whole_snapshot(&args.file, args.allow_lossy)?;
    let mut text = SnapshotText::new();
    let mut batch = Vec::new();
    let mut entries = 0;
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            text.push(&entry, &args.output)?;
            entries += 1;
        }
    }
    let mut left_out = BTreeMap::new();
    let others = text.write(output, &args.output)?;
    if others > 0 {
        left_out.insert("neither file, directory nor link".into(), others);
    }
    Ok(summary(args, Content::Snapshot, entries, left_out))
}

fn profile(args: &ExportArgs, output: Output<'_>) -> Result<ConversionSummary> {
    let profile = SystemProfile::load(&args.file)?;
    let (text, left_out) = hbench::profile::to_text(&profile);
    output
        .write_all(text.as_bytes())
        .with_context(|| format!("write {}", args.output.display()))?;
    // One line says enough: that table has a few dozen, a profile hundreds.
    let mut by_cause = BTreeMap::new();
    if !left_out.is_empty() {
        by_cause.insert("metrics beyond Table 4.4".into(), left_out.len() as u64);
    }
    let metrics = profile.metrics.len() as u64;
    Ok(summary(args, Content::Profile, metrics, by_cause))
}
