//! A cold read of small files in random order: what a user meets who comes back to a tree, and where
//! the layout of inodes and data on the device decides.

use fsage_core::Seed;

use crate::ops::{O_RDONLY, Ops};
use crate::params::{LARGEST_FILE, SEED, byte_range, count, request};
use crate::program::{BuildError, Inputs, Length, Program, check_requests};
use crate::random::{Random, permutation, stream_seed};
use crate::spec::Values;
use crate::steps::{Steps, program, run_cold, setup};
use crate::table::{Parameter, Workload, needs_nothing};

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "small-read",
    what: "opens, reads whole and closes small files in random order, with cold caches",
    good_for: "the cost of a small file that is not in memory: name, inode and data; with warm \
               caches it measures system calls",
    source: "the read phase of Rosenblum 1992 (Traeger 2007, 9.2) in random order",
    parameters: PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build,
};

const PARAMETERS: &[Parameter] = &[
    count("files", 600, (1, 10_000_000), "files"),
    count(
        "dirs",
        20,
        (1, 1_000_000),
        "directories, filled one after the other",
    ),
    byte_range(
        "size",
        (1024, 16 << 10),
        (0, LARGEST_FILE),
        "sizes of the files, both ends included",
    ),
    request(
        "request",
        128 << 10,
        "size of a read request; a read that finds the end follows",
    ),
    SEED,
];

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let generator = SmallRead {
        files: values.number("files"),
        dirs: values.number("dirs"),
        size: values.range("size"),
        request: values.number("request"),
        seed: Seed(values.number("seed")),
        endless: inputs.length == Length::Endless,
        random: Random::new(stream_seed(Seed(values.number("seed")), 1)),
        order: Vec::new(),
    };
    let (_, largest) = generator.size;
    check_requests(WORKLOAD.name, largest, generator.request)?;
    let plans = vec![setup("create"), run_cold("read")];
    Ok(program(
        WORKLOAD.name,
        vec![generator],
        plans,
        inputs.length,
    ))
}

struct SmallRead {
    files: u64,
    dirs: u64,
    size: (u64, u64),
    request: u64,
    seed: Seed,
    endless: bool,
    random: Random,
    order: Vec<u32>,
}

impl SmallRead {
    fn dir(&self, file: u64) -> u64 {
        file * self.dirs / self.files
    }

    fn path(&self, file: u64) -> String {
        format!("d{}/f{file}", self.dir(file))
    }

    fn size(&self, file: u64) -> u64 {
        let (low, high) = self.size;
        low + Random::new(stream_seed(self.seed, file + 2)).below(high - low + 1)
    }
}

impl Steps for SmallRead {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage == 0 {
            if index >= self.files {
                return false;
            }
            if index == 0 || self.dir(index - 1) != self.dir(index) {
                ops.mkdir(format!("d{}", self.dir(index)));
            }
            ops.write_whole(self.path(index), self.size(index), self.request);
            return true;
        }
        if index >= self.files && !self.endless {
            return false;
        }
        let at = index % self.files;
        if at == 0 {
            self.order = permutation(self.files, &mut self.random);
        }
        let file = self.order.get(at as usize).map_or(at, |&f| f.into());
        let mut open = ops.open(self.path(file), O_RDONLY, self.size(file));
        while ops.read(&mut open, self.request) > 0 {}
        ops.close(open);
        true
    }
}
