//! What the machine and this process have done up to a moment: processor time, I/O, memory to be
//! written, clocks. Two readings make a measurement.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;

use fsage_core::DevId;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::environment::{cpu_ticks, kib, pressure_field, process};

/// Readings of the two clocks from which the closest pair is taken.
const CLOCK_ATTEMPTS: usize = 5;

/// Whose use of processors is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All threads of this process, ended ones too.
    Process,
    /// The calling thread.
    Thread,
    /// Children that have been waited for, and theirs.
    Children,
}

/// Processor time, memory, I/O, faults and switches (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Processor time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Largest resident size so far, of the process or of one of the children, bytes.
    pub max_resident_bytes: u64,
    /// Bytes read from devices.
    pub device_read_bytes: u64,
    /// Bytes written to devices.
    pub device_written_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Times that a processor was given up.
    pub voluntary_switches: u64,
    /// Times that it was taken away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Up to now.
    pub fn of(whose: Whose) -> Self {
        let who = match whose {
            Whose::Process => libc::RUSAGE_SELF,
            Whose::Thread => libc::RUSAGE_THREAD,
            Whose::Children => libc::RUSAGE_CHILDREN,
        };
        let usage = rusage(who);
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            // ru_maxrss is in KiB, blocks have 512 bytes (getrusage(2)).
            max_resident_bytes: usage.ru_maxrss as u64 * 1024,
            device_read_bytes: usage.ru_inblock as u64 * 512,
            device_written_bytes: usage.ru_oublock as u64 * 512,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// What was used since `before`; the largest resident size stays. Of sums that the kernel scales, none
    /// falls below zero.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            max_resident_bytes: self.max_resident_bytes,
            device_read_bytes: self
                .device_read_bytes
                .saturating_sub(before.device_read_bytes),
            device_written_bytes: self
                .device_written_bytes
                .saturating_sub(before.device_written_bytes),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }

    /// Both together; the larger resident size.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            max_resident_bytes: self.max_resident_bytes.max(other.max_resident_bytes),
            device_read_bytes: self.device_read_bytes + other.device_read_bytes,
            device_written_bytes: self.device_written_bytes + other.device_written_bytes,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

fn rusage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a rusage that outlives the call, which cannot fail with the arguments of
    // this module.
    unsafe { libc::getrusage(who, &raw mut usage) };
    usage
}

/// Processor time in user mode of children that run, nanoseconds, to 10 ms: daemons that this process has
/// started, as those of emulated disks and slowed file systems. That of a child that has been waited for is
/// told by [`Whose::Children`]. 0 where the kernel does not tell who they are.
pub fn running_children_user_ns() -> u64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let user_ns = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(ticks_ns(process(&stat)?.user_ticks))
    };
    let of_thread = |all: String| {
        all.split_ascii_whitespace()
            .filter_map(user_ns)
            .sum::<u64>()
    };
    children.map(of_thread).sum()
}

/// What was read (proc(5), `/proc/PID/io`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadBytes {
    /// By calls such as read(2), from files and pipes.
    pub requested: u64,
    /// From devices, on behalf of whoever asked.
    pub fetched: u64,
}

impl ReadBytes {
    /// Of this process, its ended threads and the children it has waited for; `None` where the kernel
    /// does not count.
    pub fn of_process() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/io").ok()?)
    }

    /// Of the calling thread.
    pub fn of_thread() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/io").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |key: &str| {
            let of = |line: &str| line.strip_prefix(key)?.trim().parse().ok();
            text.lines().find_map(of)
        };
        Some(Self {
            requested: field("rchar:")?,
            fetched: field("read_bytes:")?,
        })
    }

    /// What was read since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requested: self.requested.saturating_sub(before.requested),
            fetched: self.fetched.saturating_sub(before.fetched),
        }
    }
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970.
    pub wall_ns: u64,
    /// How far apart the two were read at most, nanoseconds.
    pub apart_ns: u64,
}

impl Clocks {
    /// Reads them as close together as it goes.
    pub fn now() -> Self {
        let read = |_| {
            let before = nanoseconds(clock_gettime(ClockId::Monotonic));
            let wall_ns = nanoseconds(clock_gettime(ClockId::Realtime));
            let after = nanoseconds(clock_gettime(ClockId::Monotonic));
            Self {
                monotonic_ns: before,
                wall_ns,
                apart_ns: after.saturating_sub(before),
            }
        };
        let readings = (0..CLOCK_ATTEMPTS).map(read);
        readings.min_by_key(|r| r.apart_ns).unwrap_or_default()
    }
}

pub(crate) fn nanoseconds(t: Timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Processor time of the whole machine since boot (proc(5), `/proc/stat`), to 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineTimes {
    /// In user mode, nanoseconds.
    pub user_ns: u64,
    /// In the kernel without its interrupts, nanoseconds.
    pub system_ns: u64,
    /// Given to others by a hypervisor, nanoseconds.
    pub stolen_ns: u64,
}

impl MachineTimes {
    /// Up to now; `None` where the kernel does not say.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let [user, nice, system, .., stolen] = cpu_ticks(text)?;
        Some(Self {
            user_ns: ticks_ns(user.saturating_add(nice)),
            system_ns: ticks_ns(system),
            stolen_ns: ticks_ns(stolen),
        })
    }
}

/// What the kernel counts in ticks (`USER_HZ`), nanoseconds.
fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// How long something has waited for a processor since boot, nanoseconds; `None` where the kernel does not
/// say.
pub fn cpu_pressure_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    pressure_field::<u64>(&text, "total=")?.checked_mul(1000)
}

/// Memory that waits to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToBeWritten {
    /// Dirty pages, bytes.
    pub dirty_bytes: u64,
    /// Pages that are being written, bytes.
    pub write_back_bytes: u64,
}

/// Reads what waits to be written, again and again.
#[derive(Debug)]
pub struct MemoryWatch {
    file: File,
    /// What the kernel calls the two.
    names: (&'static str, &'static str),
    of: String,
}

/// What [`MemoryWatch::of`] says of the whole machine.
pub const MACHINE: &str = "machine";

impl MemoryWatch {
    /// Of the file systems on one device (`7:0`), which the kernel tells to some pages for each processor
    /// where debugfs is mounted (to root); else of the whole machine. `None` without /proc.
    pub fn open(device: Option<DevId>) -> Option<Self> {
        let of_device = device.and_then(|device| {
            let path = format!("/sys/kernel/debug/bdi/{device}/stats");
            let watch = Self {
                file: File::open(path).ok()?,
                names: ("BdiReclaimable", "BdiWriteback"),
                of: format!("device {device}"),
            };
            watch.read().is_some().then_some(watch)
        });
        of_device.or_else(|| {
            Some(Self {
                file: File::open("/proc/meminfo").ok()?,
                names: ("Dirty", "Writeback"),
                of: MACHINE.to_owned(),
            })
        })
    }

    /// Whose memory it is: `device 7:0`, or [`MACHINE`].
    pub fn of(&self) -> &str {
        &self.of
    }

    /// At this moment: one system call.
    pub fn read(&self) -> Option<ToBeWritten> {
        let mut buffer = [0u8; 4096];
        let length = self.file.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
        parse_memory(text, self.names)
    }
}

fn parse_memory(text: &str, (dirty, write_back): (&str, &str)) -> Option<ToBeWritten> {
    Some(ToBeWritten {
        dirty_bytes: kib(text, dirty)?,
        write_back_bytes: kib(text, write_back)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_proc_says() {
        let stat = "cpu  100 20 5 900 7 0 3 42 0 0\ncpu0 1 2 3\n";
        let times = MachineTimes::parse(stat).unwrap();
        assert_eq!(
            (times.user_ns, times.system_ns, times.stolen_ns),
            (1_200_000_000, 50_000_000, 420_000_000)
        );
        let io = "rchar: 6976\nwchar: 0\nsyscr: 1\nread_bytes: 4096\nwrite_bytes: 1\n";
        let read = ReadBytes::parse(io).unwrap();
        assert_eq!((read.requested, read.fetched), (6976, 4096));
        let memory = "MemTotal: 1 kB\nDirty:   12 kB\nWriteback:  3 kB\nWritebackTmp: 0 kB\n";
        let of_machine = ("Dirty", "Writeback");
        let waiting = parse_memory(memory, of_machine).unwrap();
        assert_eq!(
            (waiting.dirty_bytes, waiting.write_back_bytes),
            (12 << 10, 3 << 10)
        );
        for damaged in ["", "cpu", "cpu  1 2", "Dirty: x kB"] {
            assert_eq!(MachineTimes::parse(damaged), None);
            assert_eq!(ReadBytes::parse(damaged), None);
            assert_eq!(parse_memory(damaged, of_machine), None);
        }
    }

    #[test]
    fn what_a_thread_does_is_seen() {
        let (thread, process) = (Usage::of(Whose::Thread), Usage::of(Whose::Process));
        let start = crate::thread::cpu_time_ns();
        while crate::thread::cpu_time_ns() < start + 30_000_000 {
            std::hint::spin_loop();
        }
        let of_thread = Usage::of(Whose::Thread).since(&thread);
        let of_process = Usage::of(Whose::Process).since(&process);
        assert!(
            of_thread.user_ns + of_thread.system_ns >= 20_000_000,
            "{of_thread:?}"
        );
        assert!(
            of_process.user_ns + of_process.system_ns >= 20_000_000,
            "{of_process:?}"
        );
    }

    #[test]
    fn what_a_running_child_uses_is_seen() {
        if std::fs::read_to_string("/proc/thread-self/children").is_err() {
            fsage_testing::not_run("needs CONFIG_PROC_CHILDREN");
            return;
        }
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let mut most = 0;
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            most = running_children_user_ns();
            if most >= 50_000_000 {
                break;
            }
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(most >= 50_000_000, "{most}");
    }

    #[test]
    fn the_clocks_go_together() {
        let (a, b) = (Clocks::now(), Clocks::now());
        assert!(b.monotonic_ns >= a.monotonic_ns && a.wall_ns > 0);
        let watch = MemoryWatch::open(Some(DevId(u64::MAX))).unwrap();
        assert_eq!(watch.of(), MACHINE, "no such device");
        assert!(watch.read().is_some());
    }
}
