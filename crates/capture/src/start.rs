//! Choosing a method and starting it.

use fsage_core::Pid;

use crate::CaptureError;
use crate::ebpf::EbpfBackend;
use crate::ptrace::{Launch, Ptrace};
use crate::raw::{Backend, RawEvent};
use crate::session::{CaptureRequest, Method, What};
use crate::spawn::Waiting;

/// A capture that runs.
pub(crate) enum Running {
    Ebpf(Box<EbpfBackend>, Option<Waiting>),
    Ptrace(Box<Ptrace>),
}

/// Why a method was taken.
#[derive(Debug, Clone)]
pub(crate) struct Reason {
    /// For who traces.
    pub said: String,
    /// With the error that led to it, for what is kept.
    pub whole: String,
}

impl From<&str> for Reason {
    fn from(said: &str) -> Self {
        Self {
            said: said.to_owned(),
            whole: said.to_owned(),
        }
    }
}

impl Reason {
    /// Why it is not eBPF.
    fn without_ebpf(why: &CaptureError) -> Self {
        let whole = format!("eBPF is not possible here: failed to {why}");
        // Who may do anything is told what the kernel said.
        let said = if is_root() {
            whole.clone()
        } else {
            "eBPF needs root".to_owned()
        };
        Self { said, whole }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A capture that is ready; what it watches stands still or is watched already.
pub(crate) struct Started {
    pub running: Running,
    pub reason: Reason,
    /// The processes that were there from the start.
    pub processes: Vec<Pid>,
    pub pid: Pid,
}

/// What is open, and where processes are, is found in /proc, whatever the method: where that is not mounted, or is another
/// PID namespace's, names would be missing or another process's.
fn processes_are_seen() -> Result<(), CaptureError> {
    let own = std::fs::read_link("/proc/self").unwrap_or_default();
    if own.as_os_str() == std::process::id().to_string().as_str() {
        return Ok(());
    }
    Err(CaptureError::Unsupported {
        what: "find processes in /proc: it does not show those of this PID namespace".to_owned(),
        hint: "mount proc on /proc".to_owned(),
    })
}

/// Starts by the method asked for.
pub(crate) fn start(request: &CaptureRequest) -> Result<Started, CaptureError> {
    processes_are_seen()?;
    match request.method {
        Method::Ebpf => ebpf(request, "as asked for".into()),
        Method::Ptrace => ptrace(request, "as asked for".into()),
        Method::Auto => match EbpfBackend::new(&request.buffers) {
            Ok(backend) => watch(request, backend, "this kernel and user may use it".into()),
            Err(why) => ptrace(request, Reason::without_ebpf(&why)),
        },
    }
}

fn ebpf(request: &CaptureRequest, reason: Reason) -> Result<Started, CaptureError> {
    watch(request, EbpfBackend::new(&request.buffers)?, reason)
}

fn watch(
    request: &CaptureRequest,
    mut backend: EbpfBackend,
    reason: Reason,
) -> Result<Started, CaptureError> {
    let (waiting, roots) = match &request.what {
        What::Command { argv, cwd, env } => {
            let waiting = Waiting::start(argv, cwd.as_deref(), env, request.output())?;
            let pid = waiting.pid();
            (Some(waiting), vec![pid])
        }
        What::Pids(pids) => (None, pids.clone()),
    };
    let processes = backend.watch(&roots)?;
    let pid = roots.first().copied().unwrap_or_default();
    Ok(Started {
        running: Running::Ebpf(Box::new(backend), waiting),
        reason,
        processes,
        pid,
    })
}

fn ptrace(request: &CaptureRequest, reason: Reason) -> Result<Started, CaptureError> {
    let backend = match &request.what {
        What::Command { argv, cwd, env } => {
            let (argv, cwd, env) = (argv.clone(), cwd.clone(), env.clone());
            Ptrace::launch(Launch {
                argv,
                cwd,
                env,
                // A filter cannot be taken back, and this command is to outlive its capture.
                detachable: request.limit.is_some(),
                output: Some(request.output()),
            })?
        }
        What::Pids(pids) => Ptrace::attach(pids)?,
    };
    let processes = backend.processes().to_vec();
    let pid = backend
        .command()
        .or(processes.first().copied())
        .unwrap_or_default();
    Ok(Started {
        running: Running::Ptrace(Box::new(backend)),
        reason,
        processes,
        pid,
    })
}

impl Running {
    /// Lets the command run.
    pub(crate) fn go(&mut self) -> Result<(), CaptureError> {
        match self {
            Self::Ebpf(_, Some(waiting)) => waiting.go(),
            _ => Ok(()),
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Ebpf(backend, _) => backend.method(),
            Self::Ptrace(backend) => backend.method(),
        }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        match self {
            Self::Ebpf(backend, _) => &**backend,
            Self::Ptrace(backend) => &**backend,
        }
    }

    pub(crate) fn pages_known(&self) -> bool {
        match self {
            Self::Ebpf(backend, _) => backend.pages_known(),
            Self::Ptrace(_) => false,
        }
    }

    pub(crate) fn poll(&mut self, take: &mut dyn FnMut(RawEvent)) -> Result<bool, CaptureError> {
        match self {
            Self::Ebpf(backend, _) => backend.poll(take),
            Self::Ptrace(backend) => backend.poll(take),
        }
    }

    /// Whether the command has ended while others that it started are watched on.
    pub(crate) fn outlives_command(&self) -> bool {
        match self {
            Self::Ebpf(..) => false,
            Self::Ptrace(backend) => backend.exit_status().is_some(),
        }
    }

    pub(crate) fn stop(&mut self) {
        match self {
            Self::Ebpf(backend, _) => backend.stop(),
            Self::Ptrace(backend) => backend.stop(),
        }
    }

    /// Whether what is watched can go on without its tracer.
    pub(crate) fn can_be_left(&self) -> bool {
        match self {
            Self::Ebpf(..) => true,
            Self::Ptrace(backend) => backend.is_detachable(),
        }
    }

    /// The command's exit status, if it has ended.
    pub(crate) fn exit_status(&mut self) -> Option<i32> {
        match self {
            Self::Ebpf(_, waiting) => waiting.as_mut().and_then(Waiting::exit_status),
            Self::Ptrace(backend) => backend.exit_status(),
        }
    }
}
