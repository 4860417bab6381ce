//! Directories in which a name is being made: who makes or removes one there too waits until that has ended.
//!
//! Linux holds the directory's lock (`i_rwsem`) from the look for the name to the end of the call, and so for as long as the
//! device is waited for: eight threads that make one directory in a cold place wait for what the first one reads.

use std::collections::VecDeque;

use fsage_core::OpKind;

use super::thread::Item;

/// Who holds a directory, and who waits for it, the first to come first.
#[derive(Debug, Clone)]
struct Held {
    place: u32,
    by: usize,
    waiting: VecDeque<usize>,
}

/// Those that are held while the device is waited for: few at once.
#[derive(Debug, Clone, Default)]
pub(super) struct Directories(Vec<Held>);

impl Directories {
    /// A thread is to change names; whether nobody is in its way. It holds the directory if it waits for the device itself.
    pub fn enter(&mut self, slot: usize, item: &Item) -> bool {
        if !item.changes_names || item.place == u32::MAX {
            return true;
        }
        if let Some(held) = self.0.iter_mut().find(|held| held.place == item.place) {
            if held.by != slot {
                held.waiting.push_back(slot);
            }
            return held.by == slot;
        }
        // What a file held is given back when its name is gone and its directory free.
        let removes = matches!(item.kind, OpKind::Unlink | OpKind::Rmdir);
        if item.latency.device_ns > 0.0 && !removes {
            self.0.push(Held {
                place: item.place,
                by: slot,
                waiting: VecDeque::new(),
            });
        }
        true
    }

    /// A thread's operation has ended; who has its directory now, and waited for it.
    pub fn leave(&mut self, slot: usize, item: &Item) -> Option<usize> {
        if !item.changes_names || self.0.is_empty() {
            return None;
        }
        let here = |held: &Held| held.place == item.place && held.by == slot;
        let number = self.0.iter().position(here)?;
        let held = self.0.get_mut(number)?;
        if let Some(next) = held.waiting.pop_front() {
            held.by = next;
            Some(next)
        } else {
            self.0.swap_remove(number);
            None
        }
    }
}
