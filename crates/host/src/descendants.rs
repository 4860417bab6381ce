//! A command of the user's with everything that it starts: what of it is left when this process is killed
//! is killed too.
//!
//! The command itself asks the kernel for that. For its children a shell waits beside this process, as for
//! directories: it kills the command's process group, and the control group that holds what has left that.
//! When this process is asked to stop, the command's children end with it in the same way, wherever they have
//! gone. Where no control group may be made, a pipe that they inherit marks them instead.

#![allow(unsafe_code)]

mod began;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fsage_core::Clock;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::guard::Afterwards;
use crate::{MonotonicClock, processes, signals};

pub use began::Began;

/// Kills the group and the control group that it was told last, unless it was told that they are done with.
/// The control group is removed once it is empty. A mark stands for one where there is none, and `none` for the
/// process group before there is a command.
const KILL: &str = "while read -r leader dir; do group=$leader place=$dir; done; \
    [ \"$group\" = done ] || [ -z \"$group\" ] || { \
    [ \"$group\" = none ] || kill -KILL -- \"-$group\"; \
    case $place in \
    pipe:*) for again in 1 2 3; do for process in /proc/[0-9]*; do \
    [ \"$(readlink \"$process/fd/63\")\" = \"$place\" ] && kill -KILL \"${process#/proc/}\"; done; done;; \
    ?*) echo 1 > \"$place/cgroup.kill\"; \
    for wait in 1 2 3 4 5 6 7 8 9; do rmdir \"$place\" && break; sleep 0.1; done;; esac; }";

/// The descriptor that a mark has in marked processes: out of the way of theirs, within the kernel's smallest
/// table.
const MARK: libc::c_int = 63;

/// Shells that wait and have nothing to kill now. They end with this process.
static WAITING: Mutex<Vec<Afterwards>> = Mutex::new(Vec::new());

/// What the name of a control group begins with.
pub(crate) const PREFIX: &str = "fsage-";

/// Where the kernel shows control groups of version 2: alone, or beside those of version 1.
pub(crate) const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Distinguishes the control groups of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How often and how long is waited for a control group to become empty.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 50;

/// Starts commands; made before time is taken.
#[derive(Debug)]
pub struct Descendants {
    /// `None` where no shell could be started: then only the command itself ends with this process.
    shell: Option<Afterwards>,
    place: Option<ControlGroup>,
    /// In place of a control group.
    mark: Option<Mark>,
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    began: Began,
    descendants: Descendants,
}

impl Descendants {
    /// Gets ready for one command.
    pub fn ready() -> Self {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let shell = waiting.pop();
        drop(waiting);
        let mut shell = shell.or_else(|| Afterwards::reported(KILL, Vec::new()).ok());
        // Without the shell nobody would remove it after a kill, which may come before there is a command.
        let place = shell.as_mut().and_then(|shell| {
            ControlGroup::make(&mut |dir| tell(shell, &format!("none {}\n", dir.display())))
        });
        let mark = place.is_none().then(Mark::make).flatten();
        Self { shell, place, mark }
    }

    /// For a command that something else starts in this process: [`Descendants::take_in`] it before it runs its program.
    pub fn ready_for_another() -> Self {
        let mut descendants = Self::ready();
        if let Some(mark) = &mut descendants.mark {
            mark.lend();
            let line = format!("none {}\n", mark.name);
            descendants.tell(&line);
        }
        descendants
    }

    /// Takes in a process with all that it will start. Its starter passes signals on to it.
    pub fn take_in(&self, process: u32) {
        if let Some(place) = &self.place {
            // Where that is refused, only the command itself ends with this process.
            drop((&place.joins).write_all(process.to_string().as_bytes()));
        }
    }

    /// Starts it, in a process group of its own; signals that ask this process to stop are passed on to all
    /// of that.
    pub fn start(mut self, command: &mut Command) -> std::io::Result<Running> {
        let joins = self.place.as_ref().map(|place| place.joins.as_raw_fd());
        let mark = self.mark.as_ref().map(|mark| mark.pipe.as_raw_fd());
        let parent = std::process::id();
        let note = began::Note::new().map(Arc::new);
        let began = note.clone();
        // SAFETY: prctl, getppid, write, dup2, getrusage and clock_gettime are async-signal-safe, and the
        // descriptors outlive the spawn.
        unsafe {
            command.process_group(0).pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // This process may have ended before that.
                if libc::getppid() as u32 != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                if let Some(joins) = joins {
                    // Where that is refused, the process group is what can be killed.
                    libc::write(joins, c"0".as_ptr().cast(), 1);
                }
                if let Some(mark) = mark {
                    // Where there may not be so many descriptors, likewise.
                    libc::dup2(mark, MARK);
                }
                if let Some(began) = &began {
                    began.write();
                }
                Ok(())
            });
        }
        // Where the process cannot tell, it is taken to have begun before it was made.
        let made = Began {
            at_ns: MonotonicClock.now_ns(),
            ..Began::default()
        };
        let child = command.spawn()?;
        let began = note.and_then(|note| note.read()).unwrap_or(made);
        let place = self.place.as_ref().map(|p| p.dir.display().to_string());
        let place = place.or_else(|| self.mark.as_ref().map(|mark| mark.name.clone()));
        self.tell(&format!("{} {}\n", child.id(), place.unwrap_or_default()));
        signals::forward_to_group(Some(child.id()));
        Ok(Running {
            child,
            began,
            descendants: self,
        })
    }

    /// Kills what has left the command's process group.
    fn end_all(&self) {
        if let Some(place) = &self.place {
            drop(std::fs::write(place.dir.join("cgroup.kill"), "1"));
        }
        let Some(mark) = &self.mark else { return };
        // Whoever is killed may just have started another.
        for _ in 0..LOOKS {
            let marked = mark.processes();
            if marked.is_empty() {
                return;
            }
            for process in marked {
                let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tell(&mut self, line: &str) {
        if let Some(shell) = &mut self.shell {
            tell(shell, line);
        }
    }
}

fn tell(shell: &mut Afterwards, line: &str) {
    if let Some(pipe) = shell.pipe() {
        // A shell that somebody killed kills nothing.
        drop(pipe.write_all(line.as_bytes()));
    }
}

/// Something that a command inherits and does not use: who has it is of the command's family, wherever it has gone.
#[derive(Debug)]
struct Mark {
    /// Nobody writes to it.
    pipe: OwnedFd,
    /// What the kernel calls it, as `pipe:[4711]`.
    name: String,
    /// This process has it too, for what it starts to inherit.
    lent: bool,
}

impl Mark {
    fn make() -> Option<Self> {
        let (pipe, _) = std::io::pipe().ok()?;
        let pipe = OwnedFd::from(pipe);
        let link = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        let name = std::fs::read_link(link).ok()?.to_str()?.to_owned();
        let lent = false;
        Some(Self { pipe, name, lent })
    }

    fn lend(&mut self) {
        // SAFETY: fcntl and dup2 take numbers; the descriptor is taken only where nothing has it.
        unsafe {
            self.lent = libc::fcntl(MARK, libc::F_GETFD) == -1
                && libc::dup2(self.pipe.as_raw_fd(), MARK) == MARK;
        }
    }

    /// Gives it back: who has it from now on is of the command's.
    fn take_back(&mut self) {
        if std::mem::take(&mut self.lent) {
            // SAFETY: `lend` has made it, and nobody else knows of it.
            unsafe { libc::close(MARK) };
        }
    }

    fn processes(&self) -> Vec<u32> {
        let has = |pid: u32| {
            let link = format!("/proc/{pid}/fd/{MARK}");
            std::fs::read_link(link).is_ok_and(|to| to == Path::new(&self.name))
        };
        let all = processes::all().into_iter();
        all.filter(|p| p.lives && has(p.pid))
            .map(|p| p.pid)
            .collect()
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        signals::forward_to_group(None);
        if let Some(mark) = &mut self.mark {
            mark.take_back();
        }
        if signals::exit_code().is_some() {
            self.end_all();
        }
        drop(self.place.take());
        self.tell("done\n");
        if let Some(shell) = self.shell.take() {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(shell);
        }
    }
}

/// The end of a command that runs.
#[derive(Debug)]
pub struct End(OwnedFd);

impl End {
    /// Whether it has come, or comes within that time.
    pub fn within(&self, time: Duration) -> bool {
        let time = Timespec::try_from(time).ok();
        let mut ends = [PollFd::new(&self.0, PollFlags::IN)];
        // Interrupted, it is asked again.
        rustix::event::poll(&mut ends, time.as_ref()).is_ok_and(|n| n > 0)
    }
}

impl Running {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// When the program began, with everything that had to be done before.
    pub fn began(&self) -> Began {
        self.began
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }

    /// What tells of its end; `None` where the kernel has no such thing.
    pub fn end(&self) -> Option<End> {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(End)
    }

    /// How it ended; `None` if it has not.
    pub fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills all of it.
    pub fn kill(&mut self) {
        if let Some(group) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.descendants.end_all();
    }

    /// One of the processes that it started and that still run, in words, where they can be told from others'.
    pub fn left(&self) -> Option<String> {
        let lives = |&pid: &u32| processes::of(pid).is_some_and(|process| process.lives);
        let left = match (&self.descendants.place, &self.descendants.mark) {
            (Some(place), _) => place.processes(),
            (None, Some(mark)) => mark.processes(),
            (None, None) => return None,
        };
        left.into_iter().find(lives).map(processes::in_words)
    }

    /// Lets go of what the command needed while it ran. What it has left running goes on, unless this
    /// process was asked to stop.
    pub fn done(self) {
        drop(self.descendants);
    }
}

/// A control group of this process's own.
#[derive(Debug)]
struct ControlGroup {
    dir: PathBuf,
    joins: File,
}

impl ControlGroup {
    /// Below the one that holds this process; `None` where the kernel has none or none may be made.
    /// `announce` is told of its place before it is there.
    fn make(announce: &mut dyn FnMut(&Path)) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let hierarchies = HIERARCHIES.iter().map(|base| Path::new(base).join(own));
        for parent in hierarchies.filter(|dir| dir.join("cgroup.procs").exists()) {
            let dir = parent.join(&name);
            announce(&dir);
            if std::fs::create_dir(&dir).is_err() {
                continue;
            }
            let joins = File::options().write(true).open(dir.join("cgroup.procs"));
            // Without the means to end all of it, it would be of no use.
            match joins.ok().filter(|_| dir.join("cgroup.kill").exists()) {
                Some(joins) => {
                    // For others to see that it has an owner.
                    let _ = rustix::fs::flock(&joins, FlockOperation::NonBlockingLockShared);
                    return Some(Self { dir, joins });
                }
                None => drop(std::fs::remove_dir(&dir)),
            }
        }
        None
    }
}

impl ControlGroup {
    fn processes(&self) -> Vec<u32> {
        let all = std::fs::read_to_string(self.dir.join("cgroup.procs"));
        let all = all.unwrap_or_default();
        all.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for ControlGroup {
    /// What still runs in it goes to where this process is.
    fn drop(&mut self) {
        for _ in 0..LOOKS {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            let parent = self.dir.with_file_name("cgroup.procs");
            for process in self.processes() {
                drop(std::fs::write(&parent, process.to_string()));
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_command_runs_and_its_status_is_reported() {
        let mut running = Descendants::ready().start(&mut sh("exit 3")).unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(3));
        let place = running.descendants.place.as_ref().map(|p| p.dir.clone());
        running.done();
        assert!(place.is_none_or(|dir| !dir.exists()));
        assert!(
            Descendants::ready()
                .start(&mut Command::new("/no/such/program"))
                .is_err()
        );
    }

    #[test]
    fn the_clock_starts_when_the_program_does() {
        let mut command = sh("exit 0");
        // Stands for what may block before: it is done ahead of what `start` adds.
        // SAFETY: nanosleep is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                let pause = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 300_000_000,
                };
                libc::nanosleep(&raw const pause, std::ptr::null_mut());
                Ok(())
            });
        }
        let before_ns = MonotonicClock.now_ns();
        let mut running = Descendants::ready().start(&mut command).unwrap();
        let began = running.began();
        assert!(running.wait().unwrap().success());
        assert!(began.at_ns - before_ns >= 300_000_000, "{began:?}");
        assert!(began.at_ns <= MonotonicClock.now_ns());
        assert!(began.used.minor_faults > 0, "of the fork: {began:?}");
        let counted = std::fs::read_to_string("/proc/self/schedstat").is_ok();
        // Whoever slept has been made ready again, which takes some time always.
        assert!(!counted || began.waited_ns > 0, "{began:?}");
        assert!(began.waited_ns <= began.at_ns - before_ns, "{began:?}");
        running.done();
    }

    #[test]
    fn without_a_control_group_a_mark_reaches_what_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let left = format!(
            "setsid sh -c 'echo $$ > {0}; exec sleep 99' & until test -s {0}; do sleep 0.01; done",
            pid.display()
        );
        let mut descendants = Descendants::ready();
        drop(descendants.place.take());
        descendants.mark = Mark::make();
        let mut running = descendants.start(&mut sh(&left)).unwrap();
        assert!(running.wait().unwrap().success());
        let process: u32 = std::fs::read_to_string(&pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let marked = || running.descendants.mark.as_ref().unwrap().processes();
        assert!(marked().contains(&process));
        running.descendants.end_all();
        assert!(marked().is_empty());
        running.done();
    }

    #[test]
    fn what_another_starts_is_taken_in() {
        let descendants = Descendants::ready_for_another();
        if descendants.place.is_none() {
            fsage_testing::not_run("needs a control group");
            return;
        }
        let mut other = sh("exec sleep 99").spawn().unwrap();
        descendants.take_in(other.id());
        descendants.end_all();
        other.wait().unwrap();
    }

    #[test]
    fn what_a_command_leaves_running_goes_on_and_a_kill_ends_all() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let left = format!(
            "setsid sh -c 'echo $$ > {0}; exec sleep 99' & until test -s {0}; do sleep 0.01; done",
            pid.display()
        );
        let mut running = Descendants::ready().start(&mut sh(&left)).unwrap();
        assert!(running.wait().unwrap().success());
        let place = running.descendants.place.as_ref().map(|p| p.dir.clone());
        let process = std::fs::read_to_string(&pid).unwrap();
        let there = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
            stat.is_ok_and(|s| !s.contains(") Z"))
        };
        assert!(there());
        // Only a control group reaches what has made a session of its own.
        let reached = place.is_some();
        if reached {
            running.kill();
            for _ in 0..500 {
                if !there() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!there());
        }
        running.done();
        assert!(place.is_none_or(|dir| !dir.exists()));
        if !reached {
            let number = process.trim().parse().ok().and_then(Pid::from_raw).unwrap();
            rustix::process::kill_process(number, Signal::KILL).unwrap();
        }
    }
}
