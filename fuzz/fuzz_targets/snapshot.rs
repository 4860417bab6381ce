//! Any bytes as a snapshot: entries or an error.
#![no_main]

use fsage_format::snapshot::SnapshotReader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.fss", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    if let Ok(mut reader) = SnapshotReader::open(&path) {
        let mut batch = Vec::new();
        while reader.next_batch(&mut batch).is_ok_and(|count| count > 0) {
            batch.clear();
        }
    }
});
