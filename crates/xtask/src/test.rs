//! Runs the tests and counts apart those that could not run here, each with its reason.
//!
//! A test that lacks what it needs ends as `ok` for cargo. It notes the reason by `fsage_testing::not_run`
//! in a file that this names for each test binary, and is told here from the tests that passed.
//!
//! What stands in `tests/` of a crate is one program to cargo, with a module for each file ([`parts`]). Here each is a
//! program still: it has a process of its own, a line of the report and the name `CRATE/FILE`, and `--test FILE`
//! chooses it.
//!
//! Some tests hold the program against a real kernel on a machine that others share. What failed is run once more,
//! alone; what passes only then is named at the end, and more than a few of those are a failure.

mod parts;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{messages, root};
use parts::{Chosen, Part};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Fail if a test did not run
    #[arg(long)]
    all: bool,
    /// Run so many files of tests at a time [default: three for two processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run them as the user and the group of this number; only root can. What is built is built before
    #[arg(long, value_name = "ID")]
    user: Option<u32>,
    /// Arguments of `cargo test`, without any: the whole workspace; after `--` those of the tests
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO ARGUMENT"
    )]
    cargo: Vec<String>,
}

/// So many tests may pass at their second run only.
const UNSTEADY_AT_MOST: usize = 3;

/// Those that take longest, the longest first, and packages whose tests take long: what is begun last is waited for.
const LONG: [&str; 13] = [
    "cli/validate_plan",
    "cli/profile",
    "cli/validate",
    "cli/random_traces",
    "cli/commands",
    "cli/virtual_bytes",
    "cli/harmless",
    "experiment/own_target",
    "cli/",
    "experiment/",
    "profile/",
    "exec/",
    "workload/",
];

/// Those that give a measurement a time to end in, or tell who waited for whom: they come when all others have ended,
/// no more at once than there are processors.
const CALM: [&str; 3] = ["cli/aged", "cli/elapsed", "profile/"];

/// One test binary and what it gave.
struct Ran {
    passed: usize,
    failed: bool,
    /// The tests that failed, if the binary could say.
    failures: Vec<String>,
    /// By test.
    not_run: BTreeMap<String, String>,
}

/// Runs all; whether that is a success.
pub fn run(args: &TestArgs) -> Result<bool> {
    let mut cargo = args.cargo.split(|argument| argument == "--");
    let (build, rest) = (
        cargo.next().unwrap_or_default(),
        cargo.next().unwrap_or_default(),
    );
    let all = ["--workspace".to_owned()];
    let build = if build.is_empty() { &all } else { build };
    let home = tempfile::Builder::new()
        .prefix("fsage-xtask-")
        .permissions(PermissionsExt::from_mode(0o755))
        .tempdir()?;
    let mut tests = Vec::new();
    for (number, part) in all_parts(build, rest)?.into_iter().enumerate() {
        let notes = home.path().join(format!("not-run-{number}"));
        let command = || command(args, &part, rest, (home.path(), &notes));
        let (mut first, again) = (command()?, command()?);
        first.args(&part.tests);
        tests.push(Test {
            command: first,
            again,
            name: part.name,
            notes,
        });
    }
    let jobs = args.jobs.unwrap_or_else(|| at_once(processors()));
    let (mut passed, mut failed, mut not_run) = (0, 0, BTreeMap::<_, Vec<_>>::new());
    let mut unsteady = Vec::new();
    let is_calm = |test: &Test| CALM.iter().any(|calm| test.name.starts_with(calm));
    let (calm, others) = tests.into_iter().partition(is_calm);
    let mut done = beside_one_another(others, jobs)?;
    done.append(&mut beside_one_another(calm, jobs.min(processors()))?);
    // What failed is run again once nothing runs beside it.
    for (mut test, ran) in done {
        passed += ran.passed;
        if ran.failed {
            let name = &test.name;
            if again(&mut test.again, name, &ran.failures)? {
                passed += ran.failures.len();
                unsteady.extend(ran.failures.iter().map(|test| format!("{name}: {test}")));
            } else {
                failed += 1;
            }
        }
        for (what, reason) in ran.not_run {
            not_run
                .entry(reason)
                .or_default()
                .push(format!("{}: {what}", test.name));
        }
    }
    let count: usize = not_run.values().map(Vec::len).sum();
    println!(
        "\n{passed} passed, {failed} test binaries failed, {count} not run{}",
        if count > 0 { ":" } else { "" }
    );
    for (reason, tests) in &not_run {
        println!("  {reason}");
        for test in tests {
            println!("    {test}");
        }
    }
    if !unsteady.is_empty() {
        println!("  passed only when run again, alone (at most {UNSTEADY_AT_MOST} may)");
    }
    for test in &unsteady {
        println!("    {test}");
    }
    Ok(failed == 0 && unsteady.len() <= UNSTEADY_AT_MOST && !(args.all && count > 0))
}

/// A test binary, or a part of one, that is to be run.
struct Test {
    command: Command,
    /// The same, but for the names of its tests.
    again: Command,
    name: String,
    /// Where it notes what could not run.
    notes: PathBuf,
}

/// How tests of a package are run, those that are named after it.
fn command(
    args: &TestArgs,
    part: &Part,
    rest: &[String],
    (home, notes): (&Path, &Path),
) -> Result<Command> {
    let mut command = Command::new(&part.binary);
    command
        .args(parts::options(rest))
        .arg("--exact")
        .current_dir(&part.package)
        .env("FSAGE_NOT_RUN", notes)
        .env("CARGO_MANIFEST_DIR", &part.package);
    if let Some(user) = args.user {
        let own = home.join("home");
        std::fs::create_dir_all(&own)?;
        chown(&own, Some(user), Some(user)).context("give a directory to another user")?;
        command.uid(user).gid(user);
        command.env("HOME", &own).env("TMPDIR", &own);
    }
    Ok(command)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many are run at once. Tests wait four tenths of their time, for clocks, disks and signals: half as many more than
/// processors took three quarters of the time, and what is disturbed by that is run again alone.
fn at_once(processors: usize) -> usize {
    processors + processors.div_ceil(2)
}

/// Runs so many at a time, each of which runs one test at a time: no processor waits for the longest test of a file.
fn beside_one_another(tests: Vec<Test>, jobs: usize) -> Result<Vec<(Test, Ran)>> {
    let waiting = Mutex::new(tests.into_iter());
    let next = || waiting.lock().ok().and_then(|mut tests| tests.next());
    let work = || -> Result<Vec<(Test, Ran)>> {
        let mut done = Vec::new();
        while let Some(mut test) = next() {
            let ran = one(&mut test.command, &test.name, &test.notes, jobs > 1)?;
            done.push((test, ran));
        }
        Ok(done)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let mut done = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(ran) => done.append(&mut ran?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(done)
    })
}

/// What cargo builds and `rest` leaves of it, in the order in which it is begun.
fn all_parts(build: &[String], rest: &[String]) -> Result<Vec<Part>> {
    let chosen = Chosen::of(build, &root())?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(root()).args(["test", "--no-run"]);
    let mut found = Vec::new();
    for message in messages(cargo.args(&chosen.build))? {
        found.append(&mut parts::of(&message, &chosen, rest)?);
    }
    found.sort_by_key(|part| {
        LONG.iter()
            .position(|long| part.name.starts_with(long))
            .unwrap_or(LONG.len())
    });
    if found.is_empty() {
        bail!("find a test: cargo test {} has none", build.join(" "));
    }
    Ok(found)
}

/// Runs one binary, its tests all at once or one by one, and tells how it went.
fn one(command: &mut Command, name: &str, notes: &Path, one_by_one: bool) -> Result<Ran> {
    std::fs::write(notes, "")?;
    // Tests may become another user.
    std::fs::set_permissions(notes, PermissionsExt::from_mode(0o666))?;
    let start = Instant::now();
    if one_by_one {
        command.env("RUST_TEST_THREADS", "1");
    }
    let ended = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {name}"))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let not_run: BTreeMap<_, _> = std::fs::read_to_string(notes)?
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(test, reason)| (test.to_owned(), reason.to_owned()))
        .collect();
    let good = passed(&said);
    let ran = Ran {
        passed: good.unwrap_or(0).saturating_sub(not_run.len()),
        failed: good.is_none() || !ended.status.success(),
        failures: failures(&said),
        not_run,
    };
    if ran.failed {
        print!("{said}");
        eprint!("{}", String::from_utf8_lossy(&ended.stderr));
        println!("{name} ended with {}", ended.status);
    }
    println!(
        "{name:<28} {:>4} passed, {:>3} not run, {:>6.1} s",
        ran.passed,
        ran.not_run.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(ran)
}

/// Runs the tests that failed once more, one at a time; whether all passed.
fn again(command: &mut Command, name: &str, failures: &[String]) -> Result<bool> {
    if failures.is_empty() || failures.len() > UNSTEADY_AT_MOST {
        return Ok(false);
    }
    let ended = command
        .env("RUST_TEST_THREADS", "1")
        .args(failures)
        .output()
        .with_context(|| format!("run {name} again"))?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let good = ended.status.success() && passed(&said) == Some(failures.len());
    if !good {
        print!("{said}");
    }
    println!(
        "{name}: {} {} when run again",
        failures.join(", "),
        if good { "passed" } else { "failed" }
    );
    Ok(good)
}

/// The tests that a binary names as failed in its last list of them.
fn failures(said: &str) -> Vec<String> {
    let Some((_, list)) = said.rsplit_once("\nfailures:\n") else {
        return Vec::new();
    };
    list.lines()
        .map_while(|line| line.strip_prefix("    "))
        .map(str::to_owned)
        .collect()
}

/// How many tests ended well, by what a binary said at its end; `None` if it said nothing.
fn passed(said: &str) -> Option<usize> {
    let line = said.rfind("test result: ")?;
    let (before, _) = said.get(line..)?.split_once(" passed")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_summary_counts() {
        let said =
            "test result: ok. 1 passed; 0 failed\nx test result: FAILED. 23 passed; 1 failed;";
        assert_eq!(passed(said), Some(23));
        assert_eq!(passed("killed"), None);
    }

    #[test]
    fn what_failed_is_run_again_alone() {
        let said = "test a ... FAILED\n\nfailures:\n\n---- m::a stdout ----\nx\n\nfailures:\n    m::a\n    b\n\n\
                    test result: FAILED. 1 passed; 2 failed;";
        assert_eq!(failures(said), ["m::a", "b"]);
        assert!(failures("killed").is_empty());
        let dir = tempfile::tempdir().unwrap();
        // Only one of them passes when it is run again.
        let script = "test \"$1\" = steady && echo 'test result: ok. 1 passed; 0 failed'";
        for (test, passes) in [("steady", true), ("broken", false)] {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).current_dir(&dir);
            assert_eq!(
                again(&mut command, "sh", &[test.to_owned()]).unwrap(),
                passes
            );
        }
        let many: Vec<_> = (0..=UNSTEADY_AT_MOST).map(|n| n.to_string()).collect();
        assert!(!again(&mut Command::new("true"), "sh", &many).unwrap());
    }

    /// A test that notes that it did not run is no passed one, in a program that is run as tests are.
    #[test]
    fn what_is_noted_did_not_pass() {
        let dir = tempfile::tempdir().unwrap();
        let script = "printf 'a::b\\tneeds root\\nc\\tneeds root\\na::b\\tneeds root\\n' >>$FSAGE_NOT_RUN; \
                      echo 'test result: ok. 5 passed; 0 failed'; exit $CODE";
        let notes = dir.path().join("notes");
        for (code, failed) in [("0", false), ("101", true)] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command.env("FSAGE_NOT_RUN", &notes).env("CODE", code);
            let ran = one(&mut command, "sh", &notes, false).unwrap();
            assert_eq!((ran.passed, ran.failed, ran.not_run.len()), (3, failed, 2));
            assert_eq!(ran.not_run["a::b"], "needs root");
        }
    }
}
