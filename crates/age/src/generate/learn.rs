//! What traces tell of short-lived files and of how files are deleted.

use std::collections::BTreeMap;

use fsage_core::{Fd, FileId, Op, OpKind, OpSource, PathId, PathTable, SourceError};
use fsage_namespace::descriptors::{Descriptors, follow, install, settle};
use fsage_namespace::flags::O_CREAT;
use fsage_namespace::path::{join, normal};
use rustc_hash::FxHashMap;

use super::deletes::Habits;
use super::short::{ShortFile, ShortLived, ShortProfile};
use crate::made::DAY_NS;

/// What follows another operation in its directory within this time is near it.
const NEAR_NS: u64 = 10_000_000_000;

/// A file of whose making the trace tells.
#[derive(Debug, Clone)]
struct Made {
    ns: u64,
    size: u64,
    file: Option<FileId>,
    /// Once it was removed, where it stands in its profile: it lives on, and may be written, until its last close.
    told: Option<(Profile, usize)>,
}

/// By trace, day and directory.
type Profile = (usize, u64, Vec<u8>);

#[derive(Debug, Default, Clone, Copy)]
struct Directory {
    removed_ns: Option<u64>,
    other_ns: Option<u64>,
}

/// Reads traces one after the other.
#[derive(Debug)]
pub struct Learner {
    /// How long a day of the traces lasts.
    day_ns: u64,
    sources: Vec<String>,
    profiles: BTreeMap<Profile, Vec<ShortFile>>,
    /// Each file that was made, by the order of that.
    made: Vec<Made>,
    /// Where in `made` a name, an open file and a file have theirs, of others nothing.
    files: FxHashMap<Vec<u8>, usize>,
    descriptors: Descriptors<Option<usize>>,
    known: FxHashMap<FileId, usize>,
    directories: FxHashMap<Vec<u8>, Directory>,
    removed: u64,
    together: u64,
    near: u64,
    gaps_ns: u64,
}

impl Learner {
    /// Of traces in which a day takes so long; what happens in them is told in times of whole days.
    pub fn new(day_ns: u64) -> Self {
        Self {
            day_ns: day_ns.max(1),
            sources: Vec::new(),
            profiles: BTreeMap::new(),
            made: Vec::new(),
            files: FxHashMap::default(),
            descriptors: Descriptors::default(),
            known: FxHashMap::default(),
            directories: FxHashMap::default(),
            removed: 0,
            together: 0,
            near: 0,
            gaps_ns: 0,
        }
    }

    /// Takes a trace that began in `directory`.
    pub fn take(
        &mut self,
        name: &str,
        directory: &[u8],
        source: &mut dyn OpSource,
    ) -> Result<(), SourceError> {
        self.sources.push(name.to_owned());
        self.made.clear();
        self.files.clear();
        self.descriptors = Descriptors::default();
        self.known.clear();
        self.directories.clear();
        let mut batch = Vec::new();
        while source.next_batch(&mut batch)? > 0 {
            for mut op in batch.drain(..).filter(|op: &Op| op.result.is_ok()) {
                let whole =
                    |ns| (u128::from(ns) * u128::from(DAY_NS) / u128::from(self.day_ns)) as u64;
                (op.start_ns, op.latency_ns) = (whole(op.start_ns), op.latency_ns.map(whole));
                self.operation(&op, source.paths(), directory);
            }
        }
        Ok(())
    }

    /// What was learnt.
    pub fn finish(self) -> ShortLived {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let habits = if self.removed == 0 {
            Habits::default()
        } else {
            Habits {
                together: rounded(share(self.together, self.removed)),
                near: rounded(share(self.near, self.removed - self.together)),
                gap_s: rounded(share(self.gaps_ns, self.together + self.near) / 1e9),
            }
        };
        let profiles = self.profiles.into_values().map(|mut files| {
            files.sort_by(|a, b| a.0.total_cmp(&b.0));
            let first = files.first().map_or(0.0, |f| f.0);
            for file in &mut files {
                *file = (rounded(file.0 - first), rounded(file.1), file.2);
            }
            ShortProfile { files }
        });
        ShortLived::new(self.sources.join(", "), habits, profiles.collect())
    }

    fn operation(&mut self, op: &Op, paths: &PathTable, directory: &[u8]) {
        let path = |path: Option<PathId>, dir: Option<PathId>| {
            let dir = dir.map_or(directory, |d| paths.get(d));
            path.map(|p| normal(&join(dir, paths.get(p))))
        };
        settle(&mut self.descriptors, op);
        match op.kind {
            OpKind::Open => {
                let Some(path) = path(op.path, op.dir) else {
                    return;
                };
                let new = op.flags & O_CREAT != 0 && op.size_bytes.is_none_or(|s| s == 0);
                if new && !self.files.contains_key(&path) {
                    self.active(&path, op.start_ns);
                    self.files.insert(path.clone(), self.made.len());
                    self.made.push(Made {
                        ns: op.start_ns,
                        size: 0,
                        file: op.file,
                        told: None,
                    });
                }
                let made = self.files.get(&path).copied();
                let fd = op.result.value().and_then(|v| i32::try_from(v).ok());
                if let Some(fd) = fd {
                    install(&mut self.descriptors, op, Fd(fd), made);
                }
                match (op.file, made) {
                    (Some(file), Some(made)) => {
                        self.known.insert(file, made);
                    }
                    (Some(file), None) => {
                        self.known.remove(&file);
                    }
                    (None, _) => {}
                }
            }
            OpKind::Close => {
                if let Some(fd) = op.fd {
                    let held = self.descriptors.description(op.pid.0, fd).copied();
                    self.closed(held.flatten(), op.start_ns);
                    self.descriptors.close(op.pid.0, fd);
                }
            }
            OpKind::Dup | OpKind::Fork | OpKind::Exec | OpKind::Exit => {
                follow(&mut self.descriptors, op);
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => self.written(op),
            OpKind::Unlink => {
                if let Some(path) = path(op.path, op.dir) {
                    self.gone(&path, op.start_ns);
                }
            }
            OpKind::Rename => {
                let (Some(from), Some(to)) =
                    (path(op.path, op.dir), path(op.path2, op.dir2.or(op.dir)))
                else {
                    return;
                };
                if self.files.contains_key(&to) {
                    self.gone(&to, op.start_ns);
                }
                self.active(&to, op.start_ns);
                if let Some(made) = self.files.remove(&from) {
                    self.files.insert(to, made);
                }
            }
            _ => {}
        }
    }

    fn written(&mut self, op: &Op) {
        let held = op
            .fd
            .and_then(|fd| *self.descriptors.description(op.pid.0, fd)?);
        let held = held.or_else(|| self.known.get(&op.file?).copied());
        let bytes = op.result.value().unwrap_or(0);
        let at = op.offset.or(op.size_bytes).unwrap_or(0);
        if let Some(made) = held.and_then(|at| self.made.get_mut(at)) {
            made.size = made.size.max(at.saturating_add(bytes));
            if let Some((profile, at)) = &made.told
                && let Some(file) = self.profiles.get_mut(profile).and_then(|f| f.get_mut(*at))
            {
                file.2 = made.size;
            }
        }
    }

    /// A file that was removed before lives until here at least, within its day.
    fn closed(&mut self, made: Option<usize>, ns: u64) {
        if let Some(made) = made.and_then(|at| self.made.get(at))
            && let Some((profile, at)) = &made.told
            && made.ns / DAY_NS == ns / DAY_NS
            && let Some(file) = self.profiles.get_mut(profile).and_then(|f| f.get_mut(*at))
        {
            file.1 = seconds(ns.saturating_sub(made.ns));
        }
    }

    fn active(&mut self, path: &[u8], ns: u64) {
        self.directories.entry(above(path)).or_default().other_ns = Some(ns);
    }

    fn gone(&mut self, path: &[u8], ns: u64) {
        let dir = above(path);
        let known = self.directories.entry(dir.clone()).or_default();
        let since = |at: Option<u64>| {
            at.map(|at| ns.saturating_sub(at))
                .filter(|&gap| gap <= NEAR_NS)
        };
        self.removed += 1;
        if let Some(gap) = since(known.removed_ns) {
            self.together += 1;
            self.gaps_ns += gap;
        } else if let Some(gap) = since(known.other_ns) {
            self.near += 1;
            self.gaps_ns += gap;
        }
        known.removed_ns = Some(ns);
        let made = self.files.remove(path);
        let Some(made) = made.and_then(|at| self.made.get_mut(at)) else {
            return;
        };
        if let Some(file) = made.file {
            self.known.remove(&file);
        }
        let day = made.ns / DAY_NS;
        if day == ns / DAY_NS {
            let key = (self.sources.len(), day, dir);
            let file = (
                seconds(made.ns % DAY_NS),
                seconds(ns.saturating_sub(made.ns)),
                made.size,
            );
            let files = self.profiles.entry(key.clone()).or_default();
            made.told = Some((key, files.len()));
            files.push(file);
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn above(path: &[u8]) -> Vec<u8> {
    let at = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.get(..at).unwrap_or_default().to_vec()
}

/// To a microsecond.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use fsage_core::{DevId, Outcome, Pid, Tid};

    use super::*;

    /// A trace of one process: what, when in seconds, on which name or descriptor, and a second name or bytes.
    #[derive(Default)]
    struct Given(PathTable, Vec<Op>);

    impl Given {
        fn op(&mut self, kind: OpKind, second: f64, pid: u32) -> &mut Op {
            let op = Op::new(kind, Pid(pid), Tid(pid), (second * 1e9) as u64);
            self.1.push(op);
            self.1.last_mut().unwrap()
        }

        fn open(&mut self, second: f64, name: &str, fd: i32, file: u64) {
            let path = self.0.intern(name.as_bytes());
            let op = self.op(OpKind::Open, second, 1);
            (op.path, op.flags) = (path, O_CREAT | 1);
            op.result = Outcome::ok(fd as u64);
            op.file = Some(numbered(file));
        }

        fn write(&mut self, second: f64, (pid, fd): (u32, i32), (at, bytes): (u64, u64)) {
            let op = self.op(OpKind::Write, second, pid);
            (op.fd, op.offset) = (Some(Fd(fd)), Some(at));
            op.result = Outcome::ok(bytes);
        }

        fn unlink(&mut self, second: f64, name: &str) {
            let path = self.0.intern(name.as_bytes());
            self.op(OpKind::Unlink, second, 1).path = path;
        }

        fn rename(&mut self, second: f64, from: &str, to: &str) {
            let (from, to) = (self.0.intern(from.as_bytes()), self.0.intern(to.as_bytes()));
            let op = self.op(OpKind::Rename, second, 1);
            (op.path, op.path2) = (from, to);
        }
    }

    impl OpSource for Given {
        fn paths(&self) -> &PathTable {
            &self.0
        }

        fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
            batch.append(&mut self.1);
            Ok(batch.len())
        }
    }

    fn numbered(ino: u64) -> FileId {
        FileId {
            dev: DevId(1),
            ino,
            generation: 0,
        }
    }

    fn learnt(day_ns: u64, mut given: Given) -> ShortLived {
        let mut learner = Learner::new(day_ns);
        learner.take("a.fst", b"/home", &mut given).unwrap();
        learner.finish()
    }

    #[test]
    fn files_that_came_and_went_are_told_by_directory_with_what_was_written_to_them() {
        let mut given = Given::default();
        given.open(10.0, "src/a.s", 3, 7);
        given.write(10.5, (1, 3), (0, 5000));
        // Renamed while it is open, and written to by another process, which is known by the file alone.
        given.rename(11.0, "src/a.s", "src/b.s");
        given.write(11.5, (1, 3), (5000, 1000));
        given.write(12.0, (2, 9), (6000, 500));
        given.1.last_mut().unwrap().file = Some(numbered(7));
        given.open(13.0, "src/kept", 4, 8);
        given.unlink(14.0, "src/b.s");
        // Another file of that number later is another file.
        given.write(15.0, (2, 9), (0, 1 << 30));
        given.1.last_mut().unwrap().file = Some(numbered(7));
        given.open(20.0, "tmp/x", 5, 9);
        // Replaced by a new one: it went.
        given.open(30.0, "tmp/y", 6, 10);
        given.rename(31.0, "tmp/y", "tmp/x");
        // Nobody saw it come.
        given.unlink(32.0, "tmp/old");
        let learnt = learnt(DAY_NS, given);
        let files: Vec<&[ShortFile]> = learnt.profiles.iter().map(|p| &*p.files).collect();
        assert_eq!(files, [&[(0.0, 4.0, 6500)][..], &[(0.0, 11.0, 0)]]);
        // Of three deletions one follows another there, one second later; of the others both an operation there, the
        // first after the one second since `kept` was made, the second after that since `y` was.
        let habits = learnt.habits;
        assert_eq!(
            (habits.together, habits.near, habits.gap_s),
            (0.333_333, 1.0, 1.0)
        );
    }

    #[test]
    fn what_is_written_to_a_file_that_has_no_name_any_more_is_its_own_until_it_is_closed() {
        let mut given = Given::default();
        given.open(1.0, "tmp/x", 3, 7);
        given.unlink(2.0, "tmp/x");
        given.write(3.0, (1, 3), (0, 40_000));
        // Another of that name, and a descriptor that is used again, are others'.
        given.open(3.5, "tmp/x", 4, 8);
        given.op(OpKind::Close, 5.0, 1).fd = Some(Fd(3));
        given.open(6.0, "tmp/kept", 3, 9);
        given.write(7.0, (1, 3), (0, 1 << 30));
        given.op(OpKind::Close, 8.0, 1).fd = Some(Fd(3));
        let learnt = learnt(DAY_NS, given);
        assert_eq!(learnt.profiles[0].files, [(0.0, 4.0, 40_000)]);
    }

    /// A shell's redirection: the file is opened, its descriptor copied over another one and closed, and the child
    /// writes to what it has from its parent. No operation names the file.
    #[test]
    fn what_a_copied_descriptor_writes_is_the_files() {
        let mut given = Given::default();
        given.open(1.0, "out", 3, 7);
        given.1.last_mut().unwrap().file = None;
        let dup = given.op(OpKind::Dup, 2.0, 1);
        (dup.fd, dup.result) = (Some(Fd(3)), Outcome::ok(1));
        given.op(OpKind::Close, 2.1, 1).fd = Some(Fd(3));
        let fork = given.op(OpKind::Fork, 2.2, 1);
        (fork.length, fork.result) = (Some(2), Outcome::ok(2));
        given.write(3.0, (2, 1), (0, 700));
        given.write(4.0, (1, 1), (700, 50));
        // What was closed is no file's any more.
        given.write(5.0, (1, 3), (0, 1 << 30));
        given.unlink(6.0, "out");
        let learnt = learnt(DAY_NS, given);
        assert_eq!(learnt.profiles[0].files, [(0.0, 5.0, 750)]);
    }

    #[test]
    fn a_day_that_was_played_faster_is_told_as_a_whole_one() {
        let mut given = Given::default();
        given.open(1.0, "a", 3, 7);
        given.unlink(2.0, "a");
        given.open(9.0, "b", 3, 8);
        // On the next day.
        given.unlink(11.0, "b");
        let learnt = learnt(10_000_000_000, given);
        assert_eq!(learnt.profiles.len(), 1);
        assert_eq!(learnt.profiles[0].files, [(0.0, 8640.0, 0)]);
    }

    #[test]
    fn many_renames_of_many_files_are_learnt_in_time_that_grows_with_them() {
        let mut given = Given::default();
        let files = 100_000;
        for n in 0..files {
            let (at, name) = (f64::from(n) * 0.01, format!("new/{n}"));
            given.open(at, &name, n, n as u64);
            given.rename(at + 0.001, &name, &format!("cur/{n}"));
        }
        given.unlink(5000.0, "cur/7");
        assert_eq!(learnt(DAY_NS, given).profiles.len(), 1);
    }
}
