//! What waiting for stable storage finds to do.

#![allow(clippy::unwrap_used, reason = "tests")]

use fsage_core::{Errno, FileSystem, Handle, OpenFlags, Platform, RangeSync, VirtualTime};
use fsage_mem::{MemFs, Truth};

fn disk() -> MemFs {
    MemFs::new("mem:disk", Truth::built_in("disk").unwrap())
}

fn took(fs: &MemFs, call: impl FnOnce() -> Result<(), Errno>) -> u64 {
    let start_ns = fs.clock().now_ns();
    call().unwrap();
    fs.clock().now_ns() - start_ns
}

fn written(fs: &MemFs, name: &[u8], bytes: usize) -> Handle {
    let file = fs.open(name, OpenFlags::CREATE_NEW, 0o644).unwrap();
    fs.pwrite(file, &vec![7; bytes], 0).unwrap();
    file
}

#[test]
fn a_start_of_writing_is_no_wait_and_shortens_the_one_to_come() {
    let (fs, truth) = (disk(), Truth::built_in("disk").unwrap());
    let file = written(&fs, b"f", 1 << 20);
    let start = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync::START));
    let stated = truth.machine.entry_exit_ns
        + truth.calls.start_writing_ns
        + 256 * truth.calls.start_page_ns;
    assert_eq!(start, stated);
    // Nothing is left to start.
    let again = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync::START));
    assert_eq!(again, stated - 256 * truth.calls.start_page_ns);
    // It is awaited by the call that asks for that, and then no more.
    let awaited = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync(1)));
    assert!(awaited > 10_000_000, "{awaited}");
    let after = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync(1)));
    assert_eq!(after, again);
    let commit = took(&fs, || fs.fsync(file));
    let empty = written(&fs, b"g", 0);
    let alone = took(&fs, || fs.fsync(empty));
    // The journal is far from the data, and where it ended is the next commit's place.
    let far_ns = truth.disk.unwrap().device.far_ns;
    assert!(
        commit.abs_diff(alone + far_ns) < 500_000,
        "{commit} {alone}"
    );
    assert_eq!(
        took(&fs, || fs.fsync(file)),
        again - truth.calls.start_writing_ns + truth.calls.fsync_ns
    );
}

#[test]
fn a_range_is_written_and_no_more() {
    let fs = disk();
    let file = written(&fs, b"f", 1 << 20);
    fs.fsync(file).unwrap();
    fs.pwrite(file, &[1; 8192], 0).unwrap();
    fs.pwrite(file, &[1; 8192], 65536).unwrap();
    fs.sync_file_range(file, 0, 8192, RangeSync::AWAIT).unwrap();
    let rest = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync::AWAIT));
    let none = took(&fs, || fs.sync_file_range(file, 0, 0, RangeSync::AWAIT));
    assert!(rest > 100_000 && none < 10_000, "{rest} {none}");
    assert_eq!(
        fs.sync_file_range(file, u64::MAX, 2, RangeSync::START),
        Err(Errno::EINVAL)
    );
}

#[test]
fn reserved_blocks_become_data_by_a_commit_and_data_needs_none() {
    let fs = disk();
    let file = fs.open(b"f", OpenFlags::CREATE_NEW, 0o644).unwrap();
    fs.fallocate(file, 0, 1 << 20).unwrap();
    fs.fsync(file).unwrap();
    let write_at = |at| {
        fs.pwrite(file, &[1; 4096], at).unwrap();
        took(&fs, || fs.fdatasync(file))
    };
    let (first, again) = (write_at(8192), write_at(8192));
    assert!(first > again + 8_000_000, "{first} {again}");
}

#[test]
fn at_the_end_of_time_nothing_is_due_for_ever() {
    let fs = disk();
    let file = written(&fs, b"f", 4096);
    let end = u64::MAX;
    fs.begin(end);
    fs.pwrite(file, &[7; 4096], 0).unwrap();
    fs.fsync(file).unwrap();
    assert_eq!(fs.clock().now_ns(), end);
}

#[test]
fn what_calls_waited_for_the_device_is_told_apart() {
    let fs = disk();
    written(&fs, b"f", 4096);
    let waited = |fs: &MemFs| fs.waited_ns();
    let before = waited(&fs);
    let cached = took(&fs, || fs.stat(b"f").map(drop));
    assert!(cached > 0 && waited(&fs) == before);
    fs.make_cold().unwrap();
    let before = waited(&fs);
    let cold = took(&fs, || fs.stat(b"f").map(drop));
    let waited = waited(&fs) - before;
    assert!(waited > 0 && waited < cold, "{waited} of {cold} ns");
    // The rest is the search, the inode and what the call takes when all is cached.
    assert_eq!(cold - waited, cached + 250 + 900);
}
