//! The files that the kernel knows: each is held by a descriptor until the kernel forgets it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;
use rustix::io::Errno;

/// What the kernel calls the root.
pub const ROOT: u64 = 1;

/// Known files by the number that the kernel has for them: the inode number beneath, [`ROOT`] for the
/// root. An inode is not reused while its descriptor is held, so a number stays one file.
#[derive(Debug)]
pub struct Nodes {
    root: Arc<OwnedFd>,
    root_ino: u64,
    known: RwLock<FxHashMap<u64, Known>>,
}

#[derive(Debug)]
struct Known {
    file: Arc<OwnedFd>,
    lookups: u64,
}

impl Nodes {
    /// Only the root, with its inode number.
    pub fn new(root: OwnedFd, root_ino: u64) -> Self {
        Self {
            root: Arc::new(root),
            root_ino,
            known: RwLock::default(),
        }
    }

    /// The kernel's number of an inode.
    pub fn number(&self, ino: u64) -> u64 {
        if ino == self.root_ino { ROOT } else { ino }
    }

    /// The descriptor (`O_PATH`) of a known file.
    pub fn get(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        if number == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&number)
            .map(|k| Arc::clone(&k.file))
            .ok_or(Errno::STALE)
    }

    /// Counts one more answer that names the file; the first keeps its descriptor.
    pub fn looked_up(&self, ino: u64, file: OwnedFd) -> u64 {
        let number = self.number(ino);
        if number != ROOT {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known
                .entry(number)
                .or_insert_with(|| Known {
                    file: Arc::new(file),
                    lookups: 0,
                })
                .lookups += 1;
        }
        number
    }

    /// Takes back that many answers; a file without any is let go.
    pub fn forget(&self, number: u64, lookups: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(k) = known.get_mut(&number) {
            k.lookups = k.lookups.saturating_sub(lookups);
            if k.lookups == 0 {
                known.remove(&number);
            }
        }
    }

    /// How many are known beside the root.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        std::fs::File::open("/").unwrap().into()
    }

    #[test]
    fn a_file_is_held_until_its_last_answer_is_forgotten() {
        let nodes = Nodes::new(file(), 77);
        assert_eq!(nodes.number(77), ROOT);
        assert_eq!(nodes.looked_up(77, file()), ROOT);
        assert_eq!(nodes.len(), 0);
        assert_eq!(nodes.looked_up(5, file()), 5);
        assert_eq!(nodes.looked_up(5, file()), 5);
        nodes.forget(5, 1);
        assert!(nodes.get(5).is_ok());
        nodes.forget(5, 9);
        assert_eq!(nodes.get(5).unwrap_err(), Errno::STALE);
        assert!(nodes.get(ROOT).is_ok());
    }
}
