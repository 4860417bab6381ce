//! What a model does, line by line, as it is played: what an export keeps of it and what it loses is held against that.

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::{Op, OpFlags, OpKind};
use rustc_hash::FxHashMap;

use crate::fsm::resolve::is_write;
use crate::fsm::{Batch, Dist, Generator, Model, ModelError, Options};

/// Where a line stands: its phase, its part of that, and its place in the script.
pub(super) type Place = (usize, usize, usize);

/// What data is moved one way.
#[derive(Debug, Clone, Default)]
pub(super) struct Moves {
    /// Calls that move something.
    pub(super) calls: u64,
    pub(super) bytes: u64,
    /// Of the calls those that do not go on where the one before on that descriptor ended.
    pub(super) apart: u64,
    /// Of them those that go past the page cache.
    pub(super) direct: u64,
    /// How many move so many bytes.
    pub(super) sizes: BTreeMap<u64, u64>,
}

/// What a line comes to.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) visits: u64,
    pub(super) think_ns: u64,
    /// Reads, and writes.
    pub(super) moves: [Moves; 2],
    /// Visits that read something of a file, and its sizes then, in all.
    pub(super) read_from: (u64, u64),
    /// Bytes that are put into files: what is seeked over and cut to a length is a hole.
    pub(super) put_in: u64,
    /// Operations of each kind.
    pub(super) counts: BTreeMap<OpKind, u64>,
}

impl Done {
    fn take(&mut self, batch: &Batch, ends: &mut FxHashMap<(u32, i32), u64>) {
        self.visits += 1;
        self.think_ns = self.think_ns.saturating_add(batch.think_ns);
        let reads = |op: &&Op| op.kind == OpKind::Read;
        let first = batch.calls.iter().map(|call| &call.op).find(reads);
        if let Some(size) = first.and_then(|op| op.size_bytes) {
            let (visits, bytes) = &mut self.read_from;
            (*visits, *bytes) = (*visits + 1, bytes.saturating_add(size));
        }
        for op in batch.calls.iter().map(|call| &call.op) {
            *self.counts.entry(op.kind).or_default() += 1;
            self.moved(op, ends);
            self.put_in = self.put_in.saturating_add(put_in(op));
        }
    }

    fn moved(&mut self, op: &Op, ends: &mut FxHashMap<(u32, i32), u64>) {
        let by = |fd: i32| (op.pid.0, fd);
        match op.kind {
            OpKind::Open => {
                let fd = op.result.value().and_then(|fd| i32::try_from(fd).ok());
                if let Some(fd) = fd {
                    ends.insert(by(fd), 0);
                }
            }
            OpKind::Read | OpKind::Write => {
                let bytes = op.bytes_moved();
                let (Some(moves), true) = (self.moves.get_mut(way(op)), bytes > 0) else {
                    return;
                };
                let offset = op.offset.unwrap_or(0);
                let end = ends.entry(by(op.fd.map_or(-1, |fd| fd.0))).or_default();
                moves.apart += u64::from(*end != offset);
                *end = offset.saturating_add(bytes);
                moves.calls += 1;
                moves.direct += u64::from(op.record.contains(OpFlags::DIRECT));
                moves.bytes = moves.bytes.saturating_add(bytes);
                *moves.sizes.entry(bytes).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// How much a call puts into its file at the most.
fn put_in(op: &Op) -> u64 {
    match op.kind {
        OpKind::Fault if is_write(op) => op.length.unwrap_or(0),
        OpKind::Fallocate if op.flags == 0 => op.length.unwrap_or(0),
        _ if is_write(op) => op.bytes_moved(),
        _ => 0,
    }
}

fn way(op: &Op) -> usize {
    usize::from(is_write(op))
}

/// The most visits that are played for a file: some minutes.
const MOST_VISITS: u64 = 1 << 26;

/// What all lines come to.
#[derive(Debug, Default)]
pub(super) struct Played(pub(super) BTreeMap<Place, Done>);

impl Played {
    /// Plays a model.
    pub(super) fn of(model: &Arc<Model>) -> Result<Self, ModelError> {
        let visits = model.visits_in_all();
        if visits > MOST_VISITS {
            return Err(ModelError::Whole(format!(
                "{visits} visits, expected at most {MOST_VISITS} to export"
            )));
        }
        let mut generator = Generator::new(Arc::clone(model), Options::default())?;
        let mut all: BTreeMap<Place, Done> = BTreeMap::new();
        let mut ends = FxHashMap::default();
        while let Some((_, batch)) = generator.any() {
            all.entry(batch.place).or_default().take(&batch, &mut ends);
        }
        Ok(Self(all))
    }

    /// Operations of each kind, in all.
    pub(super) fn counts(&self) -> BTreeMap<OpKind, u64> {
        let mut counts = BTreeMap::new();
        for (kind, n) in self.0.values().flat_map(|done| &done.counts) {
            *counts.entry(*kind).or_default() += n;
        }
        counts
    }

    /// The lines of a part.
    pub(super) fn part(&self, phase: usize, part: usize) -> impl Iterator<Item = (usize, &Done)> {
        let lines = self.0.range((phase, part, 0)..=(phase, part, usize::MAX));
        lines.map(|(place, done)| (place.2, done))
    }
}

/// Sizes as so many equal parts of them, each by its mean: the sum stays.
pub(super) fn parts(sizes: &BTreeMap<u64, u64>, parts: u64) -> Vec<u64> {
    let all = Dist(sizes.iter().map(|(size, n)| (*size, *n)).collect());
    let parts = all.stretched(parts, 1.0, 0);
    let each = parts.0.iter().map(|&(size, n)| vec![size; n as usize]);
    each.flatten().collect()
}
