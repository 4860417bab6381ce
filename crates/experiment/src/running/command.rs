//! A command of the user's as a workload.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fsage_core::{Clock, Target};
use fsage_format::result::run::CommandRun;
use fsage_host::MonotonicClock;
use fsage_host::delay::ExitWatch;
use fsage_host::descendants::{Descendants, Running};
use fsage_host::guard::stand_in;
use fsage_host::observe::{Usage, Whose};

use super::direct;

/// How often what serves a target is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Runs `text` in `dir`, by sh unless it needs none. What it prints goes to stderr: stdout is for results. The first signal
/// that asks this process to stop goes to the command and its children too, and they do not outlive this
/// process. They end also when what serves `target` has died: a command may never notice.
pub fn run(text: &str, dir: &Path, target: &dyn Target) -> std::io::Result<CommandRun> {
    let stdout = std::io::stderr().as_fd().try_clone_to_owned()?;
    run_with(text, (dir, target), stdout.into(), Stdio::inherit())
}

/// The same of a command that is run again and again: what it prints goes nowhere. Returns the last line
/// that it wrote to stderr beside the result.
pub fn run_quietly(
    text: &str,
    dir: &Path,
    target: &dyn Target,
) -> std::io::Result<(CommandRun, String)> {
    let mut said = aside()?;
    let run = run_with(text, (dir, target), Stdio::null(), said.try_clone()?.into())?;
    Ok((run, last_line(&mut said)))
}

/// A file for what a command says, in memory: what is measured should not meet it on a device.
pub(crate) fn aside() -> std::io::Result<File> {
    let said = rustix::fs::memfd_create("fsage-stderr", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(said))
}

/// What was said last in a file.
pub(crate) fn last_line(said: &mut File) -> String {
    let mut bytes = Vec::new();
    // Without its words an error still says how the command ended. No more is read than a line may be long.
    let end = said.seek(SeekFrom::End(0));
    let begun = end.and_then(|end| said.seek(SeekFrom::Start(end.saturating_sub(4096))));
    drop(begun.and_then(|_| said.read_to_end(&mut bytes)));
    let text = String::from_utf8_lossy(&bytes);
    text.lines().last().unwrap_or_default().trim().to_owned()
}

fn run_with(
    text: &str,
    (dir, target): (&Path, &dyn Target),
    stdout: Stdio,
    stderr: Stdio,
) -> std::io::Result<CommandRun> {
    let descendants = Descendants::ready();
    let exits = ExitWatch::start();
    let before = Usage::of(Whose::Children);
    let shell = || ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    let words = direct::words_of(text).unwrap_or_else(shell);
    let (program, arguments) = words.split_first().unzip();
    let mut command = Command::new(program.map_or("", String::as_str));
    command.args(arguments.unwrap_or_default());
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    stand_in(&mut command, dir).map_err(std::io::Error::other)?;
    let mut running = descendants.start(&mut command)?;
    let status = wait(&mut running, target);
    let began = running.began();
    let elapsed_ns = MonotonicClock.now_ns().saturating_sub(began.at_ns);
    let delay = exits.and_then(|exits| exits.finish(running.id()));
    let used = Usage::of(Whose::Children).since(&before.and(&began.used));
    let status = status?;
    let left_running = running.left();
    running.done();
    Ok(CommandRun {
        command: text.to_string(),
        exit_status: status.code(),
        exit_signal: status.signal(),
        elapsed_ns,
        user_ns: used.user_ns,
        system_ns: used.system_ns,
        // What it waited before its clock ran is none of its own.
        run_delay_ns: delay.map(|d| d.ns.saturating_sub(began.waited_ns)),
        threads: delay.map(|d| d.threads),
        max_resident_bytes: delay
            .map(|d| d.max_resident_bytes)
            .filter(|bytes| *bytes > 0)
            .or_else(|| largest(&used, &before)),
        device_read_bytes: used.device_read_bytes,
        device_written_bytes: used.device_written_bytes,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
        left_running,
    })
}

/// What a reader must know of what a command left running, if it did.
pub fn left(run: &CommandRun) -> Option<String> {
    let left = run.left_running.as_ref()?;
    Some(format!(
        "the command ended and left {left} running: what that does is not in the result, and its directory may be gone"
    ))
}

/// The largest resident size by getrusage(2), which counts earlier children, and what this process had when it became the
/// command: known where it is more than both.
fn largest(used: &Usage, before: &Usage) -> Option<u64> {
    let own = Usage::of(Whose::Process).max_resident_bytes;
    let bytes = used.max_resident_bytes;
    (bytes > before.max_resident_bytes.max(own)).then_some(bytes)
}

/// The end of a command; if what serves the target has died, of all that it started.
fn wait(running: &mut Running, target: &dyn Target) -> std::io::Result<ExitStatus> {
    // Asked of every target: what has died already has nothing else to tell.
    if let Some(ends) = running.end() {
        while !ends.within(LOOK) {
            if target.served().is_err() {
                running.kill();
                break;
            }
        }
    }
    running.wait()
}

/// What a command used.
pub fn usage(run: &CommandRun) -> Usage {
    Usage {
        user_ns: run.user_ns,
        system_ns: run.system_ns,
        max_resident_bytes: run.max_resident_bytes.unwrap_or_default(),
        device_read_bytes: run.device_read_bytes,
        device_written_bytes: run.device_written_bytes,
        minor_faults: run.minor_faults,
        major_faults: run.major_faults,
        voluntary_switches: run.voluntary_switches,
        involuntary_switches: run.involuntary_switches,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fsage_core::{FileSystem, FsOptions, Root, TargetError};

    use super::*;

    /// What served it has died before anybody asked.
    #[derive(Debug)]
    struct Dead;

    impl Root for Dead {
        fn file_system(&self, _options: FsOptions) -> Result<Arc<dyn FileSystem>, TargetError> {
            self.served()
                .and(Err(TargetError::refused("open it", "a test")))
        }
    }

    impl Target for Dead {
        fn is_temporary(&self) -> bool {
            true
        }

        fn served(&self) -> Result<(), TargetError> {
            Err(TargetError::refused("use it", "its server has ended"))
        }

        fn close(self: Box<Self>) -> Result<(), TargetError> {
            Ok(())
        }
    }

    #[test]
    fn a_command_ends_although_its_target_died_as_it_began() {
        let dir = tempfile::tempdir().unwrap();
        let ran = run("while :; do sleep 1; done", dir.path(), &Dead).unwrap();
        assert_eq!((ran.exit_status, ran.exit_signal), (None, Some(9)));
    }
}
