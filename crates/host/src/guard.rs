//! A directory that goes even when its maker is killed.
//!
//! Nothing that runs in a process survives SIGKILL of it, so a small shell waits beside it: it ends
//! when the pipe to it closes, whoever closes it, and removes the directory.

#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::{HostError, scratch};

/// Removes the directory that is the script's argument; again while what was killed beside it still adds
/// to it, or where an ordinary user's workload made directories that nobody may enter.
const REMOVE: &str = "rm -rf -- \"$1\"; for again in 1 2 3 4 5; do [ -e \"$1\" ] || break; \
    chmod -R u+rwX -- \"$1\"; rm -rf -- \"$1\"; [ -e \"$1\" ] || break; sleep 0.2; done";

/// A shell beside this process that does one thing once this is dropped, or this process killed.
#[derive(Debug)]
pub(crate) struct Afterwards(Child);

impl Afterwards {
    /// Runs `script` afterwards with one argument, `$1`. Signals of the terminal do not reach it: it
    /// has a process group of its own. Fails where no process can be started.
    pub(crate) fn run(script: &str, argument: OsString) -> std::io::Result<Self> {
        Self::start(&format!("read -r never; {script}"), vec![argument])
    }

    /// Runs `script` at once, which waits by itself for the end of what is told through the pipe.
    pub(crate) fn told(script: &str) -> std::io::Result<Self> {
        Self::start(script, Vec::new())
    }

    fn start(script: &str, arguments: Vec<OsString>) -> std::io::Result<Self> {
        let script = format!("trap '' HUP INT TERM; {script}");
        let mut argv: Vec<OsString> = ["-c", &script, "sh"].map(OsString::from).to_vec();
        argv.extend(arguments);
        // The working directory must not keep a file system busy.
        Command::new("/bin/sh")
            .args(argv)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Afterwards {
    /// What tells it something.
    pub(crate) fn pipe(&mut self) -> Option<&mut ChildStdin> {
        self.0.stdin.as_mut()
    }

    /// It does nothing after all.
    fn call_off(&mut self) {
        // A shell that has ended already has nothing left to do.
        drop(self.0.kill());
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// A directory of fsage's own inside a directory of the user's, which only this user may enter. It is
/// removed on drop, and when the process is killed.
#[derive(Debug)]
pub struct GuardedDir {
    path: PathBuf,
    /// Locked while its owner lives, for others to see that it has one. `None` on a scratch file system,
    /// which goes with its owner and could not be unmounted while it is held open.
    _held: Option<OwnedFd>,
    guard: Afterwards,
    kept: bool,
}

impl GuardedDir {
    /// Makes a directory with a name that begins with `prefix` inside `parent`. Fails where nothing
    /// can be made there, or nothing that would remove it.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, HostError> {
        let failed = |e: std::io::Error| HostError::at("make a directory in", parent, e);
        let parent = std::path::absolute(parent).map_err(failed)?;
        let name = own_name(prefix)?;
        let path = parent.join(&name);
        // What serves a layer dies with this process: the directory is removed where it really is.
        let real =
            scratch::beneath(&parent).map_or_else(|| path.clone(), |lower| lower.join(&name));
        // Before there is a directory: what cannot be watched over is not made.
        let guard = Afterwards::run(REMOVE, real.clone().into())
            .map_err(|e| HostError::io("start what removes a directory after a kill", e))?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        if let Err(error) = made {
            let mut guard = guard;
            guard.call_off();
            return Err(failed(error));
        }
        // From here on the guard removes it, whatever fails.
        let held = match scratch::mounted_at(&real) {
            Some(_) => None,
            None => Some(hold(&real)?),
        };
        Ok(Self {
            path,
            _held: held,
            guard,
            kept: false,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory to its user, under a name that says so; returns where it is then.
    pub fn keep(mut self) -> PathBuf {
        self.guard.call_off();
        self.kept = true;
        let name = self.path.file_name().unwrap_or_default();
        let kept = name.to_string_lossy();
        let (prefix, random) = kept.rsplit_once('-').unwrap_or(("", &kept));
        let kept = self.path.with_file_name(format!("{prefix}-kept-{random}"));
        // Where it cannot be renamed it has its old name.
        match std::fs::rename(&self.path, &kept) {
            Ok(()) => kept,
            Err(_) => self.path.clone(),
        }
    }
}

impl Drop for GuardedDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // What fails here, as for want of descriptors, the guard tries again. What a workload made undeletable
        // is left for the user to see.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// How many characters of a name of fsage's own are random.
pub(crate) const RANDOM_CHARS: usize = 16;

/// A name that nothing else has: the prefix and [`RANDOM_CHARS`] hexadecimal digits.
pub(crate) fn own_name(prefix: &str) -> Result<String, HostError> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| HostError::io("choose a name", e))?;
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(random)))
}

/// Opens a directory and locks it, as a sign that its owner lives. What is kept in it may be locked otherwise
/// (flock) by whoever uses it.
fn hold(dir: &Path) -> Result<OwnedFd, HostError> {
    let held = crate::fs::open_root(dir)?;
    // File systems without locks show only the processes that use it.
    let _ = lock(&held, libc::F_OFD_SETLK, libc::F_RDLCK);
    Ok(held)
}

/// Whether a process that lives has said that a directory is its own; unsure is yes.
pub(crate) fn is_held(dir: &Path) -> bool {
    let open = crate::fs::open_root(dir);
    open.map_or(true, |open| {
        lock(&open, libc::F_OFD_GETLK, libc::F_WRLCK) != Some(libc::F_UNLCK)
    })
}

/// Sets or asks for a lock of an open file description; returns the kernel's answer, `None` if it is refused.
fn lock(file: &OwnedFd, order: libc::c_int, kind: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: plain integers, valid when zeroed; all of the file, and no process, as such locks want it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    // SAFETY: reads and writes one flock that outlives the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), order, &raw mut lock) };
    (done == 0).then(|| libc::c_int::from(lock.l_type))
}

/// Unmounts the directory that is the script's argument, unless that was done.
///
/// With -f the kernel ends the connection, so that nobody waits any more for answers; where something still
/// holds the mount, -l takes it out of sight.
const UNMOUNT: &str = "[ \"$never\" = done ] || umount -f -- \"$1\" || umount -l -- \"$1\" || \
    fusermount3 -uz -- \"$1\"";

/// Sees to it that a mount goes when this process is killed.
#[derive(Debug)]
pub struct GuardedMount {
    guard: Option<Afterwards>,
}

impl GuardedMount {
    /// Unmounts `dir` once this is dropped, if something is still mounted there, and removes it if
    /// fsage made it.
    pub fn of(dir: &Path, made: bool) -> Self {
        let script = if made {
            format!("{UNMOUNT}; rmdir -- \"$1\"")
        } else {
            UNMOUNT.to_owned()
        };
        Self {
            guard: Afterwards::run(&script, dir.into()).ok(),
        }
    }

    /// It is unmounted: what is mounted there from now on is somebody else's.
    pub fn done(mut self) {
        if let Some(pipe) = self.guard.as_mut().and_then(Afterwards::pipe) {
            // A shell that is gone does nothing either.
            drop(std::io::Write::write_all(pipe, b"done\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_drop() {
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn it_is_for_its_user_alone_and_shows_that_it_has_an_owner() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        assert!(is_held(dir.path()));
        let path = dir.keep();
        assert!(!is_held(&path));
    }

    #[test]
    fn where_nothing_can_be_made_nothing_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        assert!(GuardedDir::create(&file, ".fsage-test-").is_err());
        assert!(GuardedDir::create(&parent.path().join("none"), "x").is_err());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn it_stays_if_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let path = dir.keep();
        assert!(path.is_dir());
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(name.starts_with(".fsage-test-kept-"), "{name}");
    }

    #[test]
    fn the_guard_removes_it_when_the_pipe_closes() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("file"), b"x").unwrap();
        let guard = Afterwards::run(REMOVE, dir.clone().into()).unwrap();
        assert!(dir.exists());
        // What a kill of this process does: the write end of the pipe goes.
        drop(guard);
        assert!(!dir.exists());
    }
}
