//! What the harness itself costs per operation, on the engine that does nothing.
//!
//! Prints JSON: nanoseconds per operation, the best and the median of the repetitions, for
//! PostMark's operations prepared in memory and generated on the way, measured and direct.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a clock")]

use std::time::Instant;

use fsage_core::{OpSource, PathTable, VecSource};
use fsage_exec::{NullFs, Options, run, run_direct};
use fsage_workload::WorkloadSpec;

const SPEC: &str = "postmark:files=20000,transactions=60000,size=512-16384,subdirs=50";
const REPETITIONS: usize = 15;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec: WorkloadSpec = SPEC.parse()?;
    let generator = || spec.source().ok_or("the workload is a command");
    let mut source = generator()?;
    let mut ops = Vec::new();
    while source.next_batch(&mut ops)? > 0 {}
    let paths: PathTable = source.paths().clone();
    let count = ops.len() as f64;
    let prepared = || VecSource::new(paths.clone(), ops.clone());
    let options = Options::default();

    let mut rows = Vec::new();
    for (name, is_measured, is_prepared) in [
        ("measured_prepared", true, true),
        ("measured_generated", true, false),
        ("direct_prepared", false, true),
        ("direct_generated", false, false),
    ] {
        let mut samples = Vec::new();
        for _ in 0..REPETITIONS {
            let mut source: Box<dyn OpSource + Send> = if is_prepared {
                Box::new(prepared())
            } else {
                generator()?
            };
            let ns = if is_measured {
                run(&NullFs, vec![source], &options)?.elapsed_ns as f64
            } else {
                let start = Instant::now();
                run_direct(&NullFs, &mut *source, &options)?;
                start.elapsed().as_nanos() as f64
            };
            samples.push(ns / count);
        }
        samples.sort_by(f64::total_cmp);
        let best = samples.first().copied().unwrap_or_default();
        let median = samples.get(REPETITIONS / 2).copied().unwrap_or_default();
        rows.push(format!(
            "    \"{name}\": {{ \"best_ns\": {best:.1}, \"median_ns\": {median:.1}, \"raw_ns\": {samples:.1?} }}"
        ));
    }
    println!(
        "{{\n  \"workload\": \"{spec}\",\n  \"operations\": {count},\n  \"per_operation\": {{"
    );
    println!("{}\n  }}\n}}", rows.join(",\n"));
    Ok(())
}
