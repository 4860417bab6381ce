//! Where a file is to be: a name below the descriptor of a directory, and what stood there when that was settled.
//!
//! A command runs for hours between the moment in which it is known that its result may be written and the moment in
//! which it is. What comes there meanwhile is somebody's, and so is a directory that comes in the place of the one that
//! was named.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

/// What stood at a place. Not its number, which is not kept by every file system that is served over a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    kind: RawMode,
    /// Size and time of the last change of a file; what is none changes as it is used.
    changed: Option<(i64, i64, u64)>,
}

impl Found {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the fields' types depend on the machine"
    )]
    fn of(about: &Stat) -> Self {
        let is_file = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        let changed = (
            about.st_size as i64,
            about.st_mtime as i64,
            about.st_mtime_nsec as u64,
        );
        Self {
            kind: FileType::from_raw_mode(about.st_mode).as_raw_mode(),
            changed: is_file.then_some(changed),
        }
    }

    /// An empty file is nobody's.
    fn is_empty(&self) -> bool {
        matches!(self.changed, Some((0, ..)))
    }
}

/// Where a file is to be.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// As it was named.
    pub path: PathBuf,
    pub dir: Arc<OwnedFd>,
    pub name: OsString,
    found: Option<Found>,
}

/// What was settled before it is written, by the path that was given.
static SETTLED: Mutex<BTreeMap<PathBuf, Place>> = Mutex::new(BTreeMap::new());

/// Directories that are held.
static HELD: Mutex<BTreeMap<PathBuf, Arc<OwnedFd>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Settles where the next file that this process writes under a path will be, and that it takes the place of nothing but
/// what stands there now.
///
/// # Errors
/// Why there cannot be such a file.
pub fn settle(path: &Path) -> io::Result<()> {
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let place = Place::now(path)?;
    if rustix::fs::fstat(&place.dir)?.st_nlink == 0 {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "its directory was removed",
        ));
    }
    match rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) | Err(Errno::NOENT) => {}
        // As a name that is too long.
        Err(why) => return Err(why.into()),
    }
    lock(&SETTLED).insert(path.to_owned(), place);
    Ok(())
}

/// What is written into a directory goes into that very one until this is dropped, whatever takes its place.
#[derive(Debug)]
pub struct HeldDir(PathBuf);

/// Holds a directory.
///
/// # Errors
/// It cannot be opened.
pub fn hold(dir: &Path) -> io::Result<HeldDir> {
    let held = open_dir(dir)?;
    lock(&HELD).insert(dir.to_owned(), Arc::new(held));
    Ok(HeldDir(dir.to_owned()))
}

impl Drop for HeldDir {
    fn drop(&mut self) {
        lock(&HELD).remove(&self.0);
    }
}

impl Place {
    /// Where a file of that path is to be: as it was settled, or as it is now.
    pub fn of(path: &Path) -> io::Result<Self> {
        let settled = lock(&SETTLED).get(path).cloned();
        settled.map_or_else(|| Self::now(path), Ok)
    }

    fn now(path: &Path) -> io::Result<Self> {
        let held = lock(&HELD).get(directory_of(path)).cloned();
        let (dir, real) = if let Some(held) = held {
            (held, path.to_owned())
        } else {
            // Through symbolic links, so that the file and not the link is replaced.
            let real = end_of(path)?;
            let dir = open_dir(directory_of(&real)).map_err(|why| leads_nowhere(path, &real, why));
            (Arc::new(dir?), real)
        };
        let name = real.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut place = Self {
            path: path.to_owned(),
            dir,
            name: name.to_owned(),
            found: None,
        };
        place.found = place.look().as_ref().map(Found::of);
        Ok(place)
    }

    /// What stands there at this moment; a link that leads nowhere is something too.
    pub fn look(&self) -> Option<Stat> {
        let look = |flags| rustix::fs::statat(&self.dir, &self.name, flags).ok();
        look(AtFlags::empty()).or_else(|| look(AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Whether nothing was there, or a file.
    pub fn takes_a_file(&self) -> bool {
        let kind = |found: Found| FileType::from_raw_mode(found.kind);
        let other = |kind| !matches!(kind, FileType::RegularFile | FileType::Symlink);
        !self.found.map(kind).is_some_and(other)
    }

    /// Whether something stands there that was not there when the place was settled.
    pub fn is_taken(&self) -> bool {
        let now = self.look().as_ref().map(Found::of);
        now.is_some_and(|now| !now.is_empty() && Some(now) != self.found)
    }

    /// Opens what stands there, or a new file where nothing does and `create` says so; neither empties it.
    pub fn open(&self, create: bool) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if create {
            flags |= OFlags::CREATE;
            flags.set(OFlags::EXCL, self.found.is_none());
        }
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::openat(&self.dir, &self.name, flags, mode) {
            Err(Errno::EXIST) => Err(taken(None)),
            opened => Ok(opened?.into()),
        }
    }

    /// Empties a file that was opened here, unless it is not what stood here.
    pub fn empty(&self, file: &File) -> io::Result<()> {
        let about = rustix::fs::fstat(file)?;
        let now = Found::of(&about);
        if !now.is_empty() && self.found.is_some_and(|found| found != now) {
            return Err(taken(None));
        }
        if now.changed.is_some() {
            file.set_len(0)?;
        }
        self.done();
        Ok(())
    }

    /// Takes away a file that was opened here and says nothing.
    pub fn remove(&self, file: &File) {
        let own = rustix::fs::fstat(file).ok();
        let named = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let is_file = |s: &Stat| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile;
        let id = |about: Stat| (about.st_dev, about.st_ino);
        if own.as_ref().is_some_and(is_file) && own.map(id) == named.map(id) {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }

    /// The file is there: what is written under its path from now on is another.
    pub fn done(&self) {
        lock(&SETTLED).remove(&self.path);
    }

    /// Fails if the path does not lead to the directory any more, which has the file all the same.
    pub fn leads_there(&self) -> io::Result<()> {
        let real = self.path.canonicalize().ok();
        let named = real.and_then(|real| rustix::fs::stat(directory_of(&real)).ok());
        let held = rustix::fs::fstat(&self.dir)?;
        if named.is_some_and(|named| (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "its directory was moved away meanwhile; it is {}",
            self.whereabouts(&self.name).display()
        )))
    }

    /// Where something of that name in the directory is: that can lie behind a link, or have been moved.
    pub fn whereabouts(&self, name: &OsStr) -> PathBuf {
        let dir = std::fs::read_link(own_link(&self.dir));
        dir.map_or_else(|_| self.path.with_file_name(name), |dir| dir.join(name))
    }

    /// Puts the file's name on stable storage. Not every file system can, and the file is written then all the same.
    pub fn sync_name(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.dir, c".", flags, Mode::empty());
        let _ = dir.and_then(rustix::fs::fsync);
    }

    /// Makes something under a name beside it that nobody has.
    pub fn free_name<T>(
        &self,
        make: impl Fn(&OwnedFd, &OsString) -> io::Result<T>,
    ) -> io::Result<(T, OsString)> {
        for attempt in 0..100 {
            let end = format!(".{}-{attempt}.tmp", std::process::id());
            let mut other = shortened(&self.name);
            other.push(end);
            match make(&self.dir, &other) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => return Ok((made?, other)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// Something else stands where a file was to be; `beside` has it then.
pub(crate) fn taken(beside: Option<&Path>) -> io::Error {
    let came = "something else has come there meanwhile, which fsage does not replace";
    io::Error::other(match beside {
        Some(beside) => format!("{came}; what fsage wrote is {}", beside.display()),
        None => came.to_owned(),
    })
}

/// A name of an open file.
pub(crate) fn own_link(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// A name with room for more behind it: none is longer than 255 bytes.
fn shortened(name: &std::ffi::OsStr) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let bytes = name.as_bytes();
    std::ffi::OsStr::from_bytes(bytes.get(..bytes.len().min(200)).unwrap_or_default()).to_owned()
}

/// As many links as the kernel follows (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// Where a path leads through symbolic links, also where nothing stands at their end yet.
///
/// # Errors
/// The links lead in a circle, or to a name that no file can have.
pub fn end_of(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..=MAX_LINKS {
        if let Ok(real) = at.canonicalize() {
            return Ok(real);
        }
        // What is no link, or cannot be looked at, is told by who opens it.
        let Ok(to) = std::fs::read_link(&at) else {
            return Ok(at);
        };
        if to.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        at = directory_of(&at).join(to);
    }
    Err(Errno::LOOP.into())
}

/// What is said of a directory that cannot be opened: behind a link its name is not the one that was given.
fn leads_nowhere(path: &Path, real: &Path, why: io::Error) -> io::Error {
    if real == path {
        return why;
    }
    let text = format!("it is a link to {}: {why}", real.display());
    io::Error::new(why.kind(), text)
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

fn directory_of(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}
