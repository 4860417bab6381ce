//! What every part of fsage speaks: operations, the targets they run on, and the metrics that
//! describe a target.
//!
//! Always true in this crate: no I/O, no clock, no randomness; every type is plain data or a trait.
//!
//! * [`Op`] is one file system operation; an [`OpSource`] yields them, an [`OpSink`] takes them.
//!   Paths are interned in a [`PathTable`] that travels beside the stream.
//! * [`FileSystem`] is a place to run operations; [`Platform`] is what can be done to it from
//!   outside (make it cold, read its device's counters).
//! * [`Target`] is such a place with all that it can do, [`Scheme`] how it is asked for.
//! * [`VirtualTime`] is what a target gives whose time is computed and not waited for.
//! * [`metric`] is the one table of everything a system profile may hold.
//! * `conformance` (a feature) is what every target must pass; `any_ops` with it makes streams that
//!   everything must survive.

#[cfg(feature = "conformance")]
pub mod any_ops;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod errno;
pub mod fs;
pub mod id;
pub mod kind;
pub mod lock;
pub mod metric;
pub mod op;
pub mod path;
pub mod pause;
pub mod platform;
pub mod stream;
pub mod target;
pub mod text;
pub mod virtual_time;

pub use clock::{Clock, ManualClock};
pub use errno::Errno;
pub use fs::{
    Access, Attr, DirEntry, FileSystem, FileType, Handle, OpenFlags, RangeSync, SetAttr, StatFs,
};
pub use id::{DevId, Fd, FileId, PathId, Pid, Seed, Tid};
pub use kind::{
    CLOSE_BY_DUP, COPY_SHARES, COPY_WHOLE_BLOCKS, KindClass, OpKind, RWF_APPEND, RWF_DSYNC,
    RWF_NOAPPEND, RWF_SYNC,
};
pub use lock::{LockAsks, LockBy, LockCall, LockFrom};
pub use op::{Op, OpFlags, Outcome};
pub use path::PathTable;
pub use pause::{After, Pause};
pub use platform::{ColdEvidence, ColdLevel, ColdMethod, DeviceCounters, Piece, Platform};
pub use stream::{OpSink, OpSource, SinkError, SourceError, VecSource, Wait};
pub use target::{
    ColdPolicy, Confinement, FsOptions, Place, Registry, Root, Scheme, Target, TargetError,
    TargetSpec,
};
pub use virtual_time::{Demand, VirtualTime};
