//! What the places of blocks tell of a day: files that grew beside each other, and what was gone before others came.

use fsage_core::FileType;
use fsage_format::snapshot::Extent;

use super::state::{Inode, State};

/// How a part of a file came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum How {
    /// With the file itself.
    Make,
    /// In place of what it had.
    Anew,
    /// Behind what it had.
    #[default]
    Add,
}

/// A part of a file that was written in one go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Piece {
    /// The file.
    pub ino: u64,
    /// How it came.
    pub how: How,
    /// Where it ends in the file, bytes.
    pub to: u64,
    /// When it was written.
    pub ns: u64,
    /// When its file was written last.
    pub until_ns: u64,
    /// Where it begins on the device and where it ends; 0 where unknown.
    pub place: (u64, u64),
    /// In which order at the same time: that of the device.
    pub turn: u64,
}

impl Piece {
    /// What names it among all of a night.
    pub fn key(&self) -> (u64, u64) {
        (self.ino, self.to)
    }
}

/// The most of a hole between two pieces that is taken for a file which lay there.
const HOLE_BYTES: u64 = 64 << 10;

/// Which parts of the device were given to files before a day, and which on it.
#[derive(Debug)]
pub struct Places {
    /// From and to, in the order of the device.
    before: Vec<(u64, u64)>,
    /// The same with when.
    since: Vec<(u64, u64, u64)>,
    /// What they have after it.
    after: Vec<(u64, u64)>,
    /// What was in the way of files, and when.
    kept: Vec<(u64, u64)>,
    block_bytes: u64,
}

impl Places {
    /// From what was taken before, as [`Self::taken`] told it then, to a state after it.
    pub fn new(before: Vec<(u64, u64)>, after: &State, block_bytes: u64) -> Self {
        let extents = after.inodes.values().flat_map(|inode| &*inode.extents);
        let mut taken: Vec<(u64, u64)> = extents.map(|e| (e.physical_bytes, end(e))).collect();
        taken.sort_unstable();
        Self {
            before,
            since: Vec::new(),
            after: taken,
            kept: Vec::new(),
            block_bytes: block_bytes.max(512),
        }
    }

    /// Which parts of the device files have after the day.
    pub fn taken(self) -> Vec<(u64, u64)> {
        self.after
    }

    /// The pieces in which a file was written behind its first `from` bytes, their times still open: each ends where
    /// the next block lies elsewhere, unless what is in its place was in the way all the time. Another file got that
    /// block meanwhile, or had it and was gone later.
    pub fn pieces(&self, ino: u64, inode: &Inode, from: u64) -> Vec<Piece> {
        let (mut found, mut begin) = (Vec::new(), 0);
        let plain = inode.kind == FileType::Regular && inode.data == inode.size;
        let mut extents = inode.extents.iter().peekable();
        while let Some(a) = extents.next() {
            let to = a.logical_bytes.saturating_add(a.length_bytes);
            if to <= from {
                continue;
            }
            if begin == 0 {
                begin = a.physical_bytes;
            }
            let apart = extents.peek().is_some_and(|b| {
                let gap = b.physical_bytes.checked_sub(end(a));
                let on = gap.is_some_and(|gap| gap <= self.map_bytes(to));
                let within = plain && to < inode.data;
                within && a.physical_bytes > 0 && !on && !self.stays(end(a))
            });
            if apart || extents.peek().is_none() {
                found.push(Piece {
                    ino,
                    to: if apart { to } else { inode.data },
                    place: (begin, end(a)),
                    ..Piece::default()
                });
                begin = 0;
            }
        }
        if found.is_empty() {
            found.push(Piece {
                ino,
                to: inode.data,
                ..Piece::default()
            });
        }
        found
    }

    /// Whether what lies there did so before.
    fn stays(&self, at: u64) -> bool {
        let begin = |parts: &[(u64, u64)]| part_at(parts, at).map(|part| part.0);
        begin(&self.before).is_some_and(|from| begin(&self.after) == Some(from))
    }

    /// Room between blocks for the ones that tell where the next blocks are, as ext2 lays them.
    fn map_bytes(&self, at: u64) -> u64 {
        let after = (at / self.block_bytes).checked_sub(12);
        let maps = after.is_some_and(|n| n.is_multiple_of(self.block_bytes / 4));
        if maps { 2 * self.block_bytes } else { 0 }
    }

    /// What lay behind a piece when the next one of its file was put elsewhere and is gone by now, bytes.
    pub fn hole(&self, behind: &Piece) -> u64 {
        let at = behind.place.1;
        let next = self.after.partition_point(|&(from, _)| from < at);
        match self.after.get(next) {
            Some(_) if holds(&self.after, at) => 0,
            Some(&(from, _)) => HOLE_BYTES.min(from - at),
            None => HOLE_BYTES,
        }
    }

    /// What lay between pieces of two files that were written one after the other and is gone by now, bytes: a file
    /// system goes on behind what it gave last, and passes over only what is in the way.
    pub fn between(&self, pieces: &[Piece]) -> Vec<(Piece, Piece, u64)> {
        let mut placed: Vec<Piece> = pieces.iter().filter(|p| p.place.1 > 0).copied().collect();
        placed.sort_unstable_by_key(|p| p.place);
        let pairs = placed.windows(2).filter_map(|pair| {
            let [a, b] = *pair else { return None };
            // Files that were open at once may have got their blocks in either order.
            let in_turn = a.ino != b.ino && b.until_ns >= a.ns;
            let bytes = self.gone((a.place.1, b.place.0));
            (in_turn && bytes > 0).then_some((a, b, bytes))
        });
        pairs.collect()
    }

    /// How much of a free part, from its begin on, was a file's that neither night has.
    fn gone(&self, (from, to): (u64, u64)) -> u64 {
        let behind = |parts: &[(u64, u64)]| parts.partition_point(|&(_, end)| end <= from);
        let next = self.after.get(behind(&self.after));
        if to <= from || next.is_some_and(|&(begin, _)| begin < to) {
            return 0;
        }
        // A file of the night before that reaches beyond had gone when others got its blocks; any other may have been
        // in the way itself.
        let old = self.before.get(behind(&self.before)..).unwrap_or_default();
        let mut within = old.iter().take_while(|&&(begin, _)| begin < to);
        let first = within.find(|&&(begin, end)| begin >= from && end <= to);
        HOLE_BYTES.min(first.map_or(to, |&(begin, _)| begin) - from)
    }

    /// Notes when the blocks behind a file's first `from` bytes were written, and what was in the way then.
    pub fn written(&mut self, inode: &Inode, from: u64, pieces: &[Piece]) {
        let mut pieces = pieces.iter().peekable();
        let mut extents = inode.extents.iter().peekable();
        while let Some(extent) = extents.next() {
            let to = extent.logical_bytes.saturating_add(extent.length_bytes);
            while pieces.peek().is_some_and(|p| p.to < to) && pieces.len() > 1 {
                pieces.next();
            }
            if let Some(piece) = pieces
                .peek()
                .filter(|_| to > from && extent.physical_bytes > 0)
            {
                self.since
                    .push((extent.physical_bytes, end(extent), piece.ns));
                let on = extents
                    .peek()
                    .is_none_or(|b| b.physical_bytes == end(extent));
                if !on && holds(&self.before, end(extent)) {
                    self.kept.push((end(extent), piece.ns));
                }
            }
        }
    }

    /// Ends the noting.
    pub fn order(&mut self) {
        self.since.sort_unstable();
        self.kept.sort_unstable();
    }

    /// When a file that went was last in the way of another.
    pub fn kept_ns(&self, gone: &Inode) -> Option<u64> {
        let last = |e: &Extent| {
            let at = self.kept.partition_point(|k| k.0 < e.physical_bytes);
            let within = self.kept.get(at..).unwrap_or_default().iter();
            within.take_while(|k| k.0 < end(e)).map(|k| k.1).max()
        };
        gone.extents.iter().filter_map(last).max()
    }

    /// When the first blocks of a file that went were another's.
    pub fn reused_ns(&self, gone: &Inode) -> Option<u64> {
        let first = |e: &Extent| {
            let at = self.since.partition_point(|s| s.1 <= e.physical_bytes);
            let over = self.since.get(at..).unwrap_or_default().iter();
            over.take_while(|s| s.0 < end(e)).map(|s| s.2).min()
        };
        gone.extents.iter().filter_map(first).min()
    }
}

/// The part that holds that byte.
fn part_at(parts: &[(u64, u64)], at: u64) -> Option<(u64, u64)> {
    let behind = parts.partition_point(|&(from, _)| from <= at);
    let found = parts.get(behind.checked_sub(1)?)?;
    Some(*found).filter(|&(_, to)| at < to)
}

/// Whether a part that is one of these holds that byte.
fn holds(parts: &[(u64, u64)], at: u64) -> bool {
    part_at(parts, at).is_some()
}

fn end(extent: &Extent) -> u64 {
    extent.physical_bytes.saturating_add(extent.length_bytes)
}

/// The time at a share of the way between two, as it goes by what happens: `busy` are the times of all that is known
/// of, in order.
pub fn between(busy: &[u64], (from_ns, to_ns): (u64, u64), share: f64) -> u64 {
    let low = busy.partition_point(|&ns| ns < from_ns);
    let count = busy.partition_point(|&ns| ns <= to_ns).saturating_sub(low);
    let at = low + (count.saturating_sub(1) as f64 * share) as usize;
    let even = from_ns + (to_ns.saturating_sub(from_ns) as f64 * share) as u64;
    let known = busy.get(at).copied().filter(|_| count > 2);
    known.unwrap_or(even).clamp(from_ns, to_ns.max(from_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A night after which `files` lie there, by blocks, one extent each; `before` are the parts of the night before.
    fn places(before: &[(u64, u64)], files: &[(u64, u64)]) -> Places {
        let mut after: Vec<(u64, u64)> = files.iter().map(|f| (f.0 * 4096, f.1 * 4096)).collect();
        after.sort_unstable();
        Places {
            before: before.iter().map(|b| (b.0 * 4096, b.1 * 4096)).collect(),
            since: Vec::new(),
            after,
            kept: Vec::new(),
            block_bytes: 4096,
        }
    }

    fn piece(ino: u64, (from, to): (u64, u64), ns: u64, until_ns: u64) -> Piece {
        Piece {
            ino,
            to: (to - from) * 4096,
            ns,
            until_ns,
            place: (from * 4096, to * 4096),
            ..Piece::default()
        }
    }

    fn found(places: &Places, pieces: &[Piece]) -> Vec<(u64, u64, u64)> {
        let between = places.between(pieces).into_iter();
        between
            .map(|(a, b, bytes)| (a.ino, b.ino, bytes / 4096))
            .collect()
    }

    #[test]
    fn what_lay_between_files_that_were_written_in_turn_is_told() {
        let files = [(100, 104), (106, 108), (108, 109), (200, 201)];
        let pieces = [
            piece(3, (108, 109), 30, 30),
            piece(1, (100, 104), 10, 10),
            piece(2, (106, 108), 20, 20),
            piece(4, (200, 201), 40, 40),
        ];
        // Two blocks behind the first, none behind the second, and as much as a file of that kind has behind the third.
        assert_eq!(
            found(&places(&[], &files), &pieces),
            [(1, 2, 2), (3, 4, 16)]
        );
        // A file that was there the night before may have been in the way, and one that is there now was.
        assert_eq!(
            found(&places(&[(105, 106), (109, 120)], &files), &pieces),
            [(1, 2, 1)]
        );
        let mut more = files.to_vec();
        more.push((104, 105));
        assert_eq!(found(&places(&[], &more), &pieces), [(3, 4, 16)]);
        // One whose blocks others got on either side was not.
        let old = [(90, 110), (110, 300)];
        assert_eq!(
            found(&places(&old, &files), &pieces),
            [(1, 2, 2), (3, 4, 16)]
        );
    }

    #[test]
    fn what_was_written_before_leaves_nothing_behind_a_later_one() {
        let files = [(100, 104), (106, 108)];
        let (late, early) = ((100, 104), (106, 108));
        let of = |until_ns| [piece(1, late, 50, 60), piece(2, early, 10, until_ns)];
        assert_eq!(found(&places(&[], &files), &of(40)), []);
        // It was still being written then.
        assert_eq!(found(&places(&[], &files), &of(55)), [(1, 2, 2)]);
        // Parts of one file are told by `hole`.
        let same = [piece(1, (100, 104), 10, 10), piece(1, (106, 108), 20, 20)];
        assert_eq!(found(&places(&[], &files), &same), []);
    }
}
