//! Memory that transfers go through.

/// Enough for every device.
const DIRECT_ALIGNMENT: usize = 4096;

/// So many bytes that begin where `O_DIRECT` wants it.
pub fn aligned(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if length > 0 && buffer.len() < length + DIRECT_ALIGNMENT {
        buffer.resize(length + DIRECT_ALIGNMENT, 0);
    }
    let at = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT);
    buffer
        .get_mut(at..at.saturating_add(length))
        .unwrap_or_default()
}

/// What is written, in memory that begins where it must: past the page cache it is copied there first.
pub fn placed<'a>(piece: &'a [u8], copy: &'a mut [u8], direct: bool) -> &'a [u8] {
    match copy.get_mut(..piece.len()).filter(|_| direct) {
        Some(copy) => {
            copy.copy_from_slice(piece);
            copy
        }
        None => piece,
    }
}
