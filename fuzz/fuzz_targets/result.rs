//! Any bytes as a stored prediction or validation: a result or an error.
#![no_main]

use fsage_format::result::load;
use fsage_format::result::prediction::Prediction;
use fsage_format::result::validation::Validation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.json", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let _ = fsage_format::sniff(&path);
    let _ = load::<Prediction>(&path);
    let _ = load::<Validation>(&path);
});
