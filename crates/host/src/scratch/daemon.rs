//! Programs beside this one that serve a disk or a file system, and are told what to do line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::HostError;

/// What a daemon says on stdout once it serves.
const READY: &str = "ready";

/// How often an ending daemon is looked at, and how long it may take before it is killed.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: u32 = 1000;

/// A program that calls [`obey`], and its first arguments.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    arguments: &'static [&'static str],
}

impl Program {
    /// The program of that file.
    pub fn of(path: PathBuf, arguments: &'static [&'static str]) -> Self {
        Self { path, arguments }
    }

    /// This program itself.
    pub fn this(arguments: &'static [&'static str]) -> Result<Self, HostError> {
        let path = std::env::current_exe()
            .map_err(|e| HostError::io("find this program's own file", e))?;
        Ok(Self::of(path, arguments))
    }

    /// How it is started; more arguments may follow.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.arguments);
        command
    }
}

/// A daemon that this process started. It ends with this process, however that ends, because the pipe to
/// it closes.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// `None` once it is let go.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Daemon {
    /// Starts a program that calls [`obey`], and waits until it serves. `what` names it in errors, as
    /// "the daemon of an emulated disk". Signals of the terminal do not reach it: this process takes it
    /// down after what stands on it.
    pub fn start(command: &mut Command, what: &str) -> Result<Self, HostError> {
        let failed = |e| HostError::io(format!("start {what}"), e);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut daemon = Self {
            child,
            orders: Some(orders),
            answers: BufReader::new(answers),
        };
        match daemon.answer() {
            Ok(line) if line == READY => return Ok(daemon),
            // It is no such program, and need not end by itself.
            Ok(_) => drop(daemon.child.kill()),
            Err(_) => {}
        }
        let why = daemon.last_words();
        Err(HostError::Refused {
            what: format!("start {what}"),
            why: if why.is_empty() { "it ended" } else { &why }.to_owned(),
        })
    }

    /// What it wrote to stderr, once it is ending.
    fn last_words(&mut self) -> String {
        let mut why = Vec::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            // What it has started may hold the pipe.
            let _ = rustix::io::ioctl_fionbio(&*stderr, true);
            let _ = stderr.take(4096).read_to_end(&mut why);
        }
        let why = String::from_utf8_lossy(&why);
        let why = why.trim().trim_start_matches("fsage: failed to ");
        why.to_owned()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order and waits for the answer, one line each. Fails if it has ended.
    pub fn ask(&mut self, order: &str) -> std::io::Result<String> {
        let orders = self.orders.as_mut();
        let orders = orders.ok_or(std::io::ErrorKind::NotConnected)?;
        writeln!(orders, "{order}")?;
        orders.flush()?;
        self.answer()
    }

    /// How it has ended, for errors; that it does not answer if it has not.
    pub fn end_in_words(&mut self) -> String {
        // A process that was killed is seen as ended a moment after its pipe is.
        for _ in 0..PATIENCE {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(status)) => {
                    let said = self.last_words();
                    let said = said
                        .lines()
                        .next()
                        .map_or(String::new(), |s| format!(": {s}"));
                    return format!("the process that served it has ended ({status}){said}");
                }
                Err(_) => break,
            }
        }
        "the process that serves it does not answer".into()
    }

    fn answer(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Daemon {
    /// Lets go of it and waits for its end.
    fn drop(&mut self) {
        drop(self.orders.take());
        for _ in 0..PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon's side: says that it serves, then answers each order with what `act` returns, until the
/// process that started it is gone or lets go.
pub fn obey(
    orders: &mut dyn BufRead,
    answers: &mut dyn Write,
    act: &mut dyn FnMut(&str) -> String,
) -> std::io::Result<()> {
    let mut say = |text: &str| writeln!(answers, "{text}").and_then(|()| answers.flush());
    say(READY)?;
    let mut line = String::new();
    loop {
        line.clear();
        // Its end, however it came about, is the end of this process too.
        if orders.read_line(&mut line).unwrap_or(0) == 0 {
            return Ok(());
        }
        say(&act(line.trim()))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_answered_until_the_pipe_closes() {
        let mut said = Vec::new();
        let mut act = |order: &str| format!("did {order}");
        obey(&mut &b"one\ntwo\n"[..], &mut said, &mut act).unwrap();
        assert_eq!(said, b"ready\ndid one\ndid two\n");
    }

    #[test]
    fn a_daemon_answers_and_goes_when_it_is_let_go() {
        let script = "echo ready; while read x; do echo \"$x!\"; done";
        let mut daemon = Daemon::start(Command::new("sh").args(["-c", script]), "a shell").unwrap();
        assert_eq!(daemon.ask("hello").unwrap(), "hello!");
        let process = format!("/proc/{}", daemon.id());
        drop(daemon);
        assert!(!std::path::Path::new(&process).exists());
    }

    #[test]
    fn one_that_ends_at_once_is_said_with_its_own_words() {
        let start = |script: &str| {
            let error = Daemon::start(Command::new("sh").args(["-c", script]), "a shell");
            error.unwrap_err().to_string()
        };
        assert_eq!(start("exit 1"), "start a shell: it ended");
        // A program that serves nothing and goes on all the same.
        assert_eq!(
            start("echo hello; exec sleep 1000"),
            "start a shell: it ended"
        );
        let words = "echo 'fsage: failed to find the disk' >&2; exit 1";
        assert_eq!(start(words), "start a shell: find the disk");
    }
}
