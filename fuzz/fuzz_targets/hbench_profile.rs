//! Any bytes as an HBench-FS system profile: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::hbench::profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(profile) = profile::parse(text, Path::new("fuzzed"), "fuzzed")
    {
        assert!(profile.check(Path::new("fuzzed")).is_ok());
    }
});
