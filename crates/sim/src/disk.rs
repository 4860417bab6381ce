//! A disk and the host's queue before it: requests in, completions out, in virtual time.
//!
//! The same core serves simulations, which jump from event to event, and the real-time daemon, which
//! sleeps until the next one. Events are worked off at their own time, however late the caller asks,
//! so being late with one changes nothing after it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hdd::HddDevice;
use crate::model::Mechanism;
use crate::scheduler::Scheduler;
use crate::ssd::SsdDevice;
use crate::{DiskModel, Policy, SECTOR_BYTES};

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// Data from the disk.
    Read,
    /// Data to the disk.
    Write,
    /// Everything written so far to the medium.
    Flush,
}

/// A request. Parts of sectors count as whole ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it.
    pub id: u64,
    /// What is asked.
    pub kind: RequestKind,
    /// Where it begins, bytes; 0 for a flush.
    pub offset: u64,
    /// How much, bytes; 0 for a flush.
    pub length: u64,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request's.
    pub id: u64,
    /// When it ended, nanoseconds.
    pub at_ns: u64,
}

/// When something happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds.
    pub at_ns: u64,
    /// Whether a request ends then; otherwise only the disk's state changes.
    pub completes: bool,
}

/// How a disk of a given size is laid over the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Span {
    /// The whole real disk with fewer cylinders: all zones, full strokes.
    #[default]
    Scaled,
    /// A partition at the start of the real disk: the outer zone, short strokes.
    Start,
}

/// What may differ between disks of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskOptions {
    /// Size in bytes.
    pub size_bytes: u64,
    /// The host's scheduler.
    pub policy: Policy,
    /// How the size lies on the real disk.
    pub span: Span,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// It reaches beyond the disk.
    #[error("serve {length} bytes at {offset}: the disk ends at {size}")]
    OutOfRange {
        /// Where it begins, bytes.
        offset: u64,
        /// How much, bytes.
        length: u64,
        /// Size of the disk, bytes.
        size: u64,
    },
    /// It neither reads nor writes anything.
    #[error("serve a request of no length at {offset}: expected at least a byte")]
    Empty {
        /// Where it begins, bytes.
        offset: u64,
    },
}

/// A request in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    pub id: u64,
    pub kind: RequestKind,
    pub first: u64,
    pub count: u64,
}

impl Command {
    pub fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// Ends of commands that are known by now.
#[derive(Debug, Default)]
pub(crate) struct Ends(BinaryHeap<Reverse<(u64, u64, u64)>>, u64);

impl Ends {
    /// The command `id` ends at that time.
    pub fn push(&mut self, at_ns: u64, id: u64) {
        self.1 += 1;
        self.0.push(Reverse((at_ns, self.1, id)));
    }

    fn next_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop(&mut self) -> Option<Completion> {
        self.0
            .pop()
            .map(|Reverse((at_ns, _, id))| Completion { id, at_ns })
    }
}

#[derive(Debug)]
enum Device {
    Hdd(Box<HddDevice>),
    Ssd(SsdDevice),
}

/// A disk with the host's queue before it.
#[derive(Debug)]
pub struct Disk {
    size_bytes: u64,
    device: Device,
    waiting: Scheduler<Command>,
    /// Commands that the disk has and that have not ended.
    in_device: u32,
    depth: u32,
    ends: Ends,
    done: Vec<Completion>,
    now_ns: u64,
}

impl Disk {
    /// A disk at rest at time 0. `None` for a model that was not checked.
    pub fn new(model: &DiskModel, options: &DiskOptions) -> Option<Self> {
        let (device, depth) = match model.mechanism()? {
            Mechanism::Hdd(hdd) => (
                Device::Hdd(Box::new(HddDevice::new(hdd, options))),
                hdd.interface.queue_depth,
            ),
            Mechanism::Ssd(ssd) => (Device::Ssd(SsdDevice::new(ssd)), ssd.queue_depth),
        };
        Some(Self {
            size_bytes: options.size_bytes,
            device,
            waiting: Scheduler::new(options.policy),
            in_device: 0,
            depth,
            ends: Ends::default(),
            done: Vec::new(),
            now_ns: 0,
        })
    }

    /// A request arrives. Times before what has already happened count as now.
    pub fn submit(&mut self, request: &Request, now_ns: u64) -> Result<(), DiskError> {
        let (offset, length) = (request.offset, request.length);
        let end = offset.checked_add(length).filter(|&e| e <= self.size_bytes);
        let Some(end) = end else {
            let size = self.size_bytes;
            return Err(DiskError::OutOfRange {
                offset,
                length,
                size,
            });
        };
        if length == 0 && request.kind != RequestKind::Flush {
            return Err(DiskError::Empty { offset });
        }
        self.run_until(now_ns);
        self.now_ns = self.now_ns.max(now_ns);
        let first = offset / SECTOR_BYTES;
        let command = Command {
            id: request.id,
            kind: request.kind,
            first,
            count: end.div_ceil(SECTOR_BYTES) - first,
        };
        if command.kind == RequestKind::Flush {
            // The host's order is of positions; a flush has none.
            self.give(command);
        } else {
            self.waiting.push(first, command);
            self.dispatch();
        }
        Ok(())
    }

    /// When something happens next; `None` while the disk rests.
    pub fn next_event(&self) -> Option<Event> {
        if let Some(first) = self.done.first() {
            return Some(Event {
                at_ns: first.at_ns,
                completes: true,
            });
        }
        let end = self.ends.next_ns();
        let inner = self.device_event_ns();
        match (end, inner) {
            (None, None) => None,
            (Some(at_ns), inner) if inner.is_none_or(|i| at_ns <= i) => Some(Event {
                at_ns,
                completes: true,
            }),
            (_, inner) => inner.map(|at_ns| Event {
                at_ns,
                completes: false,
            }),
        }
    }

    /// Everything up to `now_ns` happens; requests that end by then are appended to `done`, in the
    /// order of their ends.
    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        self.run_until(now_ns);
        done.append(&mut self.done);
    }

    /// The time of the last arrival or event, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Requests that have not ended.
    pub fn is_idle(&self) -> bool {
        self.in_device == 0 && self.waiting.is_empty() && self.done.is_empty()
    }

    fn device_event_ns(&self) -> Option<u64> {
        match &self.device {
            Device::Hdd(hdd) => hdd.next_event_ns(),
            Device::Ssd(_) => None,
        }
    }

    fn run_until(&mut self, now_ns: u64) {
        loop {
            let (end, inner) = (self.ends.next_ns(), self.device_event_ns());
            if let Some(at) = end
                && at <= now_ns
                && inner.is_none_or(|i| at <= i)
            {
                self.now_ns = self.now_ns.max(at);
                if let Some(completion) = self.ends.pop() {
                    self.done.push(completion);
                    self.in_device = self.in_device.saturating_sub(1);
                    self.dispatch();
                }
                continue;
            }
            match inner {
                Some(at) if at <= now_ns => {
                    self.now_ns = self.now_ns.max(at);
                    if let Device::Hdd(hdd) = &mut self.device {
                        hdd.step(at, &mut self.ends);
                    }
                }
                _ => return,
            }
        }
    }

    /// Gives the disk what it takes.
    fn dispatch(&mut self) {
        while self.in_device < self.depth {
            let Some(command) = self.waiting.pop() else {
                return;
            };
            self.give(command);
        }
    }

    fn give(&mut self, command: Command) {
        self.in_device += 1;
        match &mut self.device {
            Device::Hdd(hdd) => hdd.accept(command, self.now_ns, &mut self.ends),
            Device::Ssd(ssd) => ssd.accept(command, self.now_ns, &mut self.ends),
        }
    }
}
