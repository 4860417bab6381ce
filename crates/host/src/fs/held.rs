//! Directories that are kept open, so that what is named in one needs no lookup from the root.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use fsage_core::Errno;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// More are not kept open: processes may have 1024 descriptors.
const MOST: usize = 384;

/// An open directory and a name in it; `None` for a path that has to be resolved from the root.
pub(super) type Held<'p> = Option<(Arc<OwnedFd>, &'p [u8])>;

/// Directories by their path from the root. Only such as are reached without a link are kept, so that a path
/// means the same file whatever is kept; what is renamed or removed is forgotten with all below it.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<BTreeMap<Box<[u8]>, Arc<OwnedFd>>>);

impl Directories {
    /// The directory that holds the last component, and that component. `None` for a path that has to be
    /// resolved from the root.
    pub fn parent<'p>(&self, root: &Arc<OwnedFd>, path: &'p [u8]) -> Result<Held<'p>, Errno> {
        if !is_plain(path) {
            return Ok(None);
        }
        let Some(end) = path.iter().rposition(|&b| b == b'/') else {
            return Ok(Some((Arc::clone(root), path)));
        };
        let (dir, name) = (
            path.get(..end).unwrap_or_default(),
            path.get(end + 1..).unwrap_or_default(),
        );
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = kept.get(dir) {
            return Ok(Some((Arc::clone(fd), name)));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = match rustix::fs::openat2(root.as_fd(), dir, flags, Mode::empty(), resolve) {
            Ok(fd) => Arc::new(fd),
            Err(rustix::io::Errno::LOOP) => return Ok(None),
            Err(e) => return Err(super::ops::errno(e)),
        };
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(dir.into(), Arc::clone(&fd));
        Ok(Some((fd, name)))
    }

    /// Lets go of what is about to be renamed or removed, before that: an open directory would keep its inode.
    pub fn forget(&self, path: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_plain(path) {
            kept.clear();
            return;
        }
        kept.remove(path);
        let mut below = path.to_vec();
        below.push(b'/');
        while let Some((found, _)) = kept
            .range::<[u8], _>((
                std::ops::Bound::Included(&*below),
                std::ops::Bound::Unbounded,
            ))
            .next()
            && found.starts_with(&below)
        {
            let found = found.clone();
            kept.remove(&found);
        }
    }
}

/// Whether a path is names and single slashes alone.
fn is_plain(path: &[u8]) -> bool {
    path.split(|&b| b == b'/')
        .all(|name| !matches!(name, b"" | b"." | b".."))
}
