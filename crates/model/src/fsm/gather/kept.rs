//! The visits of a trace in the order in which they began, in about a dozen bytes each: a long trace has millions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::model::{Pick, Stage};
use super::super::resolve::{NONE, State};
use super::Visited;

/// So many are put in order at once; others that began before them may have ended later.
const AT_ONCE: usize = 1 << 16;
/// Bytes of a piece: nothing has to be moved when there are more.
const PIECE_BYTES: usize = 1 << 18;

const PICKS: [Pick; 7] = [
    Pick::None,
    Pick::Fresh,
    Pick::New,
    Pick::Known,
    Pick::Gone,
    Pick::Open,
    Pick::Shared,
];

/// Visits, in the order in which they began once all are there.
#[derive(Debug, Default)]
pub struct Visits {
    /// The latest, as they came.
    latest: Vec<Visited>,
    /// The others, each run in order.
    runs: Vec<Packed>,
    /// All, in order.
    all: Packed,
}

impl Visits {
    /// One more, in the order of their ends.
    pub fn push(&mut self, visit: Visited) {
        self.latest.push(visit);
        if self.latest.len() >= AT_ONCE {
            self.close_run();
        }
    }

    fn close_run(&mut self) {
        self.latest.sort_by_key(|v| v.start_ns);
        let mut run = Packed::default();
        self.latest.drain(..).for_each(|visit| run.push(&visit));
        self.runs.push(run);
    }

    /// There are no more: they come in order now. Of two that began together the one that ended first comes first.
    pub fn end(&mut self) {
        self.close_run();
        self.latest = Vec::new();
        let mut runs: Vec<Unpacked> = std::mem::take(&mut self.runs)
            .into_iter()
            .map(Unpacked::new)
            .collect();
        // The first that is left of each run, and when they began.
        let mut heads: Vec<Option<Visited>> = runs.iter_mut().map(Iterator::next).collect();
        let starts = heads.iter().enumerate();
        let mut next: BinaryHeap<Reverse<(u64, usize)>> = starts
            .filter_map(|(i, head)| Some(Reverse((head.as_ref()?.start_ns, i))))
            .collect();
        while let Some(Reverse((_, i))) = next.pop() {
            let (Some(run), Some(head)) = (runs.get_mut(i), heads.get_mut(i)) else {
                continue;
            };
            if let Some(visit) = std::mem::replace(head, run.next()) {
                self.all.push(&visit);
            }
            next.extend(head.as_ref().map(|v| Reverse((v.start_ns, i))));
        }
    }

    /// How many have been put in order.
    pub fn len(&self) -> usize {
        self.all.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those that have been put in order.
    pub fn iter(&self) -> impl Iterator<Item = Visited> {
        let mut before_ns = 0;
        let mut pieces = self.all.pieces.iter();
        let mut rest: &[u8] = &[];
        std::iter::from_fn(move || {
            while rest.is_empty() {
                rest = pieces.next()?;
            }
            unpack(&mut rest, &mut before_ns)
        })
    }

    /// Bytes that they take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.all.pieces.iter().map(Vec::capacity).sum()
    }
}

/// Visits whose starts do not go back, packed: seven bits a byte, the last byte of a number below 128 (LEB128).
#[derive(Debug, Default)]
struct Packed {
    pieces: Vec<Vec<u8>>,
    count: usize,
    last_ns: u64,
}

impl Packed {
    fn push(&mut self, visit: &Visited) {
        let full = |piece: &Vec<u8>| piece.len() + LONGEST_BYTES > piece.capacity();
        if self.pieces.last().is_none_or(full) {
            self.pieces.push(Vec::with_capacity(PIECE_BYTES));
        }
        let Some(piece) = self.pieces.last_mut() else {
            return;
        };
        let mut put = |mut number: u64| {
            while number >= 0x80 {
                piece.push(number as u8 | 0x80);
                number >>= 7;
            }
            piece.push(number as u8);
        };
        put(visit.start_ns - self.last_ns);
        put(visit.think_ns);
        put(visit.took_ns);
        put(visit.thread.into());
        put(visit.shape.into());
        put(visit.node.wrapping_sub(NONE).into());
        put(visit.to.wrapping_sub(NONE).into());
        let State {
            held,
            held_by_any,
            exists,
        } = visit.state;
        let state = u64::from(held) | u64::from(held_by_any) << 1 | u64::from(exists) << 2;
        let pick = (visit.pick as u64) << 3;
        let before = (visit.before.number() as u64) << 6;
        // What most visits have nothing of comes last.
        let begins = u64::from(visit.begins != NONE) << 12;
        let waits = u64::from(visit.waits) << 11;
        put(state | pick | before | (visit.to_pick as u64) << 8 | waits | begins);
        if visit.begins != NONE {
            put(visit.begins.into());
        }
        self.last_ns = visit.start_ns;
        self.count += 1;
    }
}

/// A visit takes no more: three numbers of 64 bits, five of 32, and the flags.
const LONGEST_BYTES: usize = 3 * 10 + 5 * 5 + 2;

/// Takes the next visit away from the front.
fn unpack(rest: &mut &[u8], before_ns: &mut u64) -> Option<Visited> {
    let mut get = || {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let (&byte, behind) = rest.split_first()?;
            *rest = behind;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 || shift > 63 {
                return Some(number);
            }
        }
    };
    *before_ns += get()?;
    let mut visit = Visited {
        start_ns: *before_ns,
        think_ns: get()?,
        took_ns: get()?,
        thread: get()? as u32,
        shape: get()? as u32,
        node: (get()? as u32).wrapping_add(NONE),
        to: (get()? as u32).wrapping_add(NONE),
        pick: Pick::None,
        to_pick: Pick::None,
        before: Stage::default(),
        state: State::default(),
        begins: NONE,
        waits: false,
    };
    let flags = get()?;
    let pick = |bits: u64| PICKS.get((bits & 7) as usize).copied();
    (visit.pick, visit.to_pick) = (pick(flags >> 3)?, pick(flags >> 8)?);
    visit.before = Stage::of((flags >> 6) as usize & 3);
    visit.state = State {
        held: flags & 1 != 0,
        held_by_any: flags & 2 != 0,
        exists: flags & 4 != 0,
    };
    visit.waits = flags & 1 << 11 != 0;
    if flags & 1 << 12 != 0 {
        visit.begins = get()? as u32;
    }
    Some(visit)
}

/// Unpacks, and gives each piece back when it has been read.
struct Unpacked {
    pieces: std::vec::IntoIter<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    before_ns: u64,
}

impl Unpacked {
    fn new(packed: Packed) -> Self {
        Self {
            pieces: packed.pieces.into_iter(),
            piece: Vec::new(),
            at: 0,
            before_ns: 0,
        }
    }
}

impl Iterator for Unpacked {
    type Item = Visited;

    fn next(&mut self) -> Option<Visited> {
        while self.at >= self.piece.len() {
            (self.piece, self.at) = (self.pieces.next()?, 0);
        }
        let mut rest = self.piece.get(self.at..)?;
        let visit = unpack(&mut rest, &mut self.before_ns);
        self.at = self.piece.len() - rest.len();
        visit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(i: u64) -> Visited {
        let pick = |i: u64| PICKS[i as usize % PICKS.len()];
        Visited {
            // Four threads, of which one visits for long.
            start_ns: if i.is_multiple_of(5) {
                i * 300
            } else {
                i * 1000
            },
            think_ns: if i == 7 { u64::MAX } else { i % 3000 },
            took_ns: 900 + i % 77,
            thread: (i % 4) as u32,
            shape: (i % 90) as u32,
            node: if i.is_multiple_of(11) {
                NONE
            } else {
                (i * 7 % 100_000) as u32
            },
            to: if i.is_multiple_of(13) {
                (i % 500) as u32
            } else {
                NONE
            },
            pick: pick(i),
            to_pick: pick(i / 7),
            before: Stage::of((i / 3 % 4) as usize),
            state: State {
                held: i.is_multiple_of(2),
                held_by_any: i.is_multiple_of(5),
                exists: i.is_multiple_of(3),
            },
            begins: if i.is_multiple_of(17) { i as u32 } else { NONE },
            waits: i.is_multiple_of(19),
        }
    }

    #[test]
    fn they_come_in_the_order_of_their_starts_and_as_they_were() {
        let mut all: Vec<Visited> = (0..3 * AT_ONCE as u64 + 17).map(visit).collect();
        let mut visits = Visits::default();
        for visit in &all {
            visits.push(*visit);
        }
        visits.end();
        all.sort_by_key(|v| v.start_ns);
        assert_eq!(visits.len(), all.len());
        let same = visits.iter().zip(&all).all(|(a, b)| a == *b);
        assert!(same && visits.iter().count() == all.len());
        let each = visits.bytes() / all.len();
        assert!(each <= 16, "{each} bytes a visit");
        let mut none = Visits::default();
        none.end();
        assert!(none.is_empty() && none.iter().next().is_none());
    }
}
