//! Where procedures work: the target, the clock, the samples, the time left.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::metric::{FamilyId, GAPS_US, MetricId};
use fsage_core::{Clock, ColdEvidence, Errno, FileSystem, OpenFlags};

use crate::budget::{Costs, NO_TIME};
use crate::error::{Halt, Res};
use crate::measurements::Measurements;
use crate::pause::Polluter;
use crate::places::Home;
use crate::probe::{Components, Probe};
use crate::random::Random;
use crate::sched::Sched;
use crate::stall::Stalls;
use crate::watch::Pace;

/// The number of pauses, and the longest.
pub(crate) const GAPS: usize = GAPS_US.len();
pub(crate) const LONGEST: usize = GAPS - 1;
/// Empty calls after each pause of which the median is subtracted.
const EMPTY_CALLS: [usize; GAPS] = [64, 32, 24, 16, 3];
/// Of those after the longest pause, which are few, the earlier ones count too.
const EMPTY_KEPT: usize = 21;
/// Calls after the longest pause, in a quick and in a full measurement: each costs milliseconds.
const LONG_SAMPLES: (usize, usize) = (24, 120);

/// How a batch is judged when the thread did not get the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batch {
    /// The calls do not sleep: any wait for the CPU spoils them.
    Cached,
    /// The calls leave work to kernel threads: only long waits spoil them, and the mean counts, which a workload pays.
    Changing,
    /// The same for calls of which some must read from the device first: what waits for it is their own cost.
    Fetching,
    /// The calls sleep for the device: a wait that is a fourth of the batch spoils it.
    Blocking,
    /// The same for writes of what is in no cache, which wait for nothing but for what others have left to be written.
    Writing,
}

/// The least run delay that spoils a batch of cached calls.
const DELAY_LEAST_NS: u64 = 20_000;
/// The same for calls that change something: a time slice of another process.
const CHANGING_LEAST_NS: u64 = 3_000_000;
/// For how long the cost of an empty call is taken to be the same.
const BASE_AGE_NS: u64 = 200_000_000;
/// An order of more files than this visits all, each beside the one before.
pub(crate) const LONG_ORDER: usize = 700;
/// Samples that a part of a round takes even if its time is over.
const LEAST_OF_PART: usize = 24;
/// How many more rounds a short measurement may use where its time allows.
pub(crate) const QUICK_ROUNDS: usize = 3;
/// The largest payload of one call.
pub(crate) const PAYLOAD_BYTES: usize = 1 << 20;

/// The state of a running suite.
pub(crate) struct Lab<'a> {
    pub fs: &'a dyn FileSystem,
    pub clock: &'a dyn Clock,
    /// The directory on this machine that is the target's root, for calls that the target's trait does not have.
    pub host_dir: Option<PathBuf>,
    /// The name of the block device beneath in the kernel, for its kernel threads.
    pub device: Option<String>,
    /// Whether the kernel threads of that device may be moved.
    pub own_device: bool,
    /// Those that were, until the next remount.
    pub moved: Vec<fsage_host::kthread::Moved>,
    /// Whether it was made anew and nothing was done to it since.
    pub is_new: bool,
    /// The working directory, relative to the target's root, and those before it.
    pub work: String,
    pub former: Vec<String>,
    pub measurements: Measurements,
    pub random: Random,
    pub quick: bool,
    /// Incompressible bytes.
    pub payload: Vec<u8>,
    pub sched: Sched,
    pub pace: Pace,
    /// When the present procedure should end.
    pub deadline_ns: u64,
    /// When it must not begin anything any more: once it has a sample, and in any case.
    pub hard_ns: u64,
    pub last_ns: u64,
    /// Whether it has one.
    pub sampled: bool,
    /// The time for all of the measurement, where one was asked for.
    pub hurried_ns: Option<u64>,
    /// What files, write-backs and cold states take here.
    pub costs: Costs,
    /// Bytes that the calls of the present cold batch asked for.
    pub asked_bytes: u64,
    /// How fast the device read at its fastest, by its counters, and the rates that cannot be above that.
    pub device_kib_per_s: f64,
    pub cold_rates: Vec<MetricId>,
    /// Whether what the device reads was seen to be counted for the thread that asks.
    pub counted_for_thread: bool,
    /// Where the first directory's files lie, where others' lie elsewhere.
    pub home: Option<Home>,
    /// When the present part of its round should end.
    pub part_end_ns: u64,
    /// How a cold state was last reached.
    pub cold: Option<ColdEvidence>,
    /// Metrics that a procedure could not measure, with the reason.
    pub reasons: Vec<(MetricId, String)>,
    /// Every procedure that ended, how long it took and the time that it had, in nanoseconds.
    pub took_ns: Vec<(&'static str, u64, u64)>,
    /// A timed empty call, by gap: the call and the reading of the clock.
    pub base_ns: [f64; GAPS],
    /// Resolution of one cached component, back to back, which is charged after any gap: the same directory as the
    /// last, another.
    pub lookup_ns: (f64, f64),
    /// Whether commits are so short here that the pause before them counts.
    pub short_commits: bool,
    /// When that was last measured; 0: not yet.
    base_at_ns: u64,
    /// Empty calls after the longest pause.
    long_base: Vec<f64>,
    /// Makes pauses, where time has to be spent for them.
    polluter: Option<Polluter>,
    /// Set when the user asks for the end.
    pub stop: &'a AtomicBool,
    serial: u64,
    batch_start: (u64, u64),
    /// Tells calls that waited for the device.
    pub stalls: Stalls,
    /// The batch in progress.
    pub batch: Option<Batch>,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(
        fs: &'a dyn FileSystem,
        (host_dir, device): (Option<PathBuf>, Option<String>),
        work: String,
        seed: u64,
        quick: bool,
        stop: &'a AtomicBool,
    ) -> Self {
        let mut random = Random::new(seed);
        let payload = random.bytes(PAYLOAD_BYTES);
        Self {
            fs,
            clock: fs.clock(),
            host_dir,
            device,
            own_device: false,
            moved: Vec::new(),
            is_new: false,
            work,
            former: Vec::new(),
            measurements: Measurements::default(),
            random,
            quick,
            payload,
            sched: Sched::new(fs.virtual_time().is_some()),
            pace: Pace::new(fs.virtual_time().is_some()),
            deadline_ns: u64::MAX,
            hard_ns: u64::MAX,
            last_ns: u64::MAX,
            sampled: false,
            hurried_ns: None,
            costs: Costs::default(),
            asked_bytes: 0,
            device_kib_per_s: 0.0,
            cold_rates: Vec::new(),
            counted_for_thread: false,
            home: None,
            part_end_ns: u64::MAX,
            cold: None,
            reasons: Vec::new(),
            took_ns: Vec::new(),
            base_ns: [0.0; GAPS],
            base_at_ns: 0,
            long_base: Vec::new(),
            lookup_ns: (0.0, 0.0),
            short_commits: false,
            polluter: fs.virtual_time().is_none().then(Polluter::new),
            stop,
            serial: 0,
            batch_start: (0, 0),
            stalls: Stalls::default(),
            batch: None,
        }
    }

    /// A count, for quick and for full measurements.
    pub(crate) fn scale(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// A name in the working directory that was not used before.
    pub(crate) fn fresh(&mut self, tag: &str) -> String {
        self.serial += 1;
        self.is_new = false;
        format!("{}/{tag}{}", self.work, self.serial)
    }

    /// Makes a directory of that kind of name, untimed.
    pub(crate) fn fresh_dir(&mut self, tag: &str) -> Res<String> {
        let path = self.fresh(tag);
        self.fs.mkdir(path.as_bytes(), 0o755)?;
        Ok(path)
    }

    /// Whether the procedure's time is over, or the user asked for the end.
    pub(crate) fn over(&self) -> bool {
        self.stopped() || self.clock.now_ns() >= self.deadline_ns
    }

    /// Begins one of the parts that are left of a round: each may use as much of the time that is left
    /// as the others, so that on a slow disk no part takes it all.
    pub(crate) fn begin_part(&mut self, parts_left: u64) {
        let now = self.clock.now_ns();
        let left = self.deadline_ns.saturating_sub(now);
        self.part_end_ns = now.saturating_add(left / parts_left.max(1));
    }

    /// Whether a part that has so many samples has used its time; a few it takes unless the user asked for the end.
    pub(crate) fn part_over(&self, samples: usize) -> bool {
        self.stopped() || samples >= LEAST_OF_PART && self.clock.now_ns() >= self.part_end_ns
    }

    /// Whether the user asked for the end.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the procedure if the user asked for it or its time is over.
    pub(crate) fn check(&self) -> Res {
        self.afford(0)
    }

    /// Lets the time of a gap pass.
    pub(crate) fn pause(&mut self, gap: usize) {
        let us = GAPS_US.get(gap).copied().unwrap_or(0);
        match &mut self.polluter {
            Some(polluter) => polluter.pause(gap, self.clock),
            None => self.rest(Duration::from_micros(u64::from(us))),
        }
    }

    /// Lets time pass in which nothing is done.
    pub(crate) fn rest(&self, time: Duration) {
        match self.fs.virtual_time() {
            Some(computed) => computed.rest_until(self.clock.now_ns() + time.as_nanos() as u64),
            None => std::thread::sleep(time),
        }
    }

    /// Runs a call and says how long it took, clock and entry included.
    pub(crate) fn timed<T>(&self, call: impl FnOnce() -> Result<T, Errno>) -> Res<(T, f64)> {
        let before = self.waited_so_far();
        let start = self.clock.now_ns();
        let result = call();
        let end = self.clock.now_ns();
        self.stalls.waited_ns.set(self.waited_so_far() - before);
        Ok((result?, end.saturating_sub(start) as f64))
    }

    /// Pauses, runs a call and takes its time in the kernel as a sample of `probe`.
    pub(crate) fn call<T>(
        &mut self,
        probe: Probe,
        gap: usize,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Res<T> {
        self.call_path(probe, gap, Components::default(), call)
    }

    /// As [`Lab::call`] for a call that resolves components of a path on the way.
    pub(crate) fn call_path<T>(
        &mut self,
        probe: Probe,
        gap: usize,
        components: Components,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Res<T> {
        // Who waits for the end waits for no pause. What is called without one is no sample, but files are closed.
        if self.stopped() {
            return Ok(call()?);
        }
        let gap = self.afforded(probe, gap);
        self.pause(gap);
        self.call_now(probe, gap, components, call)
    }

    /// As [`Lab::call_path`] after other work that took the time of the pause already.
    pub(crate) fn call_now<T>(
        &mut self,
        probe: Probe,
        gap: usize,
        components: Components,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Res<T> {
        let (result, ns) = self.timed(call)?;
        let base = self.base_ns.get(gap).copied().unwrap_or_default() + self.queued_ns(ns);
        self.add(probe, gap, ns - base - self.resolution_ns(components));
        Ok(result)
    }

    /// The pause before a call: the longest only as often as [`LONG_SAMPLES`] says; what comes after follows at once.
    pub(crate) fn afforded(&self, probe: Probe, gap: usize) -> usize {
        match probe.id(gap) {
            _ if gap < LONGEST => gap,
            Some(id) if self.measurements.taken(id) < self.long_samples() => gap,
            _ => 0,
        }
    }

    /// How many samples are taken after the longest pause.
    pub(crate) fn long_samples(&self) -> usize {
        self.scale(LONG_SAMPLES.0, LONG_SAMPLES.1)
    }

    /// Whether a metric needs no more rounds.
    fn enough(&self, id: MetricId) -> bool {
        self.measurements.precise(id)
            || (id.gap() == LONGEST && self.measurements.count(id) >= self.long_samples() / 2)
    }

    /// What the resolution of cached components costs.
    pub(crate) fn resolution_ns(&self, components: Components) -> f64 {
        let (same, other) = self.lookup_ns;
        same * f64::from(components.same) + other * f64::from(components.other)
    }

    /// Measures again what is subtracted from every timed call: the CPU is not equally fast all the
    /// time, and a cheap call costs less than such a difference.
    pub(crate) fn weigh_empty_call(&mut self) -> Res {
        if self.base_at_ns > 0 && self.clock.now_ns() < self.base_at_ns.saturating_add(BASE_AGE_NS)
        {
            return Ok(());
        }
        for (gap, calls) in EMPTY_CALLS.into_iter().enumerate() {
            let mut samples = Vec::with_capacity(calls);
            let first = gap == LONGEST && self.long_base.is_empty();
            let calls = if first { EMPTY_KEPT / 2 } else { calls };
            for _ in 0..calls {
                self.pause(gap);
                let ((), ns) = self.timed(|| {
                    self.fs.empty_call();
                    Ok(())
                })?;
                samples.push(ns);
            }
            if gap == LONGEST {
                self.long_base.append(&mut samples);
                let old = self.long_base.len().saturating_sub(EMPTY_KEPT);
                samples = self.long_base.split_off(old);
                self.long_base.clone_from(&samples);
            }
            if let Some(base) = self.base_ns.get_mut(gap) {
                *base = fsage_stats::median(&samples);
            }
        }
        self.base_at_ns = self.clock.now_ns();
        Ok(())
    }

    /// Takes a sample.
    pub(crate) fn add(&mut self, probe: Probe, gap: usize, value: f64) {
        let Some(slept) = self.slept(value) else {
            return;
        };
        self.note_held_up(slept);
        if let Some(id) = probe.id(gap) {
            self.measurements.push(id, value, slept);
            self.divide(gap);
        }
    }

    /// Begins a batch of samples that are judged together. It is divided as it grows, so that a
    /// preemption costs few samples.
    pub(crate) fn begin(&mut self, kind: Batch) {
        self.measurements.forget();
        self.stalls.held_up = (0, 0);
        self.batch = Some(kind);
        self.batch_start = (self.clock.now_ns(), self.sched.run_delay_ns());
        self.stalls.look(self.clock, &self.sched);
    }

    /// Ends it: keeps the samples or, if the thread had to wait for the CPU, counts them as
    /// preempted. Says whether they were kept.
    pub(crate) fn end(&mut self) -> Res<bool> {
        let kind = self.batch.take().unwrap_or(Batch::Cached);
        let kept = self.judge(kind);
        self.check()?;
        Ok(kept)
    }

    /// Judges what there is of a batch that the end of the time has cut short.
    pub(crate) fn cut_short(&mut self) {
        if let Some(kind) = self.batch.take() {
            self.judge(kind);
        }
        self.measurements.forget();
    }

    fn judge(&mut self, kind: Batch) -> bool {
        let (start, delay) = self.batch_start;
        let waited = self.sched.run_delay_ns().saturating_sub(delay);
        let took = self.clock.now_ns().saturating_sub(start);
        let preempted = match kind {
            Batch::Cached => waited > DELAY_LEAST_NS.max(took / 50),
            Batch::Changing | Batch::Fetching => waited > CHANGING_LEAST_NS.max(took / 2),
            Batch::Blocking | Batch::Writing => waited > DELAY_LEAST_NS.max(took / 4),
        };
        if preempted {
            self.measurements.reject();
        } else {
            self.sampled |= self.measurements.pending() > 0;
            self.measurements
                .commit(matches!(kind, Batch::Blocking | Batch::Writing));
        }
        !preempted
    }

    /// Judges what a batch has so far once that is enough.
    fn divide(&mut self, gap: usize) {
        let Some(kind) = self.batch else { return };
        let most = match (kind, gap) {
            (Batch::Blocking | Batch::Writing, _) => 64,
            (_, 0 | 1) => 16,
            _ => 4,
        };
        if self.measurements.pending() >= most {
            self.judge(kind);
            self.batch_start = (self.clock.now_ns(), self.sched.run_delay_ns());
        }
    }

    /// Repeats `round` until every metric of `stems` is precise, the time is over, or `most` rounds
    /// are done; at least `least` rounds unless the time ran out.
    pub(crate) fn rounds(
        &mut self,
        stems: &[&str],
        (least, most): (usize, usize),
        mut round: impl FnMut(&mut Self, usize) -> Res,
    ) -> Res {
        let ids: Vec<MetricId> = stems
            .iter()
            .filter_map(|s| fsage_core::metric::family(s))
            .flat_map(FamilyId::metrics)
            .collect();
        // A short measurement has few samples in each round.
        let most = if self.quick && most > 1 {
            most * QUICK_ROUNDS
        } else {
            most
        };
        let mut stop = "runs";
        for number in 0..most {
            let done = self
                .weigh_empty_call()
                .and_then(|()| round(self, number))
                .and_then(|()| self.check());
            match done {
                // What was measured so far is kept, and what follows the rounds is done.
                Err(Halt::Time) => {
                    self.cut_short();
                    stop = "time";
                    break;
                }
                other => other?,
            }
            let measured = || ids.iter().filter(|&&id| self.measurements.count(id) > 0);
            if number + 1 >= least && measured().all(|&id| self.enough(id)) {
                break;
            }
            if self.over() {
                stop = "time";
                break;
            }
        }
        for id in ids {
            if self.measurements.count(id) > 0 {
                let precise = self.measurements.precise(id);
                self.measurements.series(id).stop = if precise { "precise" } else { stop };
            } else if stop == "time" {
                self.reasons.push((id, NO_TIME.to_owned()));
            }
        }
        Ok(())
    }

    /// Marks families whose samples far above the median are interruptions, not their own cost.
    pub(crate) fn steady(&mut self, stems: &[&str]) {
        for stem in stems {
            for id in fsage_core::metric::family(stem)
                .into_iter()
                .flat_map(FamilyId::metrics)
            {
                self.measurements.series(id).steady = true;
            }
        }
    }

    /// Says what a reader of a family's metrics should know.
    pub(crate) fn remark(&mut self, stem: &str, note: &str) {
        for id in fsage_core::metric::family(stem)
            .into_iter()
            .flat_map(FamilyId::metrics)
        {
            self.measurements.series(id).note = Some(note.to_owned());
        }
    }

    /// Sets a metric that is not the mean of samples.
    pub(crate) fn give(
        &mut self,
        probe: Probe,
        value: (f64, Option<(f64, f64)>),
        stop: &'static str,
    ) {
        if let Some(id) = probe.id(0) {
            let series = self.measurements.series(id);
            series.given = Some(value);
            series.stop = stop;
        }
    }

    /// Records why a family cannot be measured.
    pub(crate) fn absent(&mut self, stem: &str, reason: &str) {
        for id in fsage_core::metric::family(stem)
            .into_iter()
            .flat_map(FamilyId::metrics)
        {
            self.reasons.push((id, reason.to_owned()));
        }
    }

    /// Creates a file of `bytes` incompressible bytes, untimed.
    pub(crate) fn make_file(&self, path: &[u8], bytes: u64) -> Res {
        self.afford(0)?;
        let start = self.clock.now_ns();
        let handle = self.fs.open(path, OpenFlags::CREATE_NEW, 0o644)?;
        let result = self.fill(handle, 0, bytes);
        self.fs.close(handle)?;
        let took_ns = self.clock.now_ns().saturating_sub(start);
        self.costs.made(took_ns);
        result
    }

    /// Writes incompressible bytes, untimed, different ones for each megabyte.
    pub(crate) fn fill(&self, handle: fsage_core::Handle, start: u64, bytes: u64) -> Res {
        let mut at = 0;
        while at < bytes {
            self.afford(0)?;
            // The same megabyte at a different start does not compress against its neighbours
            // within a block.
            let skip = (start + at) as usize / PAYLOAD_BYTES * 512 % (PAYLOAD_BYTES / 2);
            let most = (PAYLOAD_BYTES - skip).min((bytes - at) as usize);
            let Some(piece) = self.payload.get(skip..skip + most) else {
                break;
            };
            let wrote = self.fs.pwrite(handle, piece, start + at)?;
            if wrote == 0 {
                return Err(Halt::Failed(Errno::ENOSPC));
            }
            at += wrote as u64;
        }
        Ok(())
    }

    /// Has a file's data in memory again where a small cache of a computed target may have let it go; on a real machine a
    /// look would warm the processor's caches.
    pub(crate) fn bring_back(&mut self, path: &[u8], bytes: u64) -> Res {
        if self.fs.virtual_time().is_none() {
            return Ok(());
        }
        let mut buffer = vec![0; PAYLOAD_BYTES.min(bytes as usize)];
        let fs = self.fs;
        self.with_open(path, OpenFlags::READ, |_, handle| {
            for at in (0..bytes).step_by(PAYLOAD_BYTES) {
                fs.pread(handle, &mut buffer, at)?;
            }
            Ok(())
        })
    }

    /// Runs something with an open file and closes it whatever comes.
    pub(crate) fn with_open<T>(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        body: impl FnOnce(&mut Self, fsage_core::Handle) -> Res<T>,
    ) -> Res<T> {
        self.afford(0)?;
        let handle = self.fs.open(path, flags, 0o644)?;
        let result = body(self, handle);
        self.fs.close(handle)?;
        result
    }
}
