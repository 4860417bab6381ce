//! Any bytes as an HBench-FS trace: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::hbench::HbenchSource;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut source = HbenchSource::new(bytes, Path::new("fuzzed"));
    while let Ok(Some(_)) = source.read_op() {}
});
