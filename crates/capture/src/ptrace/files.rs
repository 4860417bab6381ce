//! What /proc tells of a tracee's descriptors. Read only: nothing is opened or flushed by it.

use std::path::Path;

use fsage_core::Tid;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Statx, StatxFlags};

use crate::raw::RawFile;

/// A device number as the kernel keeps it: 12 bits of major above 20 of minor.
pub(super) fn kernel_dev(major: u32, minor: u32) -> u32 {
    (major << 20) | (minor & 0xf_ffff)
}

fn identity(path: &str) -> Option<RawFile> {
    let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::SIZE;
    // Without synchronisation: a network file system must not be asked because of the tracer.
    let stat = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    Some(from_statx(&stat))
}

fn from_statx(stat: &Statx) -> RawFile {
    RawFile {
        dev: kernel_dev(stat.stx_dev_major, stat.stx_dev_minor),
        mode: u32::from(stat.stx_mode),
        ino: stat.stx_ino,
        size_bytes: stat.stx_size,
        ..RawFile::default()
    }
}

/// The file of a thread's descriptor now; `None` if there is none or it may not be seen. Its
/// position and flags only `with_position`, and not for pipes, sockets and character devices.
///
/// The device is the one that stat(2) reports, which on btrfs is the subvolume's.
pub(super) fn of_descriptor(tid: Tid, fd: i32, with_position: bool) -> Option<RawFile> {
    if fd < 0 {
        return None;
    }
    let mut file = identity(&format!("/proc/{}/fd/{fd}", tid.0))?;
    let kind = FileType::from_raw_mode(file.mode);
    if with_position
        && matches!(
            kind,
            FileType::RegularFile | FileType::Directory | FileType::BlockDevice
        )
        && let Some((position, flags)) = position_and_flags(tid, fd)
    {
        file.position = position;
        file.open_flags = flags;
    }
    Some(file)
}

/// The program that a process runs.
pub(super) fn of_program(tid: Tid) -> Option<RawFile> {
    identity(&format!("/proc/{}/exe", tid.0))
}

fn position_and_flags(tid: Tid, fd: i32) -> Option<(u64, u32)> {
    let path = format!("/proc/{}/fdinfo/{fd}", tid.0);
    let info = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut buffer = [0u8; 96];
    let length = rustix::io::read(&info, &mut buffer).ok()?;
    parse_fdinfo(buffer.get(..length)?)
}

/// The first two lines of /proc/PID/fdinfo/N: `pos:` in decimal and `flags:` in octal. The latter
/// has `O_CLOEXEC`, which is the descriptor's and not the file's, and is taken out.
fn parse_fdinfo(text: &[u8]) -> Option<(u64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines();
    let position = lines
        .next()?
        .strip_prefix("pos:")?
        .trim()
        .parse::<i64>()
        .ok()?;
    let flags = u32::from_str_radix(lines.next()?.strip_prefix("flags:")?.trim(), 8).ok()?;
    Some((
        u64::try_from(position).unwrap_or(0),
        flags & !(libc::O_CLOEXEC as u32),
    ))
}

/// The thread group of a thread, its parent process, and whether a signal waits that it would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    /// `Tgid`.
    pub process: u32,
    /// `PPid`.
    pub parent: u32,
    /// Whether an unblocked signal is pending.
    pub signal_pending: bool,
}

/// Reads /proc/TID/status.
pub(super) fn status(tid: Tid) -> Option<Status> {
    parse_status(&std::fs::read_to_string(format!("/proc/{}/status", tid.0)).ok()?)
}

fn parse_status(text: &str) -> Option<Status> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let mask = |name| field(name).and_then(|value| u64::from_str_radix(value, 16).ok());
    let pending = mask("SigPnd")? | mask("ShdPnd")?;
    Some(Status {
        process: field("Tgid")?.parse().ok()?,
        parent: field("PPid")?.parse().ok()?,
        signal_pending: pending & !mask("SigBlk")? != 0,
    })
}

/// The threads of a process.
pub(super) fn threads(pid: u32) -> Vec<Tid> {
    numbers(&Path::new("/proc").join(pid.to_string()).join("task"))
        .map(Tid)
        .collect()
}

/// Every process that can be seen, with its parent.
pub(super) fn processes() -> Vec<(u32, u32)> {
    numbers(Path::new("/proc"))
        .filter_map(|pid| Some((pid, status(Tid(pid))?.parent)))
        .collect()
}

fn numbers(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Seek as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn own_descriptor_is_what_fstat_says() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(12_345).unwrap();
        file.seek(std::io::SeekFrom::Start(678)).unwrap();
        let seen = of_descriptor(Tid(std::process::id()), file.as_raw_fd(), true).unwrap();
        let stat = file.metadata().unwrap();
        assert_eq!(
            (seen.ino, seen.size_bytes, seen.position),
            (stat.ino(), 12_345, 678)
        );
        assert_eq!(seen.mode, stat.mode());
        assert_eq!(fsage_core::DevId::from_kernel(seen.dev).0, stat.dev());
        assert_eq!(
            seen.open_flags & libc::O_ACCMODE as u32,
            libc::O_RDWR as u32
        );
        assert_eq!(of_descriptor(Tid(std::process::id()), 99_999, true), None);
    }

    #[test]
    fn proc_texts_of_any_shape_are_answered() {
        assert_eq!(
            parse_fdinfo(b"pos:\t4096\nflags:\t02100001\nmnt_id:\t9\n"),
            Some((4096, 0o100_001))
        );
        for text in [
            &b""[..],
            b"pos:",
            b"pos:\tx\nflags:\t0\n",
            b"\xff\xfe\n",
            b"pos:\t1\n",
        ] {
            assert_eq!(parse_fdinfo(text), None);
        }
        let text = "Name:\tx\nTgid:\t7\nPPid:\t3\nSigPnd:\t0\nShdPnd:\t2\nSigBlk:\t2\n";
        assert_eq!(
            parse_status(text),
            Some(Status {
                process: 7,
                parent: 3,
                signal_pending: false
            })
        );
        assert_eq!(parse_status("Tgid:\t7\n"), None);
    }
}
