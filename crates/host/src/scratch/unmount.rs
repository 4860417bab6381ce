//! Taking mounts away, whoever made them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{Errno, Result};
use rustix::mount::UnmountFlags;

/// How long to wait before an unmount is tried again.
const AGAIN: Duration = Duration::from_millis(5);

/// How an unmount went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// Somebody uses it still.
    InUse,
}

/// Unmounts a directory; tries again for about `patience` while it is in use, then `EBUSY`. As an
/// ordinary user only what fusermount3 takes away.
pub fn unmount(dir: &Path, patience: Duration) -> Result<()> {
    let attempts = patience.as_millis() / AGAIN.as_millis();
    for _ in 0..attempts {
        match once(dir, false) {
            Err(Errno::BUSY) => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
    once(dir, false)
}

/// Takes a mount out of sight; it is gone once nothing uses it.
pub fn detach(dir: &Path) -> Result<()> {
    once(dir, true)
}

fn once(dir: &Path, detach: bool) -> Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    if detach {
        flags |= UnmountFlags::DETACH;
    }
    match rustix::mount::unmount(dir, flags) {
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => fusermount(dir, detach),
        done => done,
    }
}

/// The set-user-id program that unmounts FUSE file systems of ordinary users.
fn fusermount(dir: &Path, detach: bool) -> Result<()> {
    let status = Command::new("fusermount3")
        .args(["-u", "-q"])
        .args(detach.then_some("-z"))
        .arg("--")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        // It says why only in words; what is not in use can be unmounted.
        Ok(_) => Err(Errno::BUSY),
        Err(_) => Err(Errno::PERM),
    }
}
