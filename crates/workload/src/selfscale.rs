//! The five parameters of a self-scaling I/O benchmark (Chen and Patterson 1993; Traeger 2007, 4):
//! data size, request size, share of reads, share of sequential access, processes.

use fsage_core::Seed;

use crate::ops::{File, NEW, O_RDWR, Ops, SETUP_REQUEST_BYTES};
use crate::params::{SEED, bytes, count, percent, request, switch};
use crate::program::{BuildError, Inputs, Length, Program};
use crate::random::{Random, stream_seed};
use crate::spec::Values;
use crate::steps::{Steps, program, run, setup};
use crate::table::{Parameter, Workload, needs_nothing};

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "selfscale",
    what: "processes that read and write a data set, in order or at random, by five parameters",
    good_for: "a curve over one parameter with the others fixed (data size shows the caches, request \
               size the overheads); it has no metadata operations",
    source: "Chen and Patterson 1993; Traeger 2007, 4",
    parameters: PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build,
};

const PARAMETERS: &[Parameter] = &[
    bytes(
        "size",
        64 << 20,
        "data that is touched, spread evenly over one file for each process (uniqueBytes)",
    ),
    request("request", 16 << 10, "mean size of a request (sizeMean)"),
    percent("read", 50, "requests that read, in hundredths (readFrac)"),
    percent(
        "sequential",
        50,
        "requests that start where the process's last one ended, in hundredths (seqFrac)",
    ),
    count(
        "processes",
        1,
        (1, 1024),
        "processes that issue requests (processNum)",
    ),
    count(
        "requests",
        10_000,
        (1, 1_000_000_000_000),
        "requests of each process",
    ),
    switch(
        "vary",
        true,
        "sizes of requests vary by as much as their mean (exponential); otherwise all are the mean",
    ),
    SEED,
];

/// Requests start and end at a multiple of this.
const SECTOR_BYTES: u64 = 512;

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let processes = values.number("processes").max(1);
    let (size, request) = (values.number("size"), values.number("request"));
    let sectors = size / processes / SECTOR_BYTES;
    if sectors == 0 || request > sectors * SECTOR_BYTES {
        return Err(BuildError::new(
            WORKLOAD.name,
            format!(
                "{size} bytes over {processes} processes leave {} bytes for each; expected at least \
                 a request of {request} bytes and a sector of {SECTOR_BYTES}",
                size / processes
            ),
        ));
    }
    let seed = Seed(values.number("seed"));
    let generators = (0..processes)
        .map(|i| SelfScale {
            path: format!("data{i}"),
            size: sectors * SECTOR_BYTES,
            request,
            read: values.number("read"),
            sequential: values.number("sequential"),
            requests: values.number("requests"),
            vary: values.switch("vary"),
            endless: inputs.length == Length::Endless,
            seed: stream_seed(seed, i),
            random: Random::new(seed),
            file: None,
        })
        .collect();
    let plans = vec![setup("create"), run("requests")];
    Ok(program(WORKLOAD.name, generators, plans, inputs.length))
}

struct SelfScale {
    path: String,
    size: u64,
    request: u64,
    read: u64,
    sequential: u64,
    requests: u64,
    vary: bool,
    endless: bool,
    seed: Seed,
    random: Random,
    file: Option<File>,
}

impl SelfScale {
    fn create(&mut self, ops: &mut Ops) -> bool {
        let mut file = match self.file.take() {
            Some(file) if file.size == self.size => {
                ops.close(file);
                return true;
            }
            Some(file) => file,
            None => ops.open(&self.path, NEW, 0),
        };
        let length = SETUP_REQUEST_BYTES.min(self.size - file.size);
        ops.write(&mut file, length);
        self.file = Some(file);
        true
    }

    /// Whole sectors, at least one and at most the data.
    fn length(&mut self) -> u64 {
        let bytes = if self.vary {
            self.random.exponential(self.request)
        } else {
            self.request
        };
        let sectors = (bytes + SECTOR_BYTES / 2) / SECTOR_BYTES;
        (sectors.max(1) * SECTOR_BYTES).min(self.size)
    }
}

impl Steps for SelfScale {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage == 0 {
            let steps = self.size.div_ceil(SETUP_REQUEST_BYTES) + 1;
            return index < steps && self.create(ops);
        }
        if index == 0 {
            self.random = Random::new(self.seed);
            self.file = Some(ops.open(&self.path, O_RDWR, self.size));
        }
        let Some(mut file) = self.file else {
            return false;
        };
        if index >= self.requests && !self.endless {
            ops.close(file);
            self.file = None;
            return true;
        }
        let length = self.length();
        let starts = (self.size - length) / SECTOR_BYTES + 1;
        let sequential = self.random.below(100) < self.sequential;
        let read = self.random.below(100) < self.read;
        let at = if !sequential {
            self.random.below(starts) * SECTOR_BYTES
        } else if file.position + length <= self.size {
            file.position
        } else {
            0
        };
        if read {
            ops.pread(&file, at, length);
        } else {
            ops.pwrite(&mut file, at, length);
        }
        file.position = at + length;
        self.file = Some(file);
        true
    }
}
