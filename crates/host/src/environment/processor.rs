//! The processors.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use fsage_format::result::environment::{CpuCache, ProcessorRecord};

use super::files::{field, list_length, number, numbered, read};

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn record() -> ProcessorRecord {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let (sockets, cores) = topology();
    let frequency = |name: &str| number(format!("{CPU}/cpu0/cpufreq/{name}"));
    ProcessorRecord {
        model: model_of(&info),
        microcode: field(&info, "microcode"),
        sockets,
        cores,
        cpus: Some(cpus_online()).filter(|n| *n > 0),
        allowed: allowed(),
        numa_nodes: count(numbered("/sys/devices/system/node", "node").len()),
        caches: caches(),
        smt: read(format!("{CPU}/smt/control")),
        min_khz: frequency("scaling_min_freq"),
        max_khz: frequency("scaling_max_freq"),
        frequency_driver: read(format!("{CPU}/cpu0/cpufreq/scaling_driver")),
        governor: governor(),
        turbo: turbo(),
        idle_governor: read(format!("{CPU}/cpuidle/current_governor_ro")).filter(|g| g != "none"),
        isolated: read(format!("{CPU}/isolated")),
        mitigations: mitigations(),
    }
}

fn count(n: usize) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| *n > 0)
}

/// The model of the first processor.
fn model_of(info: &str) -> Option<String> {
    // x86 says `model name`, others `Processor`, `cpu model` or only a part number.
    ["model name", "Processor", "cpu model", "CPU part"]
        .iter()
        .find_map(|key| field(info, key))
}

/// Processors on line; 0 where the kernel does not say.
pub fn cpus_online() -> u32 {
    read(format!("{CPU}/online"))
        .and_then(|list| list_length(&list))
        .unwrap_or(0)
}

/// Sockets and cores, from what each processor says of its place.
fn topology() -> (Option<u32>, Option<u32>) {
    let mut sockets = BTreeSet::new();
    let mut cores = BTreeSet::new();
    for cpu in numbered(CPU, "cpu") {
        let place = |name: &str| read(format!("{CPU}/cpu{cpu}/topology/{name}"));
        // A processor that is off line says nothing.
        let Some(socket) = place("physical_package_id") else {
            continue;
        };
        if let Some(core) = place("core_cpus_list").or_else(|| place("thread_siblings_list")) {
            cores.insert((socket.clone(), core));
        }
        sockets.insert(socket);
    }
    (count(sockets.len()), count(cores.len()))
}

/// The processors that this process may use, as a list.
fn allowed() -> Option<String> {
    field(&read("/proc/self/status")?, "Cpus_allowed_list")
}

fn caches() -> Vec<CpuCache> {
    let dir = format!("{CPU}/cpu0/cache");
    let cache = |index: u32| {
        let of = |name: &str| read(format!("{dir}/index{index}/{name}"));
        Some(CpuCache {
            level: of("level")?.parse().ok()?,
            kind: of("type")?,
            size_bytes: crate::scratch::parse_size(&of("size")?)?,
            shared_by: of("shared_cpu_list"),
        })
    };
    numbered(&dir, "index")
        .into_iter()
        .filter_map(cache)
        .collect()
}

/// The governor of all processors; all that there are, if they differ.
fn governor() -> Option<String> {
    let all: BTreeSet<String> = numbered(CPU, "cpu")
        .into_iter()
        .filter_map(|cpu| read(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")))
        .collect();
    (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join(", "))
}

/// `no_turbo` of intel_pstate, or `boost` of the others.
fn turbo() -> Option<bool> {
    let off = number(format!("{CPU}/intel_pstate/no_turbo")).map(|n| n == 0);
    off.or_else(|| number(format!("{CPU}/cpufreq/boost")).map(|n| n != 0))
}

/// What the kernel does about each vulnerability.
fn mitigations() -> BTreeMap<String, String> {
    let Ok(dir) = std::fs::read_dir(format!("{CPU}/vulnerabilities")) else {
        return BTreeMap::new();
    };
    dir.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Some((name, read(entry.path())?))
    })
    .collect()
}

/// What virtualises the machine.
pub(super) fn hypervisor() -> Option<String> {
    if let Some(kind) = read("/sys/hypervisor/type") {
        return Some(kind);
    }
    let info = read("/proc/cpuinfo")?;
    let virtual_machine = field(&info, "flags")?
        .split_ascii_whitespace()
        .any(|flag| flag == "hypervisor");
    virtual_machine.then(|| signature().unwrap_or_else(|| "hypervisor".to_owned()))
}

/// The hypervisor's signature (leaf 0x40000000, which only exists beneath one).
#[cfg(target_arch = "x86_64")]
fn signature() -> Option<String> {
    #[allow(unused_unsafe, reason = "newer compilers know that CPUID is safe")]
    // SAFETY: every x86-64 processor has CPUID.
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx]
        .iter()
        .flat_map(|register| register.to_le_bytes())
        .collect();
    let text = String::from_utf8(bytes).ok()?;
    let text = text.trim_matches(['\0', ' ']);
    let known = match text {
        "KVMKVMKVM" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        "bhyve bhyve" => "bhyve",
        "TCGTCGTCGTCG" => "QEMU (TCG)",
        other => other,
    };
    let printable = !known.is_empty() && known.chars().all(|c| !c.is_control());
    printable.then(|| known.to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<String> {
    None
}
