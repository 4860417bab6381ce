//! Identifiers as types of their own, so that an inode is never taken for a process.

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// A process (thread group) as the traced kernel numbered it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Pid(pub u32);

/// A thread as the traced kernel numbered it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct Tid(pub u32);

/// A file descriptor of the process that issued the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fd(pub i32);

/// A device number in the kernel's `new_encode_dev` form, as `stat(2)` reports `st_dev`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct DevId(pub u64);

impl DevId {
    /// Joins a major and a minor number as `stat(2)` does (`makedev`).
    pub fn new(major: u32, minor: u32) -> Self {
        let (major, minor) = (u64::from(major), u64::from(minor));
        Self(
            (minor & 0xff)
                | ((major & 0xfff) << 8)
                | ((minor & !0xff) << 12)
                | ((major & !0xfff) << 32),
        )
    }

    /// Converts the kernel's internal `dev_t` (12 bits of major above 20 bits of minor).
    pub fn from_kernel(dev: u32) -> Self {
        Self::new(dev >> 20, dev & 0xf_ffff)
    }

    /// The major number.
    pub fn major(self) -> u32 {
        (((self.0 >> 8) & 0xfff) | ((self.0 >> 32) & !0xfff)) as u32
    }

    /// The minor number.
    pub fn minor(self) -> u32 {
        ((self.0 & 0xff) | ((self.0 >> 12) & !0xff)) as u32
    }
}

impl fmt::Display for DevId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}

/// What identifies a file while a trace lasts: device, inode and, where the file system has one,
/// generation (0 where it is unknown).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct FileId {
    /// The device that holds the file.
    pub dev: DevId,
    /// The inode number on that device.
    pub ino: u64,
    /// The inode's generation, 0 where unknown.
    pub generation: u32,
}

/// A path in a [`PathTable`](crate::PathTable).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(NonZeroU32);

impl PathId {
    /// The id of the table's entry `index` (0 based); `None` past 2^32 - 2 entries.
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index)
            .ok()?
            .checked_add(1)
            .and_then(NonZeroU32::new)
            .map(Self)
    }

    /// The 0-based index in the table.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Where a random sequence starts; printed and stored wherever it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_both_encodings() {
        for (major, minor) in [(8, 1), (259, 70_000), (0, 45), (7, 0)] {
            let dev = DevId::new(major, minor);
            assert_eq!((dev.major(), dev.minor()), (major, minor));
            assert_eq!(DevId::from_kernel((major << 20) | minor), dev);
        }
    }

    #[test]
    fn path_ids_start_at_zero() {
        assert_eq!(PathId::from_index(0).map(PathId::index), Some(0));
        assert_eq!(PathId::from_index(u32::MAX as usize), None);
    }
}
