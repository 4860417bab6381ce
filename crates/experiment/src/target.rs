//! What `TARGET` means on the command line and in plans.

use std::fmt;
use std::path::{Path, PathBuf};

use fsage_disk::Launcher;
use fsage_host::scratch::{Backing, FullSpeed, Scratch, ScratchRecord, ScratchSpec};
use fsage_host::{HostError, HostFs, HostOptions};

/// A place to run, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// A directory that exists.
    Directory(PathBuf),
    /// A file system that is made for the occasion and removed after it.
    Scratch(ScratchSpec),
}

impl TargetSpec {
    /// Reads a specification: `scratch:KIND,…`, or the path of a directory.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.starts_with("scratch:") {
            let spec: ScratchSpec = text.parse()?;
            if let Backing::Disk(wanted) = &spec.backing {
                // A model that is not there should be known before anything runs.
                Launcher::check(wanted, spec.size_bytes)?;
                Launcher::this_program()?;
            }
            Ok(Self::Scratch(spec))
        } else {
            // One name for one directory in every report; what is missing is told when it is opened.
            let dir = PathBuf::from(text);
            Ok(Self::Directory(dir.canonicalize().unwrap_or(dir)))
        }
    }

    /// Makes the target ready. Nothing of a directory is changed.
    pub fn open(&self) -> Result<OpenTarget, HostError> {
        match self {
            Self::Directory(dir) => {
                let dir = dir.canonicalize().map_err(|e| {
                    HostError::io(format!("open target directory {}", dir.display()), e)
                })?;
                Ok(OpenTarget { dir, scratch: None })
            }
            Self::Scratch(spec) => {
                let launcher = Launcher::this_program()?;
                let scratch = Scratch::create_with(spec, Some(&launcher))?;
                Ok(OpenTarget {
                    dir: scratch.dir().to_owned(),
                    scratch: Some(scratch),
                })
            }
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => write!(f, "{}", dir.display()),
            Self::Scratch(spec) => write!(f, "{spec}"),
        }
    }
}

/// A target that is ready; a scratch file system goes when this is dropped.
#[derive(Debug)]
pub struct OpenTarget {
    dir: PathBuf,
    scratch: Option<Scratch>,
}

impl OpenTarget {
    /// Its root directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How a scratch file system was made; `None` for a directory.
    pub fn record(&self) -> Option<&ScratchRecord> {
        self.scratch.as_ref().map(Scratch::record)
    }

    /// Its root as a file system.
    pub fn file_system(&self, options: HostOptions) -> Result<HostFs, HostError> {
        match &self.scratch {
            Some(scratch) => scratch.open(options),
            None => HostFs::open(&self.dir, options),
        }
    }

    /// Lets an emulated disk beneath the target work at full speed until the guard is dropped, for what
    /// is no part of a measurement, such as a workload's set-up. Does nothing elsewhere.
    pub fn full_speed(&self) -> Option<FullSpeed> {
        self.scratch.as_ref().map(Scratch::full_speed)
    }

    /// What an emulated disk beneath the target has served so far and how late it was, by name; empty
    /// elsewhere.
    pub fn disk_statistics(&self) -> std::collections::BTreeMap<String, String> {
        let disk = self.scratch.as_ref().and_then(Scratch::disk);
        disk.map(|d| d.statistics()).unwrap_or_default()
    }

    /// Takes a scratch file system down now and says if that fails.
    pub fn close(self) -> Result<(), HostError> {
        self.scratch.map_or(Ok(()), Scratch::close)
    }
}
