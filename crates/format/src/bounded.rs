//! Text files of strangers, read whole without costing more than they can honestly hold.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pipe::SpliceFlags;

use crate::error::FormatError;
use crate::sniff;

/// The longest JSON document that is read. The largest profile with all its samples has a few dozen
/// MiB, an experiment of a thousand runs a few hundred.
pub const MAX_DOCUMENT_BYTES: u64 = 512 << 20;

/// The longest line of a run record. A run with the latencies of thirty kinds of operations has one of
/// them.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// The longest text that a person writes: a plan, a model, a list of files.
pub const MAX_TEXT_BYTES: u64 = 16 << 20;

/// What a JSON document may hold whatever its size, and of how many bytes each more of it must be, so
/// that memory stays in proportion to the file: a value costs up to 64 bytes, a list as much again, an
/// object up to a kilobyte. The shortest that are written in numbers are the pairs of a distribution.
const MOST: [(&str, u8, usize, usize); 3] = [
    ("values", b',', 8 << 20, 3),
    ("lists", b'[', 1 << 19, 6),
    ("objects", b'{', 1 << 19, 64),
];

/// How long somebody may take to begin to write to a pipe.
const WRITER_COMES_S: i64 = 3;

/// Opens a file, or a pipe that somebody writes to: of one where nobody comes to do so for some seconds, opening it would never
/// end.
///
/// # Errors
/// It cannot be opened; nobody writes to the pipe.
pub fn open(path: &Path) -> io::Result<File> {
    let is_pipe = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    if !is_pipe {
        return File::open(path);
    }
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let pipe = File::options()
        .read(true)
        .custom_flags(at_once)
        .open(path)?;
    let wait = Timespec {
        tv_sec: WRITER_COMES_S,
        tv_nsec: 0,
    };
    let came = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&wait))?;
    if came == 0 && !has_writer(&pipe)? {
        return Err(io::Error::other(
            "nobody writes to this pipe, expected a file or what a program writes",
        ));
    }
    // From here on each read waits for what is written next.
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe)
}

/// Whether somebody has an empty pipe open to write to it; takes nothing out of it.
fn has_writer(pipe: &File) -> io::Result<bool> {
    let (_other, to) = rustix::pipe::pipe()?;
    match rustix::pipe::tee(pipe, &to, 1, SpliceFlags::NONBLOCK) {
        Ok(copied) => Ok(copied > 0),
        Err(rustix::io::Errno::AGAIN) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Reads a text of at most `most` bytes. What its length says is not trusted: a device or a pipe has
/// none. What is no text by its first bytes is not read on.
///
/// # Errors
/// It cannot be read, is longer, or not `expected`.
pub fn read(path: &Path, most: u64, expected: &'static str) -> Result<Vec<u8>, FormatError> {
    read_if(path, most, expected, |begin| !begin.contains(&0))
}

/// Reads a text that a person writes, of at most [`MAX_TEXT_BYTES`].
///
/// # Errors
/// It cannot be read, is longer, no UTF-8, or not `expected`.
pub fn read_text(path: &Path, expected: &'static str) -> Result<String, FormatError> {
    String::from_utf8(read(path, MAX_TEXT_BYTES, expected)?).map_err(|error| {
        let place = format!("byte {}", error.utf8_error().valid_up_to());
        let problem = format!("it is no text (UTF-8), expected {expected}");
        FormatError::corrupt(path, place, problem)
    })
}

fn read_if(
    path: &Path,
    most: u64,
    expected: &'static str,
    fits: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, FormatError> {
    let failed = |e| FormatError::io("read", path, e);
    let file = open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut begin = (&file).take(sniff::ENOUGH);
    begin.read_to_end(&mut bytes).map_err(failed)?;
    if !fits(&bytes) {
        return Err(FormatError::WrongKind {
            path: path.to_owned(),
            found: sniff::other(path, &bytes),
            expected,
        });
    }
    let length = file.metadata().map_or(0, |about| about.len());
    if length <= most {
        let rest = (most + 1).saturating_sub(bytes.len() as u64);
        file.take(rest).read_to_end(&mut bytes).map_err(failed)?;
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

/// Reads a JSON document, an object, whose values can be held.
///
/// # Errors
/// As [`read`]; more values than any document has.
pub fn read_document(path: &Path, expected: &'static str) -> Result<Vec<u8>, FormatError> {
    let object = |begin: &[u8]| begin.trim_ascii_start().starts_with(b"{");
    let bytes = read_if(path, MAX_DOCUMENT_BYTES, expected, object)?;
    check_document(&bytes)
        .map_err(|problem| FormatError::corrupt(path, format!("{} bytes", bytes.len()), problem))?;
    Ok(bytes)
}

/// Whether the values of a JSON document can be held: two bytes can stand for a structure of a
/// kilobyte. Counts the signs that stand between values, those in texts too.
///
/// # Errors
/// More than any document of fsage has; says of what.
pub fn check_document(bytes: &[u8]) -> Result<(), String> {
    for (what, sign, least, share) in MOST {
        let most = least.max(bytes.len() / share);
        let found = bytes
            .iter()
            .fold(0_usize, |n, &b| n + usize::from(b == sign));
        if found > most {
            return Err(format!("about {found} {what}, expected at most {most}"));
        }
    }
    Ok(())
}
