//! The free space of a file system and its block groups.

#![allow(unsafe_code)]

use std::os::fd::AsRawFd;

use fsage_core::Errno;
use fsage_format::snapshot::BlockGroups;

use crate::scratch::superblock;
use crate::{HostError, HostFs};

/// linux/fsmap.h: `_IOWR('X', 59, struct fsmap_head)`.
const FS_IOC_GETFSMAP: libc::Ioctl = 0xc0c0_583b_u32 as libc::Ioctl;
const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;
const FMR_OWN_FREE: u64 = 1;
const RECORDS_PER_CALL: usize = 4096;

#[repr(C)]
#[derive(Clone, Copy)]
struct Fsmap {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

#[repr(C)]
struct FsmapHead {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Fsmap; 2],
    records: [Fsmap; RECORDS_PER_CALL],
}

const _: () = assert!(size_of::<Fsmap>() == 64);

/// A run of free blocks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeExtent {
    /// Where it begins, bytes.
    pub start_bytes: u64,
    /// Its length, bytes.
    pub length_bytes: u64,
}

/// The free space of the file system that holds a directory, in the order of the device; parts that follow each
/// other are one extent, also across block groups. Fails where the file system does not tell (GETFSMAP: ext4's
/// driver and xfs do).
pub fn free_extents(fs: &HostFs) -> Result<Vec<FreeExtent>, HostError> {
    // SAFETY: plain integers and arrays of them, valid when zeroed.
    let mut head: Box<FsmapHead> = unsafe { Box::<FsmapHead>::new_zeroed().assume_init() };
    head.count = RECORDS_PER_CALL as u32;
    // From the lowest key to the highest there is.
    let high = &mut head.keys[1];
    (high.device, high.flags) = (u32::MAX, u32::MAX);
    (high.physical, high.owner, high.offset) = (u64::MAX, u64::MAX, u64::MAX);
    let mut free: Vec<(u32, FreeExtent)> = Vec::new();
    loop {
        // SAFETY: reads and writes a head with room for `count` records.
        if unsafe { libc::ioctl(fs.as_raw_fd(), FS_IOC_GETFSMAP, &raw mut *head) } != 0 {
            let errno = crate::error::last_errno();
            let is_reason = ![libc::ENOTTY, libc::EOPNOTSUPP, libc::EINVAL].contains(&errno.0);
            return Err(refused(fs, "free space", is_reason.then_some(errno)));
        }
        let found = head.records.get(..head.entries as usize);
        let found = found.unwrap_or_default();
        for record in found {
            let is_free = record.flags & FMR_OF_SPECIAL_OWNER != 0 && record.owner == FMR_OWN_FREE;
            if is_free {
                push(&mut free, record);
            }
        }
        match found.last() {
            Some(last) if last.flags & FMR_OF_LAST == 0 => head.keys[0] = *last,
            _ => return Ok(free.into_iter().map(|(_, extent)| extent).collect()),
        }
    }
}

fn push(free: &mut Vec<(u32, FreeExtent)>, record: &Fsmap) {
    if let Some((device, last)) = free.last_mut()
        && *device == record.device
        && last.start_bytes.saturating_add(last.length_bytes) == record.physical
    {
        last.length_bytes = last.length_bytes.saturating_add(record.length);
        return;
    }
    let extent = FreeExtent {
        start_bytes: record.physical,
        length_bytes: record.length,
    };
    free.push((record.device, extent));
}

fn refused(fs: &HostFs, what: &str, errno: Option<Errno>) -> HostError {
    let kind = fs.mount().map_or("its file system", |m| m.kind.as_str());
    HostError::Refused {
        what: format!("read the {what} of {}", fs.dir().display()),
        why: match errno {
            Some(errno) => errno.to_string(),
            None => format!("{kind} does not tell it"),
        },
    }
}

/// The block groups of the ext2, ext3 or ext4 that holds a directory, from its superblock on the device; `None` on
/// other file systems.
pub fn block_groups(fs: &HostFs) -> Result<Option<BlockGroups>, HostError> {
    let kind = fs.mount().map(|m| m.kind.as_str()).unwrap_or_default();
    let Some(device) = fs.device().filter(|_| kind.starts_with("ext")) else {
        return Ok(None);
    };
    let path = std::path::Path::new("/dev").join(&device.name);
    let file = std::fs::File::open(&path).map_err(|e| HostError::at("open", &path, e))?;
    superblock::groups(&file).map_err(|e| HostError::at("read the superblock of", &path, e))
}
