//! Mounts that a server of fsage's has left: nobody answers there.

use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use super::{Leftover, LeftoverKind, sees_all};
use crate::HostError;
use crate::mounts::{self, Mount};
use crate::processes::{self, Process};
use crate::scratch::{MOUNT_PREFIX, detach};

/// The file systems that fsage serves.
const SERVED: [&str; 2] = ["fuse.fsage-disk", "fuse.fsage-slowfs"];

/// Where the kernel shows connections of FUSE.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

pub(super) fn find() -> Vec<Leftover> {
    let mut found = Vec::new();
    for mount in mounts::all() {
        if SERVED.contains(&mount.kind.as_str()) {
            let in_use = server(&mount);
            let dead = if in_use.is_none() {
                ", which nobody serves"
            } else {
                ""
            };
            found.push(Leftover {
                kind: LeftoverKind::Mount,
                about: format!("of {}{dead}", mount.source.display()),
                in_use,
                connection: (mount.dev.major() == 0).then(|| mount.dev.minor()),
                place: mount.dir,
            });
        } else if is_scratch(&mount) {
            found.push(Leftover {
                kind: LeftoverKind::Mount,
                about: format!("{} on {}", mount.kind, mount.source.display()),
                in_use: owner(&mount),
                connection: None,
                place: mount.dir,
            });
        }
    }
    // The uppermost first.
    found.reverse();
    found
}

/// A scratch file system that was mounted where others see it.
fn is_scratch(mount: &Mount) -> bool {
    let name = mount.dir.file_name().map(|n| n.to_string_lossy());
    mount.source.starts_with("/dev") && name.is_some_and(|name| name.starts_with(MOUNT_PREFIX))
}

/// Whoever made it has its device open.
fn owner(mount: &Mount) -> Option<String> {
    unseen().or_else(|| super::used(&mount.source))
}

fn unseen() -> Option<String> {
    let why = "its owner cannot be seen from here, which needs root of the machine";
    (!sees_all()).then(|| why.to_owned())
}

/// Who may serve it: whoever has its connection open, which newer kernels tell, and any fsage that has one of
/// unknown number.
fn server(mount: &Mount) -> Option<String> {
    if let Some(why) = unseen() {
        return Some(why);
    }
    let own = std::process::id();
    let living = processes::all().into_iter();
    living
        .filter(|p| p.lives && p.pid != own)
        .find(|p| may_serve(*p, mount.dev.minor()))
        .map(|p| format!("process {} may serve it", p.pid))
}

fn may_serve(process: Process, connection: u32) -> bool {
    let pid = process.pid;
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    fds.flatten().flatten().any(|fd| {
        let is_fuse = std::fs::read_link(fd.path()).is_ok_and(|to| to == Path::new("/dev/fuse"));
        is_fuse && {
            let name = fd.file_name();
            let info = Path::new("/proc")
                .join(pid.to_string())
                .join("fdinfo")
                .join(name);
            let info = std::fs::read_to_string(info).unwrap_or_default();
            let reported = info
                .lines()
                .find_map(|l| l.strip_prefix("fuse_connection:"));
            reported
                .and_then(|n| n.trim().parse::<u32>().ok())
                .map_or_else(
                    || processes::is_fsage(process),
                    |number| number == connection,
                )
        }
    })
}

/// Ends the connection, so that nobody waits for it any more, and takes the mount away, if it still is the one
/// that was found and still nobody's.
pub(super) fn remove(place: &Path, connection: Option<u32>) -> Result<(), HostError> {
    let failed = |e| HostError::at("unmount", place, e);
    let now = find().into_iter().find(|left| left.place == place);
    let why = match now {
        None => return Ok(()),
        Some(left) if left.connection != connection => {
            Some("another is mounted there now".to_owned())
        }
        Some(left) => left.in_use,
    };
    if let Some(why) = why {
        return Err(HostError::Refused {
            what: format!("unmount {}", place.display()),
            why,
        });
    }
    if let Some(connection) = connection {
        let _ = abort(connection);
    }
    let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE;
    if rustix::mount::unmount(place, flags).is_err() {
        detach(place).map_err(failed)?;
    }
    let name = place.file_name().map(|n| n.to_string_lossy().into_owned());
    if name.is_some_and(|name| name.starts_with(MOUNT_PREFIX)) {
        // The place was made for it.
        let _ = std::fs::remove_dir(place);
    }
    Ok(())
}

/// Aborts a connection by its number. The file system that shows connections is mounted for that where it is
/// not.
pub(crate) fn abort(connection: u32) -> std::io::Result<()> {
    let switch = Path::new(CONNECTIONS)
        .join(connection.to_string())
        .join("abort");
    if switch.exists() {
        return std::fs::write(&switch, "1");
    }
    rustix::mount::mount("fsage", CONNECTIONS, "fusectl", MountFlags::empty(), None)?;
    let done = std::fs::write(&switch, "1");
    let _ = detach(Path::new(CONNECTIONS));
    done
}
