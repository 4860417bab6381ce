//! `NAME=SPECIFICATION`: a target under a name of the user's.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Images, Preparing, Target, TargetError, TargetSpec};

/// The name and the rest of `NAME=REST`, if that is the form: a name has letters, digits, `-_.` and spaces, so that
/// `./a=b` is a directory and `postmark:files=1` a workload without one.
pub fn split_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let usable = !name.trim().is_empty() && !rest.is_empty() && name.chars().all(is_name);
    usable.then(|| (name.trim(), rest))
}

/// A target that is asked for under a name.
#[derive(Debug)]
pub(super) struct NamedSpec {
    pub name: String,
    pub spec: Arc<dyn TargetSpec>,
}

impl fmt::Display for NamedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.spec)
    }
}

impl TargetSpec for NamedSpec {
    fn given_name(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn is_temporary(&self) -> bool {
        self.spec.is_temporary()
    }

    fn wants_isolation(&self) -> bool {
        self.spec.wants_isolation()
    }

    fn has_host_dir(&self) -> bool {
        self.spec.has_host_dir()
    }

    fn has_virtual_time(&self) -> bool {
        self.spec.has_virtual_time()
    }

    fn uses(&self) -> Vec<PathBuf> {
        self.spec.uses()
    }

    fn size_bytes(&self) -> Option<u64> {
        self.spec.size_bytes()
    }

    fn check(&self) -> Result<(), TargetError> {
        self.spec.check()
    }

    fn prepare(&self, progress: Preparing<'_>) -> Result<(), TargetError> {
        self.spec.prepare(progress)
    }

    fn open(&self) -> Result<Box<dyn Target>, TargetError> {
        self.spec.open()
    }

    fn images(&self) -> Option<&dyn Images> {
        self.spec.images()
    }
}
