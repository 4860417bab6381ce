//! Files that are being made stable: who asks for that too waits for what is under way, though it finds nothing to write.

use fsage_core::{KindClass, OpKind};

use super::thread::Item;

/// Such files, and until when.
#[derive(Debug, Clone, Default)]
pub(super) struct Syncing(Vec<(u32, u64)>);

impl Syncing {
    /// Until when the file that an operation at `at` is to make stable is made stable by somebody else; `at`, where it is
    /// not, or the operation is another.
    pub fn until(&self, item: &Item, at: u64) -> u64 {
        if item.kind.class() != KindClass::Sync {
            return at;
        }
        let mut same = self.0.iter().filter(|file| file.0 == item.place);
        same.next().map_or(at, |file| file.1.max(at))
    }

    /// An operation on such a place that came at `at` ends at `until`, as far as is known by then.
    pub fn note(&mut self, (kind, place): (OpKind, u32), at: u64, until: u64) {
        if kind.class() != KindClass::Sync || place == u32::MAX {
            return;
        }
        self.0.retain(|file| file.1 > at && file.0 != place);
        self.0.push((place, until));
    }
}
