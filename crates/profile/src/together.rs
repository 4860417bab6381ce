//! Streams of calls at once: each on a thread of its own, or, where time is computed, all on this one in
//! the order of time.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use fsage_core::{Demand, Errno, FileSystem, VirtualTime};

/// What a stream does after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next one.
    Step,
    /// Nothing before this time of the target's clock.
    At(u64),
    /// It has ended; its last call was made by an earlier step.
    End,
}

/// One stream: makes a call or a few at each step.
pub(crate) type Stream<'s> = Box<dyn FnMut() -> Result<Next, Errno> + Send + 's>;

/// The longest sleep: what a stream waits for may be over before.
const SLEEP: Duration = Duration::from_millis(1);

/// Runs all, from a common start; the times at which each started and ended.
pub(crate) fn at_once(
    fs: &dyn FileSystem,
    streams: Vec<Stream<'_>>,
) -> Vec<Result<(u64, u64), Errno>> {
    if let Some(time) = fs.virtual_time() {
        return in_order(fs, time, streams);
    }
    let barrier = Barrier::new(streams.len());
    let gate = Gate::default();
    let one = |mut stream: Stream<'_>| {
        gate.wait()?;
        barrier.wait();
        let start = fs.clock().now_ns();
        loop {
            match stream()? {
                Next::Step => {}
                Next::At(then_ns) => {
                    let left_ns = then_ns.saturating_sub(fs.clock().now_ns());
                    thread::sleep(Duration::from_nanos(left_ns).min(SLEEP));
                }
                Next::End => return Ok((start, fs.clock().now_ns())),
            }
        }
    };
    thread::scope(|scope| {
        let one = &one;
        let start = |s| thread::Builder::new().spawn_scoped(scope, move || one(s));
        let running: Vec<_> = streams.into_iter().map(start).collect();
        let missing = running.iter().find_map(|t| t.as_ref().err().map(no_thread));
        gate.open(missing.map_or(Ok(()), Err));
        let ended = running.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or(Err(Errno::EIO)),
            Err(error) => Err(no_thread(&error)),
        });
        ended.collect()
    })
}

/// What the machine says where it starts no thread.
pub(crate) fn no_thread(error: &std::io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(Errno::EAGAIN.0))
}

/// Where streams wait until it is known that all are there, or what keeps one away: others would wait for it forever.
#[derive(Default)]
struct Gate(OnceLock<Result<(), Errno>>);

impl Gate {
    fn wait(&self) -> Result<(), Errno> {
        *self.0.wait()
    }

    fn open(&self, all: Result<(), Errno>) {
        let _ = self.0.set(all);
    }
}

/// A stream whose time is computed.
struct Running<'s> {
    stream: Stream<'s>,
    at_ns: u64,
    /// What its last step waits for, the next first.
    demands: std::vec::IntoIter<Demand>,
    ended: Option<Result<(), Errno>>,
}

/// The earliest goes on; of two at one time the first.
fn in_order(
    fs: &dyn FileSystem,
    time: &dyn VirtualTime,
    streams: Vec<Stream<'_>>,
) -> Vec<Result<(u64, u64), Errno>> {
    let start_ns = fs.clock().now_ns();
    let mut all: Vec<Running<'_>> = streams
        .into_iter()
        .map(|stream| Running {
            stream,
            at_ns: start_ns,
            demands: Vec::new().into_iter(),
            ended: None,
        })
        .collect();
    while let Some(one) = (all.iter_mut())
        .filter(|one| one.ended.is_none())
        .min_by_key(|one| one.at_ns)
    {
        match one.demands.next() {
            Some(Demand::Compute(ns)) => one.at_ns = one.at_ns.saturating_add(ns),
            Some(Demand::Serve(number)) => one.at_ns = time.serve(number, one.at_ns),
            None => {
                time.begin(one.at_ns);
                let next = (one.stream)();
                let mut demands = Vec::new();
                time.end(&mut demands);
                one.demands = demands.into_iter();
                match next {
                    Ok(Next::Step) => {}
                    Ok(Next::At(then_ns)) => one.at_ns = one.at_ns.max(then_ns),
                    Ok(Next::End) => one.ended = Some(Ok(())),
                    Err(errno) => one.ended = Some(Err(errno)),
                }
            }
        }
    }
    let end_ns = all.iter().map(|one| one.at_ns).max().unwrap_or(start_ns);
    time.rest_until(end_ns);
    all.into_iter()
        .map(|one| one.ended.unwrap_or(Ok(())).map(|()| (start_ns, one.at_ns)))
        .collect()
}
