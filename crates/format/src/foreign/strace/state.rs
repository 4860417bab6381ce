//! What the processes of a strace text hold.

use fsage_namespace::flags::{O_APPEND, O_DIRECT};

/// An open file description.
#[derive(Debug, Clone, Default)]
pub(super) struct Description {
    /// Index in [`Files`](super::files::Files); `None` where nothing names the file.
    pub file: Option<u32>,
    /// Absolute, or relative to an unknown start directory.
    pub path: Vec<u8>,
    pub offset: Option<u64>,
    pub append: bool,
    pub direct: bool,
    pub not_a_file: bool,
}

impl Description {
    /// Of a file that was opened with these flags, nothing of it read yet.
    pub fn opened(file: u32, flags: u32) -> Self {
        Self {
            file: Some(file),
            offset: Some(0),
            append: flags & O_APPEND != 0,
            direct: flags & O_DIRECT != 0,
            ..Self::default()
        }
    }
}

/// All threads of one text; working directories are as paths of descriptions, mapped files as their
/// files.
pub(super) type Processes = fsage_namespace::Processes<Description, Place, Option<u32>>;

/// Where a process is.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Its working directory; empty where that is unknown.
    pub directory: Vec<u8>,
    /// What its absolute paths start from (chroot(2)); empty where that is everybody's root.
    pub root: Vec<u8>,
}
