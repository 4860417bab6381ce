//! Models that a trace becomes and a person edits: `.fsm`.
//!
//! A trace is read once ([`Gather`]): calls of a thread on one file in a row are a *visit*. Visits with the same steps,
//! files that are used alike and processes that behave alike are told once each; what follows what, and how many other
//! files were used since a file's last use, is counted ([`fit`](fit())). The model ([`Model`]) is text. [`Generator`] plays
//! it: every count is drawn without putting back, so that as much is done of each as was; files are found again by how
//! recently they were used, so that a cache of any size hits as often.

mod carry;
mod character;
mod check;
mod classes;
mod dist;
mod fit;
mod flow;
mod gather;
mod generate;
mod group;
mod measure;
pub(crate) mod model;
mod names;
mod outline;
mod play;
mod possible;
mod recency;
pub(crate) mod resolve;
mod reuse;
mod scale;
pub(crate) mod step;

pub use carry::carried;
pub use character::Character;
pub use check::{ModelError, Scale};
pub use dist::{Deck, Dist, Random};
pub use fit::{MODEL_BYTES, fit};
pub use gather::Gather;
pub use generate::{Batch, Generator, Next, Options};
pub use measure::Measures;
pub use model::{Class, Line, Model, Part, Pick, Type};
pub use outline::{Outline, outline};
pub use play::Call;
pub use recency::Recency;
pub use reuse::Reuse;
pub use scale::OffByTime;
pub use step::{At, VisitStep};
