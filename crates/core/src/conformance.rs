//! What every [`FileSystem`] must do: one body for real, remote and simulated ones.
//!
//! Each check works in a directory of its own below the root and removes it. What POSIX leaves open
//! (the size of a directory, holes, what a mode becomes under a umask) is not asked.

use std::fmt::Debug;

use crate::{Access, DirEntry, Errno, FileSystem, FileType, Handle, OpenFlags, SetAttr};

type Check = fn(&dyn FileSystem, &str) -> Result<(), String>;

/// Every check by name; each is given a directory that is there and empty.
const CHECKS: &[(&str, Check)] = &[
    ("create_write_read", create_write_read),
    ("positions", positions),
    ("append", append),
    ("exclusive_create", exclusive_create),
    ("open_truncates", open_truncates),
    ("sparse_files", sparse_files),
    ("truncate", truncate),
    ("fallocate", fallocate),
    ("sync_calls", sync_calls),
    ("directories", directories),
    ("listing", listing),
    ("rename", rename),
    ("rename_directories", rename_directories),
    ("hard_links", hard_links),
    ("symbolic_links", symbolic_links),
    ("link_loops", link_loops),
    ("unlink_while_open", unlink_while_open),
    ("attributes", attributes),
    ("access", access),
    ("missing_names", missing_names),
    ("wrong_types", wrong_types),
    ("names", names),
    ("handles", handles),
    ("identity", identity),
    ("map_touch", map_touch),
    ("space", space),
    ("root", root),
    ("clock", clock),
];

/// Runs every check below the root of `fs`, which is left as it was found. The error names the
/// check, what was expected and what came; what it made is then left for inspection.
pub fn check(fs: &dyn FileSystem) -> Result<(), String> {
    for (name, check) in CHECKS {
        let dir = format!("conformance-{name}");
        let in_check = |e: String| format!("{}: {name}: {e}", fs.name());
        ok("mkdir", fs.mkdir(dir.as_bytes(), 0o755)).map_err(in_check)?;
        check(fs, &dir).map_err(in_check)?;
        remove_all(fs, dir.as_bytes()).map_err(in_check)?;
        fails(
            "stat of the removed directory",
            fs.stat(dir.as_bytes()),
            Errno::ENOENT,
        )
        .map_err(in_check)?;
    }
    Ok(())
}

fn ok<T>(what: &str, result: Result<T, Errno>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: expected success, got {e}"))
}

fn fails<T: Debug>(what: &str, result: Result<T, Errno>, expected: Errno) -> Result<(), String> {
    fails_any(what, result, &[expected])
}

fn fails_any<T: Debug>(
    what: &str,
    result: Result<T, Errno>,
    expected: &[Errno],
) -> Result<(), String> {
    match result {
        Err(e) if expected.contains(&e) => Ok(()),
        other => Err(format!(
            "{what}: expected one of {expected:?}, got {other:?}"
        )),
    }
}

fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {found:?}"))
    }
}

fn at(dir: &str, name: &str) -> Vec<u8> {
    format!("{dir}/{name}").into_bytes()
}

fn open(fs: &dyn FileSystem, path: &[u8], flags: OpenFlags) -> Result<Handle, String> {
    ok("open", fs.open(path, flags, 0o644))
}

fn close(fs: &dyn FileSystem, handle: Handle) -> Result<(), String> {
    ok("close", fs.close(handle))
}

/// A file with that content.
fn make(fs: &dyn FileSystem, path: &[u8], content: &[u8]) -> Result<(), String> {
    let handle = open(fs, path, OpenFlags::CREATE_NEW)?;
    let mut written = 0;
    while let Some(rest) = content.get(written..).filter(|r| !r.is_empty()) {
        written += match ok("write", fs.write(handle, rest))? {
            0 => return Err("write: wrote nothing".into()),
            n => n,
        };
    }
    close(fs, handle)
}

fn content(fs: &dyn FileSystem, path: &[u8]) -> Result<Vec<u8>, String> {
    let handle = open(fs, path, OpenFlags::READ)?;
    let mut all = Vec::new();
    let mut buffer = [0; 1000];
    loop {
        let length = ok("read", fs.read(handle, &mut buffer))?;
        match buffer.get(..length) {
            Some([]) => break,
            Some(read) => all.extend_from_slice(read),
            None => return Err(format!("read: {length} bytes into a buffer of 1000")),
        }
    }
    close(fs, handle)?;
    Ok(all)
}

fn list(fs: &dyn FileSystem, path: &[u8]) -> Result<Vec<DirEntry>, String> {
    let handle = open(fs, path, OpenFlags::DIRECTORY)?;
    let mut entries = ok("read_dir", fs.read_dir(handle))?;
    close(fs, handle)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn remove_all(fs: &dyn FileSystem, path: &[u8]) -> Result<(), String> {
    for entry in list(fs, path)? {
        let below = [path, b"/", &entry.name].concat();
        if ok("lstat", fs.lstat(&below))?.file_type == FileType::Directory {
            remove_all(fs, &below)?;
        } else {
            ok("unlink", fs.unlink(&below))?;
        }
    }
    ok("rmdir", fs.rmdir(path))
}

fn create_write_read(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
    make(fs, &path, &data)?;
    same("content", content(fs, &path)?, data)?;
    let attr = ok("stat", fs.stat(&path))?;
    same("type", attr.file_type, FileType::Regular)?;
    same("size", attr.size_bytes, 10_000)?;
    same("links", attr.links, 1)
}

fn positions(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn append(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn exclusive_create(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn open_truncates(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn sparse_files(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn truncate(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn fallocate(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn sync_calls(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    let handle = open(fs, &path, OpenFlags::CREATE_NEW)?;
    ok("write", fs.write(handle, b"data"))?;
    ok("fdatasync", fs.fdatasync(handle))?;
    ok("fsync", fs.fsync(handle))?;
    close(fs, handle)?;
    let handle = open(fs, dir.as_bytes(), OpenFlags::DIRECTORY)?;
    ok("fsync of a directory", fs.fsync(handle))?;
    close(fs, handle)?;
    ok("sync", fs.sync())
}

fn directories(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "d");
    ok("mkdir", fs.mkdir(&path, 0o755))?;
    fails("mkdir again", fs.mkdir(&path, 0o755), Errno::EEXIST)?;
    same(
        "type",
        ok("stat", fs.stat(&path))?.file_type,
        FileType::Directory,
    )?;
    ok("mkdir", fs.mkdir(&at(dir, "d/e"), 0o755))?;
    fails_any("rmdir", fs.rmdir(&path), &[Errno::ENOTEMPTY, Errno::EEXIST])?;
    ok("rmdir", fs.rmdir(&at(dir, "d/e")))?;
    ok("rmdir", fs.rmdir(&path))?;
    fails("rmdir again", fs.rmdir(&path), Errno::ENOENT)
}

fn listing(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    same("an empty directory", list(fs, dir.as_bytes())?, Vec::new())?;
    // Enough names for several calls.
    let name = |i: u32| format!("a-name-of-some-length-{i:05}");
    for i in 0..1500 {
        make(fs, &at(dir, &name(i)), b"")?;
    }
    ok("mkdir", fs.mkdir(&at(dir, "d"), 0o755))?;
    let entries = list(fs, dir.as_bytes())?;
    same("number of entries", entries.len(), 1501)?;
    let ino = ok("stat", fs.stat(&at(dir, &name(7))))?.id.ino;
    for (i, entry) in (0..).zip(entries.iter().take(1500)) {
        same("name", entry.name.as_slice(), name(i).as_bytes())?;
        if let Some(file_type) = entry.file_type {
            same("type", file_type, FileType::Regular)?;
        }
        if i == 7 {
            same("inode", entry.ino, ino)?;
        }
    }
    // A handle lists from its position: again after a seek to 0.
    let handle = open(fs, dir.as_bytes(), OpenFlags::DIRECTORY)?;
    same("first", ok("read_dir", fs.read_dir(handle))?.len(), 1501)?;
    same("at the end", ok("read_dir", fs.read_dir(handle))?.len(), 0)?;
    ok("seek", fs.seek(handle, 0))?;
    same(
        "after a seek",
        ok("read_dir", fs.read_dir(handle))?.len(),
        1501,
    )?;
    close(fs, handle)
}

fn rename(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (a, b) = (at(dir, "a"), at(dir, "b"));
    make(fs, &a, b"A")?;
    ok("rename", fs.rename(&a, &b))?;
    fails("stat of the old name", fs.stat(&a), Errno::ENOENT)?;
    make(fs, &a, b"new")?;
    ok("rename over a file", fs.rename(&a, &b))?;
    same("content", content(fs, &b)?, b"new".to_vec())?;
    ok("rename to itself", fs.rename(&b, &b))?;
    fails("rename of nothing", fs.rename(&a, &b), Errno::ENOENT)?;
    same("content", content(fs, &b)?, b"new".to_vec())
}

fn rename_directories(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    for name in ["d", "d/sub", "empty", "full"] {
        ok("mkdir", fs.mkdir(&at(dir, name), 0o755))?;
    }
    make(fs, &at(dir, "d/sub/file"), b"x")?;
    make(fs, &at(dir, "full/file"), b"x")?;
    make(fs, &at(dir, "file"), b"x")?;
    let d = at(dir, "d");
    fails(
        "into itself",
        fs.rename(&d, &at(dir, "d/sub/d")),
        Errno::EINVAL,
    )?;
    let full = [Errno::ENOTEMPTY, Errno::EEXIST];
    fails_any(
        "over a full directory",
        fs.rename(&d, &at(dir, "full")),
        &full,
    )?;
    fails(
        "directory over a file",
        fs.rename(&d, &at(dir, "file")),
        Errno::ENOTDIR,
    )?;
    fails(
        "file over a directory",
        fs.rename(&at(dir, "file"), &d),
        Errno::EISDIR,
    )?;
    ok("over an empty directory", fs.rename(&d, &at(dir, "empty")))?;
    same(
        "content",
        content(fs, &at(dir, "empty/sub/file"))?,
        b"x".to_vec(),
    )
}

fn hard_links(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (a, b) = (at(dir, "a"), at(dir, "b"));
    make(fs, &a, b"shared")?;
    ok("link", fs.link(&a, &b))?;
    let (first, second) = (ok("stat", fs.stat(&a))?, ok("stat", fs.stat(&b))?);
    same("identity", first.id, second.id)?;
    same("links", second.links, 2)?;
    fails(
        "link to a name that is there",
        fs.link(&a, &b),
        Errno::EEXIST,
    )?;
    fails(
        "link of a directory",
        fs.link(dir.as_bytes(), &at(dir, "c")),
        Errno::EPERM,
    )?;
    ok("unlink", fs.unlink(&a))?;
    same("links", ok("stat", fs.stat(&b))?.links, 1)?;
    same("content", content(fs, &b)?, b"shared".to_vec())
}

fn symbolic_links(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (file, link) = (at(dir, "file"), at(dir, "link"));
    make(fs, &file, b"behind")?;
    ok("symlink", fs.symlink(b"file", &link))?;
    same(
        "readlink",
        ok("readlink", fs.readlink(&link))?,
        b"file".to_vec(),
    )?;
    same(
        "lstat",
        ok("lstat", fs.lstat(&link))?.file_type,
        FileType::Symlink,
    )?;
    same("lstat", ok("lstat", fs.lstat(&link))?.size_bytes, 4)?;
    same(
        "stat",
        ok("stat", fs.stat(&link))?.file_type,
        FileType::Regular,
    )?;
    same("content", content(fs, &link)?, b"behind".to_vec())?;
    let no_follow = OpenFlags {
        no_follow: true,
        ..OpenFlags::READ
    };
    fails(
        "open without following",
        fs.open(&link, no_follow, 0),
        Errno::ELOOP,
    )?;
    fails("readlink of a file", fs.readlink(&file), Errno::EINVAL)?;
    fails(
        "symlink over a name",
        fs.symlink(b"x", &link),
        Errno::EEXIST,
    )?;
    // A directory through a link in the middle of a path.
    ok("mkdir", fs.mkdir(&at(dir, "d"), 0o755))?;
    ok("symlink", fs.symlink(b"d", &at(dir, "l")))?;
    make(fs, &at(dir, "l/inner"), b"in")?;
    same("content", content(fs, &at(dir, "d/inner"))?, b"in".to_vec())?;
    ok("unlink of the link", fs.unlink(&link))?;
    same("content", content(fs, &file)?, b"behind".to_vec())?;
    ok("symlink to nothing", fs.symlink(b"none", &link))?;
    fails("stat of a dangling link", fs.stat(&link), Errno::ENOENT)?;
    ok("lstat of a dangling link", fs.lstat(&link)).map(drop)
}

fn link_loops(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    ok("symlink", fs.symlink(b"b", &at(dir, "a")))?;
    ok("symlink", fs.symlink(b"a", &at(dir, "b")))?;
    fails("stat of a loop", fs.stat(&at(dir, "a")), Errno::ELOOP)?;
    fails(
        "open of a loop",
        fs.open(&at(dir, "a"), OpenFlags::READ, 0),
        Errno::ELOOP,
    )
}

fn unlink_while_open(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn attributes(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"x")?;
    ok("mode", fs.set_attr(&path, SetAttr::Mode(0o640)))?;
    same("mode", ok("stat", fs.stat(&path))?.mode, 0o640)?;
    ok(
        "times",
        fs.set_attr(&path, SetAttr::Times(1_000_000_000, 2_000_000_000)),
    )?;
    let missing = fs.set_attr(&at(dir, "none"), SetAttr::Mode(0o600));
    fails("mode of nothing", missing, Errno::ENOENT)
}

fn access(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"")?;
    for access in [Access::Exists, Access::Read, Access::Write] {
        ok("access", fs.access(&path, access))?;
    }
    fails(
        "access to nothing",
        fs.access(&at(dir, "none"), Access::Exists),
        Errno::ENOENT,
    )
}

fn missing_names(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    for path in [at(dir, "none"), at(dir, "none/below")] {
        fails("stat", fs.stat(&path), Errno::ENOENT)?;
        fails("lstat", fs.lstat(&path), Errno::ENOENT)?;
        fails("open", fs.open(&path, OpenFlags::READ, 0), Errno::ENOENT)?;
        fails("unlink", fs.unlink(&path), Errno::ENOENT)?;
        fails("rmdir", fs.rmdir(&path), Errno::ENOENT)?;
        fails("readlink", fs.readlink(&path), Errno::ENOENT)?;
        fails("truncate", fs.truncate(&path, 0), Errno::ENOENT)?;
        fails("link", fs.link(&path, &at(dir, "new")), Errno::ENOENT)?;
    }
    let below = at(dir, "none/below");
    fails("mkdir", fs.mkdir(&below, 0o755), Errno::ENOENT)?;
    fails("symlink", fs.symlink(b"x", &below), Errno::ENOENT)?;
    fails(
        "create",
        fs.open(&below, OpenFlags::CREATE_NEW, 0o644),
        Errno::ENOENT,
    )
}

fn wrong_types(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (file, sub) = (at(dir, "file"), at(dir, "d"));
    make(fs, &file, b"x")?;
    ok("mkdir", fs.mkdir(&sub, 0o755))?;
    fails("rmdir of a file", fs.rmdir(&file), Errno::ENOTDIR)?;
    fails_any(
        "unlink of a directory",
        fs.unlink(&sub),
        &[Errno::EISDIR, Errno::EPERM],
    )?;
    fails("below a file", fs.stat(&at(dir, "file/x")), Errno::ENOTDIR)?;
    fails(
        "list a file",
        fs.open(&file, OpenFlags::DIRECTORY, 0),
        Errno::ENOTDIR,
    )?;
    fails(
        "write a directory",
        fs.open(&sub, OpenFlags::WRITE, 0),
        Errno::EISDIR,
    )?;
    let handle = open(fs, &sub, OpenFlags::DIRECTORY)?;
    let mut buffer = [0; 8];
    fails(
        "read a directory",
        fs.read(handle, &mut buffer),
        Errno::EISDIR,
    )?;
    close(fs, handle)?;
    let handle = open(fs, &file, OpenFlags::READ)?;
    fails(
        "write without the right",
        fs.write(handle, b"y"),
        Errno::EBADF,
    )?;
    close(fs, handle)?;
    let handle = open(fs, &file, OpenFlags::WRITE)?;
    fails(
        "read without the right",
        fs.read(handle, &mut buffer),
        Errno::EBADF,
    )?;
    close(fs, handle)
}

fn names(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let odd: [&[u8]; 5] = [
        b"with space",
        b"new\nline",
        b"\xff\xfe",
        b"-dash",
        b"...dots",
    ];
    for name in odd {
        let path = [dir.as_bytes(), b"/", name].concat();
        make(fs, &path, name)?;
        same("content", content(fs, &path)?, name.to_vec())?;
    }
    same(
        "number of names",
        list(fs, dir.as_bytes())?.len(),
        odd.len(),
    )?;
    make(fs, &at(dir, &"n".repeat(255)), b"")?;
    let long = fs.open(&at(dir, &"n".repeat(256)), OpenFlags::CREATE_NEW, 0o644);
    fails("a name of 256 bytes", long, Errno::ENAMETOOLONG)?;
    fails_any(
        "a NUL byte",
        fs.stat(b"a\0b"),
        &[Errno::EINVAL, Errno::ENOENT],
    )?;
    make(fs, &at(dir, "./dot"), b"dot")?;
    same(
        "dots and slashes",
        content(fs, &at(dir, ".//./dot"))?,
        b"dot".to_vec(),
    )?;
    ok("mkdir", fs.mkdir(&at(dir, "sub"), 0o755))?;
    same(
        "parent",
        content(fs, &at(dir, "sub/../dot"))?,
        b"dot".to_vec(),
    )
}

fn handles(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

fn identity(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (a, b) = (at(dir, "a"), at(dir, "b"));
    make(fs, &a, b"x")?;
    make(fs, &b, b"x")?;
    let before = ok("stat", fs.stat(&a))?.id;
    if before == ok("stat", fs.stat(&b))?.id {
        return Err("stat: two files of one identity".into());
    }
    let handle = open(fs, &a, OpenFlags::READ)?;
    same("fstat", ok("fstat", fs.fstat(handle))?.id, before)?;
    close(fs, handle)?;
    ok("rename", fs.rename(&a, &at(dir, "c")))?;
    same(
        "identity after a rename",
        ok("stat", fs.stat(&at(dir, "c")))?.id,
        before,
    )
}

fn map_touch(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, &[7; 20_000])?;
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
    let past = fs.map_touch(handle, 0, 1 << 20, false, &mut |_| ());
    fails("map_touch past the end", past, Errno::EINVAL)?;
    close(fs, handle)
}

fn space(fs: &dyn FileSystem, _dir: &str) -> Result<(), String> {
    let space = ok("statfs", fs.statfs())?;
    if space.block_bytes == 0 || space.available_bytes > space.total_bytes {
        return Err(format!(
            "statfs: expected blocks and less available than total, got {space:?}"
        ));
    }
    Ok(())
}

fn root(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    same(
        "type",
        ok("stat", fs.stat(b""))?.file_type,
        FileType::Directory,
    )?;
    same("access", ok("access", fs.access(b"", Access::Exists))?, ())?;
    let listed = list(fs, b"")?.iter().any(|e| e.name == dir.as_bytes());
    same("the root lists its directory", listed, true)?;
    let outside = [Errno::EXDEV, Errno::EACCES, Errno::ENOENT];
    fails_any("an absolute path", fs.stat(b"/"), &outside)
}

fn clock(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let before = fs.clock().now_ns();
    make(fs, &at(dir, "file"), b"x")?;
    fs.empty_call();
    ok("sync", fs.sync())?;
    let after = fs.clock().now_ns();
    if after < before {
        return Err(format!("clock: {after} ns after {before} ns"));
    }
    Ok(())
}
