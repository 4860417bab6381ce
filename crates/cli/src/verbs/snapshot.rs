//! `fsage snapshot`.

use std::sync::atomic::Ordering;

use anyhow::Result;
use fsage_experiment::tree::write_snapshot;
use fsage_format::result::summary::SnapshotSummary;
use fsage_host::signals;
use fsage_report::units;

use crate::args::SnapshotArgs;
use crate::exit::Exit;
use crate::made::{Made, may_replace};
use crate::{out, ui};

/// So many of those that cannot be read are named.
const ERRORS_SAID: usize = 20;

pub fn run(args: &SnapshotArgs) -> Result<Exit> {
    let stop = signals::install()?;
    let output = out::file(&args.output, args.json, &stop)?;
    may_replace(&output, Made::Own)?;
    let (summary, kept) = write_snapshot(&args.dir, &output, args.previous.as_deref(), &stop)?;
    for (path, errno) in summary.errors.iter().take(ERRORS_SAID) {
        ui::line(&format!("not read: {}: {errno}", path.display()));
    }
    let more = summary.errors.len().saturating_sub(ERRORS_SAID);
    if more > 0 {
        ui::line(&format!("and {} more", units::count(more as u64)));
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
    if summary.vanished + summary.unreadable + summary.other_mounts > 0 {
        ui::line(&format!(
            "{} vanished meanwhile, {} could not be read, {} other mounts left out",
            summary.vanished, summary.unreadable, summary.other_mounts
        ));
    }
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
