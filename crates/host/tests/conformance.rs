//! The conformance body on real file systems of the kernel, in each confinement.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use common::{BENEATH, HELD, KINDS, TRUSTED, scratch};
use fsage_core::conformance;
use fsage_host::HostFs;

fn check(dir: &std::path::Path) {
    for options in [TRUSTED, BENEATH, HELD] {
        let fs = HostFs::open(dir, options).unwrap();
        if let Err(e) = conformance::check(&fs) {
            panic!("{:?}: {e}", options.confinement);
        }
    }
}

#[test]
fn on_the_temporary_directory() {
    let dir = tempfile::tempdir().unwrap();
    check(dir.path());
}

#[test]
fn on_tmpfs() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => check(dir.path()),
        Err(e) => fsage_testing::not_run(format_args!("needs /dev/shm: {e}")),
    }
}

fn on_scratch(kind: &str) {
    let spec = KINDS.iter().find(|spec| spec.starts_with(kind)).unwrap();
    let Some(scratch) = scratch(spec) else { return };
    check(scratch.dir());
    scratch.close().unwrap();
}

#[test]
fn on_ext2() {
    on_scratch("ext2");
}

#[test]
fn on_ext4() {
    on_scratch("ext4");
}

#[test]
fn on_xfs() {
    on_scratch("xfs");
}

#[test]
fn on_btrfs() {
    on_scratch("btrfs");
}
