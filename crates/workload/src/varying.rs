//! The C programs whose workload varies over time (Farhat 2017, appendices C, D, E): chunk after
//! chunk of creates, then writes, then reads, then deletes.

use crate::ops::{NEW, O_APPEND, O_CREAT, O_RDWR, Ops};
use crate::params::{bytes, count, request};
use crate::program::{Inputs, Length, Program};
use crate::spec::Values;
use crate::stdio::buffered_read;
use crate::steps::{Steps, program, run};
use crate::table::{Config, Parameter, Unit, Value, Workload, needs_nothing};

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "varying",
    what: "chunks, each of which creates files, then writes, reads and deletes them",
    good_for: "whether a model or a tool follows a workload that changes over time, in its mix (C), \
               its sizes (D) and what its reads find in the cache (E)",
    source: "Farhat 2017, appendices C, D and E",
    parameters: PARAMETERS,
    configs: CONFIGS,
    needs: needs_nothing,
    build: |values, inputs| Ok(build(values, inputs)),
};

const PARAMETERS: &[Parameter] = &[
    count("chunks", 10, (1, 1_000_000), "chunks (numberOfChunks)"),
    count(
        "ops",
        5000,
        (1, 10_000_000),
        "operations of each kind in a chunk (numberOfOps)",
    ),
    bytes(
        "size",
        4096,
        "bytes that each file is written with in one request (contentsize)",
    ),
    Parameter {
        name: "sizes",
        unit: Unit::Choice(&["one", "circular"]),
        default: Value::text("one"),
        range: (0, 0),
        what: "`circular` takes 200000, 100000, 50000, 10000 and 1000 bytes in turn instead of `size`",
    },
    count(
        "reread",
        0,
        (0, 10_000_000),
        "of how many files one is read again at once, from the cache; 0 for none",
    ),
    request(
        "buffer",
        4096,
        "size of the C library's buffer, through which files are read; st_blksize",
    ),
];

const CONFIGS: &[Config] = &[
    Config {
        name: "c",
        what: "appendix C: files of one size",
        values: &[],
    },
    Config {
        name: "d",
        what: "appendix D: five sizes in turn",
        values: &[("sizes", Value::text("circular"))],
    },
    Config {
        name: "e",
        what: "appendix E: every fifth file is read again from the cache",
        values: &[("reread", Value::Number(5)), ("ops", Value::Number(3000))],
    },
];

/// Appendix D's strings.
const CIRCULAR_BYTES: [u64; 5] = [200_000, 100_000, 50_000, 10_000, 1000];

fn build(values: &Values, inputs: &Inputs) -> Program {
    let generator = Varying {
        chunks: values.number("chunks"),
        ops: values.number("ops"),
        size: (values.text("sizes") != "circular").then(|| values.number("size")),
        reread: values.number("reread"),
        buffer: values.number("buffer").max(1),
        endless: inputs.length == Length::Endless,
    };
    program(
        WORKLOAD.name,
        vec![generator],
        vec![run("chunks")],
        inputs.length,
    )
}

struct Varying {
    chunks: u64,
    ops: u64,
    /// `None` for the circular sizes.
    size: Option<u64>,
    reread: u64,
    buffer: u64,
    endless: bool,
}

impl Varying {
    fn read(&self, path: &str, j: u64, size: u64, ops: &mut Ops) {
        // fopen(…, "ab+") and fread of the whole content through the C library.
        let mut file = ops.open(path, O_RDWR | O_CREAT | O_APPEND, size);
        ops.fstat(&file);
        buffered_read(size, size, self.buffer, |_, asked, _| {
            ops.read(&mut file, asked);
        });
        ops.close(file);
        if self.reread > 0 && j.is_multiple_of(self.reread) {
            // The appendix seeks on a name before, which no system call results from.
            let mut file = ops.open(path, O_RDWR, size);
            ops.read(&mut file, size);
            ops.close(file);
        }
    }
}

impl Steps for Varying {
    fn step(&mut self, _stage: usize, index: u64, ops: &mut Ops) -> bool {
        let (chunk, within) = (index / (4 * self.ops), index % (4 * self.ops));
        if chunk >= self.chunks && !self.endless {
            return false;
        }
        let (kind, j) = (within / self.ops, within % self.ops);
        let path = format!("{}-{j}.txt", chunk % self.chunks);
        let circular = CIRCULAR_BYTES.get((j % 5) as usize);
        let size = self.size.unwrap_or(circular.copied().unwrap_or(0));
        match kind {
            0 => {
                let file = ops.open(path, NEW, 0);
                ops.close(file);
            }
            1 => {
                let mut file = ops.open(path, O_RDWR, 0);
                ops.write(&mut file, size);
                ops.close(file);
            }
            2 => self.read(&path, j, size, ops),
            _ => ops.unlink(path),
        }
        true
    }
}
