//! The body that every file system passes, over each built-in truth; and truths that are none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fsage_core::{Errno, FileSystem, OpenFlags};
use fsage_mem::{MemFs, Truth};

#[test]
fn every_built_in_truth_conforms() {
    for (name, text) in Truth::BUILT_IN {
        let fs = MemFs::new(name, Truth::parse(name, text).unwrap());
        fsage_core::conformance::check(&fs).unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let (_, disk) = Truth::BUILT_IN[1];
    let wrong = [
        ("open_ns = 450", "open_ns = -1", "open_ns"),
        ("open_ns = 450", "", "open_ns"),
        ("open_ns = 450", "open_ns = 450\nopen_us = 1", "open_us"),
        ("total_mib = 8192", "total_mib = 0", "space.total_mib"),
        (
            "most_kib = 128",
            "most_kib = 2097152",
            "disk.read_ahead.most_kib",
        ),
        (
            "far_ns = 8000000",
            "far_ns = 900000000001",
            "disk.device.far_ns",
        ),
        ("kib = 4096", "kib = 100", "disk.device.read"),
        ("names = 400000", "names = 0", "disk.caches.names"),
    ];
    for (from, to, key) in wrong {
        assert!(disk.contains(from), "{from}");
        let error = Truth::parse("own", &disk.replacen(from, to, 1)).unwrap_err();
        let text = format!("{error}");
        assert!(text.contains(key) && text.contains("own"), "{to}: {text}");
    }
}

/// What is held is bounded, not how long files are: holes and pages that are equal hold next to nothing.
#[test]
fn what_takes_more_memory_than_is_allowed_finds_no_space() {
    let (name, fast) = Truth::BUILT_IN[0];
    let bounded = fast.replacen("[space]\n", "[space]\nheld_mib = 1\n", 1);
    let fs = MemFs::new(name, Truth::parse(name, &bounded).unwrap());
    let file = fs.open(b"f", OpenFlags::CREATE_NEW, 0o600).unwrap();
    let page = |number: u64| number.to_le_bytes().repeat(512);
    let write = |number: u64| fs.pwrite(file, &page(number), number * 4096);
    for number in 0..256 {
        assert_eq!(write(number), Ok(4096), "page {number}");
    }
    assert_eq!(write(256), Err(Errno::ENOSPC));
    let mut found = vec![0; 4096];
    fs.pread(file, &mut found, 255 * 4096).unwrap();
    assert_eq!(found, page(255), "what was there stays");
    fs.ftruncate(file, 0).unwrap();
    fs.ftruncate(file, 1 << 32).unwrap();
    let half = vec![7; 1 << 19];
    for piece in 0..8 {
        let wrote = fs.pwrite(file, &half, piece << 19);
        assert_eq!(wrote, Ok(half.len()), "piece {piece}");
    }
}
