//! The trailer that stands after each piece, and the seal before the footer of a finished file.
//!
//! ```text
//! head  magic "FSGPIECE" | footer length u64 | start of the piece u64 |
//!       checksum of the piece u64 | end of the previous trailer u64 (0: none) |
//!       rows up to here u64 | checksum of the footer u64 | checksum of this head u64
//! footer (Parquet's, of this row group alone)
//! tail  footer length u64 | magic "FSGPIEND"
//!
//! seal  magic "FSGSEALS" | footer length u64 | checksum of the footer u64 | rows u64 |
//!       end of the last trailer u64 | checksum of this seal u64
//! ```
//! All numbers are little-endian; the piece begins where the previous trailer ends (or after the
//! file's magic) and ends where the head begins.

pub(crate) const HEAD_MAGIC: &[u8; 8] = b"FSGPIECE";
pub(crate) const TAIL_MAGIC: &[u8; 8] = b"FSGPIEND";
pub(crate) const SEAL_MAGIC: &[u8; 8] = b"FSGSEALS";
pub(crate) const HEAD_BYTES: usize = 64;
pub(crate) const SEAL_BYTES: usize = 48;
pub(crate) const TAIL_BYTES: usize = 16;
/// No footer of one row group is larger.
pub(crate) const MAX_FOOTER_BYTES: u64 = 16 << 20;

/// A 64-bit checksum over words of eight bytes (FNV-1a's constants). Each step is a bijection, so
/// that damage within one word is always found; it is no defence against forgery.
#[derive(Debug, Clone, Copy)]
pub struct Checksum {
    state: u64,
    tail: [u8; 8],
    held: usize,
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

impl Checksum {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self {
            state: 0xcbf2_9ce4_8422_2325,
            tail: [0; 8],
            held: 0,
        }
    }

    fn word(&mut self, word: [u8; 8]) {
        self.state = (self.state ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        self.state ^= self.state >> 32;
    }

    /// Adds bytes; how they are split over calls does not matter.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while self.held > 0 {
            let Some((&first, rest)) = bytes.split_first() else {
                return;
            };
            if let Some(slot) = self.tail.get_mut(self.held) {
                *slot = first;
            }
            bytes = rest;
            self.held += 1;
            if self.held == 8 {
                self.word(self.tail);
                self.held = 0;
            }
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(*word);
        }
        self.tail
            .iter_mut()
            .zip(rest)
            .for_each(|(slot, byte)| *slot = *byte);
        self.held = rest.len();
    }

    /// The checksum of everything added.
    pub fn value(mut self) -> u64 {
        let held = self.held;
        self.tail.iter_mut().skip(held).for_each(|b| *b = 0);
        self.word(self.tail);
        self.word((held as u64).to_le_bytes());
        self.state
    }

    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut sum = Self::new();
        sum.add(bytes);
        sum.value()
    }
}

/// What a trailer's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub footer_bytes: u64,
    pub piece_start: u64,
    pub piece_checksum: u64,
    pub previous_end: u64,
    pub rows_so_far: u64,
    pub footer_checksum: u64,
}

impl Head {
    /// The bytes of a whole trailer.
    pub(crate) fn encode(&self, footer: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + footer.len() + TAIL_BYTES);
        out.extend_from_slice(HEAD_MAGIC);
        out.extend_from_slice(&self.footer_bytes.to_le_bytes());
        for field in [
            self.piece_start,
            self.piece_checksum,
            self.previous_end,
            self.rows_so_far,
            self.footer_checksum,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let checksum = Checksum::of(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(footer);
        out.extend_from_slice(&self.footer_bytes.to_le_bytes());
        out.extend_from_slice(TAIL_MAGIC);
        out
    }

    /// Reads a head; `None` if these bytes are none or are damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.get(..HEAD_BYTES)?.as_chunks::<8>();
        let &[magic, length, start, sum, previous, rows, footer, own] = words else {
            return None;
        };
        let covered = bytes.get(..HEAD_BYTES - 8)?;
        let head = Self {
            footer_bytes: u64::from_le_bytes(length),
            piece_start: u64::from_le_bytes(start),
            piece_checksum: u64::from_le_bytes(sum),
            previous_end: u64::from_le_bytes(previous),
            rows_so_far: u64::from_le_bytes(rows),
            footer_checksum: u64::from_le_bytes(footer),
        };
        (&magic == HEAD_MAGIC
            && Checksum::of(covered) == u64::from_le_bytes(own)
            && head.footer_bytes <= MAX_FOOTER_BYTES)
            .then_some(head)
    }

    /// The footer's length by a tail; `None` if these bytes are none.
    pub(crate) fn parse_tail(bytes: &[u8]) -> Option<u64> {
        let (words, _) = bytes.get(..TAIL_BYTES)?.as_chunks::<8>();
        let &[length, magic] = words else { return None };
        let length = u64::from_le_bytes(length);
        (&magic == TAIL_MAGIC && length <= MAX_FOOTER_BYTES).then_some(length)
    }
}

/// What stands before the footer of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    pub footer_bytes: u64,
    pub footer_checksum: u64,
    pub rows: u64,
    pub last_trailer_end: u64,
}

impl Seal {
    /// The seal's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SEAL_BYTES);
        out.extend_from_slice(SEAL_MAGIC);
        for field in [
            self.footer_bytes,
            self.footer_checksum,
            self.rows,
            self.last_trailer_end,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let checksum = Checksum::of(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads a seal; `None` if these bytes are none or are damaged.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.get(..SEAL_BYTES)?.as_chunks::<8>();
        let &[magic, length, checksum, rows, end, own] = words else {
            return None;
        };
        let covered = bytes.get(..SEAL_BYTES - 8)?;
        (&magic == SEAL_MAGIC && Checksum::of(covered) == u64::from_le_bytes(own)).then(|| Self {
            footer_bytes: u64::from_le_bytes(length),
            footer_checksum: u64::from_le_bytes(checksum),
            rows: u64::from_le_bytes(rows),
            last_trailer_end: u64::from_le_bytes(end),
        })
    }

    /// Whether that footer is the one that was sealed.
    pub(crate) fn is_of(&self, footer: &[u8]) -> bool {
        self.footer_bytes == footer.len() as u64 && self.footer_checksum == Checksum::of(footer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_does_not_depend_on_the_split_and_sees_every_bit() {
        let bytes: Vec<u8> = (0..100u8).collect();
        let whole = Checksum::of(&bytes);
        for at in 0..bytes.len() {
            let mut sum = Checksum::new();
            sum.add(&bytes[..at]);
            sum.add(&bytes[at..]);
            assert_eq!(sum.value(), whole, "split at {at}");
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_ne!(Checksum::of(&damaged), whole, "bit {bit} of byte {at}");
            }
        }
        assert_ne!(Checksum::of(&[0]), Checksum::of(&[0, 0]));
    }
}
