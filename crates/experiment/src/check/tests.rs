use fsage_format::result::environment::{
    BusyProcess, DeviceRecord, MachineRecord, MkfsRecord, TargetRecord,
};
use fsage_format::result::run::{RUN_FORMAT, WorkloadRun};

use super::evidence::{Cell, Measured, TargetEvidence, WorkloadEvidence};
use super::*;

fn machine() -> MachineRecord {
    let mut machine = MachineRecord {
        fsage: "1".into(),
        distribution: Some("d".into()),
        clock_source: Some("tsc".into()),
        ..MachineRecord::default()
    };
    machine.kernel.release = Some("6.1".into());
    machine.kernel.command_line = Some("quiet".into());
    machine.processor.model = Some("cpu".into());
    machine.processor.cpus = Some(2);
    machine.processor.governor = Some("performance".into());
    machine
        .processor
        .mitigations
        .insert("meltdown".into(), "Not affected".into());
    machine.memory.total_bytes = Some(1 << 30);
    machine.write_back.dirty_expire_ms = Some(30_000);
    machine.load.busy = Some(0.01);
    machine.load.users = Some(0);
    machine
        .tools
        .push(fsage_format::result::environment::ToolRecord {
            name: "libc".into(),
            version: Some("2".into()),
            ..Default::default()
        });
    machine
}

fn target(name: &str) -> TargetEvidence {
    let partition = DeviceRecord {
        name: "sda1".into(),
        kind: "partition".into(),
        size_bytes: Some(100 << 20),
        start_bytes: Some(100 << 20),
        disk_bytes: Some(1000 << 20),
        ..DeviceRecord::default()
    };
    let disk = DeviceRecord {
        name: "sda".into(),
        kind: "disk".into(),
        model: Some("m".into()),
        scheduler: Some("none".into()),
        read_ahead_bytes: Some(131_072),
        rotational: Some(true),
        ..DeviceRecord::default()
    };
    TargetEvidence {
        name: name.into(),
        spec: format!("scratch:{name}"),
        record: Some(TargetRecord {
            scratch: true,
            file_system: Some(name.into()),
            mount_options: Some("rw".into()),
            mkfs: Some(MkfsRecord {
                version: Some("1.47".into()),
                ..MkfsRecord::default()
            }),
            devices: vec![partition, disk],
            ..TargetRecord::default()
        }),
    }
}

/// Everything that can be had.
fn complete() -> Evidence {
    let workload = |name: &str, micro, streams| WorkloadEvidence {
        name: name.into(),
        spec: name.into(),
        command: false,
        micro,
        streams: Some(streams),
    };
    let cell = |target: &str, workload: &str| Cell {
        name: format!("{workload} on {target}"),
        workload: workload.into(),
        target: target.into(),
        cache: Some("cold".into()),
        cold: Some((10, 10)),
        fresh: Some(true),
        runs: 10,
        elapsed_ns: Some(6e10),
        metrics: vec![Measured {
            name: "elapsed".into(),
            n: 10,
            half_width_relative: Some(0.02),
            normal: Some(true),
            outliers: 0,
            drifts: Some(false),
        }],
        cpu_share: Some(0.1),
        by_kind: true,
        by_mode: true,
        steady: Some((10, 10)),
        raw: true,
        ..Cell::default()
    };
    Evidence {
        kind: "fsage bench",
        plan: Some("seed = 1\n".into()),
        seed: Some(1),
        machine: Some(machine()),
        targets: vec![target("ext4"), target("xfs")],
        workloads: vec![workload("postmark", false, 1), workload("seqio", true, 4)],
        cells: vec![
            cell("ext4", "postmark"),
            cell("xfs", "postmark"),
            cell("ext4", "seqio"),
        ],
        interleaved: true,
        ..Evidence::default()
    }
}

fn states(evidence: &Evidence) -> Vec<(String, GuidelineState, String)> {
    let found = check("x", evidence, String::new());
    let reported = found.guidelines.into_iter();
    reported
        .map(|g| (g.name, g.state, g.missing.join("; ")))
        .collect()
}

#[test]
fn nothing_is_missing_from_what_has_everything() {
    for (name, state, missing) in states(&complete()) {
        let fine = matches!(state, GuidelineState::Met | GuidelineState::Author);
        assert!(fine, "{name} is {state:?}: {missing}");
    }
}

#[test]
fn names_are_unique_and_sections_in_order() {
    let names: std::collections::BTreeSet<&str> = GUIDELINES.iter().map(|g| g.name).collect();
    assert_eq!(names.len(), GUIDELINES.len());
    assert!(GUIDELINES.is_sorted_by_key(|g| g.section));
}

type Change = fn(&mut Evidence);

/// A guideline, words that it then says, and what is taken away.
const CASES: &[(&str, &str, Change)] = &[
    ("what-was-done", "a seed", |e| e.seed = None),
    ("baseline", "second target", |e| e.cells.truncate(1)),
    ("several-benchmarks", "a micro-benchmark", |e| {
        e.workloads[1].micro = false;
    }),
    ("io-bound", "bound by I/O", |e| {
        e.cells.iter_mut().for_each(|c| c.cpu_share = Some(0.9));
    }),
    ("accurate-timing", "lasts 90 us", |e| {
        e.cells[0].elapsed_ns = Some(9e4);
    }),
    ("scalable", "depends on the machine", |e| {
        e.workloads[0].command = true;
    }),
    ("several-threads", "several streams", |e| {
        e.workloads[1].streams = Some(1);
    }),
    ("understood-workload", "seqio: which operations", |e| {
        e.cells[2].by_kind = false;
    }),
    ("breakdown", "where its time goes", |e| {
        (e.cells[0].by_kind, e.cells[0].by_mode) = (false, false);
    }),
    ("cache-state", "as found", |e| {
        e.cells[1].cache = Some("as found".into());
    }),
    ("cache-state", "evidence of cold caches in 3 of 10", |e| {
        e.cells[1].cold = Some((7, 10));
    }),
    ("cache-state", "postmark on xfs: a run that shows it", |e| {
        (e.cells[1].cold, e.cells[1].runs) = (Some((0, 0)), 0);
    }),
    ("zcav", "ext4: its device", |e| e.targets[0].record = None),
    ("aging", "how it was used before", |e| {
        e.targets[0].record.as_mut().unwrap().scratch = false;
    }),
    ("other-processes", "others used 42.0 %", |e| {
        e.machine.as_mut().unwrap().load.busy = Some(0.42);
    }),
    ("other-processes", "at the start (cc, sh)", |e| {
        let busy = |name: &&str| BusyProcess {
            name: (*name).to_owned(),
            ..BusyProcess::default()
        };
        let load = &mut e.machine.as_mut().unwrap().load;
        load.busy = Some(0.42);
        load.busiest = ["cc", "sh", "cc"].iter().map(busy).collect();
    }),
    ("other-processes", "8 of 10 undisturbed: clock", |e| {
        (e.cells[0].marked, e.cells[0].marks) = (2, vec!["clock".into()]);
    }),
    ("identical-runs", "seqio on ext4", |e| {
        e.cells[2].fresh = Some(false);
    }),
    ("identical-runs", "a second run", |e| {
        e.cells.iter_mut().for_each(|c| c.runs = 1);
    }),
    ("number-of-runs", "more than 2 runs", |e| {
        e.cells[0].runs = 2;
    }),
    ("steady-state", "4 of 10 runs", |e| {
        e.cells[0].steady = Some((6, 10));
    }),
    ("automated", "a plan", |e| e.plan = None),
    ("configurations-described", "mount options", |e| {
        e.targets[1].record.as_mut().unwrap().mount_options = None;
    }),
    ("intervals", "one run has none", |e| {
        e.cells[0].metrics[0].n = 1;
    }),
    ("precision", "7.0 % of the mean", |e| {
        e.cells[0].metrics[0].half_width_relative = Some(0.07);
    }),
    ("normality", "are not normal", |e| {
        e.cells[0].metrics[0].normal = Some(false);
    }),
    ("outliers", "why 2 of 10 samples", |e| {
        e.cells[0].metrics[0].outliers = 2;
    }),
    ("outliers", "why a run failed: ENOSPC", |e| {
        e.failed.push("ENOSPC".into());
    }),
    ("stability", "moves from run to run", |e| {
        e.cells[0].metrics[0].drifts = Some(true);
    }),
    ("testbed", "the kernel's command line", |e| {
        e.machine.as_mut().unwrap().kernel.command_line = None;
    }),
    ("testbed", "I/O scheduler of sda of xfs", |e| {
        e.targets[1].record.as_mut().unwrap().devices[1].scheduler = None;
    }),
    ("same-conditions", "in turns", |e| e.interleaved = false),
    ("raw-data", "samples of seqio on ext4", |e| {
        e.cells[2].raw = false;
    }),
];

#[test]
fn each_thing_that_is_taken_away_is_named_by_its_guideline() {
    for (guideline, words, change) in CASES {
        let mut evidence = complete();
        change(&mut evidence);
        let found = states(&evidence);
        let (name, state, missing) = found.iter().find(|f| f.0 == *guideline).unwrap();
        let lacks = matches!(state, GuidelineState::Partly | GuidelineState::Missing);
        assert!(
            lacks && missing.contains(words),
            "{name} is {state:?}: {missing}"
        );
    }
}

#[test]
fn a_run_of_the_older_form_is_read_as_far_as_it_goes() {
    let run = serde_json::json!({
        "format": RUN_FORMAT, "run_version": 1, "workload": "postmark:files=9,seed=1", "seed": 1,
        "target": "slow:read=2:scratch:ext4",
        "environment": {
            "fsage": "0.1.0", "kernel": "6.18.1 #1 SMP", "cpu": "Xeon", "cpus": 2,
            "memory_bytes": 1_u64 << 34, "file_system": "ext4", "mount_options": "rw",
            "mkfs_options": "-q", "device": "/dev/loop0 (loop on ram, direct I/O)",
            "extra": {
                "image": "ram", "mkfs_version": "mke2fs 1.47", "device_scheduler": "[none] kyber",
                "device_read_ahead_kib": "128", "load": "0.10 0.20 0.30 1/99 1234",
            },
        },
        "started_unix_ns": 1, "compressible_percent": 0, "phases": [], "interrupted": false,
        "warnings": [],
    });
    let run: WorkloadRun = serde_json::from_value(run).unwrap();
    let evidence = Evidence::of_run(&run);
    let machine = evidence.machine.as_ref().unwrap();
    assert_eq!(machine.kernel.release.as_deref(), Some("6.18.1"));
    assert_eq!(machine.load.average, Some((0.1, 0.2, 0.3)));
    let device = &evidence.targets[0].record.as_ref().unwrap().devices[0];
    assert_eq!(
        (device.name.as_str(), device.kind.as_str()),
        ("loop0", "loop")
    );
    assert_eq!(device.scheduler.as_deref(), Some("none"));
    assert_eq!(device.read_ahead_bytes, Some(131_072));
    let found = states(&evidence);
    let of = |name: &str| found.iter().find(|f| f.0 == name).unwrap();
    assert_eq!(of("zcav").1, GuidelineState::Met);
    assert_eq!(of("intervals").1, GuidelineState::Missing);
    assert_eq!(evidence.cells[0].fresh, Some(true));
    assert_eq!(of("number-of-runs").1, GuidelineState::Missing);
    assert_eq!(of("automated").1, GuidelineState::Missing);
    assert_eq!(of("same-conditions").1, GuidelineState::NotApplicable);
    assert!(of("testbed").2.contains("the kernel's command line"));
}
