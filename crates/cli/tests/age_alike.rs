//! A file system that is aged by the snapshots of another one lies like that: real activity on a real file system.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use common::{run, scratch, temp_in_memory};
use fsage_age::layout::{LayoutOptions, of_tree};
use fsage_core::Seed;
use fsage_host::{Scratch, ScratchSpec};
use fsage_workload::random::Random;

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

#[test]
fn a_file_system_that_is_aged_by_snapshots_lies_like_the_one_they_are_of() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    fs::create_dir(dir.join("nights")).unwrap();
    let spec: ScratchSpec = "ext2,size=64M".parse().unwrap();
    let real = Scratch::create(&spec).unwrap();
    let home = real.dir().join("home");
    fs::create_dir(&home).unwrap();
    let mut random = Random::new(Seed(5));
    for nth in 0..5 {
        day(&home, &mut random, nth);
        rustix::fs::syncfs(File::open(&home).unwrap()).unwrap();
        let night = format!("nights/{nth}.fss");
        run(dir, ["snapshot", home.to_str().unwrap(), "-o", &night]).exits(0);
    }
    let score = |of: &Path| {
        let layout = of_tree(of, &LayoutOptions::default(), &AtomicBool::new(false)).unwrap();
        layout.score.unwrap().value()
    };
    let wanted = score(&home);
    assert!(
        wanted < 0.9,
        "{wanted}: nothing is to be learnt from files in one piece"
    );
    run(
        dir,
        [
            "age",
            "generate",
            "--from-snapshots",
            "nights",
            "-o",
            "w.fst",
        ],
    )
    .exits(0);
    let simulated = Scratch::create(&spec).unwrap();
    let target = simulated.dir().join("home");
    fs::create_dir(&target).unwrap();
    let line = [
        "age",
        "apply",
        "w.fst",
        target.to_str().unwrap(),
        "-o",
        "applied.json",
    ];
    run(dir, line).exits(0);
    let found = score(&target);
    assert!((found - wanted).abs() < 0.05, "{found} for {wanted}");
    // The course of the days too: each snapshot is held against its own day, although the days were seconds.
    let nights: Vec<String> = (0..5).map(|nth| format!("nights/{nth}.fss")).collect();
    let line = ["layout", "--json", "--against", "applied.json"];
    let line = line.into_iter().chain(nights.iter().map(String::as_str));
    let course = run(dir, line).exits(0).json();
    let distance = course["score_rms_distance"].as_f64().unwrap();
    assert!(distance < 0.06, "{distance}");
    let last = course["against"][4]["score"]["value"].as_f64().unwrap();
    assert!(
        (last - found).abs() < 1e-9,
        "{last} is not the last day's {found}"
    );
}
