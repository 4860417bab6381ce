//! Replays a trace on a target.
//!
//! Always true here:
//! * names reach the target only through [`place`]: relative, without `..`; the target confines them
//!   once more;
//! * the trace is read twice: [`scan`] finds what was there at the start and what the trace leads to,
//!   [`replay`] carries it out. Memory grows with the files, processes and open files of the trace and
//!   with a window of operations, not with its length;
//! * an operation's descriptor is resolved as the traced kernel had it when it began, so that its call goes to
//!   the same open file whatever the threads' timing;
//! * waits go backwards in the trace only: no two operations wait for each other.
//!
//! [`tree`] holds files and names, [`model`] and `descriptor` have one rule for each kind of operation,
//! [`order`] says what waits for what, [`call`] makes the calls, [`run`] gives them to `workers`, a thread
//! for each of the trace's, or in virtual time to `virtual_lanes`; [`tally`] counts, `reported` hands on; [`build()`] makes the tree of the start, [`verify()`] looks at the one of the end.

pub mod build;
pub mod call;
mod descriptor;
pub mod model;
pub mod order;
pub mod place;
pub mod progress;
mod recorder;
pub mod run;
pub mod tally;
pub mod tree;
pub mod verify;
mod virtual_lanes;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{OpKind, OpSource, SourceError};

pub use fsage_namespace::{Ino, NodeKind};

pub use build::{BuildError, Built, build, check_room};
pub use model::{INCOMING, Incoming, Model, Skip};
pub use order::Order;
pub use place::Placement;
pub use run::{Pace, ReplayOptions, ReplayRun, replay};
pub use tally::{Difference, KindReplay, Times};
pub use tree::{Entry, Range, ReplayTree};
pub use verify::{Fault, Verified, Wrong, verify};

/// What the first reading of a trace found.
#[derive(Debug)]
pub struct Scan {
    /// What was there at the start.
    pub start: ReplayTree,
    /// The directory that holds every name that was found.
    pub common: Option<Vec<u8>>,
    /// What links and renames bring in from outside.
    pub incoming: Incoming,
    /// The directories of the placement, as far as it was known, below which no operation names anything.
    pub unmet: Vec<Vec<u8>>,
    /// Whether page faults of mapped files are in the trace.
    pub faults: bool,
    /// Names that exist though neither the start nor the trace made them: what made them is not in
    /// the trace.
    pub unexplained: u64,
    /// The most bytes that the operations add to what is replayed, at once and at the least.
    pub added_bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Whether it was stopped.
    pub interrupted: bool,
}

/// Reads a trace through. `tree` holds what a snapshot says, or nothing; `directory` is where the
/// trace began; `inside` is what will be replayed, where that is known already.
pub fn scan(
    source: &mut dyn OpSource,
    tree: ReplayTree,
    directory: &[u8],
    inside: Option<Placement>,
    stop: &AtomicBool,
) -> Result<Scan, SourceError> {
    let mut model = Model::new(tree, directory, None);
    let asked = inside.iter().flat_map(Placement::rules);
    model.unmet = asked.map(|(from, _)| from.clone()).collect();
    model.incoming = Incoming::of(inside);
    let mut batch = Vec::new();
    let (mut operations, mut faults) = (0, false);
    let mut interrupted = false;
    loop {
        batch.clear();
        if source.next_batch(&mut batch)? == 0 {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
        for op in &batch {
            faults |= op.kind == OpKind::Fault;
            model.apply(op, source.paths());
        }
        operations += batch.len() as u64;
    }
    Ok(Scan {
        start: model.tree.start(),
        common: model.common,
        incoming: model.incoming,
        unmet: model.unmet,
        faults,
        unexplained: model.tree.unexplained,
        added_bytes: model.tree.most_added(),
        operations,
        interrupted,
    })
}
