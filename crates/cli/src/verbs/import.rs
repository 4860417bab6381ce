//! `fsage import`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fsage_core::{OpSink, OpSource};
use fsage_format::FileKind;
use fsage_format::bounded;
use fsage_format::foreign::classic::ClassicReader;
use fsage_format::foreign::hbench::{self, HbenchSource};
use fsage_format::foreign::iolog::IologSource;
use fsage_format::foreign::strace::StraceSource;
use fsage_format::result::summary::{Content, ConversionSummary as Summary};
use fsage_format::snapshot::{SnapshotEnd, SnapshotMeta, SnapshotWriter};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceWriter, path_text};
use fsage_report::units;

use crate::args::{ImportArgs, ImportFormat};
use crate::exit::{Exit, UsageError};
use crate::files::{apart, copy, writable};
use crate::made::Made;
use crate::{out, ui};

/// A file of fsage's own is no text that somebody else wrote.
fn foreign(file: &Path) -> Result<()> {
    match fsage_format::sniff(file) {
        Ok(own @ (FileKind::Trace | FileKind::Snapshot | FileKind::Profile | FileKind::Image)) => {
            bail!(
                "import {}: it is {} of fsage, expected a file of another program",
                file.display(),
                own.what()
            )
        }
        _ => Ok(()),
    }
}

pub fn run(args: &ImportArgs) -> Result<Exit> {
    check(args)?;
    apart([&*args.file], [&*args.output])?;
    foreign(&args.file)?;
    not_empty(args)?;
    let kind = match extension(&args.output) {
        "fss" => FileKind::Snapshot,
        "fsp" => FileKind::Profile,
        _ => FileKind::Trace,
    };
    writable(&args.output, Made::Own(kind))?;
    let imported = match (args.from, extension(&args.output)) {
        (ImportFormat::Strace, "fst") => strace(args)?,
        (ImportFormat::FioIolog, "fst") => fio_iolog(args)?,
        (ImportFormat::Hbench, "fst") => hbench_trace(args)?,
        (ImportFormat::Hbench, "fss") => hbench_snapshot(args)?,
        (ImportFormat::Hbench, "fsp") => hbench_profile(args)?,
        (ImportFormat::Classic, "fss") => classic_snapshot(args)?,
        (ImportFormat::Classic, _) => bail!(UsageError(format!(
            "an import from a classic snapshot is one: expected --output NAME.fss, not {}",
            args.output.display()
        ))),
        (from @ (ImportFormat::Strace | ImportFormat::FioIolog), _) => {
            let from = if from == ImportFormat::Strace {
                "strace"
            } else {
                "fio's iolog"
            };
            bail!(UsageError(format!(
                "an import from {from} is a trace: expected --output NAME.fst, not {}",
                args.output.display()
            )))
        }
        (ImportFormat::Hbench, _) => bail!(UsageError(format!(
            "expected --output NAME.fst (trace), NAME.fss (snapshot) or NAME.fsp (profile), not {}",
            args.output.display()
        ))),
    };
    imported.tell();
    if args.json {
        out::document(&imported.summary)?;
    }
    Ok(Exit::Done)
}

/// What was made, and what of the other file is not in it.
struct Imported {
    summary: Summary,
    /// Left out, and of the file system or perhaps so.
    missing: Counts,
    /// Left out as nobody asks for it.
    elsewhere: Counts,
}

type Counts = BTreeMap<String, u64>;

impl Imported {
    fn tell(&self) {
        let left_out: u64 = self.summary.left_out.values().sum();
        ui::note(&format!(
            "{}: {} {}; {} left out",
            self.summary.file.display(),
            units::count(self.summary.written),
            self.summary.content.items(),
            units::count(left_out)
        ));
        let left_out = |(what, count): (&String, &u64)| {
            format!("  left out: {what}: {}", units::count(*count))
        };
        for line in self.elsewhere.iter().map(left_out) {
            ui::note(&line);
        }
        for line in self.missing.iter().map(left_out) {
            ui::line(&line);
        }
    }
}

/// Formats without a header would take an empty file for one of no records.
fn not_empty(args: &ImportArgs) -> Result<()> {
    let is_empty = |file: &Path| file.metadata().is_ok_and(|m| m.is_file() && m.len() == 0);
    let expected = match args.from {
        ImportFormat::Hbench => "a file of HBench-FS",
        ImportFormat::Classic => "a text snapshot",
        ImportFormat::Strace | ImportFormat::FioIolog => return Ok(()),
    };
    if is_empty(&args.file) {
        bail!(
            "read {}: it is empty, expected {expected}",
            args.file.display()
        );
    }
    Ok(())
}

/// What the options ask for must make sense together.
fn check(args: &ImportArgs) -> Result<()> {
    if !args.under.is_empty() && matches!(args.from, ImportFormat::Hbench | ImportFormat::Classic) {
        bail!(UsageError(
            "--under is for what is imported from strace or fio, whose files have paths".into()
        ));
    }
    if args.directory.is_some() && args.from != ImportFormat::FioIolog {
        bail!(UsageError(
            "--directory is for fio's iologs; strace tells directories with -y".into()
        ));
    }
    let under = args.under.iter().map(|dir| ("--under", dir));
    let directory = args.directory.iter().map(|dir| ("--directory", dir));
    for (option, dir) in under.chain(directory) {
        if !dir.is_absolute() {
            bail!(UsageError(format!(
                "{option} takes an absolute directory of the traced machine, not {}",
                dir.display()
            )));
        }
    }
    Ok(())
}

fn under(args: &ImportArgs) -> Vec<Vec<u8>> {
    let bytes = |dir: &PathBuf| dir.as_os_str().as_bytes().to_vec();
    args.under.iter().map(bytes).collect()
}

/// Of an import whose every count has a name of its own.
fn imported(
    args: &ImportArgs,
    content: Content,
    written: u64,
    (missing, elsewhere): (Counts, Counts),
) -> Imported {
    let summary = Summary {
        file: args.output.clone(),
        content,
        written,
        left_out: missing
            .clone()
            .into_iter()
            .chain(elsewhere.clone())
            .collect(),
        run_by: None,
        made: None,
    };
    Imported {
        summary,
        missing,
        elsewhere,
    }
}

/// Counts that are not 0.
fn counted<const N: usize>(all: [(&str, u64); N]) -> Counts {
    let some = all.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(what, count)| (what.to_owned(), count)).collect()
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let opening = || format!("open {}", path.display());
    let file = bounded::open(path).with_context(opening)?;
    let about = file.metadata().with_context(opening)?;
    if about.file_type().is_char_device() && !file.is_terminal() {
        bail!("{}: it is a device, expected a file or a pipe", opening());
    }
    Ok(BufReader::with_capacity(1 << 20, file))
}

fn meta(args: &ImportArgs, method: &str) -> TraceMeta {
    TraceMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        method: method.into(),
        clock: "of the imported file".into(),
        under: args.under.iter().map(|dir| path_text(dir)).collect(),
        directory: args
            .directory
            .as_deref()
            .map_or_else(String::new, path_text),
        extra: [("imported_from".to_string(), args.file.display().to_string())].into(),
        ..TraceMeta::default()
    }
}

/// Pulls everything from `source` into a trace.
fn take(args: &ImportArgs, method: &str, source: &mut dyn OpSource) -> Result<()> {
    let mut writer = TraceWriter::create_whole(&args.output, meta(args, method))?;
    let mut sink = EndOf {
        inner: &mut writer,
        latest_ns: 0,
        end: TraceEnd::default(),
    };
    copy(source, &mut sink)?;
    let end = sink.end;
    writer.finish(end)?;
    Ok(())
}

/// Remembers when the last operation ended, and how many stand after one that started later.
struct EndOf<'a> {
    inner: &'a mut TraceWriter,
    latest_ns: u64,
    end: TraceEnd,
}

impl OpSink for EndOf<'_> {
    fn push(
        &mut self,
        op: &fsage_core::Op,
        paths: &fsage_core::PathTable,
    ) -> Result<(), fsage_core::SinkError> {
        let end = &mut self.end;
        end.elapsed_ns = op.end_ns().max(end.elapsed_ns);
        end.late += u64::from(op.start_ns < self.latest_ns);
        self.latest_ns = op.start_ns.max(self.latest_ns);
        self.inner.push(op, paths)
    }
}

fn strace(args: &ImportArgs) -> Result<Imported> {
    let mut source = StraceSource::new(open(&args.file)?, &args.file).under(&under(args));
    take(args, "import strace", &mut source)?;
    let report = source.report();
    let mut missing = report.other_calls.clone();
    missing.extend(counted([
        ("calls that never returned", report.unreturned),
        ("lines that are not strace's", report.skipped_lines),
    ]));
    let elsewhere = counted([
        (
            "operations on pipes, sockets, devices and the like",
            report.not_files,
        ),
        ("operations outside of --under", report.outside),
    ]);
    tell_skipped(&report.first_skipped, report.skipped_lines);
    let found = (missing, elsewhere);
    let mut imported = imported(args, Content::Trace, report.operations, found);
    // One number for who reads it, names for who asks for them.
    for (name, count) in &report.no_file_calls {
        *imported.summary.left_out.entry(name.clone()).or_default() += count;
    }
    let calls = report.no_file_calls.values().sum();
    imported
        .elsewhere
        .extend(counted([("calls that are no operations on files", calls)]));
    Ok(imported)
}

/// The first lines that were skipped, and how many more there are.
fn tell_skipped(first: &[String], all: u64) {
    for line in first {
        ui::line(&format!("skipped {line}"));
    }
    let more = all.saturating_sub(first.len() as u64);
    if more > 0 {
        ui::line(&format!("skipped {} more", units::count(more)));
    }
}

fn fio_iolog(args: &ImportArgs) -> Result<Imported> {
    let directory = args.directory.as_deref().unwrap_or(Path::new(""));
    let directory = directory.as_os_str();
    let mut source = IologSource::open(&args.file, directory.as_bytes(), &under(args))?;
    take(args, "import fio-iolog", &mut source)?;
    let report = source.report();
    let outside = counted([("outside of --under", report.outside)]);
    let left_out = (Counts::new(), outside);
    Ok(imported(args, Content::Trace, report.operations, left_out))
}

fn hbench_trace(args: &ImportArgs) -> Result<Imported> {
    let mut source = HbenchSource::new(open(&args.file)?, &args.file);
    take(args, "import hbench", &mut source)?;
    let report = source.report();
    let missing = counted([("records without meaning", report.skipped)]);
    let left_out = (missing, Counts::new());
    Ok(imported(args, Content::Trace, report.operations, left_out))
}

fn hbench_snapshot(args: &ImportArgs) -> Result<Imported> {
    let meta = SnapshotMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        extra: [("imported_from".to_string(), args.file.display().to_string())].into(),
        ..SnapshotMeta::default()
    };
    let mut writer = SnapshotWriter::create(&args.output, meta)?;
    hbench::snapshot::read(open(&args.file)?, &args.file, |entry| writer.push(&entry))?;
    let entries = writer.entries();
    writer.finish(SnapshotEnd::default())?;
    Ok(imported(
        args,
        Content::Snapshot,
        entries,
        Default::default(),
    ))
}

fn classic_snapshot(args: &ImportArgs) -> Result<Imported> {
    let mut reader = ClassicReader::open(open(&args.file)?, &args.file)?;
    let mut meta = reader.meta().clone();
    meta.fsage = env!("CARGO_PKG_VERSION").into();
    let from = args.file.display().to_string();
    meta.extra.insert("imported_from".into(), from);
    let mut writer = SnapshotWriter::create(&args.output, meta)?;
    while let Some(entry) = reader.next_entry()? {
        writer.push(&entry)?;
    }
    let entries = writer.entries();
    writer.finish(SnapshotEnd::default())?;
    Ok(imported(
        args,
        Content::Snapshot,
        entries,
        Default::default(),
    ))
}

fn hbench_profile(args: &ImportArgs) -> Result<Imported> {
    let mut text = String::new();
    open(&args.file)?
        .take(bounded::MAX_TEXT_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("read {} as text", args.file.display()))?;
    if text.len() as u64 > bounded::MAX_TEXT_BYTES {
        bail!(
            "read {}: it goes on, expected a profile of at most {} bytes",
            args.file.display(),
            bounded::MAX_TEXT_BYTES
        );
    }
    let title = args
        .file
        .file_stem()
        .map_or("imported".into(), |s| s.to_string_lossy());
    let profile = hbench::profile::parse(&text, &args.file, &title)?;
    profile.save(&args.output)?;
    let metrics = profile.metrics.len() as u64;
    Ok(imported(
        args,
        Content::Profile,
        metrics,
        Default::default(),
    ))
}
