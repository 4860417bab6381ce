//! The machine and the target of a measurement, in full (Traeger 2007, 3.2, 3.5): what a paper must
//! say, and what may explain a difference between two results.
//!
//! Everything is read once, from /proc, /sys and the file systems' own tools, without privileges as far
//! as that goes. What is absent is `None`, never guessed. Nothing here waits for a device except
//! [`target()`], where a file system's tool reads its superblock: call it before caches are made cold.

mod devices;
mod file_system;
mod files;
mod load;
mod memory;
mod processor;
mod target;
mod tools;

pub(crate) use target::space;
pub use target::target;
pub use tools::{tool, tools_of};

pub(crate) use files::{cpu_ticks, kib, pressure_field, process, read};
pub use memory::available_bytes;
pub use processor::cpus_online;

use std::time::Duration;

use fsage_format::result::environment::{KernelRecord, MachineRecord};

use crate::machine::unix_time_ns;

/// How long [`machine`] watches what else runs.
const WATCHED: Duration = Duration::from_millis(250);

/// The machine, with what else it does: takes a quarter of a second, in which the processors' load is
/// observed.
pub fn machine() -> MachineRecord {
    let load = load::watch(WATCHED);
    MachineRecord {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        host: read("/proc/sys/kernel/hostname"),
        product: product(),
        hypervisor: processor::hypervisor(),
        container: container(),
        distribution: distribution(),
        kernel: kernel(),
        processor: processor::record(),
        memory: memory::record(),
        write_back: memory::write_back(),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        load,
        tools: tools::basic(),
        privileged: rustix::process::geteuid().is_root(),
        taken_unix_ns: unix_time_ns(),
    }
}

/// Of a measurement in virtual time, of which nothing of the machine decides anything.
pub fn no_machine() -> MachineRecord {
    MachineRecord {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        taken_unix_ns: unix_time_ns(),
        ..MachineRecord::default()
    }
}

/// The kernel.
pub(crate) fn kernel() -> KernelRecord {
    KernelRecord {
        release: read("/proc/sys/kernel/osrelease"),
        build: read("/proc/sys/kernel/version"),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        command_line: read("/proc/cmdline"),
        tainted: files::number("/proc/sys/kernel/tainted"),
    }
}

/// Maker and model, as the firmware or the device tree says.
fn product() -> Option<String> {
    let dmi = |name: &str| read(format!("/sys/class/dmi/id/{name}"));
    let known: Vec<String> = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .collect();
    if known.is_empty() {
        let model = read("/proc/device-tree/model")?;
        return Some(model.trim_end_matches('\0').to_owned());
    }
    Some(known.join(" "))
}

fn distribution() -> Option<String> {
    let text = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches(['"', '\'']).to_owned())
}

/// The container's kind, where its manager says so (systemd's CONTAINER_INTERFACE; docker's and podman's
/// marker files).
fn container() -> Option<String> {
    if let Some(name) = read("/run/systemd/container") {
        return Some(name);
    }
    let marked = |path: &str| std::path::Path::new(path).exists();
    if marked("/.dockerenv") {
        return Some("docker".into());
    }
    if marked("/run/.containerenv") {
        return Some("podman".into());
    }
    let environment = std::fs::read("/proc/1/environ").ok()?;
    environment
        .split(|&b| b == 0)
        .find_map(|entry| entry.strip_prefix(b"container="))
        .map(|name| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_this_machine() {
        let found = machine();
        assert!(found.kernel.release.is_some() && found.kernel.build.is_some());
        assert!(found.kernel.command_line.is_some(), "{found:?}");
        assert!(found.processor.cpus > Some(0), "{found:?}");
        assert!(found.memory.total_bytes > found.memory.available_bytes);
        assert!(found.write_back.dirty_expire_ms > Some(0), "{found:?}");
        let (average, busy) = (found.load.average.unwrap(), found.load.busy.unwrap());
        assert!(average.0 >= 0.0 && (0.0..=1.0).contains(&busy), "{found:?}");
        assert!(found.taken_unix_ns > 0);
        // What is not there is absent, not empty.
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains(":\"\""), "{text}");
    }
}
