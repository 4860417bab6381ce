//! Everything that an oracle is, and what the passing of time does to it.

use std::collections::VecDeque;

use fsage_cache::{LruSet, PageCache, Policy, Start, WriteBack};
use fsage_core::{Demand, Errno};

use crate::body::{PAGE, Pool};
use crate::device::{Device, Request};
use crate::inode::{Handles, INODES_OF_BLOCK, Inodes, ROOT};
use crate::journal::Journal;
use crate::truth::{self, Truth};

/// Where blocks of directories and of inodes lie: far from each other and from data.
pub(crate) const DIRECTORIES: u64 = 1 << 41;
pub(crate) const INODES: u64 = 1 << 42;
/// The file that blocks of inodes are cached as.
pub(crate) const INODE_FILE: u32 = 0;

/// Pages that a request brings and that others may ask for before it is done.
#[derive(Debug, Clone, Copy)]
struct Arriving {
    file: u32,
    first: u64,
    end: u64,
    number: u64,
}

/// What there is beside memory: the device, and what is cached of it.
#[derive(Debug)]
pub(crate) struct Disk {
    pub truth: truth::Disk,
    pub pages: PageCache,
    pub names: LruSet,
    pub inodes: LruSet,
    pub device: Device,
    pub journal: Journal,
    arriving: Vec<Arriving>,
    /// Files by when they became dirty.
    dirty: VecDeque<(u64, u32)>,
    /// When the next of them is due.
    flush_at_ns: u64,
    /// Pages that are known to have been written back.
    written: u64,
}

impl Disk {
    fn new(truth: truth::Disk) -> Self {
        let pages = truth.caches.pages_mib.saturating_mul((1 << 20) / PAGE);
        let unasked = WriteBack {
            expiry_ns: u64::MAX,
            interval_ns: 1,
        };
        Self {
            pages: PageCache::new(Policy::Linux, Some(pages), Start::Cold, unasked),
            names: LruSet::new(Some(truth.caches.names), Start::Cold),
            inodes: LruSet::new(Some(truth.caches.inodes), Start::Cold),
            device: Device::new(truth.device.clone()),
            journal: Journal::new(truth.journal.clone()),
            arriving: Vec::new(),
            dirty: VecDeque::new(),
            flush_at_ns: u64::MAX,
            written: 0,
            truth,
        }
    }

    /// Pages that wait to be written.
    fn dirty_pages(&self) -> u64 {
        let counts = self.pages.counts();
        counts
            .dirtied
            .saturating_sub(counts.cancelled + counts.written)
    }

    /// The end of the first flusher's turn at which what became dirty then is due.
    fn due_ns(&self, since_ns: u64) -> u64 {
        let due = since_ns.saturating_add(self.truth.write_back.expiry_ns);
        due.div_ceil(self.truth.write_back.interval_ns)
            .saturating_mul(self.truth.write_back.interval_ns)
    }

    fn note_next_due(&mut self) {
        let next = self.dirty.front().map(|&(since, _)| self.due_ns(since));
        self.flush_at_ns = next.unwrap_or(u64::MAX);
    }

    /// What was asked for is no work of cache pressure.
    pub(crate) fn note_written(&mut self) {
        self.written = self.pages.counts().written;
    }

    /// What cache pressure wrote takes the device's time; nobody waits for it.
    fn note_evicted(&mut self, now_ns: u64) {
        let written = self.pages.counts().written;
        let blocks = std::mem::replace(&mut self.written, written);
        let blocks = written - blocks.min(written);
        if blocks > 0 {
            let request = Request {
                write: true,
                block: 0,
                blocks,
                extra_ns: 0,
            };
            self.device.background(request, now_ns);
        }
    }

    /// Forgets what is cached, all of which is written.
    pub(crate) fn forget(&mut self) {
        let fresh = Self::new(self.truth.clone());
        (self.pages, self.names, self.inodes) = (fresh.pages, fresh.names, fresh.inodes);
        (self.flush_at_ns, self.written) = (u64::MAX, 0);
        self.arriving.clear();
        self.dirty.clear();
        self.device.forget_place();
    }
}

/// One oracle.
#[derive(Debug)]
pub(crate) struct State {
    pub truth: Truth,
    /// Where paths of the present call begin.
    pub root: u32,
    pub now_ns: u64,
    /// How much of it calls have waited for the device.
    pub waited_ns: u64,
    /// Whether demands are collected and not served.
    pub collecting: bool,
    pub demands: Vec<Demand>,
    pub inodes: Inodes,
    pub handles: Handles,
    pub pool: Pool,
    pub disk: Option<Disk>,
    /// Names known to the name cache so far, and those free to be used again.
    pub name_ids: u32,
    pub free_name_ids: Vec<u32>,
    pub used_blocks: u64,
    pub next_block: u64,
}

impl State {
    pub(crate) fn new(truth: Truth) -> Self {
        Self {
            disk: truth.disk.clone().map(Disk::new),
            truth,
            root: ROOT,
            now_ns: 0,
            waited_ns: 0,
            collecting: false,
            demands: Vec::new(),
            inodes: Inodes::new(),
            handles: Handles::default(),
            pool: Pool::default(),
            name_ids: 0,
            free_name_ids: Vec::new(),
            used_blocks: 0,
            // What a file holds is told to lie at 0 where that is not known yet: the first block is no file's.
            next_block: 1,
        }
    }

    /// Uses a processor.
    pub(crate) fn cpu(&mut self, ns: u64) {
        if !self.collecting {
            self.now_ns = self.now_ns.saturating_add(ns);
        } else if let Some(Demand::Compute(last)) = self.demands.last_mut() {
            *last = last.saturating_add(ns);
        } else {
            self.demands.push(Demand::Compute(ns));
        }
    }

    /// Waits for a request.
    pub(crate) fn wait(&mut self, number: u64) {
        if self.collecting {
            self.demands.push(Demand::Serve(number));
        } else if let Some(disk) = &mut self.disk {
            let end_ns = disk.device.serve(number, self.now_ns);
            self.waited_ns += end_ns - self.now_ns;
            self.now_ns = end_ns;
        }
    }

    /// Asks the device and waits.
    pub(crate) fn request(&mut self, request: Request) {
        if let Some(disk) = &mut self.disk {
            let number = disk.device.ask(request);
            self.wait(number);
        }
    }

    /// Enters a call: what is due by now happens before.
    pub(crate) fn enter(&mut self) {
        self.pass();
        self.cpu(self.truth.machine.entry_exit_ns);
    }

    /// What is due by now happens.
    pub(crate) fn pass(&mut self) {
        // At the end of time nothing becomes due that is to happen never.
        let now_ns = self.now_ns.min(u64::MAX - 1);
        while let Some(disk) = &mut self.disk {
            if disk.journal.due_ns <= now_ns && disk.journal.due_ns <= disk.flush_at_ns {
                disk.commit_due(now_ns);
            } else if disk.flush_at_ns <= now_ns {
                let at_ns = disk.flush_at_ns;
                if let Some((since, file)) = disk.dirty.pop_front() {
                    let request = self.write_back(file, Some(since));
                    if let (Some(request), Some(disk)) = (request, &mut self.disk) {
                        disk.device.background(request, at_ns);
                    }
                }
                if let Some(disk) = &mut self.disk {
                    disk.note_next_due();
                }
            } else {
                return;
            }
        }
    }

    /// The request that writes a file's dirty pages, which are clean from now on. `since`: only if that
    /// is when it became dirty.
    pub(crate) fn write_back(&mut self, file: u32, since_ns: Option<u64>) -> Option<Request> {
        let disk = self.disk.as_mut()?;
        let inode = self.inodes.get(file).ok()?;
        if since_ns.is_some_and(|since| since != inode.dirty_since_ns) {
            return None;
        }
        let blocks = disk.pages.clean(file);
        disk.note_written();
        let from = inode.dirty_from;
        let block = inode.body().ok()?.block(from);
        (blocks > 0).then_some(Request {
            write: true,
            block: block.unwrap_or(0),
            blocks,
            extra_ns: 0,
        })
    }

    /// Writes a file's dirty pages and waits; says whether there were any.
    pub(crate) fn write_back_and_wait(&mut self, file: u32) -> bool {
        let request = self.write_back(file, None);
        request.map(|r| self.request(r)).is_some()
    }

    /// Brings a page into the cache and says whether it was absent; waits if it is on its way.
    pub(crate) fn touch_page(&mut self, file: u32, page: u64, again: bool) -> bool {
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else {
            return false;
        };
        let absent = disk.pages.read(file, page, again) == fsage_cache::PageState::Absent;
        if absent {
            disk.note_evicted(now_ns);
        } else if !disk.arriving.is_empty() {
            let device = &disk.device;
            disk.arriving.retain(|a| !device.done(a.number, now_ns));
            let on_its_way = |a: &&Arriving| a.file == file && (a.first..a.end).contains(&page);
            if let Some(number) = disk.arriving.iter().find(on_its_way).map(|a| a.number) {
                self.wait(number);
            }
        }
        absent
    }

    /// Makes a page dirty and says what it was before.
    pub(crate) fn dirty_page(
        &mut self,
        file: u32,
        page: u64,
    ) -> Result<fsage_cache::PageState, Errno> {
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else {
            return Ok(fsage_cache::PageState::Clean);
        };
        let first = disk.pages.dirty_pages(file) == 0;
        let before = disk.pages.write(file, page, 0, now_ns);
        let inode = self.inodes.get(file)?;
        if first {
            (inode.dirty_since_ns, inode.dirty_from) = (now_ns, page);
            disk.dirty.push_back((now_ns, file));
            if disk.flush_at_ns == u64::MAX {
                disk.note_next_due();
            }
        }
        inode.dirty_from = inode.dirty_from.min(page);
        disk.note_evicted(now_ns);
        Ok(before)
    }

    /// Waits for the oldest dirty files to be written while more is dirty than may be.
    pub(crate) fn throttle(&mut self) {
        while let Some(disk) = &mut self.disk {
            let most = disk.truth.write_back.limit_mib * ((1 << 20) / PAGE);
            if disk.dirty_pages() <= most {
                return;
            }
            let Some((since, file)) = disk.dirty.pop_front() else {
                return;
            };
            disk.note_next_due();
            if let Some(request) = self.write_back(file, Some(since)) {
                self.request(request);
            }
        }
    }

    /// Writes everything and waits.
    pub(crate) fn sync_all(&mut self) {
        while let Some((since, file)) = self.disk.as_mut().and_then(|d| d.dirty.pop_front()) {
            if let Some(request) = self.write_back(file, Some(since)) {
                self.request(request);
            }
        }
        if let Some(disk) = &mut self.disk {
            disk.note_next_due();
            let (running, idle) = (disk.journal.running, disk.journal.due_ns == u64::MAX);
            self.commit(if idle { running - 1 } else { running });
        }
    }

    /// Reads blocks that lie together, for pages that were just brought into the cache; `wait`: until they
    /// are there, and nobody else gets them before.
    pub(crate) fn read_blocks(
        &mut self,
        file: u32,
        (first, end): (u64, u64),
        block: u64,
        wait: bool,
    ) {
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else { return };
        let request = Request {
            write: false,
            block,
            blocks: end - first,
            extra_ns: 0,
        };
        let number = if wait {
            disk.device.ask(request)
        } else {
            disk.device.background(request, now_ns)
        };
        if self.collecting || !wait {
            disk.arriving.push(Arriving {
                file,
                first,
                end,
                number,
            });
        }
        if wait {
            self.wait(number);
        }
    }

    /// Brings a block of metadata into the cache; a `new` one has nothing that must be read.
    pub(crate) fn touch_block(&mut self, file: u32, page: u64, block: u64, new: bool) {
        if self.touch_page(file, page, false) && !new {
            self.read_blocks(file, (page, page + 1), block, true);
        }
    }

    /// Notes that an inode changes; `needed`: so that its data cannot be found without.
    pub(crate) fn change_inode(&mut self, ino: u32, needed: bool) {
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else { return };
        let block = INODES + u64::from(ino / INODES_OF_BLOCK);
        let transaction = disk.journal.change(block, now_ns);
        if let Ok(inode) = self.inodes.get(ino) {
            inode.changed_in = transaction;
            if needed {
                inode.needed_in = transaction;
            }
        }
    }

    /// Waits until the device has made what it holds stable.
    pub(crate) fn flush(&mut self, flush_ns: u64) {
        self.request(Request {
            write: true,
            block: 0,
            blocks: 0,
            extra_ns: flush_ns,
        });
    }
}
