//! What a hostile world does to fsage, over all verbs, for as long as is asked: damaged files of every format,
//! traces of things that cannot be, kills at random moments, resources that end, others at the same place, plans
//! that reach for what is not theirs.
//!
//! After each case: the exit code is a documented one, nothing panicked or hung, what goes to stdout with
//! `--json` is JSON or nothing, and no mount, loop device, control group, BPF program, process or temporary
//! file of ours is left. Every case follows from the seed, which is printed, and from its number.

mod case;
mod corpus;
mod faults;
mod files;
mod kills;
mod left;
mod others;
mod plans;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use signal_hook::consts::{SIGINT, SIGTERM};

use corpus::Corpus;

/// Arguments of `torture`.
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// How long (1m, 2h)
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = time)]
    duration: Duration,
    /// Where random choices start [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only these
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only the case of this number
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// The program to use instead of one that is built
    #[arg(long, value_name = "FILE")]
    fsage: Option<PathBuf>,
    /// Where inputs of failed cases are kept [default: target/torture]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// In a mount namespace of its own already
    #[arg(long, hide = true)]
    apart: bool,
}

/// A kind of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Part {
    /// Files of every format with bytes changed, cut, doubled
    Files,
    /// Traces of random operations, possible or not
    Traces,
    /// SIGKILL, SIGINT and SIGTERM at random moments
    Kills,
    /// Full disks, dead disks, limits
    Faults,
    /// Others in a run's directory, and at its results
    Others,
    /// Plans that name what is not theirs, and too much of it
    Plans,
}

impl Part {
    #[cfg(test)]
    const ALL: [Self; 6] = [
        Self::Files,
        Self::Traces,
        Self::Kills,
        Self::Faults,
        Self::Others,
        Self::Plans,
    ];
}

/// What all cases share.
pub struct World {
    program: PathBuf,
    /// Everything that cases make lies below.
    dir: tempfile::TempDir,
    corpus: Corpus,
    keep: PathBuf,
    seed: u64,
    root: bool,
    counts: BTreeMap<String, u64>,
    failures: u64,
    number: u64,
    /// What the case is of, once that is drawn.
    part: Option<Part>,
    /// What was on the machine before, and is nobody's here.
    before: BTreeSet<String>,
}

impl World {
    /// One more of what is counted.
    fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// A failure, told at once. `input` is kept for whoever looks into it.
    fn fail(&mut self, what: &str, input: Option<&Path>) {
        let part = self
            .part
            .map_or(String::new(), |part| format!(" ({part:?})"));
        let mut line = format!("case {} of seed {}{part}: {what}", self.number, self.seed);
        if let Some(input) = input {
            let name = input.file_name().unwrap_or_default().to_string_lossy();
            let kept = self
                .keep
                .join(format!("{}-{}-{name}", self.seed, self.number));
            let copied =
                std::fs::create_dir_all(&self.keep).and_then(|()| std::fs::copy(input, &kept));
            if copied.is_ok() {
                line = format!("{line} ({})", kept.display());
            }
        }
        println!("FAILED {line}");
        self.failures += 1;
    }

    /// A directory of one case.
    fn place(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("case-")
            .tempdir_in(self.dir.path())
            .context("make a directory of a case")
    }
}

/// What the cases mount in a run's way is gone with this process, however it ends: as root it starts itself again in a mount
/// namespace of its own. What others mount later is seen, and what is mounted here is seen by those that it starts.
fn mount_apart(args: &TortureArgs) -> Result<()> {
    if args.apart || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let this = std::env::current_exe().context("find the program itself")?;
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "slave", "sh", "-c"]);
    again.args([r#"mount --make-rshared / && exec "$@" --apart"#, "sh"]);
    again.arg(this).args(std::env::args_os().skip(1));
    Err(again.exec()).context("start unshare")
}

pub fn run(args: &TortureArgs) -> Result<bool> {
    mount_apart(args)?;
    let begun = Instant::now();
    let program = crate::program(args.fsage.as_ref(), false)?;
    let dir = tempfile::Builder::new()
        .prefix("fsage-torture-")
        .tempdir()
        .context("make a temporary directory")?;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let clock = since.map_or(0, |t| t.as_secs());
    let seed = args.seed.unwrap_or(clock);
    println!(
        "seed {seed}, {} for {:?}; stop with Ctrl-C",
        program.display(),
        args.duration
    );
    let corpus = Corpus::make(&program, dir.path())?;
    let mut world = World {
        program,
        corpus,
        keep: args
            .keep
            .clone()
            .unwrap_or_else(|| crate::root().join("target/torture")),
        seed,
        root: rustix::process::geteuid().is_root(),
        counts: BTreeMap::new(),
        failures: 0,
        number: 0,
        part: None,
        before: left::nobodys(seed),
        dir,
    };
    let mut number = args.case.unwrap_or(0);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("watch for signals")?;
    }
    while !stop.load(Ordering::Relaxed)
        && args
            .case
            .map_or(begun.elapsed() < args.duration, |only| number == only)
    {
        world.number = number;
        one(&mut world, &args.only)?;
        number += 1;
    }
    reported(&world, begun.elapsed());
    Ok(world.failures == 0)
}

fn random_of(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number))
}

/// How often a case is of each part, of 24: a kill takes longer than a damaged file.
const SHARES: [(Part, u32); 6] = [
    (Part::Files, 9),
    (Part::Traces, 6),
    (Part::Kills, 2),
    (Part::Faults, 3),
    (Part::Others, 2),
    (Part::Plans, 2),
];

/// Which part a case is of.
fn part_of(random: &mut Pcg64Mcg) -> Part {
    let mut drawn = random.random_range(0..SHARES.iter().map(|(_, share)| share).sum());
    for (part, share) in SHARES {
        if drawn < share {
            return part;
        }
        drawn -= share;
    }
    Part::Files
}

/// One case, which only the seed and its number decide, its part too; one of a part that is not wanted is
/// passed over.
fn one(world: &mut World, only: &[Part]) -> Result<()> {
    let mut random = random_of(world.seed, world.number);
    let part = part_of(&mut random);
    if !only.is_empty() && !only.contains(&part) {
        return Ok(());
    }
    world.part = Some(part);
    match part {
        Part::Files => files::case(world, &mut random),
        Part::Traces => traces::case(world, &mut random),
        Part::Kills => kills::case(world, &mut random),
        Part::Faults => faults::case(world, &mut random),
        Part::Others => others::case(world, &mut random),
        Part::Plans => plans::case(world, &mut random),
    }
}

fn reported(world: &World, took: Duration) {
    println!("\nin {} s from seed {}:", took.as_secs(), world.seed);
    for (what, count) in &world.counts {
        println!("{count:>9}  {what}");
    }
    println!("{:>9}  failed", world.failures);
}

/// A number with s, m or h behind it.
fn time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 90s, 1m or 2h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let seconds = match &text[digits.len()..] {
        "s" => number,
        "m" => number.saturating_mul(60),
        "h" => number.saturating_mul(3600),
        _ => return Err(expected()),
    };
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_case_follows_from_its_number() {
        let part = |number| part_of(&mut random_of(7, number));
        let parts: Vec<Part> = (0..200).map(part).collect();
        assert_eq!(parts, (0..200).map(part).collect::<Vec<_>>());
        for part in Part::ALL {
            assert!(parts.contains(&part), "{part:?}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_hours(2)));
        assert!(time("h").is_err() && time("5").is_err() && time("1d").is_err());
    }
}
