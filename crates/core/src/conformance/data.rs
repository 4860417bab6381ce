//! What files hold: reading, writing, cutting, mapping.

use super::{at, close, content, fails, make, ok, open, same};
use crate::{Errno, FileSystem, FileType, Handle, OpenFlags, RangeSync};

pub(super) fn create_write_read(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
    make(fs, &path, &data)?;
    same("content", content(fs, &path)?, data)?;
    let attr = ok("stat", fs.stat(&path))?;
    same("type", attr.file_type, FileType::Regular)?;
    same("size", attr.size_bytes, 10_000)?;
    same("links", attr.links, 1)
}

pub(super) fn positions(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"0123456789")?;
    let handle = open(fs, &path, OpenFlags::READ_WRITE)?;
    let mut four = [0; 4];
    same("read", ok("read", fs.read(handle, &mut four))?, 4)?;
    same("first bytes", &four, b"0123")?;
    same("pread", ok("pread", fs.pread(handle, &mut four, 6))?, 4)?;
    same("bytes at 6", &four, b"6789")?;
    same("read", ok("read", fs.read(handle, &mut four))?, 4)?;
    same("pread leaves the position", &four, b"4567")?;
    same("pwrite", ok("pwrite", fs.pwrite(handle, b"ab", 0))?, 2)?;
    same("seek", ok("seek", fs.seek(handle, 1))?, 1)?;
    same("write", ok("write", fs.write(handle, b"X"))?, 1)?;
    same("read", ok("read", fs.read(handle, &mut four))?, 4)?;
    same("bytes after the write", &four, b"2345")?;
    same(
        "read at the end",
        ok("pread", fs.pread(handle, &mut four, 10))?,
        0,
    )?;
    same(
        "short read",
        ok("pread", fs.pread(handle, &mut four, 8))?,
        2,
    )?;
    same("seek past the end", ok("seek", fs.seek(handle, 100))?, 100)?;
    same(
        "read past the end",
        ok("read", fs.read(handle, &mut four))?,
        0,
    )?;
    close(fs, handle)?;
    same("content", content(fs, &path)?, b"aX23456789".to_vec())
}

pub(super) fn append(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"one")?;
    let handle = open(
        fs,
        &path,
        OpenFlags {
            append: true,
            ..OpenFlags::WRITE
        },
    )?;
    ok("seek", fs.seek(handle, 0))?;
    same("write", ok("write", fs.write(handle, b"two"))?, 3)?;
    close(fs, handle)?;
    same("content", content(fs, &path)?, b"onetwo".to_vec())
}

pub(super) fn exclusive_create(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"kept")?;
    fails(
        "exclusive create",
        fs.open(&path, OpenFlags::CREATE_NEW, 0o644),
        Errno::EEXIST,
    )?;
    let create = OpenFlags {
        create: true,
        ..OpenFlags::READ
    };
    close(fs, open(fs, &path, create)?)?;
    same("content", content(fs, &path)?, b"kept".to_vec())?;
    fails(
        "open",
        fs.open(&at(dir, "none"), OpenFlags::READ, 0),
        Errno::ENOENT,
    )?;
    close(fs, open(fs, &at(dir, "none"), create)?)?;
    same("size", ok("stat", fs.stat(&at(dir, "none")))?.size_bytes, 0)
}

pub(super) fn open_truncates(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"something")?;
    let handle = open(
        fs,
        &path,
        OpenFlags {
            truncate: true,
            ..OpenFlags::WRITE
        },
    )?;
    same("size", ok("fstat", fs.fstat(handle))?.size_bytes, 0)?;
    close(fs, handle)
}

pub(super) fn sparse_files(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let handle = open(fs, &path, OpenFlags::CREATE_NEW)?;
    same(
        "pwrite",
        ok("pwrite", fs.pwrite(handle, b"end", 100_000))?,
        3,
    )?;
    same("size", ok("fstat", fs.fstat(handle))?.size_bytes, 100_003)?;
    let mut hole = [1; 64];
    same(
        "pread",
        ok("pread", fs.pread(handle, &mut hole, 50_000))?,
        64,
    )?;
    same("a hole", hole, [0; 64])?;
    close(fs, handle)
}

pub(super) fn truncate(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"0123456789")?;
    ok("truncate", fs.truncate(&path, 4))?;
    same("content", content(fs, &path)?, b"0123".to_vec())?;
    ok("truncate", fs.truncate(&path, 6))?;
    same("content", content(fs, &path)?, b"0123\0\0".to_vec())?;
    let handle = open(fs, &path, OpenFlags::READ_WRITE)?;
    ok("ftruncate", fs.ftruncate(handle, 2))?;
    same("size", ok("fstat", fs.fstat(handle))?.size_bytes, 2)?;
    close(fs, handle)?;
    fails(
        "truncate of nothing",
        fs.truncate(&at(dir, "none"), 0),
        Errno::ENOENT,
    )?;
    fails(
        "truncate of a directory",
        fs.truncate(dir.as_bytes(), 0),
        Errno::EISDIR,
    )
}

pub(super) fn fallocate(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let handle = open(fs, &path, OpenFlags::CREATE_NEW)?;
    match fs.fallocate(handle, 0, 65_536) {
        Ok(()) => same("size", ok("fstat", fs.fstat(handle))?.size_bytes, 65_536)?,
        // ext2 and others have no such call.
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
        Err(e) => {
            return Err(format!(
                "fallocate: expected success or EOPNOTSUPP, got {e}"
            ));
        }
    }
    close(fs, handle)
}

pub(super) fn sync_calls(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let handle = open(fs, &path, OpenFlags::CREATE_NEW)?;
    ok("write", fs.write(handle, b"data"))?;
    ok("fdatasync", fs.fdatasync(handle))?;
    for what in [RangeSync::START, RangeSync::AWAIT, RangeSync(1)] {
        ok("write", fs.pwrite(handle, b"data", 4))?;
        match fs.sync_file_range(handle, 4, 4, what) {
            // A target may have no such call.
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            Err(e) => {
                return Err(format!(
                    "sync_file_range: expected success or EOPNOTSUPP, got {e}"
                ));
            }
        }
    }
    let mut found = [0; 8];
    ok("pread", fs.pread(handle, &mut found, 0))?;
    same("what was written", found, *b"datadata")?;
    ok("fsync", fs.fsync(handle))?;
    close(fs, handle)?;
    let handle = open(fs, dir.as_bytes(), OpenFlags::DIRECTORY)?;
    ok("fsync of a directory", fs.fsync(handle))?;
    close(fs, handle)?;
    ok("sync", fs.sync())
}

pub(super) fn unlink_while_open(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"still here")?;
    let handle = open(fs, &path, OpenFlags::READ_WRITE)?;
    ok("unlink", fs.unlink(&path))?;
    fails("stat", fs.stat(&path), Errno::ENOENT)?;
    let mut buffer = [0; 10];
    same("pread", ok("pread", fs.pread(handle, &mut buffer, 0))?, 10)?;
    same("content", &buffer, b"still here")?;
    close(fs, handle)
}

pub(super) fn handles(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"0123")?;
    let (a, b) = (
        open(fs, &path, OpenFlags::READ)?,
        open(fs, &path, OpenFlags::READ_WRITE)?,
    );
    if a == b {
        return Err("open: the same handle twice".into());
    }
    let mut two = [0; 2];
    ok("read", fs.read(a, &mut two))?;
    ok("read", fs.read(b, &mut two))?;
    same("each handle has its position", &two, b"01")?;
    ok("pwrite", fs.pwrite(b, b"ab", 2))?;
    ok("read", fs.read(a, &mut two))?;
    same("one handle sees what the other wrote", &two, b"ab")?;
    close(fs, a)?;
    close(fs, b)?;
    fails(
        "read of no handle",
        fs.read(Handle(u64::MAX), &mut two),
        Errno::EBADF,
    )?;
    fails(
        "close of no handle",
        fs.close(Handle(u64::MAX)),
        Errno::EBADF,
    )
}

pub(super) fn seek_next(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, &[7; 9000])?;
    let handle = ok("open", fs.open(&path, OpenFlags::READ_WRITE, 0))?;
    let data = fs.seek_next(handle, 100, false);
    if let Err(Errno::EOPNOTSUPP | Errno::EINVAL) = data {
        return close(fs, handle);
    }
    same("data from within it on", ok("seek_next", data)?, 100)?;
    let hole = fs.seek_next(handle, 0, true);
    same(
        "the hole behind the last byte",
        ok("seek_next", hole)?,
        9000,
    )?;
    let beyond = fs.seek_next(handle, 9000, false);
    fails("seek_next beyond the end", beyond, Errno::ENXIO)?;
    close(fs, handle)
}

pub(super) fn read_at_once(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, &vec![7; 20_000])?;
    let direct = OpenFlags {
        direct: true,
        ..OpenFlags::READ_WRITE
    };
    // Not everything can be read past a page cache.
    let Ok(handle) = fs.open(&path, direct, 0) else {
        return Ok(());
    };
    let mut noted = 0u32;
    let offsets = [4096, 0, 16_384, 1 << 20];
    let done = fs.read_at_once(handle, 4096, &offsets, &mut || noted += 1);
    if let Err(Errno::EOPNOTSUPP | Errno::ENOSYS) = done {
        return close(fs, handle);
    }
    same(
        "bytes read of two pages, the end of the file and what is beyond it",
        ok("read_at_once", done)?,
        2 * 4096 + (20_000 - 16_384),
    )?;
    same("times that it was said how far they are", noted, 2)?;
    let none = ok(
        "read_at_once of nothing",
        fs.read_at_once(handle, 4096, &[], &mut || ()),
    )?;
    same("bytes read of nothing", none, 0)?;
    close(fs, handle)?;
    let cached = open(fs, &path, OpenFlags::READ_WRITE)?;
    fails(
        "read_at_once through the page cache",
        fs.read_at_once(cached, 4096, &offsets, &mut || ()),
        Errno::EINVAL,
    )?;
    close(fs, cached)
}

pub(super) fn map_touch(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, &vec![7; 20_000])?;
    let handle = open(fs, &path, OpenFlags::READ_WRITE)?;
    let mut touched = 0u32;
    let done = fs.map_touch(handle, 0, 20_000, false, &mut |_| touched += 1);
    if let Err(Errno::EOPNOTSUPP | Errno::ENOSYS) = done {
        return close(fs, handle);
    }
    ok("map_touch", done)?;
    same("pages of 4096 bytes touched", touched, 5)?;
    ok(
        "map_touch to write",
        fs.map_touch(handle, 4096, 4096, true, &mut |_| touched += 1),
    )?;
    same("pages touched", touched, 6)?;
    ok(
        "map_touch of all of the last page",
        fs.map_touch(handle, 16_384, 4096, false, &mut |_| touched += 1),
    )?;
    same("pages touched", touched, 7)?;
    let past = fs.map_touch(handle, 0, 1 << 20, false, &mut |_| ());
    fails("map_touch past the end", past, Errno::EINVAL)?;
    close(fs, handle)
}
