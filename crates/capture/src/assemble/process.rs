//! What is known of each process: its descriptors, its directory, its mapped files.

use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::rc::Rc;

use fsage_core::{Fd, FileId, Pid};
use fsage_namespace::Mapping;

use super::Assembler;

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// Absolute path, where known.
    pub path: Option<Rc<[u8]>>,
    /// Device and inode, to notice that the descriptor is another file by now.
    pub file: Option<FileId>,
    /// It was open before the capture began, so no operation of the trace tells its path.
    pub inherited: bool,
    /// What opened it was wanted, by whatever name.
    pub wanted: bool,
    /// Of how many renames by others its name has been looked at since.
    pub renames: u32,
}

/// Where a process is.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Its working directory; `None` where that is unknown.
    pub directory: Option<Rc<[u8]>>,
    /// What its absolute paths start from, where that is not everybody's root.
    pub root: Option<Rc<[u8]>>,
    /// Which directory it is, where known.
    pub file: Option<FileId>,
    /// Of how many renames by others its name has been looked at since.
    pub renames: u32,
}

/// All processes, with where they are and their mapped files.
pub(super) type Processes = fsage_namespace::Processes<Open, Place, FileId>;

impl Assembler {
    /// Looks at a process that is met for the first time.
    pub(super) fn meet(&mut self, pid: Pid) {
        if !self.processes.knows(pid.0) {
            read_proc(pid, &mut self.processes);
        }
    }

    /// A process, and all that share its directory, are elsewhere now.
    pub(super) fn go_to(&mut self, pid: Pid, directory: Option<Rc<[u8]>>, file: Option<FileId>) {
        self.meet(pid);
        let place = Place {
            directory,
            root: self.root_of(pid),
            file,
            renames: self.renames,
        };
        self.processes.set_directory(pid.0, place);
    }

    /// What the absolute paths of a process start from, where that is not everybody's root.
    pub(super) fn root_of(&self, pid: Pid) -> Option<Rc<[u8]>> {
        self.processes.directory(pid.0)?.root.clone()
    }

    /// What is known of a descriptor.
    pub(super) fn open_of(&mut self, pid: Pid, fd: i32) -> Option<Open> {
        self.meet(pid);
        self.processes.description(pid.0, Fd(fd)).cloned()
    }

    /// Maps a range.
    pub(super) fn map(&mut self, pid: Pid, start: u64, length: u64, offset: u64, file: FileId) {
        self.meet(pid);
        let mapping = Mapping {
            length: page_up(length),
            offset,
            file,
        };
        self.processes.map(pid.0, start, mapping);
    }

    /// Unmaps a range; returns the first part of it that was a file's.
    pub(super) fn unmap(&mut self, pid: Pid, start: u64, length: u64) -> Option<Mapping<FileId>> {
        let first = self.first_mapped(pid, start, length);
        self.processes.unmap(pid.0, start, page_up(length));
        first
    }

    /// The first mapped part of a range.
    pub(super) fn first_mapped(
        &mut self,
        pid: Pid,
        start: u64,
        length: u64,
    ) -> Option<Mapping<FileId>> {
        self.meet(pid);
        let pieces = self.processes.mapped(pid.0, start, length.max(1));
        let mut first = *pieces.first()?;
        first.length = first.length.min(length);
        Some(first)
    }
}

/// Adds what /proc tells of a running process.
pub(super) fn read_proc(pid: Pid, processes: &mut Processes) {
    let root = format!("/proc/{}", pid.0);
    processes.set_directory(pid.0, place(&root));
    read_descriptors(&root, pid.0, processes);
    for (start, mapping) in mapped_files(&root) {
        processes.map(pid.0, start, mapping);
    }
}

/// Where a process or a thread is, by its directory in /proc.
pub(super) fn place(root: &str) -> Place {
    let link = |name: &str| {
        let path = fs::read_link(format!("{root}/{name}")).ok()?;
        Some(Rc::from(path.into_os_string().into_vec()))
    };
    Place {
        directory: link("cwd"),
        root: link("root").filter(|root: &Rc<[u8]>| **root != *b"/"),
        file: super::moved::identity(format!("{root}/cwd")),
        renames: 0,
    }
}

/// Gives a task the descriptors that a process or a thread has by its directory in /proc.
pub(super) fn read_descriptors(root: &str, task: u32, processes: &mut Processes) {
    let entries = fs::read_dir(format!("{root}/fd")).ok();
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let path = fs::read_link(entry.path()).ok();
        // Pipes and their like have names such as "pipe:[12]".
        let path = path.filter(|path| path.is_absolute());
        let flags = descriptor_flags(root, fd);
        let open = processes.add(Open {
            path: path.map(|path| path.as_os_str().as_bytes().into()),
            file: None,
            inherited: true,
            wanted: false,
            renames: 0,
        });
        processes.install(task, Fd(fd), open, flags & libc::O_CLOEXEC as u32 != 0);
    }
}

/// Whether a process is there and no zombie.
pub(super) fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.0)).unwrap_or_default();
    // "pid (name) state …"; a name may hold anything, a parenthesis too.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn page_up(length: u64) -> u64 {
    length.saturating_add(4095) & !4095
}

/// `flags` of /proc/PID/fdinfo/FD, octal.
fn descriptor_flags(root: &str, fd: i32) -> u32 {
    let text = fs::read_to_string(format!("{root}/fdinfo/{fd}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("flags:"));
    line.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .unwrap_or(0)
}

/// The mapped files of /proc/PID/maps: "start-end perms offset major:minor inode path".
fn mapped_files(root: &str) -> Vec<(u64, Mapping<FileId>)> {
    let text = fs::read(format!("{root}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(mapped_file).collect()
}

fn mapped_file(line: &str) -> Option<(u64, Mapping<FileId>)> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let _permissions = fields.next()?;
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let dev = fsage_core::DevId::new(hex(major)? as u32, hex(minor)? as u32);
    let ino: u64 = fields.next()?.parse().ok().filter(|&ino| ino != 0)?;
    let mapping = Mapping {
        length: end.checked_sub(start)?,
        offset,
        file: FileId {
            dev,
            ino,
            generation: 0,
        },
    };
    Some((start, mapping))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_tells_of_this_process() {
        let pid = std::process::id();
        let mut processes = Processes::default();
        read_proc(Pid(pid), &mut processes);
        let cwd = std::env::current_dir().unwrap();
        let known = processes.directory(pid).cloned().unwrap();
        assert_eq!(known.directory.as_deref(), Some(cwd.as_os_str().as_bytes()));
        assert_eq!(known.root, None);
        assert!(!processes.mapped(pid, 0, u64::MAX).is_empty());
    }

    #[test]
    fn a_mapping_is_of_a_file_or_none() {
        let line = "7f01000-7f05000 r--p 00002000 fe:01 42    /usr/lib/x.so";
        let (start, mapping) = mapped_file(line).unwrap();
        assert_eq!(
            (start, mapping.length, mapping.offset),
            (0x7f0_1000, 0x4000, 0x2000)
        );
        assert_eq!(
            (mapping.file.ino, mapping.file.dev),
            (42, fsage_core::DevId::new(0xfe, 1))
        );
        assert!(mapped_file("7f01000-7f05000 rw-p 00000000 00:00 0").is_none());
    }
}
