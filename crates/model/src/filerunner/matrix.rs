//! The statistical matrix: how often each combination of time chunk, process, operation, I/O size, directory depth and
//! cached occurs, and the feature functions that put an operation there.

use fsage_core::Pid;
use rustc_hash::FxHashMap;

use super::config::{Chunk, Config, Definition, Form, MOST_REQUEST_BYTES};
use super::follow::Seen;
use super::operation::Operation;

/// Combinations that are told apart, at most.
pub const MOST_CELLS: usize = 1 << 22;
/// Lines of a configuration before the first chunk.
const HEADER_LINES: u32 = 4;
/// Depths beyond it count as this one: a path has no more.
const DEEPEST: u32 = 999;

/// The time chunk of an operation at `t_ns` of a span that begins at `first_ns` and ends with an operation at `last_ns`.
///
/// Equation 2 as it is printed, `(t - t0) / # of chunks`, gives the more chunks the fewer there are asked for, and
/// their number depends on the clock's unit. What is meant is the time since the first operation in units of a chunk's
/// length, `(last - t0) / # of chunks`; the last operation belongs to the last chunk.
pub fn chunk_of(t_ns: u64, (first_ns, last_ns): (u64, u64), chunks: u32) -> u32 {
    let span = u128::from(last_ns.saturating_sub(first_ns)).max(1);
    let since = u128::from(t_ns.saturating_sub(first_ns));
    let chunk = since * u128::from(chunks) / span;
    chunk.min(u128::from(chunks.saturating_sub(1))) as u32
}

/// How often a file that is written (read) at all is written (read): `total / (total - repeated)`.
///
/// Figure 13 compares each operation with all before it, begins with the one before the last (`i-- >= 0` after `i =
/// index - 1`), ends before the first of the array, and counts a repetition once for each earlier call; its text marks
/// a call as repeated once. So does this, by what was done to each file since it was made.
pub fn repeat_frequency(total: u64, repeated: u64) -> f64 {
    if total == 0 {
        return 1.0;
    }
    total as f64 / total.saturating_sub(repeated).max(1) as f64
}

/// Place in the matrix, in the order in which Figure 17 goes through it.
type Place = (u32, u32, u64, Operation, u32, bool);

/// The matrix; cells that are zero are not held.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    cells: FxHashMap<Place, u64>,
    processes: FxHashMap<Pid, u32>,
    /// Reads and writes, and of these the repeated ones.
    reads: (u64, u64),
    writes: (u64, u64),
}

/// There are more cells than [`MOST_CELLS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl Matrix {
    /// Counts an operation of that process in that chunk, whose size is told in steps of `io_chunk_bytes` and whose
    /// directory depth begins below `above` directories.
    pub fn add(
        &mut self,
        seen: &Seen,
        pid: Pid,
        chunk: u32,
        io_chunk_bytes: u64,
        above: u32,
    ) -> Result<(), TooMany> {
        let new = self.processes.len() as u32;
        let process = *self.processes.entry(pid).or_insert(new);
        // One call of a copy inside the kernel may move more than any read or write.
        let most = MOST_REQUEST_BYTES.saturating_sub(io_chunk_bytes / 2);
        let io = seen.bytes.min(most) / io_chunk_bytes;
        let (io, cached) = match seen.operation {
            Operation::READ => {
                self.reads.0 += 1;
                self.reads.1 += u64::from(seen.repeated);
                (io, seen.cached)
            }
            Operation::WRITE => {
                self.writes.0 += 1;
                self.writes.1 += u64::from(seen.repeated);
                (io, false)
            }
            _ => (0, false),
        };
        let depth = seen.depth.saturating_sub(above).min(DEEPEST);
        let place = (chunk, process, io, seen.operation, depth, cached);
        *self.cells.entry(place).or_default() += 1;
        if self.cells.len() > MOST_CELLS {
            return Err(TooMany);
        }
        Ok(())
    }

    /// Processes seen.
    pub fn processes(&self) -> u64 {
        self.processes.len() as u64
    }

    /// The configuration that says the same (Figure 17). Chunks without an operation are there, empty.
    pub fn config(self, chunks: u32, io_chunk_bytes: u64) -> Config {
        let mut config = Config {
            io_chunk_bytes,
            depths: 1 + self.cells.keys().map(|place| place.4).max().unwrap_or(0),
            repeat_write: repeat_frequency(self.writes.0, self.writes.1),
            repeat_read: repeat_frequency(self.reads.0, self.reads.1),
            chunks: (0..chunks)
                .map(|index| Chunk {
                    index,
                    definitions: Vec::new(),
                })
                .collect(),
        };
        let mut cells: Vec<(Place, u64)> = self.cells.into_iter().collect();
        cells.sort_unstable();
        for (number, ((chunk, process, io, operation, depth, cached), iterations)) in
            (0..).zip(cells)
        {
            let definition = Definition {
                process,
                operation,
                depth,
                io,
                cached,
                iterations,
                form: Form::Six,
                // Behind the header, the chunks up to its own, and the definitions before it.
                line: HEADER_LINES + chunk + 1 + number + 1,
            };
            if let Some(chunk) = config.chunks.get_mut(chunk as usize) {
                chunk.definitions.push(definition);
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(number: u64, bytes: u64, depth: u32, cached: bool) -> Seen {
        Seen {
            operation: Operation::from_number(number).unwrap(),
            depth,
            bytes,
            cached,
            repeated: false,
        }
    }

    #[test]
    fn chunks_are_pieces_of_the_whole_time() {
        let of = |t, n| chunk_of(t, (100, 1100), n);
        assert_eq!([of(100, 10), of(199, 10), of(200, 10)], [0, 0, 1]);
        assert_eq!([of(1099, 10), of(1100, 10), of(9999, 10)], [9, 9, 9]);
        assert_eq!(chunk_of(5, (5, 5), 7), 0);
        assert_eq!(chunk_of(u64::MAX, (0, u64::MAX), u32::MAX), u32::MAX - 1);
    }

    /// Figure 14: a read of 4096 bytes of /m/m.c with steps of 2048 is at (0, 2, 1).
    #[test]
    fn figure_14_is_in_its_cell() {
        let mut matrix = Matrix::default();
        matrix
            .add(&seen(35, 4096, 1, false), Pid(323), 0, 2048, 0)
            .unwrap();
        let text = matrix.config(1, 2048).to_string();
        assert!(text.ends_with("TIndex = 0\n0,35,1,2,0,1\n"), "{text}");
        assert!(
            text.starts_with("IOChunkSize = 2048\nDirDepthIndex = 2\n"),
            "{text}"
        );
    }

    #[test]
    fn definitions_come_in_the_order_of_figure_17() {
        let mut matrix = Matrix::default();
        for (number, bytes, cached, pid) in [
            (35, 900, true, 9),
            (34, 900, false, 9),
            (35, 900, false, 9),
            (19, 0, false, 9),
            (35, 100, false, 7),
        ] {
            matrix
                .add(&seen(number, bytes, 3, cached), Pid(pid), 1, 512, 3)
                .unwrap();
        }
        let text = matrix.config(2, 512).to_string();
        let body = "TIndex = 0\nTIndex = 1\n0,19,0,0,0,1\n0,34,0,1,0,1\n0,35,0,1,0,1\n0,35,0,1,1,1\n1,35,0,0,0,1\n";
        assert!(text.ends_with(body), "{text}");
        assert_eq!(Config::parse("m", &text).unwrap().to_string(), text);
    }

    #[test]
    fn a_frequency_is_the_calls_for_each_file() {
        let of =
            [(0, 0), (10, 0), (11, 6)].map(|(all, again)| repeat_frequency(all, again).to_string());
        assert_eq!(of, ["1", "1", "2.2"]);
    }
}
