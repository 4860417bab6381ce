//! File systems as they are after a year: workloads that age them, what applies these to a target, and how the files
//! and the free space of one lie (the thesis, chapter 3; the 1996 paper, sections 3 to 5).

pub mod apply;
pub mod generate;
pub mod layout;
pub mod made;

pub use made::Made;
