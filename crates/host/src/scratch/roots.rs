//! The roots of targets that are open on a mount, while it is unmounted and mounted again.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use fsage_core::Errno;

/// Roots of open targets and the directory each stands for.
#[derive(Debug, Default)]
pub(super) struct Roots(Vec<(Weak<OwnedFd>, PathBuf)>);

impl Roots {
    /// Remembers the root of a target, so that it follows a remount.
    pub fn add(&mut self, root: &Arc<OwnedFd>, dir: &Path) {
        self.0.retain(|(root, _)| root.strong_count() > 0);
        self.0.push((Arc::downgrade(root), dir.to_owned()));
    }

    /// Whether each of them is that directory.
    pub fn all_at(&self, dir: &Path) -> bool {
        let mut open = self.0.iter().filter(|(root, _)| root.strong_count() > 0);
        open.all(|(_, root)| root == dir)
    }

    /// Lets every root point at /dev/null under its number, so that none holds the mount.
    pub fn park(&self) -> rustix::io::Result<()> {
        let null = File::open("/dev/null").map_err(|_| rustix::io::Errno::IO)?;
        for root in self.0.iter().filter_map(|(root, _)| root.upgrade()) {
            replace(&root, &null)?;
        }
        Ok(())
    }

    /// Lets every root point at what is at its directory now.
    pub fn reopen(&self) -> Result<(), Errno> {
        let mut result = Ok(());
        for (root, dir) in &self.0 {
            let Some(root) = root.upgrade() else { continue };
            // The directory may have been removed meanwhile: its target then has no root.
            let reopened = crate::guard::open(dir).map_err(|_| Errno::ENOENT);
            if let Err(e) =
                reopened.and_then(|new| replace(&root, &new).map_err(|e| Errno(e.raw_os_error())))
            {
                result = Err(e);
            }
        }
        result
    }
}

/// Puts what `new` refers to under the number of `old`.
fn replace(old: &Arc<OwnedFd>, new: &impl AsFd) -> rustix::io::Result<()> {
    super::dup::onto(old, new.as_fd())
}
