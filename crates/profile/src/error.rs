//! What can end a measurement.

use fsage_core::Errno;
use fsage_format::profile::NOT_OFFERED;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A name of `--only` is no metric, family or group.
    #[error("find a metric, family or group called `{name}`{}", near_text(.near))]
    Unknown {
        /// As it was given.
        name: String,
        /// The nearest names of the table.
        near: Vec<String>,
    },
    /// The working directory could not be made.
    #[error("make a working directory in {target}: {errno}")]
    WorkingDirectory {
        /// The target's name.
        target: String,
        /// What the target said.
        errno: Errno,
    },
    /// The working directory could not be removed.
    #[error("remove the working directory {path} of {target}: {errno}")]
    CleanUp {
        /// The target's name.
        target: String,
        /// The directory that is left.
        path: String,
        /// What the target said.
        errno: Errno,
    },
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!(", expected e.g. {}", near.join(", "))
    }
}

/// Why a procedure ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The user asked.
    Stopped,
    /// The time of the procedure is over.
    Time,
    /// A call failed.
    Failed(Errno),
    /// The target does not offer what is to be measured.
    Absent(String),
}

impl From<Errno> for Halt {
    fn from(errno: Errno) -> Self {
        match errno {
            // What a target does not have is no failure of it.
            Errno::EOPNOTSUPP | Errno::ENOSYS => Halt::Absent(format!("{NOT_OFFERED}: {errno}")),
            errno => Halt::Failed(errno),
        }
    }
}

/// What the reason of a metric begins with that the target failed, or measured impossibly.
const FAILED: &str = "the target failed: ";
pub(crate) const IMPOSSIBLE: &str = "impossible: ";

/// Whether a metric is absent for a reason that is a failure, and no property of the target or of the time.
pub fn is_failure(reason: &str) -> bool {
    reason.starts_with(FAILED) || reason.starts_with(IMPOSSIBLE)
}

impl Halt {
    /// The reason as it stands in the profile.
    pub(crate) fn reason(&self) -> String {
        match self {
            Halt::Stopped => "interrupted".to_owned(),
            Halt::Time => crate::budget::NO_TIME.to_owned(),
            Halt::Failed(errno) => format!("{FAILED}{errno}"),
            Halt::Absent(reason) => reason.clone(),
        }
    }
}

/// The result of a part of a procedure.
pub(crate) type Res<T = ()> = Result<T, Halt>;
