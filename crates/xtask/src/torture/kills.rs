//! SIGKILL, SIGINT and SIGTERM at random moments of every verb that runs for a while. Nothing is left, and
//! what was finished is whole.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use rustix::process::Signal;

use super::corpus::split;
use super::files::pick;
use super::{World, case, left};

/// Something that runs for a while.
struct Long {
    /// Arguments of fsage. `{place}` is the directory that it runs in.
    line: &'static str,
    root: bool,
    /// Names that may stay: what it was asked to write, and what it was given.
    stays: &'static [&'static str],
}

const fn of(line: &'static str, root: bool, stays: &'static [&'static str]) -> Long {
    Long { line, root, stays }
}

const BUSY: &str = "cd lower; i=0; while [ $i -lt 400 ]; do echo x > f$i; cat f$i > /dev/null; rm f$i; i=$((i+1)); done";

const ALL: [Long; 32] = [
    of(
        "trace --method ptrace --json -o out.fst -- sh BUSY",
        false,
        &["out.fst"],
    ),
    of(
        "trace --method ebpf --json -o out.fst -- sh BUSY",
        true,
        &["out.fst"],
    ),
    of(
        "profile target --quick --json -o out.fsp",
        false,
        &["out.fsp"],
    ),
    of(
        "profile scratch:ext4,size=256M --quick --json -o out.fsp",
        true,
        &["out.fsp"],
    ),
    of(
        "profile scratch:ext4,size=256M,on=disk:nvme-ssd --quick --json -o out.fsp",
        true,
        &["out.fsp"],
    ),
    of(
        "bench --json --target target -o out -- sleep 0.05",
        false,
        &["out"],
    ),
    of(
        "bench --json --target scratch:ext4,size=64M,on=file:{place} -o out -- 'touch a; sync'",
        true,
        &["out"],
    ),
    of(
        "bench --json --target target -- 'setsid sleep 30 & sleep 20'",
        false,
        &[],
    ),
    of(
        "validate --json --workload postmark:files=20 --target scratch:ext4,size=64M -o out",
        true,
        &["out"],
    ),
    of(
        "validate --json --setup true --workload 'cmd: touch a' --target target -o out",
        false,
        &["out"],
    ),
    of(
        "validate --json --profile-time 1s --workload 'cmd: setsid sleep 30 & sleep 20' --target target",
        false,
        &[],
    ),
    of(
        "validate --json --profile-time 1s --workload 'cmd: setsid sleep 30 & sleep 20' --target scratch:ext4,size=64M -o out",
        true,
        &["out"],
    ),
    of(
        "run --json postmark:files=2000,transactions=50000 target",
        false,
        &[],
    ),
    of(
        "run --json postmark:files=500,transactions=5000 slow:all=2:target",
        true,
        &[],
    ),
    of(
        "run --json postmark:files=500,transactions=5000 scratch:ext4,size=128M,on=disk:nvme-ssd",
        true,
        &[],
    ),
    of(
        "run --json 'cmd: setsid sleep 30 & sleep 20' target",
        false,
        &[],
    ),
    of(
        "replay WHOLE.fst scratch:ext4,size=64M --speed original --json",
        true,
        &[],
    ),
    // What was done stays, to be gone on with.
    of(
        "age apply CORPUS/AGING.fst mounted -o out.json --json",
        false,
        &["out.json", "out.json.part"],
    ),
    of(
        "age apply CORPUS/AGING.fst scratch:ext4,size=64M --keep out.fsi --json",
        true,
        &["out.fsi"],
    ),
    of("layout CORPUS/WHOLE.fsi --json", true, &[]),
    of(
        "run --json postmark:files=300,transactions=20000 aged:CORPUS/WHOLE.fsi",
        true,
        &[],
    ),
    of(
        "run --json model:CORPUS/WHOLE.fsm,users=8 target",
        false,
        &[],
    ),
    of("run --json filerunner:CORPUS/WHOLE.cfg target", false, &[]),
    of(
        "age generate --profile home-1996 --json -o out.fst",
        false,
        &["out.fst"],
    ),
    of(
        "age keep CORPUS/raw.img --json -o out.fsi",
        false,
        &["out.fsi"],
    ),
    of("model fit WHOLE.fst --json -o out.cfg", false, &["out.cfg"]),
    of("demo --json", true, &[]),
    of(
        "run --json postmark:files=20,transactions=20 aged:CORPUS/AGING.fst,on=scratch:ext4",
        true,
        &["cache"],
    ),
    of(
        "model evaluate WHOLE.fst CORPUS/WHOLE.fsm --on target --json",
        true,
        &[],
    ),
    of(
        "model evaluate WHOLE.fst CORPUS/WHOLE.fsm --on scratch:ext4,size=64M --json",
        true,
        &[],
    ),
    of(
        "disk serve nvme-ssd --size 64M --mount mounted --json",
        true,
        &[],
    ),
    of("slowfs lower mounted --slow read=2 --json", true, &[]),
];

/// What a case itself makes.
const GIVEN: [&str; 4] = ["target", "lower", "mounted", "BUSY"];

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let can = |long: &&Long| {
        let image = long.line.contains("WHOLE.fsi") || long.line.contains("raw.img");
        (world.root || !long.root) && (world.corpus.image || !image)
    };
    let can: Vec<&Long> = ALL.iter().filter(can).collect();
    let Some(&long) = pick(&can, random) else {
        return Ok(());
    };
    let signal = pick(&[Signal::KILL, Signal::INT, Signal::TERM], random).copied();
    let signal = signal.unwrap_or(Signal::KILL);
    // Most of the harm is at the beginning and the end of things.
    let after = Duration::from_micros(match random.random_range(0..3) {
        0 => random.random_range(0..80_000),
        1 => random.random_range(0..600_000),
        // Its commands run when its profiles are done.
        _ if long.line.starts_with("validate") => random.random_range(0..9_000_000),
        _ => random.random_range(0..4_000_000),
    });
    let place = world.place()?;
    for dir in ["target", "lower", "mounted"] {
        std::fs::create_dir(place.path().join(dir)).context("make a directory")?;
    }
    std::fs::write(place.path().join("lower/file"), "text").context("write a file")?;
    std::fs::write(place.path().join("BUSY"), BUSY).context("write a script")?;
    killed(world, long, signal, after, place.path())?;
    Ok(())
}

fn killed(
    world: &mut World,
    long: &Long,
    signal: Signal,
    after: Duration,
    place: &Path,
) -> Result<()> {
    let line = long
        .line
        .replace("{place}", &place.display().to_string())
        .replace("CORPUS", &world.corpus.dir().display().to_string());
    let words: Vec<String> = split(&line)
        .into_iter()
        .map(|word| word.replace("WHOLE.fst", &world.corpus.trace.display().to_string()))
        .collect();
    let mut command = case::fsage(world, place, &[]);
    let mut going = case::Going::start(world, command.args(&words))?;
    let process = going.id();
    let begun = Instant::now();
    while begun.elapsed() < after && !going.has_ended() {
        std::thread::sleep(Duration::from_millis(1).min(after));
    }
    going.signal(signal);
    let ran = going.wait(Duration::from_mins(1))?;
    let name = name_of(signal);
    let what = format!("fsage {line}, {name} after {} ms", after.as_millis());
    if let Some(wrong) = ran.wrong(Some(signal), true) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    if ran.line_is_wrong() {
        world.fail(&format!("{what}: no line of fsage's"), None);
    }
    let stays = |name: &str| GIVEN.contains(&name) || long.stays.contains(&name);
    let mut found = left::of(world, process, place, stays);
    // Of an image that a first use makes all is there, or nothing.
    let images = left::names(&place.join("cache/fsage/aged"));
    let whole = |name: &str| {
        std::path::Path::new(name)
            .extension()
            .is_some_and(|e| e == "fsi")
    };
    let parts = images.iter().filter(|name| !whole(name));
    found.extend(parts.map(|name| format!("cache/{name}")));
    found.extend(
        left::names(&place.join("target"))
            .iter()
            .map(|n| format!("target/{n}")),
    );
    if !found.is_empty() {
        world.fail(&format!("{what}: left {}", found.join("; ")), None);
        left::removed(world, place);
    }
    let verb = line.split(' ').next().unwrap_or_default();
    world.count(&format!("kills: {verb}, {name}"));
    Ok(())
}

fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::TERM => "SIGTERM",
        _ => "SIGKILL",
    }
}
