//! From the files of `fsage-format` to what the stages take.

use fsage_core::metric::MetricId;
use fsage_core::{DevId, FileId, FileType};
use fsage_format::profile::{Environment, IN_MEMORY, MetricValue, ONE_CPU, SystemProfile};
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
        vector.target = target(&profile.environment);
        vector.broken_off = profile.incomplete_reason().map(str::to_owned);
        let whole = profile
            .disturbances
            .iter()
            .filter(|d| d.procedure.is_empty());
        vector.disturbed = whole.flat_map(|d| d.marks.iter().cloned()).collect();
        let mut ignored = Vec::new();
        for metric in &profile.metrics {
            match MetricId::parse(&metric.name) {
                Some(id) if id.unit().name() == metric.unit => {
                    vector.set(id, estimate(metric));
                }
                _ => ignored.push(metric.name.clone()),
            }
        }
        (vector, ignored)
    }
}

fn estimate(metric: &MetricValue) -> Estimate {
    let (low, high) = metric
        .interval()
        .unwrap_or((metric.estimate, metric.estimate));
    Estimate {
        value: metric.estimate,
        low,
        high,
        lower_bound: metric.lower_bound,
        unknown: metric.interval().is_none(),
        marked: !metric.marks.is_empty(),
    }
}

/// What the threads of a workload on the profiled system share.
fn machine(environment: &Environment) -> Machine {
    let extra = |name| environment.extra.get(name).map(String::as_str);
    let deviceless = ["tmpfs", "ramfs"].contains(&environment.file_system.as_str())
        || extra(IN_MEMORY).is_some();
    let in_memory = deviceless
        || extra("image") == Some("ram")
        || ["/dev/ram", "/dev/zram", "/dev/pmem"]
            .iter()
            .any(|memory| environment.device.starts_with(memory));
    let cpus = match extra(ONE_CPU) {
        Some(_) => Some(1),
        None => usize::try_from(environment.cpus).ok().filter(|&n| n > 0),
    };
    Machine {
        cpus,
        in_memory,
        deviceless,
        memory_bytes: Some(environment.memory_bytes).filter(|&bytes| bytes > 0),
    }
}

/// What tells one target from another, so that two profiles of one are known; empty where the profile
/// does not say.
fn target(environment: &Environment) -> String {
    let e = environment;
    if e.target.is_empty() || e.file_system.is_empty() {
        return String::new();
    }
    // Loop devices and the numbers of disks are handed out as they come.
    let device: String = e.device.chars().filter(|c| !c.is_ascii_digit()).collect();
    let mkfs = e.mkfs_options.as_deref().unwrap_or_default();
    let aged = e.aged.as_deref().unwrap_or_default();
    let one_cpu = e.extra.contains_key(ONE_CPU);
    let disk = e.extra.get("disk_parameters").map_or("", String::as_str);
    let parts = [
        e.host.as_str(),
        &e.kernel,
        &e.cpu,
        &e.target,
        &e.file_system,
        &e.mount_options,
        mkfs,
        &device,
        aged,
        disk,
    ];
    format!(
        "{}\n{} {} {:?} {one_cpu}",
        parts.join("\n"),
        e.cpus,
        e.memory_bytes,
        e.device_bytes
    )
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
