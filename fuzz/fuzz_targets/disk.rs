//! Any text as a disk model: an answer or an error.
#![no_main]

use fsage_sim::DiskModel;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = DiskModel::parse(text, "fuzzed");
});
