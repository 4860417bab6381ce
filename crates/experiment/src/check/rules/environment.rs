//! Section 3.2 and the testbed of 3.5: in what state the system was, and what it is.

use fsage_format::result::environment::{MachineRecord, TargetRecord};

use super::{Answer, Evidence, Found, NOISY, mib, names, percent, split};
use crate::check::evidence::TargetEvidence;

/// Marks of runs that are told one by one.
const TOLD_MARKS: usize = 2;

pub(in crate::check) fn cache_state(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for cell in &e.cells {
        let name = &cell.name;
        match (cell.cache.as_deref(), cell.cold) {
            (None, _) => found.lacks(format!("{name}: what the caches held")),
            (Some("as found"), _) => {
                found.lacks(format!(
                    "{name}: a state that was set: the caches were as found"
                ));
            }
            (Some(_), Some((_, 0))) => found.lacks(format!("{name}: a run that shows it")),
            (Some(_), Some((shown, all))) if shown == all => {
                found.has(format!(
                    "{name}: cold, and shown to be in each of {all} runs"
                ));
            }
            (Some(_), Some((shown, all))) => {
                found.has(format!("{name}: cold"));
                found.lacks(format!(
                    "{name}: evidence of cold caches in {} of {all} runs",
                    all - shown
                ));
            }
            (Some(state), None) => found.has(format!("{name}: {state}")),
        }
    }
    found.answer()
}

pub(in crate::check) fn zcav(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for target in &e.targets {
        match target.record.as_ref().map(place) {
            Some(Ok(place)) => found.has(format!("{}: {place}", target.name)),
            Some(Err(lacks)) => found.lacks(format!("{}: {lacks}", target.name)),
            None => found.lacks(format!("{}: its device", target.name)),
        }
    }
    found.answer()
}

/// Where the data lies, or what is not known of that.
fn place(record: &TargetRecord) -> Result<String, String> {
    if let Some(disk) = &record.emulated {
        return Ok(format!("emulated disk {}, span {}", disk.model, disk.span));
    }
    let Some(bottom) = record.devices.last() else {
        let kind = record
            .file_system
            .as_deref()
            .unwrap_or("unknown file system");
        return match kind {
            "tmpfs" | "ramfs" => Ok(format!("{kind}: memory has no zones")),
            _ => Err(format!("the device beneath {kind}")),
        };
    };
    if bottom.is_memory() {
        return Ok("in memory, which has no zones".to_owned());
    }
    if bottom.rotational == Some(false) && bottom.kind != "loop" {
        return Ok(format!("{} does not rotate: it has no zones", bottom.name));
    }
    if record.devices.iter().any(|d| d.kind == "loop") {
        return Err(format!(
            "where on {} the image of the loop device lies",
            bottom.name
        ));
    }
    let partition = record.devices.iter().find(|d| d.kind == "partition");
    if let Some((p, start, disk)) = partition.and_then(|p| Some((p, p.start_bytes?, p.disk_bytes?)))
    {
        let from = start as f64 / disk.max(1) as f64;
        let to = (start + p.size_bytes.unwrap_or(0)) as f64 / disk.max(1) as f64;
        return Ok(format!(
            "{} lies on its disk from {} to {} of {}",
            p.name,
            percent(from),
            percent(to),
            mib(disk)
        ));
    }
    if bottom.kind == "disk" {
        return Ok(format!(
            "all of {}, {}",
            bottom.name,
            mib(bottom.size_bytes.unwrap_or(0))
        ));
    }
    Err(format!("where on its disk {} lies", bottom.name))
}

pub(in crate::check) fn aging(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for target in &e.targets {
        let record = target.record.as_ref();
        let aged = record.and_then(|r| r.aged.as_deref());
        let fresh = target.was_temporary();
        let image = record.and_then(|r| r.restored.as_ref());
        if let Some(restored) = image {
            let digest = restored.sha256.get(..16).unwrap_or(&restored.sha256);
            let laid_out = match restored.kind.as_str() {
                "snapshot" => ", which is laid out anew",
                _ => "",
            };
            found.has(format!(
                "{}: before every run restored from the {} {} (SHA-256 {digest}…){laid_out}",
                target.name, restored.kind, restored.file
            ));
        }
        let image = image.filter(|r| r.kind == "image");
        match (aged, fresh) {
            (Some(how), _) => found.has(format!("{}: aged by {how}", target.name)),
            (None, _) if image.is_some() => found.lacks(format!(
                "{}: how the image was aged (`aged` of the plan's target)",
                target.name
            )),
            (None, true) => found.has(format!("{}: fresh, not aged", target.name)),
            (None, false) => found.lacks(format!("{}: how it was used before", target.name)),
        }
    }
    found.answer()
}

pub(in crate::check) fn other_processes(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let load = e.machine.as_ref().map(|m| &m.load);
    match load.and_then(|l| l.busy) {
        Some(busy) if busy > NOISY => {
            let busiest = load.iter().flat_map(|l| &l.busiest);
            let mut who: Vec<&str> = Vec::new();
            for process in busiest {
                if !who.contains(&process.name.as_str()) {
                    who.push(&process.name);
                }
            }
            let who = if who.is_empty() {
                String::new()
            } else {
                format!(" ({})", who.join(", "))
            };
            found.lacks(format!(
                "a quiet machine: others used {} of the processors at the start{who}",
                percent(busy)
            ));
        }
        Some(busy) => found.has(format!(
            "others used {} of the processors at the start",
            percent(busy)
        )),
        None => match load.and_then(|l| l.average) {
            Some((one, _, _)) => found.has(format!("load average {one} at the start")),
            None => found.lacks("the load at the start"),
        },
    }
    if let Some(users) = load.and_then(|l| l.users) {
        if users == 0 {
            found.has("nobody was logged in");
        } else {
            found.lacks(format!("a machine of its own: {users} logins at the start"));
        }
    }
    for cell in e.cells.iter().filter(|c| c.marked > 0) {
        found.lacks(format!(
            "{}: {} of {} undisturbed: {}",
            cell.name,
            cell.runs - cell.marked.min(cell.runs),
            cell.runs,
            few(&cell.marks)
        ));
    }
    found.answer()
}

/// The first of several, and how many there are more.
fn few(all: &[String]) -> String {
    let first: Vec<&str> = all.iter().take(TOLD_MARKS).map(String::as_str).collect();
    let more = match all.len() - first.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    first.join("; ") + &more
}

pub(in crate::check) fn configurations_described(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for target in &e.targets {
        match &target.record {
            None => found.lacks(format!("{}: everything but its name", target.name)),
            Some(record) => described(target, record, &mut found),
        }
    }
    let (reported, _, untold) = split(e, |c| c.cache.as_ref().map(|_| true));
    if !reported.is_empty() {
        found.has(format!("state of the caches: {}", names(&reported)));
    }
    if !untold.is_empty() {
        found.lacks(format!("state of the caches: {}", names(&untold)));
    }
    found.answer()
}

fn described(target: &TargetEvidence, record: &TargetRecord, found: &mut Found) {
    let name = &target.name;
    let lacks = |what: &str| format!("{name}: {what}");
    found.expect(
        &lacks("the file system's type"),
        record.file_system.as_ref(),
        |kind| format!("{name}: {kind}"),
    );
    found.expect(
        &lacks("mount options"),
        record.mount_options.as_ref(),
        |o| format!("{name}: mounted with {o}"),
    );
    let virtual_kind = record.devices.is_empty();
    match &record.mkfs {
        Some(made) => {
            found.has(format!("{name}: {} {}", made.program, made.options));
            found.expect(&lacks("the version of mkfs"), made.version.as_ref(), |v| {
                format!("{name}: {v}")
            });
        }
        None if !record.parameters.is_empty() => {
            found.has(format!(
                "{name}: {} parameters of the file system",
                record.parameters.len()
            ));
        }
        // Nothing makes a tmpfs or an NFS mount.
        None if virtual_kind => {}
        None => found.lacks(lacks("mkfs options or the file system's parameters")),
    }
}

/// What a testbed's description needs of the machine: its name and where it is.
type Field = (&'static str, fn(&MachineRecord) -> Option<String>);

const MACHINE: &[Field] = &[
    ("the processor's model", |m| m.processor.model.clone()),
    ("the number of processors", |m| {
        Some(format!("{} processors", m.processor.cpus?))
    }),
    ("the size of memory", |m| {
        Some(format!("{} of memory", mib(m.memory.total_bytes?)))
    }),
    ("the kernel's release", |m| {
        Some(format!("Linux {}", m.kernel.release.as_ref()?))
    }),
    ("the kernel's command line", |m| {
        m.kernel
            .command_line
            .as_ref()
            .map(|_| "the kernel's command line".to_owned())
    }),
    ("the distribution", |m| m.distribution.clone()),
    ("the mitigations", |m| {
        let count = m.processor.mitigations.len();
        (count > 0).then(|| format!("{count} states of mitigations"))
    }),
    ("the frequency governor (or that there is none)", |m| {
        match (
            &m.processor.governor,
            &m.hypervisor,
            &m.processor.frequency_driver,
        ) {
            (Some(governor), _, _) => Some(format!("governor {governor}")),
            (None, Some(hypervisor), _) => {
                Some(format!("no governor: {hypervisor} sets the frequency"))
            }
            (None, None, Some(_)) => None,
            // Recorded in full, and without a driver there is nothing that scales.
            (None, None, None) => {
                (m.distribution.is_some()).then(|| "no frequency scaling".to_owned())
            }
        }
    }),
    ("when dirty pages are written", |m| {
        Some(format!(
            "dirty pages expire after {} ms",
            m.write_back.dirty_expire_ms?
        ))
    }),
    ("versions of tools and libraries", |m| {
        let reported = m.tools.iter().filter(|t| t.version.is_some()).count();
        (reported > 0).then(|| format!("versions of {reported} tools"))
    }),
];

pub(in crate::check) fn testbed(e: &Evidence) -> Answer {
    let mut found = Found::default();
    match &e.machine {
        None => found.lacks("the machine: this result does not tell it"),
        Some(machine) => {
            for (name, value) in MACHINE {
                found.expect(name, value(machine), |v| v);
            }
        }
    }
    for target in &e.targets {
        for device in target.record.iter().flat_map(|r| &r.devices) {
            let name = format!("{} of {}", device.name, target.name);
            let reported = [
                ("I/O scheduler", device.scheduler.clone()),
                (
                    "read-ahead",
                    device.read_ahead_bytes.map(|b| format!("{} KiB", b / 1024)),
                ),
            ];
            for (what, value) in reported {
                // A partition has its disk's.
                if device.kind == "partition" && value.is_none() {
                    continue;
                }
                found.expect(&format!("{what} of {name}"), value, |v| {
                    format!("{name}: {what} {v}")
                });
            }
            if device.kind == "disk" {
                found.expect(&format!("model of {name}"), device.model.as_ref(), |m| {
                    format!("{name}: {m}")
                });
            }
        }
    }
    found.answer()
}
