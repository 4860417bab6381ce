//! A disk with an arm: which command is next, and what the arm does meanwhile.
//!
//! The arm does one thing at a time and its end is known when it begins. Between commands the disk
//! reads ahead into its track buffer, which any command may interrupt, and empties its write cache.

mod arm;
mod buffer;
mod write_cache;

use crate::disk::{Command, DiskOptions, Ends, RequestKind};
use crate::model::{Hdd, QueueOrder, ms, us};
use crate::{Geometry, SECTOR_BYTES};
use arm::Arm;
use buffer::{Found, TrackBuffer};
use write_cache::WriteCache;

/// Most that is written from the cache in one go, sectors (1 MiB): a read must not wait for more.
const LONGEST_DESTAGE: u64 = 2048;

/// A command that has waited this long is served next, whatever lies nearer.
const STARVED_NS: u64 = 1_000_000_000;

/// What the arm does, until when.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// A command, whose end is already known.
    Command,
    /// Part of the write cache goes to the medium.
    Destage,
}

/// The state of a disk.
#[derive(Debug)]
pub(crate) struct HddDevice {
    arm: Arm,
    buffer: TrackBuffer,
    cache: WriteCache,
    /// Commands that need the arm, with their arrival.
    pending: Vec<(u64, Command)>,
    /// Writes that wait for room in the write cache, in the order of arrival.
    blocked: Vec<Command>,
    /// Flushes, each with the last write that it must see on the medium.
    flushes: Vec<(u64, Command)>,
    busy: Option<(u64, Work)>,
    /// When the write cache may be emptied of its own accord.
    destage_at: u64,
    destage_delay: u64,
    /// Whether the last work was a destage: reads and destages take turns when both are urgent.
    destaged_last: bool,
    overhead: u64,
    bus_byte: f64,
    order: QueueOrder,
}

impl HddDevice {
    pub fn new(hdd: &Hdd, options: &DiskOptions) -> Self {
        let geometry = Geometry::new(hdd, options.size_bytes, options.span);
        let end = options.size_bytes.div_ceil(SECTOR_BYTES);
        Self {
            arm: Arm::new(hdd, geometry),
            buffer: TrackBuffer::new(
                hdd.cache.segments as usize,
                u64::from(hdd.cache.read_ahead_kib) * 2,
                end,
            ),
            cache: WriteCache::new(u64::from(hdd.cache.write_cache_kib) * 2),
            pending: Vec::new(),
            blocked: Vec::new(),
            flushes: Vec::new(),
            busy: None,
            destage_at: 0,
            destage_delay: ms(hdd.cache.destage_delay_ms),
            destaged_last: false,
            overhead: us(hdd.interface.overhead_us),
            bus_byte: 1e3 / hdd.interface.rate_mb_s,
            order: hdd.interface.queue_order,
        }
    }

    fn bus_ns(&self, command: &Command) -> u64 {
        (command.count as f64 * SECTOR_BYTES as f64 * self.bus_byte) as u64
    }

    /// A command arrives; ends that are known at once go into `ends`.
    pub fn accept(&mut self, command: Command, now: u64, ends: &mut Ends) {
        match command.kind {
            RequestKind::Flush => self.flush(command, now, ends),
            RequestKind::Write if self.cache.takes(command.count) => {
                self.blocked.push(command);
                self.absorb(now, ends);
            }
            RequestKind::Read if self.serve_from_memory(&command, now, ends) => {}
            _ => self.pending.push((now, command)),
        }
        self.destage_at = self.destage_at.max(now + self.destage_delay);
        self.start(now, ends);
    }

    /// When the disk's state changes next.
    pub fn next_event_ns(&self) -> Option<u64> {
        match self.busy {
            Some((until, _)) => Some(until),
            None if !self.cache.is_empty() => Some(self.destage_at),
            None => None,
        }
    }

    /// What the arm does has ended, or it has rested long enough.
    pub fn step(&mut self, now: u64, ends: &mut Ends) {
        if let Some((_, work)) = self.busy.take() {
            if let Work::Destage = work {
                self.cache.destaged();
                self.absorb(now, ends);
                self.end_flushes(now, ends);
            } else {
                self.destage_at = self.destage_at.max(now + self.destage_delay);
            }
        }
        self.start(now, ends);
    }

    fn flush(&mut self, command: Command, now: u64, ends: &mut Ends) {
        let last = self.cache.last_write();
        self.flushes.push((last, command));
        self.end_flushes(now, ends);
    }

    /// Ends flushes whose writes are all on the medium.
    fn end_flushes(&mut self, now: u64, ends: &mut Ends) {
        let oldest = self.cache.oldest_write();
        let overhead = self.overhead;
        self.flushes.retain(|(last, command)| {
            let waits = oldest.is_some_and(|oldest| oldest <= *last);
            if !waits {
                ends.push(now + overhead, command.id);
            }
            waits
        });
    }

    /// Takes writes into the cache while there is room, in their order.
    fn absorb(&mut self, now: u64, ends: &mut Ends) {
        while let Some(command) = self.blocked.first().copied() {
            if !self.cache.insert(command.first, command.end()) {
                return;
            }
            self.blocked.remove(0);
            self.buffer.forget(command.first, command.end());
            ends.push(now + self.overhead + self.bus_ns(&command), command.id);
        }
    }

    /// Ends a read whose data is in the disk's memory.
    fn serve_from_memory(&mut self, command: &Command, now: u64, ends: &mut Ends) -> bool {
        let dirty = self.cache.holds(command.first, command.end());
        let ready = dirty || matches!(self.buffer.find(command, now, &self.arm), Found::There);
        if ready {
            if !dirty {
                self.buffer
                    .touch(command, now, &self.arm, self.busy.is_none());
            }
            ends.push(now + self.overhead + self.bus_ns(command), command.id);
        }
        ready
    }

    /// Gives a resting arm its next work.
    fn start(&mut self, now: u64, ends: &mut Ends) {
        if self.busy.is_some() {
            return;
        }
        let urgent = !self.flushes.is_empty() || !self.blocked.is_empty();
        let destage = !self.cache.is_empty()
            && if self.pending.is_empty() {
                urgent || now >= self.destage_at || self.cache.is_half_full()
            } else {
                urgent && !self.destaged_last
            };
        if destage {
            self.destage(now);
            return;
        }
        while let Some(at) = self.choose(now) {
            let (_, command) = self.pending.swap_remove(at);
            if command.kind == RequestKind::Read && self.serve_from_memory(&command, now, ends) {
                continue;
            }
            self.destaged_last = false;
            let end = self.perform(&command, now);
            let host = now + self.overhead + self.bus_ns(&command);
            ends.push(end.max(host), command.id);
            self.busy = Some((end, Work::Command));
            return;
        }
    }

    /// The place in `pending` of the command that is next.
    fn choose(&self, now: u64) -> Option<usize> {
        let oldest = (0..self.pending.len()).min_by_key(|&i| self.pending.get(i).map(|p| p.0))?;
        let waited = self.pending.get(oldest).map_or(0, |p| now - p.0);
        if self.order == QueueOrder::Fcfs || waited > STARVED_NS {
            return Some(oldest);
        }
        (0..self.pending.len()).min_by_key(|&i| {
            self.pending.get(i).map(|(arrived, command)| {
                let ready = match self.buffer.find(command, now, &self.arm) {
                    Found::There => now,
                    Found::Coming => now + 1,
                    Found::Nowhere => {
                        let write = command.kind == RequestKind::Write;
                        self.arm.arrival(now + self.overhead, command.first, write)
                    }
                };
                (ready, *arrived)
            })
        })
    }

    /// Moves the arm for a command; returns when its last sector has passed.
    fn perform(&mut self, command: &Command, now: u64) -> u64 {
        let start = now + self.overhead;
        if command.kind == RequestKind::Write {
            self.buffer.interrupt(now, &mut self.arm);
            self.buffer.forget(command.first, command.end());
            return self.arm.transfer(start, command.first, command.count, true);
        }
        if let Found::Coming = self.buffer.find(command, now, &self.arm) {
            return self.buffer.follow(command, now, &mut self.arm);
        }
        self.buffer.interrupt(now, &mut self.arm);
        let end = self
            .arm
            .transfer(start, command.first, command.count, false);
        self.buffer.open(command, end);
        end
    }

    fn destage(&mut self, now: u64) {
        let Some((first, count)) = self.cache.take(LONGEST_DESTAGE) else {
            return;
        };
        self.buffer.interrupt(now, &mut self.arm);
        let end = self.arm.transfer(now, first, count, true);
        self.destaged_last = true;
        self.busy = Some((end, Work::Destage));
    }
}
