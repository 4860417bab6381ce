//! Disks that are full or die, and limits of a process: an error is told, the former result stays, nothing is
//! left behind.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::files::pick;
use super::{World, case, left};

/// What writes a file `{out}`; it is to be whole afterwards, or what it was.
const WRITERS: [&str; 13] = [
    "run postmark:files=5,transactions=10 target -o {out}",
    "run postmark:files=50,transactions=20000 --to-trace {out}",
    "snapshot TREE -o {out}",
    "trace --method ptrace -o {out} -- sh -c 'cat /etc/passwd >/dev/null'",
    "replay WHOLE.fst target -o {out}",
    "anonymize WHOLE.fst --key-file KEY -o {out}",
    "export WHOLE.fst --to strace -o {out}",
    "export WHOLE.fst --to csv -o {out}",
    "export WHOLE.fsp --to hbench -o {out}",
    "predict WHOLE.fst --on WHOLE.fsp --annotate {out}",
    "age generate --profile mail --size 16M --days 2 -o {out}",
    "age short-lived WHOLE.fst -o {out}",
    "model fit WHOLE.fst -o {out}",
];

/// What a limit may meet.
const LIMITED: [&str; 29] = [
    "show WHOLE.fst --json",
    "predict WHOLE.fst --on WHOLE.fsp --json",
    "replay WHOLE.fst target --json",
    "run postmark:files=20,transactions=50 target --json",
    "bench --runs 3 --json --target target -- true",
    "trace --method ptrace --json -o out.fst -- true",
    "snapshot TREE -o out.fss --json",
    "export WHOLE.fst --to csv -o out.csv --json",
    "import CORPUS/WHOLE.strace --from strace -o out.fst --json",
    "anonymize WHOLE.fst --key-file KEY -o out.fst --json",
    "profile target --quick --only STAT --max-time 1s -o out.fsp --json",
    "validate --runs 1 --profile-time 1s --workload postmark:files=5 --target target -o out --json",
    "validate --runs 1 --profile-time 1s --workload 'cmd: (cat /etc/passwd; true) > f' --target target --json",
    "compare CORPUS/bench --json",
    "check CORPUS/WHOLE.run --json",
    "run 'cmd: (sleep 0.1; true) & sleep 0.1' target --json",
    "cleanup target --only --json",
    "disk show hdd-7200 --json",
    "age apply CORPUS/AGING.fst mounted --json",
    "age generate --profile mail --size 16M --days 2 -o out.fst --json",
    "age short-lived WHOLE.fst -o out.toml --json",
    "age generate --from-snapshots NIGHTS --short-lived CORPUS/short.toml -o out.fst --json",
    "model fit WHOLE.fst -o out.fsm --json",
    "model fit WHOLE.fst -o out.cfg --json",
    "run model:CORPUS/WHOLE.fsm,think=false target --json",
    "run filerunner:CORPUS/WHOLE.cfg target --json",
    "layout target --json",
    "disk serve nvme-ssd --size 64M --mount mounted --json",
    "slowfs lower mounted --slow read=2 --json",
];

/// Those that go on until they are asked to stop.
fn serves(line: &str) -> bool {
    line.starts_with("disk serve") || line.starts_with("slowfs")
}

/// What fsage may take the place of by what a line writes: a file of the same kind.
fn former(line: &str) -> Vec<u8> {
    let text = match line {
        _ if line.contains("--to strace") => {
            "strace: made by fsage (export --to strace), not recorded\n"
        }
        // Whose first line is long: an empty file is replaced by all.
        _ if line.contains("--to csv") => "",
        _ if line.contains("--to hbench") => "# slow\nBC 8192\nLUS_BC 0.004\n",
        _ if line.starts_with("model") => "format = \"fsm\"\n",
        _ if line.contains("short-lived") => "format = \"fsage short-lived files\"\n",
        _ if line.starts_with("replay") => "{\"format\":\"fsage replay\"}",
        _ if line.starts_with("run") && !line.contains("--to-trace") => {
            "{\"format\":\"fsage run\"}"
        }
        _ => "PAR1FSGPIECE and damage",
    };
    text.into()
}

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let place = world.place()?;
    std::fs::create_dir(place.path().join("target")).context("make a directory")?;
    match random.random_range(0..8) {
        0..=2 if world.root => full(world, random, place.path()),
        3 if world.root => dead(world, random, place.path()),
        4 => closed(world, random, place.path()),
        _ => limited(world, random, place.path()),
    }
}

fn words(world: &World, line: &str, out: &Path) -> Vec<String> {
    let dir = world
        .corpus
        .trace
        .with_file_name("tree")
        .display()
        .to_string();
    let corpus = world.corpus.trace.with_file_name("");
    let line = line
        .replace("TREE", &dir)
        .replace("CORPUS/", &corpus.display().to_string())
        .replace("{out}", &out.display().to_string());
    world.corpus.words(&line, out, out)
}

/// The disk of the result is full, at any byte of it. A former result is as it was, or replaced by a whole one.
fn full(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let disk = place.join("disk");
    std::fs::create_dir(&disk).context("make a directory")?;
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k,mode=755", "fsage-torture"])
        .arg(&disk)
        .status()
        .context("run mount")?;
    if !mounted.success() {
        world.count("faults: not run, mount refused");
        return Ok(());
    }
    let line = pick(&WRITERS, random).copied().unwrap_or_default();
    let out = disk.join(match line {
        _ if line.contains("snapshot") => "out.fss",
        _ if line.starts_with("model") => "out.fsm",
        _ => "out.fst",
    });
    let room = random.random_range(0..30) * 4096;
    let former = former(line);
    let filled = std::fs::write(&out, &former)
        .and_then(|()| std::fs::write(disk.join("filler"), vec![1; (120 << 10) - room]));
    filled.context("fill a disk")?;
    let mut command = case::fsage(world, place, &[]);
    let ran = case::run(world, command.args(words(world, line, &out)))?;
    let what = format!("fsage {line} on a disk with {room} bytes left");
    if let Some(wrong) = ran.wrong(None, false) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    let after = std::fs::read(&out).unwrap_or_default();
    // Of a trace or a profile what was measured is kept, and said to be cut.
    let keeps = line.starts_with("trace") || line.contains("--to-trace");
    if ran.code == Some(0) && after == former {
        world.fail(&format!("{what}: done, but nothing was written"), None);
    }
    if ran.code != Some(0) && after != former && !keeps {
        world.fail(
            &format!("{what}: the former result is gone ({} bytes)", after.len()),
            None,
        );
    }
    for stray in left::names(&disk) {
        if !["out.fst", "out.fss", "out.fsm", "filler"].contains(&stray.as_str()) {
            world.fail(&format!("{what}: left {stray}"), None);
        }
    }
    let unmounted = Command::new("umount")
        .arg(&disk)
        .status()
        .context("run umount")?;
    if !unmounted.success() {
        world.fail(&format!("{what}: the disk stays busy"), None);
        left::removed(world, place);
    }
    world.count("faults: full disk");
    Ok(())
}

/// The server of an emulated disk is killed beneath a run: that is no success.
fn dead(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let kind = pick(&["ext4", "xfs", "btrfs"], random)
        .copied()
        .unwrap_or("ext4");
    let spec = format!("scratch:{kind},size=512M,on=disk:nvme-ssd");
    let workload = "postmark:files=2000,transactions=200000";
    let mut command = case::fsage(world, place, &[]);
    let mut going = case::Going::start(world, command.args(["run", "--json", workload, &spec]))?;
    let process = going.id();
    let wait = Duration::from_millis(random.random_range(200..3000));
    let begun = Instant::now();
    let mut server = None;
    while !going.has_ended() && server.is_none() {
        if begun.elapsed() > wait {
            server = serving(world, process);
        }
        if begun.elapsed() > Duration::from_secs(30) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = server
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = killed {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    } else {
        going.signal(rustix::process::Signal::TERM);
    }
    let ended_before = going.has_ended();
    let ran = going.wait(Duration::from_mins(2))?;
    let sent = killed.is_none().then_some(rustix::process::Signal::TERM);
    let what = format!("the server of {spec} killed after {} ms", wait.as_millis());
    if let Some(wrong) = ran.wrong(sent, true) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    if killed.is_some() && !ended_before && ran.code == Some(0) {
        world.fail(&format!("{what}: success on a dead disk"), None);
    }
    let found = left::of(world, process, place, |name| name == "target");
    if !found.is_empty() {
        world.fail(&format!("{what}: left {}", found.join("; ")), None);
        left::removed(world, place);
    }
    world.count(if killed.is_some() {
        "faults: dead disk"
    } else {
        "faults: dead disk, but nobody served"
    });
    Ok(())
}

/// The child of `process` that holds `/dev/fuse`.
fn serving(world: &World, process: u32) -> Option<u32> {
    left::children(world, process).into_iter().find(|pid| {
        left::names(Path::new(&format!("/proc/{pid}/fd")))
            .iter()
            .any(|fd| {
                std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
                    .is_ok_and(|file| file == Path::new("/dev/fuse"))
            })
    })
}

/// Limits of the process: files, sizes, memory.
fn limited(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    for dir in ["lower", "mounted"] {
        std::fs::create_dir(place.join(dir)).context("make a directory")?;
    }
    let limit = match random.random_range(0..4) {
        0 => format!("-n {}", random.random_range(3..40)),
        1 => format!("-f {}", random.random_range(0..16)),
        2 if world.root => format!("-u {}", random.random_range(1..24)),
        _ => format!("-v {}", random.random_range(60..400) << 10),
    };
    let line = pick(&LIMITED, random).copied().unwrap_or_default();
    let out = place.join("out");
    let mut command = case::fsage(world, place, &[&limit]);
    if limit.starts_with("-u") {
        command = case::as_nobody(world, &command, place)?;
    }
    let mut going = case::Going::start(world, command.args(words(world, line, &out)))?;
    let process = going.id();
    let sent = serves(line).then_some(rustix::process::Signal::TERM);
    if let Some(signal) = sent {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) && !going.has_ended() {
            std::thread::sleep(Duration::from_millis(10));
        }
        going.signal(signal);
    }
    let ran = going.wait(case::PATIENCE)?;
    let what = format!("fsage {line} under ulimit {limit}");
    // No room, or no descriptors, for the program itself: the loader or the allocator of threads ends it.
    let memory = limit.starts_with("-v");
    let loaded = !ran.stderr.contains("error while loading shared libraries");
    // Stdout is a file, and may be cut by the limit; then that is an error.
    let whole = !limit.starts_with("-f") || ran.code == Some(0);
    if let Some(wrong) = ran.wrong(sent, whole) {
        let early = memory && (ran.code == Some(127) || wrong.contains("memory allocation of"));
        if early || !loaded {
            world.count("faults: too little to run at all");
        } else {
            world.fail(&format!("{what}: {wrong}"), None);
        }
    }
    if ran.line_is_wrong() {
        world.fail(&format!("{what}: no line of fsage's"), None);
    }
    let given = ["target", "lower", "mounted", "out"];
    let stays = |name: &str| given.contains(&name) || name.starts_with("out.");
    let mut found = left::of(world, process, place, stays);
    found.extend(
        left::names(&place.join("target"))
            .iter()
            .map(|n| format!("target/{n}")),
    );
    if !found.is_empty() {
        world.fail(&format!("{what}: left {}", found.join("; ")), None);
        left::removed(world, place);
    }
    let kind = limit.split(' ').next().unwrap_or_default().to_owned();
    world.count(&format!("faults: ulimit {kind}"));
    Ok(())
}

/// Stdout that takes nothing is an error, and no hang.
fn closed(world: &mut World, random: &mut Pcg64Mcg, place: &Path) -> Result<()> {
    let line = pick(&LIMITED, random).copied().unwrap_or_default();
    let out = place.join("out");
    let program = world.program.display().to_string();
    let arguments = words(world, line, &out);
    let mut command = Command::new("/bin/bash");
    let redirect = pick(&[">/dev/full", ">&-", "<&-"], random)
        .copied()
        .unwrap_or_default();
    command
        .args(["-c", &format!("exec \"$@\" {redirect}"), "bash", &program])
        .args(arguments)
        .current_dir(place)
        .env("TMPDIR", place)
        .env(case::MARK, case::seed_mark(world.seed));
    let ran = case::run(world, &mut command)?;
    let what = format!("fsage {line} {redirect}");
    if let Some(wrong) = ran.wrong(None, true) {
        world.fail(&format!("{what}: {wrong}"), None);
    }
    if redirect == ">/dev/full" && ran.code == Some(0) {
        world.fail(
            &format!("{what}: success, though nothing could be printed"),
            None,
        );
    }
    world.count("faults: closed or full stdout, stdin");
    Ok(())
}
