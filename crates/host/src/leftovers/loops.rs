//! Loop devices of scratch file systems and emulated disks.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::{Leftover, LeftoverKind, sees_all, used};
use crate::scratch::{clear_loop_device, is_held, is_own_loop_device};
use crate::{HostError, mounts, processes};

pub(super) fn find() -> Vec<Leftover> {
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten();
    let mut found = Vec::new();
    for entry in blocks.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| n.starts_with("loop")) else {
            continue;
        };
        let Ok(image) = std::fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        let place = Path::new("/dev").join(name);
        if is_own_loop_device(&place) {
            found.push(Leftover {
                kind: LeftoverKind::LoopDevice,
                about: format!("of {}", image.trim()),
                in_use: in_use(&place),
                place,
                connection: None,
            });
        }
    }
    found
}

/// Its owner has it open; what is mounted of it, wherever, is somebody's too.
fn in_use(place: &Path) -> Option<String> {
    if !sees_all() {
        return Some("its owner cannot be seen from here, which needs root of the machine".into());
    }
    used(place)
        .or_else(|| {
            let (pid, dir) = mounted(place)?;
            Some(format!("mounted on {} (process {pid})", dir.display()))
        })
        .or_else(|| {
            // Detached from every directory, it is there for as long as somebody stands in it or has a file open.
            is_held(place).then(|| {
                let who = processes::user_of_device(place).map(processes::in_words);
                let who = who.unwrap_or_else(|| "a process".to_owned());
                format!("{who} uses its file system, which is mounted out of sight")
            })
        })
}

/// Where a device is mounted in any mount namespace, with a process in it.
fn mounted(device: &Path) -> Option<(u32, PathBuf)> {
    let mut seen = HashSet::new();
    for process in processes::all() {
        let namespace = std::fs::read_link(format!("/proc/{}/ns/mnt", process.pid));
        if namespace.is_ok_and(|namespace| seen.insert(namespace))
            && let Some(mount) = mounts::of_process(process.pid)
                .into_iter()
                .find(|m| m.source == device)
        {
            return Some((process.pid, mount.dir));
        }
    }
    None
}

pub(super) fn remove(place: &Path) -> Result<(), HostError> {
    if let Some(why) = in_use(place) {
        let what = format!("detach {}", place.display());
        return Err(HostError::Refused { what, why });
    }
    clear_loop_device(place)
}
