//! Attributes, identity, space and time.

use super::{at, close, fails, make, ok, open, same};
use crate::{Access, Errno, FileSystem, OpenFlags, SetAttr};

pub(super) fn attributes(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
    let path = at(dir, "file");
    make(fs, &path, b"x")?;
    ok("mode", fs.set_attr(&path, SetAttr::Mode(0o640)))?;
    same("mode", ok("stat", fs.stat(&path))?.mode, 0o640)?;
    ok(
        "times",
        fs.set_attr(&path, SetAttr::Times(1_000_000_000, 2_000_000_000)),
    )?;
    let file = open(fs, &path, OpenFlags::READ)?;
    match fs.futimens(file, 1_000_000_000, 2_000_000_000) {
        Ok(()) | Err(Errno::EOPNOTSUPP) => {}
        Err(e) => return Err(format!("times of an open file: {e}")),
    }
    close(fs, file)?;
    let missing = fs.set_attr(&at(dir, "none"), SetAttr::Mode(0o600));
    fails("mode of nothing", missing, Errno::ENOENT)
}

pub(super) fn access(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn identity(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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

pub(super) fn space(fs: &dyn FileSystem, _dir: &str) -> Result<(), String> {
    let space = ok("statfs", fs.statfs())?;
    if space.block_bytes == 0 || space.available_bytes > space.total_bytes {
        return Err(format!(
            "statfs: expected blocks and less available than total, got {space:?}"
        ));
    }
    Ok(())
}

pub(super) fn clock(fs: &dyn FileSystem, dir: &str) -> Result<(), String> {
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
