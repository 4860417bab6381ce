//! Which files go from which indexer to which: the rules of “Updating the File Indexers”.
//!
//! What is created is then written, what is written is read, what is read is deleted. Of what a time chunk creates and
//! does not write itself the rest is to be deleted, if it deletes more than it writes; of what it writes and does not
//! read itself likewise (Figure 24). With a repeat frequency of f only one of f writes (reads) sends its file on, the
//! others put it back (Figure 25); what does not come out even is carried over to the next definition.

use rustc_hash::FxHashMap;

use super::config::{Config, Definition};
use super::operation::Operation;

/// Definitions of one time chunk by what FileRunner does, in the order of [`Operation::RUN`].
pub type Piece = [Vec<Definition>; 4];

/// The chunks of a configuration; definitions that FileRunner does not run are left out.
pub fn pieces(config: &Config) -> Vec<Piece> {
    let mut pieces: Vec<(u32, Piece)> = Vec::new();
    for chunk in &config.chunks {
        if pieces.last().is_none_or(|(index, _)| *index != chunk.index) {
            pieces.push((chunk.index, Piece::default()));
        }
        for definition in &chunk.definitions {
            if let (Some((_, piece)), Some(stage)) =
                (pieces.last_mut(), definition.operation.stage())
                && let Some(stage) = piece.get_mut(stage)
            {
                stage.push(*definition);
            }
        }
    }
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// A place in the read indexer: depth and I/O index.
pub type Cell = (u32, u64);

/// Where the files of a definition go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// So many are put back, the first ones.
    pub back: u64,
    /// Then so many go on to the next indexer.
    pub on: u64,
    /// The last ones are to be deleted.
    pub delete: u64,
}

/// Keeps count of what goes where.
#[derive(Debug, Clone)]
pub struct Flow {
    repeat: (f64, f64),
    /// Writes by depth and reads by cell so far.
    written: FxHashMap<u32, u64>,
    read: FxHashMap<Cell, u64>,
    /// What is left to go on in this chunk; no limit where there is no entry.
    to_write: FxHashMap<u32, u64>,
    to_read: FxHashMap<Cell, u64>,
    /// Depths of which this chunk deletes more than it reads.
    short_of_reads: FxHashMap<u32, bool>,
}

impl Flow {
    /// Before the first chunk.
    pub fn new(config: &Config) -> Self {
        Self {
            repeat: (config.repeat_write, config.repeat_read),
            written: FxHashMap::default(),
            read: FxHashMap::default(),
            to_write: FxHashMap::default(),
            to_read: FxHashMap::default(),
            short_of_reads: FxHashMap::default(),
        }
    }

    /// A chunk begins.
    pub fn begin(&mut self, [_, writes, reads, deletes]: &Piece) {
        let by_depth = |definitions: &[Definition]| {
            let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
            for d in definitions {
                let sum = sums.entry(d.depth).or_default();
                *sum = sum.saturating_add(d.iterations);
            }
            sums
        };
        let (written, read, deleted) = (by_depth(writes), by_depth(reads), by_depth(deletes));
        self.to_write.clear();
        self.to_read.clear();
        self.short_of_reads.clear();
        for (&depth, &deletes) in &deleted {
            let writes = written.get(&depth).copied().unwrap_or(0);
            if deletes > writes {
                let files = (writes as f64 / self.repeat.0).ceil() as u64;
                self.to_write.insert(depth, files);
            }
            let reads = read.get(&depth).copied().unwrap_or(0);
            self.short_of_reads.insert(depth, deletes > reads);
        }
        for d in reads {
            let cell = self.to_read.entry((d.depth, d.io)).or_default();
            *cell = cell.saturating_add(d.iterations);
        }
        for files in self.to_read.values_mut() {
            *files = (*files as f64 / self.repeat.1).ceil() as u64;
        }
    }

    /// Where the files of a definition go that is done now.
    pub fn split(&mut self, definition: &Definition) -> Split {
        let (depth, n) = (definition.depth, definition.iterations);
        let cell = (depth, definition.io);
        let all = |on| Split {
            back: 0,
            on,
            delete: n - on,
        };
        match definition.operation {
            Operation::CREATE => all(take(self.to_write.get_mut(&depth), n)),
            Operation::WRITE => {
                let sent = carried(self.written.entry(depth).or_default(), n, self.repeat.0);
                let short = self.short_of_reads.get(&depth) == Some(&true);
                let on = if short {
                    self.to_read
                        .get_mut(&cell)
                        .map_or(0, |left| take(Some(left), sent))
                } else {
                    sent
                };
                Split {
                    back: n - sent,
                    on,
                    delete: sent - on,
                }
            }
            Operation::READ => {
                let sent = carried(self.read.entry(cell).or_default(), n, self.repeat.1);
                Split {
                    back: n - sent,
                    on: sent,
                    delete: 0,
                }
            }
            _ => all(n),
        }
    }
}

/// Takes up to `n` of what is left.
fn take(left: Option<&mut u64>, n: u64) -> u64 {
    let Some(left) = left else { return n };
    let taken = n.min(*left);
    *left -= taken;
    taken
}

/// How many of `n` more send their file on, if one of `repeat` does.
fn carried(so_far: &mut u64, n: u64, repeat: f64) -> u64 {
    let sent = |n: u64| (n as f64 / repeat).floor() as u64;
    let before = sent(*so_far);
    *so_far = so_far.saturating_add(n);
    sent(*so_far).saturating_sub(before).min(n)
}
