//! What the processes of a strace text hold.

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

/// All threads of one text; working directories are as paths of descriptions, mapped files as their
/// files.
pub(super) type Processes = fsage_namespace::Processes<Description, Vec<u8>, Option<u32>>;
