//! `fsage layout`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use fsage_age::layout::{
    AppliedDays, Layout, LayoutError, LayoutOptions, Layouts, check_order, not_comparable, of_days,
    of_snapshot, of_tree, rms_distance,
};
use fsage_core::{TargetError, TargetSpec};
use fsage_experiment::target;
use fsage_format::image::is_image;
use fsage_format::record::write_whole;
use fsage_format::snapshot::{SnapshotMeta, SnapshotReader};
use fsage_format::{FileKind, FormatError};
use fsage_host::signals;
use fsage_report::{layout, plot, units};

use crate::args::LayoutArgs;
use crate::exit::{Exit, Interrupted, UsageError};
use crate::files::{apart, no_stream, open_snapshot, writable};
use crate::made::{Made, mark};
use crate::out;

/// What is looked at.
enum Place {
    Snapshot(PathBuf, Box<SnapshotReader>),
    /// A directory or a file.
    Tree(PathBuf),
    Target(Arc<dyn TargetSpec>),
    /// One of the first two under a name of its own.
    Named(String, Box<Place>),
}

pub fn run(args: &LayoutArgs) -> Result<Exit> {
    let mut places = Vec::new();
    for target in &args.targets {
        places.push(place(target)?);
    }
    let mut against = Vec::new();
    // One that is no snapshot is what an application of an aging workload gave.
    let days = match args.against.as_slice() {
        [one] if !matches!(fsage_format::sniff(one), Ok(FileKind::Snapshot)) => Some(one),
        files => {
            for file in files {
                against.push(snapshot(file)?);
            }
            None
        }
    };
    check(args, &places, &against)?;
    // Before signals are watched: whoever writes to a pipe may take long.
    let days = days.map(|file| AppliedDays::read(file)).transpose()?;
    let isolated = |place: &Place| matches!(place, Place::Target(spec) if spec.wants_isolation());
    if places.iter().any(isolated) {
        fsage_host::isolate()?;
    }
    let stop = signals::install()?;
    let specs = places.iter().filter_map(|place| match place {
        Place::Target(spec) => Some(spec),
        _ => None,
    });
    super::prepare(specs, &stop)?;
    let whole = places.iter().chain(&against).all(is_whole);
    let layouts = layouts(places, args, &stop)?;
    let against = match days {
        Some(days) => of_days(days, &layouts),
        None => self::layouts(against, args, &stop)?,
    };
    let result = Layouts {
        score_rms_distance: rms_distance(&layouts, &against),
        not_comparable: not_comparable(&layouts, &against),
        layouts,
        against,
    };
    if let Some(svg) = &args.svg {
        write_whole(svg, mark::plot(plot::scores(&result)?).as_bytes())?;
    }
    if args.json {
        out::document(&result)?;
    } else {
        out::text(&layout::text(&result, args.by_size, out::width()))?;
    }
    let unreadable = result.layouts.iter().any(|layout| layout.unreadable > 0);
    Ok(if whole && !unreadable {
        Exit::Done
    } else {
        Exit::Incomplete
    })
}

fn check(args: &LayoutArgs, places: &[Place], against: &[Place]) -> Result<()> {
    if !against.is_empty() && against.len() != places.len() {
        return Err(UsageError(format!(
            "--against is given {} for {}: expected one for each, in the same order",
            units::counted(against.len() as u64, "time"),
            units::counted(places.len() as u64, "target"),
        ))
        .into());
    }
    for days in [places, against] {
        check_order(days.iter().filter_map(meta))?;
    }
    if let Some(svg) = &args.svg {
        no_stream("--svg", Some(svg))?;
        let mut reads: Vec<PathBuf> = places.iter().flat_map(reads).collect();
        reads.extend_from_slice(&args.against);
        apart(reads.iter().map(PathBuf::as_path), [svg.as_path()])?;
        writable(svg, Made::Plot)?;
    }
    Ok(())
}

/// What is there comes first, then the kinds of targets.
fn place(target: &str) -> Result<Place> {
    let path = Path::new(target);
    let is_image = |path: &Path| std::fs::File::open(path).is_ok_and(|file| is_image(&file));
    let found = match path.metadata() {
        // What is looked at is the file system in it.
        Ok(about) if about.is_file() && is_image(path) => {
            return Ok(Place::Target(target::parse(&format!("aged:{target}"))?));
        }
        Ok(about) if about.is_file() => fsage_format::sniff(path),
        Ok(about) if about.is_dir() => return Ok(Place::Tree(path.to_owned())),
        Ok(_) => {
            let why =
                format!("{target} is neither a directory nor a file, whose blocks lie somewhere");
            return Err(UsageError(why).into());
        }
        Err(_) => return named(target),
    };
    let named = path.extension().is_some_and(|e| e == "fss");
    match found {
        Ok(FileKind::Snapshot) => snapshot(path),
        Err(error) if named || !matches!(error, FormatError::WrongKind { .. }) => Err(error.into()),
        _ => Ok(Place::Tree(path.to_owned())),
    }
}

/// A target by its specification; what it is of may also be a file, which is no target elsewhere.
fn named(target: &str) -> Result<Place> {
    match target.split_once('=') {
        Some((name, path)) if !name.contains('/') && Path::new(path).is_file() => {
            Ok(match place(path)? {
                Place::Target(_) => Place::Target(target::parse(&format!("{name}=aged:{path}"))?),
                other => Place::Named(name.to_owned(), Box::new(other)),
            })
        }
        _ => Ok(Place::Target(target::parse(target)?)),
    }
}

fn snapshot(path: &Path) -> Result<Place> {
    let reader = Box::new(open_snapshot(path)?);
    Ok(Place::Snapshot(path.to_owned(), reader))
}

/// Whether all of it is there to be looked at.
fn is_whole(place: &Place) -> bool {
    match place {
        Place::Snapshot(_, reader) => reader.loss().is_none(),
        Place::Named(_, place) => is_whole(place),
        Place::Tree(_) | Place::Target(_) => true,
    }
}

/// The files that are looked at, or into.
fn reads(place: &Place) -> Vec<PathBuf> {
    match place {
        Place::Snapshot(path, _) | Place::Tree(path) => vec![path.clone()],
        Place::Target(spec) => spec.uses(),
        Place::Named(_, place) => reads(place),
    }
}

fn meta(place: &Place) -> Option<(&Path, &SnapshotMeta)> {
    match place {
        Place::Snapshot(path, reader) => Some((path, reader.meta())),
        Place::Named(_, place) => meta(place),
        Place::Tree(_) | Place::Target(_) => None,
    }
}

fn layouts(places: Vec<Place>, args: &LayoutArgs, stop: &AtomicBool) -> Result<Vec<Layout>> {
    let options = LayoutOptions {
        free: args.free,
        sync: args.sync,
        worst: args.worst,
    };
    let interrupted = |error: anyhow::Error| match error.downcast_ref() {
        Some(LayoutError::Interrupted) => Interrupted.into(),
        _ => error,
    };
    places
        .into_iter()
        .map(|p| one(p, &options, stop).map_err(interrupted))
        .collect()
}

fn one(place: Place, options: &LayoutOptions, stop: &AtomicBool) -> Result<Layout> {
    match place {
        Place::Named(name, place) => Ok(Layout {
            target: name,
            ..one(*place, options, stop)?
        }),
        Place::Snapshot(path, mut reader) => Ok(of_snapshot(&mut reader, &path, options, stop)?),
        Place::Tree(dir) => Ok(of_tree(&dir, options, stop)?),
        Place::Target(spec) => {
            let target = spec.open()?;
            let dir = target.host_dir().ok_or_else(|| {
                let what = format!("look where files of {spec} lie");
                TargetError::refused(what, "it has no directory on this machine")
            })?;
            let found = of_tree(dir, options, stop);
            target.close()?;
            Ok(Layout {
                target: spec.name(),
                ..found?
            })
        }
    }
}
