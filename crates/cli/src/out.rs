//! Stdout: data only, complete or not at all.

use std::io::Write;
use std::path::Path;

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

/// Writes text.
pub fn text(text: &str) -> Result<(), OutError> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(OutError)
}

/// Writes a value as indented JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut body = serde_json::to_string_pretty(value)?;
    body.push('\n');
    Ok(text(&body)?)
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
