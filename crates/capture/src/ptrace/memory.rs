//! Strings and structures in a tracee's memory.

use fsage_core::Tid;

use super::calls::{Extra, StatBuffer, is_lock_command};
use super::files::kernel_dev;
use super::sys;
use crate::raw::{FIEMAP, RawFile};

/// The longest path that the kernel takes, with its NUL.
const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// A string argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text {
    /// The argument was a null pointer.
    Absent,
    /// There is no readable string there.
    Unreadable,
    /// The bytes without the NUL, and whether there were more.
    Bytes(Vec<u8>, bool),
}

/// Reads a string that ends with a NUL, page by page: the one after its end may not be mapped.
pub(super) fn string(tid: Tid, address: u64) -> Text {
    if address == 0 {
        return Text::Absent;
    }
    let mut text = Vec::new();
    let mut buffer = [0u8; 256];
    let mut at = address;
    while text.len() < PATH_MAX {
        // Most paths are short: small pieces that never cross a page.
        let room = (PAGE - at % PAGE).min(buffer.len() as u64) as usize;
        let got = sys::read_memory(tid, at, buffer.get_mut(..room).unwrap_or_default());
        let piece = buffer.get(..got).unwrap_or_default();
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            text.extend_from_slice(piece.get(..end).unwrap_or_default());
            return Text::Bytes(text, false);
        }
        if got < room {
            return Text::Unreadable;
        }
        text.extend_from_slice(piece);
        at = at.wrapping_add(got as u64);
    }
    text.truncate(PATH_MAX);
    Text::Bytes(text, true)
}

fn bytes<const N: usize>(tid: Tid, address: u64) -> Option<[u8; N]> {
    let mut buffer = [0u8; N];
    (address != 0 && sys::read_memory(tid, address, &mut buffer) == N).then_some(buffer)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

/// The eight bytes at an address.
pub(super) fn first_word(tid: Tid, address: u64) -> Option<u64> {
    bytes::<8>(tid, address).map(u64::from_le_bytes)
}

fn argument(args: &[u64; 6], position: u8) -> u64 {
    args.get(usize::from(position)).copied().unwrap_or(0)
}

/// The words of [`RawCall::extra`](crate::raw::RawCall::extra).
pub(super) fn extra(tid: Tid, what: Extra, args: &[u64; 6]) -> [u64; 2] {
    let [_, second, third, ..] = *args;
    let offset = |position: Option<u8>| {
        let pointer = position.map_or(0, |position| argument(args, position));
        first_word(tid, pointer).unwrap_or(u64::MAX)
    };
    match what {
        Extra::OpenHow => {
            bytes::<24>(tid, third).map_or([0; 2], |how| [word(&how, 0), word(&how, 16)])
        }
        Extra::Iovec => [vector_length(tid, second, third), third],
        Extra::Offsets(first, other) => [offset(Some(first)), offset(other)],
        // struct flock: two shorts, four bytes of padding, start, length, pid.
        Extra::Flock if is_lock_command(second) => {
            bytes::<24>(tid, third).map_or([0; 2], |lock| [word(&lock, 8), word(&lock, 16)])
        }
        Extra::XattrArgs => bytes::<16>(tid, argument(args, 4))
            .map_or([0; 2], |value| [word(&value, 0), word(&value, 8)]),
        Extra::None | Extra::Flock | Extra::Clone => [0; 2],
    }
}

/// The arguments of `fcntl`, of a lock with its type and whence in place of the address
/// ([`RawCall::args`](crate::raw::RawCall::args)).
pub(super) fn with_lock(tid: Tid, mut args: [u64; 6]) -> [u64; 6] {
    let [_, command, third, ..] = &mut args;
    if is_lock_command(*command) {
        *third = bytes::<4>(tid, *third).map_or(u64::MAX, |lock| half(&lock, 0).into());
    }
    args
}

/// `FIEMAP_FLAG_SYNC`.
const FIEMAP_SYNC: u32 = 1;

/// The arguments of a copy that shares blocks: destination, request, source, its offset, length (0: to the source's end),
/// offset in the destination. Those of a map of blocks: descriptor, request, descriptor; `None` where it writes nothing.
pub(super) fn ioctl_arguments(
    tid: Tid,
    [destination, request, third, ..]: [u64; 6],
) -> Option<[u64; 6]> {
    if request as u32 == libc::FICLONE as u32 {
        return Some([destination, request, third, 0, 0, 0]);
    }
    if request as u32 == FIEMAP {
        // struct fiemap: start, length, flags.
        let asked = bytes::<24>(tid, third)?;
        let syncs = half(&asked, 16) & FIEMAP_SYNC != 0;
        return syncs.then_some([destination, request, destination, 0, 0, 0]);
    }
    let Some(range) = bytes::<32>(tid, third) else {
        return Some([destination, request, u64::MAX, 0, 0, 0]);
    };
    let [source, from, length, to] = [0, 8, 16, 24].map(|at| word(&range, at));
    Some([destination, request, source, from, length, to])
}

fn vector_length(tid: Tid, address: u64, count: u64) -> u64 {
    // UIO_MAXIOV; the kernel refuses more.
    let count = count.min(1024) as usize;
    let mut buffer = vec![0u8; count * 16];
    let got = sys::read_memory(tid, address, &mut buffer);
    let entries = buffer.get(..got).unwrap_or_default().chunks_exact(16);
    entries
        .map(|entry| word(entry, 8))
        .fold(0, u64::saturating_add)
}

/// The file that a stat described.
pub(super) fn stat_result(tid: Tid, what: StatBuffer, args: &[u64; 6]) -> Option<RawFile> {
    match what {
        StatBuffer::None => None,
        // struct stat: st_dev, st_ino, st_nlink, st_mode, st_uid, st_gid, pad, st_rdev, st_size.
        StatBuffer::Stat(position) => {
            let stat = bytes::<56>(tid, argument(args, position))?;
            let dev = fsage_core::DevId(word(&stat, 0));
            Some(RawFile {
                dev: kernel_dev(dev.major(), dev.minor()),
                mode: half(&stat, 24),
                ino: word(&stat, 8),
                size_bytes: word(&stat, 48),
                ..RawFile::default()
            })
        }
        // struct statx: stx_mode at 28, stx_ino at 32, stx_size at 40, stx_dev at 136.
        StatBuffer::Statx(position) => {
            let stat = bytes::<144>(tid, argument(args, position))?;
            Some(RawFile {
                dev: kernel_dev(half(&stat, 136), half(&stat, 140)),
                mode: half(&stat, 28) & 0xffff,
                ino: word(&stat, 32),
                size_bytes: word(&stat, 40),
                ..RawFile::default()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Tid {
        Tid(std::process::id())
    }

    #[test]
    fn strings_of_every_length_are_read() {
        for length in [0, 1, 255, 256, 257, 4095] {
            let mut text = vec![b'x'; length];
            text.push(0);
            let expected = Text::Bytes(vec![b'x'; length], false);
            assert_eq!(string(me(), text.as_ptr() as u64), expected, "{length}");
        }
        let long = vec![b'x'; 9000];
        assert_eq!(
            string(me(), long.as_ptr() as u64),
            Text::Bytes(vec![b'x'; 4096], true)
        );
        assert_eq!(string(me(), 0), Text::Absent);
        assert_eq!(string(me(), 8), Text::Unreadable);
    }

    #[test]
    fn vectors_are_summed() {
        let entries = [0u64, 10, 0, 20, 0, 30];
        assert_eq!(vector_length(me(), entries.as_ptr() as u64, 3), 60);
        assert_eq!(vector_length(me(), 8, u64::MAX), 0);
    }
}
