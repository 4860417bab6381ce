//! Calls that waited for the device although such calls normally do not: told by the thread's sleep.

use std::cell::Cell;

use fsage_core::{Clock, OpenFlags, VirtualTime};

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::measurements::Slept;
use crate::sched::Sched;

/// Where a write that is made stable takes at least so long, calls that wait for the device are told
/// from the others: on a faster device the wait is the work of this machine's CPUs as much.
const SLOW_DEVICE_NS: f64 = 1e6;
/// Writes made stable of which the fastest is taken.
const STABLE_WRITES: u64 = 5;
/// A shorter call did not wait for a slow device.
const STALL_LEAST_NS: f64 = 100_000.0;

/// A moment and what a thread had of the CPUs up to it, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Awake {
    at: u64,
    cpu: u64,
    delay: u64,
}

impl Awake {
    fn now(clock: &dyn Clock, sched: &Sched) -> Self {
        Self {
            at: clock.now_ns(),
            cpu: fsage_host::thread::cpu_time_ns(),
            delay: sched.run_delay_ns(),
        }
    }

    /// Time since `before` in which it neither ran nor waited for a CPU, in nanoseconds.
    fn asleep_since(&self, before: &Awake) -> u64 {
        let ran = self.cpu.saturating_sub(before.cpu);
        let waited = self.delay.saturating_sub(before.delay);
        (self.at.saturating_sub(before.at)).saturating_sub(ran.saturating_add(waited))
    }
}

/// Tells long calls that slept from those that worked. It looks between calls, never within what is
/// timed, and on slow devices only.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// Whether calls that wait for the device are told from the others.
    pub slow_device: bool,
    last: Awake,
    /// How long the last timed call waited, where a computed clock tells it.
    pub waited_ns: Cell<u64>,
    /// Calls of the batch in progress, and how many of them waited for the device although such calls do not.
    pub held_up: (usize, usize),
}

impl Stalls {
    /// Notes that from now on the thread's sleep counts.
    pub(crate) fn look(&mut self, clock: &dyn Clock, sched: &Sched) {
        if self.slow_device {
            self.last = Awake::now(clock, sched);
        }
    }

    /// Whether the thread slept for most of a call of `ns` nanoseconds that has just ended.
    pub(crate) fn slept(&mut self, ns: f64, clock: &dyn Clock, sched: &Sched) -> bool {
        if !self.slow_device || ns < STALL_LEAST_NS {
            return false;
        }
        let now = Awake::now(clock, sched);
        let before = std::mem::replace(&mut self.last, now);
        now.asleep_since(&before) as f64 >= ns / 2.0
    }
}

/// Many calls of a batch: one of so many.
const HELD_UP: usize = 8;
/// A call that takes so long may have waited for a processor: asking costs about a microsecond.
const LONG_CALL_NS: f64 = 20_000.0;
/// How much of it may have been that: the two clocks are not read at once.
const MOST_QUEUED: f64 = 0.95;

impl Lab<'_> {
    /// What calls waited for the device so far, where a computed clock tells it.
    pub(crate) fn waited_so_far(&self) -> u64 {
        self.fs.virtual_time().map_or(0, VirtualTime::waited_ns)
    }

    /// Whether the call that took `value` waited for most of it, or where a computed clock tells it at all; nothing if it is no sample, since it was to find
    /// cached what it waited for.
    pub(crate) fn slept(&mut self, value: f64) -> Option<Slept> {
        let is_cached = matches!(self.batch, Some(Batch::Cached | Batch::Changing));
        if self.fs.virtual_time().is_some() {
            let waited = self.stalls.waited_ns.get() > 0;
            return match self.batch {
                Some(Batch::Cached) if waited => None,
                // Writers that are held up are predicted by how much is dirty (DTH), not by what each of them waits on average.
                Some(Batch::Changing | Batch::Writing) if waited => {
                    self.note_held_up(Slept::Waited);
                    None
                }
                // Nothing else took the time.
                _ => Some(Slept::Served),
            };
        }
        Some(match self.stalls.slept(value, self.clock, &self.sched) {
            true if is_cached => Slept::Stalled,
            // On another's device somebody's requests may have been before it.
            true if self.own_device => Slept::Served,
            _ => Slept::No,
        })
    }

    /// Counts a call of the batch in progress.
    pub(crate) fn note_held_up(&mut self, slept: Slept) {
        let (calls, waited) = self.stalls.held_up;
        let waits = matches!(slept, Slept::Stalled | Slept::Waited);
        self.stalls.held_up = (calls + 1, waited + usize::from(waits));
    }

    /// Writes everything back where of the last batch many calls had to wait: writers are held up from some amount of
    /// dirty data on, and what is measured then is not what such a call costs.
    pub(crate) fn settle_if_held_up(&mut self) -> Res {
        let (calls, waited) = std::mem::take(&mut self.stalls.held_up);
        if waited * HELD_UP > calls {
            return self.settle_in_time();
        }
        Ok(())
    }

    /// What of a long call that changes something was waiting for a processor, which is the machine's and not the
    /// call's, in nanoseconds.
    pub(crate) fn queued_ns(&self, ns: f64) -> f64 {
        if ns < LONG_CALL_NS || self.batch != Some(Batch::Changing) {
            return 0.0;
        }
        (self.sched.waited_ns() as f64).min(ns * MOST_QUEUED)
    }
}

/// Finds out how long the device takes to make a write stable, where it can be asked to.
///
/// In nanoseconds; `None` where it did not say.
pub(crate) fn weigh_device(lab: &mut Lab<'_>) -> Res<Option<f64>> {
    lab.afford(0)?;
    // A thread whose time is computed never sleeps.
    if lab.fs.virtual_time().is_some() {
        return Ok(None);
    }
    let path = lab.fresh("w").into_bytes();
    let handle = lab.fs.open(&path, OpenFlags::CREATE_NEW, 0o600)?;
    let mut least = f64::INFINITY;
    for turn in 0..STABLE_WRITES {
        let piece = lab.payload.get(..4096).unwrap_or_default();
        let wrote = lab.fs.pwrite(handle, piece, turn * 4096);
        if lab.spent() {
            break;
        }
        let synced = lab.timed(|| lab.fs.fsync(handle));
        match (wrote, synced) {
            (Ok(_), Ok(((), ns))) => least = least.min(ns),
            _ => break,
        }
    }
    lab.fs.close(handle)?;
    lab.fs.unlink(&path)?;
    let least = least.is_finite().then_some(least);
    lab.stalls.slow_device = least.is_some_and(|ns| ns >= SLOW_DEVICE_NS);
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_what_was_neither_run_nor_waited() {
        let at = |at, cpu, delay| Awake { at, cpu, delay };
        assert_eq!(at(1000, 300, 200).asleep_since(&at(0, 100, 100)), 700);
        // Clocks that are read one after another.
        assert_eq!(at(1000, 900, 200).asleep_since(&at(0, 0, 0)), 0);
    }
}
