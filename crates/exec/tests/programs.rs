//! Every generated workload on a real directory: each result is the one that its stream expected.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use fsage_exec::{Options, run};
use fsage_host::{Confinement, HostFs, HostOptions};
use fsage_workload::wml::personalities;
use fsage_workload::{Inputs, Length, TargetFile, WORKLOADS, WorkloadSpec};

/// A small one of each.
const SPECS: &[&str] = &[
    "postmark:files=80,transactions=300,threads=2",
    "andrew",
    "sdet:scripts=3,commands=90",
    "lfs-small:files=200,dirs=3",
    "lfs-large:size=2M,fsync=true",
    "small-read:files=120",
    "bonnie:size=2M,seeks=100,files=100,file-size=5000",
    "seqio:size=16k-1M,total=1M",
    "hot-files",
    "readers:total=3M",
    "stride:size=1M",
    "varying:config=d,chunks=2,ops=20",
    "varying:config=e,chunks=2,ops=20",
    "selfscale:size=2M,requests=300,processes=3",
];

fn host(dir: &Path) -> HostFs {
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    HostFs::open(dir, options).unwrap()
}

fn run_all(spec: &str, length: Length, options: &Options<'_>) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = host(dir.path());
    let parsed: WorkloadSpec = spec.parse().unwrap();
    let mut inputs = Inputs {
        length,
        ..Inputs::default()
    };
    if parsed.in_target().is_some() {
        fs::write(dir.path().join("f"), [1; 9000]).unwrap();
        inputs.files = Some(vec![TargetFile {
            path: b"f".to_vec(),
            size_bytes: 9000,
            modified_unix_ns: 1,
            unwritten: false,
        }]);
    }
    for phase in parsed.program(&inputs).unwrap().phases {
        let name = format!("{spec}: {phase:?}");
        let limit = match (length, phase.role) {
            (Length::Endless, fsage_workload::Role::Run) => Some(20_000_000),
            _ => None,
        };
        let options = Options {
            run_for_ns: limit,
            ..*options
        };
        let result = run(&target, phase.streams, &options).unwrap();
        assert_eq!(
            (result.unexpected, &result.mismatches[..]),
            (0, &[][..]),
            "{name}"
        );
    }
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, usize::from(inputs.files.is_some()), "{spec}");
}

/// What reads a file of the user's, and filebench's scripts, have tests of their own.
fn is_tested_elsewhere(name: &str) -> bool {
    ["wml", "filerunner", "model"].contains(&name) || personalities::names().contains(&name)
}

#[test]
fn every_result_is_as_expected() {
    for workload in WORKLOADS {
        let prefix = format!("{}:", workload.name);
        let tried = SPECS.iter().any(|s| format!("{s}:").starts_with(&prefix));
        assert!(
            tried || is_tested_elsewhere(workload.name),
            "{}",
            workload.name
        );
    }
    for spec in SPECS {
        run_all(spec, Length::Count, &Options::default());
    }
}

#[test]
fn a_run_for_a_time_leaves_what_its_teardown_knows() {
    for spec in SPECS {
        run_all(spec, Length::Endless, &Options::default());
    }
}
