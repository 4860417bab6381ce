//! Any bytes as the image of a file system (`.fsi`): pieces within it or an error, and the same verdict with and without
//! unpacking where no piece is none of zstd's.
#![no_main]

use fsage_format::image::{ImageReader, PIECE_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("fsage-fuzz-{}.fsi", std::process::id()));
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let _ = fsage_format::sniff(&path);
    let checked = ImageReader::open(&path).and_then(|mut reader| reader.check());
    let Ok(mut reader) = ImageReader::open(&path) else {
        assert!(checked.is_err());
        return;
    };
    let (mut piece, mut last, mut data_bytes) = (Vec::new(), 0, 0);
    loop {
        match reader.next(&mut piece) {
            Ok(Some(place)) => {
                let end = place + piece.len() as u64;
                assert!(last <= place && end <= reader.head().size_bytes);
                assert!(piece.len() <= PIECE_BYTES);
                (last, data_bytes) = (end, data_bytes + piece.len() as u64);
            }
            Ok(None) => {
                assert!(checked.is_ok_and(|(_, bytes)| bytes == data_bytes));
                return;
            }
            Err(_) => return,
        }
    }
});
