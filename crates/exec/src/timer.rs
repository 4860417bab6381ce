//! How a call's time is known: not at all, from a clock, or from what it demands of a virtual target.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use fsage_core::{Clock, Demand, Errno, FileSystem, VirtualTime};

/// A call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called {
    /// What the target said: a value or an error.
    pub result: Result<u64, Errno>,
    /// When it began on the target's clock; 0 where that is not known (yet).
    pub start_ns: u64,
    /// When it ended, likewise.
    pub end_ns: u64,
    /// Whether it had to wait for the target's device, where the target tells that.
    pub device: bool,
}

impl Called {
    /// How long it took.
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What is done around a call to know its time.
#[derive(Clone, Copy)]
pub enum Timer<'a> {
    /// Nothing.
    Off,
    /// The clock is read before and after.
    Clock(&'a dyn Clock),
    /// What it demands is collected; its time is known once that has been served.
    Virtual(&'a Collector<'a>),
}

impl Timer<'_> {
    /// Makes an operation's call.
    pub fn call(
        self,
        fs: &dyn FileSystem,
        call: impl FnOnce(&dyn FileSystem) -> Result<u64, Errno>,
    ) -> Called {
        let (mut start_ns, mut end_ns) = (0, 0);
        let result = match self {
            Self::Off => call(fs),
            Self::Clock(clock) => {
                start_ns = clock.now_ns();
                let result = call(fs);
                end_ns = clock.now_ns();
                result
            }
            Self::Virtual(collector) => collector.collect(true, || call(fs)),
        };
        Called {
            result,
            start_ns,
            end_ns,
            device: false,
        }
    }

    /// What time it is; 0 where that is not known.
    pub fn now_ns(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Clock(clock) => clock.now_ns(),
            Self::Virtual(collector) => collector.now_ns.get(),
        }
    }

    /// Makes a call that no operation asked for: it takes time, and none of an operation's.
    pub fn aside<T>(self, call: impl FnOnce() -> T) -> T {
        match self {
            Self::Virtual(collector) => collector.collect(false, call),
            _ => call(),
        }
    }
}

/// What calls on a virtual target demand.
pub struct Collector<'a> {
    time: &'a dyn VirtualTime,
    now_ns: Cell<u64>,
    demanded: RefCell<Demanded>,
}

/// The demands of one operation, and which of them are its own call's.
#[derive(Debug, Default)]
pub struct Demanded {
    pub all: Vec<Demand>,
    pub own: Range<usize>,
    /// Whether its own call needs the device.
    pub device: bool,
}

impl<'a> Collector<'a> {
    pub fn new(time: &'a dyn VirtualTime) -> Self {
        Self {
            time,
            now_ns: Cell::new(0),
            demanded: RefCell::default(),
        }
    }

    /// The time of the calls that follow.
    pub fn begin(&self, now_ns: u64) {
        self.now_ns.set(now_ns);
    }

    /// What they demanded; `spent` is what is used again for those that come.
    pub fn take(&self, spent: &mut Demanded) {
        spent.all.clear();
        (spent.own, spent.device) = (0..0, false);
        std::mem::swap(&mut *self.demanded.borrow_mut(), spent);
    }

    fn collect<T>(&self, own: bool, call: impl FnOnce() -> T) -> T {
        self.time.begin(self.now_ns.get());
        let done = call();
        let mut demanded = self.demanded.borrow_mut();
        let first = demanded.all.len();
        let device = self.time.end(&mut demanded.all);
        if own {
            (demanded.own, demanded.device) = (first..demanded.all.len(), device);
        }
        done
    }
}
