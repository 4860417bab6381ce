//! The daemon.

use std::fs::File;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_format::result::disk::DiskStatistics;
use fsage_host::scratch::{FuseMount, daemon, detach};
use fsage_sim::{Disk, DiskModel, DiskOptions};
use fuser::{Config, Session, SessionACL};

use crate::EmulatedDiskError;
use crate::fuse::DiskFs;
use crate::pace::Pace;

/// Below the thread that receives requests, above everything that only computes.
const END_PRIORITY: i32 = 50;

/// The answer to `over` once the last user of the mount is gone.
pub(crate) const YES: &str = "yes";

/// What is to be served.
#[derive(Debug)]
pub struct Service {
    /// The disk.
    pub model: DiskModel,
    /// Its size, scheduler and place.
    pub options: DiskOptions,
    /// Where its data is.
    pub image: File,
    /// Whether requests are delayed from the start.
    pub delays: bool,
    /// The CPUs that the daemon may use; empty for all.
    pub cpus: Vec<usize>,
    /// Whether it is for a scratch file system, whose mounts this process must not keep alive.
    pub for_scratch: bool,
}

/// A disk that is being served.
pub struct Served {
    pace: Arc<Pace>,
    ended: Arc<AtomicBool>,
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

/// Mounts the disk's file in an empty directory and serves it from threads of its own. This process must never
/// open anything there: killed, it could not close it, because it would have to answer itself. Real-time
/// priority is taken where it is allowed; without it requests are only later.
pub fn serve(service: Service, dir: &Path) -> Result<Served, EmulatedDiskError> {
    if !service.cpus.is_empty() {
        fsage_host::thread::keep_to(&service.cpus)?;
    }
    // Memory that this process allocates must not wait for write-back that waits for this process.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let Some(mut disk) = Disk::new(&service.model, &service.options) else {
        let what = format!("serve disk model {}", service.model.name);
        return Err(EmulatedDiskError::io(what, rustix::io::Errno::INVAL));
    };
    let pace = Arc::new(Pace::new(service.model, service.options, service.delays));
    let fs = DiskFs {
        pace: Arc::clone(&pace),
        image: Arc::new(service.image),
    };
    let mount = FuseMount {
        source: "fsage-disk",
        subtype: "fsage-disk",
        shared: false,
    };
    let connection = mount.mount(dir)?;
    let session = Session::from_fd(fs, connection, SessionACL::Owner, Config::default());
    let session = session.map_err(|e| {
        let _ = detach(dir);
        EmulatedDiskError::io(format!("mount a disk on {}", dir.display()), e)
    })?;
    if service.for_scratch {
        // Its mount stays where it was made; only this process no longer keeps that place alive.
        fsage_host::namespace::leave_scratch()?;
    }
    let ended = Arc::new(AtomicBool::new(false));
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let spawned = |e| {
        let _ = detach(dir);
        EmulatedDiskError::io("start a thread", e)
    };
    let ticking = Arc::clone(&pace);
    thread("fsage-disk")
        .spawn(move || {
            let _priority = fsage_host::thread::real_time(END_PRIORITY);
            ticking.run(&mut disk);
        })
        .map_err(spawned)?;
    let over = Arc::clone(&ended);
    thread("fsage-disk-fuse")
        .spawn(move || {
            let _ = session.run();
            over.store(true, Ordering::Relaxed);
        })
        .map_err(spawned)?;
    Ok(Served { pace, ended })
}

impl Served {
    /// What was served so far.
    pub fn statistics(&self) -> DiskStatistics {
        self.pace.statistics()
    }

    /// Obeys the process that launched this one, line by line, until it is gone or lets go.
    pub fn obey(
        self,
        orders: &mut dyn BufRead,
        answers: &mut dyn Write,
    ) -> Result<(), EmulatedDiskError> {
        let delays = |on| {
            self.pace.set_delays(on);
            "ok".to_owned()
        };
        let mut act = |order: &str| match order {
            "delays on" => delays(true),
            "delays off" => delays(false),
            "over" => if self.ended.load(Ordering::Relaxed) {
                YES
            } else {
                "no"
            }
            .to_owned(),
            "stats" => serde_json::to_string(&self.statistics()).unwrap_or_default(),
            _ => "expected delays on, delays off, over or stats".to_owned(),
        };
        daemon::obey(orders, answers, &mut act)
            .map_err(|e| EmulatedDiskError::io("answer the process that launched the disk", e))
    }
}
