//! Calls that only a directory of this machine has: the trait of targets does without them.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fsage_core::Errno;
use rustix::fs::{Advice, FileType, FlockOperation, Mode, OFlags, XattrFlags};

use crate::error::{Halt, Res};
use crate::group::calls::FEW;
use crate::lab::{Batch, GAPS, Lab};
use crate::population::{FILE_COMPONENTS, Order, Population};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "descriptors, locks, extended attributes",
    stems: &[
        "DUP",
        "LOCK",
        "ADVISE",
        "GETXATTR",
        "SETXATTR",
        "LISTXATTR",
        "CHDIR",
        "MKNOD",
    ],
    share: (12, 20),
    run: host_calls,
}];

const NAME: &str = "user.fsage";

fn host_calls(lab: &mut Lab<'_>) -> Res {
    let Some(root) = lab.host_dir.clone() else {
        return Err(Halt::Absent(
            "the target is no directory of this machine".to_owned(),
        ));
    };
    lab.start_afresh()?;
    let files = lab.scale(1200, 5000);
    let population = Population::create(lab, files, files / 100, Order::Scattered)?;
    lab.settle_in_time()?;
    let own = WorkingDirectory::enter(lab, &root)?;
    let below = |path: &[u8]| own.name(path);
    let paths: Vec<PathBuf> = population.items.iter().map(|i| below(&i.path)).collect();
    let dirs: Vec<PathBuf> = population
        .dirs
        .iter()
        .map(|d| below(d.as_bytes()))
        .collect();
    lab.steady(&["DUP", "LOCK", "ADVISE", "GETXATTR", "LISTXATTR", "CHDIR"]);
    let attributes = supports_attributes(lab, &paths);
    let rounds = (lab.scale(2, 4), lab.scale(6, 20));
    let stems = [
        "DUP",
        "LOCK",
        "ADVISE",
        "GETXATTR",
        "SETXATTR",
        "LISTXATTR",
        "CHDIR",
        "MKNOD",
    ];
    lab.rounds(&stems, rounds, |lab, _| {
        for gap in 0..GAPS {
            on_descriptors(lab, &paths, gap)?;
            if attributes {
                on_attributes(lab, &paths, gap)?;
            }
            on_names(lab, &paths, (&dirs, &own), gap)?;
        }
        Ok(())
    })?;
    drop(own);
    population.discard(lab)
}

/// The directory of the measurement as this process's working directory, for calls that have no form with a
/// descriptor: whatever is put in the place of its path, names are beneath the one that was made. The former
/// one comes back on drop.
struct WorkingDirectory {
    own: OwnedFd,
    before: OwnedFd,
    /// What names of the target begin with.
    prefix: Vec<u8>,
}

/// Names lack the component that the target's have for the directory itself.
const COMPONENTS: Components = Components {
    same: FILE_COMPONENTS.same - 1,
    ..FILE_COMPONENTS
};

impl WorkingDirectory {
    fn enter(lab: &Lab<'_>, root: &Path) -> Res<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |path: &Path| errno(rustix::fs::open(path, flags, Mode::empty()));
        let (own, before) = (open(&root.join(&lab.work))?, open(Path::new("."))?);
        let found = errno(rustix::fs::fstat(&own))?;
        if found.st_ino != lab.fs.stat(lab.work.as_bytes())?.id.ino {
            return Err(Halt::Absent(
                "something else has come in the place of its directory".to_owned(),
            ));
        }
        errno(rustix::process::fchdir(&own))?;
        let prefix = format!("{}/", lab.work).into_bytes();
        Ok(Self {
            own,
            before,
            prefix,
        })
    }

    /// A name of the target's, from here.
    fn name(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let path = path.strip_prefix(self.prefix.as_slice()).unwrap_or(path);
        std::ffi::OsStr::from_bytes(path).into()
    }

    /// Back from one of its directories.
    fn again(&self) -> Result<(), Errno> {
        errno(rustix::process::fchdir(&self.own))
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // Nothing that is measured after this takes relative names.
        let _ = rustix::process::fchdir(&self.before);
    }
}

fn errno<T>(result: rustix::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|e| Errno(e.raw_os_error()))
}

fn supports_attributes(lab: &mut Lab<'_>, paths: &[PathBuf]) -> bool {
    let Some(path) = paths.first() else {
        return false;
    };
    match rustix::fs::setxattr(path, NAME, b"x", XattrFlags::empty()) {
        Ok(()) => {
            let _ = rustix::fs::removexattr(path, NAME);
            true
        }
        Err(error) => {
            let reason = format!("the target refuses extended attributes: {error}");
            for stem in ["GETXATTR", "SETXATTR", "LISTXATTR"] {
                lab.absent(stem, &reason);
            }
            false
        }
    }
}

fn on_descriptors(lab: &mut Lab<'_>, paths: &[PathBuf], gap: usize) -> Res {
    let (dup, lock, advise) = (Probe::of("DUP"), Probe::of("LOCK"), Probe::of("ADVISE"));
    let mut open = Vec::new();
    for _ in 0..32 {
        let index = lab.random.below(paths.len());
        let Some(path) = paths.get(index) else {
            continue;
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        open.push(File::from(errno(rustix::fs::open(
            path,
            flags,
            Mode::empty(),
        ))?));
    }
    let _quiet = lab.sched.quiet();
    lab.begin(Batch::Cached);
    for file in &open {
        drop(lab.call(dup, gap, || errno(rustix::io::dup(file)))?);
    }
    for file in &open {
        lab.call(advise, gap, || {
            errno(rustix::fs::fadvise(file, 0, None, Advice::Normal))
        })?;
    }
    for file in &open {
        // Each is half of a lock and its release, which is what most of them are.
        for operation in [FlockOperation::LockExclusive, FlockOperation::Unlock] {
            lab.call(lock, gap, || errno(rustix::fs::flock(file, operation)))?;
        }
    }
    lab.end().map(|_| ())
}

fn on_attributes(lab: &mut Lab<'_>, paths: &[PathBuf], gap: usize) -> Res {
    let (get, set, list) = (
        Probe::of("GETXATTR"),
        Probe::of("SETXATTR"),
        Probe::of("LISTXATTR"),
    );
    let mut buffer = [0u8; 64];
    // The same few again and again: how cold a file is does not count for the call.
    let few: Vec<&PathBuf> = (0..FEW)
        .filter_map(|_| paths.get(lab.random.below(paths.len())))
        .collect();
    let chosen: Vec<&PathBuf> = few.iter().copied().cycle().take(32).collect();
    for path in &few {
        let _ = rustix::fs::listxattr(*path, &mut buffer);
    }
    {
        let _quiet = lab.sched.quiet();
        lab.begin(Batch::Cached);
        for path in &chosen {
            lab.call_path(get, gap, COMPONENTS, || {
                match rustix::fs::getxattr(*path, NAME, &mut buffer) {
                    Err(rustix::io::Errno::NODATA) => Ok(0),
                    other => errno(other),
                }
            })?;
        }
        for path in &chosen {
            lab.call_path(list, gap, COMPONENTS, || {
                errno(rustix::fs::listxattr(*path, &mut buffer))
            })?;
        }
        lab.end()?;
    }
    lab.begin(Batch::Changing);
    for path in &chosen {
        lab.call_path(set, gap, COMPONENTS, || {
            errno(rustix::fs::setxattr(
                *path,
                NAME,
                b"sixteen bytes...",
                XattrFlags::empty(),
            ))
        })?;
    }
    lab.end()?;
    for path in &few {
        // The same file may have been chosen twice.
        let _ = rustix::fs::removexattr(*path, NAME);
    }
    Ok(())
}

fn on_names(
    lab: &mut Lab<'_>,
    paths: &[PathBuf],
    (dirs, own): (&[PathBuf], &WorkingDirectory),
    gap: usize,
) -> Res {
    let (chdir, mknod) = (Probe::of("CHDIR"), Probe::of("MKNOD"));
    lab.begin(Batch::Cached);
    let mut result = Ok(());
    for _ in 0..32 {
        let index = lab.random.below(dirs.len());
        let Some(dir) = dirs.get(index) else { continue };
        own.again()?;
        let call = || errno(rustix::process::chdir(dir));
        result = result.and(lab.call_path(
            chdir,
            gap,
            Components {
                same: COMPONENTS.same - 1,
                ..COMPONENTS
            },
            call,
        ));
    }
    own.again()?;
    result?;
    lab.end()?;
    let mut made = Vec::new();
    lab.begin(Batch::Changing);
    for _ in 0..16 {
        let index = lab.random.below(paths.len());
        let Some(path) = paths.get(index) else {
            continue;
        };
        let mut name = path.clone().into_os_string();
        name.push(format!(".{:08x}", lab.random.next() as u32));
        let done = lab.call_path(mknod, gap, COMPONENTS, || {
            errno(rustix::fs::mknodat(
                rustix::fs::CWD,
                &name,
                FileType::Fifo,
                Mode::RUSR,
                0,
            ))
        });
        if done.is_err() {
            lab.absent("MKNOD", "the target refuses fifos");
            break;
        }
        made.push(name);
    }
    lab.end()?;
    for name in made {
        errno(rustix::fs::unlink(name))?;
    }
    Ok(())
}
