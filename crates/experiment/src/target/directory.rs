//! A directory of this machine as a target.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsage_core::{
    FileSystem, FsOptions, Place, Registry, Root, Scheme, Target, TargetError, TargetSpec,
};
use fsage_host::guard::GuardedDir;
use fsage_host::{HostError, HostFs};

pub(super) struct DirectoryScheme;

impl Scheme for DirectoryScheme {
    fn prefix(&self) -> &'static str {
        ""
    }

    fn form(&self) -> &'static str {
        "DIR"
    }

    fn help(&self) -> &'static str {
        "a directory, in which a new one is made, used and removed"
    }

    fn parse(&self, rest: &str, _: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        Ok(spec(Path::new(rest)))
    }
}

/// A directory as a target that is asked for.
pub fn spec(dir: &Path) -> Arc<dyn TargetSpec> {
    // One name for one directory in every report; what is missing is told when it is opened.
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    Arc::new(DirectorySpec(dir))
}

/// A directory as a target. Nothing in it is changed.
pub fn open(dir: &Path) -> Result<Box<dyn Target>, TargetError> {
    let found = dir.canonicalize();
    let found = found.and_then(|found| found.read_dir().map(|_| found));
    let dir = found.map_err(|e| HostError::at("open target directory", dir, e))?;
    Ok(Box::new(Directory(dir)))
}

#[derive(Debug)]
struct DirectorySpec(PathBuf);

impl fmt::Display for DirectorySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl TargetSpec for DirectorySpec {
    fn is_temporary(&self) -> bool {
        false
    }

    fn has_host_dir(&self) -> bool {
        true
    }

    fn can_be_cold(&self) -> bool {
        !fsage_host::cold::is_memory_only(&self.0)
    }

    fn uses(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }

    fn check(&self) -> Result<(), TargetError> {
        open(&self.0).map(drop)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        open(&self.0)
    }
}

#[derive(Debug)]
struct Directory(PathBuf);

impl Root for Directory {
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        file_system(&self.0, options)
    }

    fn host_dir(&self) -> Option<&Path> {
        Some(&self.0)
    }
}

impl Target for Directory {
    fn is_temporary(&self) -> bool {
        false
    }

    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        place(&self.0, prefix)
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        Ok(())
    }
}

/// A directory as a file system, for all targets that have one.
pub(super) fn file_system(
    dir: &Path,
    options: FsOptions,
) -> Result<Arc<dyn FileSystem>, TargetError> {
    Ok(Arc::new(HostFs::open(dir, options)?))
}

/// A fresh directory that goes also if this process is killed.
pub(super) fn place(dir: &Path, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
    Ok(Box::new(GuardedDir::create(dir, prefix)?))
}

/// Writes back what is cached of the file system that holds a directory.
pub(super) fn write_back(dir: &Path) -> Result<(), TargetError> {
    let fs = HostFs::open(dir, FsOptions::default())?;
    let failed = |errno| {
        let what = format!("write back what is cached of {}", dir.display());
        TargetError::refused(what, errno)
    };
    fs.sync().map_err(failed)
}
