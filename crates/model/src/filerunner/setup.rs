//! What must exist beforehand: “Process of Creating the Initial State of the File System”, Figures 26 to 31.
//!
//! The definitions are gone through chunk by chunk, as the run goes through them, with numbers of files for indexers:
//! where an indexer has too few, the difference must exist. Figures 29 to 31 count creates and writes as used up by
//! whoever comes first; that would make files for the first deletes of Figure 26 where its text needs none. Going
//! along with the run gives the numbers of the text, and never leaves the run without a file.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::config::{Config, ConfigError, Definition};
use super::flow::{Cell, Flow, Piece};
use super::operation::Operation;

/// The most files that a configuration may need, and the most iterations that one kind of operation may have in a
/// chunk: what holds them in memory stays below a gigabyte.
pub const MOST_FILES: u64 = 1 << 24;
/// See [`MOST_FILES`].
pub const MOST_STAGE: u64 = 1 << 24;

/// Files that must exist before the first operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setup {
    /// Empty files that will be written, by depth (*to-create-to-write*).
    pub to_write: Vec<u64>,
    /// Files with data that will be read, by depth and I/O index (*to-create-to-read*).
    pub to_read: BTreeMap<Cell, u64>,
    /// Of these, the ones that only cached reads use: they are in the cache at the start.
    pub cached: BTreeMap<Cell, u64>,
    /// Files that will be deleted, by depth (*to-create-to-delete*).
    pub to_delete: Vec<u64>,
}

/// Numbers of files in the indexers.
struct Stock {
    write: FxHashMap<u32, u64>,
    read: FxHashMap<Cell, u64>,
    delete: FxHashMap<u32, u64>,
}

/// Takes `n` files of a stock of which `lent` are wanted at once; returns how many were missing.
fn draw(stock: &mut u64, lent: u64, n: u64) -> u64 {
    let missing = lent.max(n).saturating_sub(*stock);
    *stock += missing;
    *stock -= n;
    missing
}

impl Setup {
    /// What a configuration in `file` with these chunks needs.
    pub fn new(file: &str, config: &Config, pieces: &[Piece]) -> Result<Self, ConfigError> {
        let mut setup = Setup {
            to_write: vec![0; config.depths as usize],
            to_delete: vec![0; config.depths as usize],
            ..Self::default()
        };
        let mut stock = Stock {
            write: FxHashMap::default(),
            read: FxHashMap::default(),
            delete: FxHashMap::default(),
        };
        let mut uncached: FxHashMap<Cell, u64> = FxHashMap::default();
        let mut flow = Flow::new(config);
        let mut files = 0;
        for piece in pieces {
            flow.begin(piece);
            for stage in piece {
                let mut iterations: u64 = 0;
                for d in stage {
                    iterations = iterations.saturating_add(d.iterations);
                    files += setup.definition(d, &mut flow, &mut stock);
                    check(file, d, iterations, files)?;
                    if d.operation == Operation::READ && !d.cached {
                        *uncached.entry((d.depth, d.io)).or_default() += d.iterations;
                    }
                }
            }
        }
        for (cell, &files) in &setup.to_read {
            let cold = uncached.get(cell).copied().unwrap_or(0);
            if files > cold {
                setup.cached.insert(*cell, files - cold);
            }
        }
        Ok(setup)
    }

    /// Goes through one definition; returns how many files it adds, made before the run or in it.
    fn definition(&mut self, d: &Definition, flow: &mut Flow, stock: &mut Stock) -> u64 {
        let split = flow.split(d);
        let cell = (d.depth, d.io);
        let (lent, sent) = (u64::from(split.back > 0), split.on + split.delete);
        let missing = match d.operation {
            Operation::CREATE => {
                *stock.write.entry(d.depth).or_default() += split.on;
                d.iterations
            }
            Operation::WRITE => {
                let missing = draw(stock.write.entry(d.depth).or_default(), lent, sent);
                *stock.read.entry(cell).or_default() += split.on;
                add(&mut self.to_write, d.depth, missing)
            }
            Operation::READ => {
                let missing = draw(stock.read.entry(cell).or_default(), lent, sent);
                if missing > 0 {
                    *self.to_read.entry(cell).or_default() += missing;
                }
                *stock.delete.entry(d.depth).or_default() += split.on;
                missing
            }
            _ => {
                let missing = draw(stock.delete.entry(d.depth).or_default(), 0, d.iterations);
                return add(&mut self.to_delete, d.depth, missing);
            }
        };
        *stock.delete.entry(d.depth).or_default() += split.delete;
        missing
    }

    /// How many files there are in all.
    pub fn files(&self) -> u64 {
        let read: u64 = self.to_read.values().sum();
        self.to_write.iter().chain(&self.to_delete).sum::<u64>() + read
    }
}

fn add(by_depth: &mut [u64], depth: u32, files: u64) -> u64 {
    if let Some(at) = by_depth.get_mut(depth as usize) {
        *at += files;
    }
    files
}

/// Refuses what no file set could hold.
fn check(file: &str, d: &Definition, iterations: u64, files: u64) -> Result<(), ConfigError> {
    let name = d.operation.name();
    let message = if files > MOST_FILES {
        format!(
            "{} times {name} takes {files} files that are made before or in the run, expected at most {MOST_FILES}",
            d.iterations
        )
    } else if iterations > MOST_STAGE {
        format!("{iterations} times {name} in one time chunk, expected at most {MOST_STAGE}")
    } else {
        return Ok(());
    };
    Err(ConfigError {
        file: file.to_owned(),
        line: d.line,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::super::flow::pieces;
    use super::super::samples;
    use super::*;

    fn of(text: &str) -> Setup {
        let config = Config::parse("m.cfg", text).unwrap();
        Setup::new("m.cfg", &config, &pieces(&config)).unwrap()
    }

    /// Its text: 5 files to write, 15 of the second size to read, and for the second deletes as many as they are. The
    /// text says 15 of these, the figure 30.
    #[test]
    fn figure_26_needs_what_its_text_counts() {
        let setup = of(samples::FIGURE_26);
        assert_eq!(setup.to_write, [5, 0, 0]);
        assert_eq!(
            setup.to_read.into_iter().collect::<Vec<_>>(),
            [((0, 2), 15)]
        );
        assert_eq!(setup.to_delete, [0, 30, 0]);
        let as_in_the_text = samples::FIGURE_26.replace("0,22,1,0,30", "0,22,1,0,15");
        assert_eq!(of(&as_in_the_text).to_delete, [0, 15, 0]);
    }

    /// Its text: 10 files are made, 5 and 4 deleted, one is left for the last 5.
    #[test]
    fn figure_28_needs_four_files_to_delete() {
        let setup = of(samples::FIGURE_28);
        assert_eq!((setup.to_write[0], setup.to_delete[0]), (0, 4));
        assert_eq!(setup.files(), 4);
    }

    /// Figure 27: three empty files in the main directory, four one below.
    #[test]
    fn figure_27_is_what_three_and_four_writes_need() {
        let text = samples::FIGURE_16.replace("DirDepthIndex = 1", "DirDepthIndex = 3");
        let text = text.replace("0,19,0,0,0,10", "0,34,0,0,0,3\n0,34,1,0,0,4");
        assert_eq!(of(&text).to_write, [3, 4, 0]);
    }

    /// The text on Figure 30: with a frequency of 2, five creates serve ten writes; and Figure 31 divides likewise.
    #[test]
    fn repeated_writes_and_reads_need_fewer_files() {
        let chunk = |lines: &str| {
            let text = samples::FIGURE_25.split("0,19").next().unwrap().to_owned();
            of(&(text + lines))
        };
        assert_eq!(chunk("0,19,0,0,0,5\n0,34,0,1,0,10\n").files(), 0);
        assert_eq!(chunk("0,19,0,0,0,4\n0,34,0,1,0,10\n").to_write, [1, 0, 0]);
        let reads = chunk("0,35,0,1,0,10\n");
        assert_eq!(reads.to_read[&(0, 1)], 5);
        assert!(reads.cached.is_empty());
        assert_eq!(chunk("0,35,0,1,1,10\n").cached[&(0, 1)], 5);
    }

    #[test]
    fn figure_19_reads_a_size_that_nobody_writes() {
        let setup = of(samples::FIGURE_19);
        assert_eq!(setup.to_read[&(0, 400)], 17);
        assert_eq!(setup.to_write, [0, 0, 0]);
    }

    #[test]
    fn what_no_file_set_holds_is_refused_with_its_line() {
        for (line, expected) in [
            (
                "0,22,0,0,99999999999",
                "99999999999 times unlink takes 99999999999 files",
            ),
            (
                "0,35,0,0,1,16777217",
                "16777217 times read takes 16777217 files",
            ),
        ] {
            let text = samples::FIGURE_16.replace("0,19,0,0,0,10", line);
            let config = Config::parse("m.cfg", &text).unwrap();
            let error = Setup::new("m.cfg", &config, &pieces(&config)).unwrap_err();
            assert!(
                error.to_string().starts_with("read m.cfg: line 6: "),
                "{error}"
            );
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
