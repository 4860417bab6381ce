//! The bodies of all fuzz targets in `fuzz/`, for some seconds each, over their seeds with random changes: what a
//! fuzzer would find at once is found without one. `.ci/fuzz.sh` runs them with one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "targets are run for a time"
)]
#![allow(clippy::print_stdout, reason = "counts are for whoever looks at them")]

// Targets name the fuzzer's crate, which this one stands for.
extern crate self as libfuzzer_sys;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A target as a function of its input.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub fn once($bytes: &[u8]) $body
    };
    (|$text:ident: &str| $body:block) => {
        pub fn once(bytes: &[u8]) {
            if let Ok($text) = std::str::from_utf8(bytes) $body
        }
    };
}

macro_rules! targets {
    ($($name:ident $path:literal)*) => {
        $(
            #[allow(warnings, clippy::all, clippy::pedantic, reason = "a program of its own elsewhere")]
            #[path = $path]
            mod $name;
        )*
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::once)),*];
    };
}

targets! {
    disk "../../../fuzz/fuzz_targets/disk.rs"
    filerunner "../../../fuzz/fuzz_targets/filerunner.rs"
    fsm "../../../fuzz/fuzz_targets/fsm.rs"
    hbench "../../../fuzz/fuzz_targets/hbench.rs"
    hbench_profile "../../../fuzz/fuzz_targets/hbench_profile.rs"
    hbench_snapshot "../../../fuzz/fuzz_targets/hbench_snapshot.rs"
    image "../../../fuzz/fuzz_targets/image.rs"
    iolog "../../../fuzz/fuzz_targets/iolog.rs"
    operations "../../../fuzz/fuzz_targets/operations.rs"
    plan "../../../fuzz/fuzz_targets/plan.rs"
    profile "../../../fuzz/fuzz_targets/profile.rs"
    record "../../../fuzz/fuzz_targets/record.rs"
    result "../../../fuzz/fuzz_targets/result.rs"
    short_lived "../../../fuzz/fuzz_targets/short_lived.rs"
    snapshot "../../../fuzz/fuzz_targets/snapshot.rs"
    state "../../../fuzz/fuzz_targets/state.rs"
    strace "../../../fuzz/fuzz_targets/strace.rs"
    trace "../../../fuzz/fuzz_targets/trace.rs"
    wml "../../../fuzz/fuzz_targets/wml.rs"
}

/// How long each is run.
const EACH: Duration = Duration::from_secs(3);

/// Longer inputs take a fuzzer's time and find no more.
const MOST_BYTES: usize = 64 << 10;

/// Numbers without a pattern (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

const NUMBERS: [&[u8]; 8] = [
    b"-1",
    b"0",
    b"1e308",
    b"nan",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"0.5",
];

/// One to five changes: bits, bytes, pieces that go, come twice or from another seed, numbers.
fn changed(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 => bytes.truncate(at.max(1)),
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let digit = |b: &u8| b.is_ascii_digit() || b".-".contains(b);
                let start = (at..bytes.len()).find(|&i| digit(&bytes[i])).unwrap_or(at);
                let length = bytes[start..].iter().take_while(|b| digit(b)).count();
                let number = NUMBERS[random.below(NUMBERS.len())];
                bytes.splice(start..start + length, number.iter().copied());
            }
        }
    }
    bytes.truncate(MOST_BYTES);
    bytes
}

/// Runs a target for its time; how often that was, or the input at which it failed.
fn run(name: &str, once: fn(&[u8])) -> Result<u64, PathBuf> {
    let seeds = std::fs::read_dir(Path::new("corpus").join(name)).unwrap();
    let mut seeds: Vec<PathBuf> = seeds.map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|p| std::fs::read(p).unwrap()).collect();
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let (begun, mut random, mut count) = (Instant::now(), Random(7), 0);
    while begun.elapsed() < EACH {
        let input = match seeds.get(count as usize) {
            Some(seed) => seed.clone(),
            None => changed(&seeds, &mut random),
        };
        if catch_unwind(AssertUnwindSafe(|| once(&input))).is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{count}"));
            std::fs::write(&kept, &input).unwrap();
            return Err(kept);
        }
        count += 1;
    }
    Ok(count)
}

/// Says that this process is the one that runs them: with files of theirs in memory.
const INNER: &str = "FSAGE_FUZZ_INNER";

#[test]
fn no_target_fails_over_its_seeds_and_what_is_like_them() {
    if std::env::var_os(INNER).is_some() {
        return all();
    }
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let memory = memory.unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--nocapture", "no_target_fails"]);
    let status = again.env(INNER, "1").env("TMPDIR", memory.path()).status();
    assert!(status.unwrap().success());
}

fn all() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    std::env::set_current_dir(&own).unwrap();
    let text = std::fs::read_to_string("Cargo.toml").unwrap();
    let is_listed = |name: &str| text.contains(&format!("name = \"{name}\""));
    assert!(TARGETS.iter().all(|(name, _)| is_listed(name)));
    assert_eq!(
        text.matches("[[bin]]").count(),
        TARGETS.len(),
        "all of them"
    );
    let (left, failed) = (Mutex::new(TARGETS.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((name, once)) = left.lock().unwrap().next() else {
                        return;
                    };
                    match run(name, *once) {
                        Ok(count) => println!("{name}: {count} inputs"),
                        Err(input) => failed.lock().unwrap().push(input),
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), Vec::<PathBuf>::new());
}
