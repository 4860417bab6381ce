//! The environment as the paragraph that a paper needs (Traeger 2007, section 6 is the pattern).

use fsage_format::result::environment::{
    DeviceRecord, MachineRecord, MkfsRecord, ProcessorRecord, TargetRecord,
};

use crate::units;

/// What is said where time is computed, so that nobody takes it for the machine's.
pub(crate) const VIRTUAL: &str =
    "its time is virtual: computed from the target's stated costs, not measured on this machine";

/// The same of several targets, by the names of those of which it is true: all of `targets`, or some.
pub(crate) fn virtual_among<'a>(
    targets: impl IntoIterator<Item = (&'a str, bool)>,
) -> Option<String> {
    let (mut computed, mut all): (Vec<&str>, bool) = (Vec::new(), true);
    for (name, is_virtual) in targets {
        all &= is_virtual;
        if is_virtual && !computed.contains(&name) {
            computed.push(name);
        }
    }
    let of = match (computed.is_empty(), all) {
        (true, _) => return None,
        (false, true) => String::new(),
        (false, false) => format!(" of {}", computed.join(", ")),
    };
    Some(format!(
        "time{of} is virtual: computed from the targets' stated costs, not measured on this machine"
    ))
}

/// The machine and the targets, as a paper tells them. What is not known is not mentioned.
pub fn paragraph(machine: Option<&MachineRecord>, targets: &[&TargetRecord]) -> String {
    let mut sentences = Vec::new();
    if let Some(machine) = machine {
        sentences.extend(hardware(machine));
        sentences.extend(software(machine));
        sentences.extend(state(machine));
    }
    let mut reported: Vec<String> = targets.iter().map(|t| target(t)).collect();
    reported.dedup();
    sentences.extend(reported);
    if sentences.is_empty() {
        return "Nothing is recorded of the machine or the target.".to_owned();
    }
    sentences.join(" ")
}

fn hardware(m: &MachineRecord) -> Option<String> {
    let mut parts = Vec::new();
    let cpu = &m.processor;
    parts.extend(m.product.clone());
    parts.extend(processors(cpu));
    let caches: Vec<String> = cpu
        .caches
        .iter()
        .filter(|c| c.kind != "Instruction")
        .map(|c| format!("L{} {}", c.level, units::bytes(c.size_bytes)))
        .collect();
    parts.extend((!caches.is_empty()).then(|| format!("caches of {}", caches.join(", "))));
    let memory = m.memory.total_bytes;
    parts.extend(memory.map(|b| format!("{} of memory", units::bytes(b))));
    if parts.is_empty() {
        return None;
    }
    let kind = m.hypervisor.as_ref().map_or_else(
        || "a machine".to_owned(),
        |hypervisor| format!("a virtual machine ({hypervisor})"),
    );
    let within = m.container.as_ref();
    let within = within.map_or(String::new(), |c| format!(", in a container ({c})"));
    let limit = m.memory.limit_bytes.map_or(String::new(), |b| {
        format!(", of which its control group may use {}", units::bytes(b))
    });
    Some(format!(
        "We measured on {kind}{within} with {}{limit}.",
        parts.join(", ")
    ))
}

fn processors(cpu: &ProcessorRecord) -> Option<String> {
    let model = cpu.model.as_deref().unwrap_or("processor of unknown model");
    let count = cpu.cpus.map_or(String::new(), |n| format!("{n} x "));
    if cpu.model.is_none() && cpu.cpus.is_none() {
        return None;
    }
    let mut inside = Vec::new();
    let plural = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    inside.extend(cpu.sockets.map(|n| plural(n, "socket")));
    inside.extend(cpu.cores.map(|n| plural(n, "core")));
    inside.extend(cpu.microcode.as_ref().map(|m| format!("microcode {m}")));
    inside.extend(cpu.max_khz.map(|khz| format!("up to {} MHz", khz / 1000)));
    inside.extend(cpu.governor.as_ref().map(|g| format!("governor {g}")));
    inside.extend(
        cpu.turbo
            .map(|on| format!("turbo {}", if on { "on" } else { "off" })),
    );
    inside.extend(cpu.smt.as_ref().map(|s| smt(s)));
    let inside = if inside.is_empty() {
        String::new()
    } else {
        format!(" ({})", inside.join(", "))
    };
    Some(format!("{count}{model}{inside}"))
}

/// As the kernel spells it, in words.
fn smt(state: &str) -> String {
    match state {
        "notsupported" => "no SMT".to_owned(),
        "notimplemented" => "SMT unknown to the kernel".to_owned(),
        "forceoff" => "SMT forced off".to_owned(),
        other => format!("SMT {other}"),
    }
}

fn software(m: &MachineRecord) -> Vec<String> {
    let mut all = Vec::new();
    let kernel = &m.kernel;
    if let Some(release) = &kernel.release {
        let on = m
            .distribution
            .as_ref()
            .map_or(String::new(), |d| format!("{d} with "));
        let build = kernel
            .build
            .as_ref()
            .map_or(String::new(), |b| format!(" ({b})"));
        all.push(format!("It ran {on}Linux {release}{build}."));
    }
    if let Some(line) = &kernel.command_line {
        all.push(format!("The kernel's command line was \"{line}\"."));
    }
    let mitigated = m.processor.mitigations.iter();
    let mitigated: Vec<String> = mitigated
        .filter(|(_, state)| *state != "Not affected")
        .map(|(name, state)| format!("{name}: {}", state.trim_start_matches("Mitigation: ")))
        .collect();
    if !mitigated.is_empty() {
        all.push(format!("Mitigations were {}.", mitigated.join("; ")));
    }
    let mut tools: Vec<String> = Vec::new();
    if !m.fsage.is_empty() {
        tools.push(format!("fsage {}", m.fsage));
    }
    for tool in &m.tools {
        tools.extend(
            tool.version
                .as_ref()
                .map(|v| format!("{} ({v})", tool.name)),
        );
    }
    if !tools.is_empty() {
        all.push(format!("Tools were {}.", tools.join(", ")));
    }
    all
}

fn state(m: &MachineRecord) -> Vec<String> {
    let mut all = Vec::new();
    let w = &m.write_back;
    if let Some(expire) = w.dirty_expire_ms {
        all.push(format!(
            "Dirty pages expired after {}; write-back began at {}, and writers waited at {}.",
            units::duration(expire as f64 * 1e6),
            threshold(w.dirty_background_ratio_percent, w.dirty_background_bytes),
            threshold(w.dirty_ratio_percent, w.dirty_bytes),
        ));
    }
    if let Some(clock) = &m.clock_source {
        all.push(format!("The clock source was {clock}."));
    }
    let mut load = Vec::new();
    load.extend(m.load.busy.map(|b| {
        format!(
            "other processes used {} of the processors",
            units::percent(b)
        )
    }));
    load.extend(
        m.load
            .average
            .map(|(one, _, _)| format!("the load average was {one}")),
    );
    load.extend(m.load.users.map(|n| match n {
        0 => "nobody was logged in".to_owned(),
        1 => "one user was logged in".to_owned(),
        n => format!("{n} users were logged in"),
    }));
    if !load.is_empty() {
        all.push(format!("At the start {}.", load.join(", ")));
    }
    all
}

/// So much may be dirty: of the two settings the kernel keeps the other one at 0.
fn threshold(percent: Option<u64>, bytes: Option<u64>) -> String {
    match (bytes.filter(|b| *b > 0), percent) {
        (Some(bytes), _) => units::bytes(bytes),
        (None, Some(percent)) => format!("{percent} % of memory"),
        (None, None) => "an unknown share of memory".to_owned(),
    }
}

fn target(t: &TargetRecord) -> String {
    let mut parts = Vec::new();
    let kind = t
        .file_system
        .as_deref()
        .unwrap_or("a file system of unknown type");
    parts.extend(t.total_bytes.map(|b| format!("{} large", units::bytes(b))));
    parts.extend(t.mkfs.as_ref().map(mkfs));
    if t.mkfs.is_none() {
        for name in [
            "Filesystem features",
            "Block size",
            "meta-data isize",
            "features",
        ] {
            parts.extend(t.parameters.get(name).map(|v| format!("{name}: {v}")));
        }
    }
    parts.extend(
        t.mount_options
            .as_ref()
            .map(|o| format!("mounted with {o}")),
    );
    parts.extend(t.aged.as_ref().map(|a| format!("aged by {a}")));
    if t.aged.is_none() && t.scratch {
        parts.push("not aged".to_owned());
    }
    if let Some(disk) = &t.emulated {
        parts.push(format!(
            "on the emulated disk {} (scheduler {}, span {})",
            disk.model, disk.scheduler, disk.span
        ));
    }
    let devices: Vec<String> = t.devices.iter().map(device).collect();
    if !devices.is_empty() {
        parts.push(format!("on {}", devices.join(" over ")));
    }
    let details = if parts.is_empty() {
        String::new()
    } else {
        format!(": {}", parts.join("; "))
    };
    format!("Target {} was {kind}{details}.", t.target)
}

fn mkfs(made: &MkfsRecord) -> String {
    let version = made
        .version
        .as_ref()
        .map_or(String::new(), |v| format!(" ({v})"));
    format!("made by {} {}{version}", made.program, made.options)
}

fn device(d: &DeviceRecord) -> String {
    let mut inside = Vec::new();
    inside.extend(d.model.clone());
    inside.extend(d.bus.as_ref().map(|b| format!("on {b}")));
    inside.extend(d.size_bytes.map(units::bytes));
    if let (Some(start), Some(disk)) = (d.start_bytes, d.disk_bytes) {
        let share = start as f64 / disk.max(1) as f64;
        inside.push(format!(
            "beginning at {} of its disk",
            units::percent(share)
        ));
    }
    inside.extend(
        d.rotational
            .map(|r| if r { "rotating" } else { "not rotating" }.to_owned()),
    );
    inside.extend(d.scheduler.as_ref().map(|s| format!("scheduler {s}")));
    inside.extend(
        d.read_ahead_bytes
            .map(|b| format!("read-ahead {}", units::bytes(b))),
    );
    inside.extend(d.write_cache.clone());
    inside.extend(
        d.backing_file_system
            .as_ref()
            .map(|kind| format!("image on {kind}")),
    );
    if d.direct_io == Some(true) {
        inside.push("direct I/O".to_owned());
    }
    if inside.is_empty() {
        return d.name.clone();
    }
    format!("{} ({})", d.name, inside.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_not_mentioned() {
        assert_eq!(
            ["on", "notsupported"].map(smt),
            ["SMT on", "no SMT"].map(str::to_owned)
        );
        let nothing = paragraph(None, &[]);
        assert!(nothing.starts_with("Nothing is recorded"));
        let empty = paragraph(Some(&MachineRecord::default()), &[&TargetRecord::default()]);
        assert!(!empty.contains("None") && !empty.contains("()"), "{empty}");
    }

    #[test]
    fn a_paper_s_facts_are_in_it() {
        let mut machine = MachineRecord {
            fsage: "0.1.0".into(),
            hypervisor: Some("KVM".into()),
            ..MachineRecord::default()
        };
        machine.processor.model = Some("Xeon".into());
        machine.processor.cpus = Some(2);
        machine.processor.mitigations = [
            ("meltdown", "Not affected"),
            ("mds", "Mitigation: Clear CPU buffers"),
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .into();
        machine.kernel.release = Some("6.1".into());
        machine.memory.total_bytes = Some(1 << 34);
        machine.load.busy = Some(0.013);
        machine.load.users = Some(1);
        machine.write_back.dirty_expire_ms = Some(30_000);
        machine.write_back.dirty_background_ratio_percent = Some(10);
        // What is set in bytes has no share.
        machine.write_back.dirty_ratio_percent = Some(0);
        machine.write_back.dirty_bytes = Some(64 << 20);
        let target = TargetRecord {
            target: "ext4".into(),
            scratch: true,
            file_system: Some("ext4".into()),
            mount_options: Some("rw,noatime".into()),
            mkfs: Some(MkfsRecord {
                program: "mkfs.ext4".into(),
                options: "-q".into(),
                version: Some("mke2fs 1.47".into()),
                ..MkfsRecord::default()
            }),
            devices: vec![DeviceRecord {
                name: "sda1".into(),
                kind: "partition".into(),
                start_bytes: Some(1 << 30),
                disk_bytes: Some(4 << 30),
                scheduler: Some("bfq".into()),
                ..DeviceRecord::default()
            }],
            ..TargetRecord::default()
        };
        let text = paragraph(Some(&machine), &[&target]);
        for part in [
            "a virtual machine (KVM) with 2 x Xeon, 16 GiB of memory.",
            "Linux 6.1.",
            "Mitigations were mds: Clear CPU buffers.",
            "fsage 0.1.0",
            "expired after 30 s; write-back began at 10 % of memory, and writers waited at 64 MiB.",
            "other processes used 1.3 % of the processors, one user was logged in.",
            "made by mkfs.ext4 -q (mke2fs 1.47); mounted with rw,noatime; not aged",
            "sda1 (beginning at 25.0 % of its disk, scheduler bfq)",
        ] {
            assert!(text.contains(part), "`{part}` is missing: {text}");
        }
    }
}
