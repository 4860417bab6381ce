//! Which operations are wanted.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use fsage_core::DevId;

use super::names::is_under;
use crate::CaptureError;

/// Files below some directories; everything if there are none.
#[derive(Debug, Default)]
pub(super) struct Filter {
    directories: Vec<Vec<u8>>,
    /// Devices that are mounted on one of the directories: all that is on them is below it.
    devices: Vec<DevId>,
}

impl Filter {
    pub(super) fn new(under: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut filter = Self::default();
        for directory in under {
            let failed = |e| CaptureError::io(format!("find directory {}", directory.display()), e);
            let directory = directory.canonicalize().map_err(failed)?;
            let dev = directory.metadata().map_err(failed)?.dev();
            let above = directory.parent().and_then(|parent| parent.metadata().ok());
            if above.is_some_and(|above| above.dev() != dev) {
                filter.devices.push(DevId(dev));
            }
            filter
                .directories
                .push(directory.as_os_str().as_bytes().to_vec());
        }
        Ok(filter)
    }

    pub(super) fn takes_all(&self) -> bool {
        self.directories.is_empty()
    }

    pub(super) fn takes_path(&self, path: &[u8]) -> bool {
        self.directories
            .iter()
            .any(|directory| is_under(path, directory))
    }

    pub(super) fn takes_device(&self, dev: DevId) -> bool {
        self.devices.contains(&dev)
    }
}
