//! The kernel's own threads that work for a file system, and where they run.
//!
//! A commit costs twice as much when the journal's thread runs on another CPU than the caller, so
//! a measurement of fsync records the placement, or sets it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::HostError;
use crate::guard::Afterwards;
use crate::thread::{cpu_set, members};

/// `PF_KTHREAD` of linux/sched.h, in the flags of proc_pid_stat(5).
const PF_KTHREAD: u64 = 0x0020_0000;

/// CPUs that unbound workqueues (write-back, btrfs and xfs workers) may use.
const WORKQUEUE_MASK: &str = "/sys/devices/virtual/workqueue/cpumask";

/// What the names of threads that do a file system's work begin with.
const FILE_SYSTEM_THREADS: [&str; 6] = [
    "jbd2/",
    "xfsaild/",
    "xfs-",
    "btrfs-",
    "loop",
    "ext4lazyinit",
];

/// A thread of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelThread {
    /// Its number.
    pub pid: u32,
    /// Its name, as `jbd2/loop0-8`.
    pub name: String,
    /// The CPU it last ran on.
    pub last_cpu: usize,
    /// The CPUs it may run on, ascending.
    pub allowed_cpus: Vec<usize>,
}

/// The threads that work for a file system on that device (`loop0`), and those of its type that
/// name no device (btrfs). Empty where /proc shows none.
pub fn of_device(device: &str) -> Vec<KernelThread> {
    let mut threads = file_system_threads();
    threads.retain(|t| match t.name.split_once('/') {
        // Names are `jbd2/loop0-8`, `xfsaild/loop0`, cut to 15 bytes.
        Some((_, rest)) => rest
            .strip_prefix(device)
            .is_some_and(|r| r.is_empty() || r.starts_with('-')),
        None => t.name == device || t.name.starts_with("btrfs-"),
    });
    threads
}

/// All kernel threads that work for file systems.
pub fn file_system_threads() -> Vec<KernelThread> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read_thread)
        .filter(|t| {
            FILE_SYSTEM_THREADS
                .iter()
                .any(|prefix| t.name.starts_with(prefix))
        })
        .collect()
}

fn read_thread(pid: u32) -> Option<KernelThread> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, last_cpu) = parse_stat(&text)?;
    let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let allowed_cpus = sched_getaffinity(Some(number))
        .map(|set| members(&set))
        .unwrap_or_default();
    Some(KernelThread {
        pid,
        name,
        last_cpu,
        allowed_cpus,
    })
}

/// Name and last CPU of a kernel thread; `None` for other processes. proc_pid_stat(5), fields 2, 9
/// and 39; the name is in parentheses and may hold some.
fn parse_stat(text: &str) -> Option<(String, usize)> {
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let flags: u64 = fields.nth(6)?.parse().ok()?;
    if flags & PF_KTHREAD == 0 {
        return None;
    }
    Some((name.to_owned(), fields.nth(29)?.parse().ok()?))
}

/// Restores where a kernel thread may run, on drop.
#[derive(Debug)]
pub struct Moved {
    pid: Pid,
    before: CpuSet,
}

/// Lets a kernel thread run only on those CPUs until the guard is dropped. Fails without root, and
/// for threads that are bound to a CPU.
pub fn confine(thread: &KernelThread, cpus: &[usize]) -> Result<Moved, HostError> {
    let failed = |e| HostError::io(format!("move kernel thread {}", thread.name), e);
    let pid = i32::try_from(thread.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(rustix::io::Errno::SRCH))?;
    let before = sched_getaffinity(Some(pid)).map_err(failed)?;
    sched_setaffinity(Some(pid), &cpu_set(cpus)).map_err(failed)?;
    Ok(Moved { pid, before })
}

/// Keeps the threads of the file system on `device`, which must be the caller's own, to `cpus`, if
/// those are fewer than all: to those that the calling thread may use, mostly, so that commits cost
/// the same each time. Threads that name no device (btrfs) also work for others and are left alone.
/// A remount makes new threads. Without root nothing is moved.
pub fn confine_of_device(device: &str, cpus: &[usize]) -> Vec<Moved> {
    if cpus.len() >= crate::environment::cpus_online() as usize {
        return Vec::new();
    }
    of_device(device)
        .iter()
        .filter(|thread| thread.name.contains('/'))
        .filter_map(|thread| confine(thread, cpus).ok())
        .collect()
}

impl Drop for Moved {
    fn drop(&mut self) {
        // The thread may have ended with its file system.
        let _ = sched_setaffinity(Some(self.pid), &self.before);
    }
}

/// The CPU mask of unbound workqueues as the kernel writes it (hexadecimal); `None` where it is not
/// shown.
pub fn workqueue_mask() -> Option<String> {
    Some(fs::read_to_string(WORKQUEUE_MASK).ok()?.trim().to_owned())
}

/// Restores the workqueues' mask on drop, when fsage is asked to stop, and when it is killed.
#[derive(Debug)]
pub struct WorkqueueMask {
    _cleanup: crate::cleanup::Cleanup,
    _afterwards: Option<Afterwards>,
    /// The mask's file, locked for as long as it is confined; the shell that waits has it too.
    _lock: Arc<File>,
}

/// Gives the workqueues back what is the script's argument: its stdout is the mask.
const RESTORE_MASK: &str = "printf '%s' \"$1\"";

/// Lets unbound workqueues use only those CPUs, for the whole machine, until the guard is dropped.
/// Fails without root, and while another fsage does so: the first to end would free the queues of the other, and the other
/// give back what the first had set.
pub fn confine_workqueues(cpus: &[usize]) -> Result<WorkqueueMask, HostError> {
    let path = Path::new(WORKQUEUE_MASK);
    let failed = |what: &str, e| HostError::at(what, path, e);
    let file = File::options().read(true).write(true).open(path);
    let file = Arc::new(file.map_err(|e| failed("open", e))?);
    // Where there are no locks, nobody is kept away.
    if let Err(Errno::WOULDBLOCK) = flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        return Err(HostError::Refused {
            what: "keep the kernel's workqueues to one CPU".into(),
            why: "another fsage keeps them".into(),
        });
    }
    let mut before = String::new();
    (&*file)
        .read_to_string(&mut before)
        .map_err(|e| failed("read", e))?;
    let mask = cpus
        .iter()
        .filter(|&&c| c < 64)
        .fold(0u64, |mask, &c| mask | 1 << c);
    let text = if mask >> 32 == 0 {
        format!("{mask:x}")
    } else {
        format!("{:x},{:08x}", mask >> 32, mask & 0xffff_ffff)
    };
    // Before it is changed: what nobody would give back stays.
    let stdout = file.try_clone().map_err(|e| failed("open", e))?;
    let afterwards = Afterwards::writing(RESTORE_MASK, before.trim().into(), stdout).ok();
    (&*file)
        .write_all(text.as_bytes())
        .map_err(|e| failed("write", e))?;
    let own = Arc::clone(&file);
    let cleanup = crate::cleanup::register(move || {
        let _ = (&*own).write_all(before.as_bytes());
    });
    Ok(WorkqueueMask {
        _cleanup: cleanup,
        _afterwards: afterwards,
        _lock: file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_moves_the_thread_of_a_journal() {
        let scratch = match crate::Scratch::create(&"ext4,size=32M".parse().unwrap()) {
            Ok(scratch) => scratch,
            Err(e @ (HostError::NotRoot { .. } | HostError::MissingTool { .. })) => {
                fsage_testing::not_run(format_args!("failed to {e}"));
                return;
            }
            Err(e) => panic!("failed to {e}"),
        };
        let device = scratch
            .record()
            .device
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        // Those of btrfs name no device: other tests may have some.
        let own = || -> Vec<KernelThread> {
            let all = of_device(&device).into_iter();
            all.filter(|t| t.name.contains('/')).collect()
        };
        let threads = own();
        let [journal] = threads.as_slice() else {
            panic!("{threads:?}")
        };
        assert_eq!(journal.name, format!("jbd2/{device}-8"));
        let cpu = journal.allowed_cpus[journal.allowed_cpus.len() - 1];
        let moved = confine(journal, &[cpu]).unwrap();
        assert_eq!(own()[0].allowed_cpus, [cpu]);
        drop(moved);
        assert_eq!(own()[0].allowed_cpus, journal.allowed_cpus);
        let all: Vec<usize> = (0..crate::environment::cpus_online() as usize).collect();
        assert!(confine_of_device(&device, &all).is_empty());
        if all.len() > 1 {
            let moved = confine_of_device(&device, &[cpu]);
            assert_eq!(moved.len(), 1);
            assert_eq!(own()[0].allowed_cpus, [cpu]);
            drop(moved);
        }
        scratch.close().unwrap();
    }

    #[test]
    fn one_at_a_time_confines_the_workqueues() {
        let first = match confine_workqueues(&[0]) {
            Ok(first) => first,
            // Some other test of the machine's has them.
            Err(e) => {
                fsage_testing::not_run(format_args!("failed to {e}"));
                return;
            }
        };
        let confined = workqueue_mask().unwrap();
        assert!(confined.ends_with('1'), "{confined}");
        let second = confine_workqueues(&[0]).unwrap_err().to_string();
        assert!(second.contains("another fsage keeps them"), "{second}");
        assert_eq!(workqueue_mask().unwrap(), confined);
        drop(first);
        // Its shell has the lock no more; another test's fsage may.
        let again = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            confine_workqueues(&[0]).is_ok()
        });
        assert!(again);
    }

    #[test]
    fn reads_names_with_parentheses() {
        let mut fields = vec!["0"; 50];
        fields[6] = "2129984";
        fields[36] = "3";
        let text = format!("77 (jbd2/(x) y) S {}", fields[1..].join(" "));
        assert_eq!(parse_stat(&text), Some(("jbd2/(x) y".to_owned(), 3)));
        fields[6] = "4194304";
        let text = format!("77 (bash) S {}", fields[1..].join(" "));
        assert_eq!(parse_stat(&text), None);
        assert_eq!(parse_stat("77 (kworker"), None);
    }
}
