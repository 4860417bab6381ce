//! Sizes as people read them.

/// A number of bytes in the largest binary unit that divides it: `16 KiB`, `100 B`.
pub fn binary(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut at = 0;
    while at + 1 < units.len() && value > 0 && value.is_multiple_of(1024) {
        value /= 1024;
        at += 1;
    }
    format!("{value} {}", units.get(at).unwrap_or(&"B"))
}
