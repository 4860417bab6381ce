//! Any text as a configuration of FileRunner: what is read is written as something that reads the same, and needs
//! what can be held.
#![no_main]

use fsage_model::filerunner::{Config, Plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(config) = Config::parse("fuzzed", text) {
        let written = config.to_string();
        let again = Config::parse("written", &written).map(|config| config.to_string());
        assert_eq!(again, Ok(written));
        let _ = Plan::new("fuzzed", config);
    }
});
