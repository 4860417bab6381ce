//! Any bytes as a script of filebench: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::wml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = wml::parse(bytes, Path::new("fuzzed"));
});
