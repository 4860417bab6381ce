//! A directory below the root of any target, made and removed through its file system.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{FsOptions, Place, Root, TargetError};
use crate::{
    Access, Attr, Clock, DirEntry, Errno, FileSystem, FileType, Handle, OpenFlags, Platform,
    RangeSync, SetAttr, StatFs, VirtualTime,
};

/// More names of one prefix are not tried.
const MOST_NAMES: u32 = 10_000;

/// A directory of fsage's own on a target that cannot open one as a root by itself: every path gets
/// the directory's name before it, and costs its lookup. Its name is the first that is free, so that it is
/// the same in every run.
#[derive(Debug)]
pub struct Subdirectory {
    below: Arc<Below>,
    kept: bool,
}

impl Subdirectory {
    /// Its path from the root that it was made in.
    pub fn path(&self) -> &[u8] {
        &self.below.dir
    }

    /// Makes a directory with a name that begins with `prefix` in the root of a file system.
    pub fn create(fs: Arc<dyn FileSystem>, prefix: &str) -> Result<Self, TargetError> {
        for number in 0..MOST_NAMES {
            let dir = format!("{prefix}{number}").into_bytes();
            match fs.mkdir(&dir, 0o700) {
                Err(Errno::EEXIST) => {}
                Err(errno) => {
                    let what = format!("make a directory in {}", fs.name());
                    return Err(TargetError::refused(what, errno));
                }
                Ok(()) => {
                    let below = Arc::new(Below { fs, dir });
                    return Ok(Self { below, kept: false });
                }
            }
        }
        let what = format!("make a directory in {}", fs.name());
        let why = format!("{prefix}0 to {prefix}{MOST_NAMES} are there already");
        Err(TargetError::refused(what, why))
    }
}

impl Root for Subdirectory {
    fn file_system(&self, _options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
        Ok(Arc::clone(&self.below) as Arc<dyn FileSystem>)
    }
}

impl Place for Subdirectory {
    fn clear(&self) -> Result<(), TargetError> {
        let failed = |errno| TargetError::refused(format!("empty {}", self.below.name()), errno);
        remove_below(&*self.below.fs, &self.below.dir).map_err(failed)
    }

    fn keep(mut self: Box<Self>) -> PathBuf {
        self.kept = true;
        OsString::from_vec(self.below.dir.clone()).into()
    }
}

impl Drop for Subdirectory {
    fn drop(&mut self) {
        if !self.kept {
            let Below { fs, dir } = &*self.below;
            // What a workload made undeletable is left for the user to see.
            let _ = remove_below(&**fs, dir).and_then(|()| fs.rmdir(dir));
        }
    }
}

/// What a directory holds, without itself and its parent.
pub fn list_dir(fs: &dyn FileSystem, dir: &[u8]) -> Result<Vec<DirEntry>, Errno> {
    let handle = fs.open(dir, OpenFlags::DIRECTORY, 0)?;
    let entries = fs.read_dir(handle);
    fs.close(handle)?;
    let mut entries = entries?;
    entries.retain(|entry| entry.name != b"." && entry.name != b"..");
    Ok(entries)
}

/// Removes everything below a directory, which stays.
pub fn remove_below(fs: &dyn FileSystem, dir: &[u8]) -> Result<(), Errno> {
    // Each directory is met twice: when what is in it is listed, and when that is gone.
    let mut pending = vec![(dir.to_vec(), false)];
    while let Some((path, listed)) = pending.pop() {
        if listed {
            if path != dir {
                fs.rmdir(&path)?;
            }
            continue;
        }
        let entries = list_dir(fs, &path)?;
        pending.push((path.clone(), true));
        for entry in entries {
            let name = joined(&path, &entry.name);
            let kind = match entry.file_type {
                Some(kind) => kind,
                None => fs.lstat(&name)?.file_type,
            };
            match kind {
                FileType::Directory => pending.push((name, false)),
                _ => fs.unlink(&name)?,
            }
        }
    }
    Ok(())
}

fn joined(dir: &[u8], path: &[u8]) -> Vec<u8> {
    match (dir, path) {
        ([], path) => path.to_vec(),
        (dir, []) => dir.to_vec(),
        (dir, path) => [dir, b"/", path].concat(),
    }
}

/// A file system seen from one of its directories.
struct Below {
    fs: Arc<dyn FileSystem>,
    dir: Vec<u8>,
}

impl std::fmt::Debug for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Below").field(&self.name()).finish()
    }
}

impl Below {
    /// Absolute paths stay what they are: the file system refuses them.
    fn at(&self, path: &[u8]) -> Vec<u8> {
        match path {
            [b'/', ..] => path.to_vec(),
            path => joined(&self.dir, path),
        }
    }
}

/// Calls on handles, as they are.
macro_rules! on_handles {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, handle: Handle $(, $arg: $kind)*) -> Result<$result, Errno> {
            self.fs.$name(handle $(, $arg)*)
        }
    )*};
}

/// Calls on one path.
macro_rules! on_paths {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, path: &[u8] $(, $arg: $kind)*) -> Result<$result, Errno> {
            self.fs.$name(&self.at(path) $(, $arg)*)
        }
    )*};
}

impl FileSystem for Below {
    fn name(&self) -> String {
        format!("{}/{}", self.fs.name(), String::from_utf8_lossy(&self.dir))
    }

    fn clock(&self) -> &dyn Clock {
        self.fs.clock()
    }

    on_handles! {
        close() -> ();
        read(buf: &mut [u8]) -> usize;
        write(buf: &[u8]) -> usize;
        pread(buf: &mut [u8], offset: u64) -> usize;
        pwrite(buf: &[u8], offset: u64) -> usize;
        read_at_once(length: usize, offsets: &[u64], noted: &mut dyn FnMut()) -> usize;
        seek(offset: u64) -> u64;
        read_dir() -> Vec<DirEntry>;
        fsync() -> ();
        fdatasync() -> ();
        sync_file_range(offset: u64, length: u64, what: RangeSync) -> ();
        ftruncate(size: u64) -> ();
        fallocate(offset: u64, length: u64) -> ();
        futimens(accessed_ns: u64, modified_ns: u64) -> ();
        fstat() -> Attr;
        map_touch(offset: u64, length: u64, write: bool, touched: &mut dyn FnMut(u64)) -> ();
    }

    on_paths! {
        open(flags: OpenFlags, mode: u32) -> Handle;
        open_unnamed(mode: u32) -> Handle;
        stat() -> Attr;
        lstat() -> Attr;
        access(access: Access) -> ();
        unlink() -> ();
        mkdir(mode: u32) -> ();
        rmdir() -> ();
        readlink() -> Vec<u8>;
        truncate(size: u64) -> ();
        set_attr(attr: SetAttr) -> ();
        lset_attr(attr: SetAttr) -> ();
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.fs.rename(&self.at(from), &self.at(to))
    }

    fn exchange(&self, one: &[u8], two: &[u8]) -> Result<(), Errno> {
        self.fs.exchange(&self.at(one), &self.at(two))
    }

    fn link(&self, existing: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.fs.link(&self.at(existing), &self.at(new))
    }

    fn link_open(&self, handle: Handle, new: &[u8]) -> Result<(), Errno> {
        self.fs.link_open(handle, &self.at(new))
    }

    fn symlink(&self, target: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.fs.symlink(target, &self.at(new))
    }

    fn statfs(&self) -> Result<StatFs, Errno> {
        self.fs.statfs()
    }

    fn sync(&self) -> Result<(), Errno> {
        self.fs.sync()
    }

    fn empty_call(&self) {
        self.fs.empty_call();
    }

    fn virtual_time(&self) -> Option<&dyn VirtualTime> {
        self.fs.virtual_time()
    }

    fn platform(&self) -> &dyn Platform {
        self.fs.platform()
    }
}
