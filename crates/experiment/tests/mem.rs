//! Predictions held against file systems whose costs are stated: no noise stands between them, so that each
//! error is the suite's or the model's.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::AtomicBool;

use fsage_experiment::plan::NamedTarget;
use fsage_experiment::target::schemes;
use fsage_experiment::validate;
use fsage_experiment::validate::plan::ValidatePlan;

const TARGETS: [&str; 3] = ["mem:fast", "mem:disk", "mem:tiny"];

/// Workloads, by how many percent their totals may be off on each of the targets.
const BOUNDS: &[(&str, [f64; 3])] = &[
    ("postmark:files=2000,transactions=5000", [0.5, 0.5, 1.0]),
    ("sdet:scripts=2", [0.5, 0.5, 0.5]),
    ("andrew", [1.0, 0.5, 0.5]),
    ("lfs-small:files=1000", [0.5, 1.0, 1.0]),
    ("small-read", [0.5, 0.5, 0.5]),
    ("webserver:nthreads=2", [0.5, 0.5, 1.5]),
    ("mongo", [0.5, 0.5, 1.0]),
    // Reads here and there are read ahead for.
    ("bonnie:size=16M,files=500", [0.5, 1.0, 2.0]),
    ("lfs-large:size=16M", [0.1, 0.1, 0.5]),
    // Which files share a block of inodes hangs on numbers that the trace does not tell.
    ("seqio:size=64K-4M,total=16M", [0.5, 2.0, 0.5]),
    ("readers:total=16M,n=2", [0.1, 0.1, 0.1]),
    ("stride:size=16M,s=4", [0.1, 0.1, 0.1]),
    ("varying:chunks=2,ops=500", [0.5, 0.5, 1.0]),
    ("selfscale:size=8M,requests=2000", [0.5, 0.1, 0.1]),
    // Which file a thread takes hangs on who comes when: with several it is another workload on each target.
    ("varmail:nthreads=1", [0.5, 0.5, 1.0]),
    ("fileserver:nthreads=1,nfiles=500", [0.5, 0.5, 0.5]),
    ("webproxy:nthreads=4,nfiles=1000", [0.5, 2.0, 2.0]),
    ("oltp:nshadows=4,ndbwriters=2", [0.1, 0.5, 2.0]),
    // Without a rate, which lets threads sleep until a moment that the trace does not tell.
    (
        "videoserver:filesize=1M,numactivevids=4,numpassivevids=4,nthreads=4,eventrate=0",
        [0.1, 0.1, 0.5],
    ),
];

#[test]
fn totals_are_within_their_bounds_and_ranks_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let registry = schemes();
    let targets: Vec<NamedTarget> = TARGETS
        .iter()
        .map(|text| registry.parse(text).unwrap().into())
        .collect();
    let plan = ValidatePlan {
        runs: 1,
        ..ValidatePlan::new(
            BOUNDS.iter().map(|b| b.0.parse().unwrap()).collect(),
            targets,
            dir.path().join("v"),
            Vec::new(),
        )
    };
    let judged = validate::run::run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    assert!(judged.failed.is_empty(), "{:?}", judged.failed);
    let mut wrong = Vec::new();
    for (workload, bounds) in BOUNDS {
        let mut totals = Vec::new();
        for (target, bound) in TARGETS.iter().zip(bounds) {
            let same = |p: &&_| -> bool {
                let p: &fsage_format::result::validation::Pair = p;
                // Long names are cut.
                workload.starts_with(p.workload.trim_end_matches('…')) && p.target == *target
            };
            let pair = judged.pairs.iter().find(same).unwrap();
            let percent = 100.0 * pair.error;
            // A remount takes the disk 50 ms: what makes caches cold is no time of the workload's.
            if *workload == "small-read" {
                let own_ns = pair.measured_elapsed_ns - pair.measured_ns;
                assert!((0.0..1e6).contains(&own_ns), "{target}: {own_ns} ns");
            }
            if percent.abs() > *bound {
                wrong.push(format!(
                    "{workload} on {target}: {percent:+.1} %, at most {bound}"
                ));
            }
            totals.push((pair.measured_ns, pair.predicted_ns));
        }
        for (i, a) in totals.iter().enumerate() {
            for b in totals.iter().skip(i + 1) {
                if (a.0 < b.0) != (a.1 < b.1) {
                    wrong.push(format!("{workload}: ranked wrongly: {totals:?}"));
                }
            }
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
}
