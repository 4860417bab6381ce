//! What fsage shows of stored results: terminal tables and JSON.
//!
//! Always true in this crate: every figure has a unit, every estimate its interval; a report is made
//! from what was stored (`format`) and from nothing else; nothing is printed here, text is returned.
//!
//! * [`units`]: how times, sizes and rates are written. [`page`] and [`table`]: how pages and tables are
//!   laid out. [`plain`]: what a terminal may be given.
//! * One module for each kind of result: [`validation`], [`profile`], [`ops`].

pub mod aged;
pub mod characterised;
pub mod characterization;
pub mod cleanup;
pub mod comparison;
pub mod compliance;
pub mod disk;
pub mod environment;
pub mod evaluation;
pub mod experiment;
mod labels;
pub mod layout;
pub mod metric;
pub mod model;
mod names;
pub mod ops;
pub mod page;
pub mod plain;
pub mod plot;
pub mod prediction;
pub mod profile;
pub mod replay;
pub mod run;
pub mod slowfs;
pub mod snapshot;
pub mod table;
pub mod units;
pub mod validation;
pub mod workloads;
