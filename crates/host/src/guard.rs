//! A directory that goes even when its maker is killed.
//!
//! Nothing that runs in a process survives SIGKILL of it, so a small shell waits beside it: it ends
//! when the pipe to it closes, whoever closes it, and removes the directory.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::HostError;

/// Waits for the end of its input, then removes the directory that is its argument. Signals of the
/// terminal do not reach it: it has a process group of its own.
const WAIT_AND_REMOVE: &str = "trap '' HUP INT TERM; read -r never; rm -rf -- \"$1\"";

/// A directory of fsage's own inside a directory of the user's. It is removed on drop, and when the
/// process is killed.
#[derive(Debug)]
pub struct GuardedDir {
    path: PathBuf,
    /// `None` where no shell could be started: then only drop removes the directory.
    guard: Option<Child>,
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
        let mut argv: Vec<OsString> = ["-c", WAIT_AND_REMOVE, "sh"].map(OsString::from).to_vec();
        argv.push(path.clone().into());
        // The working directory must not keep a file system busy.
        let guard = Command::new("/bin/sh")
            .args(argv)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok();
        Ok(Self { path, guard })
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
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            drop(guard.wait());
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
    fn the_guard_removes_it_when_the_pipe_closes() {
        let parent = tempfile::tempdir().unwrap();
        let mut dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        // What a kill of this process does: the write end of the pipe goes.
        let mut guard = dir.guard.take().unwrap();
        drop(guard.stdin.take());
        assert!(guard.wait().unwrap().success());
        assert!(!dir.path().exists());
    }
}
