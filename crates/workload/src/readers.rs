//! Readers of large files: several at once, and one that strides (Ellard 2003, 4.3 and 7).

use crate::ops::{File, O_RDONLY, Ops, SETUP_REQUEST_BYTES};
use crate::params::{bytes, count, request};
use crate::program::{BuildError, Inputs, Length, Phase, Program, Role, Stream, stages};
use crate::spec::Values;
use crate::steps::{Stepped, Steps, program, run_cold, setup};
use crate::table::{Parameter, Workload, needs_nothing};

/// The row of the concurrent readers.
pub const READERS: Workload = Workload {
    name: "readers",
    what: "n processes at once, each reading a file of its own of total/n bytes in order",
    good_for: "bandwidth under concurrent streams and how fairly it is shared: compare the readers' \
               times, not only their sum",
    source: "Ellard 2003, 4.3",
    parameters: READERS_PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build: readers,
};

const READERS_PARAMETERS: &[Parameter] = &[
    bytes("total", 256 << 20, "bytes that all readers read together"),
    count(
        "n",
        0,
        (0, 1024),
        "readers at once; 0 for 1, 2, 4, 8, 16 and 32, one after the other",
    ),
    request("request", 8 << 10, "size of a read request"),
];

/// Numbers of readers of the paper.
const READERS_SWEEP: [u64; 6] = [1, 2, 4, 8, 16, 32];

fn readers(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let (total, request) = (values.number("total"), values.number("request"));
    let chosen = [values.number("n")];
    let sweep: &[u64] = if chosen == [0] {
        &READERS_SWEEP
    } else {
        &chosen
    };
    if let Some(n) = sweep.iter().find(|&&n| n > total) {
        return Err(BuildError::new(
            READERS.name,
            format!("{total} bytes are too few for {n} readers"),
        ));
    }
    let create = Create {
        total,
        sweep: sweep.to_vec(),
        next: (0, 0, 0),
        file: None,
    };
    let mut program = program(
        READERS.name,
        vec![create],
        vec![setup("create")],
        Length::Count,
    );
    let teardown = program.phases.pop();
    for &n in sweep {
        let streams = (0..n)
            .map(|i| {
                let reader = Reader {
                    path: reader_path(n, i),
                    size: total / n,
                    request,
                    endless: inputs.length == Length::Endless,
                    file: None,
                };
                // Process 1 made the files.
                let stepped = Stepped::new(READERS.name, i as u32 + 2, reader, 1);
                stages(stepped, 1)
                    .into_iter()
                    .map(|stage| Box::new(stage) as Stream)
            })
            .flat_map(Iterator::collect::<Vec<_>>)
            .collect();
        let name = if n == 1 {
            "1 reader".to_owned()
        } else {
            format!("{n} readers")
        };
        program
            .phases
            .push(Phase::parallel(Role::Run, name, streams).cold());
    }
    program.phases.extend(teardown);
    Ok(program)
}

fn reader_path(n: u64, i: u64) -> String {
    format!("n{n}/{i}")
}

/// Makes the files of all sweeps, one after the other.
struct Create {
    total: u64,
    sweep: Vec<u64>,
    /// The sweep, the file in it, and how much of it is written.
    next: (usize, u64, u64),
    file: Option<File>,
}

impl Steps for Create {
    fn step(&mut self, _stage: usize, _index: u64, ops: &mut Ops) -> bool {
        let (at, i, _) = self.next;
        let Some(&n) = self.sweep.get(at) else {
            return false;
        };
        let file = self.file.take().unwrap_or_else(|| {
            if i == 0 {
                ops.mkdir(format!("n{n}"));
            }
            ops.open(reader_path(n, i), crate::ops::NEW, 0)
        });
        self.file = ops.write_next(file, self.total / n, SETUP_REQUEST_BYTES);
        if self.file.is_none() {
            self.next = if i + 1 < n {
                (at, i + 1, 0)
            } else {
                (at + 1, 0, 0)
            };
        }
        true
    }
}

struct Reader {
    path: String,
    size: u64,
    request: u64,
    endless: bool,
    file: Option<File>,
}

impl Steps for Reader {
    fn step(&mut self, _stage: usize, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.file = Some(ops.open(&self.path, O_RDONLY, self.size));
        }
        let Some(mut file) = self.file.take() else {
            return false;
        };
        if ops.read(&mut file, self.request) > 0 {
            self.file = Some(file);
        } else if self.endless {
            ops.seek(&mut file, 0);
            self.file = Some(file);
        } else {
            ops.close(file);
        }
        true
    }
}

/// The row of the stride readers.
pub const STRIDE: Workload = Workload {
    name: "stride",
    what: "one process that reads a file in s interleaved sequences: blocks 0, x, 1, x+1, …",
    good_for: "whether read-ahead recognises patterns that are sequential in parts; a file that \
               fits in memory must be cold",
    source: "Ellard 2003, 7",
    parameters: STRIDE_PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build: stride,
};

const STRIDE_PARAMETERS: &[Parameter] = &[
    bytes("size", 256 << 20, "size of the file"),
    count(
        "s",
        0,
        (0, 1 << 20),
        "sequences; 0 for 2, 4 and 8, one after the other",
    ),
    request("request", 8 << 10, "size of a block, one read request"),
];

/// Strides of the paper.
const STRIDE_SWEEP: [u64; 3] = [2, 4, 8];

fn stride(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let (size, request) = (values.number("size"), values.number("request"));
    let chosen = [values.number("s")];
    let sweep: &[u64] = if chosen == [0] {
        &STRIDE_SWEEP
    } else {
        &chosen
    };
    if let Some(s) = sweep.iter().find(|&&s| !size.is_multiple_of(s * request)) {
        return Err(BuildError::new(
            STRIDE.name,
            format!("size {size} is not a multiple of {s} sequences of blocks of {request} bytes"),
        ));
    }
    let generator = Stride {
        size,
        request,
        sweep: sweep.to_vec(),
        endless: inputs.length == Length::Endless,
        file: None,
    };
    let mut plans = vec![setup("create")];
    plans.extend(sweep.iter().map(|s| run_cold(format!("stride {s}"))));
    Ok(program(STRIDE.name, vec![generator], plans, inputs.length))
}

struct Stride {
    size: u64,
    request: u64,
    sweep: Vec<u64>,
    endless: bool,
    file: Option<File>,
}

impl Stride {
    /// Makes the file, a megabyte a step.
    fn create(&mut self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.file = Some(ops.open("stride", crate::ops::NEW, 0));
        }
        let Some(file) = self.file.take() else {
            return false;
        };
        self.file = ops.write_next(file, self.size, SETUP_REQUEST_BYTES);
        true
    }
}

impl Steps for Stride {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage == 0 {
            return self.create(index, ops);
        }
        let Some(&s) = self.sweep.get(stage - 1) else {
            return false;
        };
        let blocks = self.size / self.request;
        if index >= blocks && !self.endless {
            return false;
        }
        if index == 0 {
            self.file = Some(ops.open("stride", O_RDONLY, self.size));
        }
        let Some(file) = self.file else {
            return false;
        };
        let at = index % blocks;
        ops.pread(
            &file,
            (at % s) * (self.size / s) + at / s * self.request,
            self.request,
        );
        if index + 1 == blocks && !self.endless {
            ops.close(file);
        }
        true
    }
}
