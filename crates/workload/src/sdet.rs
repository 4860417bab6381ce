//! Scripts of user commands after SPEC's SDET (Gaede 1999; Smith 2001, 4.5.3.2; Traeger 2007, 7.5):
//! each user edits, compiles, searches, compares, copies and spell-checks files of a home directory.
//!
//! The commands are here as the operations that they make in the home directory, each with its
//! temporary files beside it; programs and libraries that a shell would load are not on the target,
//! and the processor time of a compiler or of sort is not there. SPEC's own script is not free; this
//! one follows what the two papers say of it, with the same commands in the same numbers for every
//! user and an order of its own for each.

mod commands;

use fsage_core::Seed;

use crate::ops::{NEW, Ops};
use crate::params::{SEED, count};
use crate::program::{Inputs, Length, Program};
use crate::random::{Random, permutation, stream_seed};
use crate::spec::Values;
use crate::steps::{Steps, program, run, setup};
use crate::table::{Parameter, Workload, needs_nothing};
use commands::COMMANDS;

/// Its row.
pub const WORKLOAD: Workload = Workload {
    name: "sdet",
    what: "concurrent scripts of user commands: edit, compile, search, compare, copy, spell, list, \
           make, format, move, archive",
    good_for: "a machine that many users share: small files and names of many kinds at once, mostly \
               in memory; it says little of bandwidth",
    source: "Gaede 1999 (SPEC SDM); Smith 2001, 4.5.3.2; Traeger 2007, 7.5",
    parameters: PARAMETERS,
    configs: &[],
    needs: needs_nothing,
    build: |values, inputs| Ok(build(values, inputs)),
};

const PARAMETERS: &[Parameter] = &[
    count("scripts", 1, (1, 1024), "scripts that run at once"),
    count(
        "commands",
        150,
        (1, 1_000_000_000),
        "commands of each script, in the proportions of the mix",
    ),
    count(
        "programs",
        12,
        (1, 10_000),
        "C sources in a home directory; there are a third as many headers and texts",
    ),
    SEED,
];

fn build(values: &Values, inputs: &Inputs) -> Program {
    let seed = Seed(values.number("seed"));
    let scripts = (0..values.number("scripts"))
        .map(|i| Script {
            home: Home::new(i, values.number("programs"), seed),
            commands: values.number("commands"),
            endless: inputs.length == Length::Endless,
            order: Vec::new(),
        })
        .collect();
    let plans = vec![setup("home directories"), run("scripts")];
    program(WORKLOAD.name, scripts, plans, inputs.length)
}

/// A file of a home directory.
#[derive(Debug, Clone)]
struct Kept {
    path: String,
    size: u64,
}

/// A user's home directory: what every command finds and leaves behind.
#[derive(Debug)]
struct Home {
    root: String,
    sources: Vec<Kept>,
    headers: Vec<Kept>,
    texts: Vec<Kept>,
    words: Kept,
    makefile: Kept,
    random: Random,
}

impl Home {
    fn new(user: u64, programs: u64, seed: Seed) -> Self {
        let root = format!("u{user}");
        // Every home holds the same; what is done there is drawn apart.
        let mut random = Random::new(seed);
        let mut files = |directory: &str, stem: &str, end: &str, n: u64, low: u64, high: u64| {
            (0..n)
                .map(|i| Kept {
                    path: format!("{root}/{directory}/{stem}{i}.{end}"),
                    size: low + random.below(high - low),
                })
                .collect::<Vec<_>>()
        };
        let few = programs.div_ceil(3).max(2);
        let sources = files("src", "prog", "c", programs, 1 << 10, 12 << 10);
        let headers = files("include", "defs", "h", few, 512, 4 << 10);
        let texts = files("doc", "text", "ms", few, 2 << 10, 24 << 10);
        let kept = |path: &str, size| Kept {
            path: format!("{root}/{path}"),
            size,
        };
        Self {
            words: kept("doc/words", 48 << 10),
            makefile: kept("src/Makefile", 900),
            sources,
            headers,
            texts,
            random: Random::new(stream_seed(seed, user + 1)),
            root,
        }
    }

    fn directories(&self) -> [String; 5] {
        ["", "/src", "/include", "/doc", "/tmp"].map(|d| format!("{}{d}", self.root))
    }

    fn files(&self) -> impl Iterator<Item = &Kept> {
        self.sources
            .iter()
            .chain(&self.headers)
            .chain(&self.texts)
            .chain([&self.words, &self.makefile])
    }

    fn temporary(&self, name: &str) -> String {
        format!("{}/tmp/{name}", self.root)
    }
}

struct Script {
    home: Home,
    commands: u64,
    endless: bool,
    order: Vec<u32>,
}

impl Script {
    fn make_home(&self, index: u64, ops: &mut Ops) -> bool {
        if index == 0 {
            for directory in self.home.directories() {
                ops.mkdir(directory);
            }
            return true;
        }
        let Some(kept) = self.home.files().nth(index as usize - 1) else {
            return false;
        };
        let mut file = ops.open(&kept.path, NEW, 0);
        while file.size < kept.size {
            let length = commands::REQUEST_BYTES.min(kept.size - file.size);
            ops.write(&mut file, length);
        }
        ops.close(file);
        true
    }
}

/// Which command stands at place `at` of the unshuffled mix.
fn command_at(at: u64) -> usize {
    let mut left = at % COMMANDS.iter().map(|c| c.weight).sum::<u64>();
    for (number, command) in COMMANDS.iter().enumerate() {
        if left < command.weight {
            return number;
        }
        left -= command.weight;
    }
    0
}

impl Steps for Script {
    fn step(&mut self, stage: usize, index: u64, ops: &mut Ops) -> bool {
        if stage == 0 {
            return self.make_home(index, ops);
        }
        if index >= self.commands && !self.endless {
            return false;
        }
        // The mix is shuffled in rounds, so that every script does the same work.
        let round = COMMANDS.iter().map(|c| c.weight).sum::<u64>();
        if index.is_multiple_of(round) {
            self.order = permutation(round, &mut self.home.random);
        }
        let place = self.order.get((index % round) as usize);
        let number = command_at(place.map_or(index, |&p| p.into()));
        if let Some(command) = COMMANDS.get(number) {
            (command.run)(&mut self.home, ops);
        }
        true
    }
}
