//! Other processes, as /proc tells of them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};

/// `PF_EXITING` of linux/sched.h: it is on its way out, whatever it waits for.
const EXITING: u64 = 0x4;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: u32,
    /// Whether it has not been killed and has not ended.
    pub lives: bool,
}

/// All processes that this one may see.
pub(crate) fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            of(pid)
        })
        .collect()
}

/// One of them; `None` where it is gone.
pub(crate) fn of(pid: u32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat))
}

/// `PID (NAME) STATE PARENT …` of proc(5); the name may hold anything.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    // Parent, process group, session, terminal and its group stand between.
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    Some(Process {
        pid,
        lives: !matches!(state, "Z" | "X" | "x") && flags & EXITING == 0,
    })
}

/// The links of /proc to what a process has open, runs or stands in.
fn links(pid: u32) -> Vec<PathBuf> {
    let base = PathBuf::from(format!("/proc/{pid}"));
    let fds = std::fs::read_dir(base.join("fd")).into_iter().flatten();
    let mut links: Vec<PathBuf> = fds.flatten().map(|fd| fd.path()).collect();
    links.extend(["cwd", "root", "exe"].map(|name| base.join(name)));
    links
}

/// Everything that a process has open or mapped, runs or stands in, as /proc says; nothing of it is touched.
pub(crate) fn uses(pid: u32) -> Vec<PathBuf> {
    let read = |link: &PathBuf| std::fs::read_link(link).ok();
    let mut uses: Vec<PathBuf> = links(pid).iter().filter_map(read).collect();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    uses.extend(maps.split(|&byte| byte == b'\n').filter_map(mapped));
    uses.dedup();
    uses
}

/// The file of a line of proc_pid_maps(5): the sixth field, in which a line feed is `\012`.
fn mapped(line: &[u8]) -> Option<PathBuf> {
    let at = line.iter().position(|&byte| byte == b'/')?;
    let name = OsStr::from_bytes(line.get(at..)?);
    Some(PathBuf::from(name))
}

/// The first of the living processes, but this one, that uses something at or below `path`.
pub(crate) fn user_of(path: &Path) -> Option<u32> {
    let own = std::process::id();
    let within = |used: &PathBuf| used.starts_with(path) || is_deleted(used, path);
    all()
        .into_iter()
        .filter(|p| p.lives && p.pid != own)
        .find(|p| uses(p.pid).iter().any(within))
        .map(|p| p.pid)
}

/// The first of the living processes that uses something of the file system on a block device, wherever that is
/// mounted. Not found on file systems that have numbers of their own, as btrfs.
pub(crate) fn user_of_device(device: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let number = std::fs::metadata(device).ok()?.rdev();
    let is_on = |link: &PathBuf| {
        // Without asking who serves it, who may have died.
        let flags = AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(rustix::fs::CWD, link, flags, StatxFlags::TYPE);
        found.is_ok_and(|of| rustix::fs::makedev(of.stx_dev_major, of.stx_dev_minor) == number)
    };
    all()
        .into_iter()
        .filter(|p| p.lives)
        .find(|p| links(p.pid).iter().any(is_on))
        .map(|p| p.pid)
}

/// A process with what it calls itself, as `process 7 (sleep)`.
pub(crate) fn in_words(pid: u32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// Whether a process is a fsage that lives, by its name.
pub(crate) fn is_fsage(process: Process) -> bool {
    let name = |who: &str| std::fs::read_to_string(format!("/proc/{who}/comm"));
    let its = name(&process.pid.to_string()).unwrap_or_default();
    let is = its.trim_end() == "fsage" || name("self").is_ok_and(|own| own == its);
    is && process.lives && process.pid != std::process::id()
}

fn is_deleted(used: &Path, path: &Path) -> bool {
    let bytes = used.as_os_str().as_bytes();
    bytes
        .strip_suffix(b" (deleted)")
        .is_some_and(|used| used == path.as_os_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = "7 (a) Z 1 (b) S 3 7 7 0 -1 4194304 0";
        let process = parse(7, line).unwrap();
        assert!(process.lives);
        let dying = parse(7, "7 (x) D 3 7 7 0 -1 4194308 0").unwrap();
        assert!(!dying.lives);
        assert!(!parse(7, "7 (x) Z 3 7 7 0 -1 4194304 0").unwrap().lives);
        assert!(parse(7, "7 x").is_none() && parse(7, "7 (x) S").is_none());
    }

    #[test]
    fn this_process_lives_and_uses_its_directory() {
        let own = all()
            .into_iter()
            .find(|p| p.pid == std::process::id())
            .unwrap();
        assert!(own.lives);
        let here = std::env::current_dir().unwrap();
        assert!(uses(own.pid).contains(&here));
    }

    #[test]
    fn a_child_is_seen_with_what_it_uses() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("99")
            .current_dir(&dir)
            .spawn()
            .unwrap();
        assert_eq!(user_of(&dir), Some(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(user_of(&dir), None);
        let program = dir.join("program");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = std::process::Command::new(&program)
            .arg("99")
            .current_dir("/")
            .spawn()
            .unwrap();
        assert_eq!(user_of(&dir), Some(child.id()), "its program");
        child.kill().unwrap();
        child.wait().unwrap();
        let line = b"7f0 r-xp 00000000 fe:00 12     /lib/a b.so (deleted)";
        assert_eq!(mapped(line), Some("/lib/a b.so (deleted)".into()));
        assert_eq!(mapped(b"7f0 rw-p 00000000 00:00 0     [heap]"), None);
    }
}
