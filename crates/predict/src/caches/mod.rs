//! Stage 2: what the caches hold, and so what an operation needs of the system.
//!
//! A [`View`] is one system's caches under one policy and start; targets whose caches are equally
//! large share it. For each resolved operation it updates names, attributes, pages and pending
//! metadata, asks stage 3 about disk-bound requests, and emits [`Charge`]s. The rules of lookups,
//! data, removal and synchronisation have a module each; [`rules`] is the table of kinds.

mod ahead;
mod asks;
mod commits;
mod copies;
mod data;
mod dirty;
mod first;
mod found;
mod grown;
mod inodes;
mod listing;
pub(crate) mod lookup;
mod mapped;
mod moved;
mod partial;
mod places;
mod recent;
mod removal;
mod room;
pub mod rules;
pub(crate) mod sync;

pub(crate) use ahead::Requested;
use copies::Copies;
use dirty::Dirty;
pub use dirty::Throttle;
use grown::Grown;
use inodes::{Inodes, Place};
use listing::Listings;
pub use lookup::HitCount;
use lookup::OldNames;
pub use mapped::FaultPages;
use mapped::{FaultsSeen, Mapped};
use moved::Moved;
use places::Answers;
use recent::{Recent, Touched};
use removal::Rows;
use room::Rooms;
pub(crate) use rules::Passing;
use sync::LastSync;

use std::hint::black_box;

use fsage_cache::{LruSet, PageCache, Policy, Start, WriteBack};
use fsage_core::{KindClass, Op, OpFlags, OpKind, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::arm::Asks;
use crate::cost::{Charge, FileSystemName, Gap, GapTable, Stem};
use crate::drive::{Figures, Request};
use crate::namespace::tree::{DentryId, Ino, NodeKind};
use crate::namespace::{Action, Namespace, Resolved};
use crate::paces::Paces;
use crate::pattern::{Relation, Stream, Tracker, Untouched};

/// Sizes of caches; `None`: without a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sizes {
    /// Pages of the page cache (BC).
    pub pages: Option<u64>,
    /// Entries of the name cache (DNLC).
    pub names: Option<u64>,
    /// Entries of the attribute cache (MDC).
    pub attributes: Option<u64>,
    /// Largest read-ahead in pages (RAW).
    pub read_ahead: u64,
    /// Whether a file's first lookup is charged by its place on disk even if its directory's block is
    /// cached. The thesis's rule (6.1.3.4) holds such a lookup to be cached; systems for which the
    /// lookups by creation order were measured are charged by those.
    pub locality: bool,
    /// Whether there is no device from which anything could be missing.
    pub deviceless: bool,
    /// The drive, where an arm has to move.
    pub drive: Option<Figures>,
    /// Whether an arm has to move on a drive that reads nothing ahead by itself.
    pub arm_alone: bool,
    /// Whether the first read of the file that was made next is what an answer from a drive's memory takes.
    pub beside_is_held: bool,
    /// What puts files on the device.
    pub file_system: FileSystemName,
    /// The farthest distance of the series RX that was measured, which stands for all beyond.
    pub far_kib: u64,
    /// How far what is near is at most, in KiB, where the series RX does not tell (RXB).
    pub near_kib: Option<u64>,
    /// Whether small files' data comes with their inodes.
    pub inline: bool,
    /// Where writers are throttled.
    pub throttle: Option<Throttle>,
    /// How many changes of names fit before each waits for room, and for so long, in nanoseconds (MTH, MTW).
    pub room_changes: Option<(u64, u64)>,
    /// Dirty files beside which nothing is written back for want of room, and nanoseconds that one more costs from then on.
    pub room_files: Option<(u64, u64)>,
    /// Whether the first write after a cold start reads maps of what is free (WFC).
    pub reads_maps: bool,
    /// How many blocks apart from each other can be dirty before a write waits until all are written (BTH).
    pub room_blocks: Option<u64>,
    /// What the device writes in a second, roughly: a power of two.
    pub write_kib_per_s: u64,
    /// Whether the device has to get to places.
    pub seeks: bool,
    /// What it takes to write at one more place, roughly: a power of two of nanoseconds; 0: unknown.
    pub place_ns: u64,
    /// How many KiB of what a `sync` writes of one file, and of each other, can have a part in what it costs.
    pub synced_kib: (u16, u16),
    /// Whether what was truncated and written again is written when it is closed.
    pub writes_closed: bool,
    /// Whether copies share the blocks of what they are copies of.
    pub shares_blocks: bool,
    /// Whether what reads from the device cost after pauses was measured.
    pub reads_paused: bool,
    /// Whether directories' blocks lie apart, so that each lookup in another one has got to its own.
    pub directories_apart: bool,
    /// How far apart on the device directories made one after another put their files, in bytes, and among how many
    /// places they take turns, where that is far and there are several.
    pub directories_in_turn: Option<(u64, u64)>,
    /// Whether a listing of a cold directory asks for blocks of its own.
    pub lists_blocks: bool,
    /// In how many of these, from the first on, commits were measured: the journal is nearer to some.
    pub commit_places: u64,
    /// Whether inodes that were freed a short while ago are passed over, which takes time.
    pub passes_freed: bool,
    /// Whether lookups in the order of creation cost more on average than those of inodes that are there: some of
    /// them bring what the others find.
    pub stretches: bool,
    /// How much a fault maps at most.
    pub fault_pages: FaultPages,
    /// Names that a block of a directory holds; 0 where nothing tells, and one block is all.
    pub names_of_block: u32,
}

/// What a file's next fsync will find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FileState {
    /// Its inode was read since the start.
    seen: bool,
    /// Created, extended, by whole pages too, written where blocks were reserved or in a hole, renamed, changed otherwise
    /// since it was last made stable.
    created: bool,
    extended: bool,
    /// Its size on the device, where it was extended since.
    disk_size: u64,
    grown: bool,
    reserved: bool,
    /// Writes that found no space for what they hold, each elsewhere than the one before it.
    places: u32,
    renamed: bool,
    changed: bool,
    /// A directory in which a name was removed, made.
    removed_in: bool,
    made_in: bool,
    /// After how many syncs of everything it was last a directory that was made, or whose names changed.
    in_turn: u32,
    /// Writing of what was dirty was started; when, where a close started it, or 0.
    started: bool,
    closed_ns: u64,
    /// Where the last write ended, and how far from there one since the last fsync began at most, where it did not go on.
    end_at: u64,
    elsewhere: u64,
    /// Between which bytes all writes since the last fsync were, where there was one.
    within: Option<(u64, u64)>,
    /// Commits before its metadata changed last.
    changed_after: u32,
    /// How many pages came together with the last ones, as a power of two.
    together: u8,
    /// Its place in the order in which inodes came into memory; 0: unknown.
    came: u32,
    /// Where its inode was placed, if it was made since the start.
    place: Option<Place>,
}

impl FileState {
    /// Nothing waits to be made stable.
    fn stable(self) -> Self {
        Self {
            seen: self.seen,
            closed_ns: self.closed_ns,
            end_at: self.end_at,
            together: self.together,
            came: self.came,
            place: self.place,
            in_turn: self.in_turn,
            ..Self::default()
        }
    }
}

/// The caches of one system.
#[derive(Debug, Clone)]
pub struct View {
    sizes: Sizes,
    /// Pages.
    pub pages: PageCache,
    names: LruSet,
    attributes: LruSet,
    /// Hits of the name cache.
    pub name_hits: HitCount,
    /// Hits of the attribute cache.
    pub attribute_hits: HitCount,
    /// By prefix: the epoch in which all of its lookups hit.
    hot: Vec<u64>,
    epoch: u64,
    prefix_epoch: u32,
    last_dir: Ino,
    files: Vec<FileState>,
    streams: Vec<Stream>,
    last_data: Tracker,
    /// Whose request that was.
    last_reader: Option<Tid>,
    last_meta: Tracker,
    last_sync: FxHashMap<Tid, LastSync>,
    /// Stretches of files in creation order of which an inode was read.
    inodes_there: FxHashSet<u64>,
    /// The stretch after the one that was read last, unless the arm has left it.
    next_stretch: Option<u64>,
    old_names: FxHashMap<u32, OldNames>,
    /// The file whose inode a lookup has just brought, and how many came so far.
    brought: Ino,
    came: u32,
    drive: Option<Paces>,
    /// How long the traced one took.
    answers: Answers,
    /// What the last operation asked of it.
    pub(crate) request: Option<Request>,
    pub(crate) requested: Requested,
    /// Whether it gives its processor to others before it ends.
    pub(crate) gives_way: bool,
    /// The same one by one, where an arm moves and nothing is held, and pages of it that are yet to be asked for.
    pub(crate) asks: Asks,
    missed: Vec<u64>,
    /// Whether blocks of metadata were read since the last data, where that moves the arm.
    arm_away: bool,
    /// Whether the arm of a device was taken to what was committed, and no read has brought it back.
    arm_commits: bool,
    listings: Listings,
    copies: Copies,
    inodes: Inodes,
    /// Directories' places among all in the order of creation, once they were asked for.
    directories: FxHashMap<u32, u64>,
    /// Where files lie whose directories take turns among places, once one was asked for.
    laid_out: FxHashMap<u32, u64>,
    /// The same of inodes.
    inodes_laid_out: FxHashMap<u32, u64>,
    grown: Grown,
    /// By thread: when it last asked a directory for a name that it did not remember.
    last_search: FxHashMap<Tid, u64>,
    gaps: GapTable,
    /// Creation order of the file touched last and its place in the order in which they came; and whether the
    /// present one was touched recently.
    last_object: Option<(u64, u32)>,
    untouched: Untouched,
    dirty: Dirty,
    rooms: Rooms,
    /// KiB whose writing was started and that the device had to write at a time.
    flying: (f64, u64),
    /// Places that direct writes left in the drive's own cache at a time: the next flush gets to each.
    held_places: (f64, u64),
    last_direct: Ino,
    /// Commits so far, each of all that had changed.
    commits: u32,
    /// Calls of a kind one after another.
    rows: Rows,
    /// Directories that were made and are there, since the last sync of all.
    new_directories: u32,
    /// Others whose names changed since, and how many such syncs there were, and one.
    old_directories: u32,
    turn: u32,
    /// Ranges of files that have room and hold no data.
    reserved: FxHashMap<u32, Vec<(u64, u64)>>,
    mapped: FxHashMap<u32, Mapped>,
    faults_seen: FaultsSeen,
    allocated: first::Allocated,
    cold_start: bool,
    recent: Recent,
    moved: Moved,
    relation: Relation,
    /// Pages that operations to come may touch beside each its own.
    page_credit: u64,
    /// Pages that were taken to be like the others of their operation.
    pub pages_not_followed: u64,
}

pub(crate) const PAGE_KIB: f64 = (fsage_cache::PAGE_BYTES / 1024) as f64;

/// Pages of each operation that are followed one by one, and of all operations together beside these: 4 MiB and
/// 4 GiB. So time and memory stay in proportion to the trace, whatever lengths stand in it.
const PAGES_OF_OPERATION: u64 = 1 << 10;
const PAGE_CREDIT: u64 = 1 << 20;

impl View {
    /// Empty (or, under a warm start, full) caches.
    pub fn new(sizes: Sizes, policy: Policy, start: Start, write_back: WriteBack) -> Self {
        let start = if sizes.deviceless { Start::Warm } else { start };
        Self {
            sizes,
            pages: PageCache::new(policy, sizes.pages, start, write_back),
            names: LruSet::new(sizes.names, start),
            attributes: LruSet::new(sizes.attributes, start),
            name_hits: HitCount::default(),
            attribute_hits: HitCount::default(),
            hot: Vec::new(),
            epoch: 1,
            prefix_epoch: 0,
            last_dir: Ino::NONE,
            files: Vec::new(),
            streams: Vec::new(),
            last_data: Tracker::default(),
            last_reader: None,
            last_meta: Tracker::default(),
            last_sync: FxHashMap::default(),
            last_search: FxHashMap::default(),
            gaps: GapTable::default(),
            last_object: None,
            untouched: Untouched::No,
            dirty: Dirty::default(),
            rooms: Rooms::default(),
            flying: (0.0, 0),
            held_places: (0.0, 0),
            last_direct: Ino::NONE,
            commits: 0,
            rows: Rows::default(),
            new_directories: 0,
            old_directories: 0,
            turn: 1,
            reserved: FxHashMap::default(),
            mapped: FxHashMap::default(),
            faults_seen: FaultsSeen::default(),
            inodes_there: FxHashSet::default(),
            next_stretch: None,
            old_names: FxHashMap::default(),
            brought: Ino::NONE,
            came: 0,
            drive: sizes.drive.map(Paces::new),
            answers: Answers::default(),
            request: None,
            requested: Requested::default(),
            gives_way: false,
            asks: Asks::default(),
            missed: Vec::new(),
            arm_away: false,
            arm_commits: false,
            listings: Listings::default(),
            copies: Copies::default(),
            inodes: Inodes::default(),
            directories: FxHashMap::default(),
            laid_out: FxHashMap::default(),
            inodes_laid_out: FxHashMap::default(),
            grown: Grown::default(),
            allocated: first::Allocated::default(),
            cold_start: start == Start::Cold,
            recent: Recent::default(),
            moved: Moved::default(),
            relation: Relation::Cached,
            page_credit: PAGE_CREDIT,
            pages_not_followed: 0,
        }
    }

    /// How many of an operation's pages, from the first, are followed; the rest is taken to be like them.
    fn followed(&mut self, pages: u64) -> u64 {
        let followed = pages.min(PAGES_OF_OPERATION + self.page_credit);
        self.page_credit -= followed.saturating_sub(PAGES_OF_OPERATION);
        self.pages_not_followed += pages - followed;
        followed
    }

    /// Touches what is known of a file that will be asked for by that name.
    #[inline]
    pub fn touch_ahead(&self, name: DentryId, ino: Ino) {
        black_box(self.names.contains(name.0));
        if !ino.is_some() {
            return;
        }
        black_box(self.attributes.contains(ino.0));
        let state = self.files.get(ino.0 as usize + 1);
        black_box(state.map(|state| (state.seen, state.closed_ns, state.came)));
        black_box(self.pages.dirty_pages(ino.0));
        self.recent.touch_ahead(ino.0 as usize + 1);
    }

    /// Touches what is let go of before long.
    pub fn touch_oldest(&self) {
        self.recent.touch_oldest();
    }

    /// The sizes it was made with.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The relation of the last operation's disk-bound part.
    pub fn relation(&self) -> Relation {
        self.relation
    }

    /// Takes one operation; what it needs is appended to `charges`. Effects of operations outside of
    /// the traced file system are not followed.
    #[inline]
    pub fn apply(
        &mut self,
        op: &Op,
        resolved: &Resolved,
        ns: &Namespace,
        gap: Gap,
        charges: &mut Vec<Charge>,
    ) {
        self.relation = Relation::Cached;
        self.request = None;
        self.requested = Requested::default();
        self.gives_way = false;
        self.asks.clear();
        self.brought = Ino::NONE;
        if op.record.contains(OpFlags::COLD_DATA) && !self.sizes.deviceless {
            self.make_cold(ns, op.record.contains(OpFlags::COLD_NAMES));
        }
        let step = Passing {
            op,
            resolved,
            ns,
            gap,
        };
        if matches!(op.kind, OpKind::Exec | OpKind::Exit) {
            self.listings.another_program(op.pid.0);
        }
        for &ino in &resolved.rewritten {
            self.close_truncated(&step, ino, charges);
        }
        if resolved.charged {
            let states = &mut self.files;
            self.pages.expire(op.start_ns, |file| {
                if let Some(state) = states.get_mut(file as usize + 1) {
                    *state = state.stable();
                }
            });
            self.take_listed(&step);
            for walk in resolved.walks.iter().flatten() {
                self.look_up(&step, walk, charges);
            }
            self.object(&step, charges);
            let before = charges.len();
            self.call(&step, charges);
            if op.kind.class() == KindClass::Sync {
                self.arm_syncs(&step, charges.get(before..).unwrap_or_default());
            }
        }
        for &ino in &resolved.freed {
            self.frees(ino, op.end_ns());
            self.forget(ino);
        }
    }

    /// Nothing is dirty, and no data is cached, nor, with `names`, anything else.
    #[cold]
    fn make_cold(&mut self, ns: &Namespace, names: bool) {
        let is_dir = |file| {
            let inode = ns.tree.inode(Ino(file));
            inode.is_some_and(|inode| inode.kind == NodeKind::Directory)
        };
        self.pages.make_cold(|file| !names && is_dir(file));
        for state in &mut self.files {
            *state = FileState {
                seen: state.seen && !names,
                came: if names { 0 } else { state.came },
                place: state.place,
                ..FileState::default()
            };
        }
        self.dirty = Dirty::default();
        self.rooms.leaves();
        self.held_places = (0.0, 0);
        self.drive = self.sizes.drive.map(Paces::new);
        self.last_sync.clear();
        self.last_data = Tracker::default();
        if names {
            self.names.make_cold();
            self.attributes.make_cold();
            self.epoch += 1;
            self.last_meta = Tracker::default();
            self.directories.clear();
            self.inodes_there.clear();
            self.next_stretch = None;
            self.old_names.clear();
            self.allocated = first::Allocated::default();
            self.inodes.make_cold();
            self.cold_start = true;
        }
    }

    /// A file that the processor's caches do not hold costs more, once, whatever the call. Calls that
    /// were measured over thousands of files have it in their costs.
    #[inline]
    fn object(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        self.untouched = Untouched::No;
        let Some(ino) = step.resolved.node else {
            return;
        };
        let index = if ino.is_some() { ino.0 as usize + 1 } else { 0 };
        let came = self.state(ino).came;
        let inode = step.ns.tree.inode(ino);
        let before = std::mem::replace(&mut self.last_object, inode.map(|i| (i.order, came)));
        let touched = self
            .recent
            .touch(index, step.op.bytes_moved(), step.ns.tree.size(ino));
        // A lookup that has brought it left it in the caches.
        if touched == Touched::Recently || (ino.is_some() && self.brought == ino) {
            return;
        }
        let both = before.zip(self.last_object);
        let apart = both.map_or(u64::MAX, |(one, other)| apart(one, other));
        self.untouched = match touched {
            Touched::AWhileAgo => Untouched::AWhileAgo,
            _ if apart <= BESIDE => Untouched::Beside,
            _ => Untouched::Far,
        };
        let stem = match (step.resolved.action, self.untouched) {
            (Action::Unlink { .. }, _) if apart <= TOGETHER => return,
            (Action::Unlink { .. }, _) => Stem::ObjU,
            (action, _) if !rules::excludes_object(step.op.kind, action) => return,
            (_, Untouched::Beside) => Stem::ObjN,
            (_, Untouched::AWhileAgo) => Stem::ObjR,
            _ => Stem::Obj,
        };
        charges.push(Charge::once(stem, Gap::NONE));
    }

    /// An inode comes into memory.
    fn comes(&mut self, ino: Ino) {
        self.came += 1;
        self.state(ino).came = self.came;
    }

    /// The pause since the same thread last asked a directory for a name: that code is cold even in a
    /// thread whose other calls are not.
    fn search_gap(&mut self, op: &Op) -> Gap {
        match self.last_search.insert(op.tid, op.end_ns()) {
            Some(before) => self.gaps.at(op.start_ns.saturating_sub(before)),
            None => Gap::LONGEST,
        }
    }

    fn forget(&mut self, ino: Ino) {
        let dirty = self.pages.dirty_pages(ino.0);
        self.dirty.less_of(ino, dirty, 0);
        self.pages.forget(ino.0);
        self.rooms.cut(ino, 0);
        self.attributes.remove(ino.0);
        self.reserved.remove(&ino.0);
        self.mapped.remove(&ino.0);
        self.listings.forget(ino);
        self.copies.forget(ino);
        if let Some(state) = self.files.get_mut((ino.0 as usize).wrapping_add(1)) {
            *state = FileState::default();
        }
    }

    #[inline]
    fn state(&mut self, ino: Ino) -> &mut FileState {
        // What no file is shares one place, which nobody reads.
        let index = if ino.is_some() { ino.0 as usize + 1 } else { 0 };
        if index >= self.files.len() {
            self.files
                .resize((index + 1).next_power_of_two(), FileState::default());
        }
        &mut self.files[index]
    }

    /// The state of a file whose metadata changes.
    #[inline]
    fn changing(&mut self, ino: Ino) -> &mut FileState {
        self.inode_changes(ino);
        let commits = self.commits;
        let state = self.state(ino);
        state.changed_after = commits;
        state
    }
}

/// Files at most so far apart in the order in which they came lie beside each other in memory, and at most so far
/// in the same few pages.
const BESIDE: u64 = 4;
const TOGETHER: u64 = 256;

/// How far apart two files came into memory or, where that is not known, were created.
fn apart(one: (u64, u32), other: (u64, u32)) -> u64 {
    if one.1 > 0 && other.1 > 0 {
        u64::from(one.1.abs_diff(other.1))
    } else {
        one.0.abs_diff(other.0)
    }
}
