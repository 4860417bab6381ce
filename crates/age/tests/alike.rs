//! A file system that is aged by the snapshots of another one lies like that: real activity on a real file system.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use fsage_age::apply::{Applied, ApplyOptions, Observer, Stopped, apply};
use fsage_age::generate::{Deletes, SnapshotOptions, SnapshotSource, Wanted, generate};
use fsage_age::layout::{AppliedDays, Layout, LayoutOptions, of_days, of_tree};
use fsage_core::{FsOptions, Seed};
use fsage_format::snapshot::{SnapshotEnd, SnapshotEntry, SnapshotMeta, SnapshotWriter};
use fsage_format::trace::TraceReader;
use fsage_host::{HostFs, Scratch, ScratchSpec, machine, snapshot::walk};
use fsage_workload::random::Random;

/// How near the layout score of a file system that was aged is to the real one's; the papers' own way is more than twice
/// as far away.
const NEAR: f64 = 0.03;

/// Mailboxes that grow side by side and are rewritten, files that are replaced, and ones that are soon gone.
fn day(dir: &Path, random: &mut Random, nth: u64) {
    fs::create_dir_all(dir.join("spool")).unwrap();
    let append = |name: String, bytes: u64| {
        let mut options = OpenOptions::new();
        let mut file = options
            .append(true)
            .create(true)
            .open(dir.join(name))
            .unwrap();
        file.write_all(&vec![7; bytes as usize]).unwrap();
    };
    for round in 0..150 {
        append("queue".into(), 1 + random.below(16_000));
        append(
            format!("spool/b{}", random.below(24)),
            1 + random.below(16_000),
        );
        fs::remove_file(dir.join("queue")).unwrap();
        if round % 3 == 0 {
            // Two programs that write at the same time.
            let name = |half: u64| dir.join(format!("f{}-{half}", random_name(nth, round)));
            let mut both = [
                File::create(name(0)).unwrap(),
                File::create(name(1)).unwrap(),
            ];
            for _ in 0..random.below(8) {
                for file in &mut both {
                    file.write_all(&[3; 4096]).unwrap();
                }
            }
        }
        if round % 10 == 0 {
            let name = format!("spool/b{}", random.below(24));
            let bytes = fs::metadata(dir.join(&name)).map_or(0, |m| m.len());
            append("spool/new".into(), bytes / 2);
            fs::rename(dir.join("spool/new"), dir.join(name)).unwrap();
        }
    }
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    names.retain(|path| path.is_file());
    names.sort();
    for path in names.iter().filter(|_| random.below(4) == 0) {
        fs::remove_file(path).unwrap();
    }
}

/// Names of days before come again.
fn random_name(nth: u64, round: u64) -> u64 {
    (nth * 37 + round) % 90
}

fn scratch() -> Option<Scratch> {
    if !fsage_testing::root() || !fsage_testing::tool("mkfs.ext2") {
        return None;
    }
    let spec: ScratchSpec = "ext2,size=64M".parse().unwrap();
    let scratch = Scratch::create(&spec).unwrap();
    fs::create_dir(scratch.dir().join("home")).unwrap();
    Some(scratch)
}

/// A snapshot by itself in `whole`, and as the papers had them, with sizes and ctimes alone, in `plain`.
fn snapshot(home: &Path, [whole, plain]: [&Path; 2]) {
    let meta = SnapshotMeta {
        root: home.to_str().unwrap().into(),
        file_system: "ext2".into(),
        block_bytes: 4096,
        total_bytes: 64 << 20,
        taken_unix_ns: machine::unix_time_ns(),
        ..SnapshotMeta::default()
    };
    let mut writers =
        [whole, plain].map(|path| SnapshotWriter::create(path, meta.clone()).unwrap());
    let mut sink = |entry: SnapshotEntry| {
        writers[0].push(&entry).unwrap();
        let papers = SnapshotEntry {
            mtime_ns: entry.ctime_ns,
            btime_ns: None,
            extents: Vec::new(),
            ..entry
        };
        writers[1].push(&papers).unwrap();
        ControlFlow::Continue(())
    };
    walk(home, &mut sink).unwrap();
    for writer in writers {
        writer.finish(SnapshotEnd::default()).unwrap();
    }
}

fn look(dir: &Path) -> Layout {
    of_tree(dir, &LayoutOptions::default(), &AtomicBool::new(false)).unwrap()
}

/// Looks at the layout at each day's end.
struct Looks<'a>(&'a Path);

impl Observer for Looks<'_> {
    fn score(&mut self) -> Result<Option<(u64, u64)>, Stopped> {
        let score = look(self.0).score;
        Ok(score.map(|score| (score.counted_blocks, score.optimal_blocks)))
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

/// Ages a new file system by the workload that is made of snapshots.
fn aged(nights: &Path, deletes: Option<Deletes>, target: &Path) -> Applied {
    let asked = Wanted {
        seed: Seed(3),
        days: None,
        size_bytes: None,
        fill: None,
        scale: None,
    };
    let options = SnapshotOptions {
        deletes,
        ..SnapshotOptions::default()
    };
    let mut source = SnapshotSource::new(nights, &asked, options).unwrap();
    let workload = nights.join("w.fst");
    let stop = AtomicBool::new(false);
    generate(&mut source, &workload, &mut |_, _, _| {}, &stop).unwrap();
    let options = ApplyOptions {
        fast: false,
        seed: Seed(1),
        stop: &stop,
    };
    let fs = HostFs::open(target, FsOptions::default()).unwrap();
    let mut workload = TraceReader::open(&workload).unwrap();
    let applied = apply(&mut workload, &fs, options, None, &mut Looks(target)).unwrap();
    assert_eq!((applied.tally.no_space, applied.tally.absent), (0, 0));
    applied
}

#[test]
fn a_file_system_that_is_aged_by_snapshots_lies_like_the_one_they_are_of() {
    let (Some(real), Some(simulated), Some(papers)) = (scratch(), scratch(), scratch()) else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let nights = ["whole", "plain"].map(|name| temp.path().join(name));
    for dir in &nights {
        fs::create_dir(dir).unwrap();
    }
    let (home, target) = (real.dir().join("home"), simulated.dir().join("home"));
    let mut random = Random::new(Seed(5));
    let mut days = Vec::new();
    for nth in 0..5 {
        day(&home, &mut random, nth);
        rustix::fs::syncfs(File::open(&home).unwrap()).unwrap();
        let paths = nights.each_ref().map(|dir| dir.join(format!("{nth}.fss")));
        snapshot(&home, paths.each_ref().map(|path| &**path));
        days.push(look(&home));
    }
    let wanted = days[4].score.unwrap().value();
    assert!(wanted < 0.9, "{wanted}: nothing is to be learnt from it");
    let applied = aged(&nights[0], None, &target);
    let found = look(&target).score.unwrap().value();
    assert!((found - wanted).abs() < NEAR, "{found} for {wanted}");
    // From what the papers' snapshots held, files that grew side by side are taken to have been written in one go.
    let plain = papers.dir().join("home");
    aged(&nights[1], Some(Deletes::Uniform), &plain);
    let plain = look(&plain).score.unwrap().value();
    assert!((plain - wanted).abs() > 2.0 * NEAR, "{plain} for {wanted}");
    // Each day is held against its own, although they were moments.
    let result = temp.path().join("applied.json");
    let json = serde_json::json!({ "days": applied.days });
    fs::write(&result, json.to_string()).unwrap();
    let course = of_days(AppliedDays::read(&result).unwrap(), &days);
    assert_eq!(course.len(), 5);
    assert_eq!(course[4].score, look(&target).score);
    assert_ne!(course[0].score, course[4].score);
}
