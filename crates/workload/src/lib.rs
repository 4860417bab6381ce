//! Workloads: generators that yield operations, and what characterises a stream of them.
//!
//! Always true in this crate: no I/O, no clock; every random choice comes from a seed that is an
//! argument; a generator given the same parameters and seed yields the same operations.
//!
//! * [`table`] is the one list of workloads and their parameters: it drives the parser, the help
//!   and the tests. A new workload is a row there and a module beside [`postmark`].
//! * [`WorkloadSpec`] is what a user writes, `postmark:files=5000,size=512-16384` or
//!   `cmd:make -j2`; [`WorkloadSpec::program`] makes the [`Program`]: phases of streams.
//! * [`characterize`] tells what a stream is like.

pub mod andrew;
pub mod bonnie;
pub mod characterize;
pub mod filerunner;
pub mod hot_files;
pub mod lfs;
pub mod merge;
pub mod model;
mod ops;
mod params;
pub mod postmark;
pub mod program;
pub mod random;
pub mod readers;
pub mod sdet;
pub mod selfscale;
pub mod seqio;
pub mod small_read;
pub mod spec;
mod stdio;
mod steps;
pub mod table;
mod units;
pub mod varying;
pub mod wml;

pub use merge::Merged;
pub use postmark::PostMark;
pub use program::{
    BuildError, EntryKind, InputPath, Inputs, Length, Phase, Program, Role, SourceTree, Stream,
    TargetFile, Text, TreeEntry,
};
pub use spec::{SpecError, Values, WorkloadSpec};
pub use table::{Parameter, Unit, Value, WORKLOADS, Workload};
