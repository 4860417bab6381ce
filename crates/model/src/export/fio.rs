//! For fio: a job for each group in each phase. It reads and writes; it has no names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use fsage_core::OpKind;

use super::played::{Moves, Played, parts};
use super::{Exported, FILE, Lost, Made, sizes};
use crate::fsm::{Model, ModelError};

/// fio keeps so many files open, and lays out so many for each process at the most.
const OPEN_FILES: u64 = 16;
const MOST_FILES: u64 = 10_000;
/// Sizes of requests that are told: fio takes no more.
const MOST_SIZES: usize = 64;
const LEAST_FILE_BYTES: u64 = 4096;
/// Requests of the largest size in a file, where there is so much data: fio draws another size where one does not fit
/// before the end, so that large ones would come less often.
const REQUESTS: u64 = 64;

/// One in so many requests, so many times as large as one is on average, which are more than this share of the bytes.
const FEW_CALLS: u64 = 20;
const FEW_LARGER: u64 = 8;
const FEW_BYTES: f64 = 0.02;

/// What a part does that fio can do.
#[derive(Debug, Default)]
struct Data {
    /// Reads, and writes.
    moves: [Moves; 2],
    syncs: [u64; 2],
    think_ns: u64,
    /// What is read, and what is written.
    files: [Files; 2],
}

/// Which files are moved one way: their classes, how many that are, and how large in all.
#[derive(Debug, Default)]
struct Files {
    classes: BTreeSet<usize>,
    number: u64,
    bytes: u64,
}

/// What jobs lay out, by the number of the set: of each job how many processes have how many files of which size. Jobs on the
/// same classes use the same files, as the model does, so a set is as large as the largest of them.
#[derive(Debug, Default)]
struct Sets {
    numbers: BTreeMap<BTreeSet<usize>, usize>,
    laid_out: BTreeMap<usize, Vec<(u64, u64, u64)>>,
}

impl Sets {
    fn number(&mut self, classes: &BTreeSet<usize>) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(classes.clone()).or_insert(next)
    }

    fn made(mut self) -> Made {
        let mut made = Made::default();
        for of_set in self.laid_out.values_mut() {
            // The largest first: what a smaller one uses of these is there.
            of_set.sort_unstable_by_key(|of_job| std::cmp::Reverse(of_job.2));
            let mut there = Vec::new();
            for &(jobs, files, bytes) in of_set.iter() {
                let before = covered(&mut there);
                there.push((jobs, files));
                let more = covered(&mut there) - before;
                made.files = made.files.saturating_add(more);
                made.bytes = made.bytes.saturating_add(more.saturating_mul(bytes));
            }
        }
        made
    }
}

/// How many files there are where each of the first so many processes has the first so many.
fn covered(of_jobs: &mut [(u64, u64)]) -> u64 {
    of_jobs.sort_unstable();
    let (mut all, mut most) = (0_u64, 0);
    for (place, &(jobs, files)) in of_jobs.iter().enumerate().rev() {
        let before = place.checked_sub(1).and_then(|place| of_jobs.get(place));
        most = files.max(most);
        all = all.saturating_add((jobs - before.map_or(0, |b| b.0)).saturating_mul(most));
    }
    all
}

/// What requests past the page cache are a multiple of.
const SECTOR_BYTES: u64 = 512;

/// What fio is told of.
const SYNCS: [OpKind; 2] = [OpKind::Fsync, OpKind::Fdatasync];

/// The model as a job file: `fio --directory=DIR FILE`.
///
/// # Errors
/// It cannot be played.
pub fn fio(model: &Arc<Model>) -> Result<Exported, ModelError> {
    let played = Played::of(model)?;
    let class_sizes = sizes(model, &played);
    let mut exported: BTreeMap<OpKind, f64> = BTreeMap::new();
    let (mut otherwise, mut sets) = (0, Sets::default());
    let run_by = format!("fio --directory=DIR {FILE}");
    let mut text = format!(
        "; Made by fsage from a model. Run it by: {run_by}\n\n\
         [global]\nioengine=psync\nfallocate=none\nrandrepeat=1\nnorandommap=1\nfile_service_type=random\ngroup_reporting=1\n",
    );
    let _ = writeln!(text, "openfiles={OPEN_FILES}");
    for (number, phase) in model.phases.iter().enumerate() {
        let mut first = number > 0;
        for (place, part) in phase.parts.iter().enumerate() {
            let data = data(model, &played, (number, place), &class_sizes);
            let at_once = model.groups.get(part.group as usize - 1);
            let at_once = at_once.map_or(1, |g| u64::from(g.at_once)).max(1);
            for job in data.jobs(at_once) {
                let _ = write!(
                    text,
                    "\n[phase{}-group{}{}]\n{}",
                    number + 1,
                    part.group,
                    job.name,
                    if first { "stonewall\n" } else { "" }
                );
                first = false;
                otherwise += job.moves.otherwise();
                job.write(&mut text, &data, &mut sets, &mut exported);
            }
        }
    }
    let mut lost = Lost::default();
    lost.operations(&played, &exported);
    lost.add(
        "past the page cache, or through it (as most of their job)",
        otherwise as f64,
    );
    lost.add("what follows what: scripts", model.visits.len() as f64);
    lost.add(
        "how soon files are used again: classes",
        model.classes.len() as f64,
    );
    let (made, made_by_model) = (sets.made(), Made::of(model));
    lost.made(made, made_by_model);
    Ok(Exported {
        text,
        run_by,
        rounds: None,
        operations: model.source.operations,
        made,
        made_by_model,
        left_out: lost.counts(),
    })
}

/// What a part comes to.
fn data(model: &Model, played: &Played, (phase, part): (usize, usize), sizes: &[u64]) -> Data {
    let mut data = Data::default();
    // Of each class how many visits move something, each way.
    let mut classes: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
    let script = model.phases.get(phase).and_then(|p| p.parts.get(part));
    let script = script.map_or(&[][..], |part| &part.script);
    for (line, done) in played.part(phase, part) {
        data.think_ns = data.think_ns.saturating_add(done.think_ns);
        let class = script.get(line).map_or(0, |line| line.file.class as usize);
        let visits = classes.entry(class).or_default();
        for ((sum, more), visits) in data.moves.iter_mut().zip(&done.moves).zip(visits) {
            sum.add(more);
            *visits += if more.calls > 0 { done.visits } else { 0 };
        }
        for (sum, kind) in data.syncs.iter_mut().zip(&SYNCS) {
            *sum += done.counts.get(kind).copied().unwrap_or(0);
        }
    }
    for (class, visits) in classes {
        let of = model.classes.get(class.wrapping_sub(1));
        let all = of.map_or(0, |c| c.before.saturating_add(c.later)).max(1);
        let size = sizes.get(class.wrapping_sub(1)).copied().unwrap_or(0);
        for (files, visits) in data.files.iter_mut().zip(visits) {
            // No more than are visited.
            let number = all.min(visits);
            if number > 0 {
                files.classes.insert(class);
                files.number = files.number.saturating_add(number);
                files.bytes = files.bytes.saturating_add(number.saturating_mul(size));
            }
        }
    }
    data
}

impl Moves {
    fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.apart += more.apart;
        self.direct += more.direct;
        for (size, n) in &more.sizes {
            *self.sizes.entry(*size).or_default() += n;
        }
    }

    /// Whether most of them go past the page cache.
    fn is_direct(&self) -> bool {
        2 * self.direct > self.calls
    }

    /// How many go the other way.
    fn otherwise(&self) -> u64 {
        if self.is_direct() {
            self.calls - self.direct
        } else {
            self.direct
        }
    }

    /// Takes those out that are so few and so large that it hangs on chance how many bytes come of them where sizes are drawn.
    fn take_few(&mut self) -> Vec<(u64, u64)> {
        let most = (self.bytes as f64 * FEW_BYTES) as u64;
        let large = (self.bytes / self.calls.max(1)).saturating_mul(FEW_LARGER);
        let is_few = |(size, n): &(&u64, &u64)| {
            let bytes = size.saturating_mul(**n);
            **n <= self.calls / FEW_CALLS && bytes > most && **size > large
        };
        let few = self.sizes.iter().filter(is_few);
        let few: Vec<(u64, u64)> = few.map(|(size, n)| (*size, *n)).collect();
        for (size, n) in &few {
            self.sizes.remove(size);
            self.calls -= n;
            self.bytes = self.bytes.saturating_sub(size.saturating_mul(*n));
        }
        self.apart = self.apart.min(self.calls);
        self.direct = self.direct.min(self.calls);
        few
    }
}

/// One that reads, or writes.
struct Job {
    /// What its name has more than those of the phase and the group.
    name: String,
    /// 0 if it reads, 1 if it writes.
    way: usize,
    /// Of what it does.
    moves: Moves,
    /// How often it does that, by how many processes.
    calls: f64,
    jobs: u64,
    /// Whether it is what the part does but for a few requests.
    is_most: bool,
}

impl Job {
    fn of(name: String, way: usize, moves: Moves, at_once: u64) -> Self {
        let all = moves.calls as f64;
        let jobs = at_once.min(moves.calls).max(1);
        let each = (all / jobs as f64).round().max(1.0) / all * jobs as f64;
        Self {
            name,
            way,
            moves,
            calls: all * each,
            jobs,
            is_most: true,
        }
    }
}

impl Data {
    /// As one job that reads and one that writes, as fio draws which comes next and so does neither as often as it should;
    /// and others for a few large requests.
    fn jobs(&self, at_once: u64) -> Vec<Job> {
        let (mut jobs, mut few) = (Vec::new(), Vec::new());
        for (way, mut moves) in self.moves.clone().into_iter().enumerate() {
            let name = if way == 0 { "-reads" } else { "-writes" };
            let is_direct = moves.is_direct();
            for (size, n) in moves.take_few() {
                let own = Moves {
                    calls: n,
                    bytes: size.saturating_mul(n),
                    apart: 0,
                    direct: if is_direct { n } else { 0 },
                    sizes: BTreeMap::from([(size, n)]),
                };
                few.push(Job {
                    is_most: false,
                    ..Job::of(format!("{name}-{size}"), way, own, 1)
                });
            }
            if moves.calls > 0 {
                jobs.push(Job::of(name.to_owned(), way, moves, at_once));
            }
        }
        jobs.append(&mut few);
        jobs
    }
}

impl Job {
    /// How many files each process has, and how large they are: no more of them than those of the model, and no more bytes but
    /// for what requests of the largest size need.
    fn files(&self, of: &Files) -> (u64, u64) {
        let sizes = &self.moves.sizes;
        let largest = sizes.last_key_value().map_or(1, |size| *size.0);
        let bytes = if self.is_most {
            of.bytes
        } else {
            of.bytes.min(self.moves.bytes)
        };
        let of_job = (bytes / self.jobs).max(largest).max(LEAST_FILE_BYTES);
        let most = (of.number / self.jobs).clamp(1, MOST_FILES);
        let requests = if sizes.len() <= 1 { 1 } else { REQUESTS };
        let each = largest.saturating_mul(requests).min(of_job);
        let each = each.max(LEAST_FILE_BYTES).max(of_job.div_ceil(most));
        // Whole requests, so that the last one fits.
        let each = each.div_ceil(largest).saturating_mul(largest);
        (each, (of_job as f64 / each as f64).round().max(1.0) as u64)
    }

    fn write(
        &self,
        text: &mut String,
        data: &Data,
        sets: &mut Sets,
        exported: &mut BTreeMap<OpKind, f64>,
    ) {
        let (calls, jobs, moves) = (self.calls, self.jobs, &self.moves);
        let [read, written] = &data.files;
        let of = if self.way == 0 { read } else { written };
        let (file_bytes, files) = self.files(of);
        let set = sets.number(&of.classes);
        let of_set = sets.laid_out.entry(set).or_default();
        of_set.push((jobs, files, file_bytes));
        // Of the other way it does nothing.
        let unit = if moves.is_direct() { SECTOR_BYTES } else { 1 };
        let (own, other) = (split(&moves.sizes, unit), format!("{LEAST_FILE_BYTES}/100"));
        let (kind, reads_percent, sizes) = if self.way == 0 {
            (OpKind::Read, 100, format!("{own},{other}"))
        } else {
            (OpKind::Write, 0, format!("{other},{own}"))
        };
        let mut lines = vec![
            format!("numjobs={jobs}"),
            "rw=randrw".to_owned(),
            format!("rwmixread={reads_percent}"),
            format!(
                "percentage_random={:.0}",
                100.0 * moves.apart as f64 / moves.calls as f64
            ),
            format!("filename_format=files{set}.$jobnum.$filenum"),
            format!("nrfiles={files}"),
            format!("filesize={file_bytes}"),
            // It ends by their number, before that.
            format!(
                "io_size={}",
                moves
                    .bytes
                    .saturating_mul(4)
                    .max(file_bytes.saturating_mul(2))
            ),
            format!("number_ios={:.0}", calls / jobs as f64),
            format!("bssplit={sizes}"),
        ];
        // Past the page cache requests begin and end where blocks do.
        let past = if moves.is_direct() {
            "direct=1"
        } else {
            "bs_unaligned=1"
        };
        lines.push(past.to_owned());
        *exported.entry(kind).or_default() += calls;
        let is_synced = self.is_most && self.way == 1;
        let syncs = data.syncs.iter().zip(SYNCS).filter(|_| is_synced);
        for ((&syncs, kind), name) in syncs.zip(["fsync", "fdatasync"]) {
            let every = (calls / syncs as f64).round();
            if syncs > 0 {
                lines.push(format!("{name}={:.0}", every.max(1.0)));
                *exported.entry(kind).or_default() += (calls / every.max(1.0)).floor();
            }
        }
        let think_us = (data.think_ns as f64 / calls / 1000.0).round();
        if think_us >= 1.0 && self.is_most {
            lines.push(format!("thinktime={think_us:.0}us"));
        }
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
}

/// `SIZE/PERCENT:…`: each a hundredth, or a fiftieth where those are of more than 64 sizes, of the requests by its mean, like
/// ones together, rounded up to a multiple of `unit`; percents add up to a hundred.
fn split(sizes: &BTreeMap<u64, u64>, unit: u64) -> String {
    let of = |count: u64| {
        let mut shares: Vec<(u64, u64)> = Vec::new();
        for size in parts(sizes, count) {
            match shares.last_mut() {
                Some(last) if last.0 == size => last.1 += 100 / count,
                _ => shares.push((size, 100 / count)),
            }
        }
        shares
    };
    let mut shares = of(100);
    if shares.len() > MOST_SIZES {
        shares = of(50);
    }
    let whole = |size: u64| size.div_ceil(unit).saturating_mul(unit);
    let shares = shares
        .iter()
        .map(|(size, n)| format!("{}/{n}", whole(*size)));
    shares.collect::<Vec<_>>().join(":")
}
