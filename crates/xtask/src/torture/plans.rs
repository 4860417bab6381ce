//! Plans from strangers: what names a device, a command or a file elsewhere, or more than anybody runs, is
//! refused unless it was allowed, and nothing has happened then.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::files::pick;
use super::{World, case, left};

/// Commands that would leave a sign.
const COMMANDS: [&str; 5] = [
    "touch ../../sign",
    "touch OTHER/sign",
    "true; touch OTHER/sign",
    "$(touch OTHER/sign)",
    "\\ntouch OTHER/sign\\n",
];

/// Targets that a plan may not name by itself.
const TARGETS: [&str; 18] = [
    "OTHER",
    "../other",
    "./../plans/../../other",
    "link",
    "link/sub",
    "/",
    "/dev",
    "/dev/loop0",
    "/dev/mem",
    "/proc/self/root",
    "scratch:ext4,size=64M,on=file:OTHER",
    "scratch:ext4,size=64M,on=file:link",
    "scratch:ext4,size=64M,mkfs=OTHER/sign",
    "scratch:ext4,size=64M,mkfs=-J device=/dev/loop0",
    "scratch:xfs,size=300M,mount=logdev=/dev/loop0",
    "slow:read=2:OTHER",
    "slow:read=2:slow:write=2:link",
    "mem:OTHER/costs.toml",
];

/// Workloads that read what is somebody else's.
const WORKLOADS: [&str; 4] = [
    "wml:OTHER/script.f",
    "wml:link/script.f",
    "wml:/dev/zero",
    "wml:/proc/self/environ",
];

/// States that read what is somebody else's, of `bench` alone.
const STATES: [&str; 4] = [
    "image:/dev/loop0",
    "image:OTHER/image",
    "snapshot:link/tree.fss",
    "image:{x}",
];

/// Longer than it takes to refuse a plan, on a busy machine.
const SOON: Duration = Duration::from_secs(40);

pub fn case(world: &mut World, random: &mut Pcg64Mcg) -> Result<()> {
    let place = world.place()?;
    let place = place.path();
    let (plans, other) = (place.join("plans"), place.join("other"));
    std::fs::create_dir_all(plans.join("t")).context("make a directory")?;
    std::fs::create_dir_all(other.join("sub")).context("make a directory")?;
    symlink("../other", plans.join("link")).context("make a link")?;
    let there = other.display().to_string();
    let (kind, text) = hostile(random);
    let plan = plans.join("plan.toml");
    std::fs::write(&plan, text.replace("OTHER", &there)).context("write a plan")?;
    let verb = pick(&["bench", "validate"], random)
        .copied()
        .unwrap_or("bench");
    let mut command = case::fsage(world, &plans, &[]);
    command.args([verb, "plan.toml", "--json"]);
    if random.random_range(0..2) == 0 {
        command.args(["-o", "out"]);
    }
    let going = case::Going::start(world, &mut command)?;
    let process = going.id();
    let ran = going.wait(SOON)?;
    let what = format!("fsage {verb} of a plan with {kind}");
    let wrong = ran.wrong(None, true).or_else(|| {
        let refused = matches!(ran.code, Some(1 | 2));
        (!refused).then(|| format!("ended with {:?}, expected it refused", ran.code))
    });
    let named = !ran.stderr.trim().is_empty();
    let wrong = wrong.or_else(|| (!named).then(|| "says nothing of why".to_owned()));
    if let Some(wrong) = wrong {
        world.fail(&format!("{what}: {wrong}"), Some(&plan));
    }
    let mut found = left::of(world, process, &plans, |name| {
        ["t", "link", "plan.toml"].contains(&name)
    });
    found.extend(there_is(&other, &["sub"]));
    found.extend(there_is(&plans.join("t"), &[]));
    found.extend(there_is(place, &["other", "plans"]));
    if !found.is_empty() {
        world.fail(&format!("{what}: left {}", found.join("; ")), Some(&plan));
        left::removed(world, place);
    }
    world.count(&format!("plans: with {kind}"));
    Ok(())
}

/// What is in a directory besides what was.
fn there_is(dir: &Path, expected: &[&str]) -> Vec<String> {
    let names = left::names(dir).into_iter();
    names
        .filter(|name| !expected.contains(&name.as_str()))
        .map(|name| format!("file {}", dir.join(name).display()))
        .collect()
}

/// A plan, and what is wrong with it.
fn hostile(random: &mut Pcg64Mcg) -> (&'static str, String) {
    let (mut target, mut workload, mut more) =
        ("t", "postmark:files=5,transactions=5", String::new());
    let mut state = "";
    let mut draw = |all: &[&'static str]| pick(all, random).copied().unwrap_or_default();
    let kind = draw(&[
        "commands",
        "a setup",
        "targets",
        "workloads",
        "states",
        "sweeps",
        "counts",
    ]);
    let command;
    match kind {
        "commands" => {
            command = format!("cmd: {}", draw(&COMMANDS));
            workload = &command;
        }
        "a setup" => {
            let line = draw(&COMMANDS);
            if draw(&["one", "all"]) == "all" {
                return (
                    kind,
                    format!("setup = \"{line}\"\n{}", plan(target, "", workload, "")),
                );
            }
            more = format!("setup = \"{line}\"\n");
        }
        "targets" => target = draw(&TARGETS),
        "workloads" => workload = draw(&WORKLOADS),
        "states" => {
            (target, state) = ("scratch:ext4,size=64M", draw(&STATES));
        }
        "sweeps" => more = sweep(random),
        _ => {
            return (
                kind,
                format!("{}\n{}", count(random), plan(target, "", workload, "")),
            );
        }
    }
    (kind, plan(target, state, workload, &more))
}

fn plan(target: &str, state: &str, workload: &str, more: &str) -> String {
    let state = if state.is_empty() {
        String::new()
    } else {
        format!("state = \"{state}\"\n")
    };
    format!("[[target]]\nspec = \"{target}\"\n{state}[[workload]]\nspec = \"{workload}\"\n{more}")
}

/// More combinations than anybody runs: by one list, by many, by long ones.
fn sweep(random: &mut Pcg64Mcg) -> String {
    let list = |from: u32, count: u32| {
        let values: Vec<String> = (from..from + count)
            .map(|value| value.to_string())
            .collect();
        values.join(", ")
    };
    match random.random_range(0..4) {
        0 => format!(
            "[workload.sweep]\nfiles = [{}]\n",
            list(1, random.random_range(1001..200_000))
        ),
        1 => format!(
            "[workload.sweep]\nsubdirs = [{0}]\nread = [{0}]\nwrite = [{0}]\n",
            list(1, 500)
        ),
        2 => {
            let keys: Vec<String> = (0..64).map(|key| format!("k{key} = [1, 2]")).collect();
            format!("[workload.sweep]\n{}\n", keys.join("\n"))
        }
        _ => {
            let one = "[[workload]]\nspec = \"postmark:files=5\"\n";
            one.repeat(random.random_range(1001..20_000))
        }
    }
}

/// Counts, times and names without sense.
fn count(random: &mut Pcg64Mcg) -> String {
    let all = [
        "runs = 0",
        "runs = -1",
        "runs = 9223372036854775807",
        "runs = 1e308",
        "runs = nan",
        "profile_time = \"-1s\"",
        "budget = \"1e300h\"",
        "seed = -1",
        "cache = \"warm 99999999999999999999\"",
        "output = \"/etc/passwd\"",
        "runs = 1\nruns = 2",
    ];
    let nested = format!("cache = {}{}", "[".repeat(50_000), "]".repeat(50_000));
    match random.random_range(0..12) {
        0 => nested,
        at => all[(at - 1) % all.len()].to_owned(),
    }
}
