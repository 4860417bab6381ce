//! Rate of 4 KiB preads of a cached file through the executor, to be held against another tool's.
//!
//! `cached_pread FILE random|sequential timed|untimed SECONDS` prints preads for each second.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads a clock and waits"
)]

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsage_core::{Fd, Op, OpKind, OpSource, Outcome, PathTable, Pid, Seed, SourceError, Tid};
use fsage_exec::{Options, run, run_direct};
use fsage_host::{Confinement, HostFs, HostOptions};
use fsage_workload::random::Random;

const BLOCK_BYTES: u64 = 4096;

/// Preads of whole blocks for ever, after the open.
struct Preads {
    paths: PathTable,
    random: Option<Random>,
    blocks: u64,
    next: u64,
    open: Option<Op>,
}

impl OpSource for Preads {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        batch.extend(self.open.take());
        for _ in 0..128 {
            let block = match &mut self.random {
                Some(random) => random.below(self.blocks),
                None => self.next % self.blocks,
            };
            self.next += 1;
            let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), 0);
            op.fd = Some(Fd(3));
            op.offset = Some(block * BLOCK_BYTES);
            op.length = Some(BLOCK_BYTES);
            op.result = Outcome::ok(BLOCK_BYTES);
            batch.push(op);
        }
        Ok(batch.len() - before)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, pattern, timing, seconds] = args.as_slice() else {
        return Err("expected FILE random|sequential timed|untimed SECONDS".into());
    };
    let file = Path::new(file);
    let (dir, name) = (file.parent(), file.file_name());
    let (Some(dir), Some(name)) = (dir, name) else {
        return Err("expected the path of a file".into());
    };
    let mut paths = PathTable::new();
    let mut open = Op::new(OpKind::Open, Pid(1), Tid(1), 0);
    open.path = paths.intern(name.as_encoded_bytes());
    open.result = Outcome::ok(3);
    let source = Box::new(Preads {
        paths,
        random: (pattern == "random").then(|| Random::new(Seed(1))),
        blocks: std::fs::metadata(file)?.len() / BLOCK_BYTES,
        next: 0,
        open: Some(open),
    });
    let host = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    let fs = HostFs::open(dir, host)?;
    let time = Duration::from_secs_f64(seconds.parse()?);
    let rate = if timing == "timed" {
        let options = Options {
            run_for_ns: Some(time.as_nanos() as u64),
            ..Options::default()
        };
        let result = run(&fs, vec![source], &options)?;
        if result.unexpected > 0 {
            return Err("not every read gave 4096 bytes".into());
        }
        result.operations as f64 * 1e9 / result.elapsed_ns as f64
    } else {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(time);
                stop.store(true, Ordering::Relaxed);
            });
            let options = Options {
                stop: Some(&stop),
                ..Options::default()
            };
            let start = Instant::now();
            let done = run_direct(&fs, vec![source], &options)?;
            Ok::<f64, Box<dyn Error>>(done.operations as f64 / start.elapsed().as_secs_f64())
        })?
    };
    println!("{rate:.0}");
    Ok(())
}
