//! Limits that the kernel holds this process to, by the names that a shell has for them (`ulimit`).

use std::fmt;

use rustix::process::{Resource, getrlimit};

/// A limit: what it is of, the shell's option, and the unit that the shell counts in.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    of: &'static str,
    option: char,
    resource: Resource,
    unit: (u64, &'static str),
}

const KIB: (u64, &str) = (1024, " KiB");
const ONE: (u64, &str) = (1, "");

/// All memory that may be asked for, used or not.
const ADDRESS_SPACE: Limit = Limit {
    of: "address space",
    option: 'v',
    resource: Resource::As,
    unit: KIB,
};
/// What of it may be written and is the process's own.
const DATA: Limit = Limit {
    of: "data",
    option: 'd',
    resource: Resource::Data,
    unit: KIB,
};
/// The highest descriptor.
const OPEN_FILES: Limit = Limit {
    of: "open files",
    option: 'n',
    resource: Resource::Nofile,
    unit: ONE,
};
/// Of the user, not of this process; root is not held to it.
const PROCESSES: Limit = Limit {
    of: "this user's processes and threads",
    option: 'u',
    resource: Resource::Nproc,
    unit: ONE,
};

/// Memory that is not given may be held back by these.
pub(crate) const OF_MEMORY: [Limit; 2] = [ADDRESS_SPACE, DATA];

impl Limit {
    /// The shell's option for it.
    pub(crate) fn option(self) -> char {
        self.option
    }

    /// What it is, in the shell's unit; `None` if there is none.
    pub fn value(self) -> Option<u64> {
        Some(getrlimit(self.resource).current? / self.unit.0)
    }
}

/// `the limit of open files (ulimit -n) is 16`; allocates nothing.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit of {} (ulimit -{}) is ", self.of, self.option)?;
        match self.value() {
            Some(value) => write!(f, "{value}{}", self.unit.1),
            None => f.write_str("unlimited"),
        }
    }
}

/// The limits that there are and that a call which failed with `errno` may have met; none where no limit says so.
pub fn behind(errno: i32) -> Vec<Limit> {
    let may_be: &[Limit] = match errno {
        libc::EMFILE => &[OPEN_FILES],
        libc::ENOMEM => &OF_MEMORY,
        // A thread needs a stack as well: without the memory for it the C library says the same.
        libc::EAGAIN if rustix::process::geteuid().is_root() => &OF_MEMORY,
        libc::EAGAIN => &[PROCESSES, ADDRESS_SPACE, DATA],
        _ => &[],
    };
    may_be
        .iter()
        .copied()
        .filter(|l| l.value().is_some())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_as_a_shell_tells_it() {
        let open_files = OPEN_FILES.to_string();
        let value = getrlimit(Resource::Nofile).current;
        let value = value.map_or("unlimited".into(), |v| v.to_string());
        assert_eq!(
            open_files,
            format!("the limit of open files (ulimit -n) is {value}")
        );
        assert!(behind(libc::ENOENT).is_empty());
        let known = behind(libc::EMFILE).len();
        assert_eq!(known, usize::from(OPEN_FILES.value().is_some()));
    }
}
