//! Freezing a file system for a moment, which completes its log.

#![allow(unsafe_code)]

use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};

use fsage_core::Errno;

use crate::error::last_errno;

/// `_IOWR('X', 119, int)` and `_IOWR('X', 120, int)` of linux/fs.h.
const FIFREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

/// Freezes and thaws the file system of an open directory.
///
/// A child of its own session with every signal blocked does both, so that neither a signal nor a
/// kill of fsage between the two leaves the file system frozen.
pub(crate) fn freeze_and_thaw(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let fd = dir.as_raw_fd();
    // SAFETY: the child makes only async-signal-safe calls, on its own stack, and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { freeze_in_child(fd, None) }
    }
    ended(child)
}

/// Does something while the file system of an open directory is frozen: what writes to it waits. A child as above
/// thaws it when this returns, or this process is gone.
pub(crate) fn while_frozen<T>(dir: BorrowedFd<'_>, what: impl FnOnce() -> T) -> Result<T, Errno> {
    let pipe = || std::io::pipe().map_err(|_| last_errno());
    let ((mut frozen, tell), (wait, release)) = (pipe()?, pipe()?);
    let (fd, pipes) = (
        dir.as_raw_fd(),
        [tell.as_raw_fd(), wait.as_raw_fd(), release.as_raw_fd()],
    );
    // SAFETY: the child makes only async-signal-safe calls, on its own stack, and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { freeze_in_child(fd, Some(pipes)) }
    }
    drop((tell, wait));
    let is_frozen = child > 0 && matches!(frozen.read(&mut [0u8; 1]), Ok(1));
    let done = is_frozen.then(what);
    drop(release);
    ended(child)?;
    done.ok_or(Errno::EINTR)
}

/// Waits for a child that was forked, if it was.
fn ended(child: libc::pid_t) -> Result<(), Errno> {
    if child < 0 {
        return Err(last_errno());
    }
    let mut status = 0;
    loop {
        // SAFETY: a child of this process that nothing else waits for; `status` is writable.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        if last_errno() != Errno::EINTR {
            return Err(last_errno());
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, code) => Err(Errno(code)),
        (false, _) => Err(Errno::EINTR),
    }
}

/// Freezes and thaws; in between, if there are pipes, tells that by the first and waits for the end of the second,
/// whose writing end is the third.
///
/// # Safety
/// Only in a child of fork.
unsafe fn freeze_in_child(fd: libc::c_int, pipes: Option<[libc::c_int; 3]>) -> ! {
    // SAFETY: async-signal-safe calls with valid arguments.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::setsid();
        let mut done = libc::ioctl(fd, FIFREEZE, 0) == 0;
        if let (true, Some([tell, wait, release])) = (done, pipes) {
            let mut byte = 0u8;
            libc::close(release);
            libc::write(tell, (&raw const byte).cast(), 1);
            libc::read(wait, (&raw mut byte).cast(), 1);
        }
        done = done && libc::ioctl(fd, FITHAW, 0) == 0;
        let code = if done { 0 } else { *libc::__errno_location() };
        libc::_exit(code & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::{HostError, Scratch};

    const DIR: &str = "FSAGE_TEST_FREEZE";
    const TEST: &str = "freeze::tests::a_kill_does_not_leave_it_frozen";

    /// Whether the file system can be frozen and thawed again, at the latest after what another
    /// process began.
    fn is_thawed(dir: &Path) -> bool {
        let root = crate::fs::open_root(dir).unwrap();
        (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            freeze_and_thaw(root.as_fd()).is_ok()
        })
    }

    #[test]
    fn a_kill_does_not_leave_it_frozen() {
        if let Some(dir) = std::env::var_os(DIR) {
            let root = crate::fs::open_root(Path::new(&dir)).unwrap();
            loop {
                freeze_and_thaw(root.as_fd()).unwrap();
            }
        }
        let scratch = match Scratch::create(&"ext4,size=32M".parse().unwrap()) {
            Ok(scratch) => scratch,
            Err(e @ (HostError::NotRoot { .. } | HostError::MissingTool { .. })) => {
                fsage_testing::not_run(format_args!("failed to {e}"));
                return;
            }
            Err(e) => panic!("failed to {e}"),
        };
        for delay_ms in [5, 21, 34] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--test-threads=1"])
                .env(DIR, scratch.dir())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(delay_ms));
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_thawed(scratch.dir()));
        }
        // The shells that thaw for the killed hold the file system until they have ended.
        std::thread::sleep(Duration::from_millis(500));
        scratch.close().unwrap();
    }
}
