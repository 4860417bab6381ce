//! What `TARGET` means on the command line and in plans.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fsage_core::FileSystem;
use fsage_disk::Launcher;
use fsage_host::scratch::{
    Backing, FullSpeed, Layered, Restored, Scratch, ScratchRecord, ScratchSpec,
};
use fsage_host::{HostError, HostFs, HostOptions};
use fsage_slowfs::Slowing;

const SCRATCH: &str = "scratch:";
const SLOW: &str = "slow:";

/// A place to run, as it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetSpec {
    /// A directory that exists.
    Directory(PathBuf),
    /// A file system that is made for the occasion and removed after it.
    Scratch(ScratchSpec),
    /// Another target with chosen operations slowed down.
    Slow(Slowing, Box<TargetSpec>),
}

// Factors are numbers, never NaN.
impl Eq for TargetSpec {}

impl TargetSpec {
    /// Reads a specification: `scratch:KIND,…`, `slow:OPERATION=FACTOR,…:TARGET`, or the path of a
    /// directory.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.starts_with(SCRATCH) {
            let spec: ScratchSpec = text.parse()?;
            if let Backing::Disk(wanted) = &spec.backing {
                // A model that is not there should be known before anything runs.
                Launcher::check(wanted, spec.size_bytes)?;
                Launcher::this_program()?;
            }
            Ok(Self::Scratch(spec))
        } else if let Some(rest) = text.strip_prefix(SLOW) {
            Self::slowed(text, rest)
        } else {
            // One name for one directory in every report; what is missing is told when it is opened.
            let dir = PathBuf::from(text);
            Ok(Self::Directory(dir.canonicalize().unwrap_or(dir)))
        }
    }

    fn slowed(text: &str, rest: &str) -> Result<Self, HostError> {
        let refused = |why: String| HostError::Refused {
            what: format!("read target `{text}`"),
            why,
        };
        // No slowing holds a colon.
        let (slowing, lower) = rest.split_once(':').unwrap_or((rest, ""));
        if lower.is_empty() || slowing.is_empty() {
            let why = "expected slow:SLOWING:TARGET, as slow:read=32,lookup=4:scratch:ext4, or \
                       slow:none:TARGET to compare with";
            return Err(refused(why.to_owned()));
        }
        let slowing = slowing.parse().map_err(|e| refused(format!("{e}")))?;
        if lower.starts_with(SLOW) {
            return Err(refused(
                "expected a target that is not slowed itself".into(),
            ));
        }
        Ok(Self::Slow(slowing, Box::new(Self::parse(lower)?)))
    }

    /// Whether it is made for the occasion and gone after it, with all that is in it.
    pub fn is_temporary(&self) -> bool {
        self.scratch().is_some()
    }

    /// The scratch file system at its bottom; `None` for a directory.
    pub fn scratch(&self) -> Option<&ScratchSpec> {
        match self {
            Self::Directory(_) => None,
            Self::Scratch(spec) => Some(spec),
            Self::Slow(_, lower) => lower.scratch(),
        }
    }

    /// The name that its specification gives it.
    pub fn given_name(&self) -> Option<String> {
        self.scratch()?.name.clone()
    }

    /// What it is called: the name that its specification gives it, else that.
    pub fn name(&self) -> String {
        self.given_name().unwrap_or_else(|| self.to_string())
    }

    /// Whether something is mounted for it, which should happen after [`fsage_host::isolate`]. What an
    /// ordinary user can mount needs no such thing.
    pub fn wants_isolation(&self) -> bool {
        match self {
            Self::Directory(_) => false,
            Self::Scratch(_) => true,
            Self::Slow(_, lower) => lower.wants_isolation() || rustix::process::geteuid().is_root(),
        }
    }

    /// Makes the target ready. Nothing of a directory is changed.
    pub fn open(&self) -> Result<OpenTarget, HostError> {
        match self {
            Self::Directory(dir) => {
                let dir = dir.canonicalize().map_err(|e| {
                    HostError::io(format!("open target directory {}", dir.display()), e)
                })?;
                Ok(OpenTarget {
                    dir,
                    layer: None,
                    scratch: None,
                })
            }
            Self::Scratch(spec) => {
                let launcher = Launcher::this_program()?;
                let scratch = Scratch::create_with(spec, Some(&launcher))?;
                Ok(OpenTarget::of_scratch(scratch))
            }
            Self::Slow(slowing, lower) => lower.open()?.slowed(slowing),
        }
    }

    /// Copies an image to where its scratch file system lies; [`TargetSpec::open_restored`] goes on. Fails for a
    /// directory.
    pub fn restore(&self, image: &Path, stop: &AtomicBool) -> Result<Restored, HostError> {
        let spec = self.scratch().ok_or_else(|| HostError::Refused {
            what: format!("restore {} on {self}", image.display()),
            why: "it is a directory, expected a scratch: target".into(),
        })?;
        Restored::copy(spec, Some(&Launcher::this_program()?), image, stop)
    }

    /// Makes the target ready on a copy of an image.
    pub fn open_restored(&self, restored: Restored) -> Result<OpenTarget, HostError> {
        match self {
            Self::Slow(slowing, lower) => lower.open_restored(restored)?.slowed(slowing),
            Self::Directory(_) | Self::Scratch(_) => Ok(OpenTarget::of_scratch(restored.mount()?)),
        }
    }
}

/// Whether a target that is known only by its specification was made for the occasion, as
/// [`TargetSpec::is_temporary`] tells of one that can be opened here.
pub fn told_temporary(spec: &str) -> bool {
    let lower = spec
        .strip_prefix(SLOW)
        .and_then(|rest| rest.split_once(':'));
    lower.map_or(spec, |(_, lower)| lower).starts_with(SCRATCH)
}

/// What a target is called that is known only by its specification, as [`TargetSpec::name`] tells it.
pub fn told_name(spec: &str) -> String {
    TargetSpec::parse(spec).map_or_else(|_| spec.to_owned(), |target| target.name())
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => write!(f, "{}", dir.display()),
            Self::Scratch(spec) => write!(f, "{spec}"),
            Self::Slow(slowing, lower) => write!(f, "{SLOW}{slowing}:{lower}"),
        }
    }
}

/// A target that is ready; what was made for it goes when this is dropped, from the top.
#[derive(Debug)]
pub struct OpenTarget {
    dir: PathBuf,
    layer: Option<Layered>,
    scratch: Option<Scratch>,
}

impl OpenTarget {
    fn of_scratch(scratch: Scratch) -> Self {
        Self {
            dir: scratch.dir().to_owned(),
            layer: None,
            scratch: Some(scratch),
        }
    }

    /// The same, slowed.
    fn slowed(self, slowing: &Slowing) -> Result<Self, HostError> {
        let launcher = fsage_slowfs::Launcher::this_program()?;
        let layer = launcher.launch(&self.dir, slowing)?;
        Ok(Self {
            dir: layer.dir().to_owned(),
            layer: Some(layer),
            scratch: self.scratch,
        })
    }

    /// Its root directory below whatever slows it.
    pub fn lower_dir(&self) -> &Path {
        self.scratch.as_ref().map_or(&self.dir, Scratch::dir)
    }

    /// Its root directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How a scratch file system was made, also where it is slowed; `None` for a directory.
    pub fn record(&self) -> Option<&ScratchRecord> {
        self.scratch.as_ref().map(Scratch::record)
    }

    /// Its root as a file system.
    pub fn file_system(&self, options: HostOptions) -> Result<HostFs, HostError> {
        HostFs::open(&self.dir, options)
    }

    /// Lets an emulated disk beneath the target work at full speed until the guard is dropped, for what
    /// is no part of a measurement, such as a workload's set-up. Does nothing elsewhere.
    pub fn full_speed(&self) -> Option<FullSpeed> {
        self.scratch.as_ref().map(Scratch::full_speed)
    }

    /// What an emulated disk beneath the target has served so far and how late it was, and what was slowed
    /// and by how much, by name; empty elsewhere.
    pub fn disk_statistics(&self) -> BTreeMap<String, String> {
        let disk = self.scratch.as_ref().and_then(Scratch::disk);
        let mut statistics = disk.map(|d| d.statistics()).unwrap_or_default();
        statistics.extend(self.layer.iter().flat_map(Layered::statistics));
        statistics
    }

    /// Whether all that was written has arrived: writes it back, an emulated disk at full speed. Fails with what
    /// was lost, and first with what has died of that which serves the target. For the end of what is measured:
    /// a workload whose files never leave the page cache does not meet the errors of a dead disk.
    pub fn check(&self) -> Result<(), HostError> {
        let _full_speed = self.full_speed();
        let written = self.write_back();
        // What has died explains the errors.
        self.served()?;
        written
    }

    /// Writes back what is cached, until the device has it, in the time that takes.
    pub fn write_back(&self) -> Result<(), HostError> {
        let sync = |dir: &Path| {
            let fs = HostFs::open(dir, HostOptions::default())?;
            fs.sync().map_err(|errno| HostError::Refused {
                what: format!("write back what is cached of {}", dir.display()),
                why: errno.to_string(),
            })
        };
        sync(&self.dir)?;
        if self.layer.is_some() {
            sync(&fsage_host::scratch::beneath(&self.dir).unwrap_or_else(|| self.dir.clone()))?;
        }
        // Not every file system flushes its device.
        let disk = self.scratch.as_ref().and_then(Scratch::disk);
        disk.map_or(Ok(()), |disk| disk.drain())
    }

    /// Fails with what has died of that which serves the target.
    pub fn served(&self) -> Result<(), HostError> {
        if let Some(layer) = &self.layer {
            layer.check()?;
        }
        let disk = self.scratch.as_ref().and_then(Scratch::disk);
        disk.map_or(Ok(()), |disk| disk.check())
    }

    /// The error, or what has died of that which serves the target, which explains it.
    pub fn explain<E: From<HostError>>(&self, error: E) -> E {
        self.served().map_or_else(E::from, |()| error)
    }

    /// Takes down now what was made for it and says if that fails.
    pub fn close(self) -> Result<(), HostError> {
        let unmounted = self.layer.map_or(Ok(()), Layered::close);
        unmounted.and(self.scratch.map_or(Ok(()), Scratch::close))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_read_back_as_they_are_written() {
        for text in [
            "scratch:ext4,size=1G",
            "slow:read=32,lookup=4:scratch:ext4,size=1G,mount=noatime,data=journal",
            "slow:none:scratch:xfs",
            "slow:all=4:/",
        ] {
            let spec = TargetSpec::parse(text).unwrap();
            assert_eq!(TargetSpec::parse(&spec.to_string()).unwrap(), spec);
            assert_eq!(spec.is_temporary(), text.contains("scratch"), "{text}");
            assert_eq!(told_temporary(text), spec.is_temporary(), "{text}");
        }
        let slow = TargetSpec::parse("slow:read=32:scratch:ext4,size=1G").unwrap();
        assert_eq!(slow.to_string(), "slow:read=32:scratch:ext4,size=1G");
        let named = TargetSpec::parse("slow:read=32:scratch:ext4,name=slow reads").unwrap();
        assert_eq!(named.name(), "slow reads");
        assert_eq!(TargetSpec::parse(&named.to_string()).unwrap(), named);
        assert_eq!(told_name("scratch:xfs,size=1G,name=x"), "x");
        assert_eq!(told_name("scratch:xfs,size=1G"), "scratch:xfs,size=1G");
        let place = TargetSpec::parse("./slow:x").unwrap();
        assert!(matches!(place, TargetSpec::Directory(_)));
    }

    #[test]
    fn what_is_no_target_is_told() {
        for (text, said) in [
            ("slow:", "slow:SLOWING:TARGET"),
            ("slow:read=32", "slow:SLOWING:TARGET"),
            ("slow::scratch:ext4", "slow:none:TARGET"),
            ("slow:scratch:ext4", "'scratch' is not OPERATION=FACTOR"),
            ("slow:reads=2:/", "unknown operation 'reads'"),
            ("slow:read=0.5:/", "a factor from 1"),
            ("slow:read=2:slow:read=2:/", "not slowed itself"),
            ("slow:read=2:scratch:ext4,fast", "fast"),
        ] {
            let error = TargetSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
