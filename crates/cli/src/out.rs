//! Stdout: data only, complete or not at all. Nothing that a terminal would act on gets out.
//!
//! A reader who closes it has what was wanted. A result is done all the same, and its verb ends as it would have; what
//! comes piece by piece ends there, with an error that [`crate::exit::report`] knows to be none.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_format::result::{Document, Printed};
use fsage_format::whole::{ReaderGone, Whole};
use fsage_report::plain;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::exit::{Interrupted, UsageError};

/// Stdout could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write to stdout: {0}")]
pub struct OutError(#[source] pub std::io::Error);

/// Fails where stdout was closed when fsage began: the runtime has made it `/dev/null` since, which takes everything.
pub fn must_be_open() -> Result<(), OutError> {
    if fsage_host::stdout::was_closed() {
        return Err(OutError(std::io::Error::other("it is closed")));
    }
    Ok(())
}

const STDOUT: &str = "/dev/stdout";

/// Where a result goes besides what is shown: the file, and whether stdout is to have it as JSON, and nothing
/// else. `-` is stdout.
pub fn places(output: Option<&Path>, json: bool) -> (Option<&Path>, bool) {
    let to_stdout = output == Some(Path::new("-"));
    (output.filter(|_| !to_stdout), json || to_stdout)
}

/// The file of bytes that a verb writes, once it can be written without waiting: `-` is stdout, which can have
/// nothing else then, and a pipe without a reader is waited for until `stop`.
pub fn file(output: &Path, json: bool, stop: &AtomicBool) -> anyhow::Result<PathBuf> {
    if output != Path::new("-") {
        wait_for_reader(output, stop)?;
        return Ok(output.to_owned());
    }
    if json {
        return Err(UsageError(
            "--json prints the summary where - writes the data: give one of them".into(),
        )
        .into());
    }
    must_be_open()?;
    if std::io::stdout().is_terminal() {
        return Err(UsageError(
            "- is stdout, and stdout is a terminal: expected a file or a pipe".into(),
        )
        .into());
    }
    Ok(PathBuf::from(STDOUT))
}

/// What a file that a verb writes is called in messages.
pub fn shown(output: &Path) -> std::path::Display<'_> {
    let name = if output == Path::new("-") {
        Path::new("stdout")
    } else {
        output
    };
    name.display()
}

/// A directory of results, which is no stream.
pub fn directory(output: Option<&Path>) -> Result<(), UsageError> {
    match output {
        Some(dir) if dir == Path::new("-") => Err(UsageError(
            "-o is a directory here, and - none; its result goes to stdout with --json".into(),
        )),
        _ => Ok(()),
    }
}

/// How often it is looked whether a pipe has a reader.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An open for writing would wait for a reader whatever signals come. What this opens stays open, so that the
/// next one finds what it found.
pub fn wait_for_reader(output: &Path, stop: &AtomicBool) -> Result<(), Interrupted> {
    if !std::fs::metadata(output).is_ok_and(|about| about.file_type().is_fifo()) {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    loop {
        match rustix::fs::open(output, flags, Mode::empty()) {
            Err(Errno::NXIO) if stop.load(Ordering::Relaxed) => return Err(Interrupted),
            Err(Errno::NXIO) => std::thread::sleep(LOOK_EVERY),
            // What is wrong with it is told by who writes.
            opened => {
                std::mem::forget(opened);
                return Ok(());
            }
        }
    }
}

/// Stdout for a file's own bytes, where `-o -` asks for them.
pub fn data() -> Result<impl Write, OutError> {
    must_be_open()?;
    Whole::create(Path::new(STDOUT)).map_err(OutError)
}

/// Writes a page. What is not printable is written out, whatever file it came from.
pub fn text(text: &str) -> Result<(), OutError> {
    enough(page(text))
}

/// The same with a page of which others follow: fails where nobody reads them.
pub fn page(text: &str) -> Result<(), OutError> {
    raw(&plain::lines(text))
}

/// Whoever reads no further has what was wanted of a result.
fn enough(written: Result<(), OutError>) -> Result<(), OutError> {
    match written {
        Err(OutError(error)) if ReaderGone::is_cause(&error) => Ok(()),
        other => other,
    }
}

/// Writes a document that has the fields `format` and `version` as indented JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut body = serde_json::to_string_pretty(value)?;
    body.push('\n');
    Ok(enough(json_lines(&body))?)
}

/// The same in one line, for what is large.
pub fn compact<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let body = serde_json::to_string(value)? + "\n";
    Ok(enough(json_lines(&body))?)
}

/// Writes JSON that is text already, ending with a line feed, of which more may follow: fails where nobody reads it.
pub fn json_lines(body: &str) -> Result<(), OutError> {
    raw(&plain::json(body))
}

fn raw(text: &str) -> Result<(), OutError> {
    must_be_open()?;
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| OutError(ReaderGone::named(error)))
}

/// Writes a document with the fields `format` and `version` before its own.
pub fn document<T: Serialize + Document>(body: &T) -> anyhow::Result<()> {
    json(&Printed::new(body))
}

/// The width that tables on stdout may have: what COLUMNS says, else the terminal's, also behind a pager; 100 characters
/// where there is none.
pub fn width() -> u16 {
    let asked = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    // Shells that know no width say 0.
    asked
        .filter(|&columns| columns > 0)
        .or_else(|| columns(std::io::stdout()))
        .or_else(|| columns(std::io::stderr()))
        .or_else(|| columns(std::fs::File::open("/dev/tty").ok()?))
        .unwrap_or(100)
}

/// How many lines the terminal has that stdout is; `None` where it is none.
pub fn lines() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_row).filter(|&lines| lines > 0)
}

/// The columns of a terminal; `None` if it is none.
pub fn columns(terminal: impl AsFd) -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(size.ws_col).filter(|&columns| columns > 0)
}
