//! The thread that ends requests when the model says so.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fsage_core::Clock;
use fsage_format::result::disk::DiskStatistics;
use fsage_host::MonotonicClock;
use fsage_sim::{Completion, Disk, DiskModel, DiskOptions, Request, RequestKind};

use crate::statistics::Counting;

/// A sleeping thread wakes this much before the deadline and spins: longer than a timer is late.
const SPIN_NS: u64 = 60_000;

/// What is done when a request ends.
pub(crate) type End = Box<dyn FnOnce() + Send>;

/// A request on its way to the model.
struct Arrived {
    request: Request,
    at_ns: u64,
    end: End,
}

struct Inbox {
    arrived: Vec<Arrived>,
    delays: bool,
    next_id: u64,
    under_way: u64,
    counting: Counting,
}

/// A disk in real time, shared by the threads that receive requests and the one that ends them.
pub(crate) struct Pace {
    inbox: Mutex<Inbox>,
    wake: Condvar,
    model: DiskModel,
    options: DiskOptions,
}

pub(crate) fn now_ns() -> u64 {
    MonotonicClock.now_ns()
}

impl Pace {
    pub fn new(model: DiskModel, options: DiskOptions, delays: bool) -> Self {
        Self {
            inbox: Mutex::new(Inbox {
                arrived: Vec::new(),
                delays,
                next_id: 0,
                under_way: 0,
                counting: Counting::new(),
            }),
            wake: Condvar::new(),
            model,
            options,
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn size_bytes(&self) -> u64 {
        self.options.size_bytes
    }

    pub fn rotates(&self) -> bool {
        self.model.hdd.is_some()
    }

    /// A request arrived at `at_ns`, its data already moved; `end` is called when it is over.
    pub fn submit(&self, kind: RequestKind, offset: u64, length: u64, at_ns: u64, end: End) {
        let mut inbox = self.inbox();
        let which = match kind {
            RequestKind::Read => 0,
            RequestKind::Write => 1,
            RequestKind::Flush => 2,
        };
        if let Some(counts) = inbox.counting.counts.get_mut(which) {
            counts.requests += 1;
            counts.bytes += length;
        }
        if !inbox.delays {
            drop(inbox);
            end();
            return;
        }
        let id = inbox.next_id;
        inbox.next_id += 1;
        inbox.under_way += 1;
        inbox.counting.deepest = inbox.counting.deepest.max(inbox.under_way);
        inbox.arrived.push(Arrived {
            request: Request {
                id,
                kind,
                offset,
                length,
            },
            at_ns,
            end,
        });
        drop(inbox);
        self.wake.notify_one();
    }

    /// Switches the delays. Off: what is under way ends at once.
    pub fn set_delays(&self, on: bool) {
        self.inbox().delays = on;
        self.wake.notify_one();
    }

    /// Counts from zero again.
    pub fn reset(&self) {
        self.inbox().counting = Counting::new();
    }

    pub fn statistics(&self) -> DiskStatistics {
        let inbox = self.inbox();
        let [reads, writes, flushes] = inbox.counting.counts;
        DiskStatistics {
            model: self.model.name.clone(),
            scheduler: self.options.policy.to_string(),
            size_bytes: self.options.size_bytes,
            delays: inbox.delays,
            reads,
            writes,
            flushes,
            deepest_queue: inbox.counting.deepest,
            lateness: inbox.counting.lateness(),
        }
    }

    /// Ends requests when they are due, for ever.
    pub fn run(&self, disk: &mut Disk) {
        let mut ends: HashMap<u64, End> = HashMap::new();
        let mut done: Vec<Completion> = Vec::new();
        loop {
            let (arrived, delays) = self.wait(disk);
            for Arrived {
                request,
                at_ns,
                end,
            } in arrived
            {
                // The range was checked when it arrived; what is refused all the same just ends.
                match disk.submit(&request, at_ns) {
                    Ok(()) => drop(ends.insert(request.id, end)),
                    Err(_) => end(),
                }
            }
            if !delays && (!ends.is_empty() || disk.next_event().is_some()) {
                self.inbox().under_way = 0;
                for (_, end) in ends.drain() {
                    end();
                }
                if let Some(new) = Disk::new(&self.model, &self.options) {
                    *disk = new;
                }
                continue;
            }
            self.end_due(disk, &mut ends, &mut done);
        }
    }

    /// Sleeps until something has arrived or the next event is near; returns what has arrived.
    fn wait(&self, disk: &Disk) -> (Vec<Arrived>, bool) {
        let mut inbox = self.inbox();
        loop {
            let event = disk.next_event();
            let changed = !inbox.arrived.is_empty() || (!inbox.delays && event.is_some());
            if changed {
                return (std::mem::take(&mut inbox.arrived), inbox.delays);
            }
            let Some(event) = event else {
                inbox = self
                    .wake
                    .wait(inbox)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            // Only ends must be met exactly; the model's own events are worked off at their time,
            // however late.
            let spin = if event.completes { SPIN_NS } else { 0 };
            let left = event.at_ns.saturating_sub(now_ns() + spin);
            if left == 0 {
                return (Vec::new(), inbox.delays);
            }
            inbox = self
                .wake
                .wait_timeout(inbox, Duration::from_nanos(left))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Spins until the next end if it is near, then ends what is due.
    fn end_due(&self, disk: &mut Disk, ends: &mut HashMap<u64, End>, done: &mut Vec<Completion>) {
        let mut now = now_ns();
        if let Some(event) = disk.next_event().filter(|e| e.completes) {
            while now < event.at_ns && event.at_ns - now <= SPIN_NS {
                std::hint::spin_loop();
                now = now_ns();
            }
        }
        done.clear();
        disk.advance(now, done);
        if done.is_empty() {
            return;
        }
        let mut late = Vec::with_capacity(done.len());
        for completion in done.iter() {
            let Some(end) = ends.remove(&completion.id) else {
                continue;
            };
            late.push(now_ns().saturating_sub(completion.at_ns));
            end();
        }
        let mut inbox = self.inbox();
        inbox.under_way = inbox.under_way.saturating_sub(late.len() as u64);
        for late_ns in late {
            inbox.counting.late(late_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use fsage_sim::{Policy, Span, built_in};

    use super::*;

    const SIZE: u64 = 64 << 20;

    fn paced(model: &str, delays: bool) -> Arc<Pace> {
        let options = DiskOptions {
            size_bytes: SIZE,
            policy: Policy::Elevator,
            span: Span::Scaled,
        };
        let model = built_in(model).unwrap();
        let mut disk = Disk::new(&model, &options).unwrap();
        let pace = Arc::new(Pace::new(model, options, delays));
        let ticking = Arc::clone(&pace);
        std::thread::spawn(move || ticking.run(&mut disk));
        pace
    }

    #[test]
    fn requests_end_no_earlier_than_the_model_says() {
        let pace = paced("hdd-7200", true);
        let model = built_in("hdd-7200").unwrap();
        let options = pace.options;
        let mut twin = Disk::new(&model, &options).unwrap();
        let mut done = Vec::new();
        for id in 0..20 {
            let (tell, reported) = mpsc::channel();
            let (at, offset) = (now_ns(), (id * 37 % 60) << 20);
            let end = Box::new(move || tell.send(now_ns()).unwrap());
            pace.submit(RequestKind::Read, offset, 4096, at, end);
            let ended = reported.recv().unwrap();
            let request = Request {
                id,
                kind: RequestKind::Read,
                offset,
                length: 4096,
            };
            twin.submit(&request, at).unwrap();
            done.clear();
            while done.is_empty() {
                twin.advance(twin.next_event().unwrap().at_ns, &mut done);
            }
            assert!(ended >= done[0].at_ns, "{id}");
        }
        let found = pace.statistics();
        assert_eq!((found.reads.requests, found.reads.bytes), (20, 20 * 4096));
        assert!(found.lateness.p50_us <= found.lateness.p99_us);
    }

    #[test]
    fn without_delays_everything_ends_at_once_also_what_was_waiting() {
        let pace = paced("seagate-32430n", true);
        let (tell, reported) = mpsc::channel();
        // An hour's worth of work for the disk.
        for i in 0..200_000 {
            let tell = tell.clone();
            let end = Box::new(move || tell.send(()).unwrap());
            pace.submit(
                RequestKind::Read,
                i * 7919 % 16_000 * 4096,
                4096,
                now_ns(),
                end,
            );
        }
        pace.set_delays(false);
        pace.submit(
            RequestKind::Flush,
            0,
            0,
            now_ns(),
            Box::new(move || drop(tell)),
        );
        assert_eq!(reported.iter().count(), 200_000);
        assert!(!pace.statistics().delays);
    }
}
