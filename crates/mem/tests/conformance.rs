//! The body that every file system passes, over each built-in truth; and truths that are none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
