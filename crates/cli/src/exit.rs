//! Exit codes and how errors are told.

use std::process::ExitCode;

use fsage_capture::CaptureError;
use fsage_core::TargetError;
use fsage_experiment::engine::ExperimentError;
use fsage_experiment::profiling::ProfilingError;
use fsage_experiment::tracing::TracingError;
use fsage_format::whole::ReaderGone;
use fsage_host::HostError;

use crate::limits;

/// How fsage ends; documented in `fsage --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// It failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// Done, but something is missing.
    Incomplete,
    /// Interrupted; what was finished is kept.
    Interrupted,
    /// The traced command's own status.
    Status(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Incomplete => 3,
            Exit::Interrupted => fsage_host::signals::exit_code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(130),
            Exit::Status(status) => status,
        })
    }
}

/// An error of the user's making, found after parsing: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The user asked for the end before there was anything to keep.
#[derive(Debug, thiserror::Error)]
#[error("finish: interrupted")]
pub struct Interrupted;

/// Prints an error with its causes and, where there is one, a hint. That a reader has enough is no error.
pub fn report(error: &anyhow::Error) -> Exit {
    if error.chain().any(ReaderGone::is_cause) {
        return Exit::Done;
    }
    if matches!(error.downcast_ref(), Some(ExperimentError::Interrupted))
        || error.is::<Interrupted>()
        || is_stopped(error)
    {
        crate::ui::line("fsage: interrupted");
        return Exit::Interrupted;
    }
    if let Some(usage) = error.downcast_ref::<UsageError>() {
        crate::ui::lines(&format!("fsage: {usage}"));
        return Exit::Usage;
    }
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // Errors that already show their cause would say it twice.
        if !parts.last().is_some_and(|last| last.contains(&text)) {
            parts.push(text);
        }
    }
    let message = parts.join(": ");
    crate::ui::lines(&bounded(&format!("fsage: failed to {message}")));
    let hint = error.chain().find_map(hint);
    if let Some(hint) = hint.or_else(|| limits::hint(&message)) {
        crate::ui::line(&format!("hint: {hint}"));
    }
    Exit::Failed
}

/// A message as long as anybody reads: what a file holds may be told in it.
fn bounded(text: &str) -> String {
    const MOST: usize = 4000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => text[..end].to_owned() + "…",
        None => text.to_owned(),
    }
}

/// Tells what of fsage's own could not be removed: then not everything was done.
pub fn with_left(exit: Exit) -> Exit {
    let left = fsage_host::guard::left();
    for what in &left {
        crate::ui::lines(&format!("fsage: failed to {what}"));
    }
    match exit {
        Exit::Done if !left.is_empty() => Exit::Incomplete,
        exit => exit,
    }
}

/// Whether what was stopped by a signal says so in its own words, as copying an image does.
fn is_stopped(error: &anyhow::Error) -> bool {
    let is_its = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::Interrupted)
    };
    fsage_host::signals::exit_code().is_some() && error.chain().any(is_its)
}

/// What the user can do about it. Errors that are told as their cause hide it from the chain.
fn hint(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<ExperimentError>() {
        return match error {
            ExperimentError::Host(host) => host.hint(),
            ExperimentError::Target(target)
            | ExperimentError::Profiling {
                source: ProfilingError::Target(target),
                ..
            } => hint(target),
            ExperimentError::Tracing(tracing) => hint(tracing),
            _ => None,
        };
    }
    if let Some(TracingError::Capture(CaptureError::Unsupported { hint, .. })) =
        cause.downcast_ref()
    {
        return Some(hint.clone());
    }
    if let Some(ProfilingError::Target(target)) = cause.downcast_ref() {
        return hint(target);
    }
    if let Some(TargetError::Failed(source)) = cause.downcast_ref() {
        return hint(&**source);
    }
    cause.downcast_ref::<HostError>().and_then(HostError::hint)
}
