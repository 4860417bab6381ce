//! Stage 4: what each operation costs.
//!
//! The stages before say what an operation *needs* ([`Charge`]: families of metrics, sizes, pauses).
//! A [`Plan`] turns needs into a *request vector*, weights of metrics that one system has measured,
//! with substitutes for those that it has not; its dot product with the [`SystemVector`] is the
//! predicted latency (Smith 2001, eq. 2). Everything here is linear in the metrics, so that totals of
//! weights are enough to ask "what if".

pub mod fallback;
pub mod gap;
pub mod ledger;
pub mod plan;
pub mod stem;
pub mod vector;

pub use gap::{Gap, GapTable};
pub use ledger::Ledger;
pub use plan::{Charge, Plan, cut_short, far_kib};
pub use stem::Stem;
pub use vector::{Estimate, FileSystemName, Machine, Slot, Slots, SystemVector, slowness};
