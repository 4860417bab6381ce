//! A disk at a place that a user chose, until the user has enough of it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_format::result::disk::DiskStatistics;
use fsage_host::HostError;
use fsage_host::guard::GuardedMount;
use fsage_host::scratch::daemon::{Daemon, Program};
use fsage_host::scratch::{LoopDevice, Unmounted, detach, unmount, user_of_loop, user_of_mount};

use crate::serve::YES;
use crate::{IMAGE, STATS};

/// How long an unmount is tried before the mount is only taken out of sight.
const PATIENCE: Duration = Duration::from_secs(2);

/// A disk that a process beside this one serves. Loop device and mount are this process's, which a shell beside
/// it takes away if it is killed.
#[derive(Debug)]
pub struct Standing {
    device: Option<LoopDevice>,
    daemon: Daemon,
    dir: PathBuf,
    guard: GuardedMount,
    /// What it did until it was to end.
    statistics: Option<String>,
}

impl Standing {
    /// Starts `program` with arguments that say which disk, and has it mounted on `dir`, an empty directory.
    /// `made` says that the directory goes with it.
    pub fn start(
        program: &Program,
        arguments: impl IntoIterator<Item = OsString>,
        dir: &Path,
        made: bool,
    ) -> Result<Self, HostError> {
        // Before the mount, so that no moment is left in which a kill leaves it.
        let guard = GuardedMount::of(dir, made);
        let mut command = program.command();
        command.args(arguments).arg("--mount").arg(dir);
        let mut daemon = match Daemon::start(&mut command, "the emulated disk") {
            Ok(daemon) => daemon,
            Err(error) => {
                if !made {
                    // Nothing was mounted that the guard should take away.
                    guard.done();
                }
                return Err(error);
            }
        };
        let ordered = daemon.ask("delays on");
        ordered.map_err(|e| HostError::io("switch the delays of an emulated disk", e))?;
        Ok(Self {
            device: None,
            daemon,
            dir: dir.to_owned(),
            guard,
            statistics: None,
        })
    }

    /// Puts a loop device on it; returns its path.
    pub fn attach(&mut self, rotates: bool) -> Result<PathBuf, HostError> {
        let path = self.image();
        let image = File::options().read(true).write(true).open(&path);
        let image = image.map_err(|e| HostError::at("open", &path, e))?;
        let device = LoopDevice::attach(image)?;
        if rotates {
            device.behave_as_rotating();
        }
        let path = device.path().to_owned();
        self.device = Some(device);
        Ok(path)
    }

    /// The file that is the disk.
    pub fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }

    /// The file with its statistics.
    pub fn statistics_file(&self) -> PathBuf {
        self.dir.join(STATS)
    }

    /// Whether someone else has unmounted it, or nothing uses it any more. Fails if the process that serves it has
    /// ended by itself: what is on the disk then gets errors.
    pub fn is_over(&mut self) -> Result<bool, HostError> {
        Ok(self.ask("over")? == YES)
    }

    /// What is the disk for its users until it is unmounted, and who uses it, in words, where that can be seen.
    pub fn user(&self) -> (PathBuf, Option<String>) {
        match self.device.as_ref().map(LoopDevice::path) {
            Some(path) => (path.to_owned(), user_of_loop(path)),
            None => (self.image(), user_of_mount(&self.dir)),
        }
    }

    /// Takes the loop device and the mount away, unless somebody uses them: that goes on, and does not wait for the
    /// arm any more.
    pub fn unmount(&mut self) -> Result<Unmounted, HostError> {
        if self.is_over()? {
            return Ok(Unmounted::Gone);
        }
        if self.statistics.is_none() {
            self.statistics = Some(self.ask("stats")?);
            self.ask("delays off")?;
        }
        // It clears itself with its last user, and lets go of the file a moment after that.
        drop(self.device.take());
        match unmount(&self.dir, PATIENCE) {
            Ok(()) => Ok(Unmounted::Gone),
            Err(rustix::io::Errno::BUSY) => Ok(Unmounted::InUse),
            Err(e) => Err(HostError::at("unmount the disk on", &self.dir, e)),
        }
    }

    /// Takes it out of sight; it is served until nothing uses it any more.
    pub fn detach(&mut self) -> Result<(), HostError> {
        detach(&self.dir).map_err(|e| HostError::at("unmount the disk on", &self.dir, e))
    }

    /// What it did until it was to end. What is mounted at its place from now on is somebody else's.
    pub fn end(mut self) -> Result<DiskStatistics, HostError> {
        let statistics = match self.statistics.take() {
            Some(said) => said,
            None => self.ask("stats")?,
        };
        drop(self.device.take());
        self.guard.done();
        serde_json::from_str(&statistics)
            .map_err(|e| HostError::io("read the statistics of an emulated disk", e))
    }

    fn ask(&mut self, order: &str) -> Result<String, HostError> {
        self.daemon.ask(order).map_err(|_| HostError::Refused {
            what: format!("serve the disk on {}", self.dir.display()),
            why: self.daemon.end_in_words(),
        })
    }
}
