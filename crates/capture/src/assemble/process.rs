//! What is known of each process: its descriptors, its directory, its mapped files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::rc::Rc;

use fsage_core::{FileId, Pid};
use rustc_hash::FxHashMap;

const CLONE_FS: u64 = 0x200;
const CLONE_FILES: u64 = 0x400;
const CLONE_VM: u64 = 0x100;

/// An open descriptor.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// Absolute path, where known.
    pub path: Option<Rc<[u8]>>,
    /// Device and inode, to notice that the descriptor is another file by now.
    pub file: Option<FileId>,
    pub cloexec: bool,
    /// It was open before the capture began, so no operation of the trace tells its path.
    pub inherited: bool,
    /// What opened it was wanted, by whatever name.
    pub wanted: bool,
}

/// A mapped range of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub end: u64,
    pub offset: u64,
    pub file: FileId,
}

type Descriptors = FxHashMap<i32, Open>;
type Regions = BTreeMap<u64, Region>;

/// A process. Clones may share each of the three with others.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub descriptors: Rc<RefCell<Descriptors>>,
    pub directory: Rc<RefCell<Option<Rc<[u8]>>>>,
    pub regions: Rc<RefCell<Regions>>,
}

impl Process {
    /// What /proc tells of a running process.
    pub(super) fn from_proc(pid: Pid) -> Self {
        let process = Self::default();
        let root = format!("/proc/{}", pid.0);
        *process.directory.borrow_mut() = fs::read_link(format!("{root}/cwd"))
            .ok()
            .map(|path| path.into_os_string().into_vec().into());
        if let Ok(entries) = fs::read_dir(format!("{root}/fd")) {
            let mut table = process.descriptors.borrow_mut();
            for entry in entries.flatten() {
                let Some(fd) = entry
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse().ok())
                else {
                    continue;
                };
                let path = fs::read_link(entry.path()).ok();
                // Pipes and their like have names such as "pipe:[12]".
                let path = path.filter(|path| path.is_absolute());
                let flags = descriptor_flags(&root, fd);
                table.insert(
                    fd,
                    Open {
                        path: path.map(|path| path.as_os_str().as_bytes().into()),
                        file: None,
                        cloexec: flags & libc::O_CLOEXEC as u32 != 0,
                        inherited: true,
                        wanted: false,
                    },
                );
            }
        }
        *process.regions.borrow_mut() = regions_of(&root);
        process
    }

    /// The child that clone(2) makes with these flags.
    pub(super) fn child(&self, flags: u64) -> Self {
        fn share<T: Clone>(shared: bool, of: &Rc<RefCell<T>>) -> Rc<RefCell<T>> {
            if shared {
                Rc::clone(of)
            } else {
                Rc::new(RefCell::new(of.borrow().clone()))
            }
        }
        Self {
            descriptors: share(flags & CLONE_FILES != 0, &self.descriptors),
            directory: share(flags & CLONE_FS != 0, &self.directory),
            regions: share(flags & CLONE_VM != 0, &self.regions),
        }
    }

    /// Another program runs: its descriptors are its own, without those closed by exec, and its
    /// memory is new.
    pub(super) fn exec(&mut self) {
        let mut table = self.descriptors.borrow().clone();
        table.retain(|_, open| !open.cloexec);
        self.descriptors = Rc::new(RefCell::new(table));
        self.regions = Rc::default();
    }

    /// The absolute path of a descriptor, if it still is the file that it was.
    pub(super) fn open(&self, fd: i32) -> Option<Open> {
        self.descriptors.borrow().get(&fd).cloned()
    }

    /// Maps a range.
    pub(super) fn map(&self, start: u64, length: u64, offset: u64, file: FileId) {
        self.unmap(start, length);
        let end = start.saturating_add(page_up(length));
        self.regions
            .borrow_mut()
            .insert(start, Region { end, offset, file });
    }

    /// Unmaps a range; returns the first part of it that was a file's.
    pub(super) fn unmap(&self, start: u64, length: u64) -> Option<(Region, u64, u64)> {
        let end = start.saturating_add(page_up(length));
        let first = self.region(start, length);
        let mut regions = self.regions.borrow_mut();
        let hit: Vec<_> = regions
            .range(..end)
            .rev()
            .take_while(|(_, region)| region.end > start)
            .map(|(&at, &region)| (at, region))
            .collect();
        for (at, region) in hit {
            regions.remove(&at);
            if at < start {
                regions.insert(
                    at,
                    Region {
                        end: start,
                        ..region
                    },
                );
            }
            if region.end > end {
                let offset = region.offset + (end - at);
                regions.insert(end, Region { offset, ..region });
            }
        }
        first
    }

    /// The first mapped part of a range: its region, the offset in the file and the length.
    pub(super) fn region(&self, start: u64, length: u64) -> Option<(Region, u64, u64)> {
        let end = start.saturating_add(length);
        let regions = self.regions.borrow();
        let before = regions
            .range(..=start)
            .next_back()
            .filter(|(_, region)| region.end > start);
        let (&at, &region) = before.or_else(|| regions.range(start..end).next())?;
        let from = at.max(start);
        let to = region.end.min(end);
        Some((region, region.offset + (from - at), to.saturating_sub(from)))
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
fn regions_of(root: &str) -> Regions {
    let text = fs::read(format!("{root}/maps")).unwrap_or_default();
    let mut regions = Regions::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let mut fields = line.split_whitespace();
        let parsed = (|| {
            let (start, end) = fields.next()?.split_once('-')?;
            let _permissions = fields.next()?;
            let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
            let (major, minor) = fields.next()?.split_once(':')?;
            let dev = fsage_core::DevId::new(
                u32::from_str_radix(major, 16).ok()?,
                u32::from_str_radix(minor, 16).ok()?,
            );
            let ino: u64 = fields.next()?.parse().ok().filter(|&ino| ino != 0)?;
            let file = FileId {
                dev,
                ino,
                generation: 0,
            };
            let end = u64::from_str_radix(end, 16).ok()?;
            Some((
                u64::from_str_radix(start, 16).ok()?,
                Region { end, offset, file },
            ))
        })();
        regions.extend(parsed);
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ino: u64) -> FileId {
        FileId {
            ino,
            ..FileId::default()
        }
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let process = Process::default();
        process.map(0x10000, 0x5000, 0x1000, file(7));
        let (region, offset, length) = process.unmap(0x12000, 0x1000).unwrap();
        assert_eq!((region.file.ino, offset, length), (7, 0x3000, 0x1000));
        assert!(process.region(0x12000, 0x1000).is_none());
        let (_, offset, length) = process.region(0x13000, 0x9000).unwrap();
        assert_eq!((offset, length), (0x4000, 0x2000));
        let (_, offset, _) = process.region(0x10000, 0x1000).unwrap();
        assert_eq!(offset, 0x1000);
    }

    #[test]
    fn a_fork_copies_and_a_thread_shares() {
        let parent = Process::default();
        let open = Open {
            path: None,
            file: None,
            cloexec: true,
            inherited: false,
            wanted: false,
        };
        let forked = parent.child(0);
        let thread = parent.child(CLONE_FILES | CLONE_FS | CLONE_VM);
        parent.descriptors.borrow_mut().insert(5, open);
        assert!(forked.open(5).is_none());
        assert!(thread.open(5).is_some());
        let mut executed = parent.child(0);
        executed.exec();
        assert!(executed.open(5).is_none());
    }

    #[test]
    fn proc_tells_of_this_process() {
        let process = Process::from_proc(Pid(std::process::id()));
        let cwd = std::env::current_dir().unwrap();
        let known = process.directory.borrow().clone().unwrap();
        assert_eq!(&*known, cwd.as_os_str().as_bytes());
        assert!(!process.regions.borrow().is_empty());
    }
}
