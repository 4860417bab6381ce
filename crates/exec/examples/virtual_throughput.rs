//! How many operations a second are driven over a target in virtual time: PostMark, one stream and eight, on `mem:fast`,
//! and on a target of fixed costs with one device, which does nothing: what is left is the executor.
//!
//! Prints JSON: operations a second of this machine, the best, the median and all of the repetitions.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a clock")]
#![allow(clippy::unwrap_used, reason = "of the target that tests use as well")]

#[path = "../tests/fifo/mod.rs"]
mod fifo;

use std::error::Error;
use std::time::Instant;

use fsage_core::{FileSystem, Op, OpKind, OpSource, PathId, PathTable, VecSource};
use fsage_exec::{Options, run};
use fsage_mem::{MemFs, Truth};
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
        for target in ["mem:fast", "fixed costs"] {
            let mut rates: Vec<f64> = Vec::new();
            for _ in 0..REPETITIONS {
                let sources = prepared.iter().cloned();
                let sources = sources.map(|s| Box::new(s) as Box<dyn OpSource + Send>);
                let sources = sources.collect();
                let fs: Box<dyn FileSystem> = match Truth::built_in("fast") {
                    Some(truth) if target == "mem:fast" => Box::new(MemFs::new("fast", truth)),
                    _ => Box::new(fifo::Fifo::default()),
                };
                let start = Instant::now();
                let result = run(&*fs, sources, &Options::default())?;
                rates.push(result.operations as f64 / start.elapsed().as_secs_f64());
                // The other one does nothing, whatever is expected of it.
                if target == "mem:fast" && result.unexpected > 0 {
                    return Err(format!("{} errors on {target}", result.unexpected).into());
                }
            }
            rates.sort_by(f64::total_cmp);
            let best = rates.last().copied().unwrap_or_default();
            let median = rates.get(REPETITIONS / 2).copied().unwrap_or_default();
            rows.push(format!(
                "  {{ \"target\": \"{target}\", \"streams\": {streams}, \"best_per_s\": {best:.0}, \
                 \"median_per_s\": {median:.0}, \"raw_per_s\": {rates:.0?} }}"
            ));
        }
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
    // Each in a directory of its own.
    let texts = (0..source.paths().len()).filter_map(PathId::from_index);
    let mut paths = PathTable::new();
    for id in texts {
        let text = source.paths().get(id).escape_ascii();
        let text = format!("{stream}/{text}");
        paths.intern(text.as_bytes()).ok_or("too many paths")?;
    }
    let mut own = ops.first().copied().ok_or("no operations")?;
    own.kind = OpKind::Mkdir;
    own.path = paths.intern(stream.to_string().as_bytes());
    ops.insert(0, own);
    for op in &mut ops {
        op.pid = fsage_core::Pid(stream);
    }
    Ok(VecSource::new(paths, ops))
}
