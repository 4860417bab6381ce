//! Starting a daemon beside this process, for scratch file systems on emulated disks.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fsage_format::result::disk::DiskStatistics;
use fsage_format::result::environment::EmulatedDisk;
use fsage_host::HostError;
use fsage_host::scratch::daemon::{Daemon, Program};
use fsage_host::scratch::{Disk, DiskProvider, DiskSpec, detach, make_mount_point, needs_fuse};
use fsage_sim::{Policy, Span};

use crate::{IMAGE, ModelSource, find};

/// The CPUs that this process might use before any of its threads was pinned.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// The CPUs that a daemon is kept to: all but the last, which `--one-cpu` gives to the work that is
/// measured. Empty where there is only one.
fn daemon_cpus() -> Vec<usize> {
    let mut cpus = CPUS.get_or_init(fsage_host::thread::allowed_cpus).clone();
    cpus.pop();
    cpus
}

/// The span's name, as it is written.
pub fn span_name(span: Span) -> &'static str {
    match span {
        Span::Scaled => "scaled",
        Span::Start => "start",
    }
}

/// Reads a span's name.
pub fn parse_span(text: &str) -> Result<Span, HostError> {
    match text {
        "scaled" => Ok(Span::Scaled),
        "start" => Ok(Span::Start),
        _ => Err(HostError::Refused {
            what: format!("read span `{text}`"),
            why: "expected scaled or start".into(),
        }),
    }
}

/// Provides emulated disks by starting a program that serves one.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// `MODEL --size N --mount DIR …` is appended.
    program: Program,
}

impl Launcher {
    /// Starts this program itself, as `disk serve`. Call it before any thread is pinned.
    pub fn this_program() -> Result<Self, HostError> {
        Program::this(&["disk", "serve"]).map(Self::of)
    }

    /// Starts that program.
    pub fn of(program: Program) -> Self {
        CPUS.get_or_init(fsage_host::thread::allowed_cpus);
        Self { program }
    }

    /// Looks whether such a disk can be: its model, scheduler and span. Changes nothing.
    pub fn check(wanted: &DiskSpec, size_bytes: u64) -> Result<ModelSource, HostError> {
        let refused = |why: String| HostError::Refused {
            what: format!("make an emulated disk from `{wanted}`"),
            why,
        };
        let found = find(&wanted.model).map_err(|e| refused(e.to_string()))?;
        if let Some(scheduler) = &wanted.scheduler {
            scheduler
                .parse::<Policy>()
                .map_err(|e| refused(e.to_string()))?;
        }
        let span = wanted.span.as_deref().map(parse_span).transpose()?;
        let capacity = found.model.capacity_bytes();
        if span == Some(Span::Start) && size_bytes > capacity {
            return Err(refused(format!(
                "{size_bytes} bytes, the real disk has {capacity}"
            )));
        }
        Ok(found)
    }
}

impl DiskProvider for Launcher {
    fn provide(&self, wanted: &DiskSpec, size_bytes: u64) -> Result<Arc<dyn Disk>, HostError> {
        let found = Self::check(wanted, size_bytes)?;
        needs_fuse(|| format!("make an emulated disk from `{wanted}`"))?;
        let dir = make_mount_point("disk")?;
        let launched = self.launch(wanted, size_bytes, &found, &dir);
        // What is open keeps the mount; nobody needs to see it.
        let _ = detach(&dir);
        let _ = std::fs::remove_dir(&dir);
        Ok(Arc::new(launched?))
    }
}

impl Launcher {
    fn launch(
        &self,
        wanted: &DiskSpec,
        size_bytes: u64,
        found: &ModelSource,
        dir: &Path,
    ) -> Result<LaunchedDisk, HostError> {
        let mut command = self.program.command();
        command
            .arg(&wanted.model)
            .arg(format!("--size={size_bytes}"))
            .arg("--ram")
            .arg("--mount")
            .arg(dir)
            .arg("--launched");
        if let Some(scheduler) = &wanted.scheduler {
            command.arg(format!("--scheduler={scheduler}"));
        }
        if let Some(span) = &wanted.span {
            command.arg(format!("--span={span}"));
        }
        for cpu in daemon_cpus() {
            command.arg(format!("--cpu={cpu}"));
        }
        let daemon = Daemon::start(&mut command, "the daemon of an emulated disk")?;
        let path = dir.join(IMAGE);
        let image = File::options().read(true).write(true).open(&path);
        let image = image.map_err(|e| HostError::io(format!("open {}", path.display()), e))?;
        Ok(LaunchedDisk {
            image,
            daemon: Mutex::new(Some(Held { daemon, held: 1 })),
            rotates: found.model.hdd.is_some(),
            described: describe(wanted, found),
        })
    }
}

fn describe(wanted: &DiskSpec, found: &ModelSource) -> EmulatedDisk {
    let scheduler = wanted.scheduler.clone();
    let span = wanted.span.clone();
    EmulatedDisk {
        model: found.model.name.clone(),
        scheduler: scheduler.unwrap_or_else(|| Policy::default().to_string()),
        span: span.unwrap_or_else(|| span_name(Span::default()).to_owned()),
        parameters: serde_json::to_string(&found.model).unwrap_or_default(),
    }
}

#[derive(Debug)]
struct Held {
    daemon: Daemon,
    /// How many want full speed.
    held: u32,
}

/// A disk whose daemon this process started.
#[derive(Debug)]
struct LaunchedDisk {
    /// Closed before the daemon ends, as fields are dropped in this order.
    image: File,
    daemon: Mutex<Option<Held>>,
    rotates: bool,
    described: EmulatedDisk,
}

impl LaunchedDisk {
    fn died(&self, daemon: &mut Daemon) -> HostError {
        let model = &self.described.model;
        HostError::Refused {
            what: format!("use emulated disk {model}"),
            why: daemon.end_in_words(),
        }
    }

    fn daemon(&self) -> MutexGuard<'_, Option<Held>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for LaunchedDisk {
    fn open_image(&self) -> Result<File, HostError> {
        let failed = |e| HostError::io("open the file of an emulated disk", e);
        self.image.try_clone().map_err(failed)
    }

    fn set_delays(&self, on: bool) -> Result<(), HostError> {
        let mut guard = self.daemon();
        let Some(Held { daemon, held }) = guard.as_mut() else {
            let gone = std::io::Error::from(std::io::ErrorKind::NotConnected);
            return Err(HostError::io("switch the delays of an emulated disk", gone));
        };
        let before = *held;
        *held = if on {
            before.saturating_sub(1)
        } else {
            before + 1
        };
        match (before, *held) {
            (0, 1) => daemon.ask("delays off"),
            (1, 0) => daemon.ask("delays on"),
            _ => return Ok(()),
        }
        .map(drop)
        .map_err(|_| self.died(daemon))
    }

    fn rotates(&self) -> bool {
        self.rotates
    }

    fn describe(&self) -> EmulatedDisk {
        self.described.clone()
    }

    fn statistics(&self) -> BTreeMap<String, String> {
        let mut guard = self.daemon();
        let said = guard.as_mut().and_then(|d| d.daemon.ask("stats").ok());
        let Some(found) = said.and_then(|s| serde_json::from_str::<DiskStatistics>(&s).ok()) else {
            return BTreeMap::new();
        };
        let late = found.lateness;
        [
            ("disk_reads", found.reads.requests.to_string()),
            ("disk_writes", found.writes.requests.to_string()),
            ("disk_flushes", found.flushes.requests.to_string()),
            ("disk_lateness_p50_us", format!("{:.1}", late.p50_us)),
            ("disk_lateness_p99_us", format!("{:.1}", late.p99_us)),
            ("disk_lateness_max_us", format!("{:.1}", late.max_us)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn drain(&self) -> Result<(), HostError> {
        let failed = |e| HostError::io("write back what an emulated disk holds in its cache", e);
        self.image.sync_all().map_err(failed)
    }

    fn check(&self) -> Result<(), HostError> {
        let mut guard = self.daemon();
        let Some(Held { daemon, .. }) = guard.as_mut() else {
            return Ok(());
        };
        match daemon.ask("stats") {
            Ok(_) => Ok(()),
            Err(_) => Err(self.died(daemon)),
        }
    }

    fn end(&self) {
        let daemon = self.daemon().take();
        drop(daemon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(model: &str, scheduler: Option<&str>, span: Option<&str>) -> String {
        let wanted = DiskSpec {
            model: model.into(),
            scheduler: scheduler.map(Into::into),
            span: span.map(Into::into),
        };
        Launcher::check(&wanted, 4 << 30).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_is_known_before_anything_runs() {
        assert!(refused("floppy", None, None).contains("hdd-7200"));
        assert!(refused("no/such.toml", None, None).contains("no/such.toml"));
        assert!(refused("hdd-7200", Some("cfq"), None).contains("n-cscan"));
        assert!(refused("hdd-7200", None, Some("all")).contains("scaled"));
        assert!(refused("seagate-32430n", None, Some("start")).contains("real disk"));
    }

    #[test]
    fn a_program_that_is_no_daemon_is_said() {
        let launcher = Launcher::of(Program::of("/bin/false".into(), &[]));
        let found = find("hdd-7200").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let wanted = DiskSpec {
            model: "hdd-7200".into(),
            ..DiskSpec::default()
        };
        let error = launcher
            .launch(&wanted, 1 << 20, &found, dir.path())
            .unwrap_err();
        assert!(error.to_string().contains("ended"), "{error}");
    }
}
