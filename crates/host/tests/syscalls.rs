//! Trusted names: one operation is one system call, as strace sees it.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use std::process::Command;

use common::TRUSTED;
use fsage_core::{Access, FileSystem, OpenFlags, RangeSync, SetAttr};
use fsage_host::HostFs;

const ROLE: &str = "FSAGE_TEST_TRACED";

/// Every operation once, `empty_call` between them as a mark.
#[allow(clippy::too_many_lines, reason = "one call after the other")]
fn operations(dir: &std::path::Path) {
    let fs = HostFs::open(dir, TRUSTED).unwrap();
    let mark = || fs.empty_call();
    let mut buffer = vec![0u8; 4096];
    mark();
    fs.mkdir(b"d", 0o755).unwrap();
    mark();
    let file = fs.open(b"d/file", OpenFlags::CREATE_NEW, 0o644).unwrap();
    mark();
    fs.write(file, &buffer).unwrap();
    mark();
    fs.pwrite(file, &buffer, 4096).unwrap();
    mark();
    fs.seek(file, 0).unwrap();
    mark();
    fs.read(file, &mut buffer).unwrap();
    mark();
    fs.pread(file, &mut buffer, 0).unwrap();
    mark();
    fs.fsync(file).unwrap();
    mark();
    fs.fdatasync(file).unwrap();
    mark();
    fs.sync_file_range(file, 0, 0, RangeSync::START).unwrap();
    mark();
    fs.ftruncate(file, 10).unwrap();
    mark();
    let _ = fs.fallocate(file, 0, 4096);
    mark();
    fs.futimens(file, 1, 1).unwrap();
    mark();
    fs.fstat(file).unwrap();
    mark();
    fs.close(file).unwrap();
    mark();
    fs.stat(b"d/file").unwrap();
    mark();
    fs.lstat(b"d/file").unwrap();
    mark();
    fs.access(b"d/file", Access::Read).unwrap();
    mark();
    fs.link(b"d/file", b"d/second").unwrap();
    mark();
    fs.symlink(b"file", b"d/link").unwrap();
    mark();
    fs.readlink(b"d/link").unwrap();
    mark();
    fs.rename(b"d/second", b"d/third").unwrap();
    mark();
    fs.truncate(b"d/third", 5).unwrap();
    mark();
    fs.set_attr(b"d/third", SetAttr::Mode(0o600)).unwrap();
    mark();
    fs.set_attr(b"d/third", SetAttr::Owner(u32::MAX, u32::MAX))
        .ok();
    mark();
    fs.set_attr(b"d/third", SetAttr::Times(1, 1)).unwrap();
    mark();
    fs.statfs().unwrap();
    mark();
    fs.sync().unwrap();
    mark();
    let d = fs.open(b"d", OpenFlags::DIRECTORY, 0).unwrap();
    mark();
    fs.read_dir(d).unwrap();
    mark();
    fs.close(d).unwrap();
    mark();
    for name in [b"d/file".as_slice(), b"d/link", b"d/third"] {
        fs.unlink(name).unwrap();
        mark();
    }
    fs.rmdir(b"d").unwrap();
    mark();
}

/// Calls between marks, in the order of `operations`.
const EXPECTED: &[&[&str]] = &[
    &["mkdirat"],
    &["openat"],
    &["write"],
    &["pwrite64"],
    &["lseek"],
    &["read"],
    &["pread64"],
    &["fsync"],
    &["fdatasync"],
    &["sync_file_range"],
    &["ftruncate"],
    &["fallocate"],
    &["utimensat"],
    &["fstat"],
    &["close"],
    &["newfstatat"],
    &["newfstatat"],
    &["faccessat"],
    &["linkat"],
    &["symlinkat"],
    &["readlinkat"],
    &["renameat"],
    &["truncate"],
    &["fchmodat"],
    &["fchownat"],
    &["utimensat"],
    &["fstatfs"],
    &["syncfs"],
    &["openat"],
    &["getdents64", "getdents64"],
    &["close"],
    &["unlinkat"],
    &["unlinkat"],
    &["unlinkat"],
    &["unlinkat"],
];

/// Calls that move memory about for the program itself.
const NOT_OPERATIONS: [&str; 4] = ["brk", "mmap", "munmap", "mremap"];

#[test]
#[cfg(target_arch = "x86_64")]
fn one_operation_is_one_call() {
    if let Some(dir) = std::env::var_os(ROLE) {
        operations(dir.as_ref());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let target = dir.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let strace = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "syscalls::one_operation_is_one_call"])
        .arg("--test-threads=1")
        .env(ROLE, &target)
        .output();
    let output = match strace {
        Ok(output) => output,
        Err(e) => {
            fsage_testing::not_run(format_args!("needs strace: {e}"));
            return;
        }
    };
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    if !output.status.success() && !log.contains("getuid") {
        fsage_testing::not_run(format_args!(
            "needs ptrace: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
        return;
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    // A test has a thread of its own.
    let lines = || log.lines().filter_map(|line| line.split_once(' '));
    let thread = lines().find(|(_, call)| call.trim_start().starts_with("getuid"));
    let thread = thread.map(|(thread, _)| thread);
    let calls: Vec<&str> = lines()
        .filter(|&(of, _)| Some(of) == thread)
        .filter_map(|(_, call)| call.trim_start().split_once('(').map(|(name, _)| name))
        .filter(|name| !NOT_OPERATIONS.contains(name))
        .collect();
    let mut between = calls.split(|&name| name == "getuid");
    between.next();
    let mut found: Vec<Vec<&str>> = between.map(<[&str]>::to_vec).collect();
    found.pop();
    assert_eq!(found, EXPECTED);
}
