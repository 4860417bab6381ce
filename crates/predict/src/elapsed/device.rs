//! The device that all threads share: what they ask of it, and how long it works for each request.

use fsage_cache::PAGE_BYTES;
use fsage_core::metric::{self, FamilyId};
use fsage_core::{KindClass, Op, OpFlags, OpKind};

use fsage_stats::interpolate::linear;

use super::Wanted;
use super::commits::Commits;
use super::contention::AtOnce;
use super::thread::{Item, Rest};
use super::waiting::{Line, Waiting};
use crate::arm::{Arm, Asks};
use crate::caches::Requested;
use crate::cost::SystemVector;
use crate::cost::ledger::Latency;
use crate::drive::{Drive, Figures, Found, Of, Request, access_ns};

/// How much a drive reads ahead while nobody asks, in the time of an access.
const AHEAD_ACCESSES: f64 = 1.0;

/// Requests of a kind that are there.
#[derive(Debug, Clone)]
struct Queue {
    there: usize,
    /// By how much longer the device works for one of several.
    factor: Option<AtOnce>,
}

impl Queue {
    fn of(vector: &SystemVector, series: &str) -> Self {
        Self {
            there: 0,
            factor: AtOnce::of(vector, series),
        }
    }
}

/// A request of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Asked {
    /// The part of its predicted latency that this request is.
    pub device_ns: u64,
    /// How long the arm takes to it at least, which is more where it was taken to be there.
    pub moved_ns: u64,
    /// Whether it would go on where the thread's last one ended, and another thread's came between: the
    /// device comes from elsewhere.
    pub between: bool,
    /// Whether the drive holds it: it needs no arm.
    pub held: bool,
    /// Of how many it was the nearest, and what they take on average; 0 where it did not wait.
    pub among: (usize, f64),
}

/// One device, and what waits for it.
#[derive(Debug, Clone)]
pub(super) struct Device {
    in_memory: bool,
    /// Whether threads of the kernel work for it, on the processors that all share.
    kernel_works: bool,
    /// How long one access takes it alone.
    access_ns: f64,
    /// The share of requests beside their thread's last one that find the arm elsewhere, where two threads
    /// take turns, and where more do: drives go on with one thread for a while, and read ahead.
    misses: (f64, f64),
    missed: f64,
    /// Its time for operations that seldom go there, until they have come together to an access.
    owed_ns: f64,
    /// Whose request was the last, and at which of all requests each thread's last one was.
    last: Option<usize>,
    requests: u64,
    turns: Vec<u64>,
    /// What was read ahead for each thread while nobody asked, as the time in which it was read.
    ahead_ns: Vec<f64>,
    /// What was rounded off so far.
    rest: Rest,
    pub free_at: u64,
    /// How long it has worked so far.
    pub worked_ns: f64,
    /// When it has done all requests but those of fsync's kind.
    others_done: u64,
    commits: Commits,
    others: Queue,
    waiting: Line,
    /// How many of them it serves before the next step of a commit.
    together: usize,
    /// Its requests one by one, where an arm moves and nothing is held.
    pub arm: Option<Arm>,
    /// The arm and what it read on, in predicted time.
    drive: Option<Drive>,
    /// What a read takes so far off the last one, by KiB.
    off_ns: Vec<(f64, f64)>,
    /// What a write past the page cache takes right after another one, by what it takes alone.
    in_a_row: f64,
    /// What a read past it takes that was asked for while others were there, likewise.
    at_once: f64,
}

impl Device {
    pub fn of(vector: &SystemVector) -> Self {
        Self {
            in_memory: vector.machine.in_memory,
            kernel_works: vector.machine.in_memory && vector.machine.cpus.is_some(),
            access_ns: access_ns(vector),
            misses: (
                misses(vector, "RFT2", "SC_RR_D2"),
                misses(vector, "RFT4", "SC_RR_D4"),
            ),
            missed: 0.0,
            owed_ns: 0.0,
            last: None,
            requests: 0,
            turns: Vec::new(),
            ahead_ns: Vec::new(),
            rest: Rest::default(),
            free_at: 0,
            worked_ns: 0.0,
            others_done: 0,
            commits: Commits::of(vector, access_ns(vector)),
            others: Queue::of(vector, "SC_RR_D"),
            waiting: Line::default(),
            together: 0,
            arm: Arm::of(vector),
            drive: Figures::of(vector).map(Drive::new),
            off_ns: off_ns(vector),
            in_a_row: in_a_row(vector),
            at_once: at_once(vector),
        }
    }

    /// What of an operation it is asked for. In memory all of what is much shorter than an access is the caller's own
    /// work, but for what is read ahead and what goes past the cache; of a drive it is the mean of many operations
    /// without an access and one with it.
    pub fn asked_for(&self, latency: Latency, op: &Op, wanted: &Wanted) -> Latency {
        let asks = wanted.asks.as_deref();
        if let Some(arm) = &self.arm {
            // All of a lookup in what is there is the call's own work.
            let own = asks.is_some_and(Asks::finds_names);
            let own_ns = if own { f64::MAX } else { arm.own_ns(asks) };
            return Latency {
                device_ns: (latency.device_ns - own_ns).max(0.0),
                ..latency
            };
        }
        if !self.in_memory {
            return latency;
        }
        // What has come with its inode is the call's own, and so is to cut what a close began to write: that is written
        // when it comes.
        let cuts = matches!(op.kind, OpKind::Truncate | OpKind::Ftruncate);
        let own = wanted.requested.with_inode || cuts;
        let past_cache = [OpFlags::DIRECT, OpFlags::URING];
        let past_cache = past_cache.into_iter().any(|how| op.record.contains(how));
        let long = latency.ahead_ns > 0.0 || latency.device_ns >= self.access_ns / 2.0;
        if !own && (past_cache || long) {
            return latency;
        }
        Latency {
            device_ns: 0.0,
            ..latency
        }
    }

    /// Whether threads of the kernel work for it on the processors that all share.
    pub fn kernel_works(&self) -> bool {
        self.kernel_works
    }

    /// Has a read take what the request of the kernel's takes to which it comes first, and those that find what came along
    /// nothing of that. A metric is the mean of both. In memory threads of the kernel work for the request.
    pub fn in_requests(&self, mut latency: Latency, requested: Requested) -> Latency {
        let Requested {
            ahead,
            came_to,
            along,
            ..
        } = requested;
        let more_ns = match &self.drive {
            None if !self.kernel_works => 0.0,
            None if ahead > 0 => -latency.ahead_ns,
            None => 0.0,
            Some(_) if ahead > 0 && came_to == 0 => -latency.ahead_ns,
            Some(_) if ahead > 0 => {
                let more = came_to.saturating_sub(ahead);
                latency.ahead_ns * more as f64 / ahead as f64
            }
            Some(drive) => drive.passing_ns(along.saturating_mul(PAGE_BYTES)),
        };
        latency.total_ns += more_ns;
        latency.device_ns += more_ns;
        if ahead > 0 && self.drive.is_some() {
            latency.ahead_ns += more_ns;
        }
        latency
    }

    /// For how long it reads ahead at most while nobody asks: as far as a drive does.
    pub fn reads_ahead_ns(&self) -> f64 {
        self.drive.as_ref().map_or(0.0, Drive::reads_on_ns)
    }

    /// What of a request a device in memory needs for it that comes right after another one.
    pub fn behind_others(&self, kind: OpKind) -> f64 {
        match kind {
            OpKind::Write => self.in_a_row,
            OpKind::Read => self.at_once,
            _ => 1.0,
        }
    }

    /// An operation of the only thread that does anything, from its beginning to its end.
    pub fn alone(&mut self, item: &Item, (begins, ends): (u64, u64)) {
        self.free_at = self.free_at.max(ends);
        self.worked_ns += item.latency.device_ns;
        if let Some(drive) = &mut self.drive {
            match item.request {
                Some(r) => {
                    drive.ask(r.of, (r.first, r.end), begins, ends);
                }
                None if item.latency.device_ns >= self.access_ns / 2.0 => drive.leave(ends),
                None => {}
            }
        }
    }

    /// Where a read finds its data when it comes, and what it takes at least where it was taken to find it held or under
    /// the arm: while others ask for more than the arm can bring, a drive reads nothing on.
    fn finds(
        &mut self,
        (device_ns, request): (f64, Option<Request>),
        at: u64,
    ) -> (Option<Found>, f64) {
        let now = at.max(self.free_at);
        let Some(drive) = &mut self.drive else {
            return (None, 0.0);
        };
        let Some(r) = request else {
            // Whatever else is asked for takes the arm away.
            if device_ns >= self.access_ns / 2.0 {
                drive.leave(now);
            }
            return (None, 0.0);
        };
        let distance = drive.distance(r.of, r.first, now);
        let found = drive.ask(r.of, (r.first, r.end), now, now);
        let way_ns = self.way_ns(r, found, distance);
        let moved_ns = match found {
            Found::Elsewhere if r.near => way_ns.unwrap_or(self.access_ns).min(self.access_ns),
            // What was taken to be far is farther where another thread's request has taken the arm away.
            Found::Elsewhere if r.of == Of::Data => way_ns.unwrap_or(0.0),
            Found::Held | Found::Coming(_) if r.near => way_ns.unwrap_or(0.0),
            _ => 0.0,
        };
        (Some(found), moved_ns)
    }

    /// What an operation of a thread asks; nothing where `device_ns` of the answer is 0. A mean that is
    /// much shorter than one access is that of many operations without any and one that waits: the
    /// device is asked when such needs have come together.
    pub fn ask(
        &mut self,
        slot: usize,
        (latency, request): (Latency, Option<Request>),
        at: u64,
    ) -> Asked {
        let (found, moved_ns) = self.finds((latency.device_ns, request), at);
        // A thread whose own request was the last finds the arm where it found it in the trace.
        let moved_ns = if self.others_came(slot) {
            moved_ns as u64
        } else {
            0
        };
        // What the drive holds is there whoever came between.
        let between =
            moved_ns == 0 && found != Some(Found::Held) && self.between(slot, latency.beside_ns);
        let waits = self.drive.is_some() && request.is_some_and(|request| request.waits);
        if latency.device_ns >= self.access_ns / 2.0 || between || waits {
            return Asked {
                device_ns: self.rest.whole(latency.device_ns),
                moved_ns,
                between,
                held: waits && found == Some(Found::Held) && !between,
                among: (0, 0.0),
            };
        }
        self.owed_ns += latency.device_ns;
        if self.owed_ns < self.access_ns {
            return Asked::default();
        }
        Asked {
            device_ns: self.rest.whole(std::mem::take(&mut self.owed_ns)),
            moved_ns: 0,
            between,
            held: false,
            among: (0, 0.0),
        }
    }

    /// Whether an operation needs a drive's arm, for which others may come before it.
    pub fn needs_arm(&self, item: &Item) -> bool {
        let waits = item.request.is_some_and(|request| request.waits);
        let long = item.latency.device_ns >= self.access_ns / 2.0;
        let followed = self.drive.is_some() && self.arm.is_none();
        followed && item.kind.class() != KindClass::Sync && (long || waits)
    }

    /// Has an operation wait where the arm is with others and the drive does not hold what it asks for; whether it does.
    pub fn waits(&mut self, waiting: Waiting) -> bool {
        let busy = self.others_done > waiting.since || !self.waiting.is_empty();
        let waits = busy && self.reach_ns(&waiting, waiting.since) > 0.0;
        if waits {
            self.others.there += 1;
            self.waiting.push(waiting);
        }
        waits
    }

    /// When the arm is free for who waits; `None` where nobody does.
    pub fn free_for_next(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.others_done)
    }

    /// Who is next of those that wait at `at`, of how many, and what they take on average.
    pub fn next(&mut self, at: u64) -> Option<(Waiting, (usize, f64))> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let (count, mut all_ns) = (waiting.len(), 0.0);
        let next = waiting.next(at, |w| {
            let ns = self.reach_ns(w, at);
            all_ns += ns;
            ns
        });
        self.waiting = waiting;
        self.others.there = self
            .others
            .there
            .saturating_sub(usize::from(next.is_some()));
        next.map(|next| (next, (count, all_ns / count.max(1) as f64)))
    }

    /// How long the arm takes at least to what an operation asks for; nothing where it is held.
    fn reach_ns(&mut self, waiting: &Waiting, now: u64) -> f64 {
        let Some((drive, r)) = self.drive.as_mut().zip(waiting.request) else {
            return self.access_ns;
        };
        let distance = drive.distance(r.of, r.first, now);
        let found = drive.finds(r.of, (r.first, r.end), now);
        self.way_ns(r, found, distance).unwrap_or(self.access_ns)
    }

    /// How long the arm takes to what was found so, as far from it; `None` where nobody knows how far.
    fn way_ns(&self, request: Request, found: Found, distance: Option<u64>) -> Option<f64> {
        match found {
            Found::Held => Some(0.0),
            Found::Coming(bytes) => {
                let bytes = bytes + (request.end - request.first);
                self.drive.as_ref().map(|drive| drive.passing_ns(bytes))
            }
            Found::Elsewhere => self.off_ns(distance),
        }
    }

    /// What a read so far off takes.
    fn off_ns(&self, distance: Option<u64>) -> Option<f64> {
        let most = self.off_ns.last()?.0;
        linear(&self.off_ns, (distance? as f64 / 1024.0).min(most))
    }

    /// What operations that seldom go there needed and the device was not asked for yet.
    pub fn rest_of_owed(&mut self) -> u64 {
        self.rest.whole(std::mem::take(&mut self.owed_ns))
    }

    /// Whether another thread's request came between the thread's last one and this, which lies beside
    /// it, and what was read ahead does not hold it.
    fn between(&mut self, slot: usize, beside_ns: f64) -> bool {
        if beside_ns <= 0.0 || self.in_memory || !self.others_came(slot) {
            return false;
        }
        match self.ahead_ns.get_mut(slot) {
            Some(ahead) if *ahead >= beside_ns => {
                *ahead -= beside_ns;
                false
            }
            _ => {
                let (of_two, of_more) = self.misses;
                self.missed += if self.others_since(slot) < 2 {
                    of_two
                } else {
                    of_more
                };
                let missed = self.missed >= 1.0;
                self.missed -= f64::from(u8::from(missed));
                missed
            }
        }
    }

    /// Whether the last request was another thread's that is still there.
    fn others_came(&self, slot: usize) -> bool {
        self.last.is_some_and(|last| last != slot)
    }

    /// A thread has ended: it asks for nothing between others' requests any more.
    pub fn ended(&mut self, slot: usize) {
        self.last = self.last.filter(|&last| last != slot);
    }

    /// How many other threads have asked since a thread last did.
    fn others_since(&self, slot: usize) -> usize {
        let own = self.turns.get(slot).copied().unwrap_or(0);
        self.turns.iter().filter(|&&turn| turn > own).count()
    }

    /// A thread's request arrives at `at`, and so many more of what it serves are there; returns when the device has done
    /// it, in the order of arrival among those of its kind.
    /// One commit may be what several wait for, and of several reads the nearest is next.
    pub fn serve(
        &mut self,
        slot: usize,
        kind: OpKind,
        (asked, behind): (Asked, usize),
        at: u64,
    ) -> u64 {
        let syncs = kind.class() == KindClass::Sync;
        if asked.held {
            self.others.there += usize::from(!syncs);
            return at.saturating_add(asked.device_ns);
        }
        self.takes_turn(slot, at);
        if syncs {
            let done = self.commits.sync(asked.device_ns, at, self.others_done);
            self.worked_ns += done.saturating_sub(at.max(self.free_at)) as f64;
            self.busy_until(done);
            return done;
        }
        self.others.there += 1;
        let charge = self.works_ns(asked, behind);
        self.worked_ns += charge as f64;
        let from = self.others_done.max(at);
        let begins = if self.together > 0 {
            self.together -= 1;
            Some(from)
        } else {
            let begins = self.commits.between(from, at);
            self.together = begins.map_or(0, |_| self.waiting.len());
            begins
        };
        self.others_done = begins.unwrap_or(from).saturating_add(charge);
        if begins.is_some() {
            self.commits.take(charge);
            self.busy_until(self.others_done);
            // The arm goes back to what is committed at once.
            let moves = charge as f64 >= self.access_ns / 2.0;
            if let Some(drive) = self.drive.as_mut().filter(|_| moves) {
                drive.leave(self.others_done);
            }
        } else {
            self.busy_until(self.free_at.max(at).saturating_add(charge));
        }
        self.others_done
    }

    /// How long the device works for a request. Whoever of several is nearest is so by the arm's ways, or by what passes
    /// under it next, of which the rates of several threads tell: one of them has just been answered there.
    fn works_ns(&mut self, asked: Asked, behind: usize) -> u64 {
        let (among, mean_ns) = asked.among;
        let there = match self.drive {
            Some(_) => among + 1,
            None => self.others.there,
        };
        let there = there.saturating_add(behind);
        let factor = self.others.factor.as_ref().map_or(1.0, |f| f.factor(there));
        let own = asked.device_ns.max(asked.moved_ns);
        if asked.between {
            return asked.device_ns.max((self.access_ns * factor) as u64);
        }
        if among == 0 {
            return self.rest.scaled(own, factor);
        }
        own.min((mean_ns.max(own as f64) * factor) as u64)
    }

    /// One of the requests that are followed one by one, which somebody waits for from `at` on; returns when it is done.
    pub fn serve_one(&mut self, number: u64, at: u64) -> u64 {
        let Some(arm) = &mut self.arm else {
            return at;
        };
        let done = arm.serve(number, at);
        self.others_done = self.others_done.max(done);
        self.free_at = self.free_at.max(done);
        done
    }

    /// Notes whose request comes, and what was read ahead for the one before it while nobody asked.
    fn takes_turn(&mut self, slot: usize, at: u64) {
        let rested = at.saturating_sub(self.free_at) as f64;
        self.requests += 1;
        if self.turns.len() <= slot {
            self.turns.resize(slot + 1, 0);
        }
        if let Some(turn) = self.turns.get_mut(slot) {
            *turn = self.requests;
        }
        if let Some(last) = self.last.replace(slot)
            && rested > 0.0
        {
            // About a track, and no drive reads far beyond.
            let most = AHEAD_ACCESSES * self.access_ns;
            if self.ahead_ns.len() <= last {
                self.ahead_ns.resize(last + 1, 0.0);
            }
            if let Some(ahead) = self.ahead_ns.get_mut(last) {
                *ahead = (*ahead + rested).min(most);
            }
        }
    }

    fn busy_until(&mut self, done: u64) {
        self.free_at = self.free_at.max(done);
        if let Some(arm) = &mut self.arm {
            arm.busy(self.free_at);
        }
        if let Some(drive) = &mut self.drive {
            drive.busy(self.free_at);
        }
    }

    /// A request of this kind is done.
    pub fn done(&mut self, kind: OpKind) {
        // Of a lock nothing is there.
        if kind.class() != KindClass::Sync && kind != OpKind::Lock {
            self.others.there = self.others.there.saturating_sub(1);
        }
    }

    /// Whether several at once may take less than each alone.
    pub fn gains(&self, kind: OpKind) -> bool {
        kind.class() == KindClass::Sync || self.others.factor.is_some() || self.arm.is_some()
    }
}

fn positive(vector: &SystemVector, name: &str) -> Option<f64> {
    vector.named(name).map(|e| e.value).filter(|&v| v > 0.0)
}

/// The share of a direct write of 16 KiB that one in a row takes; all, where that was not measured.
fn in_a_row(vector: &SystemVector) -> f64 {
    let value = |name| positive(vector, name);
    let alone = value("DWO4").zip(value("DWO64"));
    let alone = alone.and_then(|(small, large)| linear(&[(4.0, small), (64.0, large)], 16.0));
    let share = value("DWOR").zip(alone).map(|(row, alone)| row / alone);
    share.map_or(1.0, |share| share.min(1.0))
}

/// The share of a read of 4 KiB that one of several at once takes beyond its being asked for, which is in the trace's
/// pauses; all, where that was not measured.
fn at_once(vector: &SystemVector) -> f64 {
    let value = |name| positive(vector, name);
    let alone = value("RX131072").or_else(|| value("RX16384"));
    let share = value("DRR").zip(alone).map(|(one, alone)| one / alone);
    share.map_or(1.0, |share| share.min(1.0))
}

/// What reads take so many KiB off the last one; nothing where that was not measured.
fn off_ns(vector: &SystemVector) -> Vec<(f64, f64)> {
    let points = metric::family("RX").into_iter().flat_map(FamilyId::metrics);
    points
        .filter_map(|id| Some((f64::from(id.point()?), vector.get(id)?.value)))
        .collect()
}

/// Of reads in turns (`RFT`), the share that takes as long as reads anywhere by as many threads
/// (`SC_RR_D`); all, where that was not measured.
fn misses(vector: &SystemVector, in_turns: &str, anywhere: &str) -> f64 {
    let value = |name| positive(vector, name);
    let share = value(in_turns)
        .zip(value(anywhere))
        .map(|(turn_ns, rate)| turn_ns * rate / 1e9);
    share.unwrap_or(1.0).min(1.0)
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "exact by construction"
)]
mod tests {
    use super::*;
    use crate::drive::Of;
    use fsage_core::metric::MetricId;

    fn device(metrics: &[(&str, f64)]) -> Device {
        let all = metrics
            .iter()
            .map(|&(name, v)| (MetricId::parse(name).unwrap(), v, v, v));
        Device::of(&SystemVector::new("s", all))
    }

    fn charges(device_ns: f64, beside_ns: f64) -> Latency {
        Latency {
            total_ns: device_ns,
            device_ns,
            beside_ns,
            ahead_ns: 0.0,
        }
    }

    #[test]
    fn needs_far_below_an_access_come_together() {
        let mut device = device(&[("RFO", 100.0)]);
        let mut ask = |ns| device.ask(0, (charges(ns, 0.0), None), 0).device_ns;
        let asked: Vec<u64> = (0..5).map(|_| ask(40.0)).collect();
        assert_eq!(asked, [0, 0, 120, 0, 0]);
        assert_eq!(ask(50.0), 50);
    }

    /// A thread's next request beside its last one: whether another came between, and how long it takes.
    fn next(device: &mut Device, slot: usize) -> (bool, u64) {
        let asked = device.ask(slot, (charges(1.0, 1.0), None), 0);
        let from = device.free_at;
        if asked.device_ns > 0 {
            device.serve(slot, OpKind::Read, (asked, 0), from);
            device.done(OpKind::Read);
        }
        (asked.between, device.free_at - from)
    }

    /// Thread 1 asks for something else, so long after the device was done.
    fn elsewhere(device: &mut Device, after_ns: u64) {
        let asked = device.ask(1, (charges(100.0, 0.0), None), 0);
        device.serve(1, OpKind::Read, (asked, 0), device.free_at + after_ns);
        device.done(OpKind::Read);
    }

    #[test]
    fn what_was_read_ahead_meanwhile_costs_no_access() {
        let mut device = device(&[("RFO", 100.0)]);
        elsewhere(&mut device, 0);
        assert_eq!(next(&mut device, 0), (true, 100));
        elsewhere(&mut device, 2);
        assert_eq!(next(&mut device, 0), (false, 0));
        assert_eq!(next(&mut device, 0), (false, 0));
        assert_eq!(next(&mut device, 0), (true, 100));
    }

    #[test]
    fn another_threads_request_between_costs_an_access() {
        let mut device = device(&[("RFO", 100.0)]);
        assert_eq!(next(&mut device, 0), (false, 0));
        elsewhere(&mut device, 0);
        assert_eq!(next(&mut device, 0), (true, 100));
        // The thread's own request was the last.
        assert_eq!(next(&mut device, 0), (false, 0));
        assert_eq!(next(&mut device, 1), (true, 100));
    }

    #[test]
    fn nothing_comes_between_in_memory() {
        let mut device = device(&[("RFO", 100.0)]);
        device.in_memory = true;
        elsewhere(&mut device, 0);
        assert_eq!(next(&mut device, 0), (false, 0));
    }

    #[test]
    fn a_read_waits_for_a_step_of_a_commit_and_not_for_all() {
        let mut device = device(&[("RFO", 100.0)]);
        let asked = |device_ns: u64| {
            let asked = Asked {
                device_ns,
                ..Asked::default()
            };
            (asked, 0)
        };
        assert_eq!(device.serve(0, OpKind::Fsync, asked(500), 0), 500);
        assert_eq!(device.serve(1, OpKind::Read, asked(100), 50), 250 + 100);
        // What is left of it comes before the second read.
        assert_eq!(device.serve(2, OpKind::Read, asked(100), 60), 500 + 100);
        // What was read in between comes off nobody's work.
        assert_eq!(device.serve(3, OpKind::Fsync, asked(500), 70), 1200);
    }

    /// A drive that reads on, and a request for 4 KiB that was taken to be near.
    fn drive() -> Device {
        device(&[
            ("RFO", 5e6),
            ("RFF", 6e6),
            ("RFN", 2e5),
            ("RD1024", 2e5),
            ("RXA256", 3e5),
            ("RXA1024", 3e5),
            ("RX64", 4e5),
            ("RX1024", 4e6),
        ])
    }

    fn near(kib: u64) -> Request {
        Request {
            of: Of::Data,
            first: kib << 10,
            end: (kib + 4) << 10,
            waits: true,
            near: true,
            ahead: false,
        }
    }

    #[test]
    fn who_comes_to_a_request_first_waits_for_all_of_it() {
        let device = drive();
        let comes = |requested: Requested| {
            let ahead = requested.ahead > 0;
            let latency = Latency {
                total_ns: 120.0,
                device_ns: 100.0,
                ahead_ns: if ahead { 100.0 } else { 0.0 },
                ..Latency::default()
            };
            let latency = device.in_requests(latency, requested);
            (latency.device_ns, latency.memory_ns())
        };
        let ahead = |came_to: u64| Requested {
            ahead: 1,
            came_to,
            ..Requested::default()
        };
        // One page of eight, one of those behind it, and one that is asked for with three others.
        assert_eq!(comes(ahead(8)), (800.0, 20.0));
        assert_eq!(comes(ahead(0)), (0.0, 20.0));
        let passing_ns = 12.0 * 1e9 / 2e5;
        let asked = Requested {
            along: 3,
            ..Requested::default()
        };
        assert_eq!(comes(asked), (100.0 + passing_ns, 20.0));
    }

    fn read(device: &mut Device, slot: usize, kib: u64, at: u64) -> u64 {
        let asked = device.ask(slot, (charges(2e5, 0.0), Some(near(kib))), at);
        let done = device.serve(slot, OpKind::Read, (asked, 0), at);
        device.done(OpKind::Read);
        done - at
    }

    #[test]
    fn a_drive_that_is_asked_all_the_time_reads_nothing_on() {
        let mut device = drive();
        // A thread asked before that is still there.
        device.last = Some(9);
        assert_eq!(read(&mut device, 0, 1000, 0), 5_000_000);
        // The second thread waits for the first; 196 KiB and its own pass under the arm, 5 us each.
        assert_eq!(read(&mut device, 1, 1200, 0), 5_000_000 + 200 * 5000);
        // What passed is held; what lies before takes as long as a read so far off.
        assert_eq!(read(&mut device, 2, 1100, 0), 200_000);
        let before = read(&mut device, 2, 900, 0);
        assert!((6_400_000..10_000_000).contains(&before), "{before}");
        // After a rest of 10 ms it holds what follows, whatever it does meanwhile.
        let rested = device.free_at + 10_000_000;
        assert_eq!(read(&mut device, 0, 1500, rested), 200_000);
        read(&mut device, 1, 900_000, rested);
        assert_eq!(read(&mut device, 0, 1600, rested), 200_000);
    }

    /// Three wait in three places; by rates one of three takes half of the mean.
    #[test]
    fn a_drive_takes_the_nearest_or_what_passes_next() {
        let mut device = device(&[
            ("RFO", 5e6),
            ("RFF", 6e6),
            ("RFN", 2e5),
            ("RD1024", 2e5),
            ("RXA256", 3e5),
            ("RXA1024", 3e5),
            ("RX64", 1e6),
            ("RX1024", 4e6),
            ("RX16384", 6e6),
            ("SC_RR_D1", 100.0),
            ("SC_RR_D4", 200.0),
        ]);
        read(&mut device, 9, 100_000, 0);
        let busy_until = device.others_done;
        for (slot, kib) in [(0, 160_000), (1, 99_000), (2, 103_000)] {
            let waiting = Waiting {
                slot,
                kind: OpKind::Read,
                latency: charges(2e5, 0.0),
                request: Some(near(kib)),
                behind: 0,
                since: 1,
            };
            assert!(device.waits(waiting));
        }
        assert_eq!(device.free_for_next(), Some(busy_until));
        let mut order = Vec::new();
        while let Some((waiting, among)) = device.next(device.others_done) {
            let at = device.others_done;
            let mut asked = device.ask(waiting.slot, (waiting.latency, waiting.request), at);
            asked.among = among;
            let done = device.serve(waiting.slot, waiting.kind, (asked, 0), at);
            order.push((waiting.slot, (done - at) / 100_000));
        }
        // The ways are of 3.94, 4.26 and 6 ms, then 4.39 and 6, then 6: of three what passes next takes half of the mean, of
        // two two thirds.
        assert_eq!(order, [(1, 23), (2, 34), (0, 50)]);
    }

    #[test]
    fn what_was_far_is_farther_from_where_another_thread_has_taken_the_arm() {
        let far = |kib: u64| Request {
            near: false,
            ..near(kib)
        };
        let mut device = device(&[
            ("RFO", 5e6),
            ("RFF", 6e6),
            ("RFN", 2e5),
            ("RD1024", 2e5),
            ("RXA256", 3e5),
            ("RX16384", 5e6),
            ("RX131072", 8e6),
        ]);
        let mut read = |slot, kib| {
            let at = device.free_at;
            let asked = device.ask(slot, (charges(5e6, 0.0), Some(far(kib))), at);
            let done = device.serve(slot, OpKind::Read, (asked, 0), at);
            device.done(OpKind::Read);
            done - at
        };
        assert_eq!(read(0, 1000), 5_000_000);
        // 128 MiB and more off, of which no farther was measured; and back.
        assert_eq!(read(1, 1_000_000), 8_000_000);
        assert_eq!(read(0, 500), 8_000_000);
        // 16 MiB off as charged.
        assert_eq!(read(0, 504 + 16_384), 5_000_000);
    }

    #[test]
    fn of_threads_in_turns_as_many_miss_as_measured() {
        let mut device = device(&[("RFO", 100.0), ("RFT2", 30.0), ("SC_RR_D2", 1e7 / 0.6)]);
        let mut missed = 0;
        for _ in 0..10 {
            elsewhere(&mut device, 0);
            missed += u32::from(next(&mut device, 0).0);
        }
        assert_eq!(missed, 5);
        // Two others came between: that is not how two threads take turns.
        for slot in [2, 1] {
            let asked = device.ask(slot, (charges(100.0, 0.0), None), 0);
            device.serve(slot, OpKind::Read, (asked, 0), device.free_at);
            device.done(OpKind::Read);
        }
        assert_eq!(device.others_since(0), 2);
        assert!(next(&mut device, 0).0);
    }
}
