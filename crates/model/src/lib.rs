//! Models of workloads: what is fitted to a trace, its file, and what it does when it is run.
//!
//! Always true in this crate: no I/O, no clock; a model says nothing of names or contents; what is read from a
//! file may be anything, and the answer is a value or an error that names file, line and what was expected; a
//! model given the same seed does the same.
//!
//! A model decides *what* is done to which of its files; `fsage-workload` makes operations of it and lists it
//! among the workloads.
//!
//! * [`filerunner`]: the statistical matrix and the configuration of FileRunner (Farhat 2017).
//! * [`fsm`]: models that are read and edited, from visits, classes of files and groups of processes.
//! * [`export`](mod@export): a model for filebench and fio.
//! * [`figures`]: by what a run of a model and one of what it stands for are held against each other.
//! * [`likeness`]: whether two traces are of the same workload.

pub mod export;
pub mod figures;
pub mod filerunner;
pub mod fsm;
pub mod likeness;
