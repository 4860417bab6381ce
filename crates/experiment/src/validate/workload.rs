//! A workload and what it is called in tables.

use std::fmt;
use std::str::FromStr;

use fsage_workload::{SpecError, WorkloadSpec};

/// Longer names are cut in tables; the whole specification is kept beside them.
const NAME_CHARS: usize = 36;

/// A workload as it was asked for: `NAME=SPECIFICATION`, or a specification alone.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedWorkload {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub spec: WorkloadSpec,
}

impl FromStr for NamedWorkload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Some((name, rest)) = text.split_once('=')
            && !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_. ".contains(c))
        {
            return Ok(Self {
                name: name.trim().to_string(),
                spec: rest.parse()?,
            });
        }
        let mut name: String = text.trim().chars().take(NAME_CHARS).collect();
        if name.len() < text.trim().len() {
            name.push('…');
        }
        Ok(Self {
            name,
            spec: text.parse()?,
        })
    }
}

impl fmt::Display for NamedWorkload {
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
