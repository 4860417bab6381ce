//! Others who are at the same place: what they mount or link in a run's directory is not touched, and of two
//! who write one result each gets what is whole, or is told.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use rustix::process::Signal;

use super::files::pick;
use super::{World, case, left};

/// What makes a directory in `target`, uses it and removes it. IN stands for what a command does in there.
const IN_TARGET: [&str; 7] = [
    "run --json postmark:files=300,transactions=3000 target",
    "run --json 'cmd: IN; sleep 0.2' target",
    "bench --json --runs 2 --cache 'as found' --target target --setup 'IN' -- true",
    "bench --json --runs 2 --cache 'as found' --target target -- 'IN; sleep 0.2'",
    "validate --json --runs 1 --profile-time 1s --workload 'cmd: IN; echo x > f' --target target",
    "replay WHOLE.fst target --speed original --json",
    "profile target --quick --max-time 1s --json -o out.fsp",
];

/// One that gets a file system of its own, which goes with what is mounted in it.
const IN_SCRATCH: &str = "run --json 'cmd: IN; sleep 0.2' scratch:ext4,size=64M";

/// Those of whom one at a time writes a result: the other is refused before it has changed anything. GO is what
/// a command waits for.
const ALONE: [(&str, &str); 3] = [
    (
        "trace --method ptrace --json -o out.fst -- sh GO",
        "out.fst",
    ),
    (
        "bench --json --runs 2 --cache 'as found' --target target -o out -- '. PLACE/GO'",
        "out",
    ),
    (
        "validate --json --runs 1 --profile-time 1s --workload 'cmd: . PLACE/GO; echo x > f' --target target -o out",
        "out",
    ),
];

/// Those whose results are put in place when they are whole: the last one stays.
const LAST: [(&str, &str); 4] = [
    (
        "run -q postmark:files=50,transactions=500 target -o out.run",
        "out.run",
    ),
    ("snapshot -q TREE -o out.fss", "out.fss"),
    (
        "profile target --quick -q --max-time 1s -o out.fsp",
        "out.fsp",
    ),
    (
        "anonymize -q WHOLE.fst --key-file KEY -o out.fst",
        "out.fst",
    ),
];

/// Two results in one file.
const DOUBLE: [&str; 2] = [
    "run postmark:files=5,transactions=10 target --trace OUT -o ./OUT",
    "replay WHOLE.fst target --trace OUT -o OUT",
];

/// What goes through a pipe that somebody reads.
const PIPED: [&str; 7] = [
    "run postmark:files=5,transactions=10 target -o OUT",
    "run postmark:files=5,transactions=10 target --trace OUT",
    "run postmark:files=5,transactions=10 --to-trace OUT",
    "replay WHOLE.fst target -o OUT",
    "replay WHOLE.fst target --trace OUT",
    "snapshot TREE -o OUT",
    "anonymize WHOLE.fst --key-file KEY -o OUT",
];

/// Until the file `go` is there, wherever the command runs.
const WAITS: &str = "until [ -e PLACE/go ]; do sleep 0.02; done";

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let place = world.place()?;
    std::fs::create_dir(place.path().join("target")).context("make a directory")?;
    match random.random_range(0..8) {
        0..=3 => foreign(world, random, place.path()),
        4..=5 => alone(world, random, place.path()),
        6 => last(world, random, place.path()),
        _ => doubled(world, random, place.path()),
    }
}

fn words(world: &World, line: &str, place: &Path) -> Vec<String> {
    let tree = world.corpus.trace.with_file_name("tree");
    let line = line
        .replace("TREE", &tree.display().to_string())
        .replace("PLACE", &place.display().to_string());
    world.corpus.words(&line, place, place)
}

/// A directory of the user's is mounted and linked in a run's directory, by its command or by somebody beside
/// it, and the run ends by itself or by a signal.
fn foreign(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let victim = place.join("victim");
    std::fs::create_dir_all(victim.join("sub")).context("make a directory")?;
    std::fs::write(victim.join("sub/file"), "theirs").context("write a file")?;
    let scratch = world.root && random.random_range(0..6) == 0;
    let line = match pick(&IN_TARGET, random) {
        Some(line) if !scratch => *line,
        _ => IN_SCRATCH,
    };
    let there = victim.display();
    let mut inside = format!("ln -s {there} link; ln -s {there}/sub/file file; mkdir m deep");
    if world.root {
        inside.push_str(&format!("; mount --bind {there} m"));
    }
    let line = line.replace("IN", &inside);
    let signal = pick(
        &[
            None,
            None,
            Some(Signal::INT),
            Some(Signal::TERM),
            Some(Signal::KILL),
        ],
        random,
    );
    let signal = signal.copied().flatten();
    let after = Duration::from_millis(random.random_range(0..1500));
    let mut command = case::fsage(world, place, &[]);
    let going = case::Going::start(world, command.args(words(world, &line, place)))?;
    let process = going.id();
    let (ran, met) = met(world, going, place, signal.map(|signal| (signal, after)))?;
    let what = format!("fsage {line}, {signal:?} after {} ms", after.as_millis());
    if let Some(wrong) = ran.wrong(signal, true) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    // What waits beside a killed one has its time.
    let stays = |name: &str| ["target", "victim", "out.fsp"].contains(&name);
    let rest = left::of(world, process, place, |name| {
        stays(name) || name == "target"
    });
    let mounted = |line: &String| line.starts_with("mount ");
    if let Some(first) = rest.iter().find(|line| !mounted(line)) {
        world.fail(&format!("{what}: left {first}"), None);
    }
    untouched(world, &victim, &what);
    left::removed(world, place);
    let target = place.join("target").display().to_string();
    let mut cleanup = case::fsage(world, place, &[]);
    let ran = case::run(
        world,
        cleanup.args(["cleanup", &target, "--only", "--yes", "--json"]),
    )?;
    if let Some(wrong) = ran.wrong(None, true) {
        world.fail(&format!("{what}, cleanup: {wrong}"), None);
    }
    untouched(world, &victim, &format!("{what}, cleanup"));
    let stays = left::names(&place.join("target"));
    if !stays.is_empty() {
        world.fail(
            &format!("{what}: cleanup left target/{}", stays.join(", target/")),
            None,
        );
    }
    let verb = line.split(' ').next().unwrap_or_default();
    world.count(&format!(
        "others: in the directory of {verb}{}",
        if met { "" } else { ", not met" }
    ));
    Ok(())
}

/// Waits for the end of a run while somebody is in its directory. Whether there was one.
fn met(
    world: &World,
    mut going: case::Going,
    place: &Path,
    signal: Option<(Signal, Duration)>,
) -> Result<(case::Ran, bool)> {
    let begun = Instant::now();
    let (mut signal, mut met) = (signal, false);
    while !going.has_ended() && begun.elapsed() < case::PATIENCE {
        met |= intrude(world, &place.join("target"), &place.join("victim"));
        if let Some((signal, _)) = signal.take_if(|(_, after)| begun.elapsed() > *after) {
            going.signal(signal);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((going.wait(case::PATIENCE)?, met))
}

/// Puts what is somebody else's into every directory that a run has made in `target`. Whether there was one.
fn intrude(world: &World, target: &Path, victim: &Path) -> bool {
    let mut met = false;
    for name in left::names(target) {
        let dir = target.join(name);
        let hole = dir.join("theirs-m");
        // It may go at any moment.
        let made = symlink(victim, dir.join("theirs")).and_then(|()| std::fs::create_dir(&hole));
        met |= made.is_ok();
        if world.root && made.is_ok() {
            let mut mount = Command::new("mount");
            mount.arg("--bind").args([victim, &hole]);
            let _ = mount.stderr(std::process::Stdio::null()).status();
        }
    }
    met
}

fn untouched(world: &mut World, victim: &Path, what: &str) {
    let file = std::fs::read(victim.join("sub/file")).unwrap_or_default();
    if left::names(victim) != ["sub"]
        || left::names(&victim.join("sub")) != ["file"]
        || file != b"theirs"
    {
        world.fail(
            &format!("{what}: what is somebody else's was touched"),
            None,
        );
    }
}

/// Two at once write one result: one of them is refused while the other goes on, and that one's is whole.
fn alone(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let (line, out) = pick(&ALONE, random).copied().unwrap_or(ALONE[0]);
    let waits = WAITS.replace("PLACE", &place.display().to_string());
    std::fs::write(place.join("GO"), waits).context("write a script")?;
    let start = |world: &World| {
        let mut command = case::fsage(world, place, &[]);
        // Two that share a target would be told of each other's load.
        case::Going::start(world, command.args(words(world, line, place)))
    };
    let mut both = [start(world)?, start(world)?];
    let processes = both.each_ref().map(case::Going::id);
    let begun = Instant::now();
    let mut first = None;
    while first.is_none() && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(5));
        first = both.iter_mut().position(case::Going::has_ended);
    }
    std::fs::write(place.join("go"), "").context("write a file")?;
    let what = format!("two of fsage {line} at once");
    let (mut codes, mut said) = (Vec::new(), String::new());
    for going in both {
        let ran = going.wait(case::PATIENCE)?;
        if let Some(wrong) = ran.wrong(None, true) {
            world.fail(&format!("{what}: {wrong}"), None);
        }
        codes.push(ran.code);
        said.push_str(&ran.stderr);
    }
    let refused = codes
        .iter()
        .filter(|code| matches!(code, Some(1 | 2)))
        .count();
    if first.is_none() || refused != 1 {
        world.fail(
            &format!("{what}: ended with {codes:?}, expected one refused at once: {said}"),
            None,
        );
    }
    whole(world, place, out, &what)?;
    let stays = |name: &str| ["target", "GO", "go", out].contains(&name);
    for process in processes {
        nothing_left(world, process, place, stays, &what);
    }
    world.count(&format!(
        "others: two of {}",
        line.split(' ').next().unwrap_or_default()
    ));
    Ok(())
}

/// Two at once write one result, which is one's or the other's: who finds that another came there meanwhile spares it and names
/// what it wrote itself, which is whole.
fn last(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let (line, out) = pick(&LAST, random).copied().unwrap_or(LAST[0]);
    let start = |world: &World| {
        let mut command = case::fsage(world, place, &[]);
        case::Going::start(world, command.args(words(world, line, place)))
    };
    let both = [start(world)?, start(world)?];
    let processes = both.each_ref().map(case::Going::id);
    let what = format!("two of fsage {line} at once");
    let mut spared = Vec::new();
    for going in both {
        let ran = going.wait(case::PATIENCE)?;
        let wrong = ran.wrong(None, false);
        let beside = beside(&ran.stderr, out);
        let good = matches!(ran.code, Some(0 | 3)) || ran.code == Some(1) && beside.is_some();
        let failed = (!good).then(|| format!("ended with {:?}: {}", ran.code, ran.stderr));
        spared.extend(beside);
        if let Some(wrong) = wrong.or(failed) {
            world.fail(&format!("{what}: {wrong}"), None);
        }
    }
    if spared.len() > 1 {
        world.fail(&format!("{what}: none is in its place"), None);
    }
    for result in spared.iter().map(String::as_str).chain([out]) {
        whole(world, place, result, &what)?;
    }
    let stays = |name: &str| ["target", out].contains(&name) || spared.iter().any(|s| s == name);
    for process in processes {
        nothing_left(world, process, place, stays, &what);
    }
    world.count(&format!(
        "others: two of {}",
        line.split(' ').next().unwrap_or_default()
    ));
    Ok(())
}

/// The name of the result that stands beside its place `out`, if it is said to.
fn beside(said: &str, out: &str) -> Option<String> {
    let (_, path) = said
        .split_once("come there meanwhile, which fsage does not replace; what fsage wrote is ")?;
    let name = Path::new(path.lines().next()?.trim())
        .file_name()?
        .to_str()?;
    name.starts_with(out).then(|| name.to_owned())
}

/// Two results in one file, or a pipe, are refused; one goes through a pipe whole.
fn doubled(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let pipe = place.join("OUT");
    let piped = random.random_range(0..2) == 0;
    let fifo = piped || random.random_range(0..2) == 0;
    let lines: &[&str] = if piped { &PIPED } else { &DOUBLE };
    let line = pick(lines, random).copied().unwrap_or_default();
    if fifo {
        let made = Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .context("run mkfifo")?;
        anyhow::ensure!(made.success(), "make a pipe");
    }
    let mut command = case::fsage(world, place, &[]);
    let going = case::Going::start(world, command.args(words(world, line, place)))?;
    let process = going.id();
    let got = place.join("got");
    let reader = piped.then(|| read_to_end(world, &pipe, &got)).transpose()?;
    let ran = going.wait(case::PATIENCE)?;
    let what = format!(
        "fsage {line}{}",
        if fifo { " where OUT is a pipe" } else { "" }
    );
    if let Some(wrong) = ran.wrong(None, false) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    if let Some(reader) = reader {
        reader.wait(Duration::from_mins(1))?;
        if ran.code != Some(0) {
            world.fail(
                &format!("{what}: ended with {:?}: {}", ran.code, ran.stderr),
                None,
            );
        }
        whole(world, place, "got", &what)?;
    } else if ran.code != Some(2) || (pipe.exists() && !fifo) {
        world.fail(
            &format!("{what}: ended with {:?}, expected it refused", ran.code),
            None,
        );
    }
    let stays = |name: &str| ["target", "OUT", "got"].contains(&name);
    nothing_left(world, process, place, stays, &what);
    world.count(if piped {
        "others: through a pipe"
    } else {
        "others: two results in one file"
    });
    Ok(())
}

fn read_to_end(world: &World, pipe: &Path, got: &PathBuf) -> Result<case::Going> {
    let mut command = Command::new("/bin/bash");
    command
        .args(["-c", "cat \"$0\" >\"$1\""])
        .arg(pipe)
        .arg(got);
    case::Going::start(world, &mut command)
}

/// The result is one that fsage shows.
fn whole(world: &mut World, place: &Path, out: &str, what: &str) -> Result<()> {
    let mut show = case::fsage(world, place, &[]);
    let shown = case::run(world, show.args(["show", out, "--json"]))?;
    if shown.code != Some(0) {
        world.fail(
            &format!("{what}: {out} is not whole: {}", shown.stderr),
            None,
        );
    }
    Ok(())
}

fn nothing_left(
    world: &mut World,
    process: u32,
    place: &Path,
    stays: impl Fn(&str) -> bool,
    what: &str,
) {
    let mut found = left::of(world, process, place, stays);
    let target = left::names(&place.join("target"));
    found.extend(target.iter().map(|name| format!("target/{name}")));
    if !found.is_empty() {
        world.fail(&format!("{what}: left {}", found.join("; ")), None);
        left::removed(world, place);
    }
}
