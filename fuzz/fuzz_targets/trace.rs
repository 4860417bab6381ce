//! Any bytes as a trace: operations or an error.
#![no_main]

use fsage_core::OpSource;
use fsage_format::trace::TraceReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.fst", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let _ = fsage_format::sniff(&path);
    if let Ok(mut reader) = TraceReader::open(&path) {
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch).is_ok_and(|count| count > 0) {
            batch.clear();
        }
    }
});
