//! A directory that goes even when its maker is killed.
//!
//! Nothing that runs in a process survives SIGKILL of it, so a small shell waits beside it: it ends
//! when the pipe to it closes, whoever closes it, and removes the directory.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
        let script = format!("trap '' HUP INT TERM; read -r never; {script}");
        let mut argv: Vec<OsString> = ["-c", &script, "sh"].map(OsString::from).to_vec();
        argv.push(argument);
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
    _guard: Option<Afterwards>,
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
            _guard: guard,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for GuardedDir {
    fn drop(&mut self) {
        // What a workload made undeletable is left for the user to see.
        drop(std::fs::remove_dir_all(&self.path));
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
