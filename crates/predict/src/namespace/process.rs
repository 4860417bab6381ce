//! What is kept of processes: working directories and open file descriptions.

use fsage_core::FileId;

use super::tree::Ino;

/// An open file description: a dense number, given again after its last close.
pub use fsage_namespace::SharedId as OpenId;

/// What one open made.
#[derive(Debug, Clone, Copy)]
pub struct OpenFile {
    /// The file.
    pub ino: Ino,
    /// Which file the trace says that it is.
    pub file: Option<FileId>,
    /// Where an operation without an offset begins.
    pub position: u64,
    /// A number that no other open has; 0 never occurs.
    pub serial: u32,
    /// Flags of open(2).
    pub flags: u32,
    /// Whether this open created the file.
    pub created: bool,
    /// Whether this open cut a file with data to nothing.
    pub truncated: bool,
    /// Whether anything was written through it.
    pub written: bool,
}

/// Every process of the trace, and every open file description.
pub type Processes = fsage_namespace::Processes<OpenFile, Option<Ino>>;
