//! Any bytes as an HBench-FS snapshot: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::hbench::snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = snapshot::read(bytes, Path::new("fuzzed"), |entry| {
        assert!(!entry.path.starts_with(b"/"));
        Ok(())
    });
});
