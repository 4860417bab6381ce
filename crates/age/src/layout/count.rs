//! Counts how files lie, one after the other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use fsage_core::FileType;
use fsage_format::result::layout::{
    ExtentsClass, FileLayout, Layout, Score, SizeClass, SplitFiles, UnknownFiles,
};
use fsage_format::snapshot::{BlockGroups, Extent, SnapshotEntry, extent_flags, runs};
use rustc_hash::FxHashSet;

/// Where a block size is not told.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// Sums up a tree entry by entry.
#[derive(Debug)]
pub(super) struct Counter {
    layout: Layout,
    optimal: u64,
    counted: u64,
    pub groups: Option<BlockGroups>,
    split: SplitFiles,
    /// By the power of two of blocks.
    sizes: BTreeMap<u32, SizeClass>,
    extents: BTreeMap<u32, u64>,
    /// Files of several names that were counted.
    linked: FxHashSet<u64>,
    /// The one with fewest extents on top.
    worst: BinaryHeap<Reverse<Fragmented>>,
    worst_kept: usize,
}

/// A file's extents, path, size and blocks; of as many extents the first path counts as most.
type Fragmented = (u64, Reverse<Vec<u8>>, u64, u64);

/// How the blocks of one file lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lie {
    pub blocks: u64,
    /// Runs of blocks that are contiguous on the device.
    pub runs: u64,
}

impl Lie {
    fn counted(self) -> u64 {
        self.blocks.saturating_sub(1)
    }

    fn optimal(self) -> u64 {
        self.blocks.saturating_sub(self.runs)
    }
}

/// How the blocks of a file lie as far as it reaches; `None` where an extent has no address that means anything.
pub(super) fn lie(extents: &[Extent], size_bytes: u64, block_bytes: u64) -> Option<Lie> {
    let runs = runs(extents, size_bytes)?;
    let of = |extent: &Extent| {
        let room = size_bytes.saturating_sub(extent.logical_bytes);
        extent.length_bytes.min(room).div_ceil(block_bytes)
    };
    let blocks = extents.iter().map(of).fold(0, u64::saturating_add);
    Some(Lie { blocks, runs })
}

impl Counter {
    pub fn new(block_bytes: u64, worst: usize) -> Self {
        let block_bytes = if block_bytes == 0 {
            USUAL_BLOCK_BYTES
        } else {
            block_bytes
        };
        Self {
            layout: Layout {
                block_bytes,
                ..Layout::default()
            },
            optimal: 0,
            counted: 0,
            groups: None,
            split: SplitFiles::default(),
            sizes: BTreeMap::new(),
            extents: BTreeMap::new(),
            linked: FxHashSet::default(),
            worst: BinaryHeap::new(),
            worst_kept: worst,
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &SnapshotEntry) {
        if entry.file_type != FileType::Regular
            || (entry.links > 1 && !self.linked.insert(entry.ino))
        {
            return;
        }
        self.layout.files += 1;
        if entry.extents.is_empty() {
            if entry.allocated_bytes == 0 || entry.size_bytes == 0 {
                self.layout.files_empty += 1;
            } else {
                self.layout.unknown.not_told += 1;
            }
            return;
        }
        match lie(&entry.extents, entry.size_bytes, self.layout.block_bytes) {
            None => count_unknown(&mut self.layout.unknown, &entry.extents),
            // All that is allocated lies behind its end.
            Some(lie) if lie.blocks == 0 => self.layout.files_empty += 1,
            Some(lie) => self.placed(entry, lie),
        }
    }

    fn placed(&mut self, entry: &SnapshotEntry, lie: Lie) {
        let layout = &mut self.layout;
        layout.files_placed += 1;
        layout.blocks = layout.blocks.saturating_add(lie.blocks);
        layout.extents += lie.runs;
        self.counted = self.counted.saturating_add(lie.counted());
        self.optimal = self.optimal.saturating_add(lie.optimal());
        let class = power(entry.size_bytes.div_ceil(layout.block_bytes));
        let of_size = self.sizes.entry(class).or_insert_with(|| SizeClass {
            up_to_bytes: layout.block_bytes.saturating_mul(1 << class.min(63)),
            ..SizeClass::default()
        });
        of_size.files += 1;
        of_size.extents += lie.runs;
        let before = of_size.score.unwrap_or_default();
        of_size.score = Score::of(
            before.counted_blocks.saturating_add(lie.counted()),
            before.optimal_blocks.saturating_add(lie.optimal()),
        );
        *self.extents.entry(power(lie.runs)).or_default() += 1;
        if let Some(groups) = &self.groups
            && let Some(first) = entry.extents.first()
        {
            let first = first.physical_bytes / layout.block_bytes;
            self.split.files += 1;
            self.split.split += u64::from(groups.of_ino(entry.ino) != groups.of_block(first));
        }
        if self.worst_kept > 0 {
            let path = Reverse(entry.path.clone());
            let kept = (lie.runs, path, entry.size_bytes, lie.blocks);
            self.worst.push(Reverse(kept));
            if self.worst.len() > self.worst_kept {
                self.worst.pop();
            }
        }
    }

    /// Everything that was added, of a file system of that type.
    pub fn finish(self, file_system: &str) -> Layout {
        let mut layout = self.layout;
        layout.file_system = file_system.into();
        layout.score = Score::of(self.counted, self.optimal);
        layout.by_size = self.sizes.into_values().collect();
        let by_extents = self.extents.into_iter().map(|(power, files)| ExtentsClass {
            up_to: 1 << power.min(63),
            files,
        });
        layout.by_extents = by_extents.collect();
        layout.split = self.groups.map(|_| self.split);
        if layout.split.is_none() {
            layout.split_unknown = Some(if file_system.starts_with("ext") {
                "its superblock was not read".to_owned()
            } else {
                format!("{} has no block groups", named(file_system))
            });
        }
        let worst = self
            .worst
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(one)| {
                let (extents, Reverse(path), size_bytes, blocks) = one;
                FileLayout {
                    path: String::from_utf8_lossy(&path).into_owned(),
                    size_bytes,
                    blocks,
                    extents,
                    score: Score::of(blocks.saturating_sub(1), blocks.saturating_sub(extents)),
                }
            });
        layout.worst = worst.collect();
        if file_system == "btrfs" && layout.files_placed > 0 {
            layout.notes.push(
                "btrfs tells addresses of its own space: contiguous there is contiguous on a device within a \
                 chunk (usually 1 GiB) of one device"
                    .to_owned(),
            );
        }
        layout
    }
}

fn named(file_system: &str) -> &str {
    if file_system.is_empty() {
        "an unknown file system"
    } else {
        file_system
    }
}

/// The power of two that a number is rounded up to.
fn power(number: u64) -> u32 {
    number
        .max(1)
        .checked_next_power_of_two()
        .map_or(64, u64::trailing_zeros)
}

/// A file is counted under the first reason of its extents, the one that can least be helped first.
fn count_unknown(unknown: &mut UnknownFiles, extents: &[Extent]) {
    let flags = extents.iter().fold(0, |all, e| all | e.flags);
    let reason = if flags & extent_flags::ENCODED != 0 {
        &mut unknown.encoded
    } else if flags & extent_flags::NOT_ALIGNED != 0 {
        &mut unknown.inline
    } else if flags & extent_flags::DELALLOC != 0 {
        &mut unknown.delayed
    } else {
        &mut unknown.no_address
    };
    *reason += 1;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: u64 = 4096;

    fn extent(logical: u64, physical: u64, blocks: u64) -> Extent {
        Extent {
            logical_bytes: logical * BLOCK,
            physical_bytes: physical * BLOCK,
            length_bytes: blocks * BLOCK,
            flags: 0,
        }
    }

    fn of(extents: &[Extent], size_bytes: u64) -> (u64, u64) {
        let lie = lie(extents, size_bytes, BLOCK).unwrap();
        (lie.counted(), lie.optimal())
    }

    #[test]
    fn scores_are_those_of_the_definition() {
        assert_eq!(of(&[extent(0, 7, 1)], BLOCK), (0, 0), "one block");
        assert_eq!(of(&[extent(0, 7, 4)], 4 * BLOCK), (3, 3));
        assert_eq!(
            of(&[extent(0, 7, 2), extent(2, 9, 2)], 4 * BLOCK),
            (3, 3),
            "told in two"
        );
        assert_eq!(of(&[extent(0, 7, 2), extent(2, 10, 2)], 4 * BLOCK), (3, 2));
        assert_eq!(of(&[extent(0, 7, 1), extent(1, 3, 1)], 2 * BLOCK), (1, 0));
        assert_eq!(
            of(&[extent(0, 7, 2), extent(5, 9, 1)], 6 * BLOCK),
            (2, 2),
            "a hole"
        );
        assert_eq!(
            of(&[extent(0, 7, 8)], 3 * BLOCK - 1),
            (2, 2),
            "behind the end"
        );
        let inline = Extent {
            flags: 0x200,
            ..extent(0, 0, 1)
        };
        assert_eq!(lie(&[extent(0, 7, 1), inline], 2 * BLOCK, BLOCK), None);
    }

    #[test]
    fn a_file_of_two_names_counts_once_and_sizes_are_rounded_up() {
        let mut counter = Counter::new(BLOCK, 1);
        for (path, ino, size_bytes, extents) in [
            ("a", 5, 2 * BLOCK, vec![extent(0, 7, 2)]),
            ("b", 5, 2 * BLOCK, vec![]),
            (
                "c",
                6,
                2 * BLOCK + 1,
                vec![extent(0, 90, 1), extent(1, 11, 2)],
            ),
            ("d", 7, BLOCK, vec![]),
        ] {
            counter.add(&SnapshotEntry {
                links: 2,
                extents,
                ..SnapshotEntry::of(path.into(), ino, FileType::Regular, size_bytes)
            });
        }
        let layout = counter.finish("ext4");
        assert_eq!(
            (layout.files, layout.files_placed, layout.unknown.not_told),
            (3, 2, 1)
        );
        assert_eq!(layout.score, Score::of(3, 2));
        let sizes: Vec<u64> = layout
            .by_size
            .iter()
            .map(|c| c.up_to_bytes / BLOCK)
            .collect();
        assert_eq!(sizes, [2, 4]);
        assert_eq!(
            (layout.worst.len(), layout.worst[0].path.as_str()),
            (1, "c")
        );
    }

    proptest! {
        /// Hostile extents are counted without overflow, and no more blocks are optimal than counted.
        #[test]
        fn any_extents_give_a_share(
            parts in prop::collection::vec(any::<(u64, u64, u64)>(), 0..8), size in any::<u64>(),
        ) {
            let extents: Vec<Extent> = parts.into_iter().map(|(l, p, n)| Extent {
                logical_bytes: l, physical_bytes: p, length_bytes: n, flags: 0,
            }).collect();
            let lie = lie(&extents, size, BLOCK).unwrap();
            prop_assert!(lie.optimal() <= lie.counted() || lie.blocks == 0);
        }
    }
}
