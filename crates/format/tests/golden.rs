//! Files of every version that was ever released are read to the same values for good. Those of the
//! current version are written anew by `FSAGE_WRITE=1`, before its release only.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::path::{Path, PathBuf};

use common::{
    assert_same, drain, drain_snapshot, entries, operations, write_snapshot, write_trace,
};
use fsage_core::{OpSource, Pause};
use fsage_format::profile::{Environment, MetricValue, SystemProfile};
use fsage_format::record::{RecordWriter, read_records};
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::TraceReader;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn writing() -> bool {
    std::env::var_os("FSAGE_WRITE").is_some()
}

#[test]
fn traces() {
    let (paths, ops) = operations(60, 41);
    if writing() {
        write_trace(&golden("version-6.fst"), &paths, &ops, 25);
    }
    let mut without = ops.clone();
    for op in &mut without {
        op.pause = Pause::default();
    }
    let mut before_6 = ops.clone();
    for op in &mut before_6 {
        (op.pause.blocked_ns, op.pause.sleeps) = (0, 0);
    }
    let mut before_5 = before_6.clone();
    for op in &mut before_5 {
        op.pause.queued_ns = 0;
    }
    for (file, ops) in [
        ("version-1.fst", &without),
        ("version-2.fst", &without),
        ("version-3.fst", &without),
        ("version-4.fst", &before_5),
        ("version-5.fst", &before_6),
        ("version-6.fst", &ops),
    ] {
        let mut reader = TraceReader::open(&golden(file)).unwrap();
        assert_eq!(reader.meta().host, "here", "{file}");
        assert_eq!(reader.loss().operations_lost, 9, "{file}");
        assert!(!reader.loss().unfinished, "{file}");
        let found = drain(&mut reader).unwrap();
        assert_same((&paths, ops), (reader.paths(), &found));
    }
}

#[test]
fn snapshots() {
    let written = entries(40, 41);
    if writing() {
        write_snapshot(&golden("version-2.fss"), &written);
    }
    for file in ["version-1.fss", "version-2.fss"] {
        let mut reader = SnapshotReader::open(&golden(file)).unwrap();
        assert_eq!(reader.end().unwrap().vanished, 3, "{file}");
        assert!(reader.loss().is_none(), "{file}");
        assert_eq!(drain_snapshot(&mut reader).unwrap(), written, "{file}");
    }
}

#[test]
fn profiles() {
    let profile = golden_profile();
    if writing() {
        profile.save(&golden("version-3.fsp")).unwrap();
    }
    for file in ["version-1.fsp", "version-2.fsp", "version-3.fsp"] {
        assert_eq!(
            SystemProfile::load(&golden(file)).unwrap(),
            profile,
            "{file}"
        );
    }
}

/// What each field and entry of an environment of version 2 is in today's records.
#[test]
fn an_environment_of_version_2() {
    let (older, now) = ("version-2-environment.fsp", "version-3-environment.fsp");
    let read = SystemProfile::load(&golden(older)).unwrap();
    if writing() {
        read.save(&golden(now)).unwrap();
    }
    let again = SystemProfile::load(&golden(now)).unwrap();
    assert_eq!(again.environment, read.environment);
    assert_eq!(again.measurement, read.measurement);
    assert_eq!(again.metrics.len(), read.metrics.len());
    let Environment { machine, target } = &read.environment;
    assert_eq!(machine.kernel.text(), "6.18.44 #1 SMP");
    let own = ["PBRSB-eIBRS", "swaps"].map(|name| target.parameters.contains_key(name));
    assert_eq!(
        (own, target.parameters["call_ns"].as_str()),
        ([false, true], "100")
    );
    let spectre = machine.processor.mitigations["spectre_v2"].as_str();
    assert_eq!(spectre, "Mitigation: Retpolines; STIBP: disabled");
    assert_eq!(target.kernel_threads["jbd2/loop0-8"], 1);
    assert_eq!(
        target.device_text(),
        "/dev/loop0 (loop on disk:hdd-7200, direct I/O)"
    );
    assert!(!target.is_in_memory() && !target.in_memory);
    let measured = &read.measurement;
    assert_eq!(measured.prepared_ns, Some(12_300_000_000));
    let times: Vec<_> = measured
        .procedures
        .iter()
        .map(|p| (p.name.as_str(), p.elapsed_ns))
        .collect();
    assert_eq!(
        times,
        [("caches", 1_500_000_000), ("clean-up", 200_000_000)]
    );
    assert_eq!((measured.seed, measured.instances), (7, Some(2)));
    assert_eq!(
        measured.one_cpu.as_deref(),
        Some("CPU 1, with the kernel's workqueues")
    );
}

fn golden_profile() -> SystemProfile {
    let mut environment = Environment::default();
    environment.machine.processor.cpus = Some(2);
    let mut profile = SystemProfile::new("golden", environment);
    profile.measurement.seed = 7;
    profile.metrics.push(MetricValue {
        name: "STAT".to_owned(),
        unit: "ns".to_owned(),
        estimate: 512.25,
        low: Some(500.0),
        high: Some(520.0),
        mean: 513.0,
        median: 512.25,
        runs: 3,
        samples: vec![500.0, 512.25, 526.75],
        ..MetricValue::default()
    });
    profile
}

#[test]
fn record_version_1() {
    let file = golden("version-1.jsonl");
    if writing() {
        let _ = std::fs::remove_file(&file);
        let mut writer = RecordWriter::open(&file, "golden").unwrap();
        (1..=3).for_each(|run: u32| writer.append(&run).unwrap());
    }
    let found = read_records::<u32>(&file).unwrap();
    assert_eq!(
        (found.head.kind.as_str(), found.records),
        ("golden", vec![1, 2, 3])
    );
}
