//! Any bytes as an HBench-FS snapshot: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::hbench::snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = snapshot::read(bytes, Path::new("fuzzed"), |entry| {
        // The root has no name; all else lies beneath it.
        let mut names = entry.path.split(|&b| b == b'/');
        assert!(entry.path.is_empty() || names.all(|name| !matches!(name, b"" | b"." | b"..")));
        Ok(())
    });
});
