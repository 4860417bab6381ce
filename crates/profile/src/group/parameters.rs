//! The empty call, the sizes of blocks, and among which places directories take turns.

use fsage_core::OpenFlags;

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
    lab.directories()
}
