//! A directory that goes even when its maker is killed.
//!
//! Nothing that runs in a process survives SIGKILL of it, so a small shell waits beside it: it ends
//! when the pipe to it closes, whoever closes it, and removes the directory.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::HostError;

/// Removes the directory that is the script's argument.
const REMOVE: &str = "rm -rf -- \"$1\"";

/// A shell beside this process that does one thing once this is dropped, or this process killed.
#[derive(Debug)]
pub(crate) struct Afterwards(Child);

impl Afterwards {
    /// Runs `script` afterwards with one argument, `$1`. Signals of the terminal do not reach it: it
    /// has a process group of its own. `None` where no shell can be started.
    pub(crate) fn run(script: &str, argument: OsString) -> Option<Self> {
        Self::start(&format!("read -r never; {script}"), vec![argument])
    }

    /// Runs `script` at once, which waits by itself for the end of what is told through the pipe.
    pub(crate) fn told(script: &str) -> Option<Self> {
        Self::start(script, Vec::new())
    }

    fn start(script: &str, arguments: Vec<OsString>) -> Option<Self> {
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
            .ok()
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

/// A directory of fsage's own inside a directory of the user's. It is removed on drop, and when the
/// process is killed.
#[derive(Debug)]
pub struct GuardedDir {
    path: PathBuf,
    /// `None` where no shell could be started: then only drop removes the directory.
    guard: Option<Afterwards>,
    kept: bool,
}

impl GuardedDir {
    /// Makes a directory with a name that begins with `prefix` inside `parent`. Fails where nothing
    /// can be made there.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, HostError> {
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(parent)
            .map_err(|e| HostError::at("make a directory in", parent, e))?;
        let path = dir.keep();
        let guard = Afterwards::run(REMOVE, path.clone().into());
        Ok(Self {
            path,
            guard,
            kept: false,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory where it is, for its user.
    pub fn keep(mut self) -> PathBuf {
        if let Some(guard) = &mut self.guard {
            guard.call_off();
        }
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for GuardedDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // What a workload made undeletable is left for the user to see.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// Unmounts the directory that is the script's argument, unless that was done.
const UNMOUNT: &str = "[ \"$never\" = done ] || umount -l -- \"$1\" || fusermount3 -uz -- \"$1\"";

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
            guard: Afterwards::run(&script, dir.into()),
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
    fn it_stays_if_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let path = dir.keep();
        assert!(path.is_dir());
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
