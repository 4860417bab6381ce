//! What an earlier snapshot knows of files that have not changed since.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::FileType;
use fsage_format::FormatError;
use fsage_format::snapshot::{Extent, SnapshotEntry, SnapshotReader, extent_flags};
use rustc_hash::FxHashMap;

/// A change within this time before the earlier snapshot may have been followed by another of the same time: times
/// are kept by ticks of the kernel's clock, on some file systems by seconds.
const TICK_NS: i64 = 2_000_000_000;

/// The files of an earlier snapshot of the same tree, by inode.
#[derive(Debug, Default)]
pub struct Previous {
    files: FxHashMap<u64, Known>,
    extents: Vec<Extent>,
    settled_ns: i64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    ctime_ns: i64,
    btime_ns: Option<i64>,
    size_bytes: u64,
    allocated_bytes: u64,
    generation: u32,
    first: usize,
    extents: u32,
}

impl Previous {
    /// Reads a snapshot to its end, or until `stop`; the root is given beside.
    pub fn read(
        reader: &mut SnapshotReader,
        stop: &AtomicBool,
    ) -> Result<(Self, Option<SnapshotEntry>), FormatError> {
        let taken_ns = i64::try_from(reader.meta().taken_unix_ns).unwrap_or(0);
        let mut previous = Self {
            settled_ns: taken_ns.saturating_sub(TICK_NS),
            ..Self::default()
        };
        let mut root = None;
        let mut batch = Vec::new();
        while !stop.load(Ordering::Relaxed) && reader.next_batch(&mut batch)? > 0 {
            for entry in batch.drain(..) {
                previous.add(&entry);
                if entry.path.is_empty() {
                    root = Some(entry);
                }
            }
        }
        Ok((previous, root))
    }

    fn add(&mut self, entry: &SnapshotEntry) {
        // Blocks that are not given yet, or not written, change without the file's times.
        let unsettled = extent_flags::UNKNOWN | extent_flags::DELALLOC | extent_flags::UNWRITTEN;
        let settled = entry.ctime_ns < self.settled_ns
            && entry.extents.iter().all(|e| e.flags & unsettled == 0);
        // Rows after the first of a file with several names have no extents.
        if !settled || matches!(entry.file_type, FileType::Symlink | FileType::Other) {
            return;
        }
        let (first, extents) = (self.extents.len(), entry.extents.len() as u32);
        self.files.entry(entry.ino).or_insert_with(|| {
            self.extents.extend_from_slice(&entry.extents);
            Known {
                ctime_ns: entry.ctime_ns,
                btime_ns: entry.btime_ns,
                size_bytes: entry.size_bytes,
                allocated_bytes: entry.allocated_bytes,
                generation: entry.generation,
                first,
                extents,
            }
        });
    }

    /// Gives a file the generation and, if they are wanted, the extents that it had, if it is the same and
    /// unchanged. Another file under the same number was born at another time; where the file system keeps no time
    /// of birth nothing is taken for granted.
    pub(super) fn fill(&self, entry: &mut SnapshotEntry, want_extents: bool) -> bool {
        let same = |known: &&Known| {
            known.btime_ns.is_some()
                && (known.ctime_ns, known.btime_ns) == (entry.ctime_ns, entry.btime_ns)
                && known.size_bytes == entry.size_bytes
                && known.allocated_bytes == entry.allocated_bytes
        };
        let Some(known) = self.files.get(&entry.ino).filter(same) else {
            return false;
        };
        let last = known.first.saturating_add(known.extents as usize);
        let extents = self.extents.get(known.first..last).unwrap_or_default();
        if want_extents && extents.is_empty() {
            return false;
        }
        entry.generation = known.generation;
        if want_extents {
            entry.extents.extend_from_slice(extents);
        }
        true
    }
}
