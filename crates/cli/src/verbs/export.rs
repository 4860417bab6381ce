//! `fsage export`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result, bail};
use fsage_format::FileKind;
use fsage_format::foreign::csv::CsvSink;
use fsage_format::foreign::hbench::snapshot::SnapshotText;
use fsage_format::foreign::hbench::{self, HbenchSink};
use fsage_format::foreign::strace::StraceSink;
use fsage_format::profile::SystemProfile;
use fsage_format::snapshot::SnapshotReader;
use fsage_report::units;

use crate::args::{ExportArgs, ExportFormat};
use crate::exit::{Exit, UsageError};
use crate::files::{copy, open_whole_trace};
use crate::ui;

pub fn run(args: &ExportArgs) -> Result<Exit> {
    match (fsage_format::sniff(&args.file)?, args.to) {
        (FileKind::Trace, _) => trace(args),
        (FileKind::Snapshot, ExportFormat::Hbench) => snapshot(args),
        (FileKind::Profile, ExportFormat::Hbench) => profile(args),
        (kind, format) => bail!(UsageError(format!(
            "{} is a {}, which cannot be written as {}",
            args.file.display(),
            format!("{kind:?}").to_lowercase(),
            format!("{format:?}").to_lowercase()
        ))),
    }
}

fn create(args: &ExportArgs) -> Result<BufWriter<File>> {
    let file =
        File::create(&args.output).with_context(|| format!("create {}", args.output.display()))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn trace(args: &ExportArgs) -> Result<Exit> {
    let mut reader = open_whole_trace(&args.file, args.allow_lossy)?;
    let start_unix_ns = reader.meta().start_unix_ns;
    let output = create(args)?;
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
        ExportFormat::Csv => {
            let mut sink = CsvSink::new(output, &args.output)?;
            let count = copy(&mut reader, &mut sink)?;
            sink.finish()?;
            count
        }
    };
    let left_out: u64 = not_carried.values().sum();
    ui::line(&format!(
        "{}: {} operations, {} of them left out",
        args.output.display(),
        units::count(operations),
        units::count(left_out)
    ));
    for (kind, count) in not_carried {
        ui::line(&format!(
            "  left out, the format has none: {kind}: {}",
            units::count(count)
        ));
    }
    Ok(Exit::Done)
}

fn snapshot(args: &ExportArgs) -> Result<Exit> {
    let mut reader = SnapshotReader::open(&args.file)?;
    if reader.end().is_none() && !args.allow_lossy {
        bail!(
            "use {}: it has no end; with --allow-lossy it is used all the same",
            args.file.display()
        );
    }
    let mut text = SnapshotText::new();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            text.push(&entry, &args.output)?;
        }
    }
    let left_out = text.write(create(args)?, &args.output)?;
    ui::line(&format!(
        "{}: {} entries left out, neither files, directories nor links",
        args.output.display(),
        units::count(left_out)
    ));
    Ok(Exit::Done)
}

fn profile(args: &ExportArgs) -> Result<Exit> {
    let profile = SystemProfile::load(&args.file)?;
    let (text, left_out) = hbench::profile::to_text(&profile);
    let mut output = create(args)?;
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .with_context(|| format!("write {}", args.output.display()))?;
    ui::line(&format!(
        "{}: {} metrics left out, Table 4.4 has none of that name",
        args.output.display(),
        units::count(left_out.len() as u64)
    ));
    Ok(Exit::Done)
}
