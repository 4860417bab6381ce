//! What a workload has left to be written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::Clock;
use fsage_host::{HostError, MonotonicClock};

use crate::target::OpenTarget;

/// How often is looked whether the wait is to end.
const LOOK: Duration = Duration::from_millis(10);

/// Writes back and says how long that took. Who asks to stop does not wait for an emulated disk: it is at full speed
/// from then on.
pub(super) fn write_back(open: &OpenTarget, stop: &AtomicBool) -> (Result<(), HostError>, u64) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_over = || over.load(Ordering::Relaxed);
            while !is_over() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
            let _full_speed = (!is_over()).then(|| open.full_speed());
            while !is_over() {
                std::thread::sleep(LOOK);
            }
        });
        let start_ns = MonotonicClock.now_ns();
        let written = open.write_back();
        let elapsed_ns = MonotonicClock.now_ns().saturating_sub(start_ns);
        over.store(true, Ordering::Relaxed);
        (written, elapsed_ns)
    })
}
