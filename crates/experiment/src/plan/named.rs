//! Workloads and targets, and what they are called in tables.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use fsage_core::target::split_name;
use fsage_core::text::begin;
use fsage_core::{TargetError, TargetSpec};
use fsage_workload::{SpecError, WorkloadSpec};

use crate::running::direct::shown;

/// Longer names are cut in tables; the whole specification is kept beside them.
const NAME_CHARS: usize = 36;

/// A workload as it was asked for: `NAME=SPECIFICATION`, or a specification alone.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedWorkload {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub spec: WorkloadSpec,
    /// A shell command that prepares the directory of each run, unmeasured.
    pub setup: Option<String>,
}

impl NamedWorkload {
    /// What a workload without a name is called.
    pub fn name_of(spec: &str) -> String {
        let spec = match spec.trim().strip_prefix("cmd:") {
            Some(line) => format!("cmd:{}", shown(line)),
            None => spec.trim().to_owned(),
        };
        begin(&spec, NAME_CHARS)
    }
}

impl FromStr for NamedWorkload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Some((name, rest)) = split_name(text) {
            return Ok(Self {
                name: name.to_string(),
                spec: rest.parse()?,
                setup: None,
            });
        }
        Ok(Self {
            name: Self::name_of(text),
            spec: text.parse()?,
            setup: None,
        })
    }
}

impl fmt::Display for NamedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A target as it was asked for, with a name and a group where a plan gives them.
#[derive(Debug, Clone)]
pub struct NamedTarget {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub spec: Arc<dyn TargetSpec>,
    /// The targets that it is averaged with; `None` for none.
    pub group: Option<String>,
}

impl NamedTarget {
    /// That its caches cannot be made cold, and what a plan can ask for instead.
    pub fn never_cold(&self, why: impl fmt::Display) -> TargetError {
        TargetError::refused(
            format!("make the caches of {} cold", self.spec),
            format!(
                "{why}; expected cache = \"as found\" or \"warm N\" (without a plan --cache) where they cannot be"
            ),
        )
    }
}

/// Targets are the same whose specifications read back as the same.
impl PartialEq for NamedTarget {
    fn eq(&self, other: &Self) -> bool {
        let whole = |t: &Self| (t.name.clone(), t.spec.to_string(), t.group.clone());
        whole(self) == whole(other)
    }
}

impl From<Arc<dyn TargetSpec>> for NamedTarget {
    /// A target under the name that its specification gives it, else under that.
    fn from(spec: Arc<dyn TargetSpec>) -> Self {
        Self {
            name: spec.name(),
            spec,
            group: None,
        }
    }
}

impl fmt::Display for NamedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_or_taken_from_the_text() {
        let named: NamedWorkload = "source tree=cmd: ls".parse().unwrap();
        assert_eq!(named.name, "source tree");
        assert_eq!(named.spec, "cmd: ls".parse().unwrap());
        let plain: NamedWorkload = "postmark:files=10".parse().unwrap();
        assert_eq!(plain.name, "postmark:files=10");
        let long: NamedWorkload = format!("cmd: {}", "x".repeat(99)).parse().unwrap();
        assert_eq!(long.name.chars().count(), NAME_CHARS + 1);
        assert!("a=nonsense".parse::<NamedWorkload>().is_err());
    }
}
