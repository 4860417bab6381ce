//! The files that lie in a target: those that a workload is about, and how they lie on the device.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use fsage_age::layout::{Layout, LayoutError, LayoutOptions, of_part};
use fsage_core::{FileType, Root, Target, TargetError, TargetSpec};
use fsage_format::snapshot::{SnapshotEntry, extent_flags};
use fsage_host::machine::unix_time_ns;
use fsage_host::snapshot::walk;
use fsage_workload::{TargetFile, WorkloadSpec};

use crate::target::{check_commands, command_dir};

/// Names in the root of a target that are fsage's own.
pub(crate) const OWN: &[u8] = b".fsage-";

/// Refuses a workload for a target on which it cannot run.
pub(crate) fn check_target(
    workload: &WorkloadSpec,
    target: &dyn TargetSpec,
) -> Result<(), TargetError> {
    if workload.command().is_some() {
        return check_commands(target, "run a command");
    }
    let Some(changes) = workload.in_target() else {
        return Ok(());
    };
    let refused = |why: &str| {
        let what = format!("run {} on {target}", workload.short_name());
        Err(TargetError::refused(what, why))
    };
    if !target.has_host_dir() {
        return refused("it has no directory on this machine whose files could be looked at");
    }
    if changes && !target.is_temporary() {
        let why = "it would overwrite the files that lie there; expected overwrite=false, which only reads \
                   them, or a target that is made for the run, as aged:IMAGE";
        return refused(why);
    }
    Ok(())
}

/// The regular files below a root that are not fsage's own; one of several names under the first of them.
pub(super) fn of_target(root: &dyn Root) -> Result<Vec<TargetFile>, TargetError> {
    let (mut files, mut linked) = (Vec::new(), HashSet::new());
    let now_ns = unix_time_ns();
    let mut take = |entry: SnapshotEntry| {
        let again = entry.links > 1 && !linked.insert(entry.ino);
        if entry.file_type == FileType::Regular && !again && !entry.path.starts_with(OWN) {
            let is_unwritten = |flags: u32| flags & extent_flags::UNWRITTEN != 0;
            files.push(TargetFile {
                size_bytes: entry.size_bytes,
                // No file is of the future, whatever its time says.
                modified_unix_ns: u64::try_from(entry.mtime_ns).unwrap_or(0).min(now_ns),
                unwritten: !entry.extents.is_empty()
                    && entry
                        .extents
                        .iter()
                        .all(|extent| is_unwritten(extent.flags)),
                path: entry.path,
            });
        }
        ControlFlow::Continue(())
    };
    walk(command_dir(root)?, &mut take)?;
    Ok(files)
}

/// How files, and those below directories, lie on the device of a target; `None` for no names, and where nobody
/// can tell.
pub(crate) fn layout(
    open: &dyn Target,
    root: &dyn Root,
    names: &[Vec<u8>],
    stop: &AtomicBool,
) -> Result<Option<Box<Layout>>, TargetError> {
    let Some(dir) = root.host_dir().filter(|_| !names.is_empty()) else {
        return Ok(None);
    };
    let _full_speed = open.full_speed();
    let names: HashSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let wanted = |path: &[u8]| {
        let slashes = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut ends = slashes.map(|(at, _)| at).chain([path.len()]);
        ends.any(|end| path.get(..end).is_some_and(|above| names.contains(above)))
    };
    match of_part(dir, &wanted, &LayoutOptions::default(), stop) {
        Ok(layout) => Ok(Some(Box::new(layout))),
        Err(LayoutError::Interrupted) => Ok(None),
        Err(error) => Err(TargetError::Failed(Box::new(error))),
    }
}
