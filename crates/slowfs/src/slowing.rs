//! What is slowed, and how much.

use std::fmt;
use std::str::FromStr;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What can be slowed: the requests that the kernel makes of a file system, under the names of
        /// the study where it has one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation {
            $($(#[$doc])* $variant,)*
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant,)*];

            /// Its name in a specification.
            pub fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name,)* }
            }
        }
    };
}

operations! {
    /// Pages that are read into the page cache.
    Read = "read",
    /// Writes.
    Write = "write",
    /// Names that are not in the name cache.
    Lookup = "lookup",
    /// Attributes that are asked for.
    Getattr = "getattr",
    /// Attributes that are set, sizes included.
    Setattr = "setattr",
    /// New files.
    Create = "create",
    /// Opens of files that exist.
    Open = "open",
    /// Names of files that are removed.
    Unlink = "unlink",
    /// New directories.
    Mkdir = "mkdir",
    /// Directories that are removed.
    Rmdir = "rmdir",
    /// Renames.
    Rename = "rename",
    /// Hard links.
    Link = "link",
    /// New symbolic links.
    Symlink = "symlink",
    /// Targets of symbolic links.
    Readlink = "readlink",
    /// Listings of directories.
    Readdir = "readdir",
    /// fsync and fdatasync.
    Fsync = "fsync",
    /// Space and its use.
    Statfs = "statfs",
    /// Extended attributes.
    Xattr = "xattr",
    /// Space that is reserved.
    Fallocate = "fallocate",
}

/// How a slowing of nothing is written.
const NONE: &str = "none";

/// The largest factor; beyond it a page read would take minutes.
const LARGEST: f64 = 1e6;

/// How much slower each operation becomes.
/// It is never less than 1, and compares as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowing {
    factors: Vec<f64>,
}

/// Why a specification was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlowingError {
    /// No operation of that name.
    #[error("unknown operation '{name}'; expected all or one of {known}")]
    Unknown {
        /// As written.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Not `OPERATION=FACTOR`.
    #[error("'{part}' is not OPERATION=FACTOR with a factor from 1 to 1000000")]
    Factor {
        /// As written.
        part: String,
    },
    /// The same operation, or `all`, again; or `all` behind what it would undo.
    #[error("'{name}' is given twice, expected each operation once, and all before them")]
    Twice {
        /// Its name.
        name: String,
    },
}

impl Default for Slowing {
    /// Nothing is slowed.
    fn default() -> Self {
        Self {
            factors: vec![1.0; Operation::ALL.len()],
        }
    }
}

impl Slowing {
    /// How many times its time an operation takes.
    pub fn factor(&self, operation: Operation) -> f64 {
        self.factors.get(operation as usize).copied().unwrap_or(1.0)
    }
}

/// `read=32,lookup=4`, or `all=4` for every other operation before them, or `none`.
impl FromStr for Slowing {
    type Err = SlowingError;

    fn from_str(text: &str) -> Result<Self, SlowingError> {
        let mut slowing = Slowing::default();
        if text.trim() == NONE {
            return Ok(slowing);
        }
        let mut given = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let wrong = || SlowingError::Factor { part: part.into() };
            let (name, factor) = part.split_once('=').ok_or_else(wrong)?;
            let factor: f64 = factor.trim().parse().map_err(|_| wrong())?;
            if !(1.0..=LARGEST).contains(&factor) {
                return Err(wrong());
            }
            let name = name.trim();
            if given.contains(&name) || (name == "all" && !given.is_empty()) {
                return Err(SlowingError::Twice { name: name.into() });
            }
            given.push(name);
            if name == "all" {
                slowing.factors.fill(factor);
                continue;
            }
            let operation = Operation::ALL
                .iter()
                .find(|o| o.name() == name)
                .ok_or_else(|| SlowingError::Unknown {
                    name: name.into(),
                    known: names(),
                })?;
            if let Some(slot) = slowing.factors.get_mut(*operation as usize) {
                *slot = factor;
            }
        }
        Ok(slowing)
    }
}

/// What is slowed, as a specification writes it.
impl fmt::Display for Slowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (operation, factor) in Operation::ALL.iter().zip(&self.factors) {
            if *factor > 1.0 {
                write!(f, "{separator}{}={factor}", operation.name())?;
                separator = ",";
            }
        }
        if separator.is_empty() {
            f.write_str(NONE)?;
        }
        Ok(())
    }
}

fn names() -> String {
    let names: Vec<&str> = Operation::ALL.iter().map(|o| o.name()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        let slowing: Slowing = "read=32, lookup=4,write=1.5".parse().unwrap();
        assert_eq!(slowing.to_string(), "read=32,write=1.5,lookup=4");
        assert_eq!(slowing.to_string().parse(), Ok(slowing));
        let none: Slowing = "none".parse().unwrap();
        assert_eq!(
            (none.to_string().as_str(), &none),
            ("none", &"".parse().unwrap())
        );
        let all: Slowing = "all=5,read=2".parse().unwrap();
        assert!((all.factor(Operation::Xattr) - 5.0).abs() < 1e-9);
        assert!((all.factor(Operation::Read) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn errors_say_what_was_expected() {
        let message = |text: &str| text.parse::<Slowing>().unwrap_err().to_string();
        assert!(
            message("reads=2").contains("unknown operation 'reads'; expected all or one of read,")
        );
        for bad in [
            "read", "read=", "read=0.5", "read=NaN", "read=1e9", "read=-2",
        ] {
            assert!(message(bad).contains("a factor from 1 to 1000000"), "{bad}");
        }
        assert_eq!(
            message("read=2, read=3").split(',').next(),
            Some("'read' is given twice")
        );
        assert!(message("read=2,all=3").contains("'all' is given twice, expected"));
    }
}
