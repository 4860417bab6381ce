//! Control groups of commands.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::{Leftover, LeftoverKind};
use crate::descendants::{HIERARCHIES, PREFIX};
use crate::{HostError, processes};

/// How deep below the root groups are looked for: services and sessions of users lie no deeper.
const DEEPEST: u32 = 8;

/// How often and how long is waited for a killed group to become empty.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn find() -> Vec<Leftover> {
    let mut found = Vec::new();
    for root in HIERARCHIES {
        let root = Path::new(root);
        // Of version 2.
        if root.join("cgroup.controllers").exists() {
            walk(root, DEEPEST, &mut found);
        }
    }
    found
}

fn walk(dir: &Path, deeper: u32, found: &mut Vec<Leftover>) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        let place = entry.path();
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if is_ours(&name) {
            found.push(left(place));
        } else if deeper > 0 {
            walk(&place, deeper - 1, found);
        }
    }
}

/// `fsage-PID-NUMBER`.
fn is_ours(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|r| r.split_once('-'));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(pid, n)| number(pid) && number(n))
}

fn left(place: PathBuf) -> Leftover {
    let inside = std::fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    let count = inside.lines().count();
    Leftover {
        kind: LeftoverKind::ControlGroup,
        about: match count {
            0 => "empty".into(),
            1 => "1 process, which would be killed".into(),
            n => format!("{n} processes, which would be killed"),
        },
        in_use: is_held(&place).then(|| "the fsage that made it runs".into()),
        place,
        connection: None,
    }
}

/// Whether the owner lives: it holds a lock, or, of an earlier release, has the number in the name; unsure is
/// yes.
fn is_held(place: &Path) -> bool {
    let name = place
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    let owner = name
        .split('-')
        .nth(1)
        .and_then(|pid| pid.parse::<u32>().ok());
    let living = |p: &processes::Process| Some(p.pid) == owner && processes::is_fsage(*p);
    if processes::all().iter().any(living) {
        return true;
    }
    let procs = File::options().write(true).open(place.join("cgroup.procs"));
    let Ok(procs) = procs else { return true };
    rustix::fs::flock(&procs, FlockOperation::NonBlockingLockExclusive).is_err()
}

pub(super) fn remove(place: &Path) -> Result<(), HostError> {
    let failed = |e| HostError::at("remove", place, e);
    if is_held(place) {
        return Err(HostError::Refused {
            what: format!("remove {}", place.display()),
            why: "the fsage that made it runs".into(),
        });
    }
    std::fs::write(place.join("cgroup.kill"), "1").map_err(failed)?;
    for _ in 0..LOOKS {
        match std::fs::remove_dir(place) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => std::thread::sleep(LOOK),
            done => return done.map_err(failed),
        }
    }
    Err(failed(std::io::Error::from_raw_os_error(libc::EBUSY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_fsage_are_found() {
        assert!(is_ours("fsage-12-0") && is_ours("fsage-1-99"));
        for name in [
            "fsage",
            "fsage-12",
            "fsage-12-x",
            "fsage--1",
            "fsage-web-1",
            "x-1-1",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
