//! First reads of cold files by several threads at once.

use fsage_core::{Handle, OpenFlags};

use super::cold::{of_round, scattered};
use super::scaling::rate;
use crate::error::Res;
use crate::lab::{Batch, Lab, QUICK_ROUNDS};
use crate::opened::Opened;
use crate::population::Population;
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::together::{Next, Stream, at_once};

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "cold files of several threads",
    stems: &["SC_RR_D", "RFT"],
    share: (45, 40),
    run: files,
}];

/// Numbers of threads, and reads of each in a run: anywhere, and in the order of creation.
const ANYWHERE: [usize; 4] = [1, 2, 4, 8];
const READS: usize = 16;
const IN_ORDER: [usize; 2] = [2, 4];
const NEXTS: usize = 24;
/// Sizes of files that are read in creation order, in turn.
const SIZES_KIB: [u64; 4] = [4, 12, 8, 16];
/// Rounds for which there are files that are read in no other: what was read before may lie in the
/// drive's own buffer, which no remount empties.
const ROUNDS: (usize, usize) = (6, 16);
const STREAMS: usize = 4;
/// What lies between files that are read in creation order and the next such: more than drives read
/// ahead, in files that are still small. Large ones are given another place than small ones (btrfs, ext4), so that
/// what was to be apart would lie side by side.
const BETWEEN_BYTES: u64 = 4 << 20;
const BETWEEN: u64 = 64;

fn files(lab: &mut Lab<'_>) -> Res {
    let rounds = lab.scale(ROUNDS.0, ROUNDS.1);
    let all: usize = ANYWHERE.iter().sum();
    let anywhere = Population::create_apart(lab, rounds * all * READS * 21 / 20, 45, (4..=64, 16))?;
    let order = scattered(lab, &anywhere);
    let streams = Streams::create(lab, rounds * IN_ORDER.len())?;
    let limits = (2, lab.scale(ROUNDS.0 / QUICK_ROUNDS, ROUNDS.1));
    lab.rounds(&["SC_RR_D", "RFT"], limits, |lab, round| {
        let mut rest = of_round(&order, round, all * READS);
        let mut counts = ANYWHERE;
        lab.random.shuffle(&mut counts);
        for count in counts {
            let (now, later) = rest.split_at((count * READS).min(rest.len()));
            rest = later;
            let paths = |part: &[usize]| -> Vec<&[u8]> {
                let items = part.iter().filter_map(|&i| anywhere.items.get(i));
                items.map(|item| item.path.as_slice()).collect()
            };
            let parts: Vec<_> = now.chunks(READS).map(paths).collect();
            if parts.len() == count
                && let Some(rate) = run(lab, &parts)?
            {
                add(lab, Probe::at("SC_RR_D", count as u32), rate);
            }
        }
        let mut counts = IN_ORDER;
        lab.random.shuffle(&mut counts);
        for (turn, count) in counts.into_iter().enumerate() {
            // Two threads fall into step or do not, by the moments in which they begin: what is measured more often.
            for parts in streams.at(round * IN_ORDER.len() + turn).chunks(count) {
                if let Some(rate) = run(lab, parts)? {
                    add(lab, Probe::at("RFT", count as u32), 1e9 / rate);
                }
            }
        }
        lab.check()
    })?;
    anywhere.discard(lab)?;
    streams.discard(lab)
}

/// Files for threads that each read what lies beside the last.
struct Streams {
    root: String,
    /// By stream, turn and order.
    paths: Vec<Vec<Vec<Vec<u8>>>>,
    /// The files between them.
    between: Vec<Vec<u8>>,
}

impl Streams {
    fn create(lab: &mut Lab<'_>, turns: usize) -> Res<Self> {
        let each = BETWEEN_BYTES + NEXTS as u64 * (16 << 10);
        let turns = turns
            .min((lab.room_bytes() / 2 / each) as usize / STREAMS)
            .max(1);
        let root = lab.fresh_dir("o")?;
        let (mut paths, mut all_between) = (Vec::new(), Vec::new());
        for stream in 0..STREAMS {
            let mut all = Vec::new();
            for turn in 0..turns {
                let dir = format!("{root}/{stream}-{turn}");
                lab.fs.mkdir(dir.as_bytes(), 0o755)?;
                let name = |number| format!("{dir}/{number:02}").into_bytes();
                let files: Vec<_> = (0..NEXTS).map(name).collect();
                for (path, kib) in files.iter().zip(SIZES_KIB.into_iter().cycle()) {
                    lab.make_file(path, kib << 10)?;
                }
                for number in 0..BETWEEN {
                    let between = format!("{dir}/between{number:02}").into_bytes();
                    lab.make_file(&between, BETWEEN_BYTES / BETWEEN)?;
                    all_between.push(between);
                }
                all.push(files);
                lab.check()?;
            }
            paths.push(all);
        }
        Ok(Self {
            root,
            paths,
            between: all_between,
        })
    }

    /// What lies between the files goes, the inodes stay: see `Lab::start_afresh`.
    fn discard(&self, lab: &Lab<'_>) -> Res {
        // Nothing stays where the next procedure begins on a new file system.
        if lab.costs.anew_ns.get() > 0 {
            return Ok(());
        }
        for path in &self.between {
            if lab.spent() {
                break;
            }
            lab.fs.truncate(path, 0)?;
        }
        lab.discard(&self.root)
    }

    /// The files of all streams in a turn.
    fn at(&self, turn: usize) -> Vec<Vec<&[u8]>> {
        let mut parts = Vec::new();
        for turns in &self.paths {
            let files = turns.get(turn % turns.len().max(1));
            parts.push(files.into_iter().flatten().map(Vec::as_slice).collect());
        }
        parts
    }
}

fn add(lab: &mut Lab<'_>, probe: Probe, sample: f64) {
    lab.begin(Batch::Blocking);
    lab.add(probe, 0, sample);
    lab.measurements.commit(false);
}

/// Reads per second of a thread for each of `parts`, all together; `None` where the device was not
/// asked.
fn run(lab: &mut Lab<'_>, parts: &[Vec<&[u8]>]) -> Res<Option<f64>> {
    let fs = lab.fs;
    lab.make_data_cold()?;
    let mut opened = Opened::of(fs);
    let mut handles: Vec<Vec<Handle>> = Vec::new();
    for part in parts {
        let of_part = part.iter().map(|path| opened.open(path, OpenFlags::READ));
        handles.push(of_part.collect::<Result<_, _>>()?);
    }
    let before = lab.sectors_read();
    let stream = |handles: &Vec<Handle>| -> Stream<'_> {
        let (mut left, mut buffer) = (handles.clone().into_iter(), [0u8; 4096]);
        Box::new(move || {
            let Some(handle) = left.next() else {
                return Ok(Next::End);
            };
            fs.pread(handle, &mut buffer, 0).map(|_| Next::Step)
        })
    };
    let spans = at_once(fs, handles.iter().map(stream).collect());
    let reads: usize = handles.iter().map(Vec::len).sum();
    opened.close()?;
    let rate = rate(spans, reads)?;
    let cold = before.is_none() || lab.sectors_read() != before;
    Ok((cold && reads > 0).then_some(rate))
}
