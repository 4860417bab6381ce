//! Stdout: data only, complete or not at all. Nothing that a terminal would act on gets out.

use std::io::Write;
use std::path::Path;

use fsage_format::result::{Document, Printed};
use fsage_report::plain;
use serde::Serialize;

/// Stdout could not be written.
#[derive(Debug, thiserror::Error)]
#[error("write to stdout: {0}")]
pub struct OutError(pub std::io::Error);

/// Where a result goes besides what is shown: the file, and whether stdout is to have it as JSON, and nothing
/// else. `-` is stdout.
pub fn places(output: Option<&Path>, json: bool) -> (Option<&Path>, bool) {
    let to_stdout = output == Some(Path::new("-"));
    (output.filter(|_| !to_stdout), json || to_stdout)
}

/// Stdout for a file's own bytes, where `-o -` asks for them.
pub fn data() -> impl Write {
    std::io::stdout().lock()
}

/// Writes a page. What is not printable is written out, whatever file it came from.
pub fn text(text: &str) -> Result<(), OutError> {
    raw(&plain::lines(text))
}

/// Writes a document that has the fields `format` and `version` as indented JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut body = serde_json::to_string_pretty(value)?;
    body.push('\n');
    Ok(json_lines(&body)?)
}

/// Writes JSON that is text already, ending with a line feed.
pub fn json_lines(body: &str) -> Result<(), OutError> {
    raw(&plain::json(body))
}

fn raw(text: &str) -> Result<(), OutError> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(OutError)
}

/// Writes a document with the fields `format` and `version` before its own.
pub fn document<T: Serialize + Document>(body: &T) -> anyhow::Result<()> {
    json(&Printed::new(body))
}

/// The width that tables on stdout may have: the terminal's, 100 characters where there is none.
pub fn width() -> u16 {
    if let Some(columns) = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()) {
        return columns;
    }
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|&columns| columns > 0)
        .unwrap_or(100)
}
