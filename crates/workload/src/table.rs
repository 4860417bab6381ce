//! The one list of workloads.

use std::fmt;

use fsage_core::OpSource;

use crate::postmark;
use crate::spec::Values;

/// What a parameter is counted in; decides how its text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A whole number.
    Count,
    /// Bytes; the text may end in k, M or G (powers of 1024).
    Bytes,
    /// A range of bytes `LOW-HIGH`; one number stands for both.
    ByteRange,
    /// A chance in tenths, -1 to turn the choice off.
    Bias,
    /// `true` or `false`.
    Switch,
    /// Where the random sequence starts.
    Seed,
}

/// A parameter's value; which variant follows from its [`Unit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A count, a number of bytes, or a seed.
    Number(u64),
    /// Both ends of a range of bytes.
    Range(u64, u64),
    /// A bias.
    Bias(i64),
    /// A switch.
    Switch(bool),
}

/// As a spec writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            Value::Range(low, high) => write!(f, "{low}-{high}"),
            Value::Bias(bias) => write!(f, "{bias}"),
            Value::Switch(on) => write!(f, "{on}"),
        }
    }
}

/// One parameter of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in a spec.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Its value where the spec does not say.
    pub default: Value,
    /// The smallest and largest number allowed.
    pub range: (i64, i64),
    /// What it means, a phrase.
    pub what: &'static str,
}

/// One workload.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name in a spec.
    pub name: &'static str,
    /// What it does, a phrase.
    pub what: &'static str,
    /// What its results tell, and what they do not.
    pub good_for: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// Its parameters in the order in which they are printed.
    pub parameters: &'static [Parameter],
    /// Makes the stream; the values are those of `parameters`, in range.
    pub build: fn(&Values) -> Box<dyn OpSource + Send>,
}

impl Workload {
    /// The workload of that name.
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name)
    }
}

/// Every workload that fsage generates.
pub const WORKLOADS: &[Workload] = &[Workload {
    name: "postmark",
    what: "a pool of small files that are created, read, appended to and deleted at random, as a \
           mail or news server does",
    good_for: "metadata and small files in a cache that holds them; with its defaults it is over \
               before anything reaches a disk, so give it more files and transactions, and report \
               all of its parameters (Traeger 2007, 7.1)",
    source: "Katcher 1997 (PostMark 1.5); Smith 2001, 4.5.3.3",
    parameters: postmark::PARAMETERS,
    build: |values| {
        Box::new(postmark::PostMark::new(&postmark::Config::from_values(
            values,
        )))
    },
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_defaults_in_range() {
        for (i, workload) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..i].iter().all(|w| w.name != workload.name));
            for (j, p) in workload.parameters.iter().enumerate() {
                assert!(workload.parameters[..j].iter().all(|q| q.name != p.name));
                let within = |n: i64| p.range.0 <= n && n <= p.range.1;
                match (p.unit, p.default) {
                    (Unit::Count | Unit::Bytes | Unit::Seed, Value::Number(n)) => {
                        assert!(within(n as i64), "{}", p.name);
                    }
                    (Unit::ByteRange, Value::Range(a, b)) => {
                        assert!(a <= b && within(a as i64) && within(b as i64), "{}", p.name);
                    }
                    (Unit::Bias, Value::Bias(b)) => assert!(within(b), "{}", p.name),
                    (Unit::Switch, Value::Switch(_)) => {}
                    other => panic!("{}: {other:?}", p.name),
                }
            }
        }
    }
}
