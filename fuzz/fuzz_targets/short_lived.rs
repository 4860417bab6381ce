//! Any bytes as profiles of short-lived files: profiles that read the same when they were written, or an error.
#![no_main]

use fsage_age::generate::ShortLived;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.toml", std::process::id()));
    let load = |bytes: &[u8]| {
        std::fs::write(&path, bytes).ok()?;
        ShortLived::load(&path).ok()
    };
    if let Some(found) = load(bytes) {
        let text = found.to_toml().unwrap_or_default();
        assert_eq!(load(text.as_bytes()), Some(found));
    }
});
