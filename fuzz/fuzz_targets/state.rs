//! Any bytes as what a killed aging run left (`.part`): what was done, or an error.
#![no_main]

use fsage_age::apply::{Identity, State};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.part", std::process::id()));
    if std::fs::write(&path, bytes).is_ok() {
        let _ = State::resume(&path, &Identity::default());
    }
});
