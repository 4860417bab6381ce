//! Why a capture could not be made.

use std::io;

/// A capture failed; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A system call or file of the tracer's own failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, as a phrase ("read /proc/1/stat").
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// This machine cannot do it.
    #[error("{what}")]
    Unsupported {
        /// What was attempted and is not possible, as a phrase.
        what: String,
        /// What the user can do about it.
        hint: String,
    },
    /// The command to trace could not be run.
    #[error("run {command}: {source}")]
    Command {
        /// The command's first word.
        command: String,
        /// Why: not found, permission denied, …
        source: io::Error,
    },
    /// What takes the operations could not take more.
    #[error("keep the captured operations: {0}")]
    Sink(#[from] fsage_core::SinkError),
}

impl CaptureError {
    /// An [`CaptureError::Io`] from what was attempted and why it failed.
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            what: what.into(),
            source,
        }
    }
}
