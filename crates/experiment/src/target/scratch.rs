//! A file system that is made for the occasion and removed after it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsage_core::target::{Description, Images, RestoredImage};
use fsage_core::{
    FileSystem, FsOptions, Place, Registry, Root, Scheme, Target, TargetError, TargetSpec,
};
use fsage_disk::Launcher;
use fsage_host::scratch::{Backing, Image, Restored, Scratch, ScratchSpec, about_image};

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
        uses(&self.0)
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.0.size_bytes)
    }

    /// A model that is not there should be known before anything runs.
    fn check(&self) -> Result<(), TargetError> {
        check(&self.0)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        let launcher = Launcher::this_program()?;
        let scratch = Scratch::create_with(&self.0, Some(&launcher))?;
        Ok(Box::new(ScratchTarget {
            scratch,
            aged: None,
        }))
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
        restored(&self.0, image, stop)
    }
}

/// The files and directories of this machine that a scratch file system uses.
pub(super) fn uses(spec: &ScratchSpec) -> Vec<PathBuf> {
    match &spec.backing {
        Backing::File(dir) => vec![dir.clone()],
        // A name without a dot is one of fsage's own.
        Backing::Disk(disk) if disk.model.contains('.') => vec![disk.model.clone().into()],
        Backing::Ram | Backing::Disk(_) => Vec::new(),
    }
}

/// Whether it can be made, as far as is known.
pub(super) fn check(spec: &ScratchSpec) -> Result<(), TargetError> {
    if let Backing::Disk(wanted) = &spec.backing {
        Launcher::check(wanted, spec.size_bytes)?;
        Launcher::this_program()?;
    }
    Ok(())
}

/// Copies an image to where a scratch file system lies.
pub(super) fn restored(
    spec: &ScratchSpec,
    image: &Path,
    stop: &AtomicBool,
) -> Result<Box<dyn RestoredImage>, TargetError> {
    let launcher = Launcher::this_program()?;
    let copied = Restored::copy(spec, Some(&launcher), image, stop)?;
    let aged = about_image(image)?.head.and_then(|head| head.aged);
    Ok(Box::new(Copied {
        copied,
        aged: aged.map(|aged| aged.in_words()),
    }))
}

struct Copied {
    copied: Restored,
    aged: Option<String>,
}

impl RestoredImage for Copied {
    fn copied_bytes(&self) -> u64 {
        self.copied.copied_bytes
    }

    fn open(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        let (scratch, aged) = (self.copied.mount()?, self.aged);
        Ok(Box::new(ScratchTarget { scratch, aged }))
    }
}

#[derive(Debug)]
struct ScratchTarget {
    scratch: Scratch,
    /// How it was aged, if it came from an image that says so.
    aged: Option<String>,
}

impl Root for ScratchTarget {
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        directory::file_system(self.scratch.dir(), options)
    }

    fn host_dir(&self) -> Option<&Path> {
        Some(self.scratch.dir())
    }
}

impl Target for ScratchTarget {
    fn is_temporary(&self) -> bool {
        true
    }

    fn describe(&self) -> Description {
        Description {
            aged: self.aged.clone(),
            ..Description::default()
        }
    }

    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        directory::place(self.scratch.dir(), prefix)
            .map_err(|error| (self as &dyn Target).explain(error))
    }

    fn full_speed(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.scratch.full_speed()))
    }

    fn statistics(&self) -> BTreeMap<String, String> {
        self.scratch
            .disk()
            .map(|disk| disk.statistics())
            .unwrap_or_default()
    }

    fn write_back(&self) -> Result<(), TargetError> {
        directory::write_back(self.scratch.dir())?;
        // Not every file system flushes its device.
        self.scratch.disk().map_or(Ok(()), |disk| disk.drain())?;
        Ok(())
    }

    fn served(&self) -> Result<(), TargetError> {
        self.scratch.disk().map_or(Ok(()), |disk| disk.check())?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        Ok(self.scratch.close()?)
    }
}
