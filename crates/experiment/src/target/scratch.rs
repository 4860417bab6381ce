//! A file system that is made for the occasion and removed after it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsage_core::target::{Images, RestoredImage};
use fsage_core::{
    FileSystem, FsOptions, Place, Registry, Root, Scheme, Target, TargetError, TargetSpec,
};
use fsage_disk::Launcher;
use fsage_host::scratch::{Backing, Image, Restored, Scratch, ScratchSpec};

use super::directory;

const PREFIX: &str = "scratch:";

pub(super) struct ScratchScheme;

impl Scheme for ScratchScheme {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn form(&self) -> &'static str {
        "scratch:KIND,…"
    }

    fn help(&self) -> &'static str {
        "a file system made and removed (root), as scratch:ext4,size=2G"
    }

    fn parse(&self, rest: &str, _: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        Ok(Arc::new(Spec(format!("{PREFIX}{rest}").parse()?)))
    }
}

#[derive(Debug)]
struct Spec(ScratchSpec);

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TargetSpec for Spec {
    fn given_name(&self) -> Option<String> {
        self.0.name.clone()
    }

    fn is_temporary(&self) -> bool {
        true
    }

    fn wants_isolation(&self) -> bool {
        true
    }

    fn has_host_dir(&self) -> bool {
        true
    }

    fn uses(&self) -> Vec<PathBuf> {
        match &self.0.backing {
            Backing::File(dir) => vec![dir.clone()],
            // A name without a dot is one of fsage's own.
            Backing::Disk(disk) if disk.model.contains('.') => vec![disk.model.clone().into()],
            Backing::Ram | Backing::Disk(_) => Vec::new(),
        }
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.0.size_bytes)
    }

    /// A model that is not there should be known before anything runs.
    fn check(&self) -> Result<(), TargetError> {
        if let Backing::Disk(wanted) = &self.0.backing {
            Launcher::check(wanted, self.0.size_bytes)?;
            Launcher::this_program()?;
        }
        Ok(())
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        let launcher = Launcher::this_program()?;
        let scratch = Scratch::create_with(&self.0, Some(&launcher))?;
        Ok(Box::new(ScratchTarget(scratch)))
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }
}

impl Images for Spec {
    fn check(&self, image: &Path) -> Result<(), TargetError> {
        Image::open(&self.0, image)?;
        Ok(())
    }

    fn restore(
        &self,
        image: &Path,
        stop: &AtomicBool,
    ) -> Result<Box<dyn RestoredImage>, TargetError> {
        let launcher = Launcher::this_program()?;
        let restored = Restored::copy(&self.0, Some(&launcher), image, stop)?;
        Ok(Box::new(Copied(restored)))
    }
}

struct Copied(Restored);

impl RestoredImage for Copied {
    fn copied_bytes(&self) -> u64 {
        self.0.copied_bytes
    }

    fn open(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(ScratchTarget(self.0.mount()?)))
    }
}

#[derive(Debug)]
struct ScratchTarget(Scratch);

impl Root for ScratchTarget {
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        directory::file_system(self.0.dir(), options)
    }

    fn host_dir(&self) -> Option<&Path> {
        Some(self.0.dir())
    }
}

impl Target for ScratchTarget {
    fn is_temporary(&self) -> bool {
        true
    }

    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        directory::place(self.0.dir(), prefix).map_err(|error| (self as &dyn Target).explain(error))
    }

    fn full_speed(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.0.full_speed()))
    }

    fn statistics(&self) -> BTreeMap<String, String> {
        self.0
            .disk()
            .map(|disk| disk.statistics())
            .unwrap_or_default()
    }

    fn write_back(&self) -> Result<(), TargetError> {
        directory::write_back(self.0.dir())?;
        // Not every file system flushes its device.
        self.0.disk().map_or(Ok(()), |disk| disk.drain())?;
        Ok(())
    }

    fn served(&self) -> Result<(), TargetError> {
        self.0.disk().map_or(Ok(()), |disk| disk.check())?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        Ok(self.0.close()?)
    }
}
