//! A run that is asked to end, wherever and however often, goes on to the result of one that nothing ended.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_age::apply::{Applied, ApplyOptions, Identity, Observer, State, Stopped, apply};
use fsage_age::made::DAY_NS;
use fsage_core::{
    Confinement, Fd, FsOptions, Op, OpKind, OpSink, Outcome, PathTable, Pid, Seed, Tid,
};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};
use fsage_host::HostFs;

/// A workload of one operation a day.
struct Days {
    ops: Vec<Op>,
    paths: PathTable,
}

impl Days {
    fn op(&mut self, kind: OpKind, names: &[&str]) -> &mut Op {
        let at_ns = self.ops.len() as u64 * DAY_NS + 1_000_000_000;
        let mut op = Op::new(kind, Pid(1), Tid(1), at_ns);
        let mut ids = names
            .iter()
            .map(|n| self.paths.intern(n.as_bytes()).unwrap());
        (op.path, op.path2) = (ids.next(), ids.next());
        self.ops.push(op);
        self.ops.last_mut().unwrap()
    }

    fn open(&mut self, name: &str, flags: u32, fd: i32) {
        let op = self.op(OpKind::Open, &[name]);
        (op.flags, op.result) = (flags, Outcome::ok(fd as u64));
    }

    fn on(&mut self, kind: OpKind, fd: i32, length: u64) {
        let op = self.op(kind, &[]);
        (op.fd, op.length) = (Some(Fd(fd)), Some(length));
    }

    /// Files that are open for days, also while they are renamed, and operations that find nothing, or too much.
    fn all() -> Self {
        let (ops, paths) = (Vec::new(), PathTable::new());
        let mut days = Self { ops, paths };
        let (new, both) = (0o301, 0o2);
        days.op(OpKind::Mkdir, &["/d"]).flags = 0o755;
        days.open("/d/a", new, 3);
        days.on(OpKind::Write, 3, 5000);
        days.open("/d/b", new, 4);
        days.on(OpKind::Write, 4, 10);
        days.op(OpKind::Rename, &["/d/a", "/d/c"]);
        days.on(OpKind::Write, 3, 700);
        days.op(OpKind::Unlink, &["/none"]);
        days.op(OpKind::Mkdir, &["/d"]).flags = 0o755;
        days.open("/d/c", new, 7);
        days.on(OpKind::Write, 7, 9);
        days.on(OpKind::Close, 4, 0);
        days.open("/d/b", both, 5);
        days.on(OpKind::Ftruncate, 3, 900);
        days.on(OpKind::Close, 5, 0);
        days.op(OpKind::Symlink, &["/l", "d"]);
        days.on(OpKind::Close, 3, 0);
        days.op(OpKind::Unlink, &["/d/none"]);
        // Open until the end.
        days.open("/e", new, 6);
        days.on(OpKind::Write, 6, 30);
        days
    }

    fn save(&self, path: &Path) {
        let mut writer = TraceWriter::create(path, TraceMeta::default()).unwrap();
        for op in &self.ops {
            writer.push(op, &self.paths).unwrap();
        }
        writer.finish(TraceEnd::default()).unwrap();
    }
}

/// When the end is asked for: while the layout is looked at, or when that is done.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Within,
    After,
}

/// What is seen of a target at a day's end, and after how many of these looks somebody asks for the end.
struct Looks<'a> {
    dir: &'a Path,
    stop: &'a AtomicBool,
    after: Option<(usize, Moment)>,
}

impl Observer for Looks<'_> {
    fn score(&mut self) -> Result<Option<(u64, u64)>, Stopped> {
        match &mut self.after {
            Some((0, moment)) => {
                self.stop.store(true, Ordering::Relaxed);
                if *moment == Moment::Within {
                    return Err(Stopped);
                }
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
        let all = tree(self.dir);
        let bytes = all.values().map(|(bytes, _)| bytes.len() as u64).sum();
        Ok(Some((bytes, all.len() as u64)))
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// Contents and modification time of every file.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64)> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = pending.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            if about.is_dir() {
                pending.push(path);
            } else if about.is_file() {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                found.insert(name, (fs::read(path).unwrap(), about.mtime()));
            }
        }
    }
    found
}

/// Where a workload is applied, and where it is kept what was done.
struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let temp = temp.unwrap();
        fs::create_dir(temp.path().join("target")).unwrap();
        Self { temp }
    }

    fn target(&self) -> PathBuf {
        self.temp.path().join("target")
    }

    /// Begins, or goes on.
    fn apply(&self, workload: &Path, after: Option<(usize, Moment)>) -> Applied {
        let (part, target) = (self.temp.path().join("r.part"), self.target());
        let identity = Identity::default();
        let mut state = if part.exists() {
            State::resume(&part, &identity).unwrap()
        } else {
            State::create(&part, &identity).unwrap()
        };
        let options = FsOptions {
            confinement: Confinement::Held,
            ..FsOptions::default()
        };
        let host = HostFs::open(&target, options).unwrap();
        let stop = AtomicBool::new(false);
        let (dir, stop) = (&*target, &stop);
        let options = ApplyOptions {
            fast: false,
            seed: Seed(1),
            stop,
        };
        let mut workload = TraceReader::open(workload).unwrap();
        let mut looks = Looks { dir, stop, after };
        apply(&mut workload, &host, options, Some(&mut state), &mut looks).unwrap()
    }
}

/// What must be the same however it came about: no time, and nothing that others of the file system change.
fn same(place: &Place, applied: &Applied) -> impl PartialEq + std::fmt::Debug + use<> {
    let days: Vec<_> = applied
        .days
        .iter()
        .map(|day| {
            let looked = (day.counted_blocks, day.optimal_blocks);
            let done = (day.operations, day.written_bytes, day.so_far.clone());
            (day.day, looked, done)
        })
        .collect();
    (days, applied.tally.clone(), tree(&place.target()))
}

/// The day that ended while somebody asked for the end was kept without its score.
#[test]
fn a_run_that_is_interrupted_at_the_end_of_any_day_goes_on_to_the_same_result() {
    let temp = tempfile::tempdir().unwrap();
    let workload = temp.path().join("w.fst");
    let days = Days::all();
    days.save(&workload);
    let whole = Place::new();
    let undisturbed = whole.apply(&workload, None);
    assert!(!undisturbed.interrupted);
    assert_eq!(undisturbed.days.len(), days.ops.len());
    assert_eq!(
        (undisturbed.tally.absent, undisturbed.tally.removed),
        (5, 0)
    );
    let expected = same(&whole, &undisturbed);
    for moment in [Moment::Within, Moment::After] {
        for day in 0..days.ops.len() {
            let place = Place::new();
            let stopped = place.apply(&workload, Some((day, moment)));
            let ended = day + usize::from(moment == Moment::After);
            assert_eq!(stopped.days.len(), ended, "{moment:?} {day}");
            assert!(stopped.days.iter().all(|day| day.counted_blocks.is_some()));
            // What came behind all that was to be done ended nothing.
            assert_eq!(stopped.interrupted, ended < days.ops.len());
            let applied = place.apply(&workload, None);
            assert_eq!(same(&place, &applied), expected, "{moment:?} {day}");
            // Of one that had ended, what its end took may be no part of what was kept.
            let goes_on = applied.elapsed_ns >= stopped.elapsed_ns;
            assert!(goes_on || !stopped.interrupted, "{moment:?} {day}");
        }
    }
    // Again and again: a look is broken off, and then only one day is done.
    let place = Place::new();
    let mut rounds = 0;
    let applied = loop {
        let (left, moment) = [(0, Moment::Within), (0, Moment::After)][rounds % 2];
        let applied = place.apply(&workload, Some((left, moment)));
        if !applied.interrupted {
            break applied;
        }
        rounds += 1;
    };
    assert!(rounds > days.ops.len(), "{rounds} interruptions");
    assert_eq!(same(&place, &applied), expected);
}

/// Who is asked to end before anything else leaves what was known.
#[test]
fn a_run_that_is_interrupted_before_it_is_where_it_was_goes_on_from_there() {
    struct AtOnce<'a>(&'a AtomicBool);

    impl Observer for AtOnce<'_> {
        fn score(&mut self) -> Result<Option<(u64, u64)>, Stopped> {
            Err(Stopped)
        }

        fn progress(&mut self, _: u64, _: u64) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let temp = tempfile::tempdir().unwrap();
    let workload = temp.path().join("w.fst");
    Days::all().save(&workload);
    let whole = Place::new();
    let expected = same(&whole, &whole.apply(&workload, None));
    let place = Place::new();
    place.apply(&workload, Some((6, Moment::Within)));
    let part = place.temp.path().join("r.part");
    let left = fs::read(&part).unwrap();
    let mut state = State::resume(&part, &Identity::default()).unwrap();
    let host = HostFs::open(&place.target(), FsOptions::default()).unwrap();
    let stop = AtomicBool::new(false);
    let options = ApplyOptions {
        fast: false,
        seed: Seed(1),
        stop: &stop,
    };
    let mut reader = TraceReader::open(&workload).unwrap();
    let mut observer = AtOnce(&stop);
    let applied = apply(&mut reader, &host, options, Some(&mut state), &mut observer).unwrap();
    assert!(applied.interrupted);
    drop(state);
    assert_eq!(fs::read(&part).unwrap(), left);
    let applied = place.apply(&workload, None);
    assert_eq!(same(&place, &applied), expected);
}

/// What another target would have gone on with is not lost to a new run of the same name.
#[test]
fn a_state_takes_the_place_of_those_that_nobody_goes_on_with() {
    let temp = tempfile::tempdir().unwrap();
    let part = temp.path().join("r.part");
    let of = |boot: u8, target: u64| Identity {
        boot: [boot; 16],
        target: (7, target),
        ..Identity::default()
    };
    let create = |boot, target| State::create(&part, &of(boot, target)).map(drop);
    fs::write(&part, "").unwrap();
    create(1, 1).unwrap();
    create(1, 1).unwrap();
    let left = fs::read(&part).unwrap();
    let said = create(1, 2).unwrap_err().to_string();
    assert!(
        said.contains("r.part") && said.contains("--resume"),
        "{said}"
    );
    assert_eq!(fs::read(&part).unwrap(), left);
    State::resume(&part, &of(1, 1)).unwrap();
    // The machine was started anew since.
    create(2, 2).unwrap();
    for theirs in [&b"mine\n"[..], b"x", &[0; 2000]] {
        fs::write(&part, theirs).unwrap();
        let said = create(1, 1).unwrap_err().to_string();
        assert!(
            said.contains("r.part") && said.contains("no state"),
            "{said}"
        );
        assert_eq!(fs::read(&part).unwrap(), theirs);
    }
}
