//! The pause between two calls of a kind, in which a real process does something else.
//!
//! Back to back but for a cheap call or two; ten microseconds of ordinary work on other files; a
//! good tenth of a millisecond of the process's own code and data, no more than part of a level 2
//! cache; or milliseconds of it, as a compiler has between two files, over as much data as replaces
//! all of that cache.

use std::fs::File;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use fsage_core::Clock;
use fsage_core::metric::GAPS_US;

/// Bytes of its own that a process walks in the longest pause: a fraction of a level 2 cache.
const WALK_BYTES: usize = 384 << 10;
/// The pieces in which it does so, with code between them.
const WALK_PIECE_BYTES: usize = 32 << 10;
const MEMORY_BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64;
const BLOCK_BYTES: usize = 4096;
/// Bound on the rounds of a pause, for clocks that do not advance by themselves.
const MOST_ROUNDS: usize = 10_000;

/// Makes pauses.
pub(crate) struct Polluter {
    memory: Vec<u8>,
    at: usize,
    pipe: Option<(PipeReader, PipeWriter)>,
    /// The program itself: a file that is cached and belongs to nobody's measurement.
    program: Option<PathBuf>,
    opened: Option<File>,
    written: Option<File>,
    block: Vec<u8>,
    turn: u64,
}

impl Polluter {
    pub(crate) fn new() -> Self {
        let program = std::env::current_exe().ok();
        let memory_file = rustix::fs::memfd_create("pause", rustix::fs::MemfdFlags::CLOEXEC);
        Self {
            memory: vec![1; MEMORY_BYTES],
            at: 0,
            pipe: std::io::pipe().ok(),
            opened: program.as_ref().and_then(|p| File::open(p).ok()),
            program,
            written: memory_file.ok().map(File::from),
            block: vec![3; BLOCK_BYTES],
            turn: 0,
        }
    }

    /// Passes the time of `GAPS_US[gap]`; nothing for 0.
    pub(crate) fn pause(&mut self, gap: usize, clock: &dyn Clock) {
        let us = GAPS_US.get(gap).copied().unwrap_or(0);
        if us == 0 {
            return;
        }
        let end = clock.now_ns() + u64::from(us) * 1000;
        for round in 0..MOST_ROUNDS {
            if clock.now_ns() >= end {
                break;
            }
            self.turn = self.turn.wrapping_add(1);
            match us {
                1 => {
                    black_box(rustix::process::getppid());
                    self.compute(20);
                }
                10 => self.on_other_files(),
                150 => self.own_work(round, WALK_BYTES),
                _ => self.own_work(round, usize::MAX),
            }
        }
    }

    fn walk(&mut self, bytes: usize) {
        let mut sum = 0u8;
        let start = self.at;
        for step in (0..bytes).step_by(LINE_BYTES) {
            if let Some(byte) = self.memory.get_mut((start + step) % MEMORY_BYTES) {
                sum = sum.wrapping_add(*byte);
                *byte = sum;
            }
        }
        self.at = (start + bytes) % MEMORY_BYTES;
        black_box(sum);
    }

    /// One call on a file that has nothing to do with the measurement.
    fn on_other_files(&mut self) {
        let place = self.turn % 16 * BLOCK_BYTES as u64;
        match self.turn % 5 {
            0 => {
                if let Some(program) = &self.program {
                    drop(black_box(File::open(program)));
                }
            }
            1 => {
                if let Some(program) = &self.program {
                    drop(black_box(std::fs::metadata(program)));
                }
            }
            2 => {
                if let Some(file) = &self.written {
                    let _ = black_box(file.write_at(&self.block, place));
                }
            }
            _ => {
                if let Some(file) = &self.opened {
                    let _ = black_box(file.read_at(&mut self.block, place));
                }
            }
        }
        self.compute(20);
    }

    /// What a process does between its file system calls: its own code on its own data, and an
    /// unrelated call now and then.
    fn own_work(&mut self, round: usize, walk_bytes: usize) {
        if round.saturating_mul(WALK_PIECE_BYTES) < walk_bytes {
            self.walk(WALK_PIECE_BYTES);
        }
        match round {
            2 => self.through_the_pipe(),
            5 => {
                black_box(rustix::process::getppid());
            }
            8 => drop(black_box(std::fs::read_link("/proc/self"))),
            _ => {}
        }
        self.compute(400);
    }

    fn through_the_pipe(&mut self) {
        if let Some((reader, writer)) = &mut self.pipe {
            let mut buffer = [7u8; 64];
            if writer.write_all(&buffer).is_ok() {
                let _ = reader.read_exact(&mut buffer);
            }
            black_box(buffer);
        }
    }

    /// Code with branches that depend on data, in several shapes.
    fn compute(&mut self, steps: u32) {
        let mut x = self.turn | 1;
        let mut odd = 0u32;
        for step in 0..steps {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if x & 1 == 0 {
                odd = odd.wrapping_add(step);
            } else if x & 6 == 2 {
                odd ^= x as u32;
            } else {
                odd = odd.rotate_left(3);
            }
        }
        if steps > 100 && self.turn.is_multiple_of(4) {
            let mut words: Vec<u32> = (0..24).map(|i| (x >> i) as u32 & 0xff).collect();
            words.sort_unstable();
            black_box(format!("{odd:x}{words:?}"));
        }
        black_box((x, odd));
    }
}
