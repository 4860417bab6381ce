//! What was done of a workload, kept so that a run that was killed can be gone on with.
//!
//! A file beside the result: a head of fixed size, written before each change, then a line of JSON for each day. The
//! head says which operation is begun, and so that all before it are done; which descriptors are open; the tally; and
//! how many bytes of days count. Checksums of both tell a file that was damaged since from one that was left. Whoever
//! holds it has it locked: two runs would each go on with what the other did.

use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsage_core::Fd;
use fsage_format::piece::Checksum;
use fsage_format::result::aged::{AgedDay, AgedTally};

/// The magic and the version of the head, in one number.
const MAGIC: u64 = u64::from_le_bytes(*b"FSGAGED2");
const HEAD_WORDS: usize = 128;
const HEAD_BYTES: usize = HEAD_WORDS * 8;
/// Where the words are that tell the machine's run and the target.
const BOOT: Range<usize> = 5..7;
const TARGET: Range<usize> = 7..9;
/// Where the words that change begin, with their checksum and that of all before them, and the open files among them.
const CHANGING: usize = 24;
const OPEN: usize = 38;
/// Days are told in at most this much.
const MAX_DAYS_BYTES: u64 = 256 << 20;

/// Why what was done is not known; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read or written.
    #[error("keep what was done in {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another run is at it.
    #[error("keep what was done in {}: it is in use by another fsage; expected an output of its own", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("keep what was done in {}: {why}", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// What it is, and what can be done.
        why: &'static str,
    },
    /// It is of something else.
    #[error("go on with {}: {why}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// Why, and what was expected.
        why: String,
    },
}

/// Of what a state is: it goes on with nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// The SHA-256 of the workload.
    pub workload: [u8; 32],
    /// The machine's run: what a crash took with it is not known.
    pub boot: [u8; 16],
    /// Device and inode of the target's root.
    pub target: (u64, u64),
    /// Whether space is allocated and no data written, and where the bytes come from.
    pub how: (bool, u64),
}

/// A descriptor of the workload that was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// It.
    pub fd: Fd,
    /// Whether its file was there.
    pub there: bool,
    /// Whether that met a full disk, or a limit of its size.
    pub full: bool,
    /// Where the next write without an offset goes.
    pub position: u64,
}

/// What was done.
#[derive(Debug)]
pub struct State {
    file: File,
    path: PathBuf,
    rows: u64,
    tally: AgedTally,
    open: Vec<Kept>,
    days: Vec<AgedDay>,
    days_bytes: u64,
    days_sum: Checksum,
    /// Of the words that never change.
    fixed_sum: Checksum,
    resumed: bool,
    rested_ns: Option<u64>,
}

/// Opens what an earlier run left.
fn opened(path: &Path) -> Result<File, StateError> {
    let file = File::options().read(true).write(true).open(path);
    file.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => StateError::Other {
            path: path.to_owned(),
            why: "it is not there; expected the -o of the run that was stopped, or no --resume"
                .to_owned(),
        },
        _ => StateError::Io {
            path: path.to_owned(),
            source,
        },
    })
}

impl State {
    /// Begins one. It takes the place of an empty file and of a state that nobody can go on with, and of nothing else.
    pub fn create(path: &Path, identity: &Identity) -> Result<Self, StateError> {
        let file = anew(path, identity)?;
        let mut words = fixed(identity);
        words.resize(CHANGING, 0);
        let state = Self {
            file,
            path: path.to_owned(),
            rows: 0,
            tally: AgedTally::default(),
            open: Vec::new(),
            days: Vec::new(),
            days_bytes: 0,
            days_sum: Checksum::new(),
            fixed_sum: sum_of(Checksum::new(), &words),
            resumed: false,
            rested_ns: Some(0),
        };
        let nothing = (0, &AgedTally::default(), Some(0));
        words.extend(state.changing(nothing, [].into_iter()).0);
        state.put(0, &words)?;
        Ok(state)
    }

    /// Goes on with one.
    pub fn resume(path: &Path, identity: &Identity) -> Result<Self, StateError> {
        let other = |why: &str| StateError::Other {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let file = opened(path)?;
        lock(&file, path)?;
        let mut bytes = [0; HEAD_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|_| {
            other("it is no state of an aging run, or cut; expected what such a run left")
        })?;
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let word = |at: usize| words.get(CHANGING + at).copied().unwrap_or(0);
        if words.first() != Some(&MAGIC) {
            return Err(other(
                "it is no state of an aging run of this fsage, expected what such a run left",
            ));
        }
        let open = open_files(&words);
        let covered = words.get(CHANGING + 1..OPEN + 2 * open.len() + 1);
        let before = words.get(..CHANGING).unwrap_or_default();
        let fixed_sum = sum_of(Checksum::new(), before);
        let sum = sum_of(fixed_sum, covered.unwrap_or_default()).value();
        let damaged = "it differs from its checksum: it was damaged since; begin on a new target";
        if sum != word(0) || word(2) > MAX_DAYS_BYTES {
            return Err(other(damaged));
        }
        belongs(&words, identity).map_err(other)?;
        let mut lines = vec![0; word(2) as usize];
        file.read_exact_at(&mut lines, HEAD_BYTES as u64)
            .map_err(|_| other(damaged))?;
        let mut days_sum = Checksum::new();
        days_sum.add(&lines);
        if days_sum.value() != word(3) {
            return Err(other(damaged));
        }
        let days = lines.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        let days = days.map(serde_json::from_slice).collect::<Result<_, _>>();
        Ok(Self {
            file,
            path: path.to_owned(),
            rows: word(1),
            tally: AgedTally {
                operations: word(4),
                created: word(5),
                removed: word(6),
                written_bytes: word(7),
                no_space: word(8),
                too_large: word(9),
                absent: word(10),
                refused: word(11),
                left_out: word(12),
            },
            open,
            days: days.map_err(|e| other(&format!("its days: {e}")))?,
            days_bytes: word(2),
            days_sum,
            fixed_sum,
            resumed: true,
            rested_ns: word(13).checked_sub(1),
        })
    }

    /// Operations that were done when it was taken up again; the next one may have been, unless it rested.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether it was taken up again.
    pub fn was_begun(&self) -> bool {
        self.resumed
    }

    /// How long the target had taken, nanoseconds, where the run before ended in good order: no operation is in doubt.
    pub fn rested_ns(&self) -> Option<u64> {
        self.rested_ns
    }

    /// What had been done.
    pub fn tally(&self) -> &AgedTally {
        &self.tally
    }

    /// The days that had ended.
    pub fn days(&self) -> &[AgedDay] {
        &self.days
    }

    /// The descriptors that were open, as many as there is room for.
    pub fn open(&self) -> &[Kept] {
        &self.open
    }

    /// An operation begins; all before it are done.
    pub fn begin(
        &mut self,
        row: u64,
        tally: &AgedTally,
        open: impl Iterator<Item = Kept>,
    ) -> Result<(), StateError> {
        let (words, used) = self.changing((row, tally, None), open);
        self.put(CHANGING, words.get(..used).unwrap_or_default())
    }

    /// The run ends before an operation; all before it are done, in so long.
    pub fn rest(
        &mut self,
        row: u64,
        tally: &AgedTally,
        open: impl Iterator<Item = Kept>,
        elapsed_ns: u64,
    ) -> Result<(), StateError> {
        let (words, used) = self.changing((row, tally, Some(elapsed_ns)), open);
        self.put(CHANGING, words.get(..used).unwrap_or_default())
    }

    /// The result says it all: nothing is left to go on with.
    pub fn remove(self) -> Result<(), StateError> {
        std::fs::remove_file(&self.path).map_err(|e| self.failed(e))
    }

    /// The words that change, and how many of them say something: up to the word that ends the list of open files.
    fn changing(
        &self,
        (row, tally, rested_ns): (u64, &AgedTally, Option<u64>),
        open: impl Iterator<Item = Kept>,
    ) -> ([u64; HEAD_WORDS - CHANGING], usize) {
        let mut words = [0; HEAD_WORDS - CHANGING];
        let known = [
            0,
            row,
            self.days_bytes,
            self.days_sum.value(),
            tally.operations,
            tally.created,
            tally.removed,
            tally.written_bytes,
            tally.no_space,
            tally.too_large,
            tally.absent,
            tally.refused,
            tally.left_out,
            // 0 where the operation is begun, as in what older releases left.
            rested_ns.map_or(0, |ns| ns.saturating_add(1)),
        ];
        let (fixed, files) = words.split_at_mut(OPEN - CHANGING);
        fixed
            .iter_mut()
            .zip(known)
            .for_each(|(to, word)| *to = word);
        // The last pair ends the list.
        let (pairs, _) = files.split_at_mut(files.len() - 2);
        let mut used = OPEN - CHANGING + 1;
        for ([to, position], kept) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(open) {
            let bits = u64::from(kept.full) << 2 | u64::from(kept.there) << 1 | 1;
            (*to, *position) = (u64::from(kept.fd.0 as u32) << 3 | bits, kept.position);
            used += 2;
        }
        let sum = sum_of(self.fixed_sum, words.get(1..used).unwrap_or_default());
        if let Some(first) = words.first_mut() {
            *first = sum.value();
        }
        (words, used)
    }

    /// A day has ended. It counts from the next operation on.
    pub fn end_day(&mut self, day: &AgedDay) -> Result<(), StateError> {
        let mut line = serde_json::to_vec(day).map_err(|e| self.failed(e.into()))?;
        line.push(b'\n');
        let at = HEAD_BYTES as u64 + self.days_bytes;
        self.file
            .write_all_at(&line, at)
            .map_err(|e| self.failed(e))?;
        self.days_bytes += line.len() as u64;
        self.days_sum.add(&line);
        Ok(())
    }

    fn put(&self, at: usize, words: &[u64]) -> Result<(), StateError> {
        let mut bytes = [0; HEAD_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let bytes = bytes.get(..words.len() * 8).unwrap_or_default();
        self.file
            .write_all_at(bytes, at as u64 * 8)
            .map_err(|e| self.failed(e))
    }

    fn failed(&self, source: std::io::Error) -> StateError {
        StateError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

/// A new file in the place of what stands there, unless that is another run's or no state at all.
fn anew(path: &Path, identity: &Identity) -> Result<File, StateError> {
    let failed = |source| StateError::Io {
        path: path.to_owned(),
        source,
    };
    let mut before = None;
    if let Ok(there) = std::fs::symlink_metadata(path) {
        // Not written through a link.
        if !there.is_file() {
            return Err(taken(path, NO_STATE));
        }
        let file = File::open(path).map_err(failed)?;
        lock(&file, path)?;
        replaceable(&file, path, identity)?;
        before = Some(file);
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
    }
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| match e.kind() {
            // It was not there a moment before.
            io::ErrorKind::AlreadyExists => StateError::InUse(path.to_owned()),
            _ => failed(e),
        })?;
    lock(&file, path)?;
    drop(before);
    Ok(file)
}

const NO_STATE: &str = "it is there and is no state of an aging run, which fsage does not replace: remove it first, or name \
     another file for -o";

fn taken(path: &Path, why: &'static str) -> StateError {
    StateError::Taken {
        path: path.to_owned(),
        why,
    }
}

/// Fails unless a file is empty, or a state that begins anew with this run: of the same target, or of what a machine that
/// was started since has lost.
fn replaceable(file: &File, path: &Path, identity: &Identity) -> Result<(), StateError> {
    let mut bytes = Vec::new();
    let read = file.take(CHANGING as u64 * 8).read_to_end(&mut bytes);
    read.map_err(|source| StateError::Io {
        path: path.to_owned(),
        source,
    })?;
    if bytes.is_empty() {
        return Ok(());
    }
    let words: Vec<u64> = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .copied()
        .map(u64::from_le_bytes)
        .collect();
    if words.first() != Some(&MAGIC) {
        return Err(taken(path, NO_STATE));
    }
    let expected = fixed(identity);
    let is_same = |at: Range<usize>| words.get(at.clone()) == expected.get(at);
    if is_same(BOOT) && !is_same(TARGET) {
        return Err(taken(
            path,
            "it is what an unfinished run on another target has left, with which --resume on that target goes on; remove it \
             first, or name another file for -o",
        ));
    }
    Ok(())
}

/// Keeps others of fsage's from what was done until `file` is closed.
fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    // On file systems without locks nobody is kept away.
    let taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    // Who had it locked a moment before may have put another in its place.
    let id = |about: Metadata| (about.dev(), about.ino());
    let ours = file.metadata().map(id).ok();
    if taken || std::fs::metadata(path).map(id).ok() != ours {
        return Err(StateError::InUse(path.to_owned()));
    }
    Ok(())
}

/// A checksum with these words more.
fn sum_of(mut sum: Checksum, words: &[u64]) -> Checksum {
    for word in words {
        sum.add(&word.to_le_bytes());
    }
    sum
}

/// The words of a head that never change.
fn fixed(identity: &Identity) -> Vec<u64> {
    let mut words = vec![MAGIC];
    for bytes in identity
        .workload
        .as_chunks::<8>()
        .0
        .iter()
        .chain(identity.boot.as_chunks::<8>().0)
    {
        words.push(u64::from_le_bytes(*bytes));
    }
    words.extend([
        identity.target.0,
        identity.target.1,
        u64::from(identity.how.0),
        identity.how.1,
    ]);
    words
}

/// Why a head is not that of this run, if it is not.
fn belongs(words: &[u64], identity: &Identity) -> Result<(), &'static str> {
    let mut expected = fixed(identity);
    expected.resize(CHANGING, 0);
    let parts = [
        (1..5, "it is of another workload"),
        (
            BOOT,
            "the machine was started anew since, and what the target had not written then is lost; expected a \
             new target",
        ),
        (TARGET, "it is of another target"),
        (9..11, "it was begun with another --fast or --seed"),
    ];
    for (at, why) in parts {
        if words.get(at.clone()) != expected.get(at) {
            return Err(why);
        }
    }
    Ok(())
}

/// The open files that a head tells of.
fn open_files(words: &[u64]) -> Vec<Kept> {
    let pairs = words.get(OPEN..).unwrap_or_default().as_chunks::<2>().0;
    let written = pairs.iter().take_while(|[bits, _]| bits & 1 != 0);
    let kept = written.map(|[bits, position]| Kept {
        fd: Fd((bits >> 3) as u32 as i32),
        there: bits & 2 != 0,
        full: bits & 4 != 0,
        position: *position,
    });
    kept.collect()
}
