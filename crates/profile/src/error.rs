//! What can end a measurement.

use fsage_core::Errno;

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
        Halt::Failed(errno)
    }
}

impl Halt {
    /// The reason as it stands in the profile.
    pub(crate) fn reason(&self) -> String {
        match self {
            Halt::Stopped => "interrupted".to_owned(),
            Halt::Time => crate::budget::NO_TIME.to_owned(),
            Halt::Failed(errno) => format!("the target failed: {errno}"),
            Halt::Absent(reason) => reason.clone(),
        }
    }
}

/// The result of a part of a procedure.
pub(crate) type Res<T = ()> = Result<T, Halt>;
