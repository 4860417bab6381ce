//! How many operations a second are driven over a target in virtual time: PostMark, one stream and eight,
//! on a target of fixed costs with one device.
//!
//! Prints JSON: operations a second of this machine, the best, the median and all of the repetitions.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a clock")]
#![allow(clippy::unwrap_used, reason = "of the target that tests use as well")]

#[path = "../tests/fifo/mod.rs"]
mod fifo;

use std::error::Error;
use std::time::Instant;

use fsage_core::{Op, OpSource, VecSource};
use fsage_exec::{Options, run};
use fsage_workload::WorkloadSpec;
use fsage_workload::postmark::{Config, PostMark};

const REPETITIONS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for streams in [1_u32, 8] {
        let mut prepared = Vec::new();
        for n in 0..streams {
            prepared.push(ops(n)?);
        }
        let mut rates: Vec<f64> = Vec::new();
        for _ in 0..REPETITIONS {
            let sources = prepared.iter().cloned();
            let sources = sources.map(|s| Box::new(s) as Box<dyn OpSource + Send>);
            let sources = sources.collect();
            let start = Instant::now();
            let result = run(&fifo::Fifo::default(), sources, &Options::default())?;
            rates.push(result.operations as f64 / start.elapsed().as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        let best = rates.last().copied().unwrap_or_default();
        let median = rates.get(REPETITIONS / 2).copied().unwrap_or_default();
        rows.push(format!(
            "  {{ \"streams\": {streams}, \"best_per_s\": {best:.0}, \"median_per_s\": {median:.0}, \
             \"raw_per_s\": {rates:.0?} }}"
        ));
    }
    println!("[\n{}\n]", rows.join(",\n"));
    Ok(())
}

/// The operations of one stream, prepared, as a process of its own.
fn ops(stream: u32) -> Result<VecSource, Box<dyn Error>> {
    let text = format!("postmark:files=5000,transactions=40000,size=512-16384,seed={stream}");
    let spec: WorkloadSpec = text.parse()?;
    let WorkloadSpec::Generated { values, .. } = &spec else {
        return Err("the workload is a command".into());
    };
    let mut source = PostMark::new(&Config::from_values(values));
    let mut ops: Vec<Op> = Vec::new();
    while source.next_batch(&mut ops)? > 0 {}
    for op in &mut ops {
        op.pid = fsage_core::Pid(stream);
    }
    Ok(VecSource::new(source.paths().clone(), ops))
}
