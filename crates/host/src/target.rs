//! What hosts add to targets: errors, a directory of fsage's own as a place, and what a target is, for
//! records of measurements.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsage_core::{FileSystem, FsOptions, Place, Root, Target, TargetError};
use fsage_format::result::environment::{Environment, TargetRecord};

use crate::guard::GuardedDir;
use crate::{HostError, HostFs, environment, remove};

impl From<HostError> for TargetError {
    fn from(error: HostError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl Root for GuardedDir {
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        Ok(Arc::new(HostFs::open(self.path(), options)?))
    }

    fn host_dir(&self) -> Option<&Path> {
        Some(self.path())
    }
}

impl Place for GuardedDir {
    fn clear(&self) -> Result<(), TargetError> {
        Ok(remove::contents(self.path())?)
    }

    fn keep(self: Box<Self>) -> PathBuf {
        GuardedDir::keep(*self)
    }
}

/// The machine and a target on it that is called `name`; of a target whose time is computed the target
/// alone, as nothing of the machine decides what is measured there. The caller adds how it measured.
pub fn describe(target: &dyn Target, name: &str) -> Result<Environment, TargetError> {
    let fs = target.file_system(FsOptions::default())?;
    Ok(Environment {
        machine: match fs.virtual_time() {
            Some(_) => environment::no_machine(),
            None => environment::machine(),
        },
        target: record(target, name)?,
    })
}

/// A target that is called `name` and what is beneath it. The caller adds what was restored on it, and how
/// it was aged.
pub fn record(target: &dyn Target, name: &str) -> Result<TargetRecord, TargetError> {
    let about = target.describe();
    let fs = target.file_system(FsOptions::default())?;
    let mut found = match HostFs::of(target) {
        Some(fs) => environment::target(&fs?, name),
        None => environment::space(&*fs),
    };
    found.virtual_time = fs.virtual_time().is_some();
    name.clone_into(&mut found.target);
    found.scratch = target.is_temporary();
    found.file_system = about.file_system.or(found.file_system);
    found.parameters.extend(about.parameters);
    found.in_memory |= about.in_memory;
    found.aged = about.aged;
    Ok(found)
}

/// The options of mkfs with which a target's file system was made, where fsage made it.
pub fn mkfs_options(target: &dyn Target) -> Option<String> {
    let made = HostFs::of(target)?.ok()?.made()?;
    Some(made.record().mkfs_options.clone())
}
