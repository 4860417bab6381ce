//! Which operations are wanted.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fsage_core::DevId;
use fsage_namespace::path::is_beneath;
use rustc_hash::FxHashMap;

use crate::CaptureError;

/// Names remembered of each sort; past that all are forgotten.
const REMEMBERED: usize = 1 << 16;

/// Files below some directories; everything if there are none.
///
/// A program may reach them by other names, through symbolic links. So directories are compared by
/// what they resolve to, as the tree is when the name is first met (links made later are noticed).
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Without symbolic links.
    directories: Vec<Vec<u8>>,
    /// Directories as programs name them, and whether names in them are wanted.
    seen: RefCell<FxHashMap<Box<[u8]>, bool>>,
    /// Files as programs name them, and whether what they lead to is wanted.
    targets: RefCell<FxHashMap<Box<[u8]>, bool>>,
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
        remembered(&self.seen, dir, || self.takes_resolved(&resolved(dir)))
            || self.directories.iter().any(|directory| path == directory)
    }

    /// Whether the file that `path` leads to through a symbolic link lies in one of them.
    pub(super) fn takes_target(&self, path: &[u8]) -> bool {
        // What stands there means something else to every process.
        let own = is_beneath(path, b"/proc") || is_beneath(path, b"/dev");
        !self.takes_all()
            && !own
            && remembered(&self.targets, path, || {
                Path::new(OsStr::from_bytes(path))
                    .canonicalize()
                    .is_ok_and(|path| self.takes_resolved(path.as_os_str().as_bytes()))
            })
    }

    fn takes_resolved(&self, path: &[u8]) -> bool {
        self.directories
            .iter()
            .any(|directory| is_beneath(path, directory))
    }

    /// A symbolic link was made, moved or removed: names may lead elsewhere.
    pub(super) fn links_changed(&self) {
        self.seen.borrow_mut().clear();
        self.targets.borrow_mut().clear();
    }

    pub(super) fn takes_device(&self, dev: DevId) -> bool {
        self.devices.contains(&dev)
    }
}

/// What `find` found for this name before, or finds now.
fn remembered(
    names: &RefCell<FxHashMap<Box<[u8]>, bool>>,
    name: &[u8],
    find: impl FnOnce() -> bool,
) -> bool {
    if let Some(&known) = names.borrow().get(name) {
        return known;
    }
    let found = find();
    let mut names = names.borrow_mut();
    if names.len() >= REMEMBERED {
        names.clear();
    }
    names.insert(name.into(), found);
    found
}

/// An absolute directory without symbolic links; what of it is not there (any more) stays as it is.
fn resolved(dir: &[u8]) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(dir));
    for there in path.ancestors() {
        if let Ok(known) = there.canonicalize() {
            let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
            return known.join(rest).as_os_str().as_bytes().to_vec();
        }
    }
    dir.to_vec()
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
}
