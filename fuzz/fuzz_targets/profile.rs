//! Any bytes as a system profile: a sound profile or an error.
#![no_main]

use std::path::Path;

use fsage_format::profile::SystemProfile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("fuzzed");
    if let Ok(profile) = SystemProfile::parse(path, bytes) {
        assert!(profile.check(path).is_ok());
    }
});
