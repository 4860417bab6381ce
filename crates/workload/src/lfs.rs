//! The two microbenchmarks of Sprite LFS (Rosenblum 1992; Traeger 2007, 9.2): many small files, and
//! one large file.
//!
//! Their faults that Traeger names are mended: sizes are parameters, the random order comes from a
//! seed and is made in linear time, and caches are cold at the start of each phase but the first,
//! where the target can be made so.

use crate::ops::{File, NEW, O_RDONLY, O_RDWR, Ops};
use crate::params::{SEED, bytes, count, request, switch};
use crate::program::{BuildError, Inputs, Program, check_requests};
use crate::random::{Random, permutation, stream_seed};
use crate::spec::Values;
use crate::steps::{Steps, repeated, run, run_cold, setup};
use crate::table::{Parameter, Workload, needs_nothing};
use fsage_core::Seed;

/// The row of the small-file benchmark.
pub const SMALL: Workload = Workload {
    name: "lfs-small",
    what: "creates small files, reads them and deletes them, all in the order of their names",
    good_for: "the cost of a small file from creation to deletion, with nothing between calls; the \
               order is the friendliest there is, so it says nothing of random access",
    source: "Rosenblum 1992; Traeger 2007, 9.2",
    parameters: SMALL_PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build: small,
};

const SMALL_PARAMETERS: &[Parameter] = &[
    count("files", 10_000, (1, 100_000_000), "files"),
    bytes("size", 1024, "size of each file"),
    count(
        "dirs",
        1,
        (1, 1_000_000),
        "directories over which the files are spread, filled one after the other",
    ),
    request(
        "request",
        64 << 10,
        "size of a read or write request; a shorter file is one request",
    ),
];

fn small(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let generator = Small {
        files: values.number("files"),
        size: values.number("size"),
        dirs: values.number("dirs").max(1),
        request: values.number("request").max(1),
    };
    check_requests(SMALL.name, generator.size, generator.request)?;
    let plans = vec![
        setup("directories"),
        run("create"),
        run_cold("read"),
        run_cold("delete"),
    ];
    Ok(repeated(SMALL.name, generator, plans, inputs.length))
}

struct Small {
    files: u64,
    size: u64,
    dirs: u64,
    request: u64,
}

impl Small {
    fn path(&self, file: u64) -> String {
        let dir = u128::from(file) * u128::from(self.dirs) / u128::from(self.files);
        format!("d{dir}/f{file}")
    }
}

impl Steps for Small {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        let steps = if stage == 0 { self.dirs } else { self.files };
        if index >= steps {
            return false;
        }
        match stage {
            0 => ops.mkdir(format!("d{index}")),
            1 => ops.write_whole(self.path(index), self.size, self.request),
            2 => {
                let mut file = ops.open(self.path(index), O_RDONLY, self.size);
                while !file.at_end() {
                    ops.read(&mut file, self.request.min(self.size));
                }
                ops.close(file);
            }
            _ => ops.unlink(self.path(index)),
        }
        true
    }
}

/// The row of the large-file benchmark.
pub const LARGE: Workload = Workload {
    name: "lfs-large",
    what: "writes a large file in order, reads it in order, writes and reads it at random, and reads \
           it in order again",
    good_for: "bandwidth of one file, in and out of order, and what a random write does to a later \
               read in order; sizes near that of memory measure the cache",
    source: "Rosenblum 1992; Traeger 2007, 9.2",
    parameters: LARGE_PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build: large,
};

const LARGE_PARAMETERS: &[Parameter] = &[
    bytes("size", 100 << 20, "size of the file"),
    request("request", 8 << 10, "size of a read or write request"),
    switch(
        "fsync",
        false,
        "the phases that write end with an fsync, so that their time holds the write-back",
    ),
    SEED,
];

/// More requests than this are no longer a permutation that fits in memory.
const MOST_REQUESTS: u64 = 1 << 28;

fn large(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let generator = Large {
        size: values.number("size"),
        request: values.number("request").max(1),
        fsync: values.switch("fsync"),
        seed: Seed(values.number("seed")),
        order: Vec::new(),
        file: None,
    };
    let requests = generator.requests();
    if requests > MOST_REQUESTS {
        return Err(BuildError::new(
            LARGE.name,
            format!(
                "{} bytes in requests of {} are {requests} requests; expected at most {MOST_REQUESTS}",
                generator.size, generator.request
            ),
        ));
    }
    let plans = vec![
        run("sequential write"),
        run_cold("sequential read"),
        run_cold("random write"),
        run_cold("random read"),
        run_cold("sequential reread"),
    ];
    Ok(repeated(LARGE.name, generator, plans, inputs.length))
}

struct Large {
    size: u64,
    request: u64,
    fsync: bool,
    seed: Seed,
    order: Vec<u32>,
    file: Option<File>,
}

const RANDOM_WRITE: usize = 2;
const RANDOM_READ: usize = 3;

impl Large {
    fn requests(&self) -> u64 {
        self.size.div_ceil(self.request)
    }
}

impl Steps for Large {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        let requests = self.requests();
        if index >= requests {
            return false;
        }
        let random = matches!(stage, RANDOM_WRITE | RANDOM_READ);
        let writes = matches!(stage, 0 | RANDOM_WRITE);
        if index == 0 {
            let (flags, size) = match stage {
                0 => (NEW, 0),
                RANDOM_WRITE => (O_RDWR, self.size),
                _ => (O_RDONLY, self.size),
            };
            self.file = Some(ops.open("large", flags, size));
            self.order = if random {
                let seed = stream_seed(self.seed, stage as u64);
                permutation(requests, &mut Random::new(seed))
            } else {
                Vec::new()
            };
        }
        let Some(mut file) = self.file.take() else {
            return false;
        };
        let block = self.order.get(index as usize).map_or(index, |&b| b.into());
        let offset = block * self.request;
        let length = self.request.min(self.size - offset);
        match (random, writes) {
            (true, true) => ops.pwrite(&mut file, offset, length),
            (true, false) => drop(ops.pread(&file, offset, length)),
            (false, true) => ops.write(&mut file, length),
            (false, false) => drop(ops.read(&mut file, length)),
        }
        if index + 1 < requests {
            self.file = Some(file);
        } else {
            if writes && self.fsync {
                ops.fsync(&file);
            }
            ops.close(file);
        }
        true
    }
}
