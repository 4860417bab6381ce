//! The one engine of all experiments: their steps in one order, each kept as it ends.
//!
//! A `Verb` says what its steps are, how one is made and, in the end, what is said of all. Here is the rest,
//! once: which step is next (`order`), how long the others take (`pace`), the directory with its lock and its
//! record (`record`), and what happens after a failure or when fsage is to stop (`carry_out`).

mod error;
mod order;
mod pace;
pub(crate) mod record;

pub use error::ExperimentError;
pub use record::record_path;

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::Clock;
use fsage_format::FormatError;
use fsage_format::record::RecordWriter;
use fsage_host::MonotonicClock;
use fsage_host::resident::Resident;
use serde::Serialize;

use crate::one_cpu::OneCpu;
use order::next;
use pace::Pace;
pub use pace::Rest;

/// How far an experiment is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Steps that are done.
    pub done: u64,
    /// Steps that there will be, as far as can be told now.
    pub expected: u64,
    /// What is done now.
    pub what: String,
    /// How long the rest takes from now on; `None` until steps of its sorts have ended.
    pub rest: Option<Rest>,
}

/// Steps that repeat one another: the runs of a configuration, the profiles of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Series {
    /// Steps that were made, well or not.
    pub attempts: u32,
    /// Steps that are still to be made, as far as can be told now; 0 if there are enough.
    pub wanted: u32,
    /// How long those that were made took by the machine's clock, nanoseconds; 0 where that is not known.
    pub took_ns: u64,
    /// What others that may take equally long are called too, from the closest likeness to the loosest.
    pub like: Vec<String>,
}

/// What an experiment consists of.
pub(crate) trait Verb {
    /// A line of the record.
    type Entry: Serialize;
    /// Why a step gave no result.
    type Failure;

    /// Everything that is to be made, always in the same order.
    fn series(&self) -> Vec<Series>;

    /// What the next step of a series is called.
    fn describe(&self, series: usize) -> String;

    /// Makes the next step of a series: what the record is to hold of it.
    fn make(&mut self, series: usize, with: With<'_>) -> Result<Vec<Self::Entry>, Self::Failure>;

    /// What the record is to hold of a step that failed after so long.
    fn failed(&self, series: usize, failure: &Self::Failure, took_ns: u64) -> Self::Entry;

    /// Takes what the record holds, be it from now or from before.
    fn take(&mut self, entry: Self::Entry) -> Result<(), FormatError>;

    /// How long steps may still take in all, nanoseconds; `None` for as long as they do.
    fn left_ns(&self) -> Option<u64> {
        None
    }
}

/// What a step is made with.
pub(crate) struct With<'a> {
    /// Is told what is done.
    pub detail: &'a mut dyn FnMut(&str),
    /// Where what is measured is kept.
    pub one_cpu: Option<&'a OneCpu>,
    /// Ends the step.
    pub stop: &'a AtomicBool,
}

/// How an experiment is carried out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    /// Where the order of steps starts.
    pub seed: u64,
    /// Whether a step that fails is passed over.
    pub keep_going: bool,
    /// The CPU to which what is measured is kept.
    pub cpu: Option<usize>,
    /// Whether memory is taken from the hypervisor before steps, so that none waits for it.
    pub resident: bool,
    /// Ends it; the step that is being made is lost.
    pub stop: &'a AtomicBool,
}

/// Why no more steps are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended<F> {
    /// There are enough.
    Done,
    /// Time is over.
    OutOfTime,
    /// It was stopped.
    Interrupted,
    /// A step failed.
    AfterFailure(F),
}

/// Whether anything is to be made.
pub(crate) fn has_more(verb: &impl Verb) -> bool {
    verb.series().iter().any(|series| series.wanted > 0) && verb.left_ns() != Some(0)
}

/// How long memory that was taken stays in the pieces in which it was left, nanoseconds: the kernel brings pages together
/// now and then. Taking it before each of 24 steps made none faster, and took half of their time.
const AT_HAND_NS: u64 = 60_000_000_000;

/// Sees to it that memory is there. What was taken before goes when the new one is there.
fn keep_at_hand(resident: &mut Option<(Resident, u64)>) {
    let now_ns = MonotonicClock.now_ns();
    if resident
        .as_ref()
        .is_none_or(|(_, taken_ns)| now_ns.saturating_sub(*taken_ns) >= AT_HAND_NS)
    {
        *resident = Resident::take()
            .map(|taken| (taken, now_ns))
            .or(resident.take());
    }
}

/// Makes every step that is to be made. Each is on stable storage before the next one begins, so that an
/// error, an interruption or a kill loses at most the one that is being made.
pub(crate) fn carry_out<V: Verb>(
    verb: &mut V,
    record: &mut RecordWriter,
    how: How<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Ended<V::Failure>, FormatError> {
    let one_cpu = how.cpu.filter(|_| has_more(verb)).map(OneCpu::keep);
    let mut resident: Option<(Resident, u64)> = None;
    let mut pace = Pace::new(&verb.series());
    let stopped = || how.stop.load(Ordering::Relaxed);
    while !stopped() {
        let all = verb.series();
        let Some(at) = next(how.seed, &all) else {
            return Ok(Ended::Done);
        };
        let left_ns = verb.left_ns();
        if left_ns == Some(0) {
            return Ok(Ended::OutOfTime);
        }
        let what = verb.describe(at);
        let done = all.iter().map(|s| u64::from(s.attempts)).sum();
        let rest = pace.remaining(&all, at).map(|rest| rest.within(left_ns));
        let began_ns = MonotonicClock.now_ns();
        let mut now = Progress {
            done,
            expected: done + all.iter().map(|s| u64::from(s.wanted)).sum::<u64>(),
            what: what.clone(),
            rest,
        };
        progress(&now);
        let with = With {
            detail: &mut |text| {
                now.what = format!("{what}: {text}");
                let spent_ns = MonotonicClock.now_ns().saturating_sub(began_ns);
                now.rest = rest.map(|rest| rest.later(spent_ns as f64 / 1e9));
                progress(&now);
            },
            one_cpu: one_cpu.as_ref(),
            stop: how.stop,
        };
        if how.resident {
            keep_at_hand(&mut resident);
        }
        let made = verb.make(at, with);
        // What fails while fsage stops, fails because of it.
        if stopped() {
            break;
        }
        let took_ns = MonotonicClock.now_ns().saturating_sub(began_ns);
        pace.add(at, took_ns);
        let (entries, failure) = match made {
            Ok(entries) => (entries, None),
            Err(why) => (vec![verb.failed(at, &why, took_ns)], Some(why)),
        };
        for entry in entries {
            record.append(&entry)?;
            verb.take(entry)?;
        }
        if let Some(why) = failure.filter(|_| !how.keep_going) {
            return Ok(Ended::AfterFailure(why));
        }
    }
    Ok(Ended::Interrupted)
}
