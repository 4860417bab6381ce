//! FileRunner's model, as the dissertation describes it (S. Farhat, *Enhancing the Accuracy of Synthetic File System
//! Benchmarks*, Nova Southeastern 2017, chapter 3): a trace becomes a statistical matrix, the matrix a configuration
//! file, the file a workload.
//!
//! * [`operation`]: the 52 operations. [`config`]: the file. [`matrix`]: the matrix and its feature functions.
//! * [`follow`]: what the matrix asks of an operation. [`fit`]: two passes over a trace, between them the search for
//!   the number of time chunks and the I/O chunk size.
//! * [`flow`]: which files go where. [`setup`]: what must exist beforehand. [`run`]: which operation gets which file.
//!
//! Where the dissertation contradicts itself the place here says what it says and what was taken.

pub mod config;
pub mod fit;
pub mod flow;
pub mod follow;
mod indexer;
pub mod matrix;
pub mod operation;
pub mod run;
pub mod setup;

#[cfg(test)]
mod samples;

pub use config::{Config, ConfigError};
pub use fit::{FitError, Fitter, Scan, Scanned};
pub use operation::Operation;
pub use run::{Plan, Runner, Task};
