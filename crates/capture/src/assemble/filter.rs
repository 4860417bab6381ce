//! Which operations are wanted.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use fsage_core::DevId;
use fsage_namespace::path::{PATH_BYTES, is_beneath};
use rustc_hash::FxHashMap;
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

use crate::CaptureError;

/// Names remembered of each sort, and their bytes; past that all are forgotten.
const REMEMBERED: usize = 1 << 16;
const REMEMBERED_BYTES: usize = 16 << 20;

/// Files below some directories; everything if there are none.
///
/// A program may reach them by other names, through symbolic links. So directories are compared by
/// what they resolve to, as the tree is when the name is first met (links made later are noticed).
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Without symbolic links.
    directories: Vec<Vec<u8>>,
    /// Directories as programs name them, and whether names in them are wanted.
    seen: Remembered,
    /// Files as programs name them, and whether what they lead to is wanted.
    targets: Remembered,
    /// Devices that are mounted on one of the directories: all that is on them is below it.
    devices: Vec<DevId>,
}

impl Filter {
    pub(super) fn new(under: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut filter = Self::default();
        for directory in under {
            let failed = |e| CaptureError::io(format!("find directory {}", directory.display()), e);
            let directory = directory.canonicalize().map_err(failed)?;
            let dev = directory.metadata().map_err(failed)?.dev();
            let above = directory.parent().and_then(|parent| parent.metadata().ok());
            if above.is_some_and(|above| above.dev() != dev) {
                filter.devices.push(DevId(dev));
            }
            filter
                .directories
                .push(directory.as_os_str().as_bytes().to_vec());
        }
        Ok(filter)
    }

    pub(super) fn takes_all(&self) -> bool {
        self.directories.is_empty()
    }

    /// Whether the name `path`, absolute, stands in one of the directories, or names one.
    pub(super) fn takes_path(&self, path: &[u8]) -> bool {
        if self.takes_all() {
            return false;
        }
        let split = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let (dir, _) = path.split_at(split);
        self.seen.find(dir, || self.takes_resolved(&resolved(dir)))
            || self.directories.iter().any(|directory| path == directory)
    }

    /// Whether the file that `path` leads to through a symbolic link lies in one of them.
    pub(super) fn takes_target(&self, path: &[u8]) -> bool {
        // What stands there means something else to every process.
        let own = is_beneath(path, b"/proc") || is_beneath(path, b"/dev");
        !self.takes_all()
            && !own
            && self.targets.find(path, || {
                led_to(path).is_some_and(|path| self.takes_resolved(&path))
            })
    }

    fn takes_resolved(&self, path: &[u8]) -> bool {
        self.directories
            .iter()
            .any(|directory| is_beneath(path, directory))
    }

    /// A symbolic link was made, moved or removed: names may lead elsewhere.
    pub(super) fn links_changed(&self) {
        self.seen.forget();
        self.targets.forget();
    }

    pub(super) fn takes_device(&self, dev: DevId) -> bool {
        self.devices.contains(&dev)
    }
}

/// What was found for names before.
#[derive(Debug, Default)]
struct Remembered(RefCell<Names>);

#[derive(Debug, Default)]
struct Names {
    found: FxHashMap<Box<[u8]>, bool>,
    bytes: usize,
}

impl Remembered {
    /// What `find` found for this name before, or finds now.
    fn find(&self, name: &[u8], find: impl FnOnce() -> bool) -> bool {
        if let Some(&known) = self.0.borrow().found.get(name) {
            return known;
        }
        let found = find();
        let mut names = self.0.borrow_mut();
        if names.found.len() >= REMEMBERED || names.bytes >= REMEMBERED_BYTES {
            *names = Names::default();
        }
        names.bytes += name.len();
        names.found.insert(name.into(), found);
        found
    }

    fn forget(&self) {
        *self.0.borrow_mut() = Names::default();
    }
}

/// An absolute directory without symbolic links; what of it is not there (any more) stays as it is.
///
/// What lies above a directory that is there is there too, so that of a name of n parts log n are looked at:
/// programs nest directories by thousands.
fn resolved(dir: &[u8]) -> Vec<u8> {
    if let Some(known) = led_to(dir) {
        return known;
    }
    // Where a part of it ends; a longer one cannot be asked for.
    let ends: Vec<usize> = dir
        .iter()
        .enumerate()
        .take(PATH_BYTES)
        .filter(|&(at, &byte)| byte == b'/' && at > 0)
        .map(|(at, _)| at)
        .collect();
    let part = |end: usize| dir.get(..end).unwrap_or_default();
    let mut deepest = None;
    // Those before `low` lead somewhere, those from `high` on nowhere. Most often little of it is gone.
    let (mut low, mut high, mut back) = (0, ends.len(), 1);
    while low < high {
        let at = match deepest {
            None => high.saturating_sub(back),
            Some(_) => usize::midpoint(low, high),
        };
        let end = ends.get(at).copied().unwrap_or(0);
        if let Some(known) = led_to(part(end)) {
            deepest = Some((known, end));
            low = at + 1;
        } else {
            high = at;
            back *= 2;
        }
    }
    match deepest {
        Some((known, end)) => {
            let known = known.strip_suffix(b"/").unwrap_or(&known);
            [known, dir.get(end..).unwrap_or_default()].concat()
        }
        None => dir.to_vec(),
    }
}

/// The name without symbolic links of what an absolute path leads to, as the kernel tells it of an open file: two
/// calls, however deep that lies. `None` if nothing is there, or where it lies too deep to be named.
fn led_to(path: &[u8]) -> Option<Vec<u8>> {
    if path.len() >= PATH_BYTES {
        return None;
    }
    let path: &[u8] = if path.is_empty() { b"/" } else { path };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = openat(CWD, OsStr::from_bytes(path), flags, Mode::empty()).ok()?;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let name = readlinkat(CWD, link, Vec::new()).ok()?.into_bytes();
    Some(name).filter(|name| name.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_through_symbolic_links_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).as_os_str().as_bytes().to_vec();
        for made in ["tree/sub", "other"] {
            std::fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        std::fs::write(dir.path().join("tree/file"), "").unwrap();
        symlink("tree", dir.path().join("link")).unwrap();
        symlink("../other", dir.path().join("tree/out")).unwrap();
        symlink("tree/file", dir.path().join("name")).unwrap();
        // The directory itself was given through a link.
        let filter = Filter::new(&[dir.path().join("link")]).unwrap();
        for (name, wanted) in [
            ("tree", true),
            ("tree/file", true),
            ("tree/sub/gone/file", true),
            ("link/file", true),
            ("link/sub/new", true),
            ("other/file", false),
            ("tree/out/file", false),
            ("treetop/file", false),
            ("name", false),
        ] {
            assert_eq!(filter.takes_path(&at(name)), wanted, "{name}");
        }
        assert!(filter.takes_target(&at("name")));
        assert!(!filter.takes_target(&at("other")));
        symlink("tree/sub", dir.path().join("later")).unwrap();
        assert!(filter.takes_path(&at("later/x")));
        std::fs::remove_file(dir.path().join("later")).unwrap();
        symlink("other", dir.path().join("later")).unwrap();
        filter.links_changed();
        assert!(!filter.takes_path(&at("later/x")));
    }

    /// By resolving every part of every name this takes an hour.
    #[test]
    fn directories_are_nested_by_thousands() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["tree", "other"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        symlink("../other", root.join("tree/out")).unwrap();
        symlink("tree", root.join("in")).unwrap();
        let filter = Filter::new(&[root.join("tree")]).unwrap();
        let mut deepest = openat(CWD, root.join("tree"), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut names = ["tree", "in", "other", "tree/out"]
            .map(|name| root.join(name).as_os_str().as_bytes().to_vec());
        for depth in 0..4000 {
            rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = openat(&deepest, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
            for (name, wanted) in names.iter_mut().zip([true, true, false, false]) {
                name.extend_from_slice(b"/d");
                assert_eq!(filter.takes_path(name), wanted, "{depth}");
                // Of what lies deeper nobody tells the whole name.
                let target = led_to(name).map(|path| filter.takes_resolved(&path));
                assert!(depth > 1500 || target == wanted.then_some(true));
            }
            // As when a program makes a link in each.
            filter.links_changed();
        }
        // What is gone is known by what it lay in.
        rustix::fs::renameat(CWD, root.join("tree/d"), CWD, root.join("other/e")).unwrap();
        for (name, wanted) in names.iter().zip([true, true, false, false]) {
            assert_eq!(filter.takes_path(name), wanted);
        }
        assert!(!filter.takes_path(root.join("other/e/d/f").as_os_str().as_bytes()));
        // Deeper than what removes the directory goes by itself.
        let mut top = openat(CWD, root.join("other/e"), OFlags::DIRECTORY, Mode::empty()).unwrap();
        drop(deepest);
        while let Ok(next) = openat(&top, "d", OFlags::DIRECTORY, Mode::empty()) {
            rustix::fs::renameat(&top, "d", CWD, root.join("other/next")).unwrap();
            std::fs::remove_dir(root.join("other/e")).unwrap();
            std::fs::rename(root.join("other/next"), root.join("other/e")).unwrap();
            top = next;
        }
    }
}
