//! Any bytes as a run record: records or an error.
#![no_main]

use std::path::Path;

use fsage_format::record::parse_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_records::<serde_json::Value>(Path::new("fuzzed"), bytes);
});
