//! That this process, or the machine, stood still: what was timed across it is longer than it took.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::observe::nanoseconds;

/// How often SIGCONT came, counted from [`crate::signals::install`] on.
static CONTINUED: AtomicU64 = AtomicU64::new(0);

/// Two clocks are not read at once: a machine that slept did so for longer.
const LEAST_SLEEP_NS: u64 = 10_000_000;

/// What is done when the process goes on: safe in a signal handler.
pub(crate) fn continued() {
    CONTINUED.fetch_add(1, Ordering::Relaxed);
}

/// What has stood still up to one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pauses {
    /// How often this process was told to go on (SIGCONT), as it is after it was stopped (SIGSTOP, Ctrl-Z).
    pub stops: u64,
    /// How long the machine was suspended since its boot, nanoseconds.
    pub slept_ns: u64,
}

impl Pauses {
    /// Up to now.
    pub fn now() -> Self {
        let monotonic = nanoseconds(clock_gettime(ClockId::Monotonic));
        let with_sleep = nanoseconds(clock_gettime(ClockId::Boottime));
        Self {
            stops: CONTINUED.load(Ordering::Relaxed),
            slept_ns: with_sleep.saturating_sub(monotonic),
        }
    }

    /// What stood still from an earlier moment to this one, in words; `None` for nothing.
    pub fn since(&self, before: &Self) -> Option<String> {
        let slept_ns = self.slept_ns.saturating_sub(before.slept_ns);
        match self.stops.saturating_sub(before.stops) {
            0 if slept_ns < LEAST_SLEEP_NS => None,
            0 => Some(format!(
                "the machine slept {:.1} s meanwhile: caches and devices are not as without it",
                slept_ns as f64 / 1e9
            )),
            stops => Some(stopped(stops)),
        }
    }
}

/// What is said of times in which fsage was stopped.
pub fn stopped(times: u64) -> String {
    format!(
        "fsage was continued (SIGCONT){} meanwhile: where it had been stopped (SIGSTOP, Ctrl-Z), times are longer by that",
        if times > 1 {
            format!(" {times} times")
        } else {
            String::new()
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_still_is_said() {
        let at = |stops, slept_ns| Pauses { stops, slept_ns };
        let said = |after: Pauses| after.since(&at(1, 500)).unwrap_or_default();
        assert_eq!(said(at(1, 1000)), "");
        assert!(said(at(2, 500)).starts_with("fsage was continued"));
        assert!(said(at(4, 500)).contains(" 3 times "));
        assert!(said(at(1, 2_000_000_500)).starts_with("the machine slept 2.0 s"));
        assert_eq!(Pauses::now().since(&Pauses::now()), None);
    }
}
