//! What the machine is, as a measurement records it.
//!
//! Everything here is read once and may be absent: a container hides files, a virtual machine has
//! no governor. What is absent is left out, never guessed.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use fsage_core::FileSystem;
use fsage_format::profile::Environment;

use crate::device::BlockDevice;
use crate::environment::{self, read};
use crate::{HostFs, ScratchRecord, kthread};

/// The machine and one directory on it. `target` is its name as the user gave it.
/// [`crate::target::describe`] does this for any target.
pub fn describe(fs: &HostFs, target: &str) -> Environment {
    let made = fs.made();
    let scratch = made.as_ref().map(|made| made.record());
    let mount = fs.mount();
    let device = fs.device();
    let space = fs.statfs().unwrap_or_default();
    let machine = this();
    let mut extra = machine.extra;
    if let Some(device) = device {
        device_extra(device, &mut extra);
    }
    if let Some(made) = scratch {
        extra.insert("mkfs_version".into(), made.mkfs_version.clone());
        extra.insert("image".into(), made.spec.backing.to_string());
        extra.insert("loop_direct_io".into(), made.direct_io.to_string());
        extra.extend(made.disk.clone());
    }
    if let Some(layer) = fs.layer() {
        extra.extend(layer.describe());
    }
    Environment {
        target: target.to_owned(),
        file_system: mount.map(|m| m.kind.clone()).unwrap_or_default(),
        mount_options: mount.map(crate::mounts::Mount::options).unwrap_or_default(),
        mkfs_options: scratch
            .filter(|s| s.restored.is_none())
            .map(|s| s.mkfs_options.clone()),
        device: device_text(fs, scratch),
        rotational: device
            .and_then(|d| d.attribute("queue/rotational"))
            .map(|r| r != "0"),
        device_bytes: device
            .and_then(|d| d.attribute("size"))
            .and_then(|s| s.parse::<u64>().ok())
            .and_then(|sectors| sectors.checked_mul(512)),
        total_bytes: space.total_bytes,
        free_bytes: space.available_bytes,
        extra,
        ..machine
    }
}

/// The machine alone.
pub(crate) fn this() -> Environment {
    Environment {
        host: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: kernel(),
        cpu: environment::model().unwrap_or_default(),
        cpus: environment::cpus_online(),
        memory_bytes: environment::total_bytes().unwrap_or(0),
        privileged: rustix::process::geteuid().is_root(),
        extra: machine_extra(),
        ..none()
    }
}

/// What does not depend on the machine.
pub(crate) fn none() -> Environment {
    Environment {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        start_unix_ns: unix_time_ns(),
        ..Environment::default()
    }
}

/// Which machine it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name; empty where unknown.
    pub host: String,
    /// The kernel's release and build; empty where unknown.
    pub kernel: String,
}

/// The names of the machine and its kernel.
pub fn identity() -> Identity {
    Identity {
        host: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: kernel(),
    }
}

/// Wall clock, in nanoseconds since the epoch.
pub fn unix_time_ns() -> u64 {
    #[allow(
        clippy::disallowed_methods,
        reason = "the host is where clocks are read"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

fn kernel() -> String {
    let kernel = environment::kernel();
    let (release, build) = (kernel.release, kernel.build);
    let known: Vec<String> = [release, build].into_iter().flatten().collect();
    known.join(" ")
}

/// What influences a measurement beside the named fields.
fn machine_extra() -> BTreeMap<String, String> {
    let cpu = "/sys/devices/system/cpu";
    let files = [
        ("kernel_command_line", "/proc/cmdline".to_owned()),
        ("turbo_off", format!("{cpu}/intel_pstate/no_turbo")),
        ("smt", format!("{cpu}/smt/control")),
        ("load", "/proc/loadavg".to_owned()),
        (
            "clock_source",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource".into(),
        ),
        (
            "transparent_hugepage",
            "/sys/kernel/mm/transparent_hugepage/enabled".into(),
        ),
        (
            "dirty_expire_centisecs",
            "/proc/sys/vm/dirty_expire_centisecs".into(),
        ),
        ("dirty_ratio", "/proc/sys/vm/dirty_ratio".into()),
        (
            "dirty_background_ratio",
            "/proc/sys/vm/dirty_background_ratio".into(),
        ),
        ("swaps", "/proc/swaps".into()),
    ];
    let mut extra: BTreeMap<String, String> = files
        .into_iter()
        .filter_map(|(name, path)| Some((name.to_owned(), read(&path)?)))
        .collect();
    for (name, value) in [
        ("governor", environment::governor()),
        ("hypervisor", environment::hypervisor()),
        ("product", environment::product()),
        ("workqueue_cpumask", kthread::workqueue_mask()),
    ] {
        if let Some(value) = value {
            extra.insert(name.to_owned(), value);
        }
    }
    let mitigations = mitigations();
    if !mitigations.is_empty() {
        extra.insert("mitigations".into(), mitigations);
    }
    extra
}

/// What the kernel does about each vulnerability that affects this processor.
fn mitigations() -> String {
    let all = environment::mitigations().into_iter();
    let affected = all.filter(|(_, state)| state != "Not affected");
    let lines: Vec<String> = affected
        .map(|(name, state)| format!("{name}: {state}"))
        .collect();
    lines.join("; ")
}

fn device_extra(device: &BlockDevice, extra: &mut BTreeMap<String, String>) {
    for (name, attribute) in [
        ("device_scheduler", "queue/scheduler"),
        ("device_read_ahead_kib", "queue/read_ahead_kb"),
        ("device_write_cache", "queue/write_cache"),
        ("device_logical_block_bytes", "queue/logical_block_size"),
        ("device_physical_block_bytes", "queue/physical_block_size"),
        ("device_requests", "queue/nr_requests"),
        ("device_model", "device/model"),
    ] {
        if let Some(value) = device.attribute(attribute) {
            extra.insert(name.to_owned(), value);
        }
    }
    for thread in kthread::of_device(&device.name) {
        extra.insert(
            format!("kernel_thread {}", thread.name),
            format!("CPU {}", thread.last_cpu),
        );
    }
}

/// The device's path, model and what lies beneath a loop device; the mount's source without one.
fn device_text(fs: &HostFs, scratch: Option<&ScratchRecord>) -> String {
    let Some(device) = fs.device() else {
        return fs
            .mount()
            .map(|m| m.source.display().to_string())
            .unwrap_or_default();
    };
    let model = device
        .attribute("device/model")
        .map(|m| format!(" ({m})"))
        .unwrap_or_default();
    let beneath = match (scratch, device.attribute("loop/backing_file")) {
        (Some(made), _) => {
            let direct = if made.direct_io {
                "direct I/O"
            } else {
                "buffered"
            };
            format!(" (loop on {}, {direct})", made.spec.backing)
        }
        (None, Some(file)) => format!(" (loop on {file})"),
        (None, None) => String::new(),
    };
    format!("/dev/{}{model}{beneath}", device.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostOptions;

    #[test]
    fn describes_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let fs = HostFs::open(dir.path(), HostOptions::default()).unwrap();
        let found = describe(&fs, "here");
        assert_eq!(found.target, "here");
        assert!(found.cpus > 0 && found.memory_bytes > 1 << 20, "{found:?}");
        assert!(
            !found.kernel.is_empty() && !found.file_system.is_empty(),
            "{found:?}"
        );
        assert!(found.total_bytes >= found.free_bytes && found.total_bytes > 0);
        assert!(found.extra.contains_key("load"));
    }
}
