//! What the kernel and a drive read ahead while a program works: of that it waits for nothing.

use super::device::Device;
use super::thread::Item;
use crate::cost::ledger::Latency;

/// How a thread reads on in files.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ahead {
    /// When its last such read ended, and what the device had worked by then.
    since: u64,
    worked_ns: f64,
    /// For how long the device had read ahead by then and nothing came of it yet.
    left_ns: f64,
}

impl Ahead {
    /// What of an operation at `at` has come already.
    pub fn came_ns(&mut self, item: &Item, at: u64, device: &Device) -> f64 {
        if item.is_ahead() {
            self.read_at(item.latency, at, device.worked_ns, device.reads_ahead_ns())
        } else {
            0.0
        }
    }

    /// How much of a read at `at` has come already, where the device has worked for `worked_ns` and reads ahead for at
    /// most `most_ns`: what was idle since the last one.
    fn read_at(&mut self, latency: Latency, at: u64, worked_ns: f64, most_ns: f64) -> f64 {
        let passed = at.saturating_sub(self.since) as f64;
        let idle = (passed - (worked_ns - self.worked_ns)).max(0.0);
        let ahead = (self.left_ns + idle).min(most_ns);
        let came = latency.ahead_ns.min(latency.device_ns).min(ahead).max(0.0);
        self.left_ns = ahead - came;
        came
    }

    /// The read ended at `at`.
    pub fn ends(&mut self, at: u64, worked_ns: f64) {
        (self.since, self.worked_ns) = (at, worked_ns);
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn what_came_while_a_program_worked_is_not_waited_for() {
        let read = Latency {
            total_ns: 110.0,
            device_ns: 100.0,
            ahead_ns: 100.0,
            ..Latency::default()
        };
        let mut ahead = Ahead::default();
        ahead.ends(1000, 500.0);
        // It worked for 30 of which the device had 10 for others.
        assert_eq!(ahead.read_at(read, 1030, 510.0, 1000.0), 20.0);
        ahead.ends(1120, 600.0);
        // More came than is read; the rest is there for the next.
        assert_eq!(ahead.read_at(read, 1270, 600.0, 1000.0), 100.0);
        ahead.ends(1280, 600.0);
        assert_eq!(ahead.read_at(read, 1290, 600.0, 1000.0), 60.0);
        // No drive reads ahead for ever.
        ahead.ends(1300, 600.0);
        assert_eq!(ahead.read_at(read, 9000, 600.0, 80.0), 80.0);
    }
}
