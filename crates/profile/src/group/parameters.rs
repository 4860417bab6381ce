//! The empty call and the sizes of blocks.

use fsage_core::OpenFlags;
use fsage_format::snapshot::extent_flags;

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "empty call",
        stems: &["EMPTY"],
        share: (2, 2),
        run: empty,
    },
    Procedure {
        name: "block sizes",
        stems: &["BS", "FS", "DAP", "DAN"],
        share: (1, 1),
        run: blocks,
    },
];

/// A timed empty call less the reading of the clock.
pub(crate) fn empty(lab: &mut Lab<'_>) -> Res {
    let _quiet = lab.sched.quiet();
    let probe = Probe::of("EMPTY");
    lab.steady(&["EMPTY"]);
    let fs = lab.fs;
    let mut clock_ns = Vec::new();
    let mut timed = Vec::new();
    for _ in 0..lab.scale(10, 40) {
        for _ in 0..100 {
            let ((), ns) = lab.timed(|| {
                fs.empty_call();
                Ok(())
            })?;
            timed.push(ns);
        }
        for _ in 0..100 {
            clock_ns.push(lab.timed(|| Ok(()))?.1);
        }
        lab.check()?;
    }
    let clock = fsage_stats::median(&clock_ns);
    lab.begin(Batch::Blocking);
    for ns in timed {
        lab.add(probe, 0, ns - clock);
    }
    lab.end()?;
    lab.rounds(&["EMPTY"], (1, 1), |_, _| Ok(()))
}

/// statfs, and what one byte takes: the fragment is what a small file is given.
fn blocks(lab: &mut Lab<'_>) -> Res {
    let statfs = lab.fs.statfs()?;
    let dir = lab.fresh_dir("b")?;
    let path = format!("{dir}/one");
    lab.make_file(path.as_bytes(), 1)?;
    lab.fs.sync()?;
    let attr = lab.fs.stat(path.as_bytes())?;
    // A file system may keep so little in its inode (0) or not have allocated it yet.
    let large = format!("{dir}/large");
    let whole = u64::from(statfs.block_bytes.max(1));
    let handle = lab
        .fs
        .open(large.as_bytes(), OpenFlags::CREATE_NEW, 0o644)?;
    let filled = lab.fill(handle, 0, whole + 1);
    lab.fs.close(handle)?;
    filled?;
    lab.fs.sync()?;
    let step = lab.fs.stat(large.as_bytes())?.allocated_bytes;
    let fragment = f64::from(if statfs.fragment_bytes == 0 {
        statfs.block_bytes
    } else {
        statfs.fragment_bytes
    });
    let block = f64::from(statfs.block_bytes);
    lab.give(Probe::of("BS"), (block, Some((block, block))), "precise");
    lab.give(
        Probe::of("FS"),
        (fragment, Some((fragment, fragment))),
        "precise",
    );
    let found = format!(
        "a file of 1 byte is allocated {} bytes, one of {} bytes {step}",
        attr.allocated_bytes,
        whole + 1
    );
    lab.remark("BS", &found);
    lab.remark("FS", &found);
    directories(lab)
}

/// Directories that are made one after another, with a file each.
const DIRECTORIES: usize = 12;
const FILE_BYTES: u64 = 8 << 10;
/// Positions so near to one another are in one place whatever the others are.
const ONE_PLACE_KIB: f64 = 1024.0;

/// What is told of these means no place on the device.
const NO_PLACE: u32 = extent_flags::UNKNOWN
    | extent_flags::DELALLOC
    | extent_flags::ENCODED
    | extent_flags::NOT_ALIGNED;

/// Where a file system puts the files of one directory after another, as it tells itself.
fn directories(lab: &mut Lab<'_>) -> Res {
    if lab.host_dir.is_none() {
        for stem in ["DAP", "DAN"] {
            lab.absent(
                stem,
                "only a directory of this machine tells where its files lie",
            );
        }
        return Ok(());
    }
    let home = lab.work.clone();
    let home_kib = lab.place_kib(&home)?;
    let mut places = Vec::with_capacity(DIRECTORIES);
    for _ in 0..DIRECTORIES {
        let dir = lab.fresh_dir("p")?;
        places.extend(lab.place_kib(&dir)?);
    }
    if places.len() < DIRECTORIES {
        for stem in ["DAP", "DAN"] {
            lab.absent(stem, "not told by this file system");
        }
        return Ok(());
    }
    let steps = places.windows(2).filter_map(|pair| match pair {
        [a, b] => Some((b - a).abs()),
        _ => None,
    });
    let apart = fsage_stats::median(&steps.collect::<Vec<_>>());
    places.sort_by(f64::total_cmp);
    let gap = ONE_PLACE_KIB.max(apart / 2.0);
    let gaps = places.windows(2).filter(|pair| match pair {
        [a, b] => b - a > gap,
        _ => false,
    });
    let count = gaps.count() + 1;
    lab.give(Probe::of("DAP"), (apart, Some((apart, apart))), "precise");
    let places = count as f64;
    lab.give(
        Probe::of("DAN"),
        (places, Some((places, places))),
        "precise",
    );
    lab.home = home_kib.filter(|_| count > 1).map(|kib| Home {
        kib,
        apart_kib: apart,
        places: count,
    });
    Ok(())
}

/// Where the files of the working directory lie on a file system whose directories take turns among places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    kib: f64,
    apart_kib: f64,
    places: usize,
}

impl Lab<'_> {
    /// Where a new file of a directory is put, in KiB on the device; `None` where the file system does not tell.
    fn place_kib(&mut self, dir: &str) -> Res<Option<f64>> {
        let Some(root) = self.host_dir.clone() else {
            return Ok(None);
        };
        let path = format!("{}/place{}", dir, self.random.next());
        self.make_file(path.as_bytes(), FILE_BYTES)?;
        let fs = self.fs;
        self.with_open(path.as_bytes(), OpenFlags::READ, |_, handle| {
            Ok(fs.fsync(handle)?)
        })?;
        let entry = fsage_host::snapshot::entry(&root.join(path)).ok();
        let first = entry.and_then(|entry| entry.extents.first().copied());
        let first = first.filter(|extent| extent.flags & NO_PLACE == 0);
        Ok(first.map(|extent| extent.physical_bytes as f64 / 1024.0))
    }

    /// A new directory whose files lie where those of the first of the file system do. A commit costs by how far its
    /// journal is from what it is of, and the directory of a workload is the first that is made.
    pub(crate) fn fresh_dir_at_home(&mut self, tag: &str) -> Res<String> {
        let mut dir = self.fresh_dir(tag)?;
        let Some(home) = self.home else {
            return Ok(dir);
        };
        for _ in 1..home.places {
            let here = self.place_kib(&dir)?;
            if here.is_none_or(|kib| (kib - home.kib).abs() < home.apart_kib / 2.0) {
                break;
            }
            dir = self.fresh_dir(tag)?;
        }
        Ok(dir)
    }
}
