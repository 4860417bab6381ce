//! What is whole of a file without a sound end, by the chain of its trailers.

use super::file::PieceFile;
use super::footer::{Footer, Group};
use super::trailer::{Checksum, HEAD_BYTES, Head, TAIL_BYTES, TAIL_MAGIC};
use crate::error::FormatError;

/// Tails that are tried from the end on. A cut file has one that is whole among its last few.
const MAX_TAILS: usize = 1024;

impl PieceFile {
    /// Takes what the chain of trailers gives.
    pub(super) fn recover(&mut self, why: &str) -> Result<(), FormatError> {
        let mut before = self.length;
        for _ in 0..MAX_TAILS {
            let Some(end) = self.last_tail(before)? else {
                break;
            };
            if let Some(footer) = self.chain(end)? {
                self.recovered(footer, end);
                return Ok(());
            }
            before = end - 1;
        }
        let problem = format!("{why}, and no whole piece was found to recover");
        Err(FormatError::corrupt(
            self.path(),
            format!("byte {}", self.length),
            problem,
        ))
    }

    /// The end of the last tail that ends at or before byte `before`.
    fn last_tail(&self, before: u64) -> Result<Option<u64>, FormatError> {
        const WINDOW: u64 = 1 << 16;
        let mut end = before;
        let overlap = TAIL_MAGIC.len() as u64 - 1;
        while end > overlap {
            let start = end.saturating_sub(WINDOW);
            let window = self.read(start, end - start)?;
            let found = window
                .windows(TAIL_MAGIC.len())
                .rposition(|w| w == TAIL_MAGIC);
            if let Some(at) = found {
                return Ok(Some(start + at as u64 + TAIL_MAGIC.len() as u64));
            }
            if start == 0 {
                break;
            }
            end = start + overlap;
        }
        Ok(None)
    }

    /// The footer of the trailer that ends at `end`, with the head; `None` if it is not whole.
    fn trailer(&self, end: u64) -> Result<Option<(Head, Footer)>, FormatError> {
        let Some(tail_at) = end
            .checked_sub(TAIL_BYTES as u64)
            .filter(|_| end <= self.length)
        else {
            return Ok(None);
        };
        let Some(footer_bytes) = Head::parse_tail(&self.read(tail_at, TAIL_BYTES as u64)?) else {
            return Ok(None);
        };
        let Some(head_at) = tail_at.checked_sub(footer_bytes + HEAD_BYTES as u64) else {
            return Ok(None);
        };
        // A piece begins where the trailer before it ends, so that no byte is read for two.
        let head = Head::parse(&self.read(head_at, HEAD_BYTES as u64)?).filter(|h| {
            h.footer_bytes == footer_bytes
                && h.piece_start <= head_at
                && h.piece_start == h.previous_end.max(4)
        });
        let Some(head) = head else {
            return Ok(None);
        };
        let footer = self.read(head_at + HEAD_BYTES as u64, footer_bytes)?;
        if head.footer_checksum != Checksum::of(&footer) {
            return Ok(None);
        }
        Ok(Footer::parse(&footer).ok().map(|footer| (head, footer)))
    }

    /// Walks the chain back from the trailer that ends at `end`; `None` if that one is not whole.
    fn chain(&self, end: u64) -> Result<Option<Footer>, FormatError> {
        let Some((head, mut footer)) = self.trailer(end)? else {
            return Ok(None);
        };
        let mut groups: Vec<Group> = footer.groups.drain(..).rev().collect();
        let mut next = head.previous_end;
        while next > 0 {
            let damaged = |problem: &str| {
                Err(FormatError::corrupt(
                    self.path(),
                    format!("byte {next}"),
                    problem,
                ))
            };
            let Some((head, earlier)) = self.trailer(next)? else {
                return damaged("a damaged piece before a whole one, expected a whole one");
            };
            if earlier.leaves != footer.leaves {
                return damaged("a piece with other columns than the one after it");
            }
            groups.extend(earlier.groups.into_iter().rev());
            next = head.previous_end;
        }
        groups.reverse();
        footer.groups = groups;
        Ok(Some(footer))
    }
}
