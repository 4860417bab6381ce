//! Elapsed time, and waiting: the trace's think times replayed against predicted service times.
//!
//! Before an operation a thread thinks as long as it did in the trace, then the operation takes its
//! predicted time; threads share the machine's processors and queue at its one device. What they wait
//! at the device is part of their operations' latency; what they wait for a processor is no cost of a
//! file system, and counted apart. Calls in memory are longer while others are in
//! calls of the kind, as far as the profile says how those scale. A child begins when its parent's
//! fork ends; a parent whose pause saw a child end is taken to have waited for it. A wait that the trace
//! tells to have ended by another thread ends when that one has come as far. The thesis leaves
//! all this out (Smith 2001, 4.4.5.6).
//!
//! * [`follow`]: what the trace says of its threads. [`order`]: names that keep them out. [`locking`]: what it says of
//!   locks of files, `locks`: who has them. `schedule`: the machine, `fair`: who has its processors, `kernel`: who works for a
//!   device in memory. `call`: one call. `device`: what it serves.
//!   `ahead`: what comes before somebody asks. `awaiting`: who waits for whom there. `contention`: calls at once.

mod ahead;
mod awaiting;
mod call;
mod commits;
mod contention;
mod device;
mod directories;
mod due;
mod fair;
pub mod follow;
mod kernel;
pub mod locking;
mod locks;
pub mod order;
mod pieces;
mod schedule;
mod syncing;
mod thread;
mod waiting;

use fsage_core::{Op, OpKind};

use crate::arm::Asks;
use crate::caches::Requested;
use crate::caches::View;
use crate::cost::SystemVector;
use crate::cost::ledger::Latency;
use crate::drive::Request;
use follow::Event;
use schedule::Schedule;
use thread::Item;

/// What of an operation a device is asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    request: Option<Request>,
    /// The same one by one, where a device is followed so.
    asks: Option<Box<Asks>>,
    requested: Requested,
    gives_way: bool,
}

impl Wanted {
    /// What a view found of its last operation.
    #[inline]
    pub fn of(view: Option<&View>) -> Self {
        let asks = view.map(|view| &view.asks);
        Self {
            request: view.and_then(|view| view.request),
            requested: view.map(|view| view.requested).unwrap_or_default(),
            gives_way: view.is_some_and(|view| view.gives_way),
            asks: asks
                .filter(|asks| !asks.is_empty())
                .map(|asks| Box::new(asks.clone())),
        }
    }
}

/// The replay of one target.
#[derive(Debug, Clone)]
pub struct Replay {
    schedule: Schedule,
    own_work: f64,
    /// Threads that an operation of the trace started, so far.
    started: Vec<bool>,
}

impl Replay {
    /// The replay on a system.
    pub fn new(vector: &SystemVector) -> Self {
        Self {
            schedule: Schedule::new(vector),
            own_work: vector.own_work,
            started: Vec::new(),
        }
    }

    /// Replays one operation in the directory or file `place`, in which it may change names, that is predicted to take
    /// `latency` alone and to make such a request of a drive; `charged` says whether its waiting counts.
    #[inline]
    pub(crate) fn push(
        &mut self,
        op: &Op,
        event: &Event,
        (place, changes_names): (u32, bool),
        (latency, wanted): (Latency, Wanted),
        charged: bool,
    ) {
        if let Some(child) = event.spawns {
            self.started
                .resize(self.started.len().max(child + 1), false);
            if let Some(born) = self.started.get_mut(child) {
                *born = true;
            }
        }
        let latency = self.schedule.device.asked_for(latency, op, &wanted);
        let mut awaits = event.awaits.clone();
        if let Some(awaits) = &mut awaits {
            awaits.think_ns *= self.own_work;
        }
        let locks = event.locks.as_deref();
        for &(place, number) in locks.iter().flat_map(|locks| &locks.stale) {
            self.schedule.is_stale(place, number);
        }
        let item = Item {
            kind: op.kind,
            place,
            changes_names,
            sleep_ns: event.sleep_ns as u64,
            think_ns: (event.think_ns * self.own_work) as u64,
            latency,
            request: wanted.request,
            requested: wanted.requested,
            asks: wanted.asks,
            gives_way: wanted.gives_way,
            charged,
            awaits,
            spawns: event.spawns,
            ends: event.ends,
            served_by: event.served_by,
            answered_with_last: event.answered_with_last,
            company: event.company,
            locks: locks.and_then(|locks| locks.deed.clone()).map(Box::new),
            asked_at: None,
        };
        let born = self.started.get(event.slot) == Some(&true);
        self.schedule.push(event.slot, item, born);
    }

    /// All operations were pushed.
    pub fn finish(&mut self) {
        self.schedule.finish();
    }

    /// Operations of a kind waited so many times as long as was found, for processors as many times more; after
    /// [`Self::finish`]. Waits for locks are as long as others hold them.
    pub(crate) fn scale_waits(&mut self, scale: impl Fn(OpKind) -> f64, queues: f64) {
        for &kind in OpKind::ALL {
            let dearer = scale(kind);
            let waits = if kind == OpKind::Lock { 1.0 } else { dearer };
            let all = [
                (&mut self.schedule.waits, waits),
                (&mut self.schedule.queued, dearer * queues),
            ];
            for (waits, times) in all {
                if let Some(waited_ns) = waits.get_mut(kind as usize) {
                    *waited_ns *= times;
                }
            }
        }
    }

    /// From the first operation's start to the last one's predicted end, in nanoseconds, 2^64 at the
    /// most; after [`Self::finish`].
    pub fn elapsed_ns(&self) -> f64 {
        self.schedule.end_ns as f64
    }

    /// What the operations of a kind waited for the device and for others in calls of the kind, in
    /// nanoseconds; after [`Self::finish`].
    pub fn waited_ns(&self, kind: OpKind) -> f64 {
        let waits = &self.schedule.waits;
        waits.get(kind as usize).copied().unwrap_or(0.0)
    }

    /// The same for all operations.
    pub fn waited_total_ns(&self) -> f64 {
        self.schedule.waits.iter().sum()
    }

    /// What the operations of a kind waited for a processor before they could end, in nanoseconds;
    /// after [`Self::finish`].
    pub fn queued_ns(&self, kind: OpKind) -> f64 {
        let queued = &self.schedule.queued;
        queued.get(kind as usize).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "exact by construction"
)]
mod tests {
    use super::follow::Follow;
    use super::*;
    use crate::cost::Machine;
    use fsage_core::OpFlags;
    use fsage_core::metric::MetricId;
    use fsage_core::{After, Outcome, Pause, Pid, Tid};

    struct Case {
        follow: Follow,
        replay: Replay,
    }

    impl Case {
        fn on(cpus: Option<usize>, in_memory: bool) -> Self {
            let mut vector = SystemVector::new("s", []);
            vector.machine = Machine {
                cpus,
                in_memory,
                ..Machine::default()
            };
            Self {
                follow: Follow::on(cpus),
                replay: Replay::new(&vector),
            }
        }

        /// Threads 1 and 2 begin at once; who started them is gone.
        fn two(mut self) -> Self {
            for child in [1, 2] {
                let mut fork = Op::new(OpKind::Fork, Pid(9), Tid(9), 0);
                (fork.result, fork.length) = (Outcome::ok(child), Some(child));
                self.push(&fork, 0.0, 0.0);
            }
            self.push(&Op::new(OpKind::Exit, Pid(9), Tid(9), 0), 0.0, 0.0);
            self
        }

        fn op(&mut self, tid: u32, start: u64, took: u64, memory: f64, device: f64) {
            let mut op = Op::new(OpKind::Read, Pid(tid), Tid(tid), start);
            op.latency_ns = Some(took);
            self.push(&op, memory, device);
        }

        fn push(&mut self, op: &Op, memory: f64, device: f64) {
            let latency = Latency {
                total_ns: memory + device,
                device_ns: device,
                ..Latency::default()
            };
            self.takes(op, latency);
        }

        fn takes(&mut self, op: &Op, latency: Latency) {
            self.wants(op, latency, Wanted::default());
        }

        fn wants(&mut self, op: &Op, latency: Latency, wanted: Wanted) {
            let event = self.follow.push(op);
            let place = (0, op.kind == OpKind::Mkdir);
            self.replay.push(op, &event, place, (latency, wanted), true);
        }

        /// Elapsed, waited at the device, waited for a processor.
        fn ends(mut self) -> (f64, f64, f64) {
            self.replay.finish();
            let queued = self.replay.schedule.queued.iter().sum();
            (
                self.replay.elapsed_ns(),
                self.replay.waited_total_ns(),
                queued,
            )
        }
    }

    #[test]
    fn one_thread_thinks_and_works_and_waits_for_nobody() {
        let mut case = Case::on(Some(1), false);
        case.op(1, 100, 10, 50.0, 0.0);
        case.op(1, 200, 10, 0.0, 50.0);
        case.op(1, 210, 10, 5.0, 0.0);
        // 50, think 90, 50, 5.
        assert_eq!(case.ends(), (195.0, 0.0, 0.0));
    }

    /// One thread waits for nobody: elapsed is what it thinks and what its operations take, however short
    /// beside an access of the device.
    #[test]
    fn short_needs_of_the_device_are_not_lost_at_the_end() {
        for (device, times) in [(40.0, 1), (40.0, 4), (49.0, 7), (60.0, 3)] {
            let mut case = Case::on(Some(1), false);
            let read = MetricId::parse("RFO").unwrap();
            let mut vector = SystemVector::new("s", [(read, 100.0, 100.0, 100.0)]);
            vector.machine.cpus = Some(1);
            case.replay = Replay::new(&vector);
            for start in 0..times {
                case.op(1, 100 * start, 10, 5.0, device);
            }
            let expected = 90.0 * (times - 1) as f64 + (5.0 + device) * times as f64;
            assert_eq!(case.ends().0, expected, "{times} of {device}");
        }
    }

    #[test]
    fn threads_queue_at_the_device_and_where_they_have_one_cpu() {
        let run = |cpus, memory, device| {
            let mut case = Case::on(cpus, false).two();
            case.op(1, 0, 1, memory, device);
            case.op(2, 0, 1, memory, device);
            case.ends()
        };
        assert_eq!(run(None, 100.0, 0.0), (100.0, 0.0, 0.0));
        assert_eq!(run(None, 0.0, 100.0), (200.0, 100.0, 0.0));
        // Behind the other's call nobody is in a call yet.
        assert_eq!(run(Some(1), 100.0, 0.0), (200.0, 0.0, 0.0));
        assert_eq!(run(Some(1), 0.0, 100.0), (200.0, 100.0, 0.0));
    }

    #[test]
    fn what_a_device_in_memory_does_is_done_on_the_callers_cpu() {
        let mut case = Case::on(Some(1), true).two();
        case.op(1, 0, 1, 10.0, 50.0);
        case.op(2, 0, 1, 10.0, 50.0);
        case.op(1, 5, 1, 10.0, 0.0);
        // The second asks at 20, before anybody works for the first: that takes until 63 and until it is woken at 70. The
        // worker is next, for the second; then come the first, and who wakes the second.
        let (elapsed, waited, queued) = case.ends();
        assert_eq!(elapsed, 134.0);
        assert_eq!((waited, queued), (0.0, 124.0));
    }

    #[test]
    fn who_changes_a_directory_waits_for_who_waits_for_the_device_in_it() {
        let run = |kind, cpus| {
            let mut case = Case::on(cpus, false).two();
            for (tid, device) in [(1, 100.0), (2, 0.0)] {
                let mut op = Op::new(kind, Pid(tid), Tid(tid), 0);
                op.latency_ns = Some(1);
                case.push(&op, 10.0, device);
            }
            case.ends()
        };
        assert_eq!(run(OpKind::Read, None), (110.0, 0.0, 0.0));
        assert_eq!(run(OpKind::Mkdir, None), (110.0, 100.0, 0.0));
        // The second has its processor while the first is at the device, and waits for the rest of that.
        assert_eq!(run(OpKind::Mkdir, Some(1)), (110.0, 90.0, 0.0));
    }

    #[test]
    fn what_memory_reads_ahead_is_waited_for_as_all_else() {
        let run = |in_memory, record| {
            let mut case = Case::on(Some(1), in_memory).two();
            for tid in [1, 2] {
                for start in 0..2 {
                    let mut op = Op::new(OpKind::Read, Pid(tid), Tid(tid), start);
                    (op.latency_ns, op.record) = (Some(1), record);
                    let latency = Latency {
                        total_ns: 60.0,
                        device_ns: 50.0,
                        ahead_ns: 50.0,
                        ..Latency::default()
                    };
                    case.takes(&op, latency);
                }
            }
            case.ends()
        };
        let (elapsed, waited, queued) = run(true, OpFlags(0));
        assert_eq!(elapsed, 240.0);
        assert!(queued > 60.0, "{queued}");
        assert_eq!(run(true, OpFlags::DIRECT), (elapsed, waited, queued));
        // A drive is asked for each.
        assert!(run(false, OpFlags(0)).1 > 0.0);
    }

    #[test]
    fn who_only_computes_takes_its_share_and_no_more() {
        let mut case = Case::on(Some(1), true).two();
        for read in 0..100 {
            case.op(1, 20 * read, 1, 10.0, 10_000.0);
        }
        // Work of many slices between two calls.
        case.op(2, 0, 1, 10.0, 0.0);
        case.op(2, 80_000_001, 1, 10.0, 0.0);
        let (_, _, queued) = case.ends();
        assert!((1e6..9e6).contains(&queued), "{queued}: not at each read");
    }

    #[test]
    fn who_asks_by_io_uring_goes_on_and_requests_wait_for_each_other() {
        let run = |in_memory| {
            let mut case = Case::on(Some(1), in_memory).two();
            for start in 0..4 {
                let mut op = Op::new(OpKind::Write, Pid(1), Tid(1), start);
                op.latency_ns = Some(500);
                if start < 3 {
                    op.record = OpFlags::URING;
                }
                let device = if start < 3 { 100.0 } else { 0.0 };
                case.push(&op, 10.0, device);
            }
            case.ends()
        };
        // The thread has ended after 3 + 10, when 330 are to be done, asked for at 0, 1 and 2.
        let waited = |first: f64| 3.0 * first + 0.0 + 110.0 + 220.0 - 3.0;
        assert_eq!(run(true), (343.0, waited(13.0), 0.0));
        // A drive takes writes while it is elsewhere: as if the thread itself asked.
        assert_eq!(run(false), (343.0, 0.0, 0.0));
    }

    #[test]
    fn what_a_process_asks_for_by_io_uring_is_one_operation_of_it() {
        let mut case = Case::on(Some(1), true);
        let mut thread = Op::new(OpKind::Fork, Pid(1), Tid(1), 0);
        (thread.result, thread.length) = (Outcome::ok(2), Some(1));
        case.push(&thread, 0.0, 0.0);
        let mut company = None;
        for start in 1..4 {
            let mut op = Op::new(OpKind::Write, Pid(1), Tid(1), start);
            (op.latency_ns, op.record) = (Some(500), OpFlags::URING);
            let event = case.follow.push(&op);
            company = event.company;
            let latency = Latency {
                total_ns: 110.0,
                device_ns: 100.0,
                ..Latency::default()
            };
            let wanted = (latency, Wanted::default());
            case.replay.push(&op, &event, (0, false), wanted, true);
        }
        case.replay.finish();
        let of = case.replay.schedule.threads.get(company.unwrap()).unwrap();
        assert_eq!(of.completed, 3);
    }

    #[test]
    fn who_asks_by_io_uring_keeps_as_many_requests_there_as_in_the_trace() {
        let mut case = Case::on(None, false);
        // In the trace two are there at once, each for 15.
        for start in 0..6 {
            let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), 10 * start);
            (op.latency_ns, op.record) = (Some(15), OpFlags::URING);
            case.push(&op, 0.0, 1000.0);
        }
        // Each but the first waits for at most one before it.
        let (elapsed, waited, _) = case.ends();
        assert_eq!(elapsed, 6000.0);
        assert!((4000.0..5000.0).contains(&waited), "{waited}");
    }

    #[test]
    fn what_is_asked_for_at_once_and_needs_no_device_is_answered_after_the_last() {
        let mut case = Case::on(None, false);
        for (start, took) in [(0, 30), (1, 29), (2, 28), (100, 10)] {
            let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), start);
            (op.latency_ns, op.record) = (Some(took), OpFlags::URING);
            case.push(&op, 10.0, 0.0);
        }
        // It asks for one 1 after the other.
        let (_, waited, _) = case.ends();
        assert_eq!(waited, 2.0 * 11.0 + 11.0);
    }

    #[test]
    fn what_is_read_ahead_in_memory_comes_while_a_program_works() {
        // Thread 1 reads a page, at which eight are asked for, works for so long, and comes to them.
        let run = |works: u64| {
            let mut case = Case::on(Some(1), true).two();
            let page = |came_to: u64, asks: u64| Wanted {
                requested: Requested {
                    ahead: 1,
                    came_to,
                    asks,
                    ..Requested::default()
                },
                ..Wanted::default()
            };
            let latency = Latency {
                total_ns: 11_000.0,
                device_ns: 10_000.0,
                ahead_ns: 10_000.0,
                ..Latency::default()
            };
            for (start, wanted) in [(0, page(0, 8)), (works, page(8, 0))] {
                let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), start);
                op.latency_ns = Some(0);
                case.wants(&op, latency, wanted);
            }
            case.ends()
        };
        // 1 us of its own for each, and 80 of the only processor, for which no call waits if there is time.
        assert_eq!(run(5_000_000), (5e6 + 2e3 + 80e3, 0.0, 0.0));
        assert_eq!(run(0), (82e3, 0.0, 80e3));
    }

    /// What several at once take each was measured: 250 where one alone takes 1000. To ask takes one each.
    #[test]
    fn reads_of_memory_that_are_there_at_once_take_less_each() {
        let elapsed = |measured: &[(&str, f64)]| {
            let metrics = measured.iter().map(|&(name, ns)| {
                let id = MetricId::parse(name).unwrap();
                (id, ns, ns, ns)
            });
            let mut vector = SystemVector::new("s", metrics.collect::<Vec<_>>());
            (vector.machine.cpus, vector.machine.in_memory) = (Some(1), true);
            let mut case = Case::on(Some(1), true);
            case.replay = Replay::new(&vector);
            for start in 0..4 {
                let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), start);
                (op.latency_ns, op.record) = (Some(500), OpFlags::URING);
                case.push(&op, 0.0, 1000.0);
            }
            case.ends().0
        };
        assert_eq!(elapsed(&[("RX131072", 1000.0)]), 4003.0);
        assert_eq!(elapsed(&[("RX131072", 1000.0), ("DRR", 250.0)]), 1753.0);
        // More than alone is a disturbance.
        assert_eq!(elapsed(&[("RX131072", 1000.0), ("DRR", 9e9)]), 4003.0);
    }

    /// Two requests of a thread are there at once, each of which the thread sleeps for: one waits for the other.
    #[test]
    fn who_sleeps_until_an_answer_comes_waits_for_it_alone() {
        let mut case = Case::on(Some(1), true);
        for n in 0..100_u64 {
            let mut op = Op::new(OpKind::Write, Pid(1), Tid(1), 350 * n);
            (op.latency_ns, op.record) = (Some(700), OpFlags(OpFlags::URING.0 | OpFlags::WAITS.0));
            op.pause.asleep_ns = 345;
            case.push(&op, 0.0, 1000.0);
        }
        let (_, waited, _) = case.ends();
        assert!((95_000.0..100_000.0).contains(&waited), "{waited}");
    }

    /// Two threads flush a file at once: one writes it, the other has nothing to write and waits for that.
    #[test]
    fn who_flushes_a_file_that_is_being_flushed_waits_for_it() {
        for in_memory in [false, true] {
            let mut case = Case::on(None, in_memory).two();
            for (tid, device) in [(1, 1000.0), (2, 0.0)] {
                let mut op = Op::new(OpKind::Fsync, Pid(tid), Tid(tid), 1);
                op.latency_ns = Some(1);
                case.push(&op, 10.0, device);
            }
            case.op(2, 2, 1, 10.0, 0.0);
            let (elapsed, waited, _) = case.ends();
            assert_eq!((elapsed, waited), (1021.0, 1000.0), "{in_memory}");
        }
    }

    #[test]
    fn work_between_rests_is_done_at_once_when_what_was_awaited_has_come() {
        let elapsed_ms = |took_ms: f64| {
            let mut case = Case::on(Some(2), true).two();
            case.op(1, 0, 10, 10.0, 0.0);
            case.op(2, 10, 10_000_000, took_ms * 1e6, 0.0);
            let mut next = Op::new(OpKind::Read, Pid(1), Tid(1), 10_000_010);
            (next.latency_ns, next.record) = (Some(10), OpFlags::WAITS);
            // Four milliseconds of work between nine rests; the other thread's only operation ends the last one.
            (next.pause.waited_ns, next.pause.sleeps) = (6_000_000, 9);
            next.pause.after = Some(After {
                tid: Tid(2),
                ops: 1,
                lag_ns: 0,
                rest_ns: 0,
            });
            case.push(&next, 10.0, 0.0);
            (case.ends().0 / 1e5).round() / 10.0
        };
        assert_eq!((elapsed_ms(10.0), elapsed_ms(20.0)), (10.0, 20.0));
        // One rest of 0.7 ms has begun by then.
        assert_eq!(elapsed_ms(1.0), 4.7);
    }

    #[test]
    fn what_was_not_queued_is_counted_among_the_answers() {
        let mut case = Case::on(None, false);
        // A drive takes the write while it is elsewhere; each read comes when the one before it is there.
        for start in 0..100 {
            let kind = if start == 0 {
                OpKind::Write
            } else {
                OpKind::Read
            };
            let mut op = Op::new(kind, Pid(1), Tid(1), 10 * start);
            (op.latency_ns, op.record) = (Some(5), OpFlags::URING);
            case.push(&op, 0.0, 1000.0);
        }
        let waiting = case.replay.schedule.waiting();
        assert!(waiting < 5, "{waiting} wait for an answer that came");
        let (elapsed, _, _) = case.ends();
        assert_eq!(elapsed, 100.0 * 1000.0 + 10.0);
    }

    #[test]
    fn a_wait_at_the_end_of_a_slice_is_the_calls_where_it_looks() {
        let run = |kind| {
            let mut case = Case::on(Some(1), false).two();
            for (thread, start, ns) in [(1, 0, 5e6), (2, 0, 5e6), (1, 1, 1e6), (2, 1, 1e6)] {
                let mut op = Op::new(kind, Pid(thread), Tid(thread), start);
                op.latency_ns = Some(1);
                case.push(&op, ns, 0.0);
            }
            case.ends()
        };
        // Each call of the first pair is longer than a slice; the second thread's has nobody to wait
        // for but the first one's last.
        assert_eq!(run(OpKind::Write), (12e6, 0.0, 5e6 + 1e6));
        assert_eq!(run(OpKind::Read), (12e6, 0.0, 0.25 * 6e6));
        assert_eq!(run(OpKind::Stat), (12e6, 0.0, 0.0));
    }

    #[test]
    fn a_call_that_gives_way_ends_after_who_waited_for_its_processor() {
        let queued = |gives_way| {
            let mut case = Case::on(Some(1), false).two();
            for (thread, kind) in [(1, OpKind::Close), (2, OpKind::Stat)] {
                let mut op = Op::new(kind, Pid(thread), Tid(thread), 0);
                op.latency_ns = Some(1);
                let latency = Latency {
                    total_ns: 1e5,
                    ..Latency::default()
                };
                let wanted = Wanted {
                    gives_way: gives_way && thread == 1,
                    ..Wanted::default()
                };
                case.wants(&op, latency, wanted);
            }
            case.ends()
        };
        assert_eq!(queued(false), (2e5, 0.0, 0.0));
        assert_eq!(queued(true), (2e5, 0.0, 1e5));
    }

    #[test]
    fn a_parent_waits_for_its_child() {
        let mut case = Case::on(None, false);
        let mut fork = Op::new(OpKind::Fork, Pid(1), Tid(1), 0);
        (fork.result, fork.length) = (Outcome::ok(2), Some(2));
        case.push(&fork, 0.0, 0.0);
        case.op(2, 10, 10, 0.0, 1000.0);
        let mut exit = Op::new(OpKind::Exit, Pid(2), Tid(2), 30);
        exit.length = Some(1);
        case.push(&exit, 0.0, 0.0);
        case.op(1, 35, 5, 0.0, 5.0);
        // 10 to the child's read, 1000, 10 to its exit, 5 until the parent goes on, 5.
        assert_eq!(case.ends(), (1030.0, 0.0, 0.0));
    }

    /// Thread 1 starts 2, which reads for `child` and ends at 30 of the trace; 1 goes on `pause` later.
    fn after_a_child(child: f64, pause: u64) -> f64 {
        let mut case = Case::on(None, false);
        let mut fork = Op::new(OpKind::Fork, Pid(1), Tid(1), 0);
        (fork.result, fork.length) = (Outcome::ok(2), Some(2));
        case.push(&fork, 0.0, 0.0);
        case.op(2, 10, 10, 0.0, child);
        let mut exit = Op::new(OpKind::Exit, Pid(2), Tid(2), 30);
        exit.length = Some(1);
        case.push(&exit, 0.0, 0.0);
        case.op(1, 30 + pause, 5, 0.0, 5.0);
        case.ends().0
    }

    #[test]
    fn a_pause_after_a_childs_end_is_kept_however_long() {
        for child in [1.0, 1000.0, 3e9] {
            // Work, and from 100 ms on sleep: both from the child's end on.
            for pause in [5, 99_000_000, 350_000_000, 5_000_000_000] {
                let expected = 10.0 + child + 10.0 + pause as f64 + 5.0;
                assert_eq!(after_a_child(child, pause), expected, "{child} {pause}");
            }
        }
    }

    #[test]
    fn a_thread_taken_to_sleep_still_pauses_from_its_childs_end_on() {
        let mut case = Case::on(None, false);
        let fork = |tid, child| {
            let mut fork = Op::new(OpKind::Fork, Pid(tid), Tid(tid), 0);
            (fork.result, fork.length) = (Outcome::ok(child), Some(child));
            fork
        };
        case.push(&fork(1, 2), 0.0, 0.0);
        case.push(&fork(1, 3), 0.0, 0.0);
        // Another thread does so much that the first, of which nothing is heard, is taken to sleep.
        let most = 3u64 << 16;
        for index in 0..most {
            case.op(3, 1 + index, 1, 1.0, 0.0);
        }
        let end = 1000 * most;
        let mut exit = Op::new(OpKind::Exit, Pid(2), Tid(2), end);
        exit.length = Some(1);
        case.push(&exit, 0.0, 0.0);
        case.op(1, end + 200_000_000, 5, 5.0, 0.0);
        assert_eq!(case.ends().0, (end + 200_000_000 + 5) as f64);
    }

    #[test]
    fn a_thread_without_anything_to_do_holds_nobody_up() {
        let mut case = Case::on(Some(1), false);
        case.op(1, 0, 1, 1.0, 0.0);
        let most = 3u64 << 16;
        for index in 0..most {
            case.op(2, 1 + index, 1, 1.0, 0.0);
        }
        assert!(case.replay.schedule.waiting() <= 1 << 17);
        case.op(1, most + 10, 1, 1.0, 0.0);
        let (elapsed, waited, _) = case.ends();
        assert!((elapsed - (most + 11) as f64).abs() <= 12.0, "{elapsed}");
        assert_eq!(waited, 0.0);
    }

    #[test]
    fn time_ends_and_so_does_a_replay() {
        for ns in [0.0, 1e-300, 0.3, 1e16, 1e19, 1e23, 1e30, f64::MAX] {
            for (cpus, in_memory) in [(Some(1), true), (Some(2), false), (None, false)] {
                let mut case = Case::on(cpus, in_memory).two();
                for i in 0..50 {
                    case.op(1, 20_000_000 * i, 10, ns, ns);
                    case.op(2, 20_000_000 * i + 5, 10, ns / 2.0, 0.0);
                }
                case.replay.finish();
                let steps = case.replay.schedule.steps();
                let (elapsed, waited, queued) = case.ends();
                assert!(queued.is_finite() && queued >= 0.0);
                assert!(steps < 20_000, "{steps} steps for {ns}");
                assert!(elapsed > 0.0 && elapsed <= u64::MAX as f64 && waited.is_finite());
            }
        }
    }

    #[test]
    fn years_of_work_end_at_once() {
        let mut case = Case::on(Some(1), false).two();
        let year = 31_556_952_000_000_000;
        for thread in [1, 2] {
            let mut op = Op::new(OpKind::Read, Pid(thread), Tid(thread), 10 * year);
            op.latency_ns = Some(1);
            op.record |= OpFlags::WAITS;
            case.push(&op, 1.0, 1.0);
        }
        case.replay.finish();
        assert!(case.replay.schedule.steps() < 30_000);
        assert!(case.ends().0 > 9.0 * year as f64, "all of it was work");
    }

    #[test]
    fn what_is_rounded_off_is_not_lost() {
        let mut case = Case::on(Some(1), false);
        for i in 0..1000 {
            case.op(1, 10 * i, 10, 0.3, 0.0);
        }
        assert_eq!(case.ends().0, 300.0);
    }

    impl Case {
        /// An operation of a trace that tells what its thread waited for.
        fn paused(&mut self, tid: u32, at: (u64, u64), pause: Pause, memory: f64, device: f64) {
            let mut op = Op::new(OpKind::Read, Pid(tid), Tid(tid), at.0);
            (op.latency_ns, op.record, op.pause) = (Some(at.1), OpFlags::WAITS, pause);
            self.push(&op, memory, device);
        }
    }

    fn waited(ns: u64, tid: u32, ops: u32, lag_ns: u64, rest_ns: u64) -> Pause {
        let after = After {
            tid: Tid(tid),
            ops,
            lag_ns,
            rest_ns,
        };
        Pause {
            waited_ns: ns,
            after: Some(after),
            ..Pause::default()
        }
    }

    /// Thread 1 reads every 100 ns for 10, and 1 ns later wakes 2, which works 5 and writes for 4.
    fn pipeline(read: f64, write: f64) -> f64 {
        let mut case = Case::on(None, false).two();
        for i in 0..100 {
            case.paused(1, (100 * i, 10), Pause::default(), 0.0, read);
            let slept = if i == 0 { 11 } else { 91 };
            let pause = waited(slept, 1, i as u32 + 1, 1, 5);
            case.paused(2, (100 * i + 16, 4), pause, write, 0.0);
        }
        case.ends().0
    }

    #[test]
    fn a_consumer_waits_for_its_producer() {
        assert_eq!(pipeline(10.0, 4.0), 99.0 * 100.0 + 20.0);
        assert_eq!(pipeline(1000.0, 4.0), 99.0 * 90.0 + 100.0 * 1000.0 + 10.0);
        assert_eq!(pipeline(1.0, 4.0), 99.0 * 91.0 + 11.0);
        // A consumer that is slower does not wait.
        assert_eq!(pipeline(10.0, 1000.0), 11.0 + 100.0 * 1005.0);
    }

    #[test]
    fn work_before_a_wait_goes_along_with_what_the_other_did() {
        let mut case = Case::on(Some(1), true).two();
        let asleep = Pause {
            asleep_ns: 10_000_000,
            ..Pause::default()
        };
        case.paused(1, (0, 10), Pause::default(), 10.0, 1000.0);
        case.paused(1, (10_000_010, 10), asleep, 10.0, 1000.0);
        // 4 ms of work, on what the two reads brought.
        let pause = waited(10_000_100, 1, 2, 0, 0);
        case.paused(2, (14_000_100, 10), pause, 10.0, 0.0);
        let (elapsed, waited, queued) = case.ends();
        // The first read waits for one piece of it; the other is done in the sleep.
        assert_eq!((waited, queued), (0.0, 2_000_000.0));
        assert_eq!(elapsed, 10_000_000.0 + 2_000_000.0 + 2.0 * 1010.0 + 10.0);
    }

    #[test]
    fn a_server_answers_and_waits_for_the_next_question() {
        let run = |cost| {
            let mut case = Case::on(Some(1), false);
            case.paused(1, (0, 10), Pause::default(), cost, 0.0);
            for i in 1..100 {
                // 5 of work after the call, then who asks takes 75 for the next one, 10 until the next call.
                case.paused(1, (100 * i, 10), waited(75, 1, i as u32, 80, 10), cost, 0.0);
            }
            case.ends().0
        };
        assert_eq!(run(10.0), 99.0 * 100.0 + 10.0);
        assert_eq!(run(1000.0), 100.0 * 1000.0 + 99.0 * 90.0);
    }

    #[test]
    fn sleep_keeps_its_length_and_work_is_work_however_long() {
        let run = |asleep_ns| {
            let mut case = Case::on(Some(1), false).two();
            let pause = Pause {
                asleep_ns,
                ..Pause::default()
            };
            for tid in [1, 2] {
                case.paused(tid, (200_000_000, 10), pause, 10.0, 0.0);
            }
            case.ends().0
        };
        assert_eq!(run(200_000_000), 200_000_020.0);
        assert_eq!(run(0), 400_000_020.0);
        // Waiting for a processor is the machine's.
        let mut case = Case::on(Some(1), false);
        case.paused(1, (0, 10), Pause::default(), 10.0, 0.0);
        let pause = Pause {
            ready_ns: 60,
            ..Pause::default()
        };
        case.paused(1, (110, 10), pause, 10.0, 0.0);
        assert_eq!(case.ends().0, 10.0 + 40.0 + 10.0);
    }

    #[test]
    fn who_cannot_come_is_not_waited_for() {
        for (tid, ops) in [(7, 1), (1, 2), (2, 1), (2, u32::MAX)] {
            let mut case = Case::on(None, false).two();
            case.paused(1, (0, 10), Pause::default(), 0.0, 1000.0);
            case.paused(2, (100, 10), waited(80, tid, ops, 0, 5), 1.0, 0.0);
            assert_eq!(case.ends().0, 1000.0, "{tid} {ops}");
        }
    }

    #[test]
    fn whatever_waits_a_trace_tells_everything_ends() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for round in 0..200 {
            let mut case = Case::on([Some(1), Some(2), None][round % 3], round % 2 == 0).two();
            for start in 0..200 {
                let tid = 1 + below(5) as u32;
                let mut pause = waited(
                    below(50),
                    1 + below(6) as u32,
                    below(40) as u32,
                    below(99),
                    below(99),
                );
                (pause.asleep_ns, pause.ready_ns) = (below(50), below(50));
                if below(3) == 0 {
                    pause.after = None;
                }
                case.paused(
                    tid,
                    (10 * start, below(30)),
                    pause,
                    below(100) as f64,
                    below(100) as f64,
                );
                if below(20) == 0 {
                    let mut exit = Op::new(OpKind::Exit, Pid(tid), Tid(tid), 10 * start + 5);
                    (exit.record, exit.length) = (OpFlags::WAITS, Some(1));
                    case.push(&exit, 0.0, 0.0);
                }
            }
            case.replay.finish();
            assert_eq!(case.replay.schedule.unfinished(), 0, "round {round}");
        }
    }
}
