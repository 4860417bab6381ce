//! The pause between two calls of a kind, in which a real process does something else.
//!
//! Data: memory is walked, the more the longer the pause. Instructions, branch and address
//! translation: unrelated system calls on unrelated objects and varied code of its own, so that the
//! kernel's text is displaced as by a real process.

use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read, Write};

use fsage_core::Clock;
use fsage_core::metric::GAPS_US;

/// Bytes of memory that are walked in each pause of [`GAPS_US`].
const WALK_BYTES: [usize; 4] = [0, 16 << 10, 96 << 10, 1280 << 10];
const MEMORY_BYTES: usize = 4 << 20;
const LINE_BYTES: usize = 64;
/// Bound on the rounds of a pause, for clocks that do not advance by themselves.
const MOST_ROUNDS: u32 = 10_000;

/// Makes pauses.
pub(crate) struct Polluter {
    memory: Vec<u8>,
    at: usize,
    pipe: Option<(PipeReader, PipeWriter)>,
    turn: u64,
}

impl Polluter {
    pub(crate) fn new() -> Self {
        Self {
            memory: vec![1; MEMORY_BYTES],
            at: 0,
            pipe: std::io::pipe().ok(),
            turn: 0,
        }
    }

    /// Passes the time of `GAPS_US[gap]`; nothing for 0.
    pub(crate) fn pause(&mut self, gap: usize, clock: &dyn Clock) {
        let (Some(&us), Some(&walk)) = (GAPS_US.get(gap), WALK_BYTES.get(gap)) else {
            return;
        };
        if us == 0 {
            return;
        }
        let end = clock.now_ns() + u64::from(us) * 1000;
        self.walk(walk);
        for round in 0..MOST_ROUNDS {
            if clock.now_ns() >= end {
                break;
            }
            self.turn = self.turn.wrapping_add(1);
            match us {
                1 => self.compute(8),
                10 => self.brief(round),
                _ => self.unrelated(),
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

    /// One short system call a pause, then code of its own.
    fn brief(&mut self, round: u32) {
        if round == 0 {
            match self.turn % 3 {
                0 => self.through_the_pipe(),
                1 => drop(black_box(std::fs::read_link("/proc/self"))),
                _ => {
                    black_box(std::process::id());
                    black_box(std::env::current_dir().is_ok());
                }
            }
        }
        self.compute(40);
    }

    /// What a process does between its file system calls, a different thing each time.
    fn unrelated(&mut self) {
        match self.turn % 6 {
            0 => self.through_the_pipe(),
            1 => drop(black_box(std::fs::metadata("/proc/self/status"))),
            2 => {
                // Large enough for an mmap and munmap of its own.
                let block = black_box(vec![1u8; 160 << 10]);
                drop(block);
            }
            3 => drop(black_box(std::fs::read_link("/proc/self/exe"))),
            4 => self.walk(64 << 10),
            _ => {
                black_box(std::process::id());
                self.compute(400);
            }
        }
        self.compute(100);
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
        if self.turn.is_multiple_of(16) {
            let mut words: Vec<u32> = (0..24).map(|i| (x >> i) as u32 & 0xff).collect();
            words.sort_unstable();
            black_box(format!("{odd:x}{words:?}"));
        }
        black_box((x, odd));
    }
}
