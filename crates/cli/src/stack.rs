//! What computes needs more of a stack than a shell may leave it (`ulimit -s`).

use std::panic::resume_unwind;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};

/// A stack that is enough.
const BYTES: usize = 8 << 20;

/// Does `work` in a thread with a stack of its own where this one's may be too small.
pub fn with_enough<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_none_or(|bytes| bytes >= BYTES as u64) {
        return Ok(work());
    }
    let thread = std::thread::Builder::new().stack_size(BYTES).spawn(work);
    let done = thread.context("start a thread with a stack of 8 MiB")?;
    Ok(done.join().unwrap_or_else(|panic| resume_unwind(panic)))
}
