//! A directory that goes even when its maker is killed.
//!
//! Nothing that runs in a process survives SIGKILL of it, so a small shell waits beside it: it ends
//! when the pipe to it closes, whoever closes it, and removes the directory.

#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::mounts::{self, Mount};
use crate::remove::{self, enter, parent_at};
use crate::{HostError, scratch};

/// Removes the directory `$1`, once it was told its device and inode, in a mount namespace of its own where it
/// may: there nothing is mounted meanwhile. Before it is told, there is nothing in it.
const REMOVE: &str = "own=; while read -r line; do own=$line; done; [ -e \"$1\" ] || exit 0; \
    [ -n \"$own\" ] || { rmdir -- \"$1\"; exit; }; \
    unshare -m true && exec unshare -m /bin/sh -c \"$3\" sh \"$1\" \"$2\" \"$own\"; \
    exec /bin/sh -c \"$3\" sh \"$1\" \"$2\" \"$own\"";

/// Removes the directory `$1`, if it is still `$3`, again while what was killed beside it still adds to it. With
/// a mount in it, or on what is called `$2` as it is, it stays.
const EMPTY: &str = "for again in 1 2 3 4 5 6; do \
    cd -P -- \"$1\" && [ \"$(stat -c %d:%i .)\" = \"$3\" ] || exit; \
    while read -r id parent device root at rest; do case $at/ in */\"$2\"/*) exit;; esac; done \
    < /proc/self/mountinfo || exit; \
    if command -v find; then find . -mindepth 1 -delete || chmod -R u+rwX .; else rm -rf -- \"$1\" || chmod -R u+rwX .; fi; \
    cd /; rmdir -- \"$1\" && exit; [ -e \"$1\" ] || exit; sleep 0.2; done";

/// Where the shell finds its programs, whatever the user's own `PATH` lacks, which comes last.
fn path() -> OsString {
    let mut path = OsString::from("/usr/sbin:/usr/bin:/sbin:/bin");
    if let Some(own) = std::env::var_os("PATH").filter(|own| !own.is_empty()) {
        path.push(":");
        path.push(own);
    }
    path
}

/// A shell beside this process that does one thing once this is dropped, or this process killed.
#[derive(Debug)]
pub(crate) struct Afterwards(Child);

impl Afterwards {
    /// Runs `script` afterwards with one argument, `$1`. Signals of the terminal do not reach it: it
    /// has a process group of its own. Fails where no process can be started.
    pub(crate) fn run(script: &str, argument: OsString) -> std::io::Result<Self> {
        Self::reported(&format!("read -r never; {script}"), vec![argument])
    }

    /// The same with a file that its output goes to.
    pub(crate) fn writing(script: &str, argument: OsString, to: File) -> std::io::Result<Self> {
        let script = format!("read -r never; {script}");
        Self::started(&script, vec![argument], to.into())
    }

    /// Runs `script` at once, which waits by itself for the end of what is told through the pipe.
    pub(crate) fn reported(script: &str, arguments: Vec<OsString>) -> std::io::Result<Self> {
        Self::started(script, arguments, Stdio::null())
    }

    fn started(script: &str, arguments: Vec<OsString>, to: Stdio) -> std::io::Result<Self> {
        let script = format!("trap '' HUP INT TERM; {script}");
        let mut argv: Vec<OsString> = ["-c", &script, "sh"].map(OsString::from).to_vec();
        argv.extend(arguments);
        // The working directory must not keep a file system busy.
        Command::new("/bin/sh")
            .args(argv)
            .current_dir("/")
            .env("PATH", path())
            .stdin(Stdio::piped())
            .stdout(to)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Afterwards {
    /// What tells it something.
    pub(crate) fn pipe(&mut self) -> Option<&mut ChildStdin> {
        self.0.stdin.as_mut()
    }

    /// It does nothing after all.
    fn call_off(&mut self) {
        // A shell that has ended already has nothing left to do.
        drop(self.0.kill());
    }
}

impl Afterwards {
    /// Lets it do its thing, and waits for that.
    fn finish(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A directory of fsage's own inside a directory of the user's, which only this user may enter. It is
/// removed on drop, and when the process is killed. Who else may change the user's directory may put something in
/// its place: what uses its path here ([`crate::HostFs::open`], [`stand_in`]) gets the directory that was made.
#[derive(Debug)]
pub struct GuardedDir {
    path: PathBuf,
    guard: Afterwards,
    kept: bool,
}

/// A directory that was made here.
struct Made {
    path: PathBuf,
    /// Where it was made. Neither is held on a scratch file system, which goes with its owner and could not be
    /// unmounted.
    parent: Option<OwnedFd>,
    /// Locked while its owner lives, for others to see that it has one.
    held: Option<OwnedFd>,
    /// It is seen through a layer, and held beneath it.
    layered: bool,
}

/// The directories of this process.
static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

/// What could not be removed, and that in words that complete "failed to …".
static LEFT: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// Tells of something that could not be removed, where its own user cannot.
pub fn not_removed(path: &Path, error: &HostError) {
    lock_of(&LEFT).push((path.to_owned(), error.to_string()));
}

/// Where temporary files go: the directory that `TMPDIR` names, or else `/tmp`.
pub fn temporary_place() -> PathBuf {
    named_place().unwrap_or_else(|| "/tmp".into())
}

/// What `TMPDIR` names; an empty one names nothing.
fn named_place() -> Option<PathBuf> {
    let named = std::env::var_os("TMPDIR").filter(|named| !named.is_empty());
    named.map(PathBuf::from)
}

/// What could not be removed so far, and has not gone since with the file system that it lay on, or with who used it.
pub fn left() -> Vec<String> {
    let is_there = |path: &Path| match path.symlink_metadata() {
        Ok(about) if about.file_type().is_block_device() => scratch::is_own_loop_device(path),
        about => about.is_ok(),
    };
    let all = lock_of(&LEFT);
    let there = all.iter().filter(|(path, _)| is_there(path));
    there.map(|(_, what)| what.clone()).collect()
}

fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GuardedDir {
    /// Makes a directory with a name that begins with `prefix` inside `parent`. Fails where nothing
    /// can be made there, or nothing that would remove it.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, HostError> {
        Self::create_in(parent, "", prefix)
    }

    /// The same where temporary files go ([`temporary_place`]).
    pub fn temporary(prefix: &str) -> Result<Self, HostError> {
        match named_place() {
            Some(place) => Self::create_in(&place, ", which TMPDIR names", prefix),
            None => Self::create(&temporary_place(), prefix),
        }
    }

    /// `named` says where the name of `parent` comes from.
    fn create_in(parent: &Path, named: &str, prefix: &str) -> Result<Self, HostError> {
        let what = format!("make a directory in {}{named}", parent.display());
        let failed = |e: std::io::Error| HostError::io(what.clone(), e);
        let parent = parent.canonicalize().map_err(failed)?;
        let name = own_name(prefix)?;
        let path = parent.join(&name);
        // What serves a layer dies with this process: the directory is removed where it really is.
        let lower = scratch::beneath(&parent);
        let real = lower
            .as_ref()
            .map_or_else(|| path.clone(), |l| l.join(&name));
        // Before there is a directory: what cannot be watched over is not made.
        let arguments = vec![real.clone().into(), name.clone().into(), EMPTY.into()];
        let mut guard = Afterwards::reported(REMOVE, arguments)
            .map_err(|e| HostError::io("start what removes a directory after a kill", e))?;
        let place = parent_at(&parent).map_err(|e| failed(e.into()))?;
        if let Err(error) = rustix::fs::mkdirat(&place, &name, Mode::RWXU) {
            guard.call_off();
            return Err(failed(error.into()));
        }
        // From here on the guard removes it, whatever fails.
        let lower = lower.map(|lower| parent_at(&lower)).transpose();
        let lower = lower.map_err(|e| failed(e.into()))?;
        let (layered, place) = (lower.is_some(), lower.unwrap_or(place));
        let own = enter(place.as_fd(), name.as_ref()).map_err(|e| failed(e.into()))?;
        let about = check_own(&own, &path)?;
        if let Some(pipe) = guard.pipe() {
            let line = format!("{}:{}\n", about.st_dev, about.st_ino);
            // A shell that somebody killed removes nothing.
            drop(std::io::Write::write_all(pipe, line.as_bytes()));
        }
        // File systems without locks show only the processes that use it.
        let _ = lock(&own, libc::F_OFD_SETLK, libc::F_RDLCK);
        let holds = scratch::mounted_at(&real).is_none();
        lock_of(&MADE).push(Made {
            path: path.clone(),
            parent: holds.then_some(place),
            held: holds.then_some(own),
            layered,
        });
        let made = Self {
            path,
            guard,
            kept: false,
        };
        // Few calls (truncate, those of a profile) have no form that takes a descriptor.
        is_there(made.path())?;
        Ok(made)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory to its user, under a name that says so; returns where it is then.
    pub fn keep(mut self) -> PathBuf {
        self.guard.call_off();
        self.kept = true;
        let name = self.path.file_name().unwrap_or_default();
        let kept = name.to_string_lossy();
        let (prefix, random) = kept.rsplit_once('-').unwrap_or(("", &kept));
        let kept = self.path.with_file_name(format!("{prefix}-kept-{random}"));
        // Where it cannot be renamed it has its old name.
        let kept = match std::fs::rename(&self.path, &kept) {
            Ok(()) => kept,
            Err(_) => self.path.clone(),
        };
        for made in lock_of(&MADE).iter_mut().filter(|m| m.path == self.path) {
            made.path.clone_from(&kept);
            let _ = made
                .held
                .as_ref()
                .map(|held| lock(held, libc::F_OFD_SETLK, libc::F_UNLCK));
        }
        kept
    }
}

impl Drop for GuardedDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut all = lock_of(&MADE);
        let made = all.iter().position(|made| made.path == self.path);
        let made = made.map(|at| all.swap_remove(at));
        drop(all);
        let removed = made.map_or(Ok(()), Made::remove);
        // What failed, as for want of descriptors, the guard tries again.
        self.guard.finish();
        match removed {
            Err(Left::Moved(to)) => {
                let path = self.path.display();
                let what = format!("remove {path}: somebody has moved it to {}", to.display());
                lock_of(&LEFT).push((to, what));
            }
            Err(Left::There(error)) if self.path.symlink_metadata().is_ok() => {
                not_removed(&self.path, &error);
            }
            Ok(()) | Err(Left::There(_)) => {}
        }
    }
}

/// Why a directory that was made here is still there.
enum Left {
    /// It could not be removed.
    There(HostError),
    /// It lies elsewhere, emptied.
    Moved(PathBuf),
}

impl From<HostError> for Left {
    fn from(error: HostError) -> Self {
        Self::There(error)
    }
}

impl Made {
    /// Whether it is where it was made; on a scratch file system nobody else can move it.
    fn is_in_place(&self) -> bool {
        let (Some(parent), Some(held)) = (&self.parent, &self.held) else {
            return true;
        };
        let name = self.path.file_name().unwrap_or_default();
        let named = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let both = rustix::fs::fstat(held).and_then(|own| Ok((own, named?)));
        both.is_ok_and(|(a, b)| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
    }

    fn remove(self) -> Result<(), Left> {
        let in_place = self.is_in_place();
        let (Some(parent), Some(held)) = (&self.parent, &self.held) else {
            return Ok(remove::tree(&self.path)?);
        };
        let name = self.path.file_name().unwrap_or_default();
        if !in_place {
            // Wherever it was moved to, or whatever hides it, what was made in it goes.
            remove::emptied(held.as_fd(), &self.path)?;
            if enter(parent.as_fd(), name).is_err_and(|e| e == Errno::XDEV) {
                let mounted = (self.path.clone(), Errno::XDEV);
                return Err(remove::reported(&self.path, mounted).into());
            }
            return match place_of(held) {
                Some(to) => Err(Left::Moved(to)),
                // Somebody has removed it.
                None => Ok(()),
            };
        }
        if self.layered {
            return Ok(remove::tree(&self.path)?);
        }
        remove::emptied(held.as_fd(), &self.path)?;
        Ok(remove::unlink(parent.as_fd(), name, &self.path)?)
    }
}

/// Where an open directory is now; `None` if it was removed.
fn place_of(dir: &OwnedFd) -> Option<PathBuf> {
    let place = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()?;
    let about = rustix::fs::fstat(dir).ok()?;
    let named = rustix::fs::stat(&place).ok()?;
    ((about.st_dev, about.st_ino) == (named.st_dev, named.st_ino)).then_some(place)
}

/// Opens a directory: one that was made here as it was made, whatever has come in its place.
pub(crate) fn open(dir: &Path) -> Result<OwnedFd, HostError> {
    let failed = |e: rustix::io::Errno| HostError::at("open directory", dir, e);
    let all = lock_of(&MADE);
    let Some(made) = all.iter().find(|made| made.path == dir) else {
        drop(all);
        return crate::fs::open_root(dir);
    };
    match &made.held {
        // Not opened again: a tracer of the workload would see that.
        Some(held) if !made.layered => rustix::io::fcntl_dupfd_cloexec(held, 0).map_err(failed),
        _ => crate::fs::open_unlinked(dir),
    }
}

/// Takes a directory that another process of fsage's made for this one as if it was made here.
pub fn adopt(dir: &Path) -> Result<(), HostError> {
    let held = crate::fs::open_unlinked(dir)?;
    let above = dir.parent().and_then(|above| above.metadata().ok());
    // In a directory of this user's own nobody else has changed it, but its setup may have given it away.
    if above.is_none_or(|above| above.uid() != rustix::process::geteuid().as_raw()) {
        is_own(&held, dir)?;
    }
    lock_of(&MADE).push(Made {
        path: dir.to_owned(),
        parent: None,
        held: Some(held),
        layered: false,
    });
    Ok(())
}

/// Fails if something else has come in the place of a directory that was made, for what must use its path.
pub fn is_there(dir: &Path) -> Result<(), HostError> {
    let all = lock_of(&MADE);
    let made = all.iter().find(|made| made.path == dir);
    match made {
        Some(made) if !made.is_in_place() => Err(replaced(dir)),
        _ => Ok(()),
    }
}

/// Whether a directory was made here and not removed since.
pub(crate) fn is_made(dir: &Path) -> bool {
    lock_of(&MADE).iter().any(|made| made.path == dir)
}

/// Lets a command run in a directory; in one that was made here whatever has come in its place.
pub fn stand_in(command: &mut Command, dir: &Path) -> Result<(), HostError> {
    if !is_made(dir) {
        command.current_dir(dir);
        return Ok(());
    }
    let own = open(dir)?;
    // SAFETY: fchdir is async-signal-safe, and the descriptor belongs to the closure.
    unsafe { command.pre_exec(move || Ok(rustix::process::fchdir(&own)?)) };
    Ok(())
}

/// Fails unless a directory is this user's.
fn is_own(dir: &OwnedFd, path: &Path) -> Result<rustix::fs::Stat, HostError> {
    let about = rustix::fs::fstat(dir).map_err(|e| HostError::at("look at", path, e))?;
    // Some file systems keep no owners.
    let keeps = || Mount::of(dir.as_fd(), path).is_none_or(|mount| mounts::keeps_owners(&mount));
    if about.st_uid == rustix::process::geteuid().as_raw() || !keeps() {
        return Ok(about);
    }
    Err(replaced(path))
}

/// The same, and that nothing is in it.
fn check_own(dir: &OwnedFd, path: &Path) -> Result<rustix::fs::Stat, HostError> {
    let about = is_own(dir, path)?;
    let entries = remove::entries(dir.as_fd()).map_err(|e| HostError::at("look into", path, e))?;
    let named = |entry: rustix::fs::DirEntry| ![c".", c".."].contains(&entry.file_name());
    if entries.flatten().any(named) {
        return Err(replaced(path));
    }
    Ok(about)
}

fn replaced(path: &Path) -> HostError {
    HostError::Refused {
        what: format!("use {}", path.display()),
        why: "it is not the directory that was made there; expected a target that nobody else changes"
            .into(),
    }
}

/// How many characters of a name of fsage's own are random.
pub(crate) const RANDOM_CHARS: usize = 16;

/// A name that nothing else has: the prefix and [`RANDOM_CHARS`] hexadecimal digits.
pub(crate) fn own_name(prefix: &str) -> Result<String, HostError> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| HostError::io("choose a name", e))?;
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(random)))
}

/// Whether a process that lives has said that a directory is its own; unsure is yes.
pub(crate) fn is_held(dir: &Path) -> bool {
    let open = crate::fs::open_root(dir);
    open.map_or(true, |open| {
        lock(&open, libc::F_OFD_GETLK, libc::F_WRLCK) != Some(libc::F_UNLCK)
    })
}

/// Sets or asks for a lock of an open file description; returns the kernel's answer, `None` if it is refused.
fn lock(file: &OwnedFd, order: libc::c_int, kind: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: plain integers, valid when zeroed; all of the file, and no process, as such locks want it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    // SAFETY: reads and writes one flock that outlives the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), order, &raw mut lock) };
    (done == 0).then(|| libc::c_int::from(lock.l_type))
}

/// Unmounts the directory that is the script's argument, unless that was done.
///
/// With -f the kernel ends the connection, so that nobody waits any more for answers; where something still
/// holds the mount, -l takes it out of sight.
const UNMOUNT: &str = "[ \"$never\" = done ] || umount -f -- \"$1\" || umount -l -- \"$1\" || \
    fusermount3 -uz -- \"$1\"";

/// Sees to it that a mount goes when this process is killed.
#[derive(Debug)]
pub struct GuardedMount {
    guard: Option<Afterwards>,
}

impl GuardedMount {
    /// Unmounts `dir` once this is dropped, if something is still mounted there, and removes it if
    /// fsage made it.
    pub fn of(dir: &Path, made: bool) -> Self {
        let script = if made {
            format!("{UNMOUNT}; rmdir -- \"$1\"")
        } else {
            UNMOUNT.to_owned()
        };
        Self {
            guard: Afterwards::run(&script, dir.into()).ok(),
        }
    }

    /// It is unmounted: what is mounted there from now on is somebody else's.
    pub fn done(mut self) {
        if let Some(pipe) = self.guard.as_mut().and_then(Afterwards::pipe) {
            // A shell that is gone does nothing either.
            drop(std::io::Write::write_all(pipe, b"done\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_drop() {
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        std::fs::write(dir.path().join("file"), b"x").unwrap();
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn it_is_for_its_user_alone_and_shows_that_it_has_an_owner() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        assert!(is_held(dir.path()));
        let path = dir.keep();
        assert!(!is_held(&path));
    }

    #[test]
    fn where_nothing_can_be_made_nothing_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        assert!(GuardedDir::create(&file, ".fsage-test-").is_err());
        assert!(GuardedDir::create(&parent.path().join("none"), "x").is_err());
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn it_stays_if_it_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let path = dir.keep();
        assert!(path.is_dir());
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(name.starts_with(".fsage-test-kept-"), "{name}");
    }

    /// A directory with a file in it, and the shell that removes it.
    fn watched(parent: &Path) -> (PathBuf, Afterwards) {
        let dir = parent.join("a dir");
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/file"), b"x").unwrap();
        let arguments = vec![dir.clone().into(), "a dir".into(), EMPTY.into()];
        let mut guard = Afterwards::reported(REMOVE, arguments).unwrap();
        let about = dir.metadata().unwrap();
        let line = format!("{}:{}\n", about.dev(), about.ino());
        std::io::Write::write_all(guard.pipe().unwrap(), line.as_bytes()).unwrap();
        (dir, guard)
    }

    #[test]
    fn the_guard_removes_it_when_the_pipe_closes() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, guard) = watched(parent.path());
        assert!(dir.exists());
        // What a kill of this process does: the write end of the pipe goes.
        drop(guard);
        assert!(!dir.exists());
    }

    #[test]
    fn the_guard_removes_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, guard) = watched(parent.path());
        let moved = parent.path().join("moved");
        std::fs::rename(&dir, &moved).unwrap();
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("file"), b"x").unwrap();
        drop(guard);
        assert!(dir.join("file").exists() && moved.join("sub/file").exists());
    }

    #[test]
    fn what_comes_in_its_place_is_neither_used_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let victim = parent.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), b"x").unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let moved = parent.path().join("moved");
        std::fs::rename(dir.path(), &moved).unwrap();
        std::os::unix::fs::symlink(&victim, dir.path()).unwrap();
        let fs = crate::HostFs::open(dir.path(), crate::HostOptions::default()).unwrap();
        fsage_core::FileSystem::mkdir(&fs, b"made", 0o700).unwrap();
        assert!(moved.join("made").is_dir());
        let mut touch = Command::new("touch");
        stand_in(&mut touch, dir.path()).unwrap();
        assert!(touch.arg("touched").status().unwrap().success());
        assert!(moved.join("touched").exists());
        let path = dir.path().display().to_string();
        drop(dir);
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&moved).unwrap().count(), 0);
        assert!(
            left()
                .iter()
                .any(|l| l.contains(&path) && l.contains("moved it to") && l.contains("/moved"))
        );
    }

    #[test]
    fn where_it_was_moved_to_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let made = || GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let (stays, goes) = (made(), made());
        let [moved, gone] = ["moved", "gone"].map(|name| parent.path().join(name));
        std::fs::rename(stays.path(), &moved).unwrap();
        std::fs::rename(goes.path(), &gone).unwrap();
        std::fs::remove_dir(&gone).unwrap();
        let path = goes.path().display().to_string();
        drop((stays, goes));
        let moved = moved.canonicalize().unwrap().display().to_string();
        assert!(left().iter().any(|l| l.contains(&moved)));
        assert!(!left().iter().any(|l| l.contains(&path)));
    }

    #[test]
    fn a_mount_on_it_is_no_move() {
        let parent = tempfile::tempdir().unwrap();
        let victim = parent.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), b"x").unwrap();
        let dir = GuardedDir::create(parent.path(), ".fsage-test-").unwrap();
        let path = dir.path().to_owned();
        if rustix::mount::mount_bind(&victim, &path).is_err() {
            fsage_testing::not_run("needs root");
            return;
        }
        drop(dir);
        let said = left()
            .into_iter()
            .find(|l| l.contains(path.to_str().unwrap()));
        rustix::mount::unmount(&path, rustix::mount::UnmountFlags::empty()).unwrap();
        assert!(victim.join("file").exists() && path.exists());
        let said = said.unwrap();
        assert!(
            said.contains("something is mounted on") && !said.contains("moved"),
            "{said}"
        );
    }
}
