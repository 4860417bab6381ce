//! A mounted scratch file system: mount, remount, unmount, and the targets that are open on it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use fsage_core::Errno;
use rustix::mount::MountFlags;

use super::disk::{Disk, FullSpeed};
use super::image::LoopDevice;
use super::mkfs::mkfs;
use super::roots::Roots;
use super::unmount::{detach, unmount};
use super::{MARKER, ScratchRecord, ScratchSpec};
use crate::{HostError, processes};

/// Mount options that mount(2) takes as flags.
const FLAGS: [(&str, MountFlags); 10] = [
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("sync", MountFlags::SYNCHRONOUS),
    ("lazytime", MountFlags::LAZYTIME),
];

/// While something (udev, an indexer) looks at the file system.
const PATIENCE: Duration = Duration::from_millis(100);

/// The same at the end, where what still writes back or lets go of its files is waited for: what stays mounted
/// stays until this process ends.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// What this process has mounted now.
static MOUNTED: Mutex<Vec<Weak<MountedScratch>>> = Mutex::new(Vec::new());

/// What a scratch file system stands on.
#[derive(Debug)]
pub(super) struct Below {
    pub device: LoopDevice,
    /// The emulated disk, where that is what the device holds.
    pub disk: Option<Arc<dyn Disk>>,
}

/// A scratch file system that is mounted. Shared by its owner and the targets open on it.
#[derive(Debug)]
pub struct MountedScratch {
    record: ScratchRecord,
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once it is taken down.
    device: Option<LoopDevice>,
    disk: Option<Arc<dyn Disk>>,
    mounted: bool,
    roots: Roots,
}

/// The scratch file system that holds a directory, if this process mounted one there.
pub(crate) fn mounted_at(dir: &Path) -> Option<Arc<MountedScratch>> {
    let mounted = lock(&MOUNTED);
    mounted
        .iter()
        .filter_map(Weak::upgrade)
        .find(|m| dir.starts_with(&m.dir))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MountedScratch {
    /// Mounts an attached device on an empty directory.
    pub(super) fn mount(
        record: ScratchRecord,
        below: Below,
        dir: PathBuf,
    ) -> Result<Arc<Self>, HostError> {
        mount(&record.spec, below.device.path(), &dir)?;
        let state = State {
            device: Some(below.device),
            disk: below.disk,
            mounted: true,
            roots: Roots::default(),
        };
        let mounted = Arc::new(Self {
            record,
            dir,
            state: Mutex::new(state),
        });
        let mut all = lock(&MOUNTED);
        all.retain(|m| m.strong_count() > 0);
        all.push(Arc::downgrade(&mounted));
        Ok(mounted)
    }

    /// How it was made.
    pub(crate) fn record(&self) -> &ScratchRecord {
        &self.record
    }

    /// The emulated disk beneath it; `None` once it is taken down.
    pub(super) fn disk(&self) -> Option<Arc<dyn Disk>> {
        lock(&self.state).disk.clone()
    }

    /// Lets an emulated disk work at full speed until the guard is dropped.
    pub(crate) fn full_speed(&self) -> FullSpeed {
        FullSpeed::of(self.disk())
    }

    /// Remembers the root of a target, so that it follows a remount.
    pub(crate) fn add_root(&self, root: &Arc<OwnedFd>, dir: &Path) {
        lock(&self.state).roots.add(root, dir);
    }

    /// Unmounts and mounts again, dropping everything that was cached. `EBUSY` if a file is open
    /// or if the mount lives on in another namespace; the file system is then mounted as before.
    pub(crate) fn remount(&self) -> Result<(), Errno> {
        self.apart(|_| ())
    }

    /// Makes it anew, as it was made at first: all that was in it is gone. `EOPNOTSUPP` where it was copied from an
    /// image, or a directory in it is a target's.
    pub(crate) fn make_anew(&self) -> Result<(), Errno> {
        let all_below = lock(&self.state).roots.all_at(&self.dir);
        if self.record.restored.is_some() || !all_below {
            return Err(Errno::EOPNOTSUPP);
        }
        let spec = &self.record.spec;
        let mut made = Ok(());
        self.apart(|device| made = mkfs(spec, device.path()).map(|_| ()))?;
        made.and_then(|()| self.mark()).map_err(|_| Errno::EIO)
    }

    /// Says in it that fsage made it, and how.
    pub(super) fn mark(&self) -> Result<(), HostError> {
        let path = self.dir.join(MARKER);
        // An image that has it stays as it is, and a link there leads nowhere of ours.
        if self.record.restored.is_some() && path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let text = format!("{}\nmkfs {}\n", self.record.spec, self.record.mkfs_options);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| HostError::at("write", &path, e))
    }

    /// The same, with something done to the device while nothing is mounted.
    pub(super) fn apart(&self, what: impl FnOnce(&LoopDevice)) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if !state.mounted {
            return Err(Errno::ENODEV);
        }
        state.roots.park().map_err(|e| Errno(e.raw_os_error()))?;
        let done = self.cycle(&mut state, what);
        if !state.mounted {
            // The roots stay parked: the bare directory must not be taken for the file system.
            return done;
        }
        let reopened = state.roots.reopen();
        done.and(reopened)
    }

    fn cycle(&self, state: &mut State, what: impl FnOnce(&LoopDevice)) -> Result<(), Errno> {
        // What is written back here belongs to no measurement.
        let _full_speed = FullSpeed::of(state.disk.clone());
        unmount(&self.dir, PATIENCE).map_err(|e| Errno(e.raw_os_error()))?;
        state.mounted = false;
        let Some(device) = &state.device else {
            return Err(Errno::ENODEV);
        };
        // Still mounted elsewhere: a mount would find the same caches again.
        let elsewhere = device.in_use();
        if !elsewhere {
            device.drop_cached();
            what(device);
        }
        mount(&self.record.spec, device.path(), &self.dir).map_err(|_| Errno::EIO)?;
        state.mounted = true;
        if elsewhere { Err(Errno::EBUSY) } else { Ok(()) }
    }

    /// Takes everything down: the mount, the device, the directory. Files still open keep what they
    /// need until they are closed; the error says so. A second time does nothing.
    pub(super) fn take_down(&self) -> Result<(), HostError> {
        let mut state = lock(&self.state);
        let Some(mut device) = state.device.take() else {
            return Ok(());
        };
        let disk = state.disk.take();
        if let Some(disk) = &disk {
            let _ = disk.set_delays(false);
        }
        let _ = state.roots.park();
        let mut busy = None;
        if state.mounted {
            state.mounted = false;
            if let Err(e) = unmount(&self.dir, LAST_PATIENCE) {
                busy = Some(in_use(&self.dir, &self.record.device, e));
                let _ = detach(&self.dir);
            }
        }
        let _ = std::fs::remove_dir(&self.dir);
        if let Some(error) = busy {
            // Its last close comes later; waiting for it here would be in vain.
            device.abandon();
            // The disk is needed until then, or until this process ends.
            std::mem::forget(disk);
            return Err(error);
        }
        let detached = device.detach();
        drop(device);
        if let Some(disk) = disk {
            disk.end();
        }
        detached
    }
}

/// The error of what cannot be unmounted, with who uses it.
fn in_use(dir: &Path, device: &Path, error: rustix::io::Errno) -> HostError {
    match processes::user_of(dir) {
        Some(pid) => HostError::Refused {
            what: format!("unmount {}", dir.display()),
            why: format!(
                "{} uses it; {} and its image stay until that has ended",
                processes::in_words(pid),
                device.display()
            ),
        },
        None => HostError::at("unmount", dir, error),
    }
}

fn mount(spec: &ScratchSpec, device: &Path, dir: &Path) -> Result<(), HostError> {
    let (kind, options) = (spec.kind.as_str(), spec.mount_options.as_str());
    // An image may be a stranger's: neither its programs, nor its devices, nor what its superblock wants done after an
    // error (`tune2fs -e panic`) count.
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mut data: Vec<&str> = Vec::new();
    if kind.starts_with("ext") && !options.split(',').any(|o| o.starts_with("errors=")) {
        data.push("errors=continue");
    }
    for option in options
        .split(',')
        .filter(|o| !matches!(*o, "" | "rw" | "defaults"))
    {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None => data.push(option),
        }
    }
    let data = std::ffi::CString::new(data.join(",")).map_err(|_| HostError::Refused {
        what: format!("mount {} with `{options}`", device.display()),
        why: "the options hold a NUL byte".into(),
    })?;
    rustix::mount::mount(device, dir, kind, flags, data.as_c_str()).map_err(|e| match e {
        rustix::io::Errno::NODEV => HostError::NoKernelSupport {
            kind: kind.to_owned(),
        },
        rustix::io::Errno::INVAL => HostError::Refused {
            what: format!(
                "mount {kind} on {} with options `{options}`",
                device.display()
            ),
            why: "the kernel does not take these options or this file system (see dmesg)".into(),
        },
        e => HostError::io(format!("mount {kind} on {}", device.display()), e),
    })
}
