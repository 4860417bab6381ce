//! Mounts of file systems that a daemon serves, as root.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use crate::HostError;

const DEVICE: &str = "/dev/fuse";

/// Whether this machine can mount any; `what` it is asked for completes "failed to".
pub fn needs_fuse(what: impl FnOnce() -> String) -> Result<(), HostError> {
    if Path::new(DEVICE).exists() {
        return Ok(());
    }
    Err(HostError::Refused {
        what: what(),
        why: "there is no /dev/fuse here (modprobe fuse)".into(),
    })
}

/// What an ordinary user mounts them with.
const HELPER: &str = "fusermount3";

/// Whether this user can mount any: root by itself, everyone else with a helper that opens the device in the user's
/// name. `what` completes "failed to".
pub fn may_mount_fuse(what: impl Fn() -> String) -> Result<(), HostError> {
    needs_fuse(&what)?;
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let refused = |why: String| HostError::Refused {
        what: what(),
        why: format!("{why}; run as root, where neither is needed"),
    };
    if super::mkfs::find(HELPER).is_none() {
        let why = format!(
            "an ordinary user needs {HELPER} for it, which is not installed (Debian package fuse3)"
        );
        return Err(refused(why));
    }
    let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    rustix::fs::access(DEVICE, both).map_err(|e| {
        refused(format!(
            "an ordinary user needs {HELPER} and a {DEVICE} that it may open ({e}; chmod 666 {DEVICE})"
        ))
    })
}

/// How a FUSE file system is mounted.
#[derive(Debug, Clone, Copy)]
pub struct FuseMount<'a> {
    /// What it is called in the list of mounts.
    pub source: &'a str,
    /// Its type is `fuse.SUBTYPE`.
    pub subtype: &'a str,
    /// Whether all users may use it, with the kernel checking permissions.
    pub shared: bool,
}

impl FuseMount<'_> {
    /// Mounts it on a directory; whoever answers on the connection serves it. No more is done with the
    /// directory, however the connection ends: unmounting it is the caller's. Fails without root and
    /// without `/dev/fuse`.
    pub fn mount(&self, dir: &Path) -> Result<OwnedFd, HostError> {
        let failed = |e| HostError::at("mount a FUSE file system on", dir, e);
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let connection = rustix::fs::open(DEVICE, flags, Mode::empty())
            .map_err(|e| HostError::io("open /dev/fuse (modprobe fuse)", e))?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let mut options = format!(
            "fd={},rootmode=40000,user_id={},group_id={}",
            connection.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        if self.shared {
            options.push_str(",default_permissions,allow_other");
        }
        let options =
            std::ffi::CString::new(options).map_err(|_| failed(rustix::io::Errno::INVAL))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let kind = format!("fuse.{}", self.subtype);
        rustix::mount::mount(self.source, dir, kind, flags, options.as_c_str()).map_err(
            |e| match e {
                rustix::io::Errno::PERM => HostError::NotRoot {
                    what: format!("mount a FUSE file system on {}", dir.display()),
                },
                e => failed(e),
            },
        )?;
        Ok(connection)
    }
}
