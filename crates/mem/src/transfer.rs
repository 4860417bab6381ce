//! Reads, writes, cuts and faults: what hits the page cache and what waits for the device.

use fsage_cache::PageState;
use fsage_core::{Errno, Handle, RangeSync};

use crate::body::PAGE;
use crate::device::Request;
use crate::state::State;

/// The largest file, as the kernel's for 4 KiB pages.
const MOST_BYTES: u64 = i64::MAX as u64;

/// What a number of bytes costs at so much for each KiB.
fn by_kib(bytes: u64, kib_ns: u64) -> u64 {
    (u128::from(bytes) * u128::from(kib_ns) / 1024) as u64
}

impl State {
    /// A handle's position is that byte from now on.
    pub(crate) fn moves(&mut self, handle: Handle, to: u64) -> Result<u64, Errno> {
        self.handles.get(handle.0)?.position = to;
        Ok(to)
    }

    /// Reads through an open file at `offset`.
    pub(crate) fn read(
        &mut self,
        handle: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        let open = self.handles.get(handle)?;
        let (ino, direct) = (open.ino, open.flags.direct);
        if !open.flags.read {
            return Err(Errno::EBADF);
        }
        let size = self.inodes.get(ino)?.body()?.size_bytes;
        let bytes = size.saturating_sub(offset).min(out.len() as u64);
        if bytes == 0 {
            self.cpu(self.truth.data.read_end_ns);
            return Ok(0);
        }
        let data = &self.truth.data;
        let cost_ns = data.read_ns + by_kib(bytes, data.read_kib_ns);
        self.cpu(cost_ns);
        let (first, last) = (offset / PAGE, (offset + bytes - 1) / PAGE);
        if self.disk.is_some() {
            if direct {
                self.write_back_and_wait(ino);
                self.read_runs(ino, (first, last + 1), true)?;
            } else {
                self.read_pages(handle, ino, first, last)?;
            }
        }
        if let Some(out) = out.get_mut(..bytes as usize) {
            self.inodes.get(ino)?.body()?.read(offset, out);
        }
        Ok(bytes as usize)
    }

    /// Brings pages into the cache, and those that the reader is expected to ask for next.
    fn read_pages(&mut self, handle: u64, ino: u32, first: u64, last: u64) -> Result<(), Errno> {
        let mut stream = self.handles.get(handle)?.stream;
        let mut missed = Vec::new();
        for page in first..=last {
            let again = page == first && stream.goes_on_in(page);
            if self.touch_page(ino, page, again) {
                self.cpu(self.truth.data.new_page_ns);
                missed.push(page);
            }
        }
        let most = self
            .disk
            .as_ref()
            .map_or(0, |d| d.truth.read_ahead.most_kib / 4);
        let pages = self.disk.as_ref().map(|d| &d.pages);
        let history = || pages.map_or(0, |pages| pages.history(ino, first, most));
        let (from, to) = stream.read((first, last), !missed.is_empty(), most, history);
        self.handles.get(handle)?.stream = stream;
        let end = self.inodes.get(ino)?.body()?.size_bytes.div_ceil(PAGE);
        let waits = missed.len();
        for page in from..to.min(end) {
            let absent = self
                .disk
                .as_mut()
                .is_some_and(|d| d.pages.prefetch(ino, page));
            if absent {
                missed.push(page);
            }
        }
        self.read_missed(ino, &missed, waits > 0)
    }

    /// Asks for pages that are in no cache, run by run.
    fn read_missed(&mut self, ino: u32, pages: &[u64], wait: bool) -> Result<(), Errno> {
        let mut rest = pages;
        while let Some(&first) = rest.first() {
            let run = rest
                .iter()
                .zip(first..)
                .take_while(|&(&p, n)| p == n)
                .count();
            self.read_runs(ino, (first, first + run as u64), wait)?;
            rest = rest.get(run..).unwrap_or_default();
        }
        Ok(())
    }

    /// Asks for pages, one request for each run that lies together; holes are not asked for.
    fn read_runs(&mut self, ino: u32, (first, end): (u64, u64), wait: bool) -> Result<(), Errno> {
        let mut run: Option<(u64, u64)> = None;
        for page in first..=end {
            let body = self.inodes.get(ino)?.body()?;
            let block = if page < end && body.written(page) {
                body.block(page)
            } else {
                None
            };
            match (run, block) {
                (Some((from, at)), Some(here)) if here == at + (page - from) => {}
                (Some((from, at)), _) => {
                    self.read_blocks(ino, (from, page), at, wait);
                    run = block.map(|here| (page, here));
                }
                (None, Some(here)) => run = Some((page, here)),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Writes through an open file at `offset`, or at its end.
    pub(crate) fn write(
        &mut self,
        handle: u64,
        offset: Option<u64>,
        data: &[u8],
    ) -> Result<(usize, u64), Errno> {
        let open = *self.handles.get(handle)?;
        if !open.flags.write {
            return Err(Errno::EBADF);
        }
        let body = self.inodes.get(open.ino)?.body()?;
        let size = body.size_bytes;
        let offset = match offset {
            Some(offset) if !open.flags.append => offset,
            _ => size,
        };
        let bytes = data.len() as u64;
        let end = offset.checked_add(bytes).filter(|&e| e <= MOST_BYTES);
        let end = end.ok_or(Errno::EFBIG)?;
        let costs = &self.truth.data;
        let cost_ns = costs.write_ns + by_kib(bytes, costs.write_kib_ns);
        self.cpu(cost_ns);
        if bytes == 0 {
            return Ok((0, offset));
        }
        let (first, last) = (offset / PAGE, (end - 1) / PAGE);
        let most_held = self.truth.space.held_mib * ((1 << 20) / PAGE);
        if self.pool.pages() + (last - first + 1) > most_held {
            return Err(Errno::ENOSPC);
        }
        let body = self.inodes.get(open.ino)?.body()?;
        // Room that was reserved becomes data by a change of metadata.
        let reserved = (first..=last).any(|p| body.block(p).is_some() && !body.written(p));
        let allocated = self.allocate(open.ino, first, last + 1)?;
        if self.disk.is_some() {
            for page in first..=last {
                let whole = offset <= page * PAGE && end >= ((page + 1) * PAGE).min(size);
                self.write_page(open.ino, page, whole)?;
            }
            self.throttle();
        } else {
            let costs = &self.truth.data;
            let cost_ns = costs.new_page_ns + costs.dirty_page_ns;
            self.cpu(allocated * cost_ns);
        }
        self.inodes
            .get(open.ino)?
            .body()?
            .write(offset, data, &mut self.pool);
        self.change_inode(open.ino, allocated > 0 || reserved || end > size);
        if open.flags.sync {
            // O_SYNC: the kernel calls the file system's fsync, which makes times stable too (`generic_write_sync`).
            self.cpu(self.truth.calls.fsync_ns);
        }
        if open.flags.sync || open.flags.direct {
            self.make_stable(open.ino, !open.flags.sync, false)?;
        }
        Ok((data.len(), end))
    }

    fn write_page(&mut self, ino: u32, page: u64, whole: bool) -> Result<(), Errno> {
        let held = self.inodes.get(ino)?.body()?.written(page);
        let before = self.dirty_page(ino, page)?;
        let costs = &self.truth.data;
        let cost_ns = match before {
            PageState::Dirty(_) => 0,
            PageState::Absent => costs.new_page_ns + costs.dirty_page_ns,
            PageState::Clean | PageState::Ahead => costs.dirty_page_ns,
        };
        self.cpu(cost_ns);
        // A part of a page needs the rest of it.
        if before == PageState::Absent && held && !whole {
            self.read_runs(ino, (page, page + 1), true)?;
        }
        Ok(())
    }

    /// Gives room to pages that have none; says how many those were.
    pub(crate) fn allocate(&mut self, ino: u32, first: u64, end: u64) -> Result<u64, Errno> {
        let most = self.truth.space.total_mib * ((1 << 20) / PAGE);
        let (mut used, mut next) = (self.used_blocks, self.next_block);
        let body = self.inodes.get(ino)?.body()?;
        for page in first..end {
            if body.block(page).is_none() {
                if used >= most {
                    return Err(Errno::ENOSPC);
                }
                body.allocate(page, next);
                (used, next) = (used + 1, next + 1);
            }
        }
        let count = used - self.used_blocks;
        (self.used_blocks, self.next_block) = (used, next);
        self.cpu(count * self.truth.data.allocate_page_ns);
        Ok(count)
    }

    /// Cuts or extends a file, and frees what is cut off.
    pub(crate) fn resize(&mut self, ino: u32, size_bytes: u64) -> Result<(), Errno> {
        if size_bytes > MOST_BYTES {
            return Err(Errno::EFBIG);
        }
        let blocks = self
            .inodes
            .get(ino)?
            .body()?
            .resize(size_bytes, &mut self.pool);
        let pages = match &mut self.disk {
            Some(disk) => {
                let before = disk.pages.len();
                disk.pages.cut(ino, size_bytes.div_ceil(PAGE));
                (before - disk.pages.len()) as u64
            }
            None => blocks,
        };
        self.used_blocks = self.used_blocks.saturating_sub(blocks);
        let costs = &self.truth.data;
        let cost_ns = pages * costs.free_page_ns + blocks * costs.free_block_ns;
        self.cpu(cost_ns);
        self.change_inode(ino, true);
        Ok(())
    }

    /// A truncation as a call.
    pub(crate) fn truncate(&mut self, ino: u32, size_bytes: u64) -> Result<(), Errno> {
        let less = size_bytes < self.inodes.get(ino)?.body()?.size_bytes;
        let calls = &self.truth.calls;
        let cost_ns = if less {
            calls.truncate_ns
        } else {
            calls.extend_ns
        };
        self.cpu(cost_ns);
        self.resize(ino, size_bytes)
    }

    /// Writes pages of a file without making them stable, and waits as asked.
    pub(crate) fn sync_range(
        &mut self,
        ino: u32,
        (offset, length): (u64, u64),
        what: RangeSync,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
        let end = if length == 0 { u64::MAX } else { end };
        let inode = self.inodes.get(ino)?;
        let size = inode.body()?.size_bytes;
        let (first, end) = (offset / PAGE, end.min(size).div_ceil(PAGE));
        if let Some(number) = inode.writing.filter(|_| what.waits_before()) {
            self.wait(number);
        }
        let Some(disk) = self.disk.as_mut().filter(|_| what.writes()) else {
            return Ok(());
        };
        let (blocks, from) = disk.pages.clean_range(ino, first, end);
        disk.note_written();
        let Some(from) = from else { return Ok(()) };
        let block = self.inodes.get(ino)?.body()?.block(from).unwrap_or(0);
        self.cpu(blocks * self.truth.calls.start_page_ns);
        let request = Request {
            write: true,
            block,
            blocks,
            extra_ns: 0,
        };
        let now_ns = self.now_ns;
        let Some(disk) = &mut self.disk else {
            return Ok(());
        };
        if what.waits_after() {
            self.request(request);
        } else {
            let number = disk.device.background(request, now_ns);
            self.inodes.get(ino)?.writing = Some(number);
        }
        Ok(())
    }

    /// Waits until a file is on the device; `data_only`: its times need not be.
    pub(crate) fn make_stable(
        &mut self,
        ino: u32,
        unflushed: bool,
        data_only: bool,
    ) -> Result<(), Errno> {
        let started = self.inodes.get(ino)?.writing.take();
        if let Some(number) = started {
            self.wait(number);
        }
        let wrote = self.write_back_and_wait(ino) || started.is_some();
        if unflushed {
            return Ok(());
        }
        let inode = self.inodes.get(ino)?;
        let transaction = if data_only {
            inode.needed_in
        } else {
            inode.changed_in
        };
        let Some(disk) = &self.disk else {
            return Ok(());
        };
        let open = transaction >= disk.journal.running;
        if wrote && !open {
            // Data alone: what the device holds is made stable.
            let flush_ns = disk.truth.journal.flush_ns;
            self.flush(flush_ns);
        }
        self.commit(transaction);
        Ok(())
    }

    /// One touch of a mapped page.
    pub(crate) fn fault(&mut self, ino: u32, page: u64, write: bool) -> Result<(), Errno> {
        let calls = &self.truth.calls;
        let cost_ns = if write {
            calls.fault_write_ns
        } else {
            calls.fault_read_ns
        };
        self.cpu(cost_ns);
        if write {
            self.allocate(ino, page, page + 1)?;
        }
        if self.disk.is_none() {
            return Ok(());
        }
        if self.touch_page(ino, page, false) {
            self.cpu(self.truth.data.new_page_ns);
            self.fault_around(ino, page)?;
        }
        if write {
            self.dirty_page(ino, page)?;
            self.throttle();
            self.change_inode(ino, false);
        }
        Ok(())
    }

    /// Half a window on either side of a page that is not there comes with it.
    fn fault_around(&mut self, ino: u32, page: u64) -> Result<(), Errno> {
        let half = self
            .disk
            .as_ref()
            .map_or(0, |d| d.truth.read_ahead.most_kib / 8);
        let end = self.inodes.get(ino)?.body()?.size_bytes.div_ceil(PAGE);
        let from = page.saturating_sub(half);
        let mut missed = Vec::new();
        for near in from..(page + half).min(end).max(page + 1) {
            let absent = near == page
                || self
                    .disk
                    .as_mut()
                    .is_some_and(|d| d.pages.prefetch(ino, near));
            if absent {
                missed.push(near);
            }
        }
        self.read_missed(ino, &missed, true)
    }
}
