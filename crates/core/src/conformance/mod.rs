//! What every [`FileSystem`] must do: one body for real, remote and simulated ones.
//!
//! Each check works in a directory of its own below the root and removes it. What POSIX leaves open
//! (the size of a directory, holes, what a mode becomes under a umask) is not asked.

mod attributes;
mod data;
mod names;

use std::fmt::Debug;

use crate::{DirEntry, Errno, FileSystem, FileType, Handle, OpenFlags};

type Check = fn(&dyn FileSystem, &str) -> Result<(), String>;

/// Every check by name; each is given a directory that is there and empty.
const CHECKS: &[(&str, Check)] = &[
    ("create_write_read", data::create_write_read),
    ("positions", data::positions),
    ("append", data::append),
    ("exclusive_create", data::exclusive_create),
    ("open_truncates", data::open_truncates),
    ("sparse_files", data::sparse_files),
    ("truncate", data::truncate),
    ("fallocate", data::fallocate),
    ("sync_calls", data::sync_calls),
    ("directories", names::directories),
    ("listing", names::listing),
    ("rename", names::rename),
    ("rename_directories", names::rename_directories),
    ("hard_links", names::hard_links),
    ("symbolic_links", names::symbolic_links),
    ("link_loops", names::link_loops),
    ("unlink_while_open", data::unlink_while_open),
    ("attributes", attributes::attributes),
    ("access", attributes::access),
    ("missing_names", names::missing_names),
    ("wrong_types", names::wrong_types),
    ("names", names::names),
    ("handles", data::handles),
    ("identity", attributes::identity),
    ("map_touch", data::map_touch),
    ("read_at_once", data::read_at_once),
    ("seek_next", data::seek_next),
    ("space", attributes::space),
    ("root", names::root),
    ("clock", attributes::clock),
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

#[allow(
    clippy::needless_pass_by_value,
    reason = "both sides are mostly fresh values"
)]
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
