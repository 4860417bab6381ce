//! What the harness itself costs per operation, on the engine that does nothing.
//!
//! Prints JSON: nanoseconds per operation, the best, the median and all of the repetitions, for
//! PostMark's operations prepared in memory (in batches as `VecSource` gives them, and all in one) and
//! generated on the way: with measuring, with measured operations handed on as well, without, and for
//! reading the stream alone. What the executor adds is the difference to the last. `HandedOn` counts the
//! processor time of the streams' thread, and `MeasuredCpu` is what to hold it against: the thread that
//! takes the operations has another processor.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads a clock")]

use std::error::Error;
use std::time::Instant;

use fsage_core::{Op, OpSink, OpSource, PathTable, SinkError, SourceError, VecSource};
use fsage_exec::{Measuring, NullFs, Options, Origin, run, run_direct};
use fsage_workload::WorkloadSpec;
use fsage_workload::postmark::{Config, PostMark};

const SPEC: &str = "postmark:files=20000,transactions=60000,size=512-16384,subdirs=50";
const REPETITIONS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let spec: WorkloadSpec = SPEC.parse()?;
    let WorkloadSpec::Generated { values, .. } = &spec else {
        return Err("the workload is a command".into());
    };
    let generator = || PostMark::new(&Config::from_values(values));
    let mut source = generator();
    let mut ops: Vec<Op> = Vec::new();
    while source.next_batch(&mut ops)? > 0 {}
    let count = ops.len();
    // Modes are named as arguments, or they are all; they take turns, so that a busy machine hits all.
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let modes = Mode::ALL.into_iter();
    let modes = modes.filter(|m| wanted.is_empty() || wanted.contains(&format!("{m:?}")));
    let modes: Vec<Mode> = modes.collect();
    let mut rows = Vec::new();
    for from in ["prepared", "one batch", "generated"] {
        let mut samples = vec![Vec::new(); modes.len()];
        for _ in 0..REPETITIONS {
            for (mode, samples) in modes.iter().zip(&mut samples) {
                let source: Box<dyn OpSource + Send> = match from {
                    "prepared" => Box::new(VecSource::new(source.paths().clone(), ops.clone())),
                    "one batch" => Box::new(OneBatch(source.paths().clone(), ops.clone())),
                    _ => Box::new(generator()),
                };
                samples.push(mode.run(source)? / count as f64);
            }
        }
        let each = modes.iter().zip(&mut samples);
        rows.extend(each.map(|(mode, samples)| row(*mode, from, samples)));
    }
    println!("{{\n  \"workload\": \"{spec}\",\n  \"operations\": {count},");
    println!("  \"per_operation\": [\n{}\n  ]\n}}", rows.join(",\n"));
    Ok(())
}

/// Operations that are all yielded at once.
struct OneBatch(PathTable, Vec<Op>);

impl OpSource for OneBatch {
    fn paths(&self) -> &PathTable {
        &self.0
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        batch.extend_from_slice(&self.1);
        Ok(std::mem::take(&mut self.1).len())
    }
}

fn row(mode: Mode, from: &str, samples: &mut [f64]) -> String {
    samples.sort_by(f64::total_cmp);
    let best = samples.first().copied().unwrap_or_default();
    let median = samples.get(REPETITIONS / 2).copied().unwrap_or_default();
    format!(
        "    {{ \"mode\": \"{mode:?}\", \"stream\": \"{from}\", \"best_ns\": {best:.1}, \
         \"median_ns\": {median:.1},\n      \"raw_ns\": {samples:.1?} }}"
    )
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Measured,
    Direct,
    SourceAlone,
    MeasuredCpu,
    HandedOn,
}

/// A sink that costs nothing.
struct Count(u64);

impl OpSink for Count {
    fn push(&mut self, _: &Op, _: &PathTable) -> Result<(), SinkError> {
        self.0 += 1;
        Ok(())
    }
}

impl Mode {
    const ALL: [Mode; 5] = [
        Mode::Measured,
        Mode::Direct,
        Mode::SourceAlone,
        Mode::MeasuredCpu,
        Mode::HandedOn,
    ];

    /// Nanoseconds for the whole stream.
    fn run(self, mut source: Box<dyn OpSource + Send>) -> Result<f64, Box<dyn Error>> {
        let options = Options::default();
        let start = Instant::now();
        match self {
            Mode::Measured => return Ok(run(&NullFs, vec![source], &options)?.elapsed_ns as f64),
            Mode::MeasuredCpu => return Ok(run(&NullFs, vec![source], &options)?.cpu_ns as f64),
            Mode::HandedOn => {
                let origin = Origin {
                    start_ns: 0,
                    directory: b"/".to_vec(),
                    is_virtual: false,
                    empty_call_ns: 0,
                };
                let measuring = Measuring::begin(Count(0), origin)?;
                let options = Options {
                    measured: Some(measuring.door()),
                    ..options
                };
                let cpu_ns = run(&NullFs, vec![source], &options)?.cpu_ns;
                measuring.finish().1?;
                return Ok(cpu_ns as f64);
            }
            Mode::Direct => {
                run_direct(&NullFs, vec![source], &options)?;
            }
            Mode::SourceAlone => {
                let mut batch: Vec<Op> = Vec::new();
                while source.next_batch(&mut batch)? > 0 {
                    std::hint::black_box(&batch);
                    batch.clear();
                }
            }
        }
        Ok(start.elapsed().as_nanos() as f64)
    }
}
