//! What happens in the directory of a run before it is measured.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_host::HostError;
use fsage_host::descendants::{Descendants, Running};

use super::ValidateError;
use crate::running::command::{aside, last_line};

/// How often a command is asked whether it has ended.
const EVERY: Duration = Duration::from_millis(5);

/// A command of the user's, for `sh`.
pub(crate) fn shell(text: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", text].map(OsString::from).to_vec()
}

/// Runs what prepares a directory, untraced. Its stdout is no data of ours and goes nowhere; what it
/// said last is part of the error. When fsage is asked to stop, it ends with all that it started.
pub(crate) fn run_setup(
    (workload, target): (&str, &str),
    argv: Vec<OsString>,
    dir: &Path,
    stop: &AtomicBool,
) -> Result<(), ValidateError> {
    let failed = |why: String| {
        ValidateError::Failed(format!("run the setup of `{workload}` on {target}: {why}"))
    };
    let mut argv = argv.into_iter();
    let program = argv.next().unwrap_or_default();
    // A pipe could fill up while nobody reads it.
    let mut said = aside().map_err(|e| HostError::io("make a temporary file", e))?;
    let stderr = said
        .try_clone()
        .map_err(|e| HostError::io("use a temporary file", e))?;
    let mut command = Command::new(program);
    command
        .args(argv)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    fsage_host::guard::stand_in(&mut command, dir)?;
    let running = Descendants::ready().start(&mut command);
    let mut running = running.map_err(|e| failed(e.to_string()))?;
    let status = wait(&mut running, stop).map_err(|e| failed(e.to_string()))?;
    running.done();
    let Some(status) = status else {
        return Err(ValidateError::Interrupted);
    };
    if status.success() {
        return Ok(());
    }
    let last = last_line(&mut said);
    let last = last.strip_prefix("fsage: failed to ").unwrap_or(&last);
    Err(failed(format!("{status} {last}")))
}

/// The end of a command, or `None` if it was ended because of `stop`.
fn wait(running: &mut Running, stop: &AtomicBool) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = running.try_wait()? {
            return Ok((!stop.load(Ordering::Relaxed)).then_some(status));
        }
        if stop.load(Ordering::Relaxed) {
            running.kill();
            running.wait()?;
            return Ok(None);
        }
        std::thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(text: &str, stop: bool) -> Result<(), ValidateError> {
        let dir = tempfile::tempdir().unwrap();
        run_setup(("w", "t"), shell(text), dir.path(), &AtomicBool::new(stop))
    }

    #[test]
    fn a_setup_runs_and_its_last_words_are_kept() {
        setup("echo x > file && test -s file", false).unwrap();
        let error = setup("echo first >&2; echo last words >&2; exit 4", false).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(": 4") && error.contains("last words"),
            "{error}"
        );
        assert!(
            error.contains("`w` on t") && !error.contains("first"),
            "{error}"
        );
        // More than a pipe holds.
        setup("head -c 1000000 /dev/zero >&2", false).unwrap();
    }

    #[test]
    fn a_setup_ends_when_asked_to() {
        let error = setup("sleep 600 & sleep 600", true).unwrap_err();
        assert!(matches!(error, ValidateError::Interrupted), "{error}");
    }
}
