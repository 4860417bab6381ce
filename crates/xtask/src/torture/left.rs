//! What a run has left on the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{World, case};

/// How long what cleans up after a kill may take.
const GRACE: Duration = Duration::from_secs(20);

/// Places at which control groups of version 2 are shown.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Names in a directory; none if it is not there.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// What is left of a run of `process` in `place` once it had time to go: one line for each thing. Names that
/// `allowed` takes are results.
pub fn of(
    world: &World,
    process: u32,
    place: &Path,
    allowed: impl Fn(&str) -> bool,
) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let mut found = processes(world);
        found.extend(mounts(place));
        found.extend(loop_devices(place));
        found.extend(control_groups(process));
        found.extend(nobodys(world.seed).difference(&world.before).cloned());
        found.extend(
            names(place)
                .into_iter()
                .filter(|name| !allowed(name))
                .map(|name| format!("file {name}")),
        );
        if found.is_empty() || begun.elapsed() > GRACE {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ends what a failed case left, for the next ones' sake.
pub fn removed(world: &World, place: &Path) {
    for pid in marked(world) {
        if let Some(pid) = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    for line in mounts(place) {
        if let Some(dir) = line.strip_prefix("mount ") {
            let _ = Command::new("umount").args(["-l", dir]).status();
        }
    }
}

fn processes(world: &World) -> Vec<String> {
    marked(world)
        .into_iter()
        .map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            format!("process {pid}: {:.120}", line.trim())
        })
        .collect()
}

/// Processes of this torture that run; those that have ended and were not asked about do not count.
fn marked(world: &World) -> Vec<u32> {
    let mark = case::mark(world.seed).into_bytes();
    names(Path::new("/proc"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .filter(|pid: &u32| is_marked(&pid.to_string(), &mark))
        .collect()
}

/// Whether an entry of a process's environment begins so.
fn is_marked(pid: &str, mark: &[u8]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|&b| b == 0)
        .any(|entry| entry.starts_with(mark))
}

/// Descendants of a process, among those of this torture.
pub fn children(world: &World, process: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name between parentheses may hold anything.
        let rest = stat.rsplit_once(") ")?.1;
        rest.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let descends = |mut pid: u32| {
        while let Some(above) = parent(pid) {
            if above == process {
                return true;
            }
            if above <= 1 {
                return false;
            }
            pid = above;
        }
        false
    };
    let marked = marked(world);
    marked.into_iter().filter(|&pid| descends(pid)).collect()
}

fn mounts(place: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let below = place.display().to_string();
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|dir| dir.starts_with(&below))
        .map(|dir| format!("mount {dir}"))
        .collect()
}

fn loop_devices(place: &Path) -> Vec<String> {
    let below = place.display().to_string();
    names(Path::new("/sys/block"))
        .into_iter()
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| {
            let file = PathBuf::from(format!("/sys/block/{name}/loop/backing_file"));
            let backing = std::fs::read_to_string(file).ok()?;
            backing
                .starts_with(&below)
                .then(|| format!("loop device {name} on {}", backing.trim()))
        })
        .collect()
}

/// What is fsage's by its looks and held by no process, or by one of this torture: others who run fsage hold theirs.
pub fn nobodys(seed: u64) -> BTreeSet<String> {
    let images = nameless_images();
    let held = if images.is_empty() {
        String::new()
    } else {
        held_by_others(seed)
    };
    let devices = images
        .into_iter()
        .filter(|(device, _)| !held.lines().any(|one| one == device));
    let devices = devices.map(|(device, image)| format!("loop device {device} on {image}"));
    devices.chain(programs()).collect()
}

/// Loop devices on images that never had a name (`O_TMPFILE`, memfd), as fsage makes them.
fn nameless_images() -> Vec<(String, String)> {
    let image_of = |name: String| {
        let file = format!("/sys/block/{name}/loop/backing_file");
        let backing = std::fs::read_to_string(file).ok()?;
        let image = backing.trim().strip_suffix(" (deleted)")?;
        let (_, last) = image.rsplit_once('/')?;
        let number = last
            .strip_prefix('#')
            .is_some_and(|rest| rest.parse::<u64>().is_ok());
        let own = number || last.starts_with("memfd:fsage");
        own.then(|| (format!("/dev/{name}"), image.to_owned()))
    };
    let devices = names(Path::new("/sys/block")).into_iter();
    devices
        .filter(|name| name.starts_with("loop"))
        .filter_map(image_of)
        .collect()
}

/// What processes that this torture has not started have open, or mounted in a namespace other than this one, by lines.
fn held_by_others(seed: u64) -> String {
    let mark = case::mark(seed).into_bytes();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let (own, mut seen, mut held) = (namespace("self"), BTreeSet::new(), String::new());
    for pid in names(Path::new("/proc")) {
        if pid.parse::<u32>().is_err() || is_marked(&pid, &mark) {
            continue;
        }
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        for file in names(&files)
            .into_iter()
            .filter_map(|fd| std::fs::read_link(files.join(fd)).ok())
        {
            held.push_str(&format!("{}\n", file.display()));
        }
        let there = namespace(&pid);
        if there != own && seen.insert(there) {
            let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
            let sources = mounts.lines().filter_map(|line| line.split(' ').next());
            sources.for_each(|source| held.push_str(&format!("{source}\n")));
        }
    }
    held
}

/// Those are named after the process that made them.
fn control_groups(process: u32) -> Vec<String> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let prefix = format!("fsage-{process}-");
    let dirs: BTreeSet<PathBuf> = GROUPS
        .iter()
        .map(|base| Path::new(base).join(own.unwrap_or_default()))
        .collect();
    dirs.iter()
        .flat_map(|dir| names(dir).into_iter().map(|name| dir.join(name)))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        })
        .map(|path| format!("control group {}", path.display()))
        .collect()
}

/// Programs of the tracer that are attached and held by no process. Others' captures are not ours, whatever bpftool can say of
/// their processes; what is attached nowhere the kernel frees by itself, of trace points of calls (`fsage_enter`,
/// `fsage_exit`) only after a grace period of all tasks, which takes the longer the busier the machine is: 0.6 s after a
/// kill beside one busy process and a torture, 2 s beside eleven.
fn programs() -> Vec<String> {
    let attached: BTreeSet<u64> = shown("link")
        .iter()
        .filter_map(|link| link["prog_id"].as_u64())
        .collect();
    let own = |program: &&serde_json::Value| {
        let name = program["name"].as_str().unwrap_or_default();
        program["type"] == "tracing" && name.starts_with("fsage")
    };
    let programs = shown("prog");
    let mut suspect: Vec<&serde_json::Value> = programs.iter().filter(own).collect();
    suspect.retain(|program| {
        program["id"]
            .as_u64()
            .is_some_and(|id| attached.contains(&id))
    });
    if suspect.is_empty() {
        return Vec::new();
    }
    let held = held_programs();
    suspect
        .iter()
        .filter(|program| program["id"].as_u64().is_none_or(|id| !held.contains(&id)))
        .map(|program| format!("BPF program {} {}", program["id"], program["name"]))
        .collect()
}

/// What `bpftool` lists; nothing where it cannot.
fn shown(what: &str) -> Vec<serde_json::Value> {
    let shown = Command::new("bpftool").args([what, "show", "-j"]).output();
    let list: Option<serde_json::Value> = shown
        .ok()
        .and_then(|shown| serde_json::from_slice(&shown.stdout).ok());
    list.and_then(|list| list.as_array().cloned())
        .unwrap_or_default()
}

/// Numbers of programs that processes hold, themselves or by what attaches them.
fn held_programs() -> BTreeSet<u64> {
    let mut held = BTreeSet::new();
    for pid in names(Path::new("/proc")) {
        if pid.parse::<u32>().is_err() {
            continue;
        }
        let files = PathBuf::from(format!("/proc/{pid}/fd"));
        for fd in names(&files) {
            let file = std::fs::read_link(files.join(&fd)).unwrap_or_default();
            if !file.to_string_lossy().starts_with("anon_inode:bpf") {
                continue;
            }
            let about = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"));
            let about = about.unwrap_or_default();
            let program = about
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
            held.extend::<Option<u64>>(program);
        }
    }
    held
}
