//! A call of a model that is played, and who makes it.

use std::sync::Arc;

use fsage_core::{Op, OpKind};

/// A call, and the names that it is about.
#[derive(Debug, Clone)]
pub struct Call {
    /// The operation, without its paths.
    pub op: Op,
    /// Its path, below the target.
    pub path: Option<Arc<[u8]>>,
    /// The other one.
    pub path2: Option<Arc<[u8]>>,
}

/// Who does it.
#[derive(Debug, Clone, Copy)]
pub struct Who {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Where its descriptors begin: threads of a process that run apart must not be given the same.
    pub first_fd: i32,
    /// The visit at hand.
    pub visit: (u32, u64),
}

/// Whether targets do that by name alone: attributes of open files are changed so.
pub(super) fn by_name(kind: OpKind) -> bool {
    matches!(kind, OpKind::Fchmod | OpKind::Fchown | OpKind::Futimens)
}
