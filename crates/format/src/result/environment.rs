//! Where a measurement was made: the machine, and the target from its file system down to what holds
//! the bits (Traeger 2007, 3.2, 3.5 and 6).
//!
//! What could not be found out is absent, never a guess: a container hides files, a virtual machine has
//! no governor, and some things only root may see.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine and the target of one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Environment {
    /// The machine; of one whose time is computed only fsage and when it began, as nothing else of it
    /// decides what is measured.
    pub machine: MachineRecord,
    /// The target.
    pub target: TargetRecord,
}

/// A machine, when a measurement began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MachineRecord {
    /// The fsage that measured.
    pub fsage: String,
    /// The machine's name.
    pub host: Option<String>,
    /// Its maker and model, as its firmware says.
    pub product: Option<String>,
    /// What virtualises it (`KVM`, `hypervisor` where only that is known); absent for real hardware or
    /// where the machine does not say.
    pub hypervisor: Option<String>,
    /// The container it was measured in, as `docker`; absent outside one or where nothing says so.
    pub container: Option<String>,
    /// The distribution, as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// The kernel.
    pub kernel: KernelRecord,
    /// The processors.
    pub processor: ProcessorRecord,
    /// The memory.
    pub memory: MemoryRecord,
    /// When the kernel writes what is dirty.
    pub write_back: WriteBackRecord,
    /// What the clock counts, as `tsc`.
    pub clock_source: Option<String>,
    /// What else the machine was doing.
    pub load: LoadRecord,
    /// Programs and libraries that had a part in the measurement.
    pub tools: Vec<ToolRecord>,
    /// Whether fsage had root's privileges.
    pub privileged: bool,
    /// When this was found out, nanoseconds since 1970.
    pub taken_unix_ns: u64,
}

/// The kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelRecord {
    /// Its release, as `6.1.0-18-amd64`.
    pub release: Option<String>,
    /// Its build.
    pub build: Option<String>,
    /// The architecture, as `x86_64`.
    pub architecture: Option<String>,
    /// The command line that it was booted with.
    pub command_line: Option<String>,
    /// Why it is tainted (modules that are not its own and the like); 0 for no reason.
    pub tainted: Option<u64>,
}

/// The processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessorRecord {
    /// Their model.
    pub model: Option<String>,
    /// The version of their microcode.
    pub microcode: Option<String>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Cores.
    pub cores: Option<u32>,
    /// Processors that the kernel schedules on.
    pub cpus: Option<u32>,
    /// Those that fsage may use, as `0-3`.
    pub allowed: Option<String>,
    /// Nodes of memory.
    pub numa_nodes: Option<u32>,
    /// Caches of the first processor.
    pub caches: Vec<CpuCache>,
    /// Whether several processors share a core: `on`, `off`, `notsupported`, …
    pub smt: Option<String>,
    /// Lowest frequency that is allowed, kHz.
    pub min_khz: Option<u64>,
    /// Highest frequency that is allowed, kHz.
    pub max_khz: Option<u64>,
    /// What changes the frequency, as `intel_pstate`.
    pub frequency_driver: Option<String>,
    /// The rule by which it does, as `performance`; all of them, if they differ.
    pub governor: Option<String>,
    /// Whether the processor may exceed its nominal frequency.
    pub turbo: Option<bool>,
    /// What decides on idle states, as `menu`.
    pub idle_governor: Option<String>,
    /// Processors kept free of other work by the kernel's command line, as `2-3`.
    pub isolated: Option<String>,
    /// What the kernel does about each vulnerability, those that do not concern this processor
    /// included.
    pub mitigations: BTreeMap<String, String>,
}

/// One cache of a processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CpuCache {
    /// Its level.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The processors that share it.
    pub shared_by: Option<String>,
}

/// The memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MemoryRecord {
    /// All of it, bytes.
    pub total_bytes: Option<u64>,
    /// What could be used when the measurement began, bytes.
    pub available_bytes: Option<u64>,
    /// What fsage's control group may use, the page cache included, bytes; absent for no limit.
    pub limit_bytes: Option<u64>,
    /// Swap space, bytes.
    pub swap_bytes: Option<u64>,
    /// Swap space in use, bytes.
    pub swap_used_bytes: Option<u64>,
    /// How readily the kernel swaps.
    pub swappiness: Option<u64>,
    /// How readily it gives up names and inodes.
    pub vfs_cache_pressure: Option<u64>,
    /// When it uses large pages: `always`, `madvise` or `never`.
    pub transparent_hugepages: Option<String>,
    /// Size of a page, bytes.
    pub page_bytes: Option<u64>,
}

/// When the kernel writes what is dirty (the kernel's admin-guide/sysctl/vm.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WriteBackRecord {
    /// Writers wait beyond this share of memory, percent.
    pub dirty_ratio_percent: Option<u64>,
    /// Or beyond this much, bytes; 0 where the share counts.
    pub dirty_bytes: Option<u64>,
    /// Writing begins beyond this share of memory, percent.
    pub dirty_background_ratio_percent: Option<u64>,
    /// Or beyond this much, bytes; 0 where the share counts.
    pub dirty_background_bytes: Option<u64>,
    /// What has been dirty for this long is written, milliseconds.
    pub dirty_expire_ms: Option<u64>,
    /// How often the kernel looks, milliseconds.
    pub dirty_writeback_ms: Option<u64>,
    /// The processors on which the kernel's workers may run, as a mask.
    pub workqueue_cpumask: Option<String>,
}

/// What a machine was doing beside the measurement. fsage's own process is left out where that is
/// possible: the load averages have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadRecord {
    /// Load averages of 1, 5 and 15 minutes.
    pub average: Option<(f64, f64, f64)>,
    /// Share of the processors' time that others used while this was found out, 0 to 1.
    pub busy: Option<f64>,
    /// How long was looked for `busy` and `busiest`, nanoseconds.
    pub observed_ns: u64,
    /// The processes that used most of it.
    pub busiest: Vec<BusyProcess>,
    /// Processes and threads that there are.
    pub threads: Option<u64>,
    /// Users who are logged in.
    pub users: Option<u32>,
    /// Share of the last 10 s in which something waited: for a processor, 0 to 1.
    pub cpu_pressure: Option<f64>,
    /// For a device.
    pub io_pressure: Option<f64>,
    /// For memory.
    pub memory_pressure: Option<f64>,
}

/// A process that was busy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BusyProcess {
    /// Its name.
    pub name: String,
    /// How much of one processor it used, 0 to 1 (more for several threads).
    pub cpu_share: f64,
}

/// A program or library that had a part in a measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolRecord {
    /// Its name, as `mkfs.ext4`.
    pub name: String,
    /// What it says of its version; absent where it was not asked because asking may do something.
    pub version: Option<String>,
    /// Where it was found.
    pub path: Option<String>,
    /// Size of the file in bytes, which with the path tells it from another.
    pub size_bytes: Option<u64>,
}

/// A target: a file system and what it lies on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TargetRecord {
    /// The target as it was asked for.
    pub target: String,
    /// Whether fsage made the file system for the measurement.
    pub scratch: bool,
    /// The file system's type, as `ext4`.
    pub file_system: Option<String>,
    /// What is mounted: a device's path, a server's export, a name.
    pub source: Option<String>,
    /// Options of the mount and of the file system, as the kernel tells them.
    pub mount_options: Option<String>,
    /// Which of them were asked for; absent where fsage did not mount it.
    pub mount_options_given: Option<String>,
    /// How the file system was made; absent where fsage did not make it.
    pub mkfs: Option<MkfsRecord>,
    /// What the kernel and the file system's own tools say of it: features, block size, when it was made.
    /// Needs root for some kinds. Of a slowed one what is slowed, and the file system beneath.
    pub parameters: BTreeMap<String, String>,
    /// How it was aged; absent for a fresh file system or where nothing is known.
    pub aged: Option<String>,
    /// What is restored on it before every run; absent where nothing is.
    pub restored: Option<RestoredRecord>,
    /// Size of the file system, bytes.
    pub total_bytes: Option<u64>,
    /// Free space when the measurement began, bytes.
    pub free_bytes: Option<u64>,
    /// Files and directories that it held then.
    pub used_inodes: Option<u64>,
    /// What it lies on, from the top to the bottom: a partition, then its disk; a loop device, then
    /// what holds the image. Empty for a file system without a device.
    pub devices: Vec<DeviceRecord>,
    /// The emulated disk at the bottom, where there is one.
    pub emulated: Option<EmulatedDisk>,
    /// Whether it says that it lies in memory alone, without a device, so that nothing of it is ever cold.
    pub in_memory: bool,
    /// Whether its time is computed from stated costs, so that no time of it is the machine's. False where an
    /// older release measured it.
    pub virtual_time: bool,
    /// Threads of the kernel that work for it, and the CPU each last ran on.
    pub kernel_threads: BTreeMap<String, u32>,
}

impl Environment {
    /// Whether times are computed and none is the machine's. Of one of those an older release kept nothing of the
    /// machine either.
    pub fn is_virtual(&self) -> bool {
        let machine = &self.machine;
        let nothing = machine.kernel.release.is_none() && machine.processor.cpus.is_none();
        self.target.virtual_time || nothing && self.target.target.starts_with("mem:")
    }
}

impl KernelRecord {
    /// Its release and build; empty where unknown.
    pub fn text(&self) -> String {
        let known: Vec<&str> = [&self.release, &self.build]
            .into_iter()
            .filter_map(Option::as_deref)
            .collect();
        known.join(" ")
    }
}

impl TargetRecord {
    /// What a trace may call the file system that it was made on, if it is this one: the target as it was asked for
    /// and, where fsage did not make the file system, its type and what is mounted.
    pub fn systems(&self) -> Vec<String> {
        let mounted = (!self.scratch).then(|| {
            let (kind, source) = (self.file_system.as_ref()?, self.source.as_ref()?);
            Self::mounted(kind, source)
        });
        std::iter::once(self.target.clone())
            .chain(mounted.flatten())
            .collect()
    }

    /// A file system by its type and what is mounted; `None` for a loop device, which is lent to the next one under
    /// the same name.
    pub fn mounted(kind: &str, source: &str) -> Option<String> {
        (!source.starts_with("/dev/loop")).then(|| format!("{kind} from {source}"))
    }

    /// Whether there is no device beneath it: nothing of it is ever cold.
    pub fn is_deviceless(&self) -> bool {
        self.in_memory || matches!(self.file_system.as_deref(), Some("tmpfs" | "ramfs"))
    }

    /// Whether what it lies on is memory.
    pub fn is_in_memory(&self) -> bool {
        self.is_deviceless() || self.devices.last().is_some_and(DeviceRecord::is_memory)
    }

    /// The device beneath it in a few words, as `/dev/loop0 (loop on ram, direct I/O)`; what is mounted
    /// where there is none. Empty where unknown.
    pub fn device_text(&self) -> String {
        let Some(device) = self.devices.first() else {
            return self.source.clone().unwrap_or_default();
        };
        let mut text = format!("/dev/{}", device.name);
        if let Some(model) = &device.model {
            text += &format!(" ({model})");
        }
        let image = self.mkfs.as_ref().map(|made| &made.image);
        let image = image.filter(|image| !image.is_empty());
        let holder = image.or(device.backing_file.as_ref());
        if let Some(holder) = holder.filter(|_| device.kind == "loop") {
            let way = match device.direct_io {
                Some(true) => ", direct I/O",
                Some(false) => ", buffered",
                None => "",
            };
            text += &format!(" (loop on {holder}{way})");
        }
        text
    }
}

impl DeviceRecord {
    /// Whether its data lies in memory.
    pub fn is_memory(&self) -> bool {
        let holder = self.backing_file_system.as_deref();
        matches!(holder, Some("tmpfs" | "ramfs"))
            || matches!(self.kind.as_str(), "zram" | "ram" | "pmem")
    }
}

/// What is chosen of several in sysfs: the one in brackets of `none [mq-deadline] kyber`, or all of a text
/// without any.
pub fn selected(text: &str) -> &str {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(chosen, _)| chosen)
}

/// A state that a file system is brought into before every run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RestoredRecord {
    /// `snapshot` of a tree, which is laid out anew, or `image` of a whole file system.
    pub kind: String,
    /// The file that it is restored from.
    pub file: String,
    /// Size of that file, bytes.
    pub bytes: u64,
    /// SHA-256 of that file, as `sha256sum` tells it.
    pub sha256: String,
    /// Names of a tree that were made; absent for an image.
    pub names: Option<u64>,
    /// Bytes of data that were written or copied: without holes, and without the zeros of an image.
    pub data_bytes: u64,
}

/// How a file system was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MkfsRecord {
    /// The program, as `mkfs.ext4`.
    pub program: String,
    /// Its options, without the device.
    pub options: String,
    /// What it says of its version.
    pub version: Option<String>,
    /// Size of the image, bytes.
    pub image_bytes: u64,
    /// Where the image lies, as `ram`.
    pub image: String,
}

/// One device of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DeviceRecord {
    /// Its name in the kernel, as `sda1`.
    pub name: String,
    /// `partition`, `disk`, `loop`, `device-mapper LVM` and the like, `md raid1` and the like, `zram`,
    /// `ram`, `nbd`, `rbd`, `pmem`; `device` where only its name was recorded.
    pub kind: String,
    /// How many layers lie between it and the file system.
    pub depth: u32,
    /// Its model.
    pub model: Option<String>,
    /// The version of its firmware.
    pub firmware: Option<String>,
    /// How it is attached, as `nvme`, `virtio`, `scsi`.
    pub bus: Option<String>,
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
    /// Where a partition begins on its disk, bytes.
    pub start_bytes: Option<u64>,
    /// The size of that disk, bytes.
    pub disk_bytes: Option<u64>,
    /// The I/O scheduler that is used.
    pub scheduler: Option<String>,
    /// How far the kernel reads ahead, bytes.
    pub read_ahead_bytes: Option<u64>,
    /// Whether it rotates, as it says.
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Smallest unit that it takes, bytes.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that it writes without reading, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Requests that the kernel queues for it.
    pub queued_requests: Option<u64>,
    /// The largest request, bytes.
    pub largest_request_bytes: Option<u64>,
    /// Whether it takes discards.
    pub discard: Option<bool>,
    /// Latency at which the kernel throttles writers, microseconds; 0 for never.
    pub write_throttle_us: Option<u64>,
    /// `none`, or which kind of zones it has.
    pub zoned: Option<String>,
    /// The file that a loop device shows.
    pub backing_file: Option<String>,
    /// The type of the file system that holds it.
    pub backing_file_system: Option<String>,
    /// Whether the loop device passes the page cache of that file system by.
    pub direct_io: Option<bool>,
}

/// An emulated disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EmulatedDisk {
    /// The model's name.
    pub model: String,
    /// The scheduler before it.
    pub scheduler: String,
    /// How the image lies on the disk.
    pub span: String,
    /// The model's figures, as JSON.
    pub parameters: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_of_several_is_reported() {
        assert_eq!(selected("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(selected("none"), "none");
    }
}
