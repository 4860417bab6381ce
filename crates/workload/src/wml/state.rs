//! What the threads of a run share: which files exist, which are in use, who waits for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::Bits;
use super::thread::Release;
use super::tree::FilesetTree;

/// A file of a fileset.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileState {
    pub(super) exists: bool,
    /// How many descriptors of all threads name it.
    pub(super) open: u32,
    /// Its size in bytes once all writes have returned.
    pub(super) size: u64,
    /// Its size when no write that makes it longer was under way.
    pub(super) settled: u64,
    /// Writes under way that make it longer, and reads that find its end.
    pub(super) growing: u32,
    pub(super) reading: u32,
}

/// Entries that exist or do not, and of both kinds those that no thread is busy with. A busy entry
/// is one whose operation has been issued and may not have returned.
#[derive(Debug)]
struct Pool {
    exist: Bits,
    absent: Bits,
    existing: usize,
    total: usize,
    /// Where the next search of each kind begins.
    exist_rotor: usize,
    absent_rotor: usize,
}

impl Pool {
    fn new(total: usize, existing: &[u32]) -> Self {
        let mut pool = Self {
            exist: Bits::new(total),
            absent: Bits::new(total),
            existing: existing.len(),
            total,
            exist_rotor: 0,
            absent_rotor: 0,
        };
        for &index in existing {
            pool.exist.insert(index as usize);
        }
        for index in 0..total {
            if !pool.exist.contains(index) {
                pool.absent.insert(index);
            }
        }
        pool
    }
}

/// What a thread looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Existing,
    /// One that no descriptor names.
    Closed,
    Absent,
}

/// What it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Picked {
    /// This one, which is busy from now on.
    Entry(usize),
    /// All that fit are busy or open: later.
    Busy,
    /// None fits.
    None,
}

/// A fileset while it runs.
#[derive(Debug)]
pub(super) struct Fileset {
    pub(super) tree: Arc<FilesetTree>,
    pub(super) files: Vec<FileState>,
    pool: Pool,
    leaves: Pool,
    /// Which leaf directories exist.
    pub(super) leaf_exists: Vec<bool>,
    /// Entries of each directory.
    pub(super) held: Vec<u32>,
    directory_rotor: usize,
}

impl Fileset {
    pub(super) fn new(tree: Arc<FilesetTree>) -> Self {
        let mut files: Vec<FileState> = vec![FileState::default(); tree.files.len()];
        let mut held = vec![0_u32; tree.directories.len()];
        let mut hold = |directory: u32| {
            if let Some(held) = held.get_mut(directory as usize) {
                *held += 1;
            }
        };
        for parent in tree.parents.iter().skip(1) {
            hold(*parent);
        }
        for &index in &tree.order {
            if let (Some(state), Some(file)) = (
                files.get_mut(index as usize),
                tree.files.get(index as usize),
            ) {
                state.exists = true;
                state.size = file.size;
                state.settled = file.size;
                hold(file.directory);
            }
        }
        let mut leaf_exists = vec![false; tree.leaves.len()];
        for &index in &tree.leaf_order {
            if let Some(exists) = leaf_exists.get_mut(index as usize) {
                *exists = true;
            }
            if let Some((directory, _)) = tree.leaves.get(index as usize) {
                hold(*directory);
            }
        }
        Self {
            pool: Pool::new(files.len(), &tree.order),
            leaves: Pool::new(tree.leaves.len(), &tree.leaf_order),
            files,
            leaf_exists,
            held,
            directory_rotor: 0,
            tree,
        }
    }

    /// Picks a file in rotation, or from `from` on.
    pub(super) fn pick(&mut self, wanted: Wanted, from: Option<usize>) -> Picked {
        let Pool {
            existing, total, ..
        } = self.pool;
        let (set, rotor, there) = match wanted {
            Wanted::Absent => (
                &mut self.pool.absent,
                &mut self.pool.absent_rotor,
                total - existing,
            ),
            _ => (&mut self.pool.exist, &mut self.pool.exist_rotor, existing),
        };
        if there == 0 {
            return Picked::None;
        }
        let start = from.unwrap_or(*rotor);
        let mut found = set.next(start);
        if wanted == Wanted::Closed {
            // At most as many steps as there are open files.
            let first = found;
            while let Some(index) = found {
                if self.files.get(index).is_none_or(|f| f.open == 0) {
                    break;
                }
                found = set.next(index + 1).filter(|next| Some(*next) != first);
            }
        }
        let Some(index) = found else {
            return Picked::Busy;
        };
        set.remove(index);
        if from.is_none() {
            *rotor = index + 1;
        }
        Picked::Entry(index)
    }

    /// Makes one file busy; false if it is already.
    pub(super) fn claim(&mut self, index: usize) -> bool {
        let there = self.pool.exist.contains(index) || self.pool.absent.contains(index);
        self.pool.exist.remove(index);
        self.pool.absent.remove(index);
        there
    }

    /// The operation on a busy file has returned; from now on it exists or does not.
    pub(super) fn release(&mut self, index: usize, exists: bool) {
        let Some(state) = self.files.get_mut(index) else {
            return;
        };
        let directory = self.tree.files.get(index).map(|f| f.directory as usize);
        let held = directory.and_then(|d| self.held.get_mut(d));
        match (state.exists, exists) {
            (false, true) => {
                self.pool.existing += 1;
                add(held, 1);
            }
            (true, false) => {
                self.pool.existing -= 1;
                add(held, -1);
            }
            _ => {}
        }
        state.exists = exists;
        if exists {
            self.pool.exist.insert(index);
        } else {
            self.pool.absent.insert(index);
        }
    }

    /// Picks a leaf directory in rotation, or from `from` on.
    pub(super) fn pick_leaf(&mut self, wanted: Wanted, from: Option<usize>) -> Picked {
        let pool = &mut self.leaves;
        let (set, rotor, there) = match wanted {
            Wanted::Absent => (
                &mut pool.absent,
                &mut pool.absent_rotor,
                pool.total - pool.existing,
            ),
            _ => (&mut pool.exist, &mut pool.exist_rotor, pool.existing),
        };
        if there == 0 {
            return Picked::None;
        }
        let Some(index) = set.next(from.unwrap_or(*rotor)) else {
            return Picked::Busy;
        };
        set.remove(index);
        if from.is_none() {
            *rotor = index + 1;
        }
        Picked::Entry(index)
    }

    /// A busy leaf directory that did not exist does from now on, or the other way round.
    pub(super) fn release_leaf(&mut self, index: usize, exists: bool) {
        let directory = self.tree.leaves.get(index).map(|(d, _)| *d as usize);
        let held = directory.and_then(|d| self.held.get_mut(d));
        if let Some(there) = self.leaf_exists.get_mut(index) {
            *there = exists;
        }
        if exists {
            self.leaves.existing += 1;
            self.leaves.exist.insert(index);
            add(held, 1);
        } else {
            self.leaves.existing -= 1;
            self.leaves.absent.insert(index);
            add(held, -1);
        }
    }

    /// The next directory in rotation; directories always exist.
    pub(super) fn next_directory(&mut self) -> usize {
        let index = self.directory_rotor % self.tree.directories.len().max(1);
        self.directory_rotor = index + 1;
        index
    }
}

/// Changes how much a directory holds.
fn add(held: Option<&mut u32>, change: i32) {
    if let Some(held) = held {
        *held = held.saturating_add_signed(change);
    }
}

/// One `semblock` or `block` of one thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gate {
    /// What was posted and not yet taken.
    pub(super) posted: u64,
    /// How much more a blocking post may give.
    pub(super) room: u64,
    /// How often it was woken.
    pub(super) woken: u64,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Running,
    /// It waited in vain when the state was this old.
    Waiting(u64),
    Ended,
}

/// Everything that threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) filesets: Vec<Fileset>,
    pub(super) gates: Vec<Gate>,
    /// The gates of each flowop name.
    pub(super) targets: BTreeMap<String, Vec<usize>>,
    /// Flowops done by all threads.
    pub(super) done: u64,
    /// Reads and writes among them.
    pub(super) transfers: u64,
    /// Bytes read and written by all threads.
    pub(super) bytes: u64,
    /// Events of the generator that were taken, and its rate in events a second; 0 for none.
    pub(super) taken: u64,
    pub(super) rate: u64,
    /// The run is over for all.
    pub(super) stopped: bool,
    /// A thread has begun.
    pub(super) begun: bool,
    /// A thread was ended from outside, so that the script's balance is gone: what one thread takes
    /// away, another does not put back.
    cut: bool,
    /// Counts changes that could let a waiting thread go on.
    age: u64,
    threads: Vec<(Standing, String)>,
    /// Whether a thread came to its end by itself.
    one_ended: bool,
}

/// What a thread that waits is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Wait on.
    Wait,
    /// End: nobody is left who could wake it.
    End,
    /// All wait for each other; what each waits for.
    Deadlock(String),
}

impl Shared {
    pub(super) fn new(filesets: Vec<Fileset>, threads: usize, rate: u64) -> Self {
        Self {
            filesets,
            gates: Vec::new(),
            targets: BTreeMap::new(),
            done: 0,
            transfers: 0,
            bytes: 0,
            taken: 0,
            rate,
            stopped: false,
            begun: false,
            cut: false,
            age: 0,
            threads: vec![(Standing::Running, String::new()); threads],
            one_ended: false,
        }
    }

    /// A gate of that flowop for one more thread.
    pub(super) fn add_gate(&mut self, name: &str, highwater: u64) -> usize {
        let number = self.gates.len();
        self.gates.push(Gate {
            room: highwater,
            ..Gate::default()
        });
        self.targets
            .entry(name.to_owned())
            .or_default()
            .push(number);
        number
    }

    /// A file of a fileset.
    pub(super) fn file(&mut self, fileset: usize, index: usize) -> Option<&mut FileState> {
        self.filesets.get_mut(fileset)?.files.get_mut(index)
    }

    /// The operations of a batch have returned.
    pub(super) fn release(&mut self, releases: &[Release]) {
        for release in releases {
            match *release {
                Release::File {
                    fileset,
                    index,
                    exists,
                } => {
                    if let Some(fileset) = self.filesets.get_mut(fileset) {
                        fileset.release(index, exists);
                    }
                }
                Release::Leaf {
                    fileset,
                    index,
                    exists,
                } => {
                    if let Some(fileset) = self.filesets.get_mut(fileset) {
                        fileset.release_leaf(index, exists);
                    }
                }
                Release::Grown { fileset, index } => {
                    if let Some(file) = self.file(fileset, index) {
                        file.growing = file.growing.saturating_sub(1);
                        if file.growing == 0 {
                            file.settled = file.size;
                        }
                    }
                }
                Release::Read { fileset, index } => {
                    if let Some(file) = self.file(fileset, index) {
                        file.reading = file.reading.saturating_sub(1);
                    }
                }
                Release::Closed { fileset, index } => {
                    if let Some(file) = self.file(fileset, index) {
                        file.open = file.open.saturating_sub(1);
                    }
                }
            }
        }
        self.changed();
    }

    /// Something changed that a waiting thread may wait for.
    pub(super) fn changed(&mut self) {
        self.age += 1;
    }

    /// The thread goes on.
    pub(super) fn running(&mut self, thread: usize) {
        if let Some((standing, _)) = self.threads.get_mut(thread)
            && *standing != Standing::Ended
        {
            *standing = Standing::Running;
        }
    }

    /// The thread comes to its end; `well` unless it found an error.
    pub(super) fn ended(&mut self, thread: usize, well: bool) {
        if let Some((standing, _)) = self.threads.get_mut(thread)
            && *standing != Standing::Ended
        {
            *standing = Standing::Ended;
            self.one_ended |= well;
            self.age += 1;
        }
    }

    /// The thread's stream is gone: it was ended from outside, if it had not come to its end.
    pub(super) fn dropped(&mut self, thread: usize) {
        let standing = self.threads.get(thread).map(|(standing, _)| *standing);
        self.cut |= standing.is_some_and(|s| s != Standing::Ended);
        self.ended(thread, true);
    }

    /// Whether a thread was ended from outside.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The thread looked and has to wait for `what`.
    pub(super) fn waits(&mut self, thread: usize, what: impl FnOnce() -> String) -> Verdict {
        let age = self.age;
        if let Some((standing, text)) = self.threads.get_mut(thread) {
            if !matches!(standing, Standing::Waiting(_)) {
                *text = what();
            }
            *standing = Standing::Waiting(age);
        }
        let stuck = |s: &Standing| matches!(s, Standing::Ended) || *s == Standing::Waiting(age);
        if !self.threads.iter().all(|(standing, _)| stuck(standing)) {
            return Verdict::Wait;
        }
        if self.one_ended {
            // None of the others can go on either.
            self.stopped = true;
            return Verdict::End;
        }
        let waiting = self.threads.iter().filter(|(s, _)| *s != Standing::Ended);
        let texts: Vec<&str> = waiting.map(|(_, text)| text.as_str()).collect();
        let more = texts.len().saturating_sub(8);
        let mut text = texts
            .get(..texts.len().min(8))
            .unwrap_or_default()
            .join("; ");
        if more > 0 {
            text.push_str(&format!("; and {more} more"));
        }
        Verdict::Deadlock(text)
    }
}
