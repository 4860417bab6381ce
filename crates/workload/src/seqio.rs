//! The sequential I/O benchmark of the aging studies (Smith 1996, 5.1; Smith 2001, 3.3): files of one
//! size after another, made and read in order, and removed before the next size, so that each meets the same
//! free space.

use crate::ops::{File, NEW, O_RDONLY, Ops};
use crate::params::{LARGEST_FILE, byte_range, bytes, count, request, switch};
use crate::program::{BuildError, Inputs, Program};
use crate::spec::Values;
use crate::steps::{Steps, repeated, run, run_cold, setup};
use crate::table::{Parameter, Workload, needs_nothing};
use crate::units::binary;

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "seqio",
    what: "for each file size writes a given number of bytes as files of that size, reads them in the \
           same order, each with cold caches, and removes them",
    good_for: "throughput by file size, and with it what allocation does to files of that size, best \
               on an aged file system; files of one size made at once lie better than in real use",
    source: "Smith 1996, 5.1; Smith 2001, 3.3",
    parameters: PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build,
};

const PARAMETERS: &[Parameter] = &[
    byte_range(
        "size",
        (16 << 10, 32 << 20),
        (1, LARGEST_FILE),
        "sizes of the files, doubled from the first to the last; one number for one size",
    ),
    bytes("total", 32 << 20, "bytes of all files of one size"),
    count(
        "per-dir",
        25,
        (1, 1_000_000),
        "files in a directory at the most: a directory's files share a cylinder group",
    ),
    request(
        "request",
        4 << 20,
        "size of a read or write request; a smaller file is one request",
    ),
    switch(
        "sync",
        true,
        "whether a phase that creates ends when the device has what was written",
    ),
];

/// What is done with the files of each size, a phase each.
const CREATE: usize = 0;
const READ: usize = 1;
const REMOVE: usize = 2;
const PHASES: usize = 3;

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let (low, high) = values.range("size");
    let total = values.number("total");
    if high > total {
        return Err(BuildError::new(
            WORKLOAD.name,
            format!("a file of {high} bytes is larger than the total of {total} bytes"),
        ));
    }
    let mut sizes = vec![low];
    while let Some(&last) = sizes.last()
        && last * 2 <= high
    {
        sizes.push(last * 2);
    }
    let mut plans = vec![setup("directories")];
    for &size in &sizes {
        let files = vec![format!("s{size}").into_bytes()];
        plans.push(run_cold(format!("create {}", binary(size))).laid_out(files));
        plans.push(run_cold(format!("read {}", binary(size))));
        plans.push(run(format!("remove {}", binary(size))));
    }
    let generator = SeqIo {
        sizes,
        total,
        per_dir: values.number("per-dir"),
        request: values.number("request"),
        sync: values.switch("sync"),
        at: (0, 0),
        file: None,
    };
    Ok(repeated(WORKLOAD.name, generator, plans, inputs.length))
}

struct SeqIo {
    sizes: Vec<u64>,
    total: u64,
    per_dir: u64,
    request: u64,
    sync: bool,
    /// In set-up the size and directory, in a phase the file, that come next.
    at: (usize, u64),
    file: Option<File>,
}

impl SeqIo {
    fn path(&self, size: u64, file: u64) -> String {
        format!("s{size}/d{}/f{file}", file / self.per_dir)
    }

    fn directories(&mut self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            self.at = (0, 0);
        }
        let (at, dir) = self.at;
        let Some(&size) = self.sizes.get(at) else {
            return false;
        };
        if dir == 0 {
            ops.mkdir(format!("s{size}"));
        }
        ops.mkdir(format!("s{size}/d{dir}"));
        self.at = if (dir + 1) * self.per_dir < self.total / size {
            (at, dir + 1)
        } else {
            (at + 1, 0)
        };
        true
    }
}

impl Steps for SeqIo {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage == 0 {
            return self.directories(index, ops);
        }
        if index == 0 {
            self.at.1 = 0;
        }
        let (of_size, phase) = ((stage - 1) / PHASES, (stage - 1) % PHASES);
        let Some(&size) = self.sizes.get(of_size) else {
            return false;
        };
        let (number, files) = (self.at.1, self.total / size);
        if number >= files {
            let sync = phase == CREATE && self.sync && number == files;
            if sync {
                ops.sync();
            }
            self.at.1 += 1;
            return sync;
        }
        let path = self.path(size, number);
        if phase == REMOVE {
            ops.unlink(path);
            self.at.1 += 1;
            return true;
        }
        let mut file = self.file.take().unwrap_or_else(|| {
            let (flags, before) = if phase == READ {
                (O_RDONLY, size)
            } else {
                (NEW, 0)
            };
            ops.open(path, flags, before)
        });
        let length = self.request.min(size - file.position);
        if phase == READ {
            ops.read(&mut file, length);
        } else {
            ops.write(&mut file, length);
        }
        if file.position < size {
            self.file = Some(file);
        } else {
            ops.close(file);
            self.at.1 += 1;
        }
        true
    }
}
