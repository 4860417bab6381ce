//! Text files of strangers, read whole without costing more than they can honestly hold.

use std::io::Read;
use std::path::Path;

use crate::error::FormatError;

/// The longest JSON document or run record that is read. The largest profile with all its samples
/// has a few dozen MiB.
pub const MAX_DOCUMENT_BYTES: u64 = 256 << 20;

/// The longest text that a person writes: a plan, a model, a list of files.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Values in a JSON document; each costs up to 64 bytes.
const MAX_VALUES: usize = 8 << 20;

/// Objects and lists in a JSON document; each costs up to a kilobyte.
const MAX_STRUCTURES: usize = 1 << 19;

/// Reads a file of at most `most` bytes. What its length says is not trusted: a device or a pipe has
/// none.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, FormatError> {
    let file = std::fs::File::open(path).map_err(|e| FormatError::io("read", path, e))?;
    let mut bytes = Vec::new();
    let length = file.metadata().map_or(0, |about| about.len());
    if length <= most {
        file.take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| FormatError::io("read", path, e))?;
        if bytes.len() as u64 <= most {
            return Ok(bytes);
        }
    }
    Err(FormatError::corrupt(
        path,
        format!("byte {most}"),
        format!("it goes on, expected at most {most} bytes"),
    ))
}

/// Reads a text of at most [`MAX_TEXT_BYTES`].
///
/// # Errors
/// As [`read`]; bytes that are not UTF-8.
pub fn read_text(path: &Path) -> Result<String, FormatError> {
    String::from_utf8(read(path, MAX_TEXT_BYTES)?).map_err(|e| {
        let place = format!("byte {}", e.utf8_error().valid_up_to());
        FormatError::corrupt(path, place, "not UTF-8, expected text")
    })
}

/// Reads a JSON document, or JSON lines, whose values can be held.
///
/// # Errors
/// As [`read`]; more values than any document has.
pub fn read_document(path: &Path) -> Result<Vec<u8>, FormatError> {
    let bytes = read(path, MAX_DOCUMENT_BYTES)?;
    check_document(path, &bytes)?;
    Ok(bytes)
}

/// Whether the values of a JSON document can be held: two bytes can stand for a structure of a
/// kilobyte. Counts the signs that stand between values, those in texts too.
///
/// # Errors
/// More than any document of fsage has.
pub fn check_document(path: &Path, bytes: &[u8]) -> Result<(), FormatError> {
    let (mut values, mut structures) = (0, 0);
    for &byte in bytes {
        values += usize::from(byte == b',');
        structures += usize::from(byte == b'{' || byte == b'[');
    }
    for (what, found, most) in [
        ("values", values, MAX_VALUES),
        ("objects and lists", structures, MAX_STRUCTURES),
    ] {
        if found > most {
            return Err(FormatError::corrupt(
                path,
                format!("{} bytes", bytes.len()),
                format!("about {found} {what}, expected at most {most}"),
            ));
        }
    }
    Ok(())
}
