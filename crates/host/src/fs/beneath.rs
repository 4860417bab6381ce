//! Paths from strangers, resolved without leaving the root.

use std::os::fd::{BorrowedFd, OwnedFd};

use fsage_core::Errno;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Races with renames that the kernel reports as `EAGAIN` are tried again this often.
const ATTEMPTS: u32 = 16;

/// Opens `path` beneath `root`; never leaves it, whatever links and `..` the path meets.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() {
        b".".as_slice()
    } else {
        path
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // openat2 refuses a mode of what is not made, openat ignores it.
    let mode = if flags.contains(OFlags::CREATE) || flags.contains(OFlags::TMPFILE) {
        mode
    } else {
        Mode::empty()
    };
    let mut last = Errno::EAGAIN;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, mode, resolve) {
            Ok(fd) => return Ok(fd),
            Err(e) if e == rustix::io::Errno::AGAIN => last = Errno(e.raw_os_error()),
            Err(e) => return Err(Errno(e.raw_os_error())),
        }
    }
    Err(last)
}

/// A descriptor that names `path` without opening it.
pub(super) fn locate(root: BorrowedFd<'_>, path: &[u8], follow: bool) -> Result<OwnedFd, Errno> {
    let flags = if follow {
        OFlags::PATH
    } else {
        OFlags::PATH | OFlags::NOFOLLOW
    };
    open(root, path, flags, Mode::empty())
}

/// The directory that holds the last component of `path`, and that component.
///
/// A last component of `..` is harmless: the calls that take a parent and a name (mkdir, unlink,
/// rmdir, rename, link, symlink) refuse it without resolving it.
pub(super) fn parent<'p>(
    root: BorrowedFd<'_>,
    path: &'p [u8],
) -> Result<(OwnedFd, &'p [u8]), Errno> {
    let (dir, name) = split(path)?;
    let fd = open(root, dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    Ok((fd, name))
}

/// Splits before the last component; slashes after it stay with it, as they mean "a directory".
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    if path.is_empty() {
        return Ok((b"", b"."));
    }
    let Some(end) = path.iter().rposition(|&b| b != b'/') else {
        return Err(Errno::EXDEV);
    };
    let start = path
        .get(..end)
        .and_then(|p| p.iter().rposition(|&b| b == b'/'));
    match start {
        None => Ok((b"", path)),
        // The root of the machine is outside by definition.
        Some(0) => Err(Errno::EXDEV),
        Some(at) => match path.split_at_checked(at + 1) {
            Some((dir, name)) => Ok((dir, name)),
            None => Err(Errno::EINVAL),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_before_the_last_component() {
        let parts = |p: &'static [u8]| split(p).ok();
        assert_eq!(parts(b"a"), Some((b"".as_slice(), b"a".as_slice())));
        assert_eq!(parts(b"a/b"), Some((b"a/".as_slice(), b"b".as_slice())));
        assert_eq!(
            parts(b"a//b//"),
            Some((b"a//".as_slice(), b"b//".as_slice()))
        );
        assert_eq!(parts(b""), Some((b"".as_slice(), b".".as_slice())));
        assert_eq!(parts(b"/"), None);
        assert_eq!(parts(b"/etc"), None);
        assert_eq!(
            parts(b"/etc/passwd"),
            Some((b"/etc/".as_slice(), b"passwd".as_slice()))
        );
    }
}
