//! Bonnie's tests of one file, by character and by block, and Bonnie++'s of many (Bray 1996; Coker
//! 2001; Traeger 2007, 9.1).
//!
//! A character goes through the C library's buffer, so that what reaches the file system are
//! requests of that buffer's size: the time that the library takes for each character is not here,
//! and Traeger's third objection with it. Phases that read begin with cold caches where the target
//! can be made so; the original needs a file several times larger than memory instead.

use fsage_core::Seed;

use crate::ops::{File, NEW, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, Ops};
use crate::params::{LARGEST_FILE, SEED, bytes, count, request};
use crate::program::{BuildError, Inputs, Length, Program, Stream, check_requests, stages};
use crate::random::{Random, permutation, stream_seed};
use crate::spec::Values;
use crate::steps::{Stepped, Steps, repeated, run, run_cold};
use crate::table::{Parameter, Unit, Value, Workload, needs_nothing};

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "bonnie",
    what: "writes, rewrites and reads a file by character and by block, seeks in it, and creates, \
           stats and deletes many files in order and at random",
    good_for: "bandwidth of one file and rates of names, one kind of call at a time; access that \
               mixes them is not covered",
    source: "Bray 1996 (Bonnie); Coker 2001 (Bonnie++); Traeger 2007, 9.1",
    parameters: PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build,
};

const PARAMETERS: &[Parameter] = &[
    bytes(
        "size",
        100 << 20,
        "size of the file, rounded down to whole chunks",
    ),
    request("chunk", 8 << 10, "size of a request of the block phases"),
    request(
        "buffer",
        4096,
        "size of the C library's buffer in the character phases; st_blksize",
    ),
    count(
        "seeks",
        4000,
        (0, 1_000_000_000_000),
        "seeks of each process; 0 leaves the phase out",
    ),
    count("seekers", 3, (1, 1024), "processes that seek at once"),
    count(
        "files",
        16 << 10,
        (0, 10_000_000),
        "files that are created, in order and at random; 0 leaves these phases out",
    ),
    Parameter {
        name: "file-size",
        unit: Unit::Bytes,
        default: Value::Number(0),
        range: (0, LARGEST_FILE),
        what: "size of each of these files; such files are also read when they are looked at",
    },
    SEED,
];

/// A seek's chunk is written back once in so many times.
const REWRITTEN_IN: u64 = 10;

const FILE: &str = "bonnie";
const SEEKS: usize = 5;

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let chunk = values.number("chunk").max(1);
    let size = values.number("size") / chunk * chunk;
    if size == 0 {
        return Err(BuildError::new(
            WORKLOAD.name,
            format!("the file is smaller than a chunk of {chunk} bytes"),
        ));
    }
    check_requests(WORKLOAD.name, values.number("file-size"), chunk)?;
    let bonnie = Bonnie {
        size,
        chunk,
        buffer: values.number("buffer").max(1),
        seeks: values.number("seeks"),
        files: values.number("files"),
        file_size: values.number("file-size"),
        seed: Seed(values.number("seed")),
        random: Random::new(Seed(values.number("seed"))),
        file: None,
        order: Vec::new(),
    };
    let seekers: Vec<Stream> = (0..values.number("seekers"))
        .flat_map(|i| {
            let seeker = Seeker(Bonnie {
                seed: stream_seed(bonnie.seed, 16 + i),
                ..bonnie.clone()
            });
            stages(Stepped::new(WORKLOAD.name, i as u32 + 2, seeker, 1), 1)
        })
        .map(|stage| Box::new(stage) as Stream)
        .collect();
    let mut plans = vec![
        run("character write"),
        run("block write"),
        run_cold("rewrite"),
        run_cold("character read"),
        run_cold("block read"),
        run_cold("seeks"),
    ];
    if bonnie.files > 0 {
        for order in ["sequential", "random"] {
            plans.push(run(format!("{order} create")));
            plans.push(run(format!("{order} stat")));
            plans.push(run(format!("{order} delete")));
        }
    }
    let has_seeks = bonnie.seeks > 0;
    let mut program = repeated(WORKLOAD.name, bonnie, plans, inputs.length);
    if inputs.length != Length::Endless
        && let Some(phase) = program.phases.get_mut(SEEKS)
    {
        phase.streams = seekers;
        if !has_seeks {
            program.phases.remove(SEEKS);
        }
    }
    Ok(program)
}

#[derive(Debug, Clone)]
struct Bonnie {
    size: u64,
    chunk: u64,
    buffer: u64,
    seeks: u64,
    files: u64,
    file_size: u64,
    seed: Seed,
    random: Random,
    file: Option<File>,
    order: Vec<u32>,
}

impl Bonnie {
    /// Starts on the file: a new one, or the one that is there.
    fn begin(&mut self, new: bool, stdio: bool, flags: u32, ops: &mut Ops) {
        if new && ops.has(FILE) {
            ops.unlink(FILE);
        }
        let (flags, size) = if new {
            (O_RDWR | O_CREAT | O_EXCL, 0)
        } else {
            (flags, self.size)
        };
        let file = ops.open(FILE, flags, size);
        if stdio {
            // The library asks for the block size before it makes its buffer.
            ops.fstat(&file);
        }
        self.file = Some(file);
    }

    fn write(&mut self, index: u64, request: u64, stdio: bool, ops: &mut Ops) -> bool {
        if index == 0 {
            self.begin(true, stdio, 0, ops);
        }
        let Some(file) = self.file.take() else {
            return false;
        };
        self.file = ops.write_next(file, self.size, request);
        true
    }

    fn read(&mut self, index: u64, request: u64, stdio: bool, ops: &mut Ops) -> bool {
        if index == 0 {
            self.begin(false, stdio, O_RDONLY, ops);
        }
        let Some(mut file) = self.file.take() else {
            return false;
        };
        let got = ops.read(&mut file, request);
        // By character the size tells the end, by block a read that finds nothing.
        if got == 0 || stdio && file.at_end() {
            ops.close(file);
        } else {
            self.file = Some(file);
        }
        true
    }

    fn rewrite(&mut self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.begin(false, false, O_RDWR, ops);
        }
        let Some(mut file) = self.file.take() else {
            return false;
        };
        let start = file.position;
        if ops.read(&mut file, self.chunk) > 0 {
            ops.seek(&mut file, start);
            ops.write(&mut file, self.chunk);
            self.file = Some(file);
        } else {
            ops.close(file);
        }
        true
    }

    fn seek(&mut self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.random = Random::new(self.seed);
            self.begin(false, false, O_RDWR, ops);
        }
        let Some(mut file) = self.file.take() else {
            return false;
        };
        if index >= self.seeks {
            ops.close(file);
            return true;
        }
        let at = self.random.below(self.size / self.chunk) * self.chunk;
        ops.seek(&mut file, at);
        ops.read(&mut file, self.chunk);
        if self.random.below(REWRITTEN_IN) == 0 {
            ops.seek(&mut file, at);
            ops.write(&mut file, self.chunk);
        }
        self.file = Some(file);
        true
    }

    /// Bonnie++'s names: a number and letters, or the letters first.
    fn name(&self, number: u64, random: bool) -> String {
        let mut draw = Random::new(stream_seed(self.seed, 1_000_000 + number));
        let letters: String = (0..draw.below(7) + 6)
            .map(|_| char::from(b'a' + draw.below(26) as u8))
            .collect();
        if random {
            format!("files/{letters}{number:07}")
        } else {
            format!("files/{number:07}{letters}")
        }
    }

    fn many(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        let random = stage >= 3;
        let kind = stage % 3;
        if index >= self.files {
            return false;
        }
        if index == 0 {
            self.order = if random && kind > 0 {
                let seed = stream_seed(self.seed, 1 + stage as u64);
                permutation(self.files, &mut Random::new(seed))
            } else {
                Vec::new()
            };
            if kind == 0 {
                ops.mkdir("files");
            } else if stage == 1 {
                let names: Vec<String> = (0..self.files).map(|i| self.name(i, random)).collect();
                let prefix = "files/".len();
                ops.list("files", names.iter().map(|n| &n.as_bytes()[prefix..]));
            }
        }
        let number = self.order.get(index as usize).map_or(index, |&n| n.into());
        let name = self.name(number, random);
        match kind {
            0 => {
                let mut file = ops.open(name, NEW | O_EXCL, 0);
                while file.size < self.file_size {
                    let length = self.chunk.min(self.file_size - file.size);
                    ops.write(&mut file, length);
                }
                ops.close(file);
            }
            1 => {
                ops.stat(&name, self.file_size);
                if self.file_size > 0 {
                    ops.read_whole(name, self.file_size, self.chunk);
                }
            }
            _ => {
                ops.unlink(name);
                if index + 1 == self.files {
                    ops.rmdir("files");
                }
            }
        }
        true
    }
}

impl Steps for Bonnie {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        match stage {
            0 => self.write(index, self.buffer, true, ops),
            1 => self.write(index, self.chunk, false, ops),
            2 => self.rewrite(index, ops),
            3 => self.read(index, self.buffer, true, ops),
            4 => self.read(index, self.chunk, false, ops),
            SEEKS => self.seek(index, ops),
            many => self.many(many - SEEKS - 1, index, ops),
        }
    }
}

/// A process that only seeks.
struct Seeker(Bonnie);

impl Steps for Seeker {
    fn step(&mut self, _stage: usize, index: u64, ops: &mut Ops) -> bool {
        self.0.seek(index, ops)
    }
}
