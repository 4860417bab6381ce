//! Cold states, seen by the counters of the device.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use crate::common;

use common::{TRUSTED, is_mounted, scratch};
use fsage_core::{ColdEvidence, ColdLevel, ColdMethod, Errno, FileSystem, OpenFlags, Platform};
use fsage_host::{ColdPolicy, HostFs, HostOptions};

const FILE_BYTES: usize = 1 << 20;

fn with(cold: ColdPolicy) -> HostOptions {
    HostOptions { cold, ..TRUSTED }
}

fn write_file(fs: &HostFs, name: &[u8]) {
    let handle = fs.open(name, OpenFlags::CREATE_NEW, 0o644).unwrap();
    let data: Vec<u8> = (0..FILE_BYTES as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    assert_eq!(fs.pwrite(handle, &data, 0), Ok(FILE_BYTES));
    fs.fsync(handle).unwrap();
    fs.close(handle).unwrap();
}

/// Sectors that the device reads while the file is read whole.
fn sectors_of_reading(fs: &HostFs, name: &[u8]) -> u64 {
    let before = fs.device_counters().unwrap().sectors_read;
    let handle = fs.open(name, OpenFlags::READ, 0).unwrap();
    let mut buffer = vec![0; FILE_BYTES];
    assert_eq!(fs.pread(handle, &mut buffer, 0), Ok(FILE_BYTES));
    fs.close(handle).unwrap();
    fs.device_counters().unwrap().sectors_read - before
}

/// Whether a warm read reads nothing. Others may drop the machine's caches at any moment, so a few
/// reads are tried; a target that does not cache fails all of them.
fn warm_reads_nothing(fs: &HostFs, name: &[u8]) -> bool {
    (0..5).any(|_| sectors_of_reading(fs, name) == 0)
}

fn check(spec: &str, cold: ColdPolicy, expected: ColdEvidence) {
    let Some(scratch) = scratch(spec) else { return };
    let fs = scratch.open(with(cold)).unwrap();
    fs.mkdir(b"d", 0o755).unwrap();
    // So many names that they do not all lie in the blocks that a mount reads.
    for i in 0..400 {
        let path = format!("d/name-{i:0100}");
        fs.close(
            fs.open(path.as_bytes(), OpenFlags::CREATE_NEW, 0o644)
                .unwrap(),
        )
        .unwrap();
    }
    write_file(&fs, b"d/file");
    assert!(warm_reads_nothing(&fs, b"d/file"), "{spec}: just written");
    for round in 0..2 {
        assert_eq!(fs.make_cold(), Ok(expected), "{spec}");
        let file_sectors = (FILE_BYTES / 512) as u64;
        let cold_sectors = sectors_of_reading(&fs, b"d/file");
        assert!(
            cold_sectors >= file_sectors,
            "{spec}, round {round}: {cold_sectors} sectors"
        );
        if expected.level == ColdLevel::Everything {
            // Names and inodes come from the device as well.
            assert!(
                cold_sectors > file_sectors,
                "{spec}, round {round}: {cold_sectors} sectors"
            );
        }
        assert!(
            warm_reads_nothing(&fs, b"d/file"),
            "{spec}, round {round}: warm"
        );
    }
    drop(fs);
    scratch.close().unwrap();
}

const REMOUNT: ColdEvidence = ColdEvidence {
    method: ColdMethod::Remount,
    level: ColdLevel::Everything,
};
const EVICT: ColdEvidence = ColdEvidence {
    method: ColdMethod::Evict,
    level: ColdLevel::DataOnly,
};

#[test]
fn a_remount_is_cold() {
    for spec in common::KINDS {
        check(spec, ColdPolicy::Auto, REMOUNT);
    }
}

#[test]
fn a_remount_is_cold_on_a_file() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let spec = format!("ext4,size=64M,on=file:{}", dir.path().display());
    check(&spec, ColdPolicy::Only(ColdMethod::Remount), REMOUNT);
}

#[test]
fn eviction_is_cold_for_data() {
    check("ext4,size=64M", ColdPolicy::Only(ColdMethod::Evict), EVICT);
}

#[test]
fn dropping_caches_is_cold() {
    for spec in ["ext4,size=64M", "xfs,size=300M"] {
        let Some(scratch) = scratch(spec) else { return };
        let fs = scratch
            .open(with(ColdPolicy::Only(ColdMethod::Drop)))
            .unwrap();
        write_file(&fs, b"file");
        assert!(warm_reads_nothing(&fs, b"file"));
        match fs.make_cold() {
            Ok(evidence) => assert_eq!(evidence.level, ColdLevel::Everything),
            Err(e @ (Errno::EACCES | Errno::EPERM | Errno::EROFS)) => {
                fsage_testing::not_run(format_args!(
                    "needs to write /proc/sys/vm/drop_caches: {e}"
                ));
                return;
            }
            Err(e) => panic!("{e}"),
        }
        assert!(sectors_of_reading(&fs, b"file") >= (FILE_BYTES / 512) as u64);
        // Not left frozen: a write completes.
        write_file(&fs, b"after");
    }
}

#[test]
fn one_file_is_evicted() {
    let Some(scratch) = scratch("ext4,size=64M") else {
        return;
    };
    let fs = scratch.open(TRUSTED).unwrap();
    for name in [b"one", b"two"] {
        write_file(&fs, name);
    }
    assert!(warm_reads_nothing(&fs, b"one"));
    let handle = fs.open(b"one", OpenFlags::READ, 0).unwrap();
    fs.evict(handle).unwrap();
    fs.close(handle).unwrap();
    assert!(warm_reads_nothing(&fs, b"two"));
    assert!(sectors_of_reading(&fs, b"one") >= (FILE_BYTES / 512) as u64);
}

#[test]
fn every_target_on_it_survives_a_remount() {
    let Some(scratch) = scratch("ext4,size=64M") else {
        return;
    };
    let fs = scratch.open(TRUSTED).unwrap();
    fs.mkdir(b"d", 0o755).unwrap();
    let below = HostFs::open(&scratch.dir().join("d"), TRUSTED).unwrap();
    write_file(&below, b"file");
    assert_eq!(below.make_cold(), Ok(REMOUNT));
    assert_eq!(fs.stat(b"d/file").unwrap().size_bytes, FILE_BYTES as u64);
    assert_eq!(below.stat(b"file").unwrap().size_bytes, FILE_BYTES as u64);
    below.truncate(b"file", 10).unwrap();
    assert_eq!(fs.stat(b"d/file").unwrap().size_bytes, 10);
}

#[test]
fn an_open_file_prevents_a_remount_and_nothing_is_lost() {
    let Some(scratch) = scratch("ext4,size=64M") else {
        return;
    };
    let fs = scratch
        .open(with(ColdPolicy::Only(ColdMethod::Remount)))
        .unwrap();
    write_file(&fs, b"file");
    let handle = fs.open(b"file", OpenFlags::READ, 0).unwrap();
    assert_eq!(fs.make_cold(), Err(Errno::EBUSY));
    assert!(is_mounted(scratch.dir()));
    assert_eq!(fs.stat(b"file").unwrap().size_bytes, FILE_BYTES as u64);
    let mut buffer = [0; 16];
    assert_eq!(fs.pread(handle, &mut buffer, 0), Ok(16));
    fs.close(handle).unwrap();
    assert_eq!(fs.make_cold(), Ok(REMOUNT));
}

#[test]
fn what_was_made_for_the_occasion_is_made_anew() {
    for spec in ["ext4,size=64M", "btrfs,size=128M"] {
        let Some(scratch) = scratch(spec) else { return };
        let fs = scratch.open(TRUSTED).unwrap();
        let first = names_of(&fs);
        write_file(&fs, b"file");
        assert_eq!(fs.make_anew(), Ok(()), "{spec}");
        assert_eq!(names_of(&fs), first, "{spec}: as it was made");
        assert_eq!(fs.stat(b"file").map(|_| ()), Err(Errno::ENOENT));
        assert!(is_mounted(scratch.dir()));
        // An open file, and a directory that is a target's, are somebody's.
        write_file(&fs, b"again");
        let handle = fs.open(b"again", OpenFlags::READ, 0).unwrap();
        assert_eq!(fs.make_anew(), Err(Errno::EBUSY), "{spec}");
        fs.close(handle).unwrap();
        fs.mkdir(b"d", 0o755).unwrap();
        let below = HostFs::open(&scratch.dir().join("d"), TRUSTED).unwrap();
        assert_eq!(fs.make_anew(), Err(Errno::EOPNOTSUPP), "{spec}");
        assert_eq!(below.make_anew(), Err(Errno::EOPNOTSUPP), "{spec}");
        assert_eq!(fs.stat(b"again").unwrap().size_bytes, FILE_BYTES as u64);
        drop(below);
        assert_eq!(fs.make_anew(), Ok(()), "{spec}");
        assert_eq!(names_of(&fs), first, "{spec}");
    }
    // A directory of the machine is nobody's to be made anew.
    let dir = tempfile::tempdir().unwrap();
    let fs = HostFs::open(dir.path(), TRUSTED).unwrap();
    write_file(&fs, b"file");
    assert_eq!(fs.make_anew(), Err(Errno::EOPNOTSUPP));
    assert!(fs.stat(b"file").is_ok());
}

fn names_of(fs: &HostFs) -> Vec<Vec<u8>> {
    let root = fs.open(b".", OpenFlags::DIRECTORY, 0).unwrap();
    let entries = fs.read_dir(root).unwrap();
    fs.close(root).unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

#[test]
fn what_cannot_be_cold_says_so() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        fsage_testing::not_run("needs /dev/shm");
        return;
    };
    let fs = HostFs::open(dir.path(), TRUSTED).unwrap();
    assert_eq!(fs.make_cold(), Err(Errno::EOPNOTSUPP));
    assert_eq!(fs.device_counters(), None);
    // What fsage did not mount is not unmounted.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let fs = HostFs::open(dir.path(), with(ColdPolicy::Only(ColdMethod::Remount))).unwrap();
    assert_eq!(fs.make_cold(), Err(Errno::EOPNOTSUPP));
}
