//! What fsages that were killed have left: found without touching it, and removed on demand.
//!
//! Only what fsage makes is looked at, which its name says, and nothing that a living process owns or uses
//! is removed: an owner holds a lock on its directories and control groups and has its loop devices open,
//! and whoever uses something has it open or stands in it. What cannot be told is left alone and listed.

mod dirs;
mod groups;
mod loops;
mod served;

use std::path::{Path, PathBuf};

use crate::{HostError, mounts, processes};

/// What kind of thing was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverKind {
    /// A directory in a target or among the temporary files.
    Directory,
    /// The place of a mount.
    MountPoint,
    /// A mount whose server is gone, or of a device that nobody has any more.
    Mount,
    /// A loop device.
    LoopDevice,
    /// A control group of commands.
    ControlGroup,
}

impl LeftoverKind {
    /// Whether its processes or files may use others that were left.
    pub fn holds_others(self) -> bool {
        matches!(self, Self::ControlGroup | Self::Mount)
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::MountPoint => "mount point",
            Self::Mount => "mount",
            Self::LoopDevice => "loop device",
            Self::ControlGroup => "control group",
        }
    }
}

/// Something that fsage has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// What it is.
    pub kind: LeftoverKind,
    /// Where.
    pub place: PathBuf,
    /// What it holds, in words.
    pub about: String,
    /// Why it is not removed: somebody owns or uses it. `None` if nobody does.
    pub in_use: Option<String>,
    /// The kernel's number of a served mount's connection.
    connection: Option<u32>,
}

/// Finds what killed processes have left, in `dirs` and in the usual places (see [`usual_places`]), in the
/// order in which it can be removed. Nothing is changed.
pub fn find(dirs: &[PathBuf]) -> Vec<Leftover> {
    let mut found = groups::find();
    found.extend(served::find());
    found.extend(loops::find());
    let mut places: Vec<PathBuf> = Vec::new();
    for dir in dirs.iter().cloned().chain(usual_places()) {
        // By name alone: what is mounted there may never answer.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        if !places.contains(&dir) {
            places.push(dir);
        }
    }
    for place in places {
        if !is_dead(&place, &found) {
            found.extend(dirs::find(&place));
        }
    }
    found.dedup_by(|a, b| a.place == b.place && a.kind == b.kind);
    found
}

/// Where fsage makes things without being told so.
pub fn usual_places() -> Vec<PathBuf> {
    let mut places = vec![crate::guard::temporary_place()];
    places.extend(["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from));
    places.extend(std::env::current_dir());
    places
}

/// Removes what nobody uses. Fails with what the kernel said.
pub fn remove(left: &Leftover) -> Result<(), HostError> {
    if let Some(why) = &left.in_use {
        return Err(HostError::Refused {
            what: format!("remove {}", left.place.display()),
            why: why.clone(),
        });
    }
    match left.kind {
        LeftoverKind::Directory => dirs::remove(&left.place),
        LeftoverKind::MountPoint => dirs::remove_mount_point(&left.place),
        LeftoverKind::Mount => served::remove(&left.place, left.connection),
        LeftoverKind::LoopDevice => loops::remove(&left.place),
        LeftoverKind::ControlGroup => groups::remove(&left.place),
    }
}

/// Whether a directory lies on a mount that nobody serves any more, and would never answer.
fn is_dead(dir: &Path, found: &[Leftover]) -> bool {
    let dead = |left: &Leftover| left.kind == LeftoverKind::Mount && dir.starts_with(&left.place);
    found.iter().any(dead)
}

/// Who uses what lies at or below a path, in words.
fn used(path: &Path) -> Option<String> {
    processes::user_of(path).map(|pid| format!("{} uses it", processes::in_words(pid)))
}

/// Whether this process sees the processes of the whole machine, and so every owner.
fn sees_all() -> bool {
    /// `PROC_PID_INIT_INO` of linux/proc_ns.h.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    rustix::process::geteuid().is_root()
        && std::fs::read_link("/proc/self/ns/pid").is_ok_and(|ns| ns == Path::new(FIRST_NAMESPACE))
}

/// The mounts of this process's namespace, by their directory.
fn mounted_on(dir: &Path) -> bool {
    mounts::all().iter().any(|m| m.dir == dir)
}
