//! `.fss`: the snapshot, one row per name of a tree.
//!
//! A [`SnapshotWriter`] takes entries, a [`SnapshotReader`] gives them back in their order; both hold
//! one piece. The columns stand in [`columns::COLUMNS`].

pub mod columns;
mod reader;
mod writer;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fsage_core::FileType;

pub use reader::SnapshotReader;
pub use writer::SnapshotWriter;

use crate::error::Version;
use crate::trace::columns::unescape;

/// The version that is written; every version up to it is read.
pub const SNAPSHOT_VERSION: Version = Version(2);

/// What a snapshot says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotMeta {
    /// The fsage that wrote it.
    pub fsage: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release and build.
    pub kernel: String,
    /// The directory whose tree it is, absolute.
    pub root: String,
    /// The device number of the file system (`st_dev`).
    pub dev: u64,
    /// The file system's type, e.g. `ext4`.
    pub file_system: String,
    /// Its mount options.
    pub mount_options: String,
    /// Its block size in bytes.
    pub block_bytes: u64,
    /// Its total size in bytes.
    pub total_bytes: u64,
    /// Its free space in bytes.
    pub free_bytes: u64,
    /// Wall clock when it was taken, in nanoseconds since the epoch.
    pub taken_unix_ns: u64,
    /// Anything else worth keeping, by name.
    pub extra: BTreeMap<String, String>,
}

impl SnapshotMeta {
    /// The directory whose tree it is, as traces name it: its text is written as paths are.
    pub fn root_path(&self) -> Vec<u8> {
        unescape(self.root.as_bytes())
    }
}

/// The block groups of ext2, ext3 and ext4, FFS's cylinder groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockGroups {
    /// The first block of group 0.
    pub first_block: u64,
    /// Blocks in each, more than none.
    pub blocks: u64,
    /// Inodes in each, more than none.
    pub inodes: u64,
}

impl BlockGroups {
    /// The group of an inode; they are counted from 1.
    pub fn of_ino(&self, ino: u64) -> u64 {
        ino.saturating_sub(1) / self.inodes.max(1)
    }

    /// The group of a block.
    pub fn of_block(&self, block: u64) -> u64 {
        block.saturating_sub(self.first_block) / self.blocks.max(1)
    }
}

/// Under which names [`SnapshotMeta::extra`] has the [`BlockGroups`].
pub(crate) const GROUP_KEYS: [&str; 3] = ["first_block", "blocks_per_group", "inodes_per_group"];

impl SnapshotMeta {
    /// The block groups, where the file system has some and they could be read.
    pub fn groups(&self) -> Option<BlockGroups> {
        let number = |key: &str| self.extra.get(key)?.parse::<u64>().ok();
        let [first_block, blocks, inodes] = GROUP_KEYS.map(number);
        Some(BlockGroups {
            first_block: first_block?,
            blocks: blocks.filter(|&n| n > 0)?,
            inodes: inodes.filter(|&n| n > 0)?,
        })
    }

    /// Notes them.
    pub fn set_groups(&mut self, groups: &BlockGroups) {
        let values = [groups.first_block, groups.blocks, groups.inodes];
        let pairs = GROUP_KEYS.into_iter().zip(values);
        self.extra
            .extend(pairs.map(|(key, value)| (key.to_owned(), value.to_string())));
    }
}

/// What is known when a snapshot ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotEnd {
    /// Files that vanished between the listing of their directory and their turn.
    pub vanished: u64,
    /// Files and directories that could not be read, e.g. for lack of permission.
    pub unreadable: u64,
    /// Mount points of other file systems, which were left out.
    pub other_mounts: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Why it ended before the whole tree was recorded, if it did: `interrupted`, `cut` (it was made
    /// from a snapshot without an end).
    pub stopped: Option<String>,
}

/// What a snapshot lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotLoss {
    /// The file has no end: its writer was killed or the file was cut.
    pub unfinished: bool,
    /// Why it ended before the whole tree was recorded, if it did.
    pub stopped: Option<String>,
    /// Bytes after the last whole piece, which could not be read.
    pub bytes_dropped: u64,
}

impl SnapshotLoss {
    /// Whether the snapshot is whole.
    pub fn is_none(&self) -> bool {
        !self.unfinished && self.stopped.is_none()
    }
}

impl std::fmt::Display for SnapshotLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.stopped, self.unfinished) {
            (_, true) => write!(
                f,
                "the snapshot has no end: names after its last whole piece are lost ({} bytes of \
                 the file)",
                self.bytes_dropped
            ),
            (Some(why), false) => write!(
                f,
                "the snapshot ended before the whole tree was recorded ({why})"
            ),
            (None, false) => f.write_str("nothing lost"),
        }
    }
}

/// A run of a file's blocks, as FIEMAP reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub logical_bytes: u64,
    /// Where it begins on the device, in bytes.
    pub physical_bytes: u64,
    /// Its length in bytes.
    pub length_bytes: u64,
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

/// One name of the tree. A file with several names stands once for each; rows after its first have
/// no extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// Path relative to the root, without a leading slash; empty for the root itself.
    pub path: Vec<u8>,
    /// Inode number.
    pub ino: u64,
    /// The inode's generation, 0 where unknown.
    pub generation: u32,
    /// Type.
    pub file_type: FileType,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Allocated space in bytes.
    pub allocated_bytes: u64,
    /// Hard links.
    pub links: u32,
    /// The target of a symbolic link.
    pub link_target: Option<Vec<u8>>,
    /// Permission bits (`st_mode & 07777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access, nanoseconds since the epoch.
    pub atime_ns: i64,
    /// Last modification, nanoseconds since the epoch.
    pub mtime_ns: i64,
    /// Last change of attributes, nanoseconds since the epoch.
    pub ctime_ns: i64,
    /// Birth, nanoseconds since the epoch, where the file system keeps it.
    pub btime_ns: Option<i64>,
    /// Where its data lies, in the order of the file; empty where unknown or nowhere.
    pub extents: Vec<Extent>,
}

/// The FIEMAP flags that mean something here (linux/fiemap.h).
pub mod extent_flags {
    /// There is a place and it is not told.
    pub const UNKNOWN: u32 = 0x2;
    /// No place yet.
    pub const DELALLOC: u32 = 0x4;
    /// Compressed or encrypted.
    pub const ENCODED: u32 = 0x8 | 0x80;
    /// Not whole blocks: within metadata, or a tail among others.
    pub const NOT_ALIGNED: u32 = 0x100 | 0x200 | 0x400;
    /// Allocated and never written.
    pub const UNWRITTEN: u32 = 0x800;
    /// What is told as the place of these means nothing.
    pub const NO_ADDRESS: u32 = UNKNOWN | DELALLOC | ENCODED | NOT_ALIGNED;
}

impl SnapshotEntry {
    /// A file of one name of which no more is known than that.
    pub fn of(path: Vec<u8>, ino: u64, file_type: FileType, size_bytes: u64) -> Self {
        Self {
            path,
            ino,
            generation: 0,
            file_type,
            size_bytes,
            allocated_bytes: size_bytes,
            links: 1,
            link_target: None,
            mode: 0,
            uid: 0,
            gid: 0,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            btime_ns: None,
            extents: Vec::new(),
        }
    }

    /// In how many pieces the file lies, as [`runs`] counts them.
    pub fn runs(&self) -> Option<u64> {
        runs(&self.extents, self.size_bytes)
    }
}

/// In how many pieces a file lies as far as it reaches: runs of blocks that are contiguous on the device, in however many
/// parts the file system tells them. `None` where an extent has no address that means anything.
pub fn runs(extents: &[Extent], size_bytes: u64) -> Option<u64> {
    let (mut runs, mut next) = (0, None);
    for extent in extents {
        if extent.flags & extent_flags::NO_ADDRESS != 0 {
            return None;
        }
        if extent.length_bytes > 0 && extent.logical_bytes < size_bytes {
            runs += u64::from(next != Some(extent.physical_bytes));
            next = extent.physical_bytes.checked_add(extent.length_bytes);
        }
    }
    Some(runs)
}

/// How the file is told from others.
pub(crate) const FORMAT: crate::piece::Format = crate::piece::Format {
    name: "snapshot",
    expected: "a snapshot (.fss)",
    version: SNAPSHOT_VERSION,
};

/// Metadata entry of [`SnapshotMeta`].
const ENTRY_META: &str = "fsage.snapshot";
