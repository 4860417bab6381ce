//! Creates, cached reads, appends and fsyncs by several threads at once.

use fsage_core::{Errno, OpenFlags};

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::opened::Opened;
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::together::{Next, Stream, at_once};

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "several threads",
        stems: &[
            "SC_CR_S", "SC_CR_D", "SC_RD_S", "SC_RD_D", "SC_WR_S", "SC_WR_D",
        ],
        share: (0, 40),
        run: threads,
    },
    Procedure {
        name: "fsyncs of several threads",
        stems: &["SC_FS_D"],
        share: (20, 20),
        run: synchronised,
    },
];

/// What several threads do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contended {
    Create,
    Read,
    Append,
    Fsync,
}

impl Contended {
    /// Calls of each thread in a run.
    fn calls(self) -> usize {
        match self {
            Self::Fsync => 12,
            _ => 1500,
        }
    }
}

/// Calls per second from the first one's start to the last one's end.
pub(super) fn rate(spans: Vec<Result<(u64, u64), Errno>>, calls: usize) -> Res<f64> {
    let (mut start, mut end) = (u64::MAX, 0);
    for span in spans {
        let (s, e) = span?;
        (start, end) = (start.min(s), end.max(e));
    }
    Ok(calls as f64 * 1e9 / end.saturating_sub(start).max(1) as f64)
}

/// One round of each number of threads; their order changes, so that what a round leaves to be written
/// falls on all alike.
fn synchronised(lab: &mut Lab<'_>) -> Res {
    let rounds = (lab.scale(2, 6), lab.scale(8, 25));
    lab.rounds(&["SC_FS_D"], rounds, |lab, _| {
        let mut counts = [1u32, 2, 4];
        lab.random.shuffle(&mut counts);
        for count in counts {
            let rate = run(lab, Contended::Fsync, false, count)?;
            lab.begin(Batch::Blocking);
            lab.add(Probe::at("SC_FS_D", count), 0, rate);
            lab.measurements.commit(false);
        }
        lab.check()
    })
}

fn threads(lab: &mut Lab<'_>) -> Res {
    let stems = [
        "SC_CR_S", "SC_CR_D", "SC_RD_S", "SC_RD_D", "SC_WR_S", "SC_WR_D",
    ];
    lab.rounds(&stems, (10, 25), |lab, _| {
        for (contended, name) in [
            (Contended::Create, "CR"),
            (Contended::Read, "RD"),
            (Contended::Append, "WR"),
        ] {
            for shared in [true, false] {
                let stem = format!("SC_{name}_{}", if shared { "S" } else { "D" });
                for count in [1u32, 2, 4] {
                    let rate = run(lab, contended, shared, count)?;
                    lab.begin(Batch::Blocking);
                    lab.add(Probe::at(&stem, count), 0, rate);
                    lab.measurements.commit(false);
                }
            }
        }
        lab.check()
    })
}

/// Operations per second of all threads together, from the common start to the last one's end.
fn run(lab: &mut Lab<'_>, contended: Contended, shared: bool, count: u32) -> Res<f64> {
    let dir = lab.fresh_dir("o")?;
    let mut places = Vec::new();
    for thread in 0..count {
        let own = if shared {
            dir.clone()
        } else {
            format!("{dir}/{thread}")
        };
        if !shared {
            lab.fs.mkdir(own.as_bytes(), 0o755)?;
        }
        let file = if shared {
            format!("{dir}/file")
        } else {
            format!("{own}/file")
        };
        if matches!(contended, Contended::Read | Contended::Append) && (thread == 0 || !shared) {
            let bytes = if contended == Contended::Read {
                4 << 20
            } else {
                0
            };
            lab.make_file(file.as_bytes(), bytes)?;
        }
        places.push((own, file));
    }
    let (fs, payload) = (lab.fs, lab.payload.get(..4096).unwrap_or_default());
    let mut streams: Vec<Stream<'_>> = Vec::new();
    let mut opened = Opened::of(fs);
    for (thread, (own, file)) in places.into_iter().enumerate() {
        let flags = OpenFlags {
            append: contended == Contended::Append,
            ..OpenFlags::READ_WRITE
        };
        let handle = match contended {
            Contended::Create | Contended::Fsync => None,
            _ => Some(opened.open(file.as_bytes(), flags)?),
        };
        let (mut turn, mut buffer) = (0, [0u8; 4096]);
        streams.push(Box::new(move || {
            if turn == contended.calls() {
                return Ok(Next::End);
            }
            let place = format!("{own}/t{thread}-{turn}");
            let at = ((turn * 37 + thread * 11) % 1024) as u64 * 4096;
            turn += 1;
            match (contended, handle) {
                (Contended::Read, Some(h)) => fs.pread(h, &mut buffer, at).map(drop)?,
                (Contended::Append, Some(h)) => fs.write(h, payload).map(drop)?,
                (Contended::Fsync, _) => {
                    let h = fs.open(place.as_bytes(), OpenFlags::CREATE_NEW, 0o644)?;
                    let done = fs.write(h, payload).and_then(|_| fs.fsync(h));
                    fs.close(h)?;
                    done?;
                }
                _ => fs.close(fs.open(place.as_bytes(), OpenFlags::CREATE_NEW, 0o644)?)?,
            }
            Ok(Next::Step)
        }));
    }
    let spans = at_once(fs, streams);
    opened.close()?;
    lab.clear(&dir)?;
    rate(spans, contended.calls() * count as usize)
}
