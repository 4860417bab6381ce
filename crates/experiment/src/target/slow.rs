//! Another target with chosen operations slowed down.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fsage_core::target::{Description, Images, Preparing, RestoredImage};
use fsage_core::{
    FileSystem, FsOptions, Place, Registry, Root, Scheme, Target, TargetError, TargetSpec,
};
use fsage_host::scratch::Layered;
use fsage_slowfs::{Launcher, Slowing};

use super::directory;

const PREFIX: &str = "slow:";

pub(super) struct SlowScheme;

impl Scheme for SlowScheme {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn form(&self) -> &'static str {
        "slow:OPERATION=FACTOR,…:TARGET"
    }

    fn help(&self) -> &'static str {
        "another target, slowed down"
    }

    fn parse(&self, rest: &str, schemes: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        let refused =
            |why: String| TargetError::refused(format!("read target `{PREFIX}{rest}`"), why);
        // No slowing holds a colon.
        let (slowing, lower) = rest.split_once(':').unwrap_or((rest, ""));
        if lower.is_empty() || slowing.is_empty() {
            let why = "expected slow:SLOWING:TARGET, as slow:read=32,lookup=4:scratch:ext4, or \
                       slow:none:TARGET to compare with";
            return Err(refused(why.to_owned()));
        }
        let slowing = slowing.parse().map_err(|e| refused(format!("{e}")))?;
        if lower.starts_with(PREFIX) {
            return Err(refused(
                "expected a target that is not slowed itself".into(),
            ));
        }
        let lower = schemes.parse(lower)?;
        if !lower.has_host_dir() {
            return Err(refused(format!(
                "{lower} has no directory on this machine that could be served again, expected a \
                 target that has one"
            )));
        }
        Ok(Arc::new(Spec { slowing, lower }))
    }
}

#[derive(Debug)]
struct Spec {
    slowing: Slowing,
    lower: Arc<dyn TargetSpec>,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}:{}", self.slowing, self.lower)
    }
}

impl TargetSpec for Spec {
    fn given_name(&self) -> Option<String> {
        self.lower.given_name()
    }

    fn is_temporary(&self) -> bool {
        self.lower.is_temporary()
    }

    /// What an ordinary user can mount needs no such thing.
    fn wants_isolation(&self) -> bool {
        self.lower.wants_isolation() || rustix::process::geteuid().is_root()
    }

    fn has_host_dir(&self) -> bool {
        true
    }

    fn can_be_cold(&self) -> bool {
        self.lower.can_be_cold()
    }

    fn uses(&self) -> Vec<PathBuf> {
        self.lower.uses()
    }

    fn size_bytes(&self) -> Option<u64> {
        self.lower.size_bytes()
    }

    fn check(&self) -> Result<(), TargetError> {
        self.lower.check()
    }

    fn prepare(&self, progress: Preparing<'_>) -> Result<(), TargetError> {
        self.lower.prepare(progress)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        slowed(self.lower.open()?, &self.slowing)
    }

    fn images(&self) -> Option<&dyn Images> {
        self.lower.images().map(|_| self as &dyn Images)
    }
}

impl Spec {
    fn lower_images(&self) -> Result<&dyn Images, TargetError> {
        let none = || TargetError::refused(format!("restore {}", self.lower), "it has no image");
        self.lower.images().ok_or_else(none)
    }
}

impl Images for Spec {
    fn check(&self, image: &Path) -> Result<(), TargetError> {
        self.lower_images()?.check(image)
    }

    fn restore(
        &self,
        image: &Path,
        stop: &AtomicBool,
    ) -> Result<Box<dyn RestoredImage>, TargetError> {
        Ok(Box::new(Copied {
            slowing: self.slowing.clone(),
            lower: self.lower_images()?.restore(image, stop)?,
        }))
    }
}

struct Copied {
    slowing: Slowing,
    lower: Box<dyn RestoredImage>,
}

impl RestoredImage for Copied {
    fn copied_bytes(&self) -> u64 {
        self.lower.copied_bytes()
    }

    fn open(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        slowed(self.lower.open()?, &self.slowing)
    }
}

fn slowed(lower: Box<dyn Target>, slowing: &Slowing) -> Result<Box<dyn Target>, TargetError> {
    let none = || TargetError::refused(format!("slow {lower:?}"), "it has no directory");
    let dir = lower.host_dir().ok_or_else(none)?;
    let layer = Launcher::this_program()?.launch(dir, slowing)?;
    Ok(Box::new(Slowed { layer, lower }))
}

/// The layer is dropped first.
#[derive(Debug)]
struct Slowed {
    layer: Layered,
    lower: Box<dyn Target>,
}

impl Root for Slowed {
    fn file_system(&self, options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        directory::file_system(self.layer.dir(), options)
            .map_err(|error| (self as &dyn Target).explain(error))
    }

    fn host_dir(&self) -> Option<&Path> {
        Some(self.layer.dir())
    }
}

impl Target for Slowed {
    fn is_temporary(&self) -> bool {
        self.lower.is_temporary()
    }

    fn place(&self, prefix: &str) -> Result<Box<dyn Place>, TargetError> {
        directory::place(self.layer.dir(), prefix)
            .map_err(|error| (self as &dyn Target).explain(error))
    }

    fn describe(&self) -> Description {
        Description {
            aged: self.lower.describe().aged,
            ..Description::default()
        }
    }

    fn beneath(&self) -> Option<&dyn Target> {
        Some(&*self.lower)
    }

    fn full_speed(&self) -> Option<Box<dyn Send>> {
        self.lower.full_speed()
    }

    fn statistics(&self) -> BTreeMap<String, String> {
        let mut statistics = self.lower.statistics();
        statistics.extend(self.layer.statistics());
        statistics
    }

    fn write_back(&self) -> Result<(), TargetError> {
        directory::write_back(self.layer.dir())?;
        self.lower.write_back()
    }

    fn served(&self) -> Result<(), TargetError> {
        self.layer.check()?;
        self.lower.served()
    }

    fn close(self: Box<Self>) -> Result<(), TargetError> {
        let unmounted = self.layer.close().map_err(TargetError::from);
        unmounted.and(self.lower.close())
    }
}
