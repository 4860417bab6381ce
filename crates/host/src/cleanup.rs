//! What must be undone, whoever ends the process.
//!
//! Each piece registers how it is undone; the last registered is undone first. A guard undoes its
//! piece on drop (return, error, panic); the signal thread undoes all of them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Undo = Box<dyn FnOnce() + Send>;

struct Registry {
    next: u64,
    undo: BTreeMap<u64, Undo>,
    /// Pieces that some thread is undoing now.
    running: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    undo: BTreeMap::new(),
    running: 0,
});

/// Told when a piece is undone.
static UNDONE: Condvar = Condvar::new();

/// How long the end of the process waits for what other threads are undoing.
const PATIENCE: Duration = Duration::from_secs(30);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Undoes its piece once, on drop at the latest.
#[derive(Debug)]
#[must_use = "what was registered is undone when this is dropped"]
pub struct Cleanup {
    id: u64,
}

/// Registers how something is undone.
pub fn register(undo: impl FnOnce() + Send + 'static) -> Cleanup {
    let mut registry = registry();
    let id = registry.next;
    registry.next += 1;
    registry.undo.insert(id, Box::new(undo));
    Cleanup { id }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        undo(|registry| registry.undo.remove(&self.id));
    }
}

/// Undoes what `take` takes out; whether there was something. The lock is not held meanwhile.
fn undo(take: impl FnOnce(&mut Registry) -> Option<Undo>) -> bool {
    let mut taken = registry();
    let Some(piece) = take(&mut taken) else {
        return false;
    };
    taken.running += 1;
    drop(taken);
    let _done = Done;
    piece();
    true
}

/// Counts a piece as undone, even if that panicked.
struct Done;

impl Drop for Done {
    fn drop(&mut self) {
        registry().running -= 1;
        UNDONE.notify_all();
    }
}

/// Undoes everything that is registered, the newest first, and waits for what other threads are
/// undoing. For the end of the process.
pub fn run_all() {
    while undo(|registry| registry.undo.pop_last().map(|(_, piece)| piece)) {}
    // A poisoned lock ends the wait: nobody will tell.
    drop(UNDONE.wait_timeout_while(registry(), PATIENCE, |registry| registry.running > 0));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn undone_once_on_drop_and_on_panic() {
        let count = Arc::new(AtomicU32::new(0));
        let add = |count: &Arc<AtomicU32>| {
            let count = Arc::clone(count);
            register(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        };
        drop(add(&count));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let guard = add(&count);
        let panicked = std::thread::spawn(move || {
            let _guard = guard;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.join().is_err());
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
