//! A thread that looks at memory and device while a workload runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_core::{Clock, DevId, DeviceCounters};
use fsage_format::result::experiment::SystemPoint;
use fsage_host::MonotonicClock;
use fsage_host::device::BlockDevice;
use fsage_host::observe::{MemoryWatch, ReadBytes};

/// The first interval between two looks: a look takes some 20 us.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);

/// When there are this many points, every other one goes and the interval doubles.
const MOST_POINTS: usize = 256;

/// What was seen, and what seeing it cost.
#[derive(Debug, Default)]
pub struct Seen {
    /// In the order of time.
    pub points: Vec<SystemPoint>,
    /// Whose memory the points tell of.
    pub dirty_of: String,
    /// By this thread, which belongs to no workload.
    pub read: ReadBytes,
}

/// Looks until it is told to stop.
#[derive(Debug)]
pub struct Sampler {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<Seen>>,
    begun: Arc<AtomicBool>,
}

impl Sampler {
    /// Begins to look: at a device, and at the dirty pages of one, or of the machine. Without a thread to
    /// spare it sees nothing.
    pub fn start(device: Option<BlockDevice>, dirty: Option<DevId>) -> Self {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let begun = Arc::new(AtomicBool::new(false));
        let (reported, first) = (Arc::clone(&ended), Arc::clone(&begun));
        let thread = std::thread::Builder::new()
            .name("fsage-sampler".into())
            .spawn(move || look(device.as_ref(), dirty, (&reported, &first)))
            .ok();
        Self {
            ended,
            thread,
            begun,
        }
    }

    /// Whether the first look is over.
    pub fn has_begun(&self) -> bool {
        self.thread.is_none() || self.begun.load(Ordering::Acquire)
    }

    /// Ends it.
    pub fn stop(mut self) -> Seen {
        self.tell();
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_default()
    }

    fn tell(&self) {
        let (ended, bell) = &*self.ended;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        bell.notify_all();
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.tell();
    }
}

fn look(
    device: Option<&BlockDevice>,
    dirty: Option<DevId>,
    ((ended, bell), begun): (&(Mutex<bool>, Condvar), &AtomicBool),
) -> Seen {
    let watch = MemoryWatch::open(dirty);
    let first = device.and_then(BlockDevice::counters).unwrap_or_default();
    let start_ns = MonotonicClock.now_ns();
    let mut points = Vec::new();
    let mut interval = FIRST_INTERVAL;
    loop {
        points.push(point(watch.as_ref(), device, &first, start_ns));
        begun.store(true, Ordering::Release);
        if points.len() >= MOST_POINTS {
            let mut keep = false;
            points.retain(|_| {
                keep = !keep;
                keep
            });
            interval *= 2;
        }
        let guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = bell.wait_timeout_while(guard, interval, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *ended {
            break;
        }
    }
    points.push(point(watch.as_ref(), device, &first, start_ns));
    Seen {
        points,
        dirty_of: watch.map_or_else(String::new, |w| w.of().to_owned()),
        read: ReadBytes::of_thread().unwrap_or_default(),
    }
}

fn point(
    watch: Option<&MemoryWatch>,
    device: Option<&BlockDevice>,
    first: &DeviceCounters,
    start_ns: u64,
) -> SystemPoint {
    let memory = watch.and_then(MemoryWatch::read).unwrap_or_default();
    let now = device.and_then(BlockDevice::counters).unwrap_or(*first);
    SystemPoint {
        at_ns: MonotonicClock.now_ns().saturating_sub(start_ns),
        dirty_bytes: memory.dirty_bytes,
        write_back_bytes: memory.write_back_bytes,
        sectors_read: now.sectors_read.saturating_sub(first.sectors_read),
        sectors_written: now.sectors_written.saturating_sub(first.sectors_written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_it_is_stopped() {
        let sampler = Sampler::start(None, None);
        while !sampler.has_begun() {
            std::thread::yield_now();
        }
        std::thread::sleep(3 * FIRST_INTERVAL);
        let seen = sampler.stop();
        assert!(seen.points.len() >= 2, "{seen:?}");
        assert!(seen.points.is_sorted_by_key(|p| p.at_ns));
    }
}
