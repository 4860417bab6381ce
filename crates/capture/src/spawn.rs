//! A command that waits, before its program runs, until it is watched.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use fsage_core::Pid;
use rustix::fs::{Access, access};

use crate::CaptureError;

/// A child process between fork and exec, or after.
pub(crate) struct Waiting {
    pid: Pid,
    /// Closing or writing lets it go on.
    go: Option<File>,
    /// Says why exec failed; closed by one that succeeds.
    failure: File,
    command: String,
    ended: Option<i32>,
}

/// What the child needs, made before the fork: after it nothing may allocate.
struct Prepared {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    cwd: Option<CString>,
}

impl Waiting {
    /// Forks the command. Its program does not run before [`Waiting::go`]. What it writes to
    /// standard output and error goes to these descriptors.
    ///
    /// Errors: [`CaptureError::Command`] if there is no such program.
    pub(crate) fn start(
        argv: &[OsString],
        cwd: Option<&Path>,
        env: &[(OsString, OsString)],
        output: (RawFd, RawFd),
    ) -> Result<Self, CaptureError> {
        let name = argv.first().map_or(OsStr::new(""), OsString::as_os_str);
        let command = name.to_string_lossy().into_owned();
        let failed = |source| CaptureError::Command {
            command: command.clone(),
            source,
        };
        let prepared = prepare(name, argv, cwd, env).map_err(failed)?;
        let (go_read, go_write) = pipe().map_err(|e| CaptureError::io("make a pipe", e))?;
        let (failure_read, failure_write) =
            pipe().map_err(|e| CaptureError::io("make a pipe", e))?;
        let argv = pointers(&prepared.argv);
        let envp = pointers(&prepared.envp);
        // SAFETY: between fork and exec the child only makes system calls on memory that was
        // prepared before; that is safe also while other threads hold locks.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(CaptureError::io("fork", io::Error::last_os_error()));
        }
        if pid == 0 {
            // SAFETY: see above; the arrays end with a null pointer.
            unsafe {
                libc::close(go_write.as_raw_fd());
                // Whoever is asked to stop passes that on, also before the program runs.
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                let mut byte = 0u8;
                if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                    libc::_exit(125);
                }
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                // In this order: standard error may stand for both.
                libc::dup2(output.0, libc::STDOUT_FILENO);
                libc::dup2(output.1, libc::STDERR_FILENO);
                let entered = prepared
                    .cwd
                    .as_ref()
                    .is_none_or(|cwd| libc::chdir(cwd.as_ptr()) == 0);
                if entered {
                    libc::execve(prepared.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
                }
                let error = *libc::__errno_location();
                libc::write(failure_write.as_raw_fd(), (&raw const error).cast(), 4);
                libc::_exit(127);
            }
        }
        Ok(Self {
            pid: Pid(pid as u32),
            go: Some(File::from(go_write)),
            failure: File::from(failure_read),
            command,
            ended: None,
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Runs the program.
    pub(crate) fn go(&mut self) -> Result<(), CaptureError> {
        if let Some(mut pipe) = self.go.take() {
            match pipe.write_all(b"x") {
                // A signal has ended it before.
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.map_err(|e| CaptureError::io("start the command", e))?,
            }
        }
        let mut error = [0u8; 4];
        match self.failure.read_exact(&mut error) {
            Ok(()) => Err(CaptureError::Command {
                command: self.command.clone(),
                source: io::Error::from_raw_os_error(i32::from_ne_bytes(error)),
            }),
            Err(_) => Ok(()),
        }
    }

    /// Its exit status (128 + signal) if it has ended.
    pub(crate) fn exit_status(&mut self) -> Option<i32> {
        if self.ended.is_none() {
            let mut status = 0;
            // SAFETY: `status` is a place for an int; only this structure waits for the child.
            let got =
                unsafe { libc::waitpid(self.pid.0 as libc::pid_t, &raw mut status, libc::WNOHANG) };
            if got == self.pid.0 as libc::pid_t {
                self.ended = Some(crate::assemble::exit_status(status));
            }
        }
        self.ended
    }
}

impl Drop for Waiting {
    /// A command that was never let go ends; one that runs goes on.
    fn drop(&mut self) {
        if self.go.take().is_some() {
            // SAFETY: its pipe is closed, so it ends by itself at once.
            unsafe {
                libc::waitpid(self.pid.0 as libc::pid_t, std::ptr::null_mut(), 0);
            }
        }
    }
}

fn prepare(
    name: &OsStr,
    argv: &[OsString],
    cwd: Option<&Path>,
    env: &[(OsString, OsString)],
) -> io::Result<Prepared> {
    let c = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::other);
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    for (key, value) in env {
        variables.retain(|(known, _)| known != key);
        variables.push((key.clone(), value.clone()));
    }
    let join = |(key, value): &(OsString, OsString)| {
        let text = [key.as_bytes(), b"=", value.as_bytes()].concat();
        c(&OsString::from_vec(text))
    };
    Ok(Prepared {
        program: c(find(name, cwd)?.as_os_str())?,
        argv: argv.iter().map(|arg| c(arg)).collect::<io::Result<_>>()?,
        envp: variables.iter().map(join).collect::<io::Result<_>>()?,
        cwd: cwd.map(|cwd| c(cwd.as_os_str())).transpose()?,
    })
}

/// The program that execvp(3) would run, found without the failing calls that it makes.
fn find(name: &OsStr, cwd: Option<&Path>) -> io::Result<PathBuf> {
    let missing = || io::Error::from_raw_os_error(libc::ENOENT);
    if name.is_empty() {
        return Err(missing());
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut denied = false;
    for directory in std::env::split_paths(&path) {
        let candidate = cwd.unwrap_or(Path::new("")).join(directory).join(name);
        if candidate.is_file() {
            if access(&candidate, Access::EXEC_OK).is_ok() {
                return candidate.canonicalize().map(|_| candidate);
            }
            denied = true;
        }
    }
    Err(if denied {
        io::Error::from_raw_os_error(libc::EACCES)
    } else {
        missing()
    })
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts
        .iter()
        .map(|text| text.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors, which belong to nobody else.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}
