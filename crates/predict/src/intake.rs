//! From the files of `fsage-format` to what the stages take.

use fsage_core::metric::MetricId;
use fsage_core::{DevId, FileId, FileType};
use fsage_format::profile::{Environment, ONE_CPU, SystemProfile};
use fsage_format::snapshot::SnapshotEntry;

use crate::cost::{Estimate, Machine, SystemVector};
use crate::namespace::tree::{Ino, Kind};
use crate::namespace::{FileRecord, Namespace};

impl SystemVector {
    /// The vector of a profile. The names of metrics that this release does not know, or that carry
    /// another unit than the table's, come back: they are left out.
    pub fn from_profile(profile: &SystemProfile) -> (Self, Vec<String>) {
        let mut vector = Self::new(profile.name.clone(), []);
        vector.machine = machine(&profile.environment);
        let mut ignored = Vec::new();
        for metric in &profile.metrics {
            match MetricId::parse(&metric.name) {
                Some(id) if id.unit().name() == metric.unit => {
                    // An interval that is unknown has no width until the model can say how wide it is.
                    let (low, high) = metric
                        .interval()
                        .unwrap_or((metric.estimate, metric.estimate));
                    let lower_bound = metric.lower_bound;
                    vector.set(
                        id,
                        Estimate {
                            value: metric.estimate,
                            low,
                            high,
                            lower_bound,
                        },
                    );
                }
                _ => ignored.push(metric.name.clone()),
            }
        }
        (vector, ignored)
    }
}

/// What the threads of a workload on the profiled system share.
fn machine(environment: &Environment) -> Machine {
    let extra = |name| environment.extra.get(name).map(String::as_str);
    let in_memory = extra("image") == Some("ram")
        || ["tmpfs", "ramfs"].contains(&environment.file_system.as_str())
        || ["/dev/ram", "/dev/zram", "/dev/pmem"]
            .iter()
            .any(|memory| environment.device.starts_with(memory));
    let cpus = match extra(ONE_CPU) {
        Some(_) => Some(1),
        None => usize::try_from(environment.cpus).ok().filter(|&n| n > 0),
    };
    Machine { cpus, in_memory }
}

impl Namespace {
    /// Adds an entry of a snapshot of the device `dev`, whose root is the directory `root`
    /// ([`Namespace::directory`] of the snapshot's own root path).
    pub fn add_entry(&mut self, root: Ino, dev: DevId, entry: &SnapshotEntry) {
        let extents: Vec<(u64, u64, u64)> = entry
            .extents
            .iter()
            .map(|e| (e.logical_bytes, e.physical_bytes, e.length_bytes))
            .collect();
        let kind = match entry.file_type {
            FileType::Regular => Kind::Regular,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Other => Kind::Other,
        };
        let record = FileRecord {
            path: &entry.path,
            id: FileId {
                dev,
                ino: entry.ino,
                generation: entry.generation,
            },
            kind,
            size: entry.size_bytes,
            allocated: entry.allocated_bytes,
            target: entry.link_target.as_deref(),
            extents: &extents,
        };
        self.add(root, &record);
    }
}
