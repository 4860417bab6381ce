//! Profiles of versions 1 and 2, and the environment that they and results of runs had: what they say
//! in today's records.

use std::collections::BTreeMap;

use fsage_core::metric::Unit;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Absent, Disturbance, Measurement, MetricValue, ProcedureTime, SystemProfile};
use crate::error::Version;
use crate::result::environment::{
    DeviceRecord, EmulatedDisk, Environment, MachineRecord, MkfsRecord, TargetRecord, selected,
};

/// Fewer samples tell nothing of their spread.
const LEAST_OF_INTERVAL: u32 = 3;

/// The entry by which version 1 said that the measurement was broken off.
const INTERRUPTED: &str = "interrupted";

/// What was subtracted from a call (the empty call, lookups) could be more than it took: by less than
/// this, in nanoseconds.
const SUBTRACTED_NS: f64 = 100_000.0;

#[derive(Deserialize)]
struct Older {
    name: String,
    environment: OlderEnvironment,
    metrics: Vec<MetricValue>,
    #[serde(default)]
    absent: Vec<Absent>,
    #[serde(default)]
    incomplete: Option<String>,
    #[serde(default)]
    disturbances: Vec<Disturbance>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OlderEnvironment {
    fsage: String,
    host: String,
    kernel: String,
    cpu: String,
    cpus: u32,
    memory_bytes: u64,
    target: String,
    file_system: String,
    mount_options: String,
    mkfs_options: Option<String>,
    device: String,
    rotational: Option<bool>,
    device_bytes: Option<u64>,
    total_bytes: u64,
    free_bytes: u64,
    aged: Option<String>,
    start_unix_ns: u64,
    elapsed_ns: u64,
    quick: bool,
    cold_method: Option<String>,
    scheduling: String,
    privileged: bool,
    seed: u64,
    extra: BTreeMap<String, String>,
}

/// Reads a profile of an older version as one of today.
pub(super) fn profile(version: Version, bytes: &[u8]) -> serde_json::Result<SystemProfile> {
    let older: Older = serde_json::from_slice(bytes)?;
    let mut environment = older.environment;
    let incomplete = environment.extra.remove(INTERRUPTED);
    let measurement = environment.measurement();
    let mut profile = SystemProfile {
        measurement,
        metrics: older.metrics,
        absent: older.absent,
        incomplete: older
            .incomplete
            .or_else(|| incomplete.map(|_| INTERRUPTED.to_owned())),
        disturbances: older.disturbances,
        ..SystemProfile::new(older.name, environment.records())
    };
    if version < Version(2) {
        bring_up(&mut profile);
    }
    Ok(profile)
}

/// The environment of a run's result, of today or of version 1.
pub(crate) fn environment<'de, D: Deserializer<'de>>(from: D) -> Result<Environment, D::Error> {
    let value = Value::deserialize(from)?;
    if value.get("machine").is_some() {
        return Environment::deserialize(value).map_err(D::Error::custom);
    }
    let older = OlderEnvironment::deserialize(value).map_err(D::Error::custom)?;
    Ok(older.records())
}

/// The figures of a profile of version 1.
fn bring_up(profile: &mut SystemProfile) {
    for metric in &mut profile.metrics {
        // An interval of no width stood for one that was not known; sizes of blocks are exact.
        let exact = metric.unit == Unit::Bytes.name();
        if metric.runs < LEAST_OF_INTERVAL && metric.low == metric.high && !exact {
            (metric.low, metric.high) = (None, None);
        }
        if metric.unit == Unit::Ns.name() {
            not_negative(metric);
        }
        // Symmetric intervals reached below zero.
        metric.low = metric.low.map(|low| low.max(0.0));
    }
}

/// Times that were less than what was subtracted from them are under the resolution: nothing.
fn not_negative(metric: &mut MetricValue) {
    let quantiles = metric.quantiles.iter_mut().map(|q| &mut q.value);
    for value in metric.samples.iter_mut().chain(quantiles) {
        if (-SUBTRACTED_NS..0.0).contains(value) {
            *value = 0.0;
        }
    }
}

impl OlderEnvironment {
    /// Takes out what was said of the measurement.
    fn measurement(&mut self) -> Measurement {
        let extra = &mut self.extra;
        let prepared = extra.remove("write-backs, cold states and removals");
        let took = extra.remove("time by procedure").unwrap_or_default();
        let procedures = took.split("; ").filter_map(|text| {
            let (name, times) = text.split_once(": ")?;
            let (elapsed_ns, share_ns) = times_ns(times)?;
            Some(ProcedureTime {
                name: name.to_owned(),
                elapsed_ns,
                share_ns,
            })
        });
        Measurement {
            elapsed_ns: self.elapsed_ns,
            quick: self.quick,
            seed: self.seed,
            cold_method: self.cold_method.take(),
            scheduling: std::mem::take(&mut self.scheduling),
            one_cpu: extra.remove("one_cpu"),
            instances: extra.remove("instances").and_then(|n| n.parse().ok()),
            prepared_ns: prepared.and_then(|text| Some(times_ns(&text)?.0)),
            reference_ns: None,
            procedures: procedures.collect(),
        }
    }

    /// The machine and the target. What nothing here knows stays with the target's parameters.
    fn records(mut self) -> Environment {
        let machine = self.machine();
        Environment {
            machine,
            target: self.target(),
        }
    }

    fn machine(&mut self) -> MachineRecord {
        let mut extra = |name: &str| self.extra.remove(name);
        let parsed = |text: Option<String>| text?.parse::<u64>().ok();
        let (release, build) = self.kernel.split_once(' ').unwrap_or((&self.kernel, ""));
        let mut m = MachineRecord {
            fsage: std::mem::take(&mut self.fsage),
            host: text(&self.host),
            product: extra("product"),
            hypervisor: extra("hypervisor"),
            clock_source: extra("clock_source"),
            privileged: self.privileged,
            taken_unix_ns: self.start_unix_ns,
            ..MachineRecord::default()
        };
        m.kernel.release = text(release);
        m.kernel.build = text(build);
        m.kernel.command_line = extra("kernel_command_line");
        m.processor.model = text(&self.cpu);
        m.processor.cpus = (self.cpus > 0).then_some(self.cpus);
        m.processor.smt = extra("smt");
        m.processor.governor = extra("governor");
        m.processor.turbo = parsed(extra("turbo_off")).map(|off| off == 0);
        m.processor.mitigations = mitigations(&extra("mitigations").unwrap_or_default());
        m.memory.total_bytes = (self.memory_bytes > 0).then_some(self.memory_bytes);
        let pages = extra("transparent_hugepage");
        m.memory.transparent_hugepages = pages.map(|t| selected(&t).to_owned());
        m.write_back.dirty_ratio_percent = parsed(extra("dirty_ratio"));
        m.write_back.dirty_background_ratio_percent = parsed(extra("dirty_background_ratio"));
        let hundredths = parsed(extra("dirty_expire_centisecs"));
        m.write_back.dirty_expire_ms = hundredths.and_then(|n| n.checked_mul(10));
        m.write_back.workqueue_cpumask = extra("workqueue_cpumask");
        m.load.average = extra("load").and_then(|load| {
            let mut fields = load.split_ascii_whitespace().map(|f| f.parse::<f64>().ok());
            Some((fields.next()??, fields.next()??, fields.next()??))
        });
        m
    }

    fn target(mut self) -> TargetRecord {
        let image = self.extra.remove("image");
        let devices = if self.device.starts_with("/dev/") {
            vec![self.device(image.as_deref())]
        } else {
            Vec::new()
        };
        let mut extra = |name: &str| self.extra.remove(name);
        let mkfs_version = extra("mkfs_version");
        let mkfs = self.mkfs_options.map(|options| MkfsRecord {
            program: format!("mkfs.{}", self.file_system),
            options,
            version: mkfs_version,
            image_bytes: self.device_bytes.unwrap_or(0),
            image: image.unwrap_or_default(),
        });
        let emulated = extra("disk_model").map(|model| EmulatedDisk {
            model,
            scheduler: extra("disk_scheduler").unwrap_or_default(),
            span: extra("disk_span").unwrap_or_default(),
            parameters: extra("disk_parameters").unwrap_or_default(),
        });
        let in_memory = extra("in_memory").is_some();
        let (threads, parameters) = self
            .extra
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(name, _)| name.starts_with(THREAD));
        let threads = threads.into_iter().filter_map(|(name, cpu)| {
            let name = name.strip_prefix(THREAD)?.to_owned();
            Some((name, cpu.strip_prefix("CPU ")?.parse().ok()?))
        });
        TargetRecord {
            // Of these nothing else said that they were made for the occasion.
            scratch: mkfs.is_some() || self.target.starts_with("mem:"),
            target: self.target,
            file_system: text(&self.file_system),
            source: text(&self.device).filter(|_| devices.is_empty()),
            mount_options: text(&self.mount_options),
            mkfs,
            parameters,
            aged: self.aged,
            total_bytes: (self.total_bytes > 0).then_some(self.total_bytes),
            free_bytes: (self.free_bytes > 0).then_some(self.free_bytes),
            devices,
            emulated,
            in_memory,
            kernel_threads: threads.collect(),
            ..TargetRecord::default()
        }
    }

    /// The device of `/dev/sda (MODEL)` or `/dev/loop0 (loop on ram, direct I/O)`.
    fn device(&mut self, image: Option<&str>) -> DeviceRecord {
        let mut extra = |name: &str| self.extra.remove(name);
        let parsed = |text: Option<String>| text?.parse::<u64>().ok();
        let path = self.device.strip_prefix("/dev/").unwrap_or_default();
        let (name, words) = path.split_once(" (").unwrap_or((path, ""));
        let words = words.strip_suffix(')').unwrap_or(words);
        let holder = words.strip_prefix("loop on ");
        let kinds = ["loop", "zram", "ram", "pmem"];
        let kind = kinds.into_iter().find(|kind| name.starts_with(kind));
        DeviceRecord {
            name: name.to_owned(),
            kind: kind.unwrap_or("device").to_owned(),
            model: extra("device_model").or_else(|| text(words).filter(|_| holder.is_none())),
            size_bytes: self.device_bytes,
            scheduler: extra("device_scheduler").map(|s| selected(&s).to_owned()),
            read_ahead_bytes: parsed(extra("device_read_ahead_kib"))
                .and_then(|n| n.checked_mul(1024)),
            rotational: self.rotational,
            write_cache: extra("device_write_cache"),
            logical_block_bytes: parsed(extra("device_logical_block_bytes")),
            physical_block_bytes: parsed(extra("device_physical_block_bytes")),
            queued_requests: parsed(extra("device_requests")),
            direct_io: extra("loop_direct_io").map(|direct| direct == "true"),
            backing_file: holder.filter(|_| image.is_none()).map(str::to_owned),
            backing_file_system: (image == Some("ram")).then(|| "tmpfs".to_owned()),
            ..DeviceRecord::default()
        }
    }
}

/// Entries of threads of the kernel begin with this.
const THREAD: &str = "kernel_thread ";

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Of `retbleed: Vulnerable; spectre_v2: Mitigation: Retpolines; STIBP: disabled`: a part whose name is
/// not one of a file of the kernel's belongs to the one before it.
fn mitigations(reported: &str) -> BTreeMap<String, String> {
    let file = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut all: Vec<(&str, String)> = Vec::new();
    for part in reported.split("; ") {
        match (part.split_once(": "), all.last_mut()) {
            (Some((name, state)), _) if name.chars().all(file) => {
                all.push((name, state.to_owned()));
            }
            (_, Some((_, state))) => *state += &format!("; {part}"),
            _ => {}
        }
    }
    let named = all
        .into_iter()
        .map(|(name, state)| (name.to_owned(), state));
    named.collect()
}

/// Of `1.5 s of 2.0 s`.
fn times_ns(text: &str) -> Option<(u64, u64)> {
    let (took, of) = text.split_once(" of ")?;
    let ns = |text: &str| {
        let seconds: f64 = text.strip_suffix(" s")?.parse().ok()?;
        Some((seconds * 1e9).round() as u64)
    };
    Some((ns(took)?, ns(of)?))
}
