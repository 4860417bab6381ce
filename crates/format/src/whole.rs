//! A file that is there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Who was to read what is written has closed its end: it has what it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its reader has closed it")]
pub struct ReaderGone;

impl ReaderGone {
    /// An error of writing to what others may read, which says so if that is why.
    pub fn told(error: io::Error) -> io::Error {
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
/// system has no nameless ones).
///
/// What is no regular file (a pipe, `/dev/stdout`), and a file in a directory that takes no new
/// names, is written in place.
#[derive(Debug)]
pub struct Whole {
    file: File,
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    InPlace,
    Nameless,
    Named(PathBuf),
}

impl Whole {
    /// Begins the file.
    ///
    /// # Errors
    /// Why neither the file nor one beside it can be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_stdout(path) {
            return Ok(Self {
                file: io::stdout().as_fd().try_clone_to_owned()?.into(),
                path: path.to_owned(),
                state: State::InPlace,
            });
        }
        // Through symbolic links, so that the file and not the link is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let regular = path.metadata().map_or(true, |about| about.is_file());
        let begun = if regular {
            nameless(&path).or_else(|_| named(&path))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        };
        let (file, state) = match begun {
            // A full disk is none: what stands there would be emptied and nothing put in its place.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                (File::create(&path)?, State::InPlace)
            }
            other => other?,
        };
        Ok(Self { file, path, state })
    }

    /// Puts the file on stable storage, under its name.
    ///
    /// # Errors
    /// What was written could not be kept; nothing is left then, or what stood there before.
    pub fn commit(mut self) -> io::Result<()> {
        if !matches!(self.state, State::InPlace)
            && let Ok(about) = self.path.metadata()
        {
            // It replaces a file that its owner may have opened to, or closed from, others. Only root
            // can give it to another owner.
            let _ = fchown(&self.file, Some(about.uid()), Some(about.gid()));
            self.file.set_permissions(about.permissions())?;
        }
        sync(&self.file)?;
        if matches!(self.state, State::Nameless) {
            let own = own_link(&self.file);
            // No link replaces a file; a rename does.
            let temporary = free_name(&self.path, |name| {
                rustix::fs::linkat(CWD, &*own, CWD, name, AtFlags::SYMLINK_FOLLOW)
                    .map_err(io::Error::from)
            })?;
            self.state = State::Named(temporary.1);
        }
        if let State::Named(temporary) = &self.state {
            std::fs::rename(temporary, &self.path)?;
            self.state = State::InPlace;
        }
        sync_name(&self.path);
        Ok(())
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(ReaderGone::told)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(ReaderGone::told)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let State::Named(temporary) = &self.state {
            // What was begun is of no use to anyone.
            let _ = std::fs::remove_file(temporary);
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
fn nameless(path: &Path) -> io::Result<(File, State)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = rustix::fs::open(directory_of(path), flags, mode)?;
    // It gets its name through /proc, which not every container has.
    std::fs::symlink_metadata(own_link(&file))?;
    Ok((file.into(), State::Nameless))
}

/// A name of an open file.
fn own_link(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// A file of another name in the same directory.
fn named(path: &Path) -> io::Result<(File, State)> {
    let (file, temporary) = free_name(path, |name| {
        OpenOptions::new().write(true).create_new(true).open(name)
    })?;
    Ok((file, State::Named(temporary)))
}

/// Makes something under a name beside `path` that nobody has.
fn free_name<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for attempt in 0..100 {
        let mut other = name.to_owned();
        other.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = path.with_file_name(other);
        match make(&temporary) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, temporary)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn directory_of(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// Puts a file's contents on stable storage, where it has one: pipes and the like have none.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

/// Puts a file's name on stable storage. Not every file system can, and the file is written then
/// all the same.
pub(crate) fn sync_name(path: &Path) {
    let _ = File::open(directory_of(path)).and_then(|dir| dir.sync_all());
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
        let (file, state) = named(&path).unwrap();
        let mut begun = Whole {
            file,
            path: path.clone(),
            state,
        };
        begun.write_all(b"new").unwrap();
        begun.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let (file, state) = named(&path).unwrap();
        drop(Whole { file, path, state });
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
}
