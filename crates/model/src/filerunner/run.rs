//! The run: chunks in order, and in each the creates, writes, reads and deletes of all processes (Figure 32).

use rustc_hash::FxHashMap;

use super::config::{Config, ConfigError, Definition, size_of};
use super::flow::{Cell, Flow, Piece, pieces};
use super::indexer::Indexer;
use super::operation::Operation;
use super::setup::Setup;

/// The most processes of a chunk that run at once, as threads; more share them.
pub const MOST_LANES: usize = 256;
/// The most processes, those of each chunk counted: the dissertation's configurations have a few.
const MOST_PROCESSES: usize = 1 << 17;

/// What one process does to which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The thread that does it: the process's place among those of its chunk.
    pub lane: usize,
    /// One of [`Operation::RUN`].
    pub operation: Operation,
    /// The size of each request.
    pub bytes: u64,
    /// The files in their order.
    pub files: Vec<u32>,
}

/// A configuration with all that follows from it before it runs.
#[derive(Debug, Clone)]
pub struct Plan {
    config: Config,
    pieces: Vec<Piece>,
    setup: Setup,
    lanes: usize,
}

impl Plan {
    /// Reads the configuration `text`, which errors call `file`.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        Self::new(file, Config::parse(file, text)?)
    }

    /// Finds out what a configuration needs.
    pub fn new(file: &str, config: Config) -> Result<Self, ConfigError> {
        let pieces = pieces(&config);
        let (mut most, mut all) = (0, 0);
        for piece in &pieces {
            let here = processes(piece).len();
            (most, all) = (most.max(here), all + here);
            if all > MOST_PROCESSES {
                let first = piece.iter().flatten().map(|d| d.line).min();
                return Err(ConfigError {
                    file: file.to_owned(),
                    line: first.unwrap_or(0),
                    message: format!(
                        "{all} processes in all time chunks so far, expected at most {MOST_PROCESSES}"
                    ),
                });
            }
        }
        let setup = Setup::new(file, &config, &pieces)?;
        Ok(Self {
            config,
            pieces,
            setup,
            lanes: most.clamp(1, MOST_LANES),
        })
    }

    /// What must exist beforehand.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Levels of directories, the main one among them, of which the last has a file.
    pub fn depths(&self) -> u32 {
        let definitions = self.pieces.iter().flatten().flatten();
        definitions.map(|d| d.depth + 1).max().unwrap_or(1)
    }

    /// Threads of the run.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Whether any read is to find its data on the device.
    pub fn starts_cold(&self) -> bool {
        let mut reads = self.pieces.iter().flat_map(|[_, _, reads, _]| reads);
        reads.any(|d| !d.cached)
    }

    /// Files in the cache at the start, with their sizes.
    pub fn warm(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut first: u64 = self.setup.to_write.iter().sum();
        self.setup.to_read.iter().flat_map(move |(cell, &files)| {
            let end = first + files;
            first = end;
            let warm = self.setup.cached.get(cell).copied().unwrap_or(0);
            let bytes = size_of(cell.1, self.config.io_chunk_bytes);
            (end - warm..end).map(move |file| (file as u32, bytes))
        })
    }
}

/// Processes of a chunk in their order.
fn processes(piece: &Piece) -> Vec<u32> {
    let mut all: Vec<u32> = piece.iter().flatten().map(|d| d.process).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A file of the file set; its number is its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Directories between the main one and it.
    pub depth: u32,
    /// Its size, bytes.
    pub bytes: u64,
}

impl File {
    /// The path of file number `file`: `000/` for each level, its number and `.txt`.
    pub fn path(self, file: u32) -> String {
        format!("{}{file}.txt", "000/".repeat(self.depth as usize))
    }
}

/// The read indexer's files of one depth and I/O index: those that nothing has brought into the cache, and the others.
#[derive(Debug, Clone, Default)]
struct Readable {
    cold: Indexer,
    warm: Indexer,
}

impl Readable {
    fn take(&mut self, cached: bool) -> Option<u32> {
        let Self { cold, warm } = self;
        let (first, second) = if cached { (warm, cold) } else { (cold, warm) };
        first.take().or_else(|| second.take())
    }
}

/// The file set and its indexers while the configuration runs. Which file an operation gets depends on nothing but the
/// configuration.
#[derive(Debug, Clone)]
pub struct Runner {
    plan: Plan,
    flow: Flow,
    files: Vec<File>,
    write: FxHashMap<u32, Indexer>,
    read: FxHashMap<Cell, Readable>,
    delete: FxHashMap<u32, Indexer>,
    /// The chunk and the place in [`Operation::RUN`] that come next.
    next: (usize, usize),
}

impl Runner {
    /// Before the first chunk: the file set holds what must exist, the indexers refer to it.
    pub fn new(plan: Plan) -> Self {
        let mut runner = Self {
            flow: Flow::new(&plan.config),
            files: Vec::new(),
            write: FxHashMap::default(),
            read: FxHashMap::default(),
            delete: FxHashMap::default(),
            next: (0, 0),
            plan,
        };
        let Setup {
            to_write,
            to_read,
            cached,
            to_delete,
        } = runner.plan.setup.clone();
        for (depth, files) in (0..).zip(to_write) {
            for _ in 0..files {
                let file = runner.file(depth, 0);
                runner.write.entry(depth).or_default().put(file);
            }
        }
        for (cell, files) in to_read {
            let bytes = size_of(cell.1, runner.plan.config.io_chunk_bytes);
            let cold = files - cached.get(&cell).copied().unwrap_or(0).min(files);
            for number in 0..files {
                let file = runner.file(cell.0, bytes);
                let readable = runner.read.entry(cell).or_default();
                if number < cold {
                    readable.cold.put(file);
                } else {
                    readable.warm.put(file);
                }
            }
        }
        for (depth, files) in (0..).zip(to_delete) {
            for _ in 0..files {
                let file = runner.file(depth, 0);
                runner.delete.entry(depth).or_default().put(file);
            }
        }
        runner
    }

    fn file(&mut self, depth: u32, bytes: u64) -> u32 {
        let file = self.files.len() as u32;
        self.files.push(File { depth, bytes });
        file
    }

    /// The files so far, in the order of their numbers; those that must exist beforehand come first.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// What is done next by all processes at once; `None` at the end. What an earlier answer names is done before.
    pub fn next_stage(&mut self) -> Option<Vec<Task>> {
        loop {
            let (chunk, stage) = self.next;
            let piece = self.plan.pieces.get(chunk)?;
            if stage == 0 {
                self.flow.begin(piece);
            }
            let lanes = processes(piece);
            let definitions = piece.get(stage).cloned().unwrap_or_default();
            self.next = if stage + 1 < piece.len() {
                (chunk, stage + 1)
            } else {
                (chunk + 1, 0)
            };
            if definitions.is_empty() {
                continue;
            }
            let lane = |d: &Definition| lanes.binary_search(&d.process).unwrap_or(0) % MOST_LANES;
            let tasks = definitions.iter().map(|d| Task {
                lane: lane(d),
                operation: d.operation,
                bytes: self.plan.config.size_bytes(d),
                files: self.files_of(d),
            });
            return Some(tasks.collect());
        }
    }

    fn files_of(&mut self, d: &Definition) -> Vec<u32> {
        let split = self.flow.split(d);
        let bytes = self.plan.config.size_bytes(d);
        let mut files = Vec::with_capacity(d.iterations as usize);
        for number in 0..d.iterations {
            let taken = match d.operation {
                Operation::CREATE => Some(self.file(d.depth, 0)),
                Operation::WRITE => self.write.entry(d.depth).or_default().take(),
                Operation::READ => self.read.entry((d.depth, d.io)).or_default().take(d.cached),
                _ => self.delete.entry(d.depth).or_default().take(),
            };
            // What the set-up counted is there.
            let Some(file) = taken else { break };
            files.push(file);
            if d.operation == Operation::WRITE
                && let Some(file) = self.files.get_mut(file as usize)
            {
                file.bytes = file.bytes.max(bytes);
            }
            if d.operation == Operation::DELETE {
                continue;
            }
            let place = if number < split.back {
                d.operation
            } else if number < split.back + split.on {
                next(d.operation)
            } else {
                Operation::DELETE
            };
            match place {
                Operation::WRITE => self.write.entry(d.depth).or_default().put(file),
                Operation::READ => self.read.entry((d.depth, d.io)).or_default().warm.put(file),
                _ => self.delete.entry(d.depth).or_default().put(file),
            }
        }
        files
    }
}

/// What is done next to a file to which `operation` was done.
fn next(operation: Operation) -> Operation {
    match operation {
        Operation::CREATE => Operation::WRITE,
        Operation::WRITE => Operation::READ,
        _ => Operation::DELETE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn runner(text: &str) -> Runner {
        Runner::new(Plan::parse("m.cfg", text).unwrap())
    }

    fn left(indexer: Option<&Indexer>) -> Vec<u32> {
        indexer.map(|i| i.left().to_vec()).unwrap_or_default()
    }

    /// Everything that a configuration does, by stage: number of operation and files.
    fn all(text: &str) -> Vec<Vec<(u8, Vec<u32>)>> {
        let mut runner = runner(text);
        let stages = std::iter::from_fn(|| runner.next_stage());
        let of = |task: Task| (task.operation.number(), task.files);
        stages.map(|s| s.into_iter().map(of).collect()).collect()
    }

    #[test]
    fn figures_22_and_23_are_what_figure_21_leads_to() {
        let mut runner = runner(samples::FIGURE_21);
        runner.next_stage();
        runner.next_stage();
        assert_eq!(runner.files().len(), 7);
        let write = |r: &Runner, depth| left(r.write.get(&depth));
        assert_eq!(write(&runner, 0), [0, 1, 6]);
        assert_eq!(write(&runner, 1), [2, 3]);
        assert_eq!(write(&runner, 2), [4, 5]);
        let task = runner.next_stage().unwrap();
        let files: Vec<_> = task.iter().map(|t| t.files[0]).collect();
        assert_eq!(files, [0, 1, 2, 6]);
        let read = |cell| left(runner.read.get(&cell).map(|r| &r.warm));
        assert_eq!(read((0, 300)), [0]);
        assert_eq!(read((0, 400)), [1, 6]);
        assert_eq!(read((1, 300)), [2]);
        assert_eq!(runner.files()[2].path(2), "000/2.txt");
        assert_eq!(File { depth: 2, bytes: 0 }.path(11), "000/000/11.txt");
        assert_eq!(runner.next_stage(), None);
    }

    #[test]
    fn figure_24_moves_files_as_its_text_says() {
        let mut runner = runner(samples::FIGURE_24);
        assert!(runner.files().is_empty(), "nothing must exist beforehand");
        for _ in 0..4 {
            runner.next_stage();
        }
        // The second chunk: its 10 writes leave 7 files to read and 3 to delete.
        runner.next_stage();
        runner.next_stage();
        assert_eq!(left(runner.read.get(&(0, 1)).map(|r| &r.warm)).len(), 7);
        assert_eq!(left(runner.delete.get(&0)).len(), 3);
        runner.next_stage();
        assert_eq!(left(runner.delete.get(&0)).len(), 10);
        runner.next_stage();
        // The third: 6 of its 10 files are to be written, 4 deleted.
        runner.next_stage();
        assert_eq!(left(runner.write.get(&0)).len(), 6);
        assert_eq!(left(runner.delete.get(&0)).len(), 4);
        runner.next_stage();
        assert_eq!(runner.next_stage().unwrap()[0].files.len(), 10);
    }

    #[test]
    fn figure_25_puts_half_of_the_writes_and_reads_back() {
        let mut runner = runner(samples::FIGURE_25);
        runner.next_stage();
        let write = runner.next_stage().unwrap();
        assert_eq!(write[0].files.len(), 10);
        assert_eq!(left(runner.read.get(&(0, 1)).map(|r| &r.warm)).len(), 5);
        assert_eq!(left(runner.write.get(&0)).len(), 5);
        let read = runner.next_stage().unwrap().remove(0).files;
        assert_eq!(read[..5], read[5..], "each is read twice");
        assert!(left(runner.delete.get(&0)).len() >= 5);
    }

    #[test]
    fn stages_come_in_the_order_of_figure_32() {
        let order: Vec<u8> = all(samples::FIGURE_24)
            .iter()
            .map(|stage| stage[0].0)
            .collect();
        assert_eq!(order, [19, 34, 35, 22, 19, 34, 35, 22, 19, 34, 22]);
    }

    #[test]
    fn every_operation_of_every_sample_has_a_file() {
        for (figure, text) in samples::ALL {
            let config = Config::parse(figure, text).unwrap();
            let definitions = config.chunks.iter().flat_map(|c| &c.definitions);
            let expected: u64 = definitions.map(|d| d.iterations).sum();
            let done: usize = all(text)
                .iter()
                .flatten()
                .map(|(_, files)| files.len())
                .sum();
            assert_eq!(done as u64, expected, "{figure}");
            assert_eq!(all(text), all(text), "{figure}");
        }
    }

    #[test]
    fn cached_reads_get_files_that_were_read_and_others_get_those_that_were_not() {
        let head = samples::FIGURE_25.split("0,19").next().unwrap();
        let text = format!("{head}0,35,0,1,0,4\n0,35,0,1,1,4\nTIndex = 1\n3,35,0,2,1,2\n");
        let plan = Plan::parse("m.cfg", &text).unwrap();
        assert!(plan.starts_cold());
        assert_eq!(plan.warm().collect::<Vec<_>>(), [(4, 2048 * 2 + 1024)]);
        assert_eq!(plan.lanes(), 1);
        let stages = all(&text);
        assert_eq!(stages[0][0].1, [0, 1, 2, 3]);
        assert!(stages[0][1].1.iter().all(|file| *file < 4));
        assert_eq!(stages[1][0].1, [4, 4]);
    }

    #[test]
    fn more_processes_than_a_machine_runs_are_refused_with_their_line() {
        let head = samples::FIGURE_25.split("0,19").next().unwrap();
        let line = |process: usize| format!("{process},19,0,0,0,1\n");
        let lines: String = (0..=MOST_PROCESSES).map(line).collect();
        let error = Plan::parse("m.cfg", &format!("{head}{lines}")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "read m.cfg: line 6: 131073 processes in all time chunks so far, expected at most 131072"
        );
    }
}
