//! Freezing a file system for a moment, which completes its log.

#![allow(unsafe_code)]

use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

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

/// By this a process that has a file system frozen says that it goes on.
pub(crate) struct Sign(PipeWriter);

impl Sign {
    /// Gives it. An error where the file system is not frozen any more.
    pub(crate) fn give(&mut self) -> io::Result<()> {
        self.0.write_all(&[0])
    }
}

/// Does something while the file system of an open directory is frozen: what writes to it waits. A child as above
/// thaws it when this returns, or this process is gone, or gives no [`Sign`] for as long as `patience`: it may be what waits,
/// which no signal ends. The error is `ETIMEDOUT` then.
pub(crate) fn while_frozen<T>(
    dir: BorrowedFd<'_>,
    patience: Duration,
    what: impl FnOnce(&mut Sign) -> T,
) -> Result<T, Errno> {
    let pipe = || io::pipe().map_err(|_| last_errno());
    let ((mut frozen, tell), (wait, release)) = (pipe()?, pipe()?);
    let fd = dir.as_raw_fd();
    let pipes = Pipes {
        tell: tell.as_raw_fd(),
        wait: wait.as_raw_fd(),
        release: release.as_raw_fd(),
        patience_ms: libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX),
    };
    // SAFETY: the child makes only async-signal-safe calls, on its own stack, and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe { freeze_in_child(fd, Some(pipes)) }
    }
    drop((tell, wait));
    let is_frozen = child > 0 && matches!(frozen.read(&mut [0u8; 1]), Ok(1));
    let mut sign = Sign(release);
    let done = is_frozen.then(|| what(&mut sign));
    drop(sign);
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

/// What a child that keeps a file system frozen has of its parent.
struct Pipes {
    /// It tells by this that the file system is frozen.
    tell: libc::c_int,
    /// Here come signs, until its end.
    wait: libc::c_int,
    /// The writing end of that.
    release: libc::c_int,
    /// How long it waits for one.
    patience_ms: libc::c_int,
}

/// Freezes and thaws; in between, if there are pipes, as long as these say.
///
/// # Safety
/// Only in a child of fork.
unsafe fn freeze_in_child(fd: libc::c_int, pipes: Option<Pipes>) -> ! {
    // SAFETY: async-signal-safe calls with valid arguments.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::setsid();
        let mut done = libc::ioctl(fd, FIFREEZE, 0) == 0;
        let mut in_time = true;
        if let (true, Some(pipes)) = (done, pipes) {
            in_time = ends_in_time(&pipes);
        }
        done = done && libc::ioctl(fd, FITHAW, 0) == 0;
        let code = match (done, in_time) {
            (true, true) => 0,
            (true, false) => libc::ETIMEDOUT,
            (false, _) => *libc::__errno_location(),
        };
        libc::_exit(code & 0xff)
    }
}

/// Tells that the file system is frozen and waits for the end. `false` if no sign came for too long.
///
/// # Safety
/// Only in a child of fork.
unsafe fn ends_in_time(pipes: &Pipes) -> bool {
    // SAFETY: async-signal-safe calls with valid arguments.
    unsafe {
        let mut bytes = [0u8; 64];
        libc::close(pipes.release);
        libc::write(pipes.tell, bytes.as_ptr().cast(), 1);
        loop {
            let mut wait = libc::pollfd {
                fd: pipes.wait,
                events: libc::POLLIN,
                revents: 0,
            };
            if libc::poll(&raw mut wait, 1, pipes.patience_ms) < 1 {
                return false;
            }
            if libc::read(pipes.wait, bytes.as_mut_ptr().cast(), bytes.len()) < 1 {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::process::{Command, Stdio};

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

    fn scratch() -> Option<Scratch> {
        match Scratch::create(&"ext4,size=32M".parse().unwrap()) {
            Ok(scratch) => Some(scratch),
            Err(e @ (HostError::NotRoot { .. } | HostError::MissingTool { .. })) => {
                fsage_testing::not_run(format_args!("failed to {e}"));
                None
            }
            Err(e) => panic!("failed to {e}"),
        }
    }

    /// Who writes to what he has frozen would wait for ever, and so would the child that thaws.
    #[test]
    fn what_gives_no_sign_has_it_thawed() {
        let Some(scratch) = scratch() else { return };
        let root = crate::fs::open_root(scratch.dir()).unwrap();
        let patience = Duration::from_millis(400);
        let done = while_frozen(root.as_fd(), patience, |sign| {
            // For twice as long.
            for _ in 0..8 {
                std::thread::sleep(patience / 4);
                sign.give().unwrap();
            }
            7
        });
        assert_eq!(done, Ok(7));
        let mut after = Ok(());
        let done = while_frozen(root.as_fd(), patience, |sign| {
            std::fs::write(scratch.dir().join("f"), "x").unwrap();
            // The child that has thawed is gone a moment later.
            std::thread::sleep(patience);
            after = sign.give();
        });
        assert_eq!(done, Err(Errno::ETIMEDOUT));
        assert_eq!(after.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(is_thawed(scratch.dir()));
        drop(root);
        scratch.close().unwrap();
    }

    #[test]
    fn a_kill_does_not_leave_it_frozen() {
        if let Some(dir) = std::env::var_os(DIR) {
            let root = crate::fs::open_root(Path::new(&dir)).unwrap();
            loop {
                freeze_and_thaw(root.as_fd()).unwrap();
            }
        }
        let Some(scratch) = scratch() else { return };
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
