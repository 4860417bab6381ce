//! Names: directories, links, renames and the errors of looking up.

use super::{at, close, content, fails, fails_any, list, make, ok, open, same};
use crate::{Access, Errno, FileSystem, FileType, OpenFlags, SetAttr};

pub(super) fn directories(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn listing(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn rename(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let (a, b) = (at(dir, "a"), at(dir, "b"));
    make(fs, &a, b"A")?;
    ok("rename", fs.rename(&a, &b))?;
    fails("stat of the old name", fs.stat(&a), Errno::ENOENT)?;
    make(fs, &a, b"new")?;
    ok("rename over a file", fs.rename(&a, &b))?;
    same("content", content(fs, &b)?, b"new".to_vec())?;
    ok("rename to itself", fs.rename(&b, &b))?;
    fails("rename of nothing", fs.rename(&a, &b), Errno::ENOENT)?;
    same("content", content(fs, &b)?, b"new".to_vec())?;
    exchange(fs, &a, &b)
}

/// Of the second alone, until the first is made; for a target that has the call.
fn exchange(fs: &dyn FileSystem, a: &[u8], b: &[u8]) -> Result<(), String> {
    match fs.exchange(a, b) {
        Err(Errno::EOPNOTSUPP | Errno::EINVAL) => return Ok(()),
        done => fails("exchange with nothing", done, Errno::ENOENT)?,
    }
    same("content", content(fs, b)?, b"new".to_vec())?;
    make(fs, a, b"A")?;
    ok("exchange", fs.exchange(a, b))?;
    same("content", content(fs, a)?, b"new".to_vec())?;
    same("content", content(fs, b)?, b"A".to_vec())
}

pub(super) fn rename_directories(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn hard_links(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn symbolic_links(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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
    ok("lstat of a dangling link", fs.lstat(&link))?;
    the_link_itself(fs, &link)
}

/// What a call that does not follow changes and names of a link that leads nowhere.
fn the_link_itself(fs: &dyn FileSystem, link: &[u8]) -> Result<(), String> {
    let (times, mode) = (SetAttr::Times(1 << 40, 1 << 41), SetAttr::Mode(0o600));
    let nobody = SetAttr::Owner(u32::MAX, u32::MAX);
    for attr in [times, nobody] {
        ok("lset_attr of a link", fs.lset_attr(link, attr))?;
        let followed = fs.set_attr(link, attr);
        fails("set_attr of a dangling link", followed, Errno::ENOENT)?;
    }
    let bits = fs.lset_attr(link, mode);
    fails("permission bits of a link", bits, Errno::EOPNOTSUPP)?;
    let missing = fs.lset_attr(&[link, b"-none"].concat(), times);
    fails("lset_attr of nothing", missing, Errno::ENOENT)?;
    let named = OpenFlags {
        no_follow: true,
        ..OpenFlags::NAME
    };
    let handle = open(fs, link, named)?;
    same(
        "fstat of a link",
        ok("fstat", fs.fstat(handle))?.file_type,
        FileType::Symlink,
    )?;
    fails("read of a name", fs.read(handle, &mut [0]), Errno::EBADF)?;
    close(fs, handle)
}

pub(super) fn link_loops(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    ok("symlink", fs.symlink(b"b", &at(dir, "a")))?;
    ok("symlink", fs.symlink(b"a", &at(dir, "b")))?;
    fails("stat of a loop", fs.stat(&at(dir, "a")), Errno::ELOOP)?;
    fails(
        "open of a loop",
        fs.open(&at(dir, "a"), OpenFlags::READ, 0),
        Errno::ELOOP,
    )
}

pub(super) fn missing_names(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn wrong_types(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn names(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn root(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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
