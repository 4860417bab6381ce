//! PostMark 1.5: short-lived small files of a mail or news server (Katcher 1997; Smith 2001,
//! 4.5.3.3; Traeger 2007, 7.1).
//!
//! What PostMark does, call by call, with another random sequence (its generator is its own; the
//! counts agree within what that explains) and with files chosen in constant time, where the
//! original searches its table (Traeger 2007, 7.1 names it as a fault).

mod calls;
mod generate;
mod pool;

use fsage_core::Seed;

pub use generate::{PostMark, Tally};

use crate::program::{
    BuildError, Inputs, Length, Phase, Program, Role, Stream, check_requests, stages,
};
use crate::random::stream_seed;
use crate::spec::Values;
use crate::table::{self, Parameter, Unit, Value, Workload, needs_nothing};

/// Sizes above this would make a single file fill any target.
const LARGEST_FILE: i64 = 1 << 40;

/// PostMark's row in the list of workloads.
pub const WORKLOAD: Workload = Workload {
    name: "postmark",
    what: "a pool of small files that are created, read, appended to and deleted at random, as a \
           mail or news server does",
    good_for: "metadata and small files in a cache that holds them; with its defaults it is over \
               before anything reaches a disk, so give it more files and transactions, and report \
               all of its parameters (Traeger 2007, 7.1)",
    source: "Katcher 1997 (PostMark 1.5); Smith 2001, 4.5.3.3; Traeger 2007, Table IV",
    parameters: PARAMETERS,
    configs: CONFIGS,
    needs: needs_nothing,
    build: |values, inputs| program(&Config::from_values(values), inputs),
};

/// The configurations of Traeger 2007, Table IV.
const CONFIGS: &[table::Config] = &[
    table::Config {
        name: "fsl",
        what: "of the File systems and Storage Lab, Stony Brook",
        values: &[
            ("files", Value::Number(20_000)),
            ("subdirs", Value::Number(200)),
            ("size", Value::Range(512, 10 << 10)),
            ("transactions", Value::Number(200_000)),
            ("read", Value::Number(4096)),
            ("write", Value::Number(4096)),
            ("buffering", Value::Switch(false)),
        ],
    },
    table::Config {
        name: "cvfs",
        what: "of the CVFS paper (Soules 2003)",
        values: &[
            ("files", Value::Number(5000)),
            ("subdirs", Value::Number(50)),
            ("size", Value::Range(512, 10 << 10)),
            ("transactions", Value::Number(20_000)),
            ("read", Value::Number(4096)),
            ("write", Value::Number(4096)),
            ("buffering", Value::Switch(false)),
        ],
    },
    table::Config {
        name: "cvfs-large",
        what: "the same with files up to the median size of a mailbox",
        values: &[
            ("files", Value::Number(5000)),
            ("subdirs", Value::Number(50)),
            ("size", Value::Range(512, 328_072)),
            ("transactions", Value::Number(20_000)),
            ("read", Value::Number(4096)),
            ("write", Value::Number(4096)),
            ("buffering", Value::Switch(false)),
        ],
    },
];

/// PostMark's parameters and its documented defaults; `buffer` is the C library's.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "files",
        unit: Unit::Count,
        default: Value::Number(500),
        range: (1, 100_000_000),
        what: "files in the initial pool; at most twice as many exist at once",
    },
    Parameter {
        name: "transactions",
        unit: Unit::Count,
        default: Value::Number(500),
        range: (0, 1_000_000_000_000),
        what: "transactions, each a read or append and a create or delete; fewer where the pool \
               empties before",
    },
    Parameter {
        name: "size",
        unit: Unit::ByteRange,
        default: Value::Range(500, 10_000),
        range: (1, LARGEST_FILE),
        what: "sizes of new files, the upper end excluded, and the most that appends reach",
    },
    Parameter {
        name: "subdirs",
        unit: Unit::Count,
        default: Value::Number(0),
        range: (0, 1_000_000),
        what: "directories s0, s1, … over which files are spread; 0 and 1 use the top directory",
    },
    Parameter {
        name: "read",
        unit: Unit::Bytes,
        default: Value::Number(512),
        range: (1, 1 << 30),
        what: "size of a read request",
    },
    Parameter {
        name: "write",
        unit: Unit::Bytes,
        default: Value::Number(512),
        range: (1, 1 << 30),
        what: "size of a write request",
    },
    Parameter {
        name: "bias-read",
        unit: Unit::Bias,
        default: Value::Bias(5),
        range: (-1, 10),
        what: "chance in tenths of a read instead of an append; -1 for neither",
    },
    Parameter {
        name: "bias-create",
        unit: Unit::Bias,
        default: Value::Bias(5),
        range: (-1, 10),
        what: "chance in tenths of a create instead of a delete; -1 for neither",
    },
    Parameter {
        name: "buffering",
        unit: Unit::Switch,
        default: Value::Switch(true),
        range: (0, 1),
        what: "requests go through the C library's buffer instead of straight to the system",
    },
    Parameter {
        name: "buffer",
        unit: Unit::Bytes,
        default: Value::Number(4096),
        range: (1, 1 << 30),
        what: "size of that buffer; the C library takes st_blksize, 4096 on most file systems",
    },
    Parameter {
        name: "threads",
        unit: Unit::Count,
        default: Value::Number(1),
        range: (1, 1024),
        what: "processes at once, each with an equal share of files and transactions in a directory \
               p0, p1, … of its own; one uses the top directory, as the original does",
    },
    Parameter {
        name: "seed",
        unit: Unit::Seed,
        default: Value::Number(42),
        range: (0, i64::MAX),
        what: "where the random sequence starts",
    },
];

/// A configuration of PostMark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Files in the initial pool.
    pub files: u64,
    /// Transactions.
    pub transactions: u64,
    /// Smallest size of a new file, in bytes.
    pub size_low_bytes: u64,
    /// Bound of the sizes, in bytes.
    pub size_high_bytes: u64,
    /// Subdirectories.
    pub subdirs: u64,
    /// Size of a read request in bytes.
    pub read_bytes: u64,
    /// Size of a write request in bytes.
    pub write_bytes: u64,
    /// Tenths of reads; -1 for neither reads nor appends.
    pub bias_read: i64,
    /// Tenths of creates; -1 for neither creates nor deletes.
    pub bias_create: i64,
    /// Size of the C library's buffer in bytes, `None` without one.
    pub buffer_bytes: Option<u64>,
    /// Processes at once.
    pub threads: u64,
    /// Where the random sequence starts.
    pub seed: Seed,
}

impl Config {
    /// The configuration that the values of [`PARAMETERS`] give.
    pub fn from_values(values: &Values) -> Self {
        let (size_low_bytes, size_high_bytes) = values.range("size");
        Self {
            files: values.number("files"),
            transactions: values.number("transactions"),
            size_low_bytes,
            size_high_bytes,
            subdirs: values.number("subdirs"),
            read_bytes: values.number("read").max(1),
            write_bytes: values.number("write").max(1),
            bias_read: values.bias("bias-read"),
            bias_create: values.bias("bias-create"),
            buffer_bytes: values
                .switch("buffering")
                .then(|| values.number("buffer").max(1)),
            threads: values.number("threads").max(1),
            seed: Seed(values.number("seed")),
        }
    }

    /// Requests that a file of the largest size takes at the most.
    fn least_request(&self) -> u64 {
        let direct = self.read_bytes.min(self.write_bytes);
        self.buffer_bytes.unwrap_or(direct)
    }

    /// The share of process `i` of [`Config::threads`].
    fn share(&self, i: u64) -> Self {
        let part = |n: u64| n / self.threads + u64::from(i < n % self.threads);
        Self {
            files: part(self.files),
            transactions: part(self.transactions),
            seed: stream_seed(self.seed, i),
            ..*self
        }
    }
}

/// The pool is created, transacted on and deleted; the run alone is what PostMark's rate of
/// transactions is about.
fn program(config: &Config, inputs: &Inputs) -> Result<Program, BuildError> {
    if config.files < config.threads {
        return Err(BuildError::new(
            WORKLOAD.name,
            format!(
                "{} files are fewer than {} threads; each needs one at the least",
                config.files, config.threads
            ),
        ));
    }
    check_requests(
        WORKLOAD.name,
        config.size_high_bytes,
        config.least_request(),
    )?;
    let endless = inputs.length == Length::Endless;
    let phases = [
        (Role::Setup, "create the pool"),
        (Role::Run, "transactions"),
        (Role::Teardown, "delete the pool"),
    ];
    let mut streams: Vec<Vec<Stream>> = phases.iter().map(|_| Vec::new()).collect();
    for i in 0..config.threads {
        let mut process = PostMark::new(&config.share(i));
        if config.threads > 1 {
            process = process.as_process(i as u32);
        }
        if endless {
            process = process.endless();
        }
        for (phase, stage) in streams.iter_mut().zip(stages(process, phases.len())) {
            phase.push(Box::new(stage));
        }
    }
    Ok(Program::new(
        phases
            .into_iter()
            .zip(streams)
            .map(|((role, name), streams)| Phase::parallel(role, name, streams))
            .collect(),
    ))
}

#[cfg(test)]
#[path = "postmark/tests.rs"]
mod tests;
