//! Processes, descriptors, working directories and paths, as a stream of operations changes them.
//!
//! Whoever follows a stream (capture, importers, prediction, replay) needs the same things; what
//! each keeps of an open file, a directory or a file is its own and a parameter here.
//!
//! Always true:
//! * whatever the stream says, memory is bounded by its length and by the constants here, never by a
//!   number in it;
//! * nothing allocates per operation once the tables have grown.
//!
//! [`processes`] knows which process has which descriptors, directory and mappings and who shares
//! them, down to single threads, [`pending`] in which order calls that overlap change them,
//! [`descriptors`] what operations do to them, for who keeps nothing else of processes; [`fds`] is one table of descriptors, [`shared`] what several owners hold, [`maps`] the mapped
//! ranges of one address space; [`tree`] holds files and names, [`way`] goes along a path of them,
//! [`path`] takes paths apart as text, [`reached`] knows those that lead through a descriptor, [`learned`] bounds what is learned of names that nobody made,
//! [`registered`] knows the open files of requests that name none.

mod apart;
pub mod descriptors;
pub mod fds;
pub mod flags;
pub mod learned;
pub mod maps;
pub mod path;
pub mod pending;
pub mod processes;
pub mod reached;
pub mod registered;
pub mod shared;
pub mod tree;
pub mod way;

pub use fds::Fds;
pub use learned::Learned;
pub use maps::{Mapping, Maps};
pub use processes::{Closed, Processes};
pub use registered::Registered;
pub use shared::{Shared, SharedId};
pub use tree::{Dentry, DentryId, Ino, Inode, NodeKind, Tree};
pub use way::Way;
