//! Both verbs are carried out by one engine: what it says of how far it is.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_experiment::bench;
use fsage_experiment::engine::{Progress, Rest};
use fsage_experiment::plan::{BenchPlan, NamedTarget};
use fsage_experiment::target::parse;
use fsage_experiment::validate::{self, plan::ValidatePlan};

const WORKLOAD: &str = "postmark:files=20,transactions=50,size=512-4096,subdirs=2";

/// Runs a bench of three runs, or a validation of two with a profile.
fn carry_out(
    is_bench: bool,
    dir: &Path,
    resume: bool,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<bool, String> {
    if is_bench {
        let text =
            format!("runs = 3\n[[target]]\nspec = 'mem:disk'\n[[workload]]\nspec = '{WORKLOAD}'");
        let plan = BenchPlan::parse(Path::new("p"), &text, Path::new("/")).unwrap();
        let order = bench::run::Order {
            dir,
            options: &bench::kept::Options::default(),
            resume,
            retry_failed: false,
            stop,
        };
        let result = bench::run::run(&plan, &order, progress);
        return result.map(|r| r.interrupted).map_err(|e| e.to_string());
    }
    let target = NamedTarget::from(parse("mem:disk").unwrap());
    let workloads = vec![WORKLOAD.parse().unwrap()];
    let plan = ValidatePlan {
        runs: 2,
        profile_time_ns: Some(2_000_000_000),
        resume,
        ..ValidatePlan::new(workloads, vec![target], dir.to_owned(), Vec::new())
    };
    let result = validate::run::run(&plan, progress, stop);
    result.map(|r| r.interrupted).map_err(|e| e.to_string())
}

#[test]
fn progress_has_the_time_left_also_after_an_interruption() {
    for is_bench in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        // Stopped in the second step, which is lost.
        let interrupted = carry_out(is_bench, dir.path(), false, &stop, &mut |step| {
            stop.store(step.done == 1, Ordering::Relaxed);
        });
        assert_eq!(interrupted, Ok(true));
        let mut reported: Vec<Progress> = Vec::new();
        let done = carry_out(is_bench, dir.path(), true, &go, &mut |step| {
            if reported.last().is_none_or(|last| last.done < step.done) {
                reported.push(step.clone());
            }
        });
        assert_eq!(done, Ok(false));
        let steps: Vec<(u64, u64)> = reported
            .iter()
            .map(|step| (step.done, step.expected))
            .collect();
        assert_eq!(steps, [(1, 3), (2, 3)], "{reported:?}");
        let left = reported.iter().map(|step| step.rest.map(Rest::seconds));
        // What was computed before says nothing of how long it took.
        let left: Vec<bool> = left.map(|s| s.is_some_and(|s| s > 0.0)).collect();
        assert_eq!(left, [false, true], "{reported:?}");
    }
}

#[test]
fn a_directory_in_use_is_refused_to_both() {
    for is_bench in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let go = AtomicBool::new(false);
        let mut refused = Vec::new();
        carry_out(is_bench, dir.path(), false, &go, &mut |_| {
            if refused.is_empty() {
                for other in [true, false] {
                    refused.push(carry_out(other, dir.path(), true, &go, &mut |_| {}).unwrap_err());
                }
            }
        })
        .unwrap();
        assert!(
            refused.len() == 2
                && refused
                    .iter()
                    .all(|e| e.contains("in use by another fsage")),
            "{refused:?}"
        );
    }
}
