//! A disk at a place that a user chose, until the user has enough of it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_format::result::disk::DiskStatistics;
use fsage_host::HostError;
use fsage_host::guard::GuardedMount;
use fsage_host::scratch::daemon::{Daemon, Program};
use fsage_host::scratch::{LoopDevice, detach, unmount};

use crate::serve::YES;
use crate::{IMAGE, STATS};

/// How often is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

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

    /// Waits until `stop` is set or someone else unmounts the disk, and takes it down; returns what it did.
    /// Fails if the process that serves it ends by itself: what is on the disk then gets errors.
    pub fn wait(mut self, stop: &AtomicBool) -> Result<DiskStatistics, HostError> {
        let mut over = false;
        while !stop.load(Ordering::Relaxed) && !over {
            std::thread::sleep(LOOK);
            over = self.ask("over")? == YES;
        }
        let statistics = self.ask("stats")?;
        // What still uses the disk is not to wait for the arm.
        self.ask("delays off")?;
        drop(self.device.take());
        if !over {
            // A loop device lets go of the file a moment after it was detached. What others hold open, they
            // keep until they close it; it answers with errors once the other process is gone.
            match unmount(&self.dir, PATIENCE) {
                Err(rustix::io::Errno::BUSY) => detach(&self.dir),
                done => done,
            }
            .map_err(|e| HostError::at("unmount the disk on", &self.dir, e))?;
        }
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
