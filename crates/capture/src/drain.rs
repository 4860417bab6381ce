//! How long a capture that was asked to end goes on.
//!
//! First the command gets its patience, then what was seen and waits becomes operations. However slow that is, a
//! signal ends it: what is not done in time is counted as lost, and the trace says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::CaptureError;
use crate::assemble::Assembler;
use crate::raw::RawEvent;
use crate::session::now;
use crate::start::Running;

/// For what waits when a capture is ended: enough for all the memory that it may fill, on a slow machine.
const OF_AN_END: Duration = Duration::from_secs(30);
/// For what waits when the command has ended by itself: whoever asks then asks for nothing but this.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Whether and when a capture was asked to end.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    stop: &'a AtomicBool,
    patience_ns: u64,
    /// When, and whether the command had ended before.
    asked: Option<(u64, bool)>,
    left: u64,
}

impl<'a> Drain<'a> {
    /// A command that is asked to end gets `patience`.
    pub(crate) fn new(stop: &'a AtomicBool, patience: Duration) -> Self {
        Self {
            stop,
            patience_ns: nanoseconds(patience),
            asked: None,
            left: 0,
        }
    }

    /// What was seen and left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    fn asked(&mut self, now_ns: u64, ended: bool) -> Option<(u64, bool)> {
        if self.asked.is_none() && self.stop.load(Ordering::Relaxed) {
            self.asked = Some((now_ns, ended));
        }
        self.asked
    }

    /// Whether it is to be ended.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let asked = self.asked(now_ns, false);
        asked.is_some_and(|(at_ns, _)| now_ns.saturating_sub(at_ns) >= self.patience_ns)
    }

    /// Whether what still waits is left.
    fn is_over(&mut self, now_ns: impl FnOnce() -> u64, ended: bool) -> bool {
        if self.asked.is_none() && !self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let now_ns = now_ns();
        self.asked(now_ns, ended).is_some_and(|(at_ns, ended)| {
            let most_ns = if ended {
                nanoseconds(AFTER_THE_END)
            } else {
                self.patience_ns.saturating_add(nanoseconds(OF_AN_END))
            };
            now_ns.saturating_sub(at_ns) >= most_ns
        })
    }

    /// Takes what was seen, as long as there is time; `false` once there will be no more.
    pub(crate) fn poll(
        &mut self,
        running: &mut Running,
        assembler: &mut Assembler,
    ) -> Result<bool, CaptureError> {
        let ended = running.exit_status().is_some() && !running.outlives_command();
        let mut left = 0;
        let more = running.poll(&mut |event| {
            let is_loss = matches!(event, RawEvent::Lost { .. });
            if is_loss || !self.is_over(|| now().0, ended) {
                assembler.take(event);
            } else {
                left += u64::from(is_operation(&event));
            }
        })?;
        self.left += left;
        if left > 0 {
            assembler.take(RawEvent::Lost {
                count: left,
                of_32_bit: 0,
            });
        }
        Ok(more)
    }
}

fn is_operation(event: &RawEvent) -> bool {
    !matches!(
        event,
        RawEvent::Wake { .. } | RawEvent::Away { .. } | RawEvent::Exec { .. } | RawEvent::Moved
    )
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_waits_has_a_bounded_time_once_a_signal_came() {
        let stop = AtomicBool::new(false);
        let mut drain = Drain::new(&stop, Duration::from_secs(2));
        assert!(!drain.is_due(1000 * SECOND));
        assert!(!drain.is_over(|| 1000 * SECOND, false));
        stop.store(true, Ordering::Relaxed);
        assert!(!drain.is_due(1000 * SECOND));
        assert!(!drain.is_due(1001 * SECOND));
        assert!(drain.is_due(1002 * SECOND));
        // That the command has ended meanwhile is what was asked for.
        assert!(!drain.is_over(|| 1031 * SECOND, true));
        assert!(drain.is_over(|| 1032 * SECOND, true));
    }

    #[test]
    fn a_signal_after_the_commands_end_is_meant_for_what_waits() {
        let stop = AtomicBool::new(true);
        let mut drain = Drain::new(&stop, Duration::from_secs(2));
        assert!(!drain.is_over(|| SECOND, true));
        assert!(drain.is_over(|| 2 * SECOND, true));
    }
}
