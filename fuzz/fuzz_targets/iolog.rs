//! Any bytes as an iolog of fio: operations or an error.
#![no_main]

use fsage_core::OpSource;
use fsage_format::foreign::iolog::IologSource;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut source) = IologSource::from_bytes(bytes, "fuzzed".as_ref()) {
        let mut batch = Vec::new();
        while source.next_batch(&mut batch).is_ok_and(|count| count > 0) {
            batch.clear();
        }
    }
});
