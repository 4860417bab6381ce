//! Usage profiles give what they promise: the papers' figures, the utilisation asked for, the same bytes again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::sync::atomic::AtomicBool;

use common::carried_out;

use fsage_age::generate::{PROFILES, Wanted, generate, of_profile, outline};
use fsage_age::made::{DAY_NS, Made};
use fsage_core::{OpSource, Seed};
use fsage_format::trace::TraceReader;

const PLAIN: Wanted = Wanted {
    seed: Seed(7),
    days: None,
    size_bytes: None,
    fill: None,
    scale: None,
};

fn made(name: &str, wanted: &Wanted) -> Made {
    let mut source = of_profile(name, wanted).unwrap();
    outline(&mut *source, &mut |_, _, _| {}, &AtomicBool::new(false)).unwrap()
}

fn near(what: &str, found: f64, expected: f64, share: f64) {
    let off = (found / expected - 1.0).abs();
    assert!(
        off <= share,
        "{what}: {found}, expected {expected} within {share}"
    );
}

#[test]
fn the_home_directories_of_1996_are_those_of_the_paper() {
    let made = made("home-1996", &PLAIN);
    assert_eq!((made.days, made.size_bytes), (304, 502 << 20));
    near("operations", made.operations as f64, 800_000.0, 0.01);
    near("bytes", made.written_bytes as f64, 48.6e9, 0.01);
    let full = &made.utilisation;
    assert!((0.08..0.11).contains(&full[0]), "at first {}", full[0]);
    let most = full.iter().copied().fold(0.0, f64::max);
    assert!((0.89..=0.905).contains(&most), "at most {most}");
    let above = full.iter().filter(|&&u| u > 0.7).count();
    assert!(above * 4 > full.len() * 3, "over 70 % on {above} days");
    assert!(made.peak_bytes < made.size_bytes);
    let left = made.creates - made.removes;
    near("files at the end", left as f64, 8774.0, 0.1);
}

#[test]
fn the_home_directories_of_2001_are_those_of_the_thesis() {
    let made = made("home-2001", &PLAIN);
    assert_eq!((made.days, made.size_bytes), (215, 1 << 30));
    near("operations", made.operations as f64, 1.3e6, 0.01);
    near("bytes", made.written_bytes as f64, 87.3e9, 0.01);
    near("at the end", made.utilisation[214], 0.65, 0.01);
    assert!(made.utilisation[0] < 0.05);
}

#[test]
fn every_profile_holds_what_is_asked_at_every_days_end() {
    for profile in PROFILES {
        for (size, fill) in [(64 << 20, 0.9), (300 << 20, 0.5)] {
            let wanted = Wanted {
                days: Some(40),
                size_bytes: Some(size),
                fill: Some(fill),
                ..PLAIN
            };
            let made = made(profile.name, &wanted);
            assert_eq!(made.utilisation.len(), 40);
            for (day, share) in made.utilisation.iter().enumerate().skip(4) {
                let off = (share - fill).abs();
                assert!(
                    off <= 0.01,
                    "{} at {fill}: day {day} ends at {share}",
                    profile.name
                );
            }
            assert!(made.peak_bytes <= size, "{}: {made:?}", profile.name);
            assert!(made.removes > 0 && made.creates > made.removes);
        }
    }
}

/// Filling the file system took what days to come would have done, and a mail spool stood still for a week.
#[test]
fn what_is_filled_leaves_no_day_without_activity() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.fst");
    let wanted = Wanted {
        days: Some(30),
        size_bytes: Some(200 << 20),
        fill: Some(0.8),
        ..PLAIN
    };
    let mut source = of_profile("mail", &wanted).unwrap();
    let stop = AtomicBool::new(false);
    generate(&mut *source, &path, &mut |_, _, _| {}, &stop).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let (mut batch, mut creates) = (Vec::new(), [0; 30]);
    while reader.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..).filter(|op| op.flags & 0o100 != 0) {
            creates[(op.start_ns / DAY_NS) as usize] += 1;
        }
    }
    let usual = creates[20..].iter().sum::<u64>() / 10;
    let least = creates.iter().min().copied().unwrap();
    assert!(least * 4 > usual, "{creates:?}");
}

#[test]
fn a_trace_is_in_order_closed_in_itself_and_the_same_again() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = Wanted {
        days: Some(5),
        size_bytes: Some(24 << 20),
        ..PLAIN
    };
    for profile in PROFILES {
        let paths = [dir.path().join("a.fst"), dir.path().join("b.fst")];
        for path in &paths {
            let mut source = of_profile(profile.name, &wanted).unwrap();
            generate(
                &mut *source,
                path,
                &mut |_, _, _| {},
                &AtomicBool::new(false),
            )
            .unwrap();
        }
        let [a, b] = paths.map(|path| std::fs::read(path).unwrap());
        assert!(a == b, "{}: the same seed gave other bytes", profile.name);
        carried_out(&dir.path().join("a.fst"));
    }
}

#[test]
fn what_makes_no_workload_is_refused_before() {
    let refused = |name: &str, wanted: Wanted| {
        let error = of_profile(name, &wanted).err().unwrap().to_string();
        assert!(error.starts_with("make the aging workload: "), "{error}");
        error
    };
    assert!(refused("home", PLAIN).contains("home-1996"));
    let fill = |fill| {
        refused(
            "mail",
            Wanted {
                fill: Some(fill),
                ..PLAIN
            },
        )
    };
    assert!(
        fill(0.99).contains("0.95")
            && fill(f64::NAN).contains("fill")
            && fill(0.0).contains("0.01")
    );
    let small = Wanted {
        size_bytes: Some(1 << 20),
        ..PLAIN
    };
    assert!(refused("mail", small).contains("16777216"));
    for wanted in [
        Wanted {
            days: Some(0),
            ..PLAIN
        },
        Wanted {
            scale: Some(f64::INFINITY),
            ..PLAIN
        },
        Wanted {
            scale: Some(1000.0),
            size_bytes: Some(1 << 45),
            days: Some(36_500),
            ..PLAIN
        },
    ] {
        refused("mail", wanted);
    }
}
