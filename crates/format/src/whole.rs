//! A file that is there whole or not at all.

pub(crate) mod place;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::fchown;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

pub use place::{HeldDir, end_of, hold, settle};
use place::{Place, own_link, taken};

/// Who was to read what is written has closed its end: it has what it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its reader has closed it")]
pub struct ReaderGone;

impl ReaderGone {
    /// An error of writing to what others may read, which says so if that is why.
    pub fn named(error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, Self),
            _ => error,
        }
    }

    /// Whether this is why.
    pub fn is_cause(error: &(dyn std::error::Error + 'static)) -> bool {
        let io = error.downcast_ref::<io::Error>();
        io.and_then(io::Error::get_ref)
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// A file that gets its name when it is [committed](Whole::commit); until then what stood there
/// stays. Dropped before, or killed, it leaves nothing (but its file of another name where the file
/// system has no nameless ones). It takes the place of what stood there when it was begun, or
/// [settled](settle), and of nothing that has come since.
///
/// What is no regular file (a pipe, `/dev/stdout`), and a file in a directory that takes no new
/// names, is written in place.
#[derive(Debug)]
pub struct Whole {
    file: File,
    /// Where it gets its name; `None` if it is written in place.
    place: Option<Place>,
    /// The name that it has until then; a nameless file has none.
    temporary: Option<OsString>,
}

impl Whole {
    /// Begins the file.
    ///
    /// # Errors
    /// Why neither the file nor one beside it can be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_stdout(path) {
            return Ok(Self::in_place(
                io::stdout().as_fd().try_clone_to_owned()?.into(),
            ));
        }
        let place = Place::of(path)?;
        let begun = if place.takes_a_file() {
            nameless(&place).or_else(|_| named(&place))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        };
        match begun {
            // A full disk is none: what stands there would be emptied and nothing put in its place.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let opened = place.open(false);
                let file = opened.map_err(|why| match why.kind() {
                    io::ErrorKind::NotFound => e,
                    _ => why,
                })?;
                place.empty(&file)?;
                Ok(Self::in_place(file))
            }
            begun => {
                let (file, temporary) = begun?;
                Ok(Self {
                    file,
                    place: Some(place),
                    temporary,
                })
            }
        }
    }

    /// What is written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn in_place(file: File) -> Self {
        Self {
            file,
            place: None,
            temporary: None,
        }
    }

    /// Puts the file on stable storage, under its name.
    ///
    /// # Errors
    /// What was written could not be kept; nothing is left then, or what stood there before. Where something else has
    /// come there, or its directory was moved, the error says where it is.
    pub fn commit(mut self) -> io::Result<()> {
        let Some(place) = self.place.clone() else {
            return sync(&self.file);
        };
        let there = rustix::fs::statat(&place.dir, &place.name, AtFlags::empty());
        if let Some(about) = there.ok().filter(|_| !place.is_taken()) {
            // It replaces a file that its owner may have opened to, or closed from, others. Only root
            // can give it to another owner.
            let _ = fchown(&self.file, Some(about.st_uid), Some(about.st_gid));
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(about.st_mode))?;
        }
        sync(&self.file)?;
        self.put(&place)?;
        self.temporary = None;
        place.sync_name();
        place.done();
        place.leads_there()
    }

    fn put(&mut self, place: &Place) -> io::Result<()> {
        if place.look().is_none() {
            match self.link(place, &place.name) {
                Ok(()) => return self.remove_temporary(place),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                // No other name for a file of this file system: a rename does it.
                Err(_) if self.temporary.is_some() => {}
                Err(other) => return Err(other),
            }
        }
        if self.temporary.is_none() {
            // No link replaces a file; a rename does.
            let linked = place.free_name(|_, name| self.link(place, name));
            self.temporary = Some(linked?.1);
        }
        let Some(temporary) = &self.temporary else {
            return Ok(());
        };
        if place.is_taken() {
            let beside = place.whereabouts(temporary);
            self.temporary = None;
            return Err(taken(Some(&beside)));
        }
        Ok(rustix::fs::renameat(
            &place.dir,
            temporary,
            &place.dir,
            &place.name,
        )?)
    }

    /// Gives it one more name.
    fn link(&self, place: &Place, name: &OsString) -> io::Result<()> {
        let linked = match &self.temporary {
            Some(old) => rustix::fs::linkat(&place.dir, old, &place.dir, name, AtFlags::empty()),
            None => rustix::fs::linkat(
                CWD,
                own_link(&self.file),
                &place.dir,
                name,
                AtFlags::SYMLINK_FOLLOW,
            ),
        };
        Ok(linked?)
    }

    fn remove_temporary(&mut self, place: &Place) -> io::Result<()> {
        match self.temporary.take() {
            Some(name) => Ok(rustix::fs::unlinkat(&place.dir, name, AtFlags::empty())?),
            None => Ok(()),
        }
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(ReaderGone::named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(ReaderGone::named)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            // What was begun is of no use to anyone.
            let _ = self.remove_temporary(&place);
        }
    }
}

/// Whether a path names stdout. Opened anew, a file that it was sent to would be emptied and written from its
/// beginning.
pub(crate) fn is_stdout(path: &Path) -> bool {
    let names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| path == Path::new(name))
}

/// A file in the same directory that has no name yet.
fn nameless(place: &Place) -> io::Result<(File, Option<OsString>)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&place.dir, c".", flags, Mode::from_raw_mode(0o666))?;
    // It gets its name through /proc, which not every container has.
    std::fs::symlink_metadata(own_link(&file))?;
    Ok((file.into(), None))
}

/// A file of another name in the same directory.
fn named(place: &Place) -> io::Result<(File, Option<OsString>)> {
    let (file, temporary) = place.free_name(|dir, name| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(
            dir,
            name,
            flags,
            Mode::from_raw_mode(0o666),
        )?)
    })?;
    Ok((file.into(), Some(temporary)))
}

/// Puts a file's contents on stable storage, where it has one: pipes and the like have none.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_there_stays_until_the_new_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        let mut begun = Whole::create(&path).unwrap();
        begun.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(begun);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let mut begun = Whole::create(&path).unwrap();
        begun.write_all(b"new").unwrap();
        begun.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let names = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 1, "no other name stays");
    }

    #[test]
    fn a_file_system_without_nameless_files_gets_a_name_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let begun = || {
            let place = Place::of(&path).unwrap();
            let (file, temporary) = named(&place).unwrap();
            Whole {
                file,
                place: Some(place),
                temporary,
            }
        };
        for text in [b"one", b"two"] {
            let mut begun = begun();
            begun.write_all(text).unwrap();
            begun.commit().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
        drop(begun());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_followed_and_a_device_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("f", &link).unwrap();
        let mut begun = Whole::create(&link).unwrap();
        begun.write_all(b"new").unwrap();
        begun.commit().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        let mut null = Whole::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"x").unwrap();
        null.commit().unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    fn written(path: &Path) -> io::Result<()> {
        let mut begun = Whole::create(path)?;
        begun.write_all(b"new")?;
        begun.commit()
    }

    #[test]
    fn what_comes_meanwhile_stays_and_the_new_is_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (fresh, old) = (dir.path().join("fresh"), dir.path().join("old"));
        std::fs::write(&old, "old").unwrap();
        for path in [&fresh, &old] {
            settle(path).unwrap();
            std::fs::write(path, "precious").unwrap();
            let error = written(path).unwrap_err().to_string();
            assert_eq!(std::fs::read(path).unwrap(), b"precious");
            let (_, beside) = error.rsplit_once(" is ").unwrap();
            assert_eq!(std::fs::read(beside).unwrap(), b"new", "{error}");
            std::fs::remove_file(beside).unwrap();
            // Gone again, there is nothing to spare.
            std::fs::remove_file(path).unwrap();
            written(path).unwrap();
            written(path).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_to_nothing_yet_is_followed_too() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        std::fs::create_dir(at("far")).unwrap();
        link("far/f", "one");
        link("../one", "far/two");
        for settled in [false, true] {
            if settled {
                settle(&at("far/two")).unwrap();
            }
            written(&at("far/two")).unwrap();
            assert!(at("one").is_symlink() && at("far/two").is_symlink());
            assert!(!at("far/f").is_symlink());
            assert_eq!(std::fs::read(at("far/f")).unwrap(), b"new");
            std::fs::remove_file(at("far/f")).unwrap();
        }
        link("none/f", "lost");
        let error = written(&at("lost")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("none/f"), "{error}");
        link("b", "a");
        link("a", "b");
        link("far/d/", "dir");
        for name in ["a", "dir"] {
            assert!(settle(&at(name)).is_err(), "{name}");
            written(&at(name)).unwrap_err();
        }
        assert!(at("a").is_symlink() && at("lost").is_symlink() && at("dir").is_symlink());
        assert_eq!(std::fs::read_dir(at("far")).unwrap().count(), 1);
    }

    #[test]
    fn what_is_beside_the_end_of_a_link_is_named_there() {
        let dir = tempfile::tempdir().unwrap();
        let (link, real) = (dir.path().join("link"), dir.path().join("real"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(real.join("f"), &link).unwrap();
        std::fs::write(&link, "old").unwrap();
        settle(&link).unwrap();
        std::fs::write(&link, "precious").unwrap();
        let error = written(&link).unwrap_err().to_string();
        let (_, beside) = error.rsplit_once(" is ").unwrap();
        assert_eq!(std::fs::read(beside).unwrap(), b"new", "{error}");
        assert_eq!(std::fs::read(&link).unwrap(), b"precious");
    }

    #[test]
    fn what_comes_in_the_place_of_its_directory_gets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [named, moved, other] = ["named", "moved", "other"].map(|name| dir.path().join(name));
        std::fs::create_dir(&other).unwrap();
        let path = named.join("f");
        for hold_it in [false, true] {
            std::fs::create_dir(&named).unwrap();
            let held = hold_it.then(|| hold(&named).unwrap());
            if !hold_it {
                settle(&path).unwrap();
            }
            std::fs::rename(&named, &moved).unwrap();
            std::os::unix::fs::symlink(&other, &named).unwrap();
            let error = written(&path).unwrap_err().to_string();
            assert!(error.contains("moved/f"), "{error}");
            assert_eq!(std::fs::read(moved.join("f")).unwrap(), b"new");
            assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
            drop(held);
            std::fs::remove_file(&named).unwrap();
            std::fs::remove_dir_all(&moved).unwrap();
        }
    }

    #[test]
    fn a_long_name_is_replaced_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        written(&path).unwrap();
        written(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
