//! From one snapshot to the next: what happened, when, and in which order.

use fsage_core::{FileType, Seed};
use fsage_workload::random::{Random, stream_seed};
use rustc_hash::FxHashMap;

use super::deletes::{Removal, remove_times};
use super::emit::{Emitter, blocks};
use super::growth::{How, Piece, Places, between};
use super::short::{Busy, Laid};
use super::snapshots::SnapshotSource;
use super::state::{Inode, Night, ROOT, State, seconds};
use super::tree::AgedTree;
use super::{GenerateError, refused};
use crate::made::DAY_NS;

/// How far a file's change may lie outside of its night and be believed.
const SLACK_NS: i64 = 600_000_000_000;

/// What happens to an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Make(u64),
    /// Up to so many bytes, with what it had before where it was, or anew.
    Modify(u64, u64, bool),
    Settle(u64),
    Remove(u64),
    ShortMake(usize),
    ShortRemove(usize),
}

#[derive(Debug, Clone, Copy)]
struct Event {
    ns: u64,
    /// In which order at the same time.
    place: u64,
    what: What,
}

/// What is known while one snapshot follows another.
pub struct Walk<'s> {
    source: &'s SnapshotSource,
    tree: AgedTree,
    random: Random,
    /// Of short-lived files, so that deletions are the same with and without them.
    draws: Random,
    day: u32,
    events: Vec<Event>,
    laid: Vec<Laid>,
    /// Which parts of the device the files of the last snapshot have.
    taken: Vec<(u64, u64)>,
}

impl<'s> Walk<'s> {
    /// Before the first of them.
    pub fn new(source: &'s SnapshotSource) -> Self {
        let seed = Seed(source.made.seed);
        Self {
            source,
            tree: AgedTree::default(),
            random: Random::new(seed),
            draws: Random::new(stream_seed(seed, 1)),
            day: 0,
            events: Vec::new(),
            laid: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// The files of the first snapshot, over its day: as if all came since the first of them.
    pub fn first(
        &mut self,
        state: &State,
        night: &Night,
        out: &mut Emitter<'_>,
    ) -> Result<(), GenerateError> {
        // Directories of groups come before all, in the order of the groups.
        let timeless = |(&ino, i): (&u64, &Inode)| {
            (i.ctime_ns == 0 && i.kind == FileType::Directory).then_some(!ino)
        };
        let mut groups: Vec<u64> = state.inodes.iter().filter_map(timeless).collect();
        groups.sort_unstable();
        for group in groups {
            self.tree.make(!group, state, out)?;
        }
        let times = state.inodes.values().flat_map(|i| [i.born_ns, i.ctime_ns]);
        let first_ns = times.filter(|&ns| ns > 0).min().unwrap_or(0) as u64;
        let nothing = State {
            taken_ns: first_ns.min(state.taken_ns),
            ..State::default()
        };
        self.night(&nothing, state, 1, night, out)
    }

    /// What lies between two snapshots, and the days that it takes.
    pub fn night(
        &mut self,
        before: &State,
        next: &State,
        days: u32,
        night: &Night,
        out: &mut Emitter<'_>,
    ) -> Result<(), GenerateError> {
        let span = Span::new(before, next, self.day, days);
        let taken = std::mem::take(&mut self.taken);
        let mut places = Places::new(taken, next, night.meta.block_bytes);
        let removed = self.compare(before, next, (span, &mut places), night)?;
        self.removals(before, next, &removed, (span, &places));
        self.taken = places.taken();
        self.short_lived(next, span);
        self.events.sort_by_key(|e| (e.ns, e.place));
        self.tree.doomed = removed.iter().copied().collect();
        for event in std::mem::take(&mut self.events) {
            while event.ns >= u64::from(self.day + 1) * DAY_NS && self.day + 1 < span.last_day() {
                self.day += 1;
                out.end_day()?;
            }
            out.at(event.ns);
            self.put(event.what, next, out)?;
        }
        // What could not go before because something lay in it.
        for ino in removed {
            if self.tree.doomed.contains(&ino) {
                self.tree.remove_all(ino, out)?;
            }
        }
        while let Some(ino) = self.tree.aside.pop() {
            self.tree.settle(ino, next, out)?;
        }
        while self.day < span.last_day() {
            self.day += 1;
            out.end_day()?;
        }
        self.laid.clear();
        self.tree.begun.clear();
        self.tree.written_out.clear();
        Ok(())
    }

    /// Finds what was made, changed, renamed and removed; returns what was removed, what lies in a directory after it.
    fn compare(
        &mut self,
        before: &State,
        next: &State,
        (span, places): (Span, &mut Places),
        night: &Night,
    ) -> Result<Vec<u64>, GenerateError> {
        let (mut changed, mut outside) = (0_u64, 0_u64);
        let mut inodes: Vec<u64> = next.inodes.keys().copied().collect();
        inodes.sort_unstable();
        let (mut removed, mut found, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for ino in inodes {
            let Some(now) = next.inodes.get(&ino) else {
                continue;
            };
            let old = before.inodes.get(&ino);
            let same = old.filter(|old| old.ident == now.ident && old.kind == now.kind);
            if same.is_some_and(|old| {
                old.ctime_ns == now.ctime_ns && old.size == now.size && old.names == now.names
            }) {
                continue;
            }
            let ns = if now.ctime_ns == 0 {
                span.begin_ns + self.random.below(span.length_ns)
            } else {
                let inside =
                    same.is_some_and(|o| o.ctime_ns == now.ctime_ns) || span.holds(now.ctime_ns);
                changed += 1;
                outside += u64::from(!inside);
                span.map(now.ctime_ns)
            };
            // Where that is known, from when on it was there and when it was written last.
            let known = |at: i64| Some(at).filter(|&at| at != 0 && span.holds(at));
            let made_ns = known(now.born_ns).map_or(ns, |at| span.map(at).min(ns));
            let written_ns = known(now.mtime_ns).map_or(made_ns, |at| span.map(at));
            busy.extend([written_ns, made_ns].iter().skip(same.is_some().into()));
            found.push((ino, now, same, (made_ns, written_ns.max(made_ns), ns)));
            if same.is_none() && old.is_some() {
                removed.push(ino);
            }
        }
        busy.sort_unstable();
        let mut pieces = Vec::new();
        for (ino, now, same, times) in found {
            self.change((ino, now, same), times, (span, places, &busy), &mut pieces);
        }
        self.written((before, next), &pieces, places);
        if !before.inodes.is_empty() && outside > 2 && outside * 2 > changed {
            return Err(refused(format!(
                "{}: {outside} of {changed} files that changed since the snapshot before it, {} earlier, did so by \
                 their ctime at another time: the clock jumped",
                night.path.display(),
                seconds(span.real_ns)
            )));
        }
        removed.extend(
            before
                .inodes
                .keys()
                .filter(|ino| !next.inodes.contains_key(ino)),
        );
        removed.sort_unstable();
        removed.dedup();
        Ok(removed)
    }

    /// Takes up what became of an inode, and the pieces in which its data was written.
    fn change(
        &mut self,
        (ino, now, same): (u64, &Inode, Option<&Inode>),
        (made_ns, written_ns, changed_ns): (u64, u64, u64),
        (span, places, busy): (Span, &Places, &[u64]),
        all: &mut Vec<Piece>,
    ) {
        let (how, from, begin_ns) = match same {
            None => (How::Make, 0, made_ns),
            Some(old) => {
                // Also where its names are the same: its directory may be another of that number.
                self.events.push(Event {
                    ns: changed_ns,
                    place: 0,
                    what: What::Settle(ino),
                });
                if now.kind != FileType::Regular
                    || (old.size, old.mtime_ns) == (now.size, now.mtime_ns)
                {
                    return;
                }
                let begin_ns = span.begin_ns.min(written_ns);
                if stayed(old, now) {
                    (How::Add, old.data, begin_ns)
                } else {
                    (How::Anew, 0, begin_ns)
                }
            }
        };
        let mut pieces = places.pieces(ino, now, from);
        let (last, mut turn) = (pieces.len() - 1, 0);
        for (nth, piece) in pieces.iter_mut().enumerate() {
            // A new file's first piece is there from its birth on; what is added comes by and by.
            let before = usize::from(how == How::Add);
            let share = (nth + before) as f64 / (last + before).max(1) as f64;
            piece.until_ns = written_ns;
            piece.how = if nth == 0 { how } else { How::Add };
            piece.ns = match how {
                How::Anew => written_ns,
                _ => between(busy, (begin_ns, written_ns), share),
            };
            // Those of one file follow each other, also where they do not on the device.
            piece.turn = piece.place.0.max(turn);
            turn = piece.turn.saturating_add(2);
        }
        all.append(&mut pieces);
    }

    /// What is written when.
    fn written(&mut self, (before, next): (&State, &State), pieces: &[Piece], places: &mut Places) {
        for of_file in pieces.chunk_by(|a, b| a.ino == b.ino) {
            let Some(first) = of_file.first() else {
                continue;
            };
            if first.how == How::Make && of_file.len() > 1 {
                self.tree.begun.insert(first.ino, first.to);
            }
            if let Some(now) = next.inodes.get(&first.ino) {
                let old = before
                    .inodes
                    .get(&first.ino)
                    .filter(|_| first.how == How::Add);
                places.written(now, old.map_or(0, |old| old.data), of_file);
            }
            for pair in of_file.windows(2) {
                let [a, b] = pair else { continue };
                self.tree.written_out.insert(a.key());
                let bytes = places.hole(a);
                if bytes > 0 {
                    self.lay_between((a, b, bytes), next);
                }
            }
            self.events.extend(of_file.iter().map(|piece| Event {
                ns: piece.ns,
                place: piece.turn,
                what: match piece.how {
                    How::Make => What::Make(piece.ino),
                    how => What::Modify(piece.ino, piece.to, how == How::Anew),
                },
            }));
        }
        for (a, b, bytes) in places.between(pieces) {
            self.tree.written_out.extend([a.key(), b.key()]);
            self.lay_between((&a, &b, bytes), next);
        }
        places.order();
    }

    /// A file that lay behind one piece when the other was written.
    fn lay_between(&mut self, (a, b, size): (&Piece, &Piece, u64), next: &State) {
        let dir = next.inodes.get(&a.ino).and_then(|i| i.names.first());
        let Some(&(dir, _)) = dir else { return };
        let laid = Laid {
            dir,
            made_ns: a.ns,
            gone_ns: b.ns.max(a.ns),
            size,
            there: false,
            written_out: true,
        };
        let made = a.turn + 1;
        self.lay(laid, (made, b.turn.max(made) + 1));
    }

    /// Gives deletions their times.
    fn removals(
        &mut self,
        before: &State,
        next: &State,
        removed: &[u64],
        (span, places): (Span, &Places),
    ) {
        let mut busy: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        let mut made: FxHashMap<u64, u64> = FxHashMap::default();
        for event in &self.events {
            if let What::Make(ino) | What::Modify(ino, ..) | What::Settle(ino) = event.what
                && let Some((dir, _)) = next.inodes.get(&ino).and_then(|i| i.names.first())
            {
                busy.entry(*dir).or_default().push(event.ns);
                if matches!(event.what, What::Make(_)) {
                    made.insert(ino, event.ns);
                }
            }
        }
        let range = (
            self.events
                .iter()
                .map(|e| e.ns)
                .min()
                .unwrap_or(span.begin_ns),
            self.events
                .iter()
                .map(|e| e.ns)
                .max()
                .unwrap_or(span.begin_ns + span.length_ns - 1),
        );
        let removals: Vec<Removal> = removed
            .iter()
            .filter_map(|&ino| {
                let inode = before.inodes.get(&ino)?;
                let dir = inode.names.first()?.0;
                let changed_ns = next.inodes.get(&dir).map(|d| d.mtime_ns);
                let changed_ns = changed_ns
                    .filter(|&ns| ns != 0 && span.holds(ns))
                    .map(|ns| span.map(ns));
                Some(Removal {
                    ino,
                    dir,
                    directory: inode.kind == FileType::Directory,
                    changed_ns,
                    kept_ns: places.kept_ns(inode),
                    reused_ns: places.reused_ns(inode),
                    replaced_ns: made.get(&ino).copied(),
                })
            })
            .collect();
        let habits = self
            .source
            .short
            .as_ref()
            .map(|s| s.habits)
            .unwrap_or_default();
        let times = remove_times(
            self.source.deletes,
            &removals,
            &busy,
            range,
            habits,
            &mut self.random,
        );
        // Before what is made at the same time.
        let events = times.into_iter().map(|(ino, ns)| Event {
            ns,
            place: 0,
            what: What::Remove(ino),
        });
        self.events.splice(0..0, events);
    }

    fn short_lived(&mut self, next: &State, span: Span) {
        let Some(short) = &self.source.short else {
            return;
        };
        let mut busy = Busy::default();
        for event in &self.events {
            if let What::Make(ino) | What::Modify(ino, ..) = event.what
                && let Some((dir, _)) = next.inodes.get(&ino).and_then(|i| i.names.first())
            {
                busy.note(*dir, event.ns);
            }
        }
        for day in span.day..span.last_day() {
            let laid = short.lay(day, self.source.profiles, &busy, &mut self.draws);
            for file in laid {
                self.lay(file, (0, 0));
            }
        }
    }

    /// A file that comes and goes.
    fn lay(&mut self, file: Laid, (made, gone): (u64, u64)) {
        let index = self.laid.len();
        self.laid.push(file);
        self.events.extend([
            Event {
                ns: file.made_ns,
                place: made,
                what: What::ShortMake(index),
            },
            Event {
                ns: file.gone_ns,
                place: gone,
                what: What::ShortRemove(index),
            },
        ]);
    }

    fn put(
        &mut self,
        what: What,
        next: &State,
        out: &mut Emitter<'_>,
    ) -> Result<(), GenerateError> {
        match what {
            What::Make(ino) => self.tree.make(ino, next, out),
            What::Modify(ino, to, anew) => self.tree.modify(ino, (to, anew), next, out),
            What::Settle(ino) => self.tree.settle(ino, next, out),
            What::Remove(ino) if self.tree.doomed.contains(&ino) && self.tree.is_empty(ino) => {
                self.tree.remove(ino, out)
            }
            What::Remove(_) => Ok(()),
            What::ShortMake(index) => {
                let Some(file) = self.laid.get_mut(index) else {
                    return Ok(());
                };
                if out.live_bytes() + blocks(file.size) > self.source.most_bytes {
                    out.leave_out("short-lived files for which there was no room", 1);
                    return Ok(());
                }
                if !self.tree.has(file.dir) || self.tree.doomed.contains(&file.dir) {
                    file.dir = ROOT;
                }
                file.there = true;
                let path = short_path(&self.tree, file, index);
                out.create(&path, file.size)?;
                if file.written_out {
                    out.fsync(&path)?;
                }
                Ok(())
            }
            What::ShortRemove(index) => match self.laid.get(index) {
                Some(file) if file.there => {
                    out.unlink(&short_path(&self.tree, file, index), file.size)
                }
                _ => Ok(()),
            },
        }
    }
}

/// Where nothing moved, it was written in place or added to; the last extent may have grown.
fn stayed(old: &Inode, now: &Inode) -> bool {
    !old.extents.is_empty()
        && now.extents.len() >= old.extents.len()
        && old.extents.iter().zip(&now.extents).all(|(a, b)| {
            (a.logical_bytes, a.physical_bytes) == (b.logical_bytes, b.physical_bytes)
                && a.length_bytes <= b.length_bytes
        })
}

fn short_path(tree: &AgedTree, file: &Laid, index: usize) -> Vec<u8> {
    let mut path = tree.path(file.dir);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(format!(".short-{index:x}").as_bytes());
    path
}

/// The time between two snapshots, real and simulated.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: i64,
    real_ns: u64,
    begin_ns: u64,
    length_ns: u64,
    day: u32,
    days: u32,
}

impl Span {
    fn new(before: &State, next: &State, day: u32, days: u32) -> Self {
        Self {
            from_ns: before.taken_ns as i64,
            real_ns: next.taken_ns.saturating_sub(before.taken_ns).max(1),
            begin_ns: u64::from(day) * DAY_NS,
            // The last minute is left for what takes its time.
            length_ns: u64::from(days) * DAY_NS - 60_000_000_000,
            day,
            days,
        }
    }

    fn last_day(self) -> u32 {
        self.day + self.days
    }

    fn holds(self, ns: i64) -> bool {
        let off = ns.saturating_sub(self.from_ns);
        off >= -SLACK_NS && off <= (self.real_ns as i64).saturating_add(SLACK_NS)
    }

    /// The simulated time of a real one; what lies outside comes to the nearer end.
    fn map(self, ns: i64) -> u64 {
        let off = ns
            .saturating_sub(self.from_ns)
            .clamp(0, self.real_ns as i64) as u128;
        let at = off * u128::from(self.length_ns) / u128::from(self.real_ns);
        self.begin_ns + at as u64
    }
}
