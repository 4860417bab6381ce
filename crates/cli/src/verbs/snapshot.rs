//! `fsage snapshot`.

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use fsage_experiment::tree::write_snapshot;
use fsage_format::FileKind;
use fsage_format::result::summary::SnapshotSummary;
use fsage_format::snapshot::SnapshotReader;
use fsage_host::signals;
use fsage_host::snapshot::SnapshotSummary as Walked;
use fsage_report::snapshot::missing_from_tree;
use fsage_report::units;

use crate::args::SnapshotArgs;
use crate::exit::Exit;
use crate::made::{Made, may_replace};
use crate::{out, ui};

/// So many of those that cannot be read are named, and so many of what is mounted there.
const ERRORS_SAID: usize = 20;

pub fn run(args: &SnapshotArgs) -> Result<Exit> {
    let stop = signals::install()?;
    let output = out::file(&args.output, args.json, &stop)?;
    may_replace(&output, Made::Own(FileKind::Snapshot))?;
    let (summary, kept) = write_snapshot(&args.dir, &output, args.previous.as_deref(), &stop)?;
    if let Some(previous) = &args.previous {
        tell_cut(previous, &output);
    }
    ui::note(&format!(
        "{}: {}, {}, {}, {}, {}{} in {}",
        out::shown(&args.output),
        units::counted(summary.files, "file"),
        units::counted(summary.directories, "directory"),
        units::counted(summary.symlinks, "symbolic link"),
        units::counted(summary.further_links, "further link"),
        if summary.hides_extents {
            "no extents: this file system does not tell them".to_string()
        } else {
            units::counted(summary.extents, "extent")
        },
        match args.previous {
            Some(_) => format!(", {} unchanged", units::count(summary.unchanged)),
            None => String::new(),
        },
        units::duration(summary.elapsed_ns as f64),
    ));
    tell_missing(&summary);
    let stopped = stop.load(Ordering::Relaxed);
    if stopped {
        ui::line(if kept {
            "fsage: interrupted; the snapshot holds what was recorded and says that it is a part"
        } else {
            "fsage: interrupted; the file that stood there stays"
        });
    }
    if args.json {
        out::document(&SnapshotSummary {
            file: args.output.clone(),
            entries: summary.entries,
            files: summary.files,
            directories: summary.directories,
            symlinks: summary.symlinks,
            further_links: summary.further_links,
            not_written: summary.not_written,
            extents: summary.extents,
            unchanged: summary.unchanged,
            has_extents: summary.has_extents,
            vanished: summary.vanished,
            unreadable: summary.unreadable,
            other_mounts: summary.other_mounts,
            elapsed_ns: summary.elapsed_ns,
            kept,
        })?;
    }
    Ok(if stopped {
        Exit::Interrupted
    } else if summary.unreadable > 0 {
        Exit::Incomplete
    } else {
        Exit::Done
    })
}

/// That the previous snapshot is a part of one. What stands in its place now is the new one, and whole.
fn tell_cut(previous: &Path, output: &Path) {
    let Some(reader) = SnapshotReader::open(previous)
        .ok()
        .filter(|_| previous != output)
    else {
        return;
    };
    if !reader.loss().is_none() {
        ui::line(&format!(
            "caution: {}, the previous snapshot, of {}, is incomplete ({}): what it lacks was read anew",
            previous.display(),
            reader.meta().root,
            reader.loss()
        ));
    }
}

/// What of the tree is not in the snapshot, by name as far as that is few.
fn tell_missing(summary: &Walked) {
    if summary.not_written > 0 {
        ui::note(&format!(
            "caution: {} not yet written, whose places are unknown: take it again after `sync`",
            units::counted(summary.not_written, "file")
        ));
    }
    let unread = summary.errors.iter();
    let unread = unread.map(|(path, errno)| format!("not read: {}: {errno}", path.display()));
    let mounts = summary.mounts.iter();
    let mounts =
        mounts.map(|path| format!("another mount or subvolume, left out: {}", path.display()));
    let named = unread.take(ERRORS_SAID).chain(mounts.take(ERRORS_SAID));
    for line in named {
        ui::line(&line);
    }
    if let Some(missing) =
        missing_from_tree(summary.vanished, summary.unreadable, summary.other_mounts)
    {
        ui::line(&missing);
    }
}
