//! A private mount namespace, so that the kernel itself takes the mounts down.
//!
//! A mount lives as long as its namespace, and a namespace as long as its last process. What fsage
//! mounts after [`isolate`] is therefore gone when fsage and its children are, however they end;
//! the loop devices beneath are set to clear themselves on their last close, and their images never
//! had a name.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use crate::HostError;

/// Directories that are there on every system and usually empty: what is mounted over one of them
/// hides nothing, and no directory has to be made that a kill would leave behind. Where none of
/// them is empty, mount points are made among the temporary files, and a kill leaves an empty
/// directory.
const EMPTY_DIRS: [&str; 5] = ["/media", "/mnt", "/srv", "/opt", "/boot"];

/// The directory for mount points in each private namespace, by the namespace's inode.
static BASES: Mutex<Option<HashMap<u64, PathBuf>>> = Mutex::new(None);

fn namespace_id() -> Option<u64> {
    std::fs::metadata("/proc/thread-self/ns/mnt")
        .ok()
        .map(|m| m.ino())
}

/// Moves the calling thread, and all threads and processes that it starts from now on, into a mount
/// namespace of their own. Call it as root before any other thread exists. Mounts that others make
/// later are still seen; what is mounted here is seen by no one else. Doing it twice changes
/// nothing. Fails without `CAP_SYS_ADMIN`.
pub fn isolate() -> Result<(), HostError> {
    if private_base().is_some() {
        return Ok(());
    }
    // SAFETY: only the mount namespace and the working directory are unshared, not descriptors.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|e| match e {
        rustix::io::Errno::PERM => HostError::NotRoot {
            what: "make file systems of its own, in a private mount namespace".into(),
        },
        e => HostError::io("enter a private mount namespace", e),
    })?;
    // Not PRIVATE: what the system mounts later should still arrive here.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", propagation)
        .map_err(|e| HostError::io("make the mounts of the namespace private", e))?;
    release_scratch_of_others();
    let base = mount_base()?;
    if let (Some(id), Some(base)) = (namespace_id(), base) {
        let mut bases = BASES.lock().unwrap_or_else(PoisonError::into_inner);
        bases.get_or_insert_default().insert(id, base);
    }
    Ok(())
}

/// Moves the calling thread, and the threads that it starts from now on, into a mount namespace that holds
/// no scratch file system. For a process that serves the device of one: as the last process of the
/// file system's own namespace it would have to unmount, while it ends, what waits for its answers.
pub fn leave_scratch() -> Result<(), HostError> {
    // SAFETY: only the mount namespace and the working directory are unshared, not descriptors.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|e| HostError::io("enter a mount namespace of its own", e))?;
    let propagation = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", propagation)
        .map_err(|e| HostError::io("make the mounts of the namespace private", e))?;
    release_scratch_of_others();
    Ok(())
}

/// The copy of the mounts holds the scratch file systems of other processes too, and would keep them
/// and their devices alive after their owners are done.
fn release_scratch_of_others() {
    for mount in crate::mounts::all() {
        let name = mount
            .dir
            .file_name()
            .map(OsStrExt::as_bytes)
            .unwrap_or_default();
        if name.starts_with(crate::scratch::MOUNT_PREFIX.as_bytes()) {
            let _ = rustix::mount::unmount(&mount.dir, UnmountFlags::DETACH);
        }
    }
}

/// Mounts a tmpfs over an empty directory; `None` if there is no empty one.
fn mount_base() -> Result<Option<PathBuf>, HostError> {
    let mounts = crate::mounts::all();
    for dir in EMPTY_DIRS {
        // What is mounted there may have nobody who answers.
        let mut there = mounts.iter().filter(|m| m.dir == Path::new(dir));
        if there.any(crate::mounts::may_hang) {
            continue;
        }
        let Ok(mut entries) = std::fs::read_dir(dir) else {
            continue;
        };
        if entries.next().is_some() {
            continue;
        }
        let options = c"mode=0755,size=1m";
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount("fsage", dir, "tmpfs", flags, options)
            .map_err(|e| HostError::at("mount a tmpfs on", Path::new(dir), e))?;
        return Ok(Some(PathBuf::from(dir)));
    }
    Ok(None)
}

/// Where mount points are made if the calling thread is isolated.
pub(crate) fn private_base() -> Option<PathBuf> {
    let id = namespace_id()?;
    BASES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()?
        .get(&id)
        .cloned()
}
