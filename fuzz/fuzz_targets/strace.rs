//! Any bytes as strace text: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_format::foreign::strace::StraceSource;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut source = StraceSource::new(bytes, Path::new("fuzzed"));
    let mut ops = Vec::new();
    while let Ok(1..) = source.read_ops(&mut ops) {}
});
