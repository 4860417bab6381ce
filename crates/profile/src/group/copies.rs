//! Copies that share their source's blocks.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "copies that share blocks",
    stems: COPIES,
    share: (3, 8),
    run: copies,
}];

const COPIES: &[&str] = &["CPS", "CPSD"];
/// Files of a round, and their size.
const FILES: usize = 48;
const BYTES: u64 = 16 << 10;
const GAP_OF_CHUNK: [usize; 8] = [0, 0, 0, 0, 1, 2, 3, 4];
const BATCH: usize = 8;

/// A target without such copies is told by the first: it has no such call.
fn copies(lab: &mut Lab<'_>) -> Res {
    let (clean, dirty) = (Probe::of("CPS"), Probe::of("CPSD"));
    let rounds = (lab.scale(2, 4), lab.scale(6, 16));
    lab.rounds(COPIES, rounds, |lab, _| {
        let dir = lab.fresh_dir("cp")?;
        let sources: Vec<String> = (0..FILES).map(|n| format!("{dir}/s{n}")).collect();
        for source in &sources {
            lab.make_file(source.as_bytes(), BYTES)?;
        }
        lab.settle()?;
        for chunk in sources.chunks(BATCH) {
            let gap = lab.random.pick(&GAP_OF_CHUNK, 0);
            lab.begin(Batch::Changing);
            for source in chunk {
                copy(lab, source, "c", clean, gap)?;
            }
            lab.end()?;
            // What was written since is written back first, which waits.
            lab.begin(Batch::Blocking);
            for source in chunk.iter().step_by(2) {
                lab.with_open(source.as_bytes(), OpenFlags::WRITE, |lab, handle| {
                    lab.fill(handle, 0, BYTES)
                })?;
                copy(lab, source, "d", dirty, gap)?;
            }
            lab.end()?;
        }
        lab.clear(&dir)
    })
}

/// Copies a file to a new one beside it.
fn copy(lab: &mut Lab<'_>, source: &str, mark: &str, probe: Probe, gap: usize) -> Res {
    let fs = lab.fs;
    let to = format!("{source}.{mark}");
    lab.with_open(source.as_bytes(), OpenFlags::READ, |lab, from| {
        lab.with_open(to.as_bytes(), OpenFlags::CREATE_NEW, |lab, to| {
            lab.call(probe, gap, || fs.share(from, to))
        })
    })
}
