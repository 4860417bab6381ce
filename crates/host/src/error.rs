//! What can go wrong outside of a file operation.

use std::io;
use std::path::Path;

/// Why the host could not do what was asked; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried and on what, as "open directory /x".
        what: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The caller lacks the privilege.
    #[error("{what}: it needs root (CAP_SYS_ADMIN)")]
    NotRoot {
        /// What was tried.
        what: String,
    },
    /// A program is not installed.
    #[error("run {tool}: it is not installed (Debian package {package})")]
    MissingTool {
        /// The program.
        tool: String,
        /// The Debian package that has it.
        package: String,
    },
    /// The kernel does not know the file system.
    #[error("mount {kind}: this kernel does not support it (see /proc/filesystems)")]
    NoKernelSupport {
        /// The file system type.
        kind: String,
    },
    /// A program ended badly.
    #[error("run {command}: {status}{}{output}", if output.is_empty() { "" } else { ": " })]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it wrote to stderr.
        output: String,
    },
    /// A scratch specification cannot be read.
    #[error("read scratch specification `{spec}`: {problem}")]
    Spec {
        /// The specification as given.
        spec: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The request cannot be met as things are.
    #[error("{what}: {why}")]
    Refused {
        /// What was asked.
        what: String,
        /// Why not.
        why: String,
    },
}

impl HostError {
    /// A failed system call.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            what: what.into(),
            source: source.into(),
        }
    }

    /// A failed system call on a path.
    pub fn at(what: &str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::io(format!("{what} {}", path.display()), source)
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot { .. } => {
                Some("run as root, or use a directory of a mounted file system".into())
            }
            Self::MissingTool { package, .. } => Some(format!("apt-get install {package}")),
            Self::NoKernelSupport { .. } => Some("use another kind, such as ext4".into()),
            Self::Spec { .. } => Some(
                "for example scratch:ext4,size=2G,on=ram or scratch:xfs,on=file:/var/tmp".into(),
            ),
            _ => None,
        }
    }
}

/// The error number of the last failed libc call of this thread.
pub(crate) fn last_errno() -> fsage_core::Errno {
    fsage_core::Errno(
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}
