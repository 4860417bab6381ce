//! `fsage anonymize`.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use fsage_core::OpSource;
use fsage_format::FileKind;
use fsage_format::anonymize::{Anonymizer, Of, names};
use fsage_format::profile::SystemProfile;
use fsage_format::result::summary::{AnonymizeSummary, Content};
use fsage_format::snapshot::{SnapshotEnd, SnapshotWriter};
use fsage_format::trace::{AnnotationColumn, AnnotationKind, Annotations, TraceEnd, TraceWriter};
use fsage_report::units;

use crate::args::AnonymizeArgs;
use crate::exit::{Exit, UsageError};
use crate::files::{apart, open_snapshot, open_trace};
use crate::made::{Made, may_replace};
use crate::{out, ui};

pub fn run(args: &AnonymizeArgs) -> Result<Exit> {
    let output = out::file(&args.output, args.json, &AtomicBool::new(false))?;
    // Names that are hidden cannot be had back.
    apart([&*args.file, &*args.key_file], [&*output])?;
    let kind = fsage_format::sniff(&args.file)?;
    may_replace(&output, Made::Own(kind))?;
    let key = Anonymizer::from_key_file(&args.key_file, args.keep_extensions)?;
    let mut added = Added::default();
    let (content, (rows, whole)) = match kind {
        FileKind::Trace => (Content::Trace, trace(args, &output, key, &mut added)?),
        FileKind::Snapshot => (Content::Snapshot, snapshot(args, &output, key)?),
        FileKind::Profile => (Content::Profile, profile(args, &output, key)?),
        other => bail!(UsageError(format!(
            "{} is {}, of which nothing is hidden: expected a trace, a snapshot or a system profile; {}",
            args.file.display(),
            other.what(),
            held(other)
        ))),
    };
    ui::note(&format!(
        "{}: {} {} without their names",
        out::shown(&args.output),
        units::count(rows),
        match content {
            Content::Snapshot => "files",
            Content::Trace | Content::Profile | Content::Model => content.items(),
        }
    ));
    let of = match content {
        Content::Snapshot => [Of::Names, Of::Snapshot],
        Content::Trace => [Of::Operations, Of::Trace],
        // A model, which has no names, is none of what is anonymized.
        Content::Profile | Content::Model => [Of::Profile; 2],
    };
    let (hidden, mut kept) = (names(of, false), names(of, true));
    kept.extend(added.kept);
    ui::note(&format!("  hidden: {}", hidden.join(", ")));
    ui::note(&format!("  kept: {}", kept.join(", ")));
    if !added.left_out.is_empty() {
        ui::line(&format!(
            "  left out, it may hold names: {}",
            added.left_out.join(", ")
        ));
    }
    if args.json {
        out::document(&AnonymizeSummary {
            file: args.output.clone(),
            content,
            rows,
            hidden,
            kept,
            left_out: added.left_out,
        })?;
    }
    Ok(if whole { Exit::Done } else { Exit::Incomplete })
}

/// What names are in a file that is not anonymized, for who wants to give it away.
fn held(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Image => "it holds a file system, with all names and contents",
        FileKind::Model | FileKind::FileRunner => {
            "a model is made without names of files, but whoever edits it may write any"
        }
        _ => {
            "it holds names as they are: of hosts, targets and files, and command lines; look at it before giving it away"
        }
    }
}

/// The columns that an analysis has added to a trace, as parts of it.
#[derive(Default)]
struct Added {
    kept: Vec<String>,
    left_out: Vec<String>,
}

/// Texts that `predict` adds: of relations and of metrics, by the names that fsage gives them.
const NAMELESS_TEXTS: [&str; 2] = ["relation", "request_vector"];

/// Whether an added column holds no names: numbers do not, and what `predict` says, of one target or (`…_1`) of several.
fn is_nameless(column: &AnnotationColumn) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let of_predict = |known: &str| match column.name.strip_prefix(known) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('_').is_some_and(digits),
        None => false,
    };
    column.kind != AnnotationKind::Text || NAMELESS_TEXTS.iter().any(|known| of_predict(known))
}

/// Returns how many operations there are, and whether the trace is finished.
fn trace(
    args: &AnonymizeArgs,
    output: &Path,
    mut key: Anonymizer,
    added: &mut Added,
) -> Result<(u64, bool)> {
    let mut reader = open_trace(&args.file)?;
    let (mut columns, mut kept) = (Vec::new(), Vec::new());
    for (index, column) in reader.annotation_columns().iter().enumerate() {
        let part = format!("operations.{}", column.name);
        if is_nameless(column) {
            columns.push(column.clone());
            kept.push(index);
            added.kept.push(part);
        } else {
            added.left_out.push(part);
        }
    }
    let hidden = key.trace_meta(reader.meta());
    // What an unfinished trace lost must not look whole afterwards.
    let lost = reader
        .loss()
        .operations_lost
        .max(u64::from(reader.loss().unfinished));
    let end = TraceEnd {
        operations_lost: lost,
        // The names of programs are names.
        programs: std::collections::BTreeMap::new(),
        ..reader.end().cloned().unwrap_or_default()
    };
    let mut writer = TraceWriter::create_annotated(output, hidden, &columns)?;
    let (mut batch, mut notes) = (Vec::new(), Annotations::default());
    while reader.next_annotated(&mut batch, &mut notes)? > 0 {
        for (row, op) in batch.drain(..).enumerate() {
            let op = key.op(&op, reader.paths());
            let values = notes.row(row);
            let values: Vec<_> = kept
                .iter()
                .map(|&index| values.get(index).cloned().unwrap_or_default())
                .collect();
            writer.push_annotated(&op, key.paths(), &values)?;
        }
    }
    let count = writer.operations();
    writer.finish(end)?;
    Ok((count, !reader.loss().unfinished))
}

/// Returns how many metrics there are, and whether the profile is whole.
fn profile(args: &AnonymizeArgs, output: &Path, mut key: Anonymizer) -> Result<(u64, bool)> {
    let hidden = key.profile(&SystemProfile::load(&args.file)?);
    let hidden = hidden.context("hide the names of the profile")?;
    hidden.save(output)?;
    Ok((hidden.metrics.len() as u64, hidden.is_whole()))
}

/// Returns how many files there are, and whether the snapshot is whole.
fn snapshot(args: &AnonymizeArgs, output: &Path, mut key: Anonymizer) -> Result<(u64, bool)> {
    let mut reader = open_snapshot(&args.file)?;
    let hidden = key.snapshot_meta(reader.meta());
    // What was cut must not look whole afterwards.
    let end = reader.end().cloned().unwrap_or_else(|| SnapshotEnd {
        stopped: Some("cut".to_owned()),
        ..SnapshotEnd::default()
    });
    let mut writer = SnapshotWriter::create(output, hidden)?;
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            writer.push(&key.entry(&entry))?;
        }
    }
    let (count, whole) = (writer.entries(), end.stopped.is_none());
    writer.finish(end)?;
    Ok((count, whole))
}
