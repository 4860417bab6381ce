//! A file system as it is after a year: put back from an image that was kept, or made of an aging workload at its
//! first use and then kept.

use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fsage_core::target::Preparing;
use fsage_core::{Registry, Scheme, Target, TargetError, TargetSpec};
use fsage_format::FileKind;
use fsage_format::image::is_image;
use fsage_format::trace::TraceReader;
use fsage_format::whole::settle;
use fsage_host::scratch::{Image, ScratchSpec, about_image};
use fsage_host::{HostError, signals};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::scratch::{self, restored};
use crate::aging::{self, AgingError, AgingRequest};
use crate::restoring::Source;

const PREFIX: &str = "aged:";

/// What may stand after an image.
const KEYS: [&str; 7] = [
    "name=",
    "on=",
    "mount=",
    "scheduler=",
    "span=",
    "size=",
    "mkfs=",
];

/// What may stand after a workload, before its target.
const FAST: &str = "fast";

pub(super) struct AgedScheme;

impl Scheme for AgedScheme {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn form(&self) -> &'static str {
        "aged:IMAGE,…"
    }

    fn help(&self) -> &'static str {
        "an image of `age keep`, or W.fst,on=scratch:…"
    }

    fn parse(&self, rest: &str, _: &Registry) -> Result<Arc<dyn TargetSpec>, TargetError> {
        let refused =
            |why: String| TargetError::refused(format!("read target `{PREFIX}{rest}`"), why);
        if let Some((before, on)) = rest.split_once(",on=scratch:") {
            let fast = before
                .strip_suffix(FAST)
                .and_then(|path| path.strip_suffix(','));
            let on: ScratchSpec = on.parse()?;
            let path = fast.unwrap_or(before);
            if path.is_empty() {
                return Err(refused(
                    "expected an aging workload, as aged:home.fst,on=scratch:ext4".into(),
                ));
            }
            return Ok(Arc::new(Spec {
                file: whole(path),
                made: Made::Workload {
                    on,
                    fast: fast.is_some(),
                },
            }));
        }
        let end = KEYS
            .iter()
            .filter_map(|key| rest.find(&format!(",{key}")))
            .min();
        let (path, more) = end
            .and_then(|at| rest.split_at_checked(at))
            .unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(refused(
                "expected an image, as aged:home.fsi or aged:home.fsi,on=disk:hdd-7200".into(),
            ));
        }
        if ["size=", "mkfs="]
            .iter()
            .any(|key| more.contains(&format!(",{key}")))
        {
            let why = "size and mkfs are the image's own, expected name=, on=, mount=, scheduler= or span=";
            return Err(refused(why.into()));
        }
        // What the file does not decide can be read without it.
        let known: Result<ScratchSpec, HostError> = format!("ext4{}", without_mount(more)).parse();
        let known = known.map_err(|error| match error {
            // Of the type nothing was written.
            HostError::Spec { problem, .. } => refused(problem),
            other => other.into(),
        })?;
        Ok(Arc::new(Spec {
            file: whole(path),
            made: Made::Image {
                more: more.to_owned(),
                name: known.name,
            },
        }))
    }
}

/// Mount options are of the image's own kind, which is not known before it is read.
fn without_mount(more: &str) -> String {
    let end = more.find(",mount=").unwrap_or(more.len());
    let after = more.get(end + 1..).unwrap_or_default();
    let next = KEYS
        .iter()
        .filter_map(|key| after.find(&format!(",{key}")))
        .min();
    let rest = next.and_then(|at| after.get(at..)).unwrap_or_default();
    format!("{}{rest}", more.get(..end).unwrap_or_default())
}

/// One name for one file in every report.
fn whole(path: &str) -> PathBuf {
    let path = Path::new(path);
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[derive(Debug)]
enum Made {
    /// From an image; what stands after it.
    Image { more: String, name: Option<String> },
    /// Of a workload, on a fresh file system.
    Workload { on: ScratchSpec, fast: bool },
}

#[derive(Debug)]
struct Spec {
    file: PathBuf,
    made: Made,
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.file.display())?;
        match &self.made {
            Made::Image { more, .. } => f.write_str(more),
            Made::Workload { on, fast } => {
                write!(f, "{},on={on}", if *fast { ",fast" } else { "" })
            }
        }
    }
}

impl TargetSpec for Spec {
    fn given_name(&self) -> Option<String> {
        match &self.made {
            Made::Image { name, .. } => name.clone(),
            Made::Workload { on, .. } => on.name.clone(),
        }
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
        let mut uses = vec![self.file.clone()];
        uses.extend(
            self.scratch()
                .map(|spec| scratch::uses(&spec))
                .unwrap_or_default(),
        );
        uses
    }

    fn size_bytes(&self) -> Option<u64> {
        self.scratch().ok().map(|spec| spec.size_bytes)
    }

    fn check(&self) -> Result<(), TargetError> {
        let spec = self.scratch()?;
        scratch::check(&spec)?;
        match &self.made {
            Made::Image { .. } => drop(Image::open(&spec, &self.file)?),
            Made::Workload { .. } => {
                drop(aging::made_of(&self.workload()?, &self.file).map_err(failed)?);
            }
        }
        Ok(())
    }

    fn prepare(&self, progress: Preparing<'_>) -> Result<(), TargetError> {
        self.image(progress).map(drop)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        let spec = self.scratch()?;
        let image = self.image(&mut |_, _| ())?;
        restored(&spec, &image, &signals::stop_flag())?.open()
    }
}

fn failed(error: AgingError) -> TargetError {
    match error {
        AgingError::Target(target) => target,
        other => TargetError::Failed(Box::new(other)),
    }
}

impl Spec {
    /// What the image is put back on.
    fn scratch(&self) -> Result<ScratchSpec, TargetError> {
        match &self.made {
            Made::Workload { on, .. } => Ok(on.clone()),
            Made::Image { more, .. } => {
                // Nothing says yet on what it is to be carried out.
                if matches!(fsage_format::sniff(&self.file), Ok(FileKind::Trace)) {
                    let shown = self.file.display();
                    let why = format!(
                        "{shown} is a trace: an aging workload needs the file system that it is carried out on, expected \
                         {PREFIX}{shown},on=scratch:ext4,size=1G or another scratch target"
                    );
                    return Err(TargetError::refused(format!("use {self}"), why));
                }
                let about = about_image(&self.file)?;
                Ok(format!("{},size={}{more}", about.kind, about.size_bytes).parse()?)
            }
        }
    }

    fn workload(&self) -> Result<TraceReader, TargetError> {
        let reader = TraceReader::open(&self.file).map_err(|e| TargetError::Failed(Box::new(e)))?;
        if !reader.loss().is_none() {
            let why = format!("{}, expected a whole workload", reader.loss());
            return Err(TargetError::refused(
                format!("use {}", self.file.display()),
                why,
            ));
        }
        Ok(reader)
    }

    /// The image, or that of what the workload makes of a fresh file system; made if nobody has made it yet.
    fn image(&self, progress: Preparing<'_>) -> Result<PathBuf, TargetError> {
        let (on, fast) = match &self.made {
            Made::Image { .. } => return Ok(self.file.clone()),
            Made::Workload { on, fast } => (on, *fast),
        };
        let stop = signals::stop_flag();
        let source = Source::read(&self.file, &stop).map_err(|e| failed(e.into()))?;
        let on = ScratchSpec {
            name: None,
            ..on.clone()
        };
        let mut digest = Sha256::new();
        digest.update(format!("{} {on} {fast}", source.sha256()));
        let digest = digest.finalize();
        let first = digest
            .first_chunk::<8>()
            .map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let mut name = format!("{first:016x}");
        name.push_str(".fsi");
        let dir = cache_dir()?;
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir);
        made.map_err(|e| HostError::at("make directory", &dir, e))?;
        let image = dir.join(name);
        let is_there = || image.exists() && Image::open(&on, &image).is_ok();
        if is_there() {
            return Ok(image);
        }
        // Whoever comes second waits for the first.
        let lock =
            std::fs::File::open(&dir).map_err(|e| HostError::at("open directory", &dir, e))?;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if stop.load(Ordering::Relaxed) {
                return Err(failed(AgingError::Interrupted));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if is_there() {
            return Ok(image);
        }
        spare(&image)?;
        let target = on.to_string();
        let request = AgingRequest {
            workload: self.file.clone(),
            target: super::schemes().parse(&target)?,
            fast,
            seed: 1,
            score: true,
            state: None,
            resume: false,
            keep: Some(image.clone()),
        };
        let done = aging::age(self.workload()?, &request, progress, &stop).map_err(failed)?;
        if done.interrupted {
            return Err(failed(AgingError::Interrupted));
        }
        Ok(image)
    }
}

/// Fails if what stands where an image is to be kept is no image, and so somebody's; spares what comes there meanwhile.
fn spare(image: &Path) -> Result<(), TargetError> {
    settle(image).map_err(|e| HostError::at("write", image, e))?;
    let Ok(about) = image.symlink_metadata() else {
        return Ok(());
    };
    let is_own = |file: std::fs::File| is_image(&file);
    if about.is_file() && (about.len() == 0 || std::fs::File::open(image).is_ok_and(is_own)) {
        return Ok(());
    }
    Err(TargetError::refused(
        format!("keep the aged file system as {}", image.display()),
        "what stands there is no image, which fsage does not replace: remove it first",
    ))
}

/// The directory of kept images of workloads, how many there are and their bytes; `None` without any.
pub fn kept_images() -> Option<(PathBuf, u64, u64)> {
    let dir = cache_dir().ok()?;
    let images = std::fs::read_dir(&dir).ok()?.flatten();
    let (mut count, mut bytes) = (0, 0);
    for about in images.filter_map(|image| image.metadata().ok()) {
        (count, bytes) = (count + 1, bytes + about.len());
    }
    (count > 0).then_some((dir, count, bytes))
}

/// Where images of workloads are kept: `aged` in fsage's directory of the user's cache.
fn cache_dir() -> Result<PathBuf, TargetError> {
    let of = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let cache = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("fsage/aged")).ok_or_else(|| {
        TargetError::refused(
            "keep an aged file system",
            "neither XDG_CACHE_HOME nor HOME names a directory",
        )
    })
}
