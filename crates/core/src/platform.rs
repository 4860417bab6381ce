//! What can be done to a target from outside the operations.

use crate::{Errno, Handle, OpFlags};

/// How a cold state is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColdMethod {
    /// Unmount and mount again: data, names and inodes are gone; disturbs nobody else.
    Remount,
    /// Sync, freeze, thaw, then `drop_caches` 3: the same, for the whole machine.
    Drop,
    /// `POSIX_FADV_DONTNEED` file by file: data only, names and inodes stay.
    Evict,
}

/// What a cold state covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColdLevel {
    /// Data, names and inodes come from the device.
    Everything,
    /// Only file data comes from the device.
    DataOnly,
}

impl ColdLevel {
    /// How the next operation of a trace says so.
    pub fn record(self) -> OpFlags {
        match self {
            Self::Everything => OpFlags::COLD_DATA | OpFlags::COLD_NAMES,
            Self::DataOnly => OpFlags::COLD_DATA,
        }
    }
}

/// Counters of the device beneath a target since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Read requests completed.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub sectors_read: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors_written: u64,
}

/// What was done to make a target cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColdEvidence {
    /// How.
    pub method: ColdMethod,
    /// What it covers.
    pub level: ColdLevel,
}

/// A part of a file that lies together on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins in the file, in bytes.
    pub offset_bytes: u64,
    /// Where it begins on the device, in bytes.
    pub device_bytes: u64,
    /// Its length in bytes.
    pub length_bytes: u64,
    /// Whether anything was written there; else it is reserved.
    pub written: bool,
}

/// Control over a target's caches and its device.
pub trait Platform: Send + Sync {
    /// Makes everything that is cached of the target cold, by the best means there is. Open handles
    /// of the target are closed first by the caller. `EOPNOTSUPP` where nothing can be done for
    /// names and inodes; data can still be evicted.
    fn make_cold(&self) -> Result<ColdEvidence, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes the target's file system anew, empty and cold, where it was made for the occasion: all that was in it is
    /// gone. Open handles of the target are closed first by the caller. `EOPNOTSUPP` where it is not ours to be made,
    /// or how it was made is not known.
    fn make_anew(&self) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Drops the cached data of one open file (written back first).
    fn evict(&self, handle: Handle) -> Result<(), Errno>;

    /// How many bytes of one open file are in memory and not yet written; `None` where nobody can tell.
    fn dirty_bytes(&self, _handle: Handle) -> Option<u64> {
        None
    }

    /// The device's counters, `None` where there is no device to ask.
    fn device_counters(&self) -> Option<DeviceCounters> {
        None
    }

    /// Where the data of the file with that inode number lies, in the order of the file. `EOPNOTSUPP` where the target
    /// itself cannot tell.
    fn pieces(&self, _ino: u64) -> Result<Vec<Piece>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}
