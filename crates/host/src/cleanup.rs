//! What must be undone, whoever ends the process.
//!
//! Each piece registers how it is undone; the last registered is undone first. A guard undoes its
//! piece on drop (return, error, panic); the signal thread undoes all of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Undo = Box<dyn FnOnce() + Send>;

struct Registry {
    next: u64,
    undo: BTreeMap<u64, Undo>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    undo: BTreeMap::new(),
});

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
        // Taken out first: the lock is not held while it runs.
        let undo = registry().undo.remove(&self.id);
        if let Some(undo) = undo {
            undo();
        }
    }
}

/// Undoes everything that is registered, the newest first. For the end of the process.
pub fn run_all() {
    loop {
        let Some((_, undo)) = registry().undo.pop_last() else {
            return;
        };
        undo();
    }
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
