//! Experiments: what is run, how often, in which order, and what is said of it.
//!
//! Always true in this crate: runs of different targets are interleaved in an order that a stored
//! seed gives; what is measured is kept before it is judged; judgements are pure functions of what
//! was kept.
//!
//! * [`engine`]: what carries all of them out, step by step.
//! * [`mod@bench`]: experiments: runs, repeated until they are precise.
//! * [`compare`]: two configurations held against each other; [`check`]: what a result lacks.
//! * [`validate`]: predictions held against measurement (Smith 2001, 4.5).
//! * [`mod@evaluate`]: models held against what they stand for.
//! * [`plan`]: what an experiment does, as a file says it.
//! * [`running`]: a workload on a target; [`inputs`]: what it needs from outside.
//! * [`measured`]: what fsage measured of its own calls, as a trace.
//! * [`mod@aging`]: targets aged by a workload, and kept as images.
//! * [`restoring`]: states of file systems that runs begin with.
//! * [`target`]: what `TARGET` means. [`tracing`], [`tree`], [`profiling`], [`predicting`], [`replaying`]:
//!   captures, trees, measurements, predictions and replays between files.

pub mod aging;
pub mod bench;
pub mod check;
pub mod compare;
pub mod engine;
pub mod evaluate;
pub mod inputs;
pub mod measured;
pub mod one_cpu;
pub mod plan;
pub mod predicting;
pub mod profiling;
pub mod replaying;
pub mod restoring;
pub mod running;
pub mod target;
pub mod tracing;
pub mod tree;
pub mod validate;
