//! A command of the user's as a workload.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use fsage_core::Clock;
use fsage_exec::ChildUsage;
use fsage_format::result::run::CommandRun;
use fsage_host::{MonotonicClock, signals};

/// Runs `text` by sh in `dir`. What it prints goes to stderr: stdout is for results. The first signal
/// that asks this process to stop ends the command too.
pub fn run(text: &str, dir: &Path) -> std::io::Result<CommandRun> {
    let stdout = std::io::stderr().as_fd().try_clone_to_owned()?;
    let before = ChildUsage::now();
    let start_ns = MonotonicClock.now_ns();
    let mut child = Command::new("/bin/sh")
        .args(["-c", text])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()?;
    signals::forward_to(Some(child.id()));
    let status = child.wait();
    signals::forward_to(None);
    let elapsed_ns = MonotonicClock.now_ns().saturating_sub(start_ns);
    let (status, used) = (status?, ChildUsage::now().since(&before));
    Ok(CommandRun {
        command: text.to_string(),
        exit_status: status.code(),
        exit_signal: status.signal(),
        elapsed_ns,
        user_ns: used.user_ns,
        system_ns: used.system_ns,
        max_resident_bytes: used.max_resident_bytes,
        device_read_bytes: used.device_read_bytes,
        device_written_bytes: used.device_written_bytes,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
    })
}
