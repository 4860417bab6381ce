//! What a workload has left to be written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::{Clock, Target, TargetError};

/// How often is looked whether the wait is to end.
const LOOK: Duration = Duration::from_millis(10);

/// Writes back and says how long that took on the target's clock. Who asks to stop does not wait for an emulated
/// disk: it is at full speed from then on.
pub(super) fn write_back(
    open: &dyn Target,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> (Result<(), TargetError>, u64) {
    let timed = || {
        let start_ns = clock.now_ns();
        let written = open.write_back();
        (written, clock.now_ns().saturating_sub(start_ns))
    };
    // Without a device that can hurry there is nothing to watch for.
    if open.host_dir().is_none() {
        return timed();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = || {
            let is_over = || over.load(Ordering::Relaxed);
            while !is_over() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
            let _full_speed = (!is_over()).then(|| open.full_speed());
            while !is_over() {
                std::thread::sleep(LOOK);
            }
        };
        // Without a thread to watch, who asks to stop waits for the disk.
        let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
        let done = timed();
        over.store(true, Ordering::Relaxed);
        done
    })
}
