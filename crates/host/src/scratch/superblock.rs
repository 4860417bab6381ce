//! Which file system a file holds, and how large it is, by its superblock.

use std::fs::File;
use std::os::unix::fs::FileExt;

use fsage_format::snapshot::BlockGroups;

/// A file system as its superblock tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its type, as `ext4`.
    pub kind: &'static str,
    /// Its size, bytes.
    pub bytes: u64,
}

/// The types that are told apart here.
pub const KNOWN: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Features that ext3 does not have either: what `mkfs.ext4` sets beside a journal.
const EXT4_INCOMPAT: u32 = 0x40 | 0x80 | 0x200 | 0x2000 | 0x8000;
const EXT4_RO_COMPAT: u32 = 0x8 | 0x10 | 0x20 | 0x40 | 0x400;
const HAS_JOURNAL: u32 = 0x4;
const BIT_64: u32 = 0x80;

/// What a file holds; `None` for none of [`KNOWN`].
pub fn find(file: &File) -> std::io::Result<Option<Found>> {
    Ok(ext(file)?.or(xfs(file)?).or(btrfs(file)?))
}

/// Whether the driver of one type takes what another's mkfs made: an ext4 takes those before it.
pub fn takes(asked: &str, found: &str) -> bool {
    let age = |kind: &str| kind.strip_prefix("ext").and_then(|n| n.parse::<u32>().ok());
    match (age(asked), age(found)) {
        (Some(asked), Some(found)) => found <= asked,
        _ => asked == found,
    }
}

/// A part of the file; `None` where it ends before.
fn bytes<const N: usize>(file: &File, at: u64) -> std::io::Result<Option<[u8; N]>> {
    let mut buffer = [0; N];
    match file.read_exact_at(&mut buffer, at) {
        Ok(()) => Ok(Some(buffer)),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

fn field<const N: usize>(buffer: &[u8], at: usize) -> [u8; N] {
    let part = buffer.get(at..at + N);
    part.and_then(|b| b.try_into().ok()).unwrap_or([0; N])
}

/// The kernel's filesystems/ext4/globals.rst, "Super Block": 1024 bytes at 1024, little-endian.
fn ext_block(file: &File) -> std::io::Result<Option<[u8; 1024]>> {
    let block = bytes::<1024>(file, 1024)?;
    Ok(block.filter(|block| field::<2>(block, 0x38) == [0x53, 0xef]))
}

/// The block groups of an ext2, ext3 or ext4; `None` for another, and for one whose groups hold nothing.
pub fn groups(file: &File) -> std::io::Result<Option<BlockGroups>> {
    let of = |block: [u8; 1024]| {
        let number = |at| u64::from(u32::from_le_bytes(field(&block, at)));
        let groups = BlockGroups {
            first_block: number(0x14),
            blocks: number(0x20),
            inodes: number(0x28),
        };
        (groups.blocks > 0 && groups.inodes > 0).then_some(groups)
    };
    Ok(ext_block(file)?.and_then(of))
}

fn ext(file: &File) -> std::io::Result<Option<Found>> {
    let Some(block) = ext_block(file)? else {
        return Ok(None);
    };
    let number = |at| u32::from_le_bytes(field(&block, at));
    let (compat, incompat, ro_compat) = (number(0x5c), number(0x60), number(0x64));
    let kind = if incompat & EXT4_INCOMPAT != 0 || ro_compat & EXT4_RO_COMPAT != 0 {
        "ext4"
    } else if compat & HAS_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    let high = if incompat & BIT_64 == 0 {
        0
    } else {
        number(0x150)
    };
    let blocks = u64::from(high) << 32 | u64::from(number(0x4));
    let block_bytes = 1024u64.checked_shl(number(0x18)).unwrap_or(0);
    Ok(Some(Found {
        kind,
        bytes: blocks.saturating_mul(block_bytes),
    }))
}

/// `struct xfs_dsb`: big-endian, at the beginning.
fn xfs(file: &File) -> std::io::Result<Option<Found>> {
    let Some(block) = bytes::<16>(file, 0)? else {
        return Ok(None);
    };
    if !block.starts_with(b"XFSB") {
        return Ok(None);
    }
    let block_bytes = u32::from_be_bytes(field(&block, 4));
    let blocks = u64::from_be_bytes(field(&block, 8));
    Ok(Some(Found {
        kind: "xfs",
        bytes: blocks.saturating_mul(block_bytes.into()),
    }))
}

/// `struct btrfs_super_block`: little-endian, at 64 KiB.
fn btrfs(file: &File) -> std::io::Result<Option<Found>> {
    let Some(block) = bytes::<0x80>(file, 0x1_0000)? else {
        return Ok(None);
    };
    if field::<8>(&block, 0x40) != *b"_BHRfS_M" {
        return Ok(None);
    }
    Ok(Some(Found {
        kind: "btrfs",
        bytes: u64::from_le_bytes(field(&block, 0x70)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(at: usize, parts: &[(usize, &[u8])]) -> Option<Found> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x2_0000).unwrap();
        for (offset, part) in parts {
            file.write_all_at(part, (at + offset) as u64).unwrap();
        }
        find(&file).unwrap()
    }

    #[test]
    fn each_type_is_known_by_its_superblock() {
        let magic: (usize, &[u8]) = (0x38, &[0x53, 0xef]);
        let blocks: (usize, &[u8]) = (4, &[0, 0x40, 0, 0]);
        let four_kib: (usize, &[u8]) = (0x18, &[2]);
        let plain = [magic, blocks, four_kib];
        let found = |kind, bytes| Some(Found { kind, bytes });
        assert_eq!(made(1024, &plain), found("ext2", 64 << 20));
        let journal = [plain.as_slice(), &[(0x5c, &[4])]].concat();
        assert_eq!(made(1024, &journal), found("ext3", 64 << 20));
        let extents = [plain.as_slice(), &[(0x60, &[0x40])]].concat();
        assert_eq!(made(1024, &extents), found("ext4", 64 << 20));
        let xfs: [(usize, &[u8]); 2] = [(0, b"XFSB\0\0\x10\0"), (8, &[0, 0, 0, 0, 0, 1, 0x2c, 0])];
        assert_eq!(made(0, &xfs), found("xfs", 300 << 20));
        let btrfs: [(usize, &[u8]); 2] = [(0x40, b"_BHRfS_M"), (0x70, &[0, 0, 0, 8])];
        assert_eq!(made(0x1_0000, &btrfs), found("btrfs", 128 << 20));
        assert_eq!(made(0, &[]), None);
        assert_eq!(find(&tempfile::tempfile().unwrap()).unwrap(), None, "empty");
    }

    #[test]
    fn ext4_takes_its_forerunners_and_nothing_else() {
        assert!(takes("ext4", "ext2") && takes("ext4", "ext4") && takes("xfs", "xfs"));
        assert!(!takes("ext2", "ext4") && !takes("xfs", "ext4") && !takes("ext4", "btrfs"));
    }
}
