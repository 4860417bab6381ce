//! From the files of `fsage-format` to what the stages take.

use fsage_core::metric::MetricId;
use fsage_core::{DevId, FileId};
use fsage_format::profile::{Environment, MetricValue, NOT_OFFERED, SystemProfile};
use fsage_format::snapshot::{SnapshotEntry, extent_flags};

use crate::cost::{Estimate, FileSystemName, Machine, SystemVector, slowness};
use crate::namespace::tree::Ino;
use crate::namespace::{FileRecord, Namespace};

impl SystemVector {
    /// The vector of a profile. The names of metrics that this release does not know, or that carry
    /// another unit than the table's, come back: they are left out.
    pub fn from_profile(profile: &SystemProfile) -> (Self, Vec<String>) {
        let mut vector = Self::new(profile.name.clone(), []);
        vector.machine = machine(profile);
        vector.target = target(profile);
        vector.broken_off = profile.incomplete_reason().map(str::to_owned);
        let refused = profile.absent.iter();
        let refused = refused.filter(|absent| absent.reason.starts_with(NOT_OFFERED));
        vector.not_offered = refused
            .filter_map(|absent| Some(MetricId::parse(&absent.name)?.family()))
            .collect();
        let whole = profile
            .disturbances
            .iter()
            .filter(|d| d.procedure.is_empty());
        vector.disturbed = whole.flat_map(|d| d.marks.iter().cloned()).collect();
        vector.reference_ns = profile.measurement.reference_ns;
        let mut ignored = Vec::new();
        for metric in &profile.metrics {
            match MetricId::parse(&metric.name) {
                Some(id) if id.unit().name() == metric.unit => {
                    vector.set(id, estimate(metric));
                    // Each as if the machine had been as fast as it usually was.
                    if let Some((usual, then)) = vector.reference_ns.zip(metric.reference_ns) {
                        vector.slow_metric(id, slowness(usual, then));
                    }
                }
                _ => ignored.push(metric.name.clone()),
            }
        }
        vector.one_place_is_no_dearer();
        (vector, ignored)
    }

    /// One place takes no longer than several: where a machine that others used says so, what several took stands.
    fn one_place_is_no_dearer(&mut self) {
        let named = |name: &str| Some((MetricId::parse(name)?, self.named(name)?));
        if let Some(((id, one), (_, several))) = named("FDSO").zip(named("FDSR"))
            && one.value > several.value
        {
            self.set(id, several);
        }
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
fn machine(profile: &SystemProfile) -> Machine {
    let Environment { machine, target } = &profile.environment;
    let processors = machine.processor.cpus.filter(|&n| n > 0);
    let processors = processors.and_then(|n| usize::try_from(n).ok());
    let one = profile.measurement.one_cpu.as_ref().map(|_| 1);
    Machine {
        cpus: one.or(processors),
        processors,
        in_memory: target.is_in_memory(),
        deviceless: target.is_deviceless(),
        memory_bytes: machine.memory.total_bytes.filter(|&bytes| bytes > 0),
        file_system: FileSystemName::of(target.file_system.as_deref().unwrap_or_default()),
    }
}

/// What tells one target from another, so that two profiles of one are known; empty where the profile
/// does not say.
fn target(profile: &SystemProfile) -> String {
    let Environment { machine, target } = &profile.environment;
    let file_system = target.file_system.as_deref().unwrap_or_default();
    if target.target.is_empty() || file_system.is_empty() {
        return String::new();
    }
    // Loop devices and the numbers of disks are handed out as they come.
    let device = target.device_text();
    let device: String = device.chars().filter(|c| !c.is_ascii_digit()).collect();
    let kernel = machine.kernel.text();
    let mkfs = target.mkfs.as_ref().map(|made| made.options.as_str());
    let disk = target
        .emulated
        .as_ref()
        .map(|disk| disk.parameters.as_str());
    let parts = [
        machine.host.as_deref(),
        Some(&kernel),
        machine.processor.model.as_deref(),
        Some(&target.target),
        Some(file_system),
        target.mount_options.as_deref(),
        mkfs,
        Some(&device),
        target.aged.as_deref(),
        disk,
    ];
    format!(
        "{}\n{:?} {:?} {:?} {}",
        parts.map(Option::unwrap_or_default).join("\n"),
        machine.processor.cpus,
        machine.memory.total_bytes,
        target.devices.first().and_then(|d| d.size_bytes),
        profile.measurement.one_cpu.is_some(),
    )
}

impl Namespace {
    /// Adds an entry of a snapshot of the device `dev`, whose root is the directory `root`
    /// ([`Namespace::directory`] of the snapshot's own root path).
    pub fn add_entry(&mut self, root: Ino, dev: DevId, entry: &SnapshotEntry) {
        let extents: Vec<(u64, u64, u64)> = entry
            .extents
            .iter()
            .filter(|e| e.flags & (extent_flags::UNKNOWN | extent_flags::DELALLOC) == 0)
            .map(|e| (e.logical_bytes, e.physical_bytes, e.length_bytes))
            .collect();
        let record = FileRecord {
            path: &entry.path,
            id: FileId {
                dev,
                ino: entry.ino,
                generation: entry.generation,
            },
            kind: entry.file_type.into(),
            size: entry.size_bytes,
            allocated: entry.allocated_bytes,
            target: entry.link_target.as_deref(),
            extents: &extents,
        };
        self.add(root, &record);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_place_takes_no_longer_than_several() {
        let flushed = |one: f64| {
            let id = |name: &str| MetricId::parse(name).unwrap();
            let metrics = [("FDSO", one), ("FDSR", 5.0)].map(|(name, v)| (id(name), v, v, v));
            let mut vector = SystemVector::new("s", metrics);
            vector.one_place_is_no_dearer();
            vector.named("FDSO").unwrap().value
        };
        assert!((flushed(40.0) - 5.0).abs() < 1e-9);
        assert!((flushed(2.0) - 2.0).abs() < 1e-9);
    }
}
