//! The life of thousands of small files: created, written, closed, removed in three states.

use std::ops::Range;

use fsage_core::{Handle, OpenFlags};

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::population::{FILE_COMPONENTS, Item, LIVE_DIRS, LIVE_FILES, Order, Population};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "files made in a row",
        stems: &["CRQ"],
        share: (10, 10),
        run: made_in_a_row,
    },
    Procedure {
        name: "new files",
        stems: &["CR", "WF", "WN", "WE", "WD", "CLOSEW", "RMD", "OBJU"],
        share: (60, 60),
        run: new_files,
    },
    Procedure {
        name: "removal of clean files",
        stems: &["RM", "RMF", "RMQ"],
        share: (25, 30),
        run: clean_files,
    },
    Procedure {
        name: "removal of uncached files",
        stems: &["RMFC"],
        share: (15, 20),
        run: uncached_files,
    },
];

/// Files that are open at once; half of the usual limit of descriptors is far away.
const BATCH: usize = 64;
/// Sizes in KiB that are too large for the population, and how many of each a round makes.
const LARGE: [(u32, usize, usize); 3] = [(256, 12, 24), (1024, 8, 16), (16384, 2, 4)];
/// The pauses of sixteen batches: back-to-back calls are most.
const GAP_OF_BATCH: [usize; 16] = [0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 4];

/// The pause that a file's other calls make between two of a kind.
const IN_TURN: usize = 2;

/// How a file of a size is written: the size of each request in bytes.
fn requests(size_kib: u32, choice: usize) -> u64 {
    let choices: &[u64] = match size_kib {
        0 => &[],
        1 => &[1024, 1024, 512],
        4 => &[4096, 4096, 1024, 512],
        16 => &[16384, 4096, 4096, 1024],
        64 => &[65536, 16384, 4096],
        256 => &[256 << 10, 65536],
        _ => &[1 << 20, 256 << 10],
    };
    choices
        .get(choice % choices.len().max(1))
        .copied()
        .unwrap_or(0)
}

/// What the states of a write are sampled into.
struct Writes {
    first: [(u64, Probe); 6],
    next: [(u64, Probe); 6],
    again: [(u64, Probe); 6],
    inside: Probe,
}

impl Writes {
    fn new() -> Self {
        let all = |stem: &str| {
            [1u32, 4, 16, 64, 256, 1024].map(|kib| (u64::from(kib) << 10, Probe::at(stem, kib)))
        };
        let inside = Probe::at("WE", 1);
        Self {
            first: all("WF"),
            next: all("WN"),
            again: all("WD"),
            inside,
        }
    }

    fn find(list: &[(u64, Probe)], bytes: u64) -> Option<Probe> {
        list.iter().find(|(b, _)| *b == bytes).map(|(_, p)| *p)
    }

    /// The state of a write of `bytes` at `at` in a sequence that began at 0.
    fn state(&self, at: u64, bytes: u64) -> Option<Probe> {
        if at == 0 {
            // The first 512 bytes are no point of the series, 1 is of 1 KiB.
            Self::find(&self.first, bytes)
        } else if !at.is_multiple_of(4096) {
            (bytes == 512).then_some(self.inside)
        } else {
            Self::find(&self.next, bytes)
        }
    }
}

fn new_files(lab: &mut Lab<'_>) -> Res {
    let writes = Writes::new();
    let rounds = (lab.scale(1, 3), lab.scale(2, 8));
    let stems = ["CR", "WF", "WN", "WE", "WD", "CLOSEW", "RMD", "OBJU"];
    lab.rounds(&stems, rounds, |lab, _| {
        lab.start_afresh()?;
        let churn = lab.scale(3000, 5000);
        let population = Population::plan(lab, LIVE_FILES + churn, LIVE_DIRS, Order::Scattered)?;
        churned(lab, &population.items, churn, &writes)?;
        population.discard(lab)?;
        large(lab, |lab, items| {
            write_items(lab, items, &writes)?;
            remove(lab, items, "RMD", false).map(|_| ())
        })
    })
}

/// Files that are removed in creation order at the end of a round.
const IN_ORDER: usize = 1200;

/// Fills the directories, and then goes on as a server does: for every few files that come, as many
/// go, any of those that are there, most of them never written back. In the end some go in the order
/// in which they came.
fn churned(lab: &mut Lab<'_>, items: &[Item], churn: usize, writes: &Writes) -> Res {
    let fill = items.len() * LIVE_FILES / (LIVE_FILES + churn);
    let (first, later) = items.split_at(fill);
    for batch in first.chunks(BATCH) {
        lab.settle_if_held_up()?;
        write_items(lab, batch, writes)?;
    }
    let mut live: Vec<Item> = first.to_vec();
    let mut anywhere = Vec::new();
    for batch in later.chunks(BATCH / 4) {
        lab.settle_if_held_up()?;
        write_items(lab, batch, writes)?;
        live.extend_from_slice(batch);
        let mut leaving = Vec::with_capacity(batch.len());
        for _ in batch {
            let index = lab.random.below(live.len());
            if index < live.len() {
                leaving.push(live.swap_remove(index));
            }
        }
        anywhere.extend(remove(lab, &leaving, NOT_SAMPLED, false)?);
        if lab.over() {
            break;
        }
    }
    live.sort_by_key(|item| item.number);
    live.truncate(IN_ORDER);
    let in_order = remove(lab, &live, "RMD", true)?;
    untouched(lab, &anywhere, &in_order)
}

/// What the unlink of any file costs more than that of the next, both by their medians.
fn untouched(lab: &mut Lab<'_>, anywhere: &[(u32, f64)], in_order: &[(u32, f64)]) -> Res {
    let of = |list: &[(u32, f64)], kib| {
        let times: Vec<f64> = list.iter().filter(|l| l.0 == kib).map(|l| l.1).collect();
        (times.len() >= 16).then(|| fsage_stats::median(&times))
    };
    lab.begin(Batch::Changing);
    for kib in [4, 16] {
        if let (Some(any), Some(next)) = (of(anywhere, kib), of(in_order, kib)) {
            lab.add(Probe::of("OBJU"), 0, (any - next).max(1.0));
        }
    }
    lab.end().map(|_| ())
}

/// Creates, writes and closes some files, each step for all of them before the next, so that the
/// pause between two calls of a kind is the chosen one.
fn write_items(lab: &mut Lab<'_>, items: &[Item], writes: &Writes) -> Res {
    let fs = lab.fs;
    let gap = lab.random.pick(&GAP_OF_BATCH, 0);
    if gap == IN_TURN {
        return write_in_turn(lab, items, writes);
    }
    let (create, close) = (Probe::of("CR"), Probe::of("CLOSEW"));
    let mut open: Vec<(Handle, u32)> = Vec::with_capacity(items.len());
    lab.begin(Batch::Changing);
    let mut result = Ok(());
    for item in items {
        let call = || fs.open(&item.path, OpenFlags::CREATE_NEW, 0o644);
        match lab.call_path(create, gap, FILE_COMPONENTS, call) {
            Ok(handle) => open.push((handle, item.size_kib)),
            Err(halt) => {
                result = Err(halt);
                break;
            }
        }
    }
    for &(handle, size_kib) in &open {
        result = result.and_then(|()| write_one(lab, handle, size_kib, gap, writes));
    }
    for (handle, _) in open {
        let closed = lab.call(close, gap, || fs.close(handle));
        result = result.and(closed);
    }
    result?;
    lab.end().map(|_| ())
}

/// Creates, writes and closes one file after another, as programs do: the other calls are the pause
/// of about 10 us. What a file system leaves to its threads is paid for where it is in a workload.
fn write_in_turn(lab: &mut Lab<'_>, items: &[Item], writes: &Writes) -> Res {
    let fs = lab.fs;
    let (create, close) = (Probe::of("CR"), Probe::of("CLOSEW"));
    let none = Components::default();
    lab.begin(Batch::Changing);
    for item in items {
        let call = || fs.open(&item.path, OpenFlags::CREATE_NEW, 0o644);
        let handle = lab.call_now(create, IN_TURN, FILE_COMPONENTS, call)?;
        let wrote = write_one(lab, handle, item.size_kib, IN_TURN, writes);
        let closed = lab.call_now(close, IN_TURN, none, || fs.close(handle));
        wrote.and(closed)?;
    }
    lab.end().map(|_| ())
}

fn write_one(lab: &mut Lab<'_>, handle: Handle, size_kib: u32, gap: usize, writes: &Writes) -> Res {
    let choice = lab.random.below(12);
    let request = requests(size_kib, choice);
    let size = u64::from(size_kib) << 10;
    if request == 0 {
        return Ok(());
    }
    let fs = lab.fs;
    let payload = std::mem::take(&mut lab.payload);
    let mut result = Ok(());
    for at in (0..size).step_by(request as usize) {
        let Some(piece) = payload.get(..request as usize) else {
            break;
        };
        result = match writes.state(at, request) {
            // The first follows the create, those after it each other.
            Some(probe) if gap == IN_TURN => {
                let gap = if at == 0 { IN_TURN } else { 0 };
                let call = || fs.pwrite(handle, piece, at);
                lab.call_now(probe, gap, Components::default(), call)
                    .map(|_| ())
            }
            Some(probe) => lab
                .call(probe, gap, || fs.pwrite(handle, piece, at))
                .map(|_| ()),
            None => fs.pwrite(handle, piece, at).map(|_| ()).map_err(Into::into),
        };
        if result.is_err() {
            break;
        }
    }
    // A rewrite by the same open file, of whole requests so that no new page is touched.
    if let (true, Some(probe)) = (
        result.is_ok() && gap != IN_TURN,
        Writes::find(&writes.again, request.min(size)),
    ) && let Some(piece) = payload.get(..request.min(size) as usize)
    {
        result = lab
            .call(probe, gap, || fs.pwrite(handle, piece, 0))
            .map(|_| ());
    }
    lab.payload = payload;
    result
}

/// Makes a directory with the few large files, as many as there is room for.
fn large(lab: &mut Lab<'_>, mut body: impl FnMut(&mut Lab<'_>, &[Item]) -> Res) -> Res {
    let mut room = lab.room_bytes();
    let root = lab.fresh_dir("l")?;
    // As deep as the population's files: as many components are subtracted.
    let dir = format!("{root}/d");
    lab.fs.mkdir(dir.as_bytes(), 0o755)?;
    let mut items = Vec::new();
    for (size_kib, quick, full) in LARGE {
        for number in 0..lab.scale(quick, full) {
            let bytes = u64::from(size_kib) << 10;
            if room < bytes {
                break;
            }
            room -= bytes;
            let path = format!("{dir}/l{size_kib}-{number}").into_bytes();
            items.push(Item {
                path,
                size_kib,
                dir: 0,
                number,
            });
        }
    }
    lab.random.shuffle(&mut items);
    for chunk in items.chunks(4) {
        body(lab, chunk)?;
        if lab.over() {
            break;
        }
    }
    lab.clear(&root)
}

/// A removal whose times are returned and not kept.
const NOT_SAMPLED: &str = "";

/// Unlinks files in the order given, samples the cost by size and returns sizes in KiB and times of
/// those that followed each other back to back. `pauses`: whether some follow pauses.
fn remove(lab: &mut Lab<'_>, items: &[Item], stem: &str, pauses: bool) -> Res<Vec<(u32, f64)>> {
    let fs = lab.fs;
    let empty = Probe::of("RM");
    let probes = [1u32, 4, 16, 64, 256, 1024, 16384].map(|kib| (kib, Probe::at(stem, kib)));
    let mut times = Vec::new();
    let kind = match stem {
        "RMFC" => Batch::Fetching,
        _ => Batch::Changing,
    };
    // What small caches have lost costs a computed processor more, or less.
    let looks = matches!(stem, "RMD" | "RMF") && fs.virtual_time().is_some();
    // A process that has removed a few files more is a process in the middle of removing.
    for chunk in items.chunks(32) {
        let gap = if pauses {
            lab.random.pick(&GAP_OF_BATCH, 0)
        } else {
            0
        };
        if looks {
            chunk
                .iter()
                .try_for_each(|item| lab.bring_back(&item.path, u64::from(item.size_kib) << 10))?;
        }
        lab.begin(kind);
        for item in chunk {
            let probe = match probes.iter().find(|(kib, _)| *kib == item.size_kib) {
                Some((_, probe)) => *probe,
                None if stem == "RMF" => empty,
                None => Probe::of(""),
            };
            if gap == 0 {
                let ((), ns) = lab.timed(|| fs.unlink(&item.path))?;
                let base = lab.base_ns.first().copied().unwrap_or_default();
                let ns = ns - base - lab.resolution_ns(FILE_COMPONENTS);
                lab.add(probe, 0, ns);
                times.push((item.size_kib, ns));
            } else {
                lab.call_path(probe, gap, FILE_COMPONENTS, || fs.unlink(&item.path))?;
            }
        }
        lab.end()?;
    }
    Ok(times)
}

/// Files of a row, those of its beginning, and where it is far from that; so many lie in a directory.
const ROW_FILES: usize = 2000;
const FIRST_OF_ROW: usize = 64;
const FAR_IN_ROW: usize = 512;
const ROW_DIR: usize = 64;

/// What is brought into a file system's trees behind the caller's back takes processor time that small batches never
/// wait for: here they do, so waits for processors count. No round removes anything: those after it would search among
/// the inodes that it freed (CRP).
fn made_in_a_row(lab: &mut Lab<'_>) -> Res {
    let rounds = (lab.scale(3, 6), lab.scale(6, 12));
    let mut all = Vec::new();
    let measured = lab.rounds(&["CRQ"], rounds, |lab, _| {
        let dirs = (0..ROW_FILES.div_ceil(ROW_DIR)).map(|_| lab.fresh_dir("q"));
        let dirs: Vec<String> = dirs.collect::<Res<_>>()?;
        all.extend_from_slice(&dirs);
        lab.settle()?;
        let make = |lab: &Lab<'_>, numbers: Range<usize>| -> Res<f64> {
            let (files, began_ns) = (numbers.len(), lab.clock.now_ns());
            for number in numbers {
                let dir = dirs.get(number / ROW_DIR).map_or("", String::as_str);
                lab.make_file(format!("{dir}/f{number}").as_bytes(), 4096)?;
            }
            let took_ns = lab.clock.now_ns().saturating_sub(began_ns);
            Ok(took_ns as f64 / files as f64)
        };
        let few_ns = make(lab, 0..FIRST_OF_ROW)?;
        make(lab, FIRST_OF_ROW..FAR_IN_ROW)?;
        let many_ns = make(lab, FAR_IN_ROW..ROW_FILES)?;
        lab.begin(Batch::Blocking);
        lab.add(Probe::of("CRQ"), 0, (many_ns - few_ns).max(0.0));
        lab.end().map(|_| ())
    });
    let cleared = all.iter().try_for_each(|dir| lab.clear(dir));
    measured.and(cleared)
}

/// Written back and cached.
fn clean_files(lab: &mut Lab<'_>) -> Res {
    let rounds = (lab.scale(1, 2), lab.scale(3, 8));
    lab.rounds(&["RM", "RMF", "RMQ"], rounds, |lab, _| {
        lab.start_afresh()?;
        let population = Population::create(lab, LIVE_FILES, LIVE_DIRS, Order::Scattered)?;
        lab.settle()?;
        let removed = lab.scale(2000, LIVE_FILES - LEAST_ROW);
        // Those that came last are cached where few are.
        let rest = population.items.len().saturating_sub(removed);
        let (rest, last) = population.items.split_at(rest);
        remove(lab, last, "RMF", true)?;
        in_a_row(lab, rest)?;
        population.discard(lab)?;
        large(lab, |lab, items| {
            for item in items {
                lab.make_file(&item.path, u64::from(item.size_kib) << 10)?;
            }
            lab.settle()?;
            remove(lab, items, "RMF", false).map(|_| ())
        })
    })
}

/// Files that are removed one right after the other, and removals after which what they left behind has caught up.
const LEAST_ROW: usize = 1500;
const CAUGHT_UP: usize = 512;
/// A removal that takes so many times as long as most did not do so by itself.
const HELD_UP: f64 = 10.0;

/// What removals in a long row are held up, each: xfs frees inodes behind the caller's back and lets him wait where
/// there are too many of them (`xfs_inodegc_want_flush_work`).
fn in_a_row(lab: &mut Lab<'_>, items: &[Item]) -> Res {
    if items.len() < LEAST_ROW {
        return Ok(());
    }
    let mut items: Vec<&Item> = items.iter().collect();
    items.sort_by_key(|item| (item.dir, item.number));
    let mut times = Vec::with_capacity(items.len());
    let mut queued_ns = lab.sched.run_delay_ns();
    for (turn, item) in items.into_iter().enumerate() {
        let ((), ns) = lab.timed(|| lab.fs.unlink(&item.path))?;
        // What others had of the processor meanwhile holds up nobody where it is his own.
        let before_ns = std::mem::replace(&mut queued_ns, lab.sched.run_delay_ns());
        if turn >= CAUGHT_UP {
            times.push(ns - queued_ns.saturating_sub(before_ns) as f64);
        }
    }
    let limit = HELD_UP * fsage_stats::median(&times);
    let (usual, held): (Vec<f64>, Vec<f64>) = times.iter().partition(|&&ns| ns < limit);
    let more_ns = held.iter().sum::<f64>() - held.len() as f64 * fsage_stats::mean(&usual);
    lab.begin(Batch::Blocking);
    lab.add(Probe::of("RMQ"), 0, (more_ns / times.len() as f64).max(0.0));
    lab.end().map(|_| ())
}

/// Cold, then asked for by name: the inode is in memory, its data and its block maps are not.
fn uncached_files(lab: &mut Lab<'_>) -> Res {
    let rounds = (lab.scale(1, 3), lab.scale(2, 6));
    lab.rounds(&["RMFC"], rounds, |lab, _| {
        let population = Population::create(lab, LIVE_FILES, LIVE_DIRS, Order::ByDirectory)?;
        lab.make_data_cold()?;
        population.warm_names(lab)?;
        let removed = lab.scale(1200, LIVE_FILES);
        let rest = population.items.len().saturating_sub(removed);
        let (_, last) = population.items.split_at(rest);
        remove(lab, last, "RMFC", false)?;
        population.discard(lab)?;
        large(lab, |lab, items| {
            for item in items {
                lab.make_file(&item.path, u64::from(item.size_kib) << 10)?;
            }
            lab.make_data_cold()?;
            for item in items {
                lab.fs.stat(&item.path)?;
            }
            remove(lab, items, "RMFC", false).map(|_| ())
        })
    })
}
