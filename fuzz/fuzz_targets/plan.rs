//! Any text as a plan of a validation: an answer or an error.
#![no_main]

use std::path::Path;

use fsage_experiment::plan::PlanFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = PlanFile::parse(Path::new("fuzzed"), text);
});
