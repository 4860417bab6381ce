//! The Andrew benchmark (Howard 1988; Traeger 2007, 7.3): five phases over a source tree.
//!
//! The Make phase is a stand-in at the level of operations: no compiler runs. Each source is read
//! with headers of the tree, which are looked for beside it first, an object is written, and all
//! objects are read and linked in the end; the time that a compiler takes between them is not there.

mod tree;

use fsage_core::Seed;

use crate::ops::Ops;
use crate::params::{SEED, count, request};
use crate::program::{BuildError, EntryKind, InputPath, Inputs, Program};
use crate::random::{Random, stream_seed};
use crate::spec::Values;
use crate::steps::{Steps, repeated, run, setup};
use crate::table::{Parameter, Unit, Value, Workload};
use tree::CompiledTree;

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "andrew",
    what: "makes a copy of a source tree: directories, files, a stat of each, a read of each, then \
           the operations of a compilation",
    good_for: "what a user at a source tree does, if the tree is larger than memory or caches are \
               what is asked about; the built-in tree is as small as the original's",
    source: "Howard 1988; Traeger 2007, 7.3",
    parameters: PARAMETERS,
    configs: &[],
    needs,
    build,
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "tree",
        unit: Unit::Path,
        default: Value::text(""),
        range: (0, 0),
        what: "directory whose names and sizes make the source tree; empty for a built-in one of \
               70 files and 200 kB, as many as the original's",
    },
    count(
        "includes",
        8,
        (0, 10_000),
        "headers that each source includes beside those of its own directory",
    ),
    request(
        "request",
        64 << 10,
        "size of a read or write request of copies and whole reads",
    ),
    SEED,
];

/// The linker and the assembler write through a buffer of this size.
const OBJECT_REQUEST_BYTES: u64 = 4096;

/// An object has this many bytes for two of its source; of C without debugging information.
const OBJECT_PER_TWO: u64 = 3;

fn needs(values: &Values) -> Vec<InputPath> {
    match values.text("tree") {
        "" => Vec::new(),
        path => vec![InputPath::Tree(path.into())],
    }
}

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let path = values.text("tree");
    let tree = match (&inputs.tree, path) {
        (_, "") => CompiledTree::new(&tree::built_in()),
        (Some(tree), _) => CompiledTree::new(tree),
        (None, _) => {
            let message = format!("the tree '{path}' was not read");
            return Err(BuildError::new(WORKLOAD.name, message));
        }
    };
    if tree.sources.is_empty() {
        let message = format!("the tree '{path}' holds no file");
        return Err(BuildError::new(WORKLOAD.name, message));
    }
    let andrew = Andrew {
        tree,
        includes: values.number("includes"),
        request: values.number("request").max(1),
        seed: Seed(values.number("seed")),
    };
    let plans = vec![
        setup("source tree"),
        run("MakeDir"),
        run("Copy"),
        run("ScanDir"),
        run("ReadAll"),
        run("Make"),
    ];
    Ok(repeated(WORKLOAD.name, andrew, plans, inputs.length))
}

struct Andrew {
    tree: CompiledTree,
    includes: u64,
    request: u64,
    seed: Seed,
}

const SOURCE: &[u8] = b"source";
const TARGET: &[u8] = b"target";

fn beneath(root: &[u8], path: &[u8]) -> Vec<u8> {
    match path {
        b"" => root.to_vec(),
        path => [root, b"/", path].concat(),
    }
}

impl Andrew {
    fn make_source(&self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            ops.mkdir(SOURCE);
            return true;
        }
        let Some(entry) = self.tree.entries.get(index as usize - 1) else {
            return false;
        };
        let path = beneath(SOURCE, &entry.path);
        match &entry.kind {
            EntryKind::Directory => ops.mkdir(path),
            EntryKind::File { size_bytes } => ops.write_whole(path, *size_bytes, 1 << 20),
            EntryKind::Symlink { target } => ops.symlink(path, target),
        }
        true
    }

    fn make_dir(&self, index: u64, ops: &mut Ops) -> bool {
        let Some(listing) = self.tree.listings.get(index as usize) else {
            return false;
        };
        ops.mkdir(beneath(TARGET, &listing.path));
        true
    }

    fn copy(&self, index: u64, ops: &mut Ops) -> bool {
        let Some(entry) = self.tree.entries.get(index as usize) else {
            return false;
        };
        let to = beneath(TARGET, &entry.path);
        let from = beneath(SOURCE, &entry.path);
        match &entry.kind {
            EntryKind::Directory => {}
            EntryKind::File { size_bytes } => ops.copy(from, to, *size_bytes, self.request),
            EntryKind::Symlink { target } => {
                ops.lstat(&from);
                ops.readlink(from, target.len() as u64);
                ops.symlink(to, target);
            }
        }
        true
    }

    fn scan(&self, index: u64, ops: &mut Ops) -> bool {
        let Some(listing) = self.tree.listings.get(index as usize) else {
            return false;
        };
        let directory = beneath(TARGET, &listing.path);
        ops.list(&directory, listing.names.iter().map(Vec::as_slice));
        for name in &listing.names {
            ops.lstat(beneath(&directory, name));
        }
        true
    }

    fn read_all(&self, index: u64, ops: &mut Ops) -> bool {
        let Some(entry) = self.tree.entries.get(index as usize) else {
            return false;
        };
        if let EntryKind::File { size_bytes } = entry.kind {
            ops.read_whole(beneath(TARGET, &entry.path), size_bytes, self.request);
        }
        true
    }

    /// Compiles source `index`; behind the last one links.
    fn make(&self, index: u64, ops: &mut Ops) -> bool {
        let Some(&source) = self.tree.sources.get(index as usize) else {
            if index > self.tree.sources.len() as u64 {
                return false;
            }
            self.link(ops);
            return true;
        };
        let Some((path, size)) = self.tree.file(source) else {
            return true;
        };
        let object = object(path);
        // What make(1) asks to learn that there is something to do.
        ops.stat_missing(&object);
        ops.stat(beneath(TARGET, path), size);
        ops.read_known(beneath(TARGET, path), size);
        let directory = tree::parent(path);
        for &header in self.tree.headers_of(directory) {
            self.include(directory, header, ops);
        }
        let mut random = Random::new(stream_seed(self.seed, index + 1));
        for _ in 0..self.includes.min(self.tree.headers.len() as u64) {
            let drawn = random.below(self.tree.headers.len() as u64) as usize;
            if let Some(&header) = self.tree.headers.get(drawn) {
                self.include(directory, header, ops);
            }
        }
        ops.write_whole(object, object_bytes(size), OBJECT_REQUEST_BYTES);
        true
    }

    /// A header is looked for beside the source before it is found where it is.
    fn include(&self, directory: &[u8], header: usize, ops: &mut Ops) {
        let Some((path, size)) = self.tree.file(header) else {
            return;
        };
        let beside = beneath_dir(directory, tree::name(path));
        if !self.tree.has(&beside) {
            ops.open_missing(beneath(TARGET, &beside));
        }
        ops.read_known(beneath(TARGET, path), size);
    }

    fn link(&self, ops: &mut Ops) {
        let mut total = 0;
        for &source in &self.tree.sources {
            if let Some((path, size)) = self.tree.file(source) {
                ops.read_known(object(path), object_bytes(size));
                total += object_bytes(size);
            }
        }
        let program = beneath(TARGET, b"linked.fsage.out");
        ops.write_whole(&program, total, OBJECT_REQUEST_BYTES);
        ops.chmod(program, 0o755);
    }
}

/// A name that no file of the tree has: the whole name and what an object is called.
fn object(source: &[u8]) -> Vec<u8> {
    [&beneath(TARGET, source), b".fsage.o".as_slice()].concat()
}

fn object_bytes(source_bytes: u64) -> u64 {
    (source_bytes.saturating_mul(OBJECT_PER_TWO) / 2).max(64)
}

fn beneath_dir(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        name.to_vec()
    } else {
        beneath(directory, name)
    }
}

impl Steps for Andrew {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        match stage {
            0 => self.make_source(index, ops),
            1 => self.make_dir(index, ops),
            2 => self.copy(index, ops),
            3 => self.scan(index, ops),
            4 => self.read_all(index, ops),
            _ => self.make(index, ops),
        }
    }
}
