//! Emulated disks beneath scratch file systems. What a disk is, is decided above this crate: whoever
//! makes the scratch file system brings what provides its disk.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::Arc;

use fsage_format::result::environment::EmulatedDisk;

use crate::HostError;

/// An emulated disk that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskSpec {
    /// The model's name or file.
    pub model: String,
    /// The scheduler before it; `None` for the default.
    pub scheduler: Option<String>,
    /// How it lies on the real disk; `None` for the default.
    pub span: Option<String>,
}

impl fmt::Display for DiskSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk:{}", self.model)?;
        if let Some(scheduler) = &self.scheduler {
            write!(f, ",scheduler={scheduler}")?;
        }
        if let Some(span) = &self.span {
            write!(f, ",span={span}")?;
        }
        Ok(())
    }
}

/// What makes emulated disks.
pub trait DiskProvider {
    /// A disk of that size, at full speed. Fails if there is no such model.
    fn provide(&self, wanted: &DiskSpec, size_bytes: u64) -> Result<Arc<dyn Disk>, HostError>;
}

/// An emulated disk that is there. It goes when it is dropped, and with this process.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens the file that is the disk. Its user attaches it without a cache of its own.
    fn open_image(&self) -> Result<File, HostError>;
    /// Switches the delays off, or takes back one such call: they are on when all are taken back. A
    /// disk is provided with one call made.
    fn set_delays(&self, on: bool) -> Result<(), HostError>;
    /// Whether the disk has platters: file systems look at that.
    fn rotates(&self) -> bool;
    /// What it is, for the record of an experiment.
    fn describe(&self) -> EmulatedDisk;
    /// What it has served so far, by name; empty if it is gone.
    fn statistics(&self) -> BTreeMap<String, String>;
    /// Waits until the disk has what was given to it, in the time that it takes for that. Fails with what the
    /// disk answered.
    fn drain(&self) -> Result<(), HostError>;
    /// Fails if it has died, with how.
    fn check(&self) -> Result<(), HostError>;
    /// Ends it, as its drop would.
    fn end(&self);
}

/// Full speed until dropped.
#[derive(Debug)]
#[must_use = "the delays are on again when this is dropped"]
pub struct FullSpeed(Option<Arc<dyn Disk>>);

impl FullSpeed {
    /// Switches a disk's delays off; without a disk nothing happens.
    pub(super) fn of(disk: Option<Arc<dyn Disk>>) -> Self {
        if let Some(disk) = &disk {
            // A disk that is gone has no delays.
            let _ = disk.set_delays(false);
        }
        Self(disk)
    }
}

impl Drop for FullSpeed {
    fn drop(&mut self) {
        if let Some(disk) = &self.0 {
            let _ = disk.set_delays(true);
        }
    }
}
