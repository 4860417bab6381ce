//! Removing what fsage has made, and nothing that somebody has mounted in it or put in its place.
//!
//! Every directory is entered by its name beneath a descriptor of the one above, without following links and
//! without crossing into a mount, also one of the same file system.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::HostError;

/// How often what is killed meanwhile may add to a directory while it is emptied.
const PASSES: u32 = 6;

/// Each level holds two descriptors; what is deeper is moved up into the first, and emptied from there.
const MOST_LEVELS: usize = 32;

/// Who makes ever deeper directories meanwhile is not followed for ever.
const MOST_MOVES: u32 = 1 << 20;

/// Removes a directory with all that lies in it. What is mounted in it stays, with what leads there; the error
/// names it.
pub fn tree(path: &Path) -> Result<(), HostError> {
    let failed = |e: io::Error| HostError::at("remove", path, e);
    let name = path
        .file_name()
        .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent_at(parent.unwrap_or(Path::new("."))).map_err(|e| failed(e.into()))?;
    let dir = enter(parent.as_fd(), name).map_err(|e| reported(path, (path.to_owned(), e)))?;
    emptied(dir.as_fd(), path)?;
    drop(dir);
    unlink(parent.as_fd(), name, path)
}

/// Empties a directory in the same way.
pub fn contents(path: &Path) -> Result<(), HostError> {
    let dir = crate::guard::open(path)?;
    emptied(dir.as_fd(), path)
}

/// A descriptor for names below a directory of the user's.
pub(crate) fn parent_at(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty())
}

/// Opens a directory that is really there: `EXDEV` for a mount, `ELOOP` for a link. One of the user's own that
/// nobody may enter is opened to him first.
pub(crate) fn enter(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let open = |access| {
        let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve)
    };
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            let own = open(OFlags::PATH)?;
            let itself = format!("/proc/self/fd/{}", own.as_raw_fd());
            rustix::fs::chmod(itself, Mode::RWXU)?;
            open(OFlags::RDONLY)
        }
        opened => opened,
    }
}

/// What is in an open directory. It is not opened again: a tracer of a workload would see that.
pub(crate) fn entries(dir: BorrowedFd<'_>) -> Result<Dir, Errno> {
    let mut entries = Dir::new(rustix::io::fcntl_dupfd_cloexec(dir, 0)?)?;
    entries.rewind();
    Ok(entries)
}

/// Empties an open directory, which is shown as `path`.
pub(crate) fn emptied(dir: BorrowedFd<'_>, path: &Path) -> Result<(), HostError> {
    let mut emptying = Emptying {
        top: dir,
        moved: 0,
        left: None,
    };
    emptying.empty(dir, path, 0);
    emptying
        .left
        .map_or(Ok(()), |left| Err(reported(path, left)))
}

/// Removes an empty directory.
pub(crate) fn unlink(parent: BorrowedFd<'_>, name: &OsStr, path: &Path) -> Result<(), HostError> {
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
        .map_err(|e| reported(path, (path.to_owned(), e)))
}

/// That a directory, or what lies at a place in it, could not be removed.
pub(crate) fn reported(path: &Path, (place, why): (PathBuf, Errno)) -> HostError {
    let why = match why {
        // The kernel removes nothing on which something is mounted.
        Errno::XDEV | Errno::BUSY => format!(
            "something is mounted on {}, and was left as it is; unmount it, and remove the directory",
            place.display()
        ),
        why if place == path => why.to_string(),
        why => format!("{}: {why}", place.display()),
    };
    let what = format!("remove {}", path.display());
    HostError::Refused { what, why }
}

struct Emptying<'a> {
    /// The directory to be emptied.
    top: BorrowedFd<'a>,
    /// How many names were tried for what lay too deep.
    moved: u32,
    /// What could not be removed first, and why.
    left: Option<(PathBuf, Errno)>,
}

impl Emptying<'_> {
    fn empty(&mut self, dir: BorrowedFd<'_>, path: &Path, level: usize) {
        if let Err(why) = self.passes(dir, path, level) {
            self.left.get_or_insert_with(|| (path.to_owned(), why));
        }
    }

    fn passes(&mut self, dir: BorrowedFd<'_>, path: &Path, level: usize) -> Result<(), Errno> {
        let mut entries = entries(dir)?;
        let mut pass = 0;
        while pass < PASSES {
            let (mut found, moved) = (false, self.moved);
            while let Some(entry) = entries.read() {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                self.remove(dir, name, entry.file_type(), (path, level));
                found = true;
            }
            let more = level == 0 && self.moved > moved;
            // What stays would be met again in every pass.
            if !found || (self.left.is_some() && !more) {
                break;
            }
            entries.rewind();
            pass += u32::from(!more);
        }
        Ok(())
    }

    fn remove(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        kind: FileType,
        (path, level): (&Path, usize),
    ) {
        let mut result = self.removed(dir, name, kind, (path, level));
        // A directory of the user's own from which he may not take anything.
        if result == Err(Errno::ACCESS) && rustix::fs::fchmod(dir, Mode::RWXU).is_ok() {
            result = self.removed(dir, name, kind, (path, level));
        }
        match result {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(why) => drop(self.left.get_or_insert_with(|| (path.join(name), why))),
        }
    }

    fn removed(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        kind: FileType,
        (path, level): (&Path, usize),
    ) -> Result<(), Errno> {
        let mut result = Err(Errno::ISDIR);
        if kind != FileType::Directory {
            result = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
        // Not every file system tells the type of its entries.
        if let Err(first @ (Errno::ISDIR | Errno::PERM)) = result {
            let below = enter(dir, name).map_err(|why| match why {
                // An immutable file.
                Errno::NOTDIR => first,
                why => why,
            });
            result = below.and_then(|below| {
                if level + 1 == MOST_LEVELS {
                    return self.move_up(dir, name);
                }
                self.empty(below.as_fd(), &path.join(name), level + 1);
                drop(below);
                rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
            });
        }
        result
    }

    /// Moves a directory into the top under a name that is free there, or of something empty, which goes as well.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        while self.moved < MOST_MOVES {
            self.moved += 1;
            let up = format!("deep-{}", self.moved);
            match rustix::fs::renameat(dir, name, self.top, up) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                result => return result,
            }
        }
        Err(Errno::NAMETOOLONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_goes_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, other) = (parent.path().join("dir"), parent.path().join("other"));
        std::fs::create_dir_all(dir.join("a/b/c")).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("file"), "x").unwrap();
        for name in 0..300 {
            std::fs::write(dir.join(format!("a/b/{name}")), "x").unwrap();
        }
        std::os::unix::fs::symlink(&other, dir.join("a/link")).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("link")).unwrap();
        tree(&dir).unwrap();
        assert!(!dir.exists());
        tree(&parent.path().join("link")).unwrap_err();
        assert!(other.join("file").exists());
        contents(&other).unwrap();
        assert!(other.exists() && !other.join("file").exists());
    }

    /// As an ordinary user: root may do everything.
    #[test]
    fn directories_without_permissions_go() {
        let parent = tempfile::tempdir().unwrap();
        for mode in [0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600] {
            let dir = parent.path().join("dir");
            let shut = dir.join("shut");
            std::fs::create_dir_all(shut.join("sub")).unwrap();
            std::fs::write(shut.join("sub/file"), "x").unwrap();
            std::fs::write(shut.join("file"), "x").unwrap();
            for path in [shut.join("sub"), shut, dir.clone()] {
                rustix::fs::chmod(&path, Mode::from_raw_mode(mode)).unwrap();
            }
            tree(&dir).unwrap();
            assert!(!dir.exists(), "{mode:o}");
        }
    }

    #[test]
    fn a_tree_of_any_depth_goes() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("dir");
        // Also names that what is moved up would get.
        std::fs::create_dir_all(dir.join("deep-1/full")).unwrap();
        std::fs::write(dir.join("deep-2"), "x").unwrap();
        let mut at = parent_at(&dir).unwrap();
        for level in 0..1500 {
            for name in ["a", "b"] {
                rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
            }
            let flags = OFlags::CREATE | OFlags::WRONLY;
            rustix::fs::openat(&at, format!("f{level}"), flags, Mode::RUSR).unwrap();
            at = enter(at.as_fd(), "a".as_ref()).unwrap();
        }
        tree(&dir).unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn what_is_mounted_stays_and_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, victim) = (parent.path().join("dir"), parent.path().join("victim"));
        std::fs::create_dir_all(dir.join("sub/m")).unwrap();
        std::fs::create_dir_all(dir.join("sub/after")).unwrap();
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), "x").unwrap();
        std::fs::write(dir.join("f"), "x").unwrap();
        let bind = |from: &Path, to: &Path| rustix::mount::mount_bind(from, to).is_ok();
        if !bind(&victim, &dir.join("sub/m")) {
            fsage_testing::not_run("needs root");
            return;
        }
        assert!(bind(&victim.join("file"), &dir.join("f")));
        let first = tree(&dir).unwrap_err().to_string();
        assert!(first.contains("is mounted on"), "{first}");
        rustix::mount::unmount(dir.join("f"), rustix::mount::UnmountFlags::empty()).unwrap();
        let second = tree(&dir).unwrap_err().to_string();
        assert!(second.contains("sub/m, and was left"), "{second}");
        assert!(victim.join("file").exists() && !dir.join("sub/after").exists());
        rustix::mount::unmount(dir.join("sub/m"), rustix::mount::UnmountFlags::empty()).unwrap();
        tree(&dir).unwrap();
        assert_eq!(std::fs::read(victim.join("file")).unwrap(), b"x");
    }
}
