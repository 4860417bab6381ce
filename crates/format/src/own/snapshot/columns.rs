//! The one table of a snapshot's columns.

use fsage_core::FileType;

use super::{Extent, SnapshotEntry};
use crate::piece::Holds;

/// A column of the snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The name; the columns of extents are named as their part of `extents`.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// Whether a row may have no value.
    pub optional: bool,
    /// Whether successive rows are best stored as differences.
    pub delta: bool,
    /// The unit of its values, empty for names and numbers without one.
    pub unit: &'static str,
    /// What it says, one sentence without its full stop.
    pub what: &'static str,
    /// Integer columns: the value of an entry.
    pub(crate) get: fn(&SnapshotEntry) -> Option<u64>,
}

macro_rules! columns {
    ($($id:ident $name:literal $holds:expr, $optional:literal, $delta:literal, $unit:literal, $get:expr, $what:literal;)*) => {
        /// The columns with one value per row, in the order of the file; `extents` follows them.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: $name,
            holds: $holds,
            optional: $optional,
            delta: $delta,
            unit: $unit,
            what: $what,
            get: $get,
        },)*];

        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Id { $($id,)* }
    };
}

columns! {
    Path "path" Holds::Text, false, false, "", |_| None,
        "path relative to the root, empty for the root itself; written as in a trace";
    Ino "ino" Holds::Unsigned64, false, true, "", |e| Some(e.ino),
        "inode number";
    Generation "generation" Holds::Unsigned(32), false, false, "", |e| Some(e.generation.into()),
        "the inode's generation, 0 where it is unknown";
    Type "type" Holds::Text, false, false, "", |_| None,
        "`regular`, `directory`, `symlink` or `other`";
    SizeBytes "size_bytes" Holds::Unsigned64, false, false, "bytes", |e| Some(e.size_bytes),
        "size";
    AllocatedBytes "allocated_bytes" Holds::Unsigned64, false, false, "bytes",
        |e| Some(e.allocated_bytes),
        "allocated space";
    Links "links" Holds::Unsigned(32), false, false, "", |e| Some(e.links.into()),
        "hard links; a file with several names has a row for each, extents only in the first";
    LinkTarget "link_target" Holds::Text, true, false, "", |_| None,
        "the target of a symbolic link, written as a path";
    Mode "mode" Holds::Unsigned(32), false, false, "", |e| Some(e.mode.into()),
        "permission bits";
    Uid "uid" Holds::Unsigned(32), false, false, "", |e| Some(e.uid.into()),
        "owner";
    Gid "gid" Holds::Unsigned(32), false, false, "", |e| Some(e.gid.into()),
        "group";
    AtimeNs "atime_ns" Holds::Signed64, false, true, "ns", |e| Some(e.atime_ns as u64),
        "last access, since the epoch";
    MtimeNs "mtime_ns" Holds::Signed64, false, true, "ns", |e| Some(e.mtime_ns as u64),
        "last modification, since the epoch";
    CtimeNs "ctime_ns" Holds::Signed64, false, true, "ns", |e| Some(e.ctime_ns as u64),
        "last change of attributes, since the epoch";
    BtimeNs "btime_ns" Holds::Signed64, true, true, "ns", |e| e.btime_ns.map(|t| t as u64),
        "birth, since the epoch; absent where the file system does not keep it";
}

/// A part of an extent.
#[derive(Debug, Clone, Copy)]
pub struct ExtentColumn {
    /// The name within `extents`.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// The unit.
    pub unit: &'static str,
    /// What it says.
    pub what: &'static str,
    pub(crate) get: fn(&Extent) -> u64,
}

/// The parts of an extent; `extents` is a list of structures of them.
pub const EXTENT_COLUMNS: &[ExtentColumn] = &[
    ExtentColumn {
        name: "logical_bytes",
        holds: Holds::Unsigned64,
        unit: "bytes",
        what: "where it begins in the file",
        get: |e| e.logical_bytes,
    },
    ExtentColumn {
        name: "physical_bytes",
        holds: Holds::Unsigned64,
        unit: "bytes",
        what: "where it begins on the device",
        get: |e| e.physical_bytes,
    },
    ExtentColumn {
        name: "length_bytes",
        holds: Holds::Unsigned64,
        unit: "bytes",
        what: "its length",
        get: |e| e.length_bytes,
    },
    ExtentColumn {
        name: "flags",
        holds: Holds::Unsigned(32),
        unit: "",
        what: "`FIEMAP_EXTENT_*`",
        get: |e| e.flags.into(),
    },
];

/// The name under which a type is stored.
pub(crate) fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "regular",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Other => "other",
    }
}

/// The type stored under that name.
pub(crate) fn type_of(name: &[u8]) -> Option<FileType> {
    [
        FileType::Regular,
        FileType::Directory,
        FileType::Symlink,
        FileType::Other,
    ]
    .into_iter()
    .find(|t| type_name(*t).as_bytes() == name)
}
