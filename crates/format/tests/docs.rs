//! The reference pages are what the code says. `FSAGE_WRITE=1 cargo test -p fsage-format` writes
//! them anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

fn check(path: &Path, text: &str) {
    if std::env::var_os("FSAGE_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == text,
        "{} is out of date: FSAGE_WRITE=1 writes it anew",
        path.display()
    );
}

#[test]
fn the_page_of_the_formats_is_up_to_date() {
    check(
        &reference().join("formats.md"),
        &fsage_format::docs::formats_page(),
    );
}
