//! Places to run: how they are asked for, what is open, and what each can do.
//!
//! A [`Scheme`] reads a specification into a [`TargetSpec`], which opens as a [`Target`]. What only some
//! targets can do is an `Option`: nobody asks for a directory of this machine where a target has none.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{ColdMethod, FileSystem};

mod named;
mod place;
mod registry;

pub use named::split_name;
pub use place::{Subdirectory, list_dir, remove_below};
pub use registry::{Registry, Scheme};

/// Why a target could not be used; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The request cannot be met as things are.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// Why not, and what was expected.
        why: String,
    },
    /// What the target is made of failed.
    #[error("{0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TargetError {
    /// What cannot be.
    pub fn refused(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::Refused {
            what: what.into(),
            why: why.to_string(),
        }
    }
}

/// How names are kept inside a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confinement {
    /// For names that came from strangers: what would leave the root fails. On hosts every path is
    /// resolved by openat2 with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS` (`EXDEV`, `ELOOP`), and
    /// operations other than `open` take two or more system calls.
    #[default]
    Beneath,
    /// For names that fsage made itself: one plain call per operation. On hosts absolute paths fail
    /// with `EXDEV`; `..` and symbolic links are followed wherever they lead.
    Trusted,
    /// As [`Confinement::Beneath`], for very many operations: on hosts the directories that they name are kept
    /// open, so that an operation is one call. Nobody else may move directories of the root meanwhile.
    Held,
}

/// Which method is used to reach a cold state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColdPolicy {
    /// The best that the target has; on hosts a remount of an fsage scratch file system, else
    /// `drop_caches` as root, else eviction.
    #[default]
    Auto,
    /// This one or none.
    Only(ColdMethod),
}

/// How a file system is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FsOptions {
    /// How names are kept inside.
    pub confinement: Confinement,
    /// How a cold state is reached.
    pub cold: ColdPolicy,
}

impl FsOptions {
    /// For names that fsage made itself.
    pub const TRUSTED: Self = Self {
        confinement: Confinement::Trusted,
        cold: ColdPolicy::Auto,
    };
}

/// Told how far a preparation is: work done and in all, and steps that a user knows, likewise.
pub type Preparing<'a> = &'a mut dyn FnMut((u64, u64), (u64, u64));

/// A target as it is asked for. It displays as the specification that reads back as the same.
pub trait TargetSpec: fmt::Debug + fmt::Display + Send + Sync {
    /// The name that its specification gives it.
    fn given_name(&self) -> Option<String> {
        None
    }

    /// What it is called: the name that its specification gives it, else that.
    fn name(&self) -> String {
        self.given_name().unwrap_or_else(|| self.to_string())
    }

    /// Whether it is made for the occasion and gone after it, with all that is in it.
    fn is_temporary(&self) -> bool;

    /// Whether something is mounted for it that nobody else should see.
    fn wants_isolation(&self) -> bool {
        false
    }

    /// Whether it will have a directory of this machine ([`Root::host_dir`]): commands run in one, and
    /// the kernel's tracers see only what happens in one.
    fn has_host_dir(&self) -> bool {
        false
    }

    /// Whether its time is computed ([`FileSystem::virtual_time`]).
    fn has_virtual_time(&self) -> bool {
        false
    }

    /// Whether its caches can be made cold, as far as that is known without changing anything: what lies in memory
    /// alone is never cold.
    fn can_be_cold(&self) -> bool {
        true
    }

    /// The files and directories of this machine that it uses, those of what it lies on too. A stranger's plan must be
    /// allowed them, and no result may take the place of such a file.
    fn uses(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// How much it can hold, bytes, where that is known.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether it can be opened, as far as that is known without changing anything.
    fn check(&self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Makes what takes long and is kept, so that nobody waits for it when it is opened; opening does it else.
    fn prepare(&self, _progress: Preparing<'_>) -> Result<(), TargetError> {
        Ok(())
    }

    /// Makes it ready.
    fn open(&self) -> Result<Box<dyn Target>, TargetError>;

    /// What restores it from an image, where that can be done.
    fn images(&self) -> Option<&dyn Images> {
        None
    }
}

/// Restores a target from the image of a whole file system.
pub trait Images {
    /// Whether a file is such an image; it is not written.
    fn check(&self, image: &Path) -> Result<(), TargetError>;

    /// Copies an image to where the target's file system lies.
    fn restore(
        &self,
        image: &Path,
        stop: &AtomicBool,
    ) -> Result<Box<dyn RestoredImage>, TargetError>;
}

/// A target that is restored and not ready yet.
pub trait RestoredImage {
    /// Bytes of data that were copied.
    fn copied_bytes(&self) -> u64;

    /// Makes the target ready on it.
    fn open(self: Box<Self>) -> Result<Box<dyn Target>, TargetError>;
}

/// A directory of a target.
pub trait Root: fmt::Debug + Send + Sync {
    /// The directory as a file system. It may be opened often, and be open while the target is made cold.
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError>;

    /// The same directory on this machine, where there is one: a command runs there, and the kernel's
    /// tracers see what happens below it.
    fn host_dir(&self) -> Option<&Path> {
        None
    }
}

/// What is recorded of a target that has no directory on this machine to be looked at, and what else is
/// known of one that has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The type of the file system.
    pub file_system: Option<String>,
    /// What decides how it behaves, by name.
    pub parameters: BTreeMap<String, String>,
    /// Whether it lies in memory alone, so that nothing of it is ever cold.
    pub in_memory: bool,
    /// How it was aged, in words.
    pub aged: Option<String>,
}

/// A target that is ready, as the directory at its root. What was made for it goes when it is dropped.
pub trait Target: Root {
    /// Whether it is made for the occasion, with all that is in it and its device.
    fn is_temporary(&self) -> bool;

    /// What it is, for records of measurements.
    fn describe(&self) -> Description {
        Description::default()
    }

    /// A fresh directory below the root, with a name that begins with `prefix`.
    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        let fs = self.file_system(FsOptions::TRUSTED)?;
        Ok(Box::new(Subdirectory::create(fs, prefix)?))
    }

    /// What it slows or changes otherwise, where it lies over another target.
    fn beneath(&self) -> Option<&dyn Target> {
        None
    }

    /// Lets it work as fast as it can until the guard is dropped, for what is no part of a measurement,
    /// such as a workload's set-up. `None` where there is nothing to hurry.
    fn full_speed(&self) -> Option<Box<dyn Send>> {
        None
    }

    /// What serves it has done so far, by name.
    fn statistics(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Writes back what is cached, until the device has it, in the time that takes.
    fn write_back(&self) -> Result<(), TargetError> {
        let fs = self.file_system(FsOptions::default())?;
        fs.sync().map_err(|errno| {
            TargetError::refused(format!("write back what is cached of {}", fs.name()), errno)
        })
    }

    /// Fails with what has died of that which serves the target.
    fn served(&self) -> Result<(), TargetError> {
        Ok(())
    }

    /// Takes down now what was made for it and says if that fails.
    fn close(self: Box<Self>) -> Result<(), TargetError>;
}

impl dyn Target + '_ {
    /// Whether all that was written has arrived: writes it back, at full speed. Fails with what was lost,
    /// and first with what has died of that which serves the target. For the end of what is measured: a
    /// workload whose files never leave the page cache does not meet the errors of a dead disk.
    pub fn check(&self) -> Result<(), TargetError> {
        let _full_speed = self.full_speed();
        let written = self.write_back();
        // What has died explains the errors.
        self.served()?;
        written
    }

    /// The error, or what has died of that which serves the target, which explains it.
    pub fn explain<E: From<TargetError>>(&self, error: E) -> E {
        self.served().map_or_else(E::from, |()| error)
    }
}

/// A directory of fsage's own below a target's root. It goes with all that is in it when this is dropped.
pub trait Place: Root {
    /// Removes what is in it.
    fn clear(&self) -> Result<(), TargetError>;

    /// Leaves it to its user, under a name that says so; returns where it is then.
    fn keep(self: Box<Self>) -> PathBuf;
}
