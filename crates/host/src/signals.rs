//! Being asked to stop.
#![allow(unsafe_code)]

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fsage_core::Clock;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGTERM};

use crate::{HostError, MonotonicClock, cleanup, pauses};

/// The signal that asked last; 0 if none did.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Whether a process sent the last signal, and not the terminal.
static SENT: AtomicBool = AtomicBool::new(false);

/// The child that the first signal is passed on to; 0 for none, negative for a process group.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// Whether the first signal has been passed on.
static PASSED: AtomicBool = AtomicBool::new(false);
/// Whether there is nothing yet that a signal would have to wait for.
static NOTHING_YET: AtomicBool = AtomicBool::new(false);
/// Whether a second signal is ending this process.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A process group that is still there so long after it was asked to end is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that come so soon after the first are the same request: of a terminal and of a supervisor.
const AT_ONCE_NS: u64 = 100_000_000;

/// What [`install`] returns.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The flag that a signal sets once [`install`] was called, for what is deep in a call that knows no other.
pub fn stop_flag() -> Arc<AtomicBool> {
    Arc::clone(STOP.get_or_init(Arc::default))
}

/// From now on SIGINT, SIGTERM and SIGHUP set the returned flag, for the caller to finish what it
/// has and return. A second signal (several at once are one request) undoes what is registered with
/// [`cleanup`] and exits with 128 + the signal's number. SIGCONT is counted for [`crate::pauses`]. Starts a thread: call [`crate::isolate`] before.
/// Children that [`std::process::Command`] starts get the default actions back.
pub fn install() -> Result<Arc<AtomicBool>, HostError> {
    let failed = |e: std::io::Error| HostError::io("watch for signals", e);
    let stop = stop_flag();
    let (mut wake, waker) = UnixStream::pair().map_err(failed)?;
    // The thread reads only whether there is something: no action waits for it.
    waker.set_nonblocking(true).map_err(failed)?;
    let waker = Arc::new(waker);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let (stop, waker) = (Arc::clone(&stop), Arc::clone(&waker));
        // One action: where each part had one of its own, a signal that came between their registrations was caught
        // and did nothing. The number and the flag are set before the thread wakes.
        let caught = move |about: &libc::siginfo_t| {
            SENT.store(about.si_code <= 0, Ordering::Relaxed);
            LAST.store(signal as usize, Ordering::SeqCst);
            stop.store(true, Ordering::SeqCst);
            let _ = rustix::io::write(&*waker, &[0]);
        };
        // SAFETY: the action stores to atomics and makes one system call, without errno, which a handler may.
        unsafe { signal_hook_registry::register_sigaction(signal, caught) }.map_err(failed)?;
    }
    // SAFETY: the action adds to an atomic, which is safe in a signal handler.
    unsafe { signal_hook_registry::register(SIGCONT, pauses::continued) }.map_err(failed)?;
    std::thread::Builder::new()
        .name("fsage-signals".into())
        .spawn(move || {
            let mut byte = [0];
            let mut first_ns = None;
            loop {
                match wake.read_exact(&mut byte) {
                    Ok(()) => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        kill_group();
                        continue;
                    }
                    Err(_) => return,
                }
                let now_ns = MonotonicClock.now_ns();
                let Some(first_ns) = first_ns else {
                    first_ns = Some(now_ns);
                    pass_on();
                    let _ = wake.set_read_timeout(Some(GRACE));
                    if NOTHING_YET.load(Ordering::SeqCst) {
                        end();
                    }
                    continue;
                };
                if now_ns.saturating_sub(first_ns) >= AT_ONCE_NS {
                    end();
                }
            }
        })
        .map_err(failed)?;
    Ok(stop)
}

fn end() -> ! {
    ENDING.store(true, Ordering::SeqCst);
    cleanup::run_all();
    std::process::exit(exit_code().unwrap_or(1));
}

/// Does what may take long and leaves nothing to be kept: meanwhile the first signal ends this process as a
/// second one does, and one that has come before does so now.
pub fn with_nothing_to_keep<T>(what: impl FnOnce() -> T) -> T {
    NOTHING_YET.store(true, Ordering::SeqCst);
    if exit_code().is_some() {
        end();
    }
    let done = what();
    NOTHING_YET.store(false, Ordering::SeqCst);
    done
}

/// Where a second signal is ending this process, does not return: what fails meanwhile fails because of that, and
/// is no reason of its own.
pub fn give_way() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// From now on a write beyond the limit of file sizes (`ulimit -f`) fails with `EFBIG`, as any other error,
/// and does not end the process. Programs that it starts have the default action.
pub fn survive_file_size_limit() -> Result<(), HostError> {
    // A handler and not SIG_IGN, which programs would inherit.
    signal_hook::flag::register(libc::SIGXFSZ, Arc::default())
        .map(drop)
        .map_err(|e| HostError::io("handle SIGXFSZ", e))
}

/// From now on the first signal that another process sends to this one alone goes to this child too;
/// `None` ends that. A terminal sends its signals to both, so those are not passed on.
pub fn forward_to(child: Option<u32>) {
    let child = child.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
    CHILD.store(child, Ordering::SeqCst);
    catch_up();
}

/// From now on the first signal goes to this process group too, whoever sent it, and SIGKILL some seconds later;
/// `None` ends that. For a child that has a group of its own, which the terminal's signals do not reach.
pub fn forward_to_group(leader: Option<u32>) {
    let leader = leader.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
    CHILD.store(-leader, Ordering::SeqCst);
    catch_up();
}

/// A signal that came before the child was there has not reached it, wherever it came from.
fn catch_up() {
    let child = CHILD.load(Ordering::SeqCst);
    let signal = LAST.load(Ordering::SeqCst);
    if child != 0 && signal != 0 && !PASSED.load(Ordering::SeqCst) {
        send(child, signal);
    }
}

fn pass_on() {
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        return;
    }
    PASSED.store(true, Ordering::SeqCst);
    if child < 0 || SENT.load(Ordering::Relaxed) {
        send(child, LAST.load(Ordering::SeqCst));
    }
}

/// Ends what does not heed the signal that was passed on to it.
fn kill_group() {
    let child = CHILD.load(Ordering::SeqCst);
    if child < 0 {
        send(child, SIGKILL as usize);
    }
}

fn send(child: i32, signal: usize) {
    // SAFETY: kill only takes numbers; a child or group that is gone gives ESRCH.
    unsafe {
        libc::kill(child, signal as libc::c_int);
    }
}

/// The exit code that says by which signal fsage was asked to stop; `None` if it was not.
pub fn exit_code() -> Option<i32> {
    let signal = LAST.load(Ordering::Relaxed) as i32;
    (signal != 0).then_some(128 + signal)
}
