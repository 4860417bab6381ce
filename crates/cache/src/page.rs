//! The page cache: replacement and dirty pages.

mod history;
mod oldest;

use std::collections::VecDeque;
use std::hint::black_box;

use crate::list::{Links, List, NONE};
use crate::policy::{Policy, Start};
use crate::table::{Entry, PageTable};

const ACTIVE: u8 = 1;
const REFERENCED: u8 = 2;
/// Pages of a range that are looked at one by one: 16 MiB.
const SHORT_RANGE: u64 = 4096;
/// Brought in by read-ahead and not asked for yet.
const AHEAD: u8 = 4;

/// The state of a page before an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageState {
    /// Not in the cache.
    Absent,
    /// In the cache because of read-ahead; this is the first time that it is asked for.
    Ahead,
    /// In the cache and the same as on the device.
    Clean,
    /// Changed since it was written back; by the writer with this number.
    Dirty(u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    page: u64,
    file: u32,
    /// The page is dirty while this equals its file's epoch.
    dirty_epoch: u32,
    writer: u32,
    flags: u8,
}

/// A cache line: most files lie in one.
#[derive(Debug, Clone, Default)]
#[repr(align(64))]
struct File {
    table: PageTable,
    /// Grows when the file is written back; 0 is never a frame's.
    epoch: u32,
    dirty: u32,
    /// Runs of dirty pages that lie together, as long as none of them is cut off or evicted.
    runs: u32,
}

impl File {
    /// How many of a page's neighbours are dirty.
    fn dirty_beside(&self, page: u64, frames: &[Frame]) -> u32 {
        let dirty = |page| {
            matches!(self.table.get(page), Entry::Frame(frame)
                if frames.get(frame as usize).is_some_and(|f| f.dirty_epoch == self.epoch))
        };
        u32::from(page > 0 && dirty(page - 1)) + u32::from(dirty(page + 1))
    }

    /// The frames of pages from `first` to before `end`; a range may be much longer than what is held of it.
    fn held(&self, frames: &[Frame], (first, end): (u64, u64)) -> Vec<u32> {
        if end.saturating_sub(first) <= SHORT_RANGE {
            let frame = |page| match self.table.get(page) {
                Entry::Frame(frame) => Some(frame),
                _ => None,
            };
            return (first..end).filter_map(frame).collect();
        }
        let within = |&i: &u32| {
            let frame = frames.get(i as usize);
            frame.is_some_and(|f| (first..end).contains(&f.page))
        };
        self.table.frames().filter(within).collect()
    }
}

/// What the cache did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Pages asked for that were there.
    pub hits: u64,
    /// Pages asked for that were not; those that read-ahead had brought count here.
    pub misses: u64,
    /// Pages that became dirty.
    pub dirtied: u64,
    /// Dirty pages that were cut off before they were written back.
    pub cancelled: u64,
    /// Pages written back.
    pub written: u64,
    /// Times that a clean file became dirty.
    pub bursts: u64,
}

/// When dirty pages are written back without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBack {
    /// Age at which a file's dirty pages are due, in nanoseconds (`dirty_expire_centisecs`).
    pub expiry_ns: u64,
    /// How often the flusher looks, in nanoseconds (`dirty_writeback_centisecs`).
    pub interval_ns: u64,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self {
            expiry_ns: 30_000_000_000,
            interval_ns: 5_000_000_000,
        }
    }
}

/// Pages of files, which are dense numbers (`u32::MAX` is no file), under one policy. A touch is
/// O(1).
#[derive(Debug, Clone)]
pub struct PageCache {
    policy: Policy,
    start: Start,
    capacity: usize,
    write_back: WriteBack,
    files: Vec<File>,
    frames: Vec<Frame>,
    free: Vec<u32>,
    links: Links,
    /// Under [`Policy::Lru`] the only list.
    inactive: List,
    active: List,
    /// Evictions and activations so far: the kernel's `nonresident_age`.
    age: u32,
    evictions: u64,
    /// Files in the order in which they became dirty, with the epoch.
    due: VecDeque<(u64, u32, u32)>,
    counts: CacheCounts,
}

impl PageCache {
    /// A cache of at most `capacity_pages`; `None`: without a bound.
    pub fn new(
        policy: Policy,
        capacity_pages: Option<u64>,
        start: Start,
        write_back: WriteBack,
    ) -> Self {
        let most = u64::from(u32::MAX >> 1) - 2;
        Self {
            policy,
            start,
            capacity: capacity_pages.map_or(most, |c| c.clamp(1, most)) as usize,
            write_back,
            files: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            inactive: List::default(),
            active: List::default(),
            age: 0,
            evictions: 0,
            due: VecDeque::new(),
            counts: CacheCounts::default(),
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Pages held now.
    pub fn len(&self) -> usize {
        self.inactive.len() + self.active.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The state of a page, without using it.
    #[inline]
    pub fn peek(&self, file: u32, page: u64) -> PageState {
        let Some(known) = self.files.get(file as usize) else {
            return self.untouched();
        };
        match known.table.get(page) {
            Entry::Frame(frame) => match self.frames.get(frame as usize) {
                Some(f) if f.flags & AHEAD != 0 => PageState::Ahead,
                Some(f) if f.dirty_epoch == known.epoch => PageState::Dirty(f.writer),
                _ => PageState::Clean,
            },
            Entry::Evicted(_) => PageState::Absent,
            Entry::Never => self.untouched(),
        }
    }

    fn untouched(&self) -> PageState {
        if self.start == Start::Warm {
            PageState::Clean
        } else {
            PageState::Absent
        }
    }

    /// Touches what is known of a file's first pages, for who asks for them before long.
    #[inline]
    pub fn touch_ahead(&self, file: u32) {
        let Some(known) = self.files.get(file as usize) else {
            return;
        };
        for frame in known.table.near_frames() {
            black_box(self.frames.get(frame as usize).map(|f| f.flags));
        }
    }

    /// Reads a page: brings it in if it is not there. `again`: the access goes on in the page at
    /// which the last one of the same open file ended, which the kernel does not count as a use.
    /// Returns the state before.
    #[inline]
    pub fn read(&mut self, file: u32, page: u64, again: bool) -> PageState {
        let before = self.touch(file, page, again);
        match before {
            PageState::Absent | PageState::Ahead => self.counts.misses += 1,
            PageState::Clean | PageState::Dirty(_) => self.counts.hits += 1,
        }
        before
    }

    /// Writes to a page at `now_ns`: it becomes dirty by `writer`. Returns the state before; a page
    /// that a warm start did not touch yet is [`PageState::Clean`].
    #[inline]
    pub fn write(&mut self, file: u32, page: u64, writer: u32, now_ns: u64) -> PageState {
        let before = self.touch(file, page, false);
        let Some(known) = self.files.get_mut(file as usize) else {
            return before;
        };
        if let Entry::Frame(index) = known.table.get(page)
            && let Some(frame) = self.frames.get_mut(index as usize)
        {
            frame.writer = writer;
            if frame.dirty_epoch != known.epoch {
                frame.dirty_epoch = known.epoch;
                known.dirty += 1;
                let beside = known.dirty_beside(page, &self.frames);
                known.runs = (known.runs + 1).saturating_sub(beside);
                self.counts.dirtied += 1;
                if known.dirty == 1 {
                    self.counts.bursts += 1;
                    self.due.push_back((now_ns, file, known.epoch));
                }
            }
        }
        before
    }

    /// Brings a page in by read-ahead. Returns whether it was absent.
    pub fn prefetch(&mut self, file: u32, page: u64) -> bool {
        if self.peek(file, page) != PageState::Absent {
            return false;
        }
        self.insert(file, page, AHEAD);
        true
    }

    /// Dirty pages of a file.
    pub fn dirty_pages(&self, file: u32) -> u64 {
        self.files
            .get(file as usize)
            .map_or(0, |f| u64::from(f.dirty))
    }

    /// Runs of dirty pages of a file that lie together, at least one where any is dirty.
    pub fn dirty_runs(&self, file: u32) -> u64 {
        self.files
            .get(file as usize)
            .map_or(0, |f| u64::from(f.runs.clamp(f.dirty.min(1), f.dirty)))
    }

    /// Writes back the dirty pages of a file from `first` to before `end`; returns how many, and the first of them.
    pub fn clean_range(&mut self, file: u32, first: u64, end: u64) -> (u64, Option<u64>) {
        let (mut count, mut begin) = (0, None);
        let Some(known) = self.files.get_mut(file as usize) else {
            return (count, begin);
        };
        if known.dirty == 0 {
            return (count, begin);
        }
        for index in known.held(&self.frames, (first, end)) {
            if let Some(frame) = self.frames.get_mut(index as usize)
                && frame.dirty_epoch == known.epoch
            {
                let page = frame.page;
                frame.dirty_epoch = 0;
                known.dirty -= 1;
                known.runs =
                    (known.runs + known.dirty_beside(page, &self.frames)).saturating_sub(1);
                count += 1;
                begin = begin.or(Some(page));
            }
        }
        if known.dirty == 0 && count > 0 {
            (known.epoch, known.runs) = (next_epoch(known.epoch), 0);
        }
        self.counts.written += count;
        (count, begin)
    }

    /// Writes back all dirty pages of a file; returns how many.
    pub fn clean(&mut self, file: u32) -> u64 {
        let Some(known) = self.files.get_mut(file as usize) else {
            return 0;
        };
        let count = u64::from(known.dirty);
        if count > 0 {
            (known.dirty, known.runs) = (0, 0);
            known.epoch = next_epoch(known.epoch);
            self.counts.written += count;
        }
        count
    }

    /// Writes back the files whose dirty pages the flusher finds due at `now_ns`; hands each to
    /// `cleaned`. Returns the number of pages.
    #[inline]
    pub fn expire(&mut self, now_ns: u64, mut cleaned: impl FnMut(u32)) -> u64 {
        let mut pages = 0;
        while let Some(&(since, file, epoch)) = self.due.front() {
            let interval = self.write_back.interval_ns.max(1);
            let looked_at = now_ns - now_ns % interval;
            if since.saturating_add(self.write_back.expiry_ns) > looked_at {
                break;
            }
            self.due.pop_front();
            if self
                .files
                .get(file as usize)
                .is_some_and(|f| f.epoch == epoch && f.dirty > 0)
            {
                pages += self.clean(file);
                cleaned(file);
            }
        }
        pages
    }

    /// Writes everything back (`sync`); hands each file that was dirty to `cleaned`.
    pub fn clean_all(&mut self, mut cleaned: impl FnMut(u32)) -> u64 {
        let mut pages = 0;
        for (_, file, epoch) in std::mem::take(&mut self.due) {
            if self
                .files
                .get(file as usize)
                .is_some_and(|f| f.epoch == epoch && f.dirty > 0)
            {
                pages += self.clean(file);
                cleaned(file);
            }
        }
        pages
    }

    /// Drops the pages of a file from `first_page` on (truncation, removal); dirty ones need not be
    /// written any more.
    pub fn cut(&mut self, file: u32, first_page: u64) {
        let Some(known) = self.files.get_mut(file as usize) else {
            return;
        };
        let (frames, links) = (&mut self.frames, &mut self.links);
        let (active, inactive, free) = (&mut self.active, &mut self.inactive, &mut self.free);
        let (epoch, mut cancelled) = (known.epoch, 0);
        known.table.cut(first_page, |index| {
            let Some(frame) = frames.get_mut(index as usize) else {
                return;
            };
            if frame.dirty_epoch == epoch {
                cancelled += 1;
            }
            let list = if frame.flags & ACTIVE == 0 {
                &mut *inactive
            } else {
                &mut *active
            };
            list.remove(links, index);
            free.push(index);
        });
        known.dirty = known.dirty.saturating_sub(cancelled);
        self.counts.cancelled += u64::from(cancelled);
        known.runs = known.runs.min(known.dirty);
        if known.dirty == 0 && cancelled > 0 {
            known.epoch = next_epoch(known.epoch);
        }
    }

    /// Drops a file's clean pages from `first` to before `end` (`POSIX_FADV_DONTNEED`; dirty ones stay).
    pub fn drop_clean(&mut self, file: u32, (first, end): (u64, u64)) {
        let Some(known) = self.files.get(file as usize) else {
            return;
        };
        let mut clean = known.held(&self.frames, (first, end));
        clean.retain(|&i| {
            let frame = self.frames.get(i as usize);
            frame.is_some_and(|f| f.dirty_epoch != known.epoch)
        });
        for index in clean {
            self.release(index, false);
        }
    }

    /// Writes everything back and drops it, but for files that are `kept`; what was never touched is absent
    /// as well.
    pub fn make_cold(&mut self, kept: impl Fn(u32) -> bool) {
        self.clean_all(|_| ());
        for file in (0..self.files.len() as u32).filter(|&file| !kept(file)) {
            self.drop_clean(file, (0, u64::MAX));
        }
        self.start = Start::Cold;
    }

    /// Forgets a file altogether: its number may name another one from now on.
    pub fn forget(&mut self, file: u32) {
        self.cut(file, 0);
    }

    #[inline]
    fn touch(&mut self, file: u32, page: u64, again: bool) -> PageState {
        if file == NONE {
            return self.untouched();
        }
        let index = file as usize;
        if index >= self.files.len() {
            let fresh = File {
                epoch: 1,
                ..File::default()
            };
            self.files.resize((index + 1).next_power_of_two(), fresh);
        }
        let before = self.peek(file, page);
        let entry = self
            .files
            .get(index)
            .map_or(Entry::Never, |f| f.table.get(page));
        match entry {
            Entry::Frame(frame) => self.use_frame(frame, again),
            Entry::Never => self.insert(file, page, REFERENCED),
            Entry::Evicted(at) => {
                let soon = self.age.wrapping_sub(at) & (u32::MAX >> 1);
                let refault = self.policy == Policy::Linux && soon as usize <= self.active.len();
                if refault {
                    self.age = self.age.wrapping_add(1);
                }
                self.insert(file, page, if refault { ACTIVE } else { REFERENCED });
            }
        }
        before
    }

    /// The kernel's `folio_mark_accessed`, or a move to the front.
    #[inline]
    fn use_frame(&mut self, index: u32, again: bool) {
        let Some(frame) = self.frames.get_mut(index as usize) else {
            return;
        };
        let ahead = frame.flags & AHEAD != 0;
        frame.flags &= !AHEAD;
        match self.policy {
            Policy::Lru => {
                if self.inactive.front() != Some(index) {
                    self.inactive.remove(&mut self.links, index);
                    self.inactive.push_front(&mut self.links, index);
                }
            }
            Policy::Linux if again && !ahead => {}
            Policy::Linux if frame.flags & REFERENCED == 0 => frame.flags |= REFERENCED,
            Policy::Linux if frame.flags & ACTIVE == 0 => {
                frame.flags = (frame.flags | ACTIVE) & !REFERENCED;
                self.inactive.remove(&mut self.links, index);
                self.active.push_front(&mut self.links, index);
                self.age = self.age.wrapping_add(1);
            }
            Policy::Linux => {}
        }
    }

    fn insert(&mut self, file: u32, page: u64, flags: u8) {
        if file == NONE {
            return;
        }
        let index = file as usize;
        if index >= self.files.len() {
            let fresh = File {
                epoch: 1,
                ..File::default()
            };
            self.files.resize((index + 1).next_power_of_two(), fresh);
        }
        while self.len() >= self.capacity {
            self.reclaim();
        }
        let frame = Frame {
            page,
            file,
            dirty_epoch: 0,
            writer: 0,
            flags,
        };
        let slot = self.free.pop().unwrap_or(self.frames.len() as u32);
        match self.frames.get_mut(slot as usize) {
            Some(place) => *place = frame,
            None => self.frames.push(frame),
        }
        let list = if flags & ACTIVE == 0 {
            &mut self.inactive
        } else {
            &mut self.active
        };
        list.push_front(&mut self.links, slot);
        if let Some(known) = self.files.get_mut(index) {
            known.table.set(page, Entry::Frame(slot));
        }
    }

    /// Makes room for one page: `shrink_active_list` while the inactive list is the shorter one,
    /// then the oldest inactive page. Below 1 GiB the kernel keeps both equal; above, the inactive
    /// share falls with the square root of the size.
    fn reclaim(&mut self) {
        if self.policy == Policy::Linux {
            let gib = (self.len() >> 18) as u64;
            let ratio = if gib == 0 {
                1
            } else {
                (10 * gib).isqrt() as usize
            };
            while self.inactive.len().saturating_mul(ratio) < self.active.len() {
                let Some(index) = self.active.pop_back(&mut self.links) else {
                    break;
                };
                if let Some(frame) = self.frames.get_mut(index as usize) {
                    frame.flags &= !ACTIVE;
                }
                self.inactive.push_front(&mut self.links, index);
            }
        }
        let Some(victim) = self.inactive.pop_back(&mut self.links) else {
            if let Some(index) = self.active.pop_back(&mut self.links) {
                self.inactive.push_front(&mut self.links, index);
                if let Some(frame) = self.frames.get_mut(index as usize) {
                    frame.flags &= !ACTIVE;
                }
            }
            return;
        };
        self.inactive.push_front(&mut self.links, victim);
        self.release(victim, true);
        self.evictions += 1;
        if self
            .evictions
            .is_multiple_of((4 * self.capacity as u64).max(1 << 16))
        {
            self.files
                .iter_mut()
                .filter(|f| f.table.chunks() > 0)
                .for_each(|f| f.table.prune());
        }
    }

    /// Takes a frame out; `evicted`: it may come back, and the cache remembers when it went.
    fn release(&mut self, index: u32, evicted: bool) {
        let Some(frame) = self.frames.get(index as usize).copied() else {
            return;
        };
        let list = if frame.flags & ACTIVE == 0 {
            &mut self.inactive
        } else {
            &mut self.active
        };
        list.remove(&mut self.links, index);
        self.free.push(index);
        let mut age = self.age;
        if evicted {
            self.age = self.age.wrapping_add(1);
        } else {
            // What was dropped on demand leaves no shadow: it went longer ago than any cache holds.
            age = age.wrapping_sub(1 << 30);
        }
        if let Some(known) = self.files.get_mut(frame.file as usize) {
            if frame.dirty_epoch == known.epoch {
                known.dirty = known.dirty.saturating_sub(1);
                self.counts.written += 1;
            }
            known.table.set(frame.page, Entry::Evicted(age));
        }
    }
}

fn next_epoch(epoch: u32) -> u32 {
    epoch.checked_add(1).unwrap_or(1)
}
