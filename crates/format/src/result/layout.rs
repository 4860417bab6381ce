//! How the files and the free space of a tree lie on their device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// The share of blocks that lie right behind the block before them in their file (the thesis, 3.2.3): neither a
/// file's first block nor a file of one block is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ShownScore", from = "ShownScore")]
pub struct Score {
    /// Blocks that have one before them in their file; at least one.
    pub counted_blocks: u64,
    /// Of these, the ones right behind it on the device.
    pub optimal_blocks: u64,
}

impl Score {
    /// The score of 0 to 1.
    pub fn value(self) -> f64 {
        self.optimal_blocks as f64 / self.counted_blocks.max(1) as f64
    }

    /// Of so many blocks; `None` where none is counted.
    pub fn of(counted_blocks: u64, optimal_blocks: u64) -> Option<Self> {
        (counted_blocks > 0).then_some(Self {
            counted_blocks,
            optimal_blocks,
        })
    }
}

/// A score as it is written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
struct ShownScore {
    /// The share of 0 to 1.
    #[serde(default)]
    value: f64,
    /// Blocks that have one before them in their file.
    counted_blocks: u64,
    /// Of these, the ones right behind it on the device.
    optimal_blocks: u64,
}

impl From<Score> for ShownScore {
    fn from(score: Score) -> Self {
        Self {
            value: score.value(),
            counted_blocks: score.counted_blocks,
            optimal_blocks: score.optimal_blocks,
        }
    }
}

impl From<ShownScore> for Score {
    fn from(shown: ShownScore) -> Self {
        Self {
            counted_blocks: shown.counted_blocks,
            optimal_blocks: shown.optimal_blocks,
        }
    }
}

impl JsonSchema for Score {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Score".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        ShownScore::json_schema(generator)
    }
}

/// Files of which nobody can tell how they lie, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownFiles {
    /// Compressed or encrypted: what lies there is not the file's blocks.
    pub encoded: u64,
    /// Within their inode or in a part of a block.
    pub inline: u64,
    /// Written to the page cache and not given blocks yet.
    pub delayed: u64,
    /// The file system has a place that it does not tell.
    pub no_address: u64,
    /// Nothing was told: no FIEMAP, no permission, or a snapshot without extents.
    pub not_told: u64,
}

impl UnknownFiles {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.encoded + self.inline + self.delayed + self.no_address + self.not_told
    }
}

/// Files of about one size, rounded up to whole blocks (Figure 3.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeClass {
    /// Sizes up to this and above that of the class before, bytes: a power of two of blocks.
    pub up_to_bytes: u64,
    /// Files that lie somewhere.
    pub files: u64,
    /// Their extents: runs of blocks that are contiguous on the device.
    pub extents: u64,
    /// Their score; absent for files of one block.
    pub score: Option<Score>,
}

/// Files of about as many extents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtentsClass {
    /// Up to so many extents and more than the class before has: a power of two.
    pub up_to: u64,
    /// Files.
    pub files: u64,
}

/// Free extents of about one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreeClass {
    /// From this size, a power of two, up to twice as much, bytes.
    pub from_bytes: u64,
    /// Extents.
    pub extents: u64,
    /// Their bytes together.
    pub bytes: u64,
}

/// The free space of a file system, by extents: runs of free blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreeSpace {
    /// All of it.
    pub bytes: u64,
    /// In so many extents.
    pub extents: u64,
    /// The largest.
    pub largest_bytes: u64,
    /// By size.
    pub by_size: Vec<FreeClass>,
}

/// Files whose inode and first block lie in different block groups (Table 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SplitFiles {
    /// Files with a first block.
    pub files: u64,
    /// Of these, split.
    pub split: u64,
}

/// One file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileLayout {
    /// Its path below the target.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its blocks up to its end.
    pub blocks: u64,
    /// Its extents: runs of blocks that are contiguous on the device.
    pub extents: u64,
    /// Its score; absent for one block.
    pub score: Option<Score>,
}

/// How the regular files of a tree lie; a file with several names counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// The directory, file or snapshot that was looked at.
    pub target: String,
    /// The file system's type.
    pub file_system: String,
    /// Its block size in bytes, the unit of all blocks here.
    pub block_bytes: u64,
    /// When the snapshot was taken, or this was, nanoseconds since the epoch; 0 where nobody knows.
    pub taken_unix_ns: u64,
    /// Of an aging workload the simulated day at whose end it is; absent for what is no part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<u64>,
    /// Of all files together; absent where no block counts.
    pub score: Option<Score>,
    /// Regular files.
    pub files: u64,
    /// Of these, ones that lie somewhere.
    pub files_placed: u64,
    /// Ones without a block: empty, or a hole from end to end.
    pub files_empty: u64,
    /// Blocks of the files that lie somewhere.
    pub blocks: u64,
    /// Their extents: runs of blocks that are contiguous on the device.
    pub extents: u64,
    /// The files of which it is unknown.
    pub unknown: UnknownFiles,
    /// What the tree has that could not be looked at: files and directories.
    pub unreadable: u64,
    /// By size.
    pub by_size: Vec<SizeClass>,
    /// By extents a file.
    pub by_extents: Vec<ExtentsClass>,
    /// Split files, on ext2, ext3 and ext4.
    pub split: Option<SplitFiles>,
    /// Why that is absent.
    pub split_unknown: Option<String>,
    /// The free space of the whole file system, if it was asked for.
    pub free: Option<FreeSpace>,
    /// Why that is absent although asked for.
    pub free_unknown: Option<String>,
    /// The files with most extents, if they were asked for.
    pub worst: Vec<FileLayout>,
    /// What has to be known to read the figures.
    pub notes: Vec<String>,
}

/// What `fsage layout --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layouts {
    /// Each target, in the order given.
    pub layouts: Vec<Layout>,
    /// Each of `--against`.
    pub against: Vec<Layout>,
    /// The root mean square of the differences of their scores, target by target; null where `not_comparable` is there.
    pub score_rms_distance: Option<f64>,
    /// That some of these scores count blocks of another size than those beside them, and so cannot be compared; absent
    /// where all can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<NotComparable>,
}

/// Scores of blocks of two sizes: of small blocks more lie right behind the one before them, within what is one large
/// block to the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotComparable {
    /// The size of blocks of the first target of which it is so, bytes.
    pub block_bytes: u64,
    /// The size of blocks of what stands beside it, bytes.
    pub against_block_bytes: u64,
    /// How many targets it is so of.
    pub pairs: u64,
    /// The same in words.
    pub reason: String,
}

impl Layout {
    /// Whether scores of these two count the same blocks, as far as both sizes are known.
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.block_bytes == other.block_bytes || self.block_bytes == 0 || other.block_bytes == 0
    }
}

document! {
    Layouts, "fsage layout", 1;
}
