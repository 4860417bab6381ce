//! Calls that only a directory of this machine has: the trait of targets does without them.

use std::fs::File;
use std::path::PathBuf;

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
    let paths: Vec<PathBuf> = population
        .items
        .iter()
        .map(|i| absolute(&root, &i.path))
        .collect();
    let dirs: Vec<PathBuf> = population.dirs.iter().map(|d| root.join(d)).collect();
    lab.steady(&["DUP", "LOCK", "ADVISE", "GETXATTR", "LISTXATTR", "CHDIR"]);
    // Absolute paths: the components of the root come on top.
    let above = root.components().count() as u32 - 1;
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
                on_attributes(lab, &paths, gap, FILE_COMPONENTS.below(above))?;
            }
            on_names(lab, &paths, &dirs, gap, FILE_COMPONENTS.below(above))?;
        }
        Ok(())
    })?;
    population.discard(lab)
}

fn absolute(root: &std::path::Path, path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    root.join(std::ffi::OsStr::from_bytes(path))
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

fn on_attributes(lab: &mut Lab<'_>, paths: &[PathBuf], gap: usize, components: Components) -> Res {
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
            lab.call_path(get, gap, components, || {
                match rustix::fs::getxattr(*path, NAME, &mut buffer) {
                    Err(rustix::io::Errno::NODATA) => Ok(0),
                    other => errno(other),
                }
            })?;
        }
        for path in &chosen {
            lab.call_path(list, gap, components, || {
                errno(rustix::fs::listxattr(*path, &mut buffer))
            })?;
        }
        lab.end()?;
    }
    lab.begin(Batch::Changing);
    for path in &chosen {
        lab.call_path(set, gap, components, || {
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
    dirs: &[PathBuf],
    gap: usize,
    components: Components,
) -> Res {
    let (chdir, mknod) = (Probe::of("CHDIR"), Probe::of("MKNOD"));
    let before = std::env::current_dir().map_err(|e| Errno(e.raw_os_error().unwrap_or(2)))?;
    lab.begin(Batch::Cached);
    let mut result = Ok(());
    for _ in 0..32 {
        let index = lab.random.below(dirs.len());
        let Some(dir) = dirs.get(index) else { continue };
        let call = || errno(rustix::process::chdir(dir));
        result = result.and(lab.call_path(
            chdir,
            gap,
            Components {
                same: components.same - 1,
                ..components
            },
            call,
        ));
    }
    rustix::process::chdir(&before).map_err(|e| Errno(e.raw_os_error()))?;
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
        let done = lab.call_path(mknod, gap, components, || {
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
