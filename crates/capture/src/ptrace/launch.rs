//! Starting a command under the tracer.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsage_core::{Pid, Tid};

use super::shared::{Order, Shared};
use super::tracer::{EVENT_STOP, OPTIONS, Tracer, stopped};
use super::{filter, sys};
use crate::CaptureError;

/// A command to trace.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The command and its arguments; the command is looked for in `PATH` if it has no slash.
    pub argv: Vec<OsString>,
    /// Where it runs; the current directory if `None`.
    pub cwd: Option<PathBuf>,
    /// Added to the current environment.
    pub env: Vec<(OsString, OsString)>,
    /// Stop at every call instead of installing a filter. Slower, but
    /// [`stop`](crate::raw::Backend::stop) then leaves the command running untraced.
    pub detachable: bool,
    /// Where what the command writes to standard output and error goes, if not there.
    pub output: Option<(RawFd, RawFd)>,
}

/// Everything the child needs, made before the fork: after it, only async-signal-safe calls.
struct Prepared {
    task: Task,
    filter: Option<Vec<libc::sock_filter>>,
    go: OwnedFd,
    report: OwnedFd,
}

/// What the child becomes.
enum Task {
    Command {
        program: CString,
        argv: Vec<*const libc::c_char>,
        envp: Vec<*const libc::c_char>,
        cwd: Option<CString>,
        output: Option<(RawFd, RawFd)>,
    },
    /// Makes so many calls that do nothing.
    Probe(u32),
}

/// Enough to see the least in a few milliseconds.
const PROBE_CALLS: u32 = 200;

/// What the child could not do, as it says it on its pipe: the step and the error number.
const STEP_CWD: i32 = 1;
const STEP_FILTER: i32 = 2;
const STEP_EXEC: i32 = 3;

impl Tracer {
    /// Starts the command and returns once its own program is loaded, and held there.
    pub fn launch(&mut self, launch: &Launch) -> Result<Pid, CaptureError> {
        let command = launch.argv.first().ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "no command was given");
            CaptureError::Command {
                command: String::new(),
                source,
            }
        })?;
        let failed = |source| CaptureError::Command {
            command: command.to_string_lossy().into_owned(),
            source,
        };
        let program = resolve(command, launch).map_err(failed)?;
        let strings = Strings::new(launch).map_err(failed)?;
        let pipes = || -> io::Result<_> { Ok((pipe()?, pipe()?)) };
        let ((go_read, go), (report_read, report)) =
            pipes().map_err(|e| CaptureError::io("make a pipe", e))?;
        let task = Task::Command {
            program,
            argv: pointers(&strings.argv),
            envp: pointers(&strings.envp),
            cwd: strings.cwd.clone(),
            output: launch.output,
        };
        let child = Prepared {
            task,
            filter: self.filtered.then(filter::program),
            go: go_read,
            report,
        };
        let pid = fork(&child, go.as_raw_fd()).map_err(|e| CaptureError::io("fork", e))?;
        drop(child);
        self.root = Some(pid);
        self.recording = false;
        if let Err(error) = self.start(pid, &go) {
            sys::kill(pid);
            while !matches!(sys::wait(true), Ok(sys::Waited::NoneLeft) | Err(_)) {}
            return Err(CaptureError::io(
                format!("trace {}", command.to_string_lossy()),
                error,
            ));
        }
        if self.until_executed(pid)? {
            return Ok(pid);
        }
        Err(failure(report_read, command, launch))
    }

    /// Traces a child that makes calls which do nothing, for the first estimate of the stops' cost.
    pub fn measure_stop_cost(&self) -> Result<(), CaptureError> {
        let failed = |error| CaptureError::io("measure the cost of a stop", error);
        let shared = Arc::new(Shared::new());
        let mut probe = Tracer::new(Arc::clone(&shared), self.filtered);
        let (go_read, go) = pipe().map_err(failed)?;
        // Nobody reads the report: without a filter there are no events, and no estimate.
        let (_, report) = pipe().map_err(failed)?;
        let filter = self.filtered.then(filter::program);
        let child = Prepared {
            task: Task::Probe(PROBE_CALLS),
            filter,
            go: go_read,
            report,
        };
        let pid = fork(&child, go.as_raw_fd()).map_err(failed)?;
        drop(child);
        if let Err(error) = probe.start(pid, &go) {
            sys::kill(pid);
            while !matches!(sys::wait(true), Ok(sys::Waited::NoneLeft) | Err(_)) {}
            return Err(failed(error));
        }
        shared.advance(Order::Run);
        probe.run()?;
        self.shared.stop_cost_ns(shared.stop_cost_ns(u64::MAX));
        Ok(())
    }

    /// Seizes the child, which waits for a byte on `go`.
    fn start(&mut self, pid: Pid, go: &OwnedFd) -> io::Result<()> {
        let tid = Tid(pid.0);
        // A program under a filter is killed with its tracer: without one its calls give ENOSYS.
        let life = if self.filtered {
            libc::PTRACE_O_EXITKILL
        } else {
            0
        };
        sys::seize(tid, OPTIONS | life)?;
        self.add(tid, pid);
        if !self.filtered {
            sys::interrupt(tid)?;
            loop {
                if let sys::Waited::Status(stop, status) = sys::wait(true)? {
                    self.handle(stop, status);
                    if stopped(status).is_none_or(|(_, event)| event == EVENT_STOP) {
                        break;
                    }
                }
            }
        }
        rustix::io::write(go, b"x")?;
        Ok(())
    }

    /// Handles the child's stops up to its exec (`true`) or its end.
    fn until_executed(&mut self, pid: Pid) -> Result<bool, CaptureError> {
        loop {
            let waited =
                sys::wait(true).map_err(|e| CaptureError::io("wait for the command", e))?;
            match waited {
                sys::Waited::Status(tid, status) => {
                    let event = stopped(status).map(|(_, event)| event);
                    if event == Some(libc::PTRACE_EVENT_EXEC) && tid.0 == pid.0 {
                        self.held.push((tid, status, sys::now_ns()));
                        return Ok(true);
                    }
                    self.handle(tid, status);
                }
                sys::Waited::Nothing => {}
                sys::Waited::NoneLeft => return Ok(false),
            }
        }
    }
}

/// Why the child never became the command.
fn failure(report: OwnedFd, command: &OsStr, launch: &Launch) -> CaptureError {
    let mut said = [0u8; 8];
    let read = std::fs::File::from(report).read_exact(&mut said);
    let number = |half: usize| {
        let bytes = said
            .get(half * 4..half * 4 + 4)
            .and_then(|b| b.try_into().ok());
        bytes.map_or(0, i32::from_ne_bytes)
    };
    let command = command.to_string_lossy().into_owned();
    if read.is_err() {
        let source = io::Error::other("it was killed before it began");
        return CaptureError::Command { command, source };
    }
    let source = io::Error::from_raw_os_error(number(1));
    match number(0) {
        STEP_CWD => {
            let cwd = launch.cwd.as_deref().unwrap_or(Path::new("."));
            CaptureError::io(format!("enter {}", cwd.display()), source)
        }
        STEP_FILTER => CaptureError::Unsupported {
            what: format!("install a seccomp filter: {source}"),
            hint: "the kernel needs CONFIG_SECCOMP_FILTER, and a container must allow seccomp(2)"
                .into(),
        },
        _ => CaptureError::Command { command, source },
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    io::pipe().map(|(read, write)| (read.into(), write.into()))
}

struct Strings {
    argv: Vec<CString>,
    envp: Vec<CString>,
    cwd: Option<CString>,
}

impl Strings {
    fn new(launch: &Launch) -> io::Result<Self> {
        let text = |words: Vec<u8>| CString::new(words).map_err(io::Error::from);
        let argv = launch
            .argv
            .iter()
            .map(|word| text(word.as_bytes().to_vec()));
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        environment.extend(launch.env.iter().cloned());
        let envp = environment.into_iter().map(|(name, value)| {
            let mut entry = name.into_vec();
            entry.push(b'=');
            entry.extend(value.into_vec());
            text(entry)
        });
        Ok(Self {
            argv: argv.collect::<io::Result<_>>()?,
            envp: envp.collect::<io::Result<_>>()?,
            cwd: match &launch.cwd {
                Some(cwd) => Some(text(cwd.as_os_str().as_bytes().to_vec())?),
                None => None,
            },
        })
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Looks a command up in `PATH` as execvp(3) does; what it finds is run from the new directory.
fn resolve(command: &OsStr, launch: &Launch) -> io::Result<CString> {
    let text = |path: &OsStr| CString::new(path.as_bytes()).map_err(io::Error::from);
    if command.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if command.as_bytes().contains(&b'/') {
        return text(command);
    }
    let own = launch.env.iter().rev().find(|(name, _)| name == "PATH");
    let path = own
        .map(|(_, value)| value.clone())
        .or_else(|| std::env::var_os("PATH"));
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let start = launch.cwd.clone().unwrap_or_default();
    let mut denied = false;
    for directory in std::env::split_paths(&path) {
        let candidate = directory.join(command);
        let seen = start.join(&candidate);
        if !seen.is_file() {
            continue;
        }
        if rustix::fs::access(&seen, rustix::fs::Access::EXEC_OK).is_ok() {
            return text(candidate.as_os_str());
        }
        denied = true;
    }
    let kind = if denied { libc::EACCES } else { libc::ENOENT };
    Err(io::Error::from_raw_os_error(kind))
}

fn fork(child: &Prepared, go_write: RawFd) -> io::Result<Pid> {
    // SAFETY: the child calls only async-signal-safe functions on memory made before the fork.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: this is the child.
        0 => unsafe { become_command(child, go_write) },
        pid => Ok(Pid(pid as u32)),
    }
}

/// The child's part, from the fork to the exec.
///
/// # Safety
/// Must run in a child just forked.
unsafe fn become_command(child: &Prepared, go_write: RawFd) -> ! {
    // SAFETY: only async-signal-safe calls, on pointers into `child` and the stack.
    unsafe {
        // As std::process does: the tracing thread blocks signals and Rust ignores SIGPIPE, which
        // the command must not inherit.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // Its own copy would keep the pipe open after the tracer's death.
        libc::close(go_write);
        let mut byte = 0u8;
        if read_byte(child.go.as_raw_fd(), &mut byte) != 1 {
            libc::_exit(127);
        }
        if let Task::Command { cwd: Some(cwd), .. } = &child.task
            && libc::chdir(cwd.as_ptr()) != 0
        {
            give_up(child, STEP_CWD);
        }
        if let Some(filter) = &child.filter
            && !install(filter)
        {
            give_up(child, STEP_FILTER);
        }
        match &child.task {
            Task::Command {
                program,
                argv,
                envp,
                output,
                ..
            } => {
                if let Some((output, error)) = output {
                    libc::dup2(*output, libc::STDOUT_FILENO);
                    libc::dup2(*error, libc::STDERR_FILENO);
                }
                libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
            }
            Task::Probe(calls) => {
                for _ in 0..*calls {
                    libc::close(-1);
                }
                libc::_exit(0);
            }
        }
        give_up(child, STEP_EXEC)
    }
}

unsafe fn read_byte(fd: RawFd, byte: &mut u8) -> isize {
    loop {
        // SAFETY: one byte is read to a place of one byte; errno is this thread's own.
        let got = unsafe { libc::read(fd, std::ptr::from_mut(byte).cast(), 1) };
        // SAFETY: as above.
        if got != -1 || unsafe { *libc::__errno_location() } != libc::EINTR {
            return got;
        }
    }
}

/// Installs the filter; without CAP_SYS_ADMIN only a program that can gain no privileges may.
unsafe fn install(filter: &[libc::sock_filter]) -> bool {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which outlives the calls.
    unsafe {
        let set = || {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            ) == 0
        };
        set() || (libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && set())
    }
}

unsafe fn give_up(child: &Prepared, step: i32) -> ! {
    // SAFETY: errno is this thread's own; eight bytes are written from eight bytes.
    unsafe {
        let said = [step, *libc::__errno_location()];
        libc::write(child.report.as_raw_fd(), said.as_ptr().cast(), 8);
        libc::_exit(127)
    }
}
