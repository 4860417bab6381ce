//! The oracle: a deterministic file system in memory whose costs are stated, in virtual time.
//!
//! Always true in this crate:
//! * what a call returns and what it costs follow from the calls before it, their times and the
//!   [`Truth`] alone: no clock, no randomness, no thread of its own;
//! * costs are added where what they stand for happens, and nowhere else, so that what a profile should
//!   find can be worked out from the truth by hand;
//! * a call outside of [`fsage_core::VirtualTime::begin`] and `end` moves the clock to its end.
//!
//! Where to look next: [`Truth`] for what is stated, `namespace` for names and their caches, `transfer`
//! for reads and writes, `device` for the queue, `journal` for commits, `state` for what time does.

mod body;
mod calls;
mod device;
mod inode;
mod journal;
mod namespace;
mod read_ahead;
mod state;
mod time;
mod transfer;
mod truth;

pub use calls::MemFs;
pub use truth::{
    Caches, Calls, Data, DeviceTruth, JournalTruth, Lookups, Machine, Point, ReadAheadTruth, Space,
    Truth, TruthError, WriteBackTruth,
};
