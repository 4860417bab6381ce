//! The one list of workloads.

use std::borrow::Cow;
use std::fmt;

use crate::program::{BuildError, InputPath, Inputs, Program};
use crate::spec::Values;
use crate::{
    andrew, bonnie, filerunner, hot_files, lfs, model, postmark, readers, sdet, selfscale, seqio,
    small_read, varying, wml,
};

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
    /// A share in hundredths.
    Percent,
    /// A time in nanoseconds; the text is a number of seconds unless ns, us, ms or s follows.
    Time,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text without a comma.
    Text,
    /// The path of a file or directory of the user's, without a comma; empty for none. As the first
    /// parameter of a workload it may be written without its name: `wml:FILE,…`.
    Path,
    /// What a spec gives under names that are no parameters, `NAME=VALUE,…`: variables of a script.
    Variables,
}

/// A parameter's value; which variant follows from its [`Unit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A count, a number of bytes, a seed, a share in hundredths or a time in nanoseconds.
    Number(u64),
    /// Both ends of a range of bytes.
    Range(u64, u64),
    /// A bias.
    Bias(i64),
    /// A switch.
    Switch(bool),
    /// A choice, a text or a path.
    Text(Cow<'static, str>),
}

impl Value {
    /// A choice, text or path that the table says.
    pub const fn text(text: &'static str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

/// As a spec writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            Value::Range(low, high) => write!(f, "{low}-{high}"),
            Value::Bias(bias) => write!(f, "{bias}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// One parameter of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in a spec.
    pub name: &'static str,
    /// What it is counted in.
    pub unit: Unit,
    /// Its value where the spec does not say.
    pub default: Value,
    /// The smallest and largest number allowed; without meaning for words.
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
    /// Configurations by name, chosen with `config=NAME`; empty for none.
    pub configs: &'static [Config],
    /// What has to be read before it can be built.
    pub needs: fn(&Values) -> Vec<InputPath>,
    /// Makes the program; the values are those of `parameters`, in range.
    pub build: fn(&Values, &Inputs) -> Result<Program, BuildError>,
}

/// Values of parameters that belong together; what is given beside the name takes precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub what: &'static str,
    /// The values in which it differs from the defaults.
    pub values: &'static [(&'static str, Value)],
}

/// The needs of a workload that reads nothing.
pub fn needs_nothing(_: &Values) -> Vec<InputPath> {
    Vec::new()
}

impl Workload {
    /// The workload of that name.
    pub fn find(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|w| w.name == name)
    }
}

/// Every workload that fsage generates: one row for each, in the module that generates it.
pub const WORKLOADS: &[Workload] = &[
    postmark::WORKLOAD,
    andrew::WORKLOAD,
    sdet::WORKLOAD,
    lfs::SMALL,
    lfs::LARGE,
    small_read::WORKLOAD,
    bonnie::WORKLOAD,
    seqio::WORKLOAD,
    hot_files::WORKLOAD,
    readers::READERS,
    readers::STRIDE,
    varying::WORKLOAD,
    selfscale::WORKLOAD,
    wml::WORKLOAD,
    filerunner::WORKLOAD,
    model::WORKLOAD,
    wml::personalities::VARMAIL,
    wml::personalities::WEBSERVER,
    wml::personalities::WEBPROXY,
    wml::personalities::FILESERVER,
    wml::personalities::OLTP,
    wml::personalities::VIDEOSERVER,
    wml::personalities::MONGO,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(p: &Parameter, value: &Value) {
        let within = |n: u64| p.range.0 <= n as i64 && n as i64 <= p.range.1;
        match (p.unit, value) {
            (
                Unit::Count | Unit::Bytes | Unit::Seed | Unit::Percent | Unit::Time,
                Value::Number(n),
            ) => {
                assert!(within(*n), "{}", p.name);
                assert!(p.unit != Unit::Percent || p.range.0 >= 0 && p.range.1 <= 100);
            }
            (Unit::ByteRange, Value::Range(a, b)) => {
                assert!(a <= b && within(*a) && within(*b), "{}", p.name);
            }
            (Unit::Bias, Value::Bias(b)) => {
                assert!(p.range.0 <= *b && *b <= p.range.1, "{}", p.name);
            }
            (Unit::Choice(words), Value::Text(word)) => {
                assert!(words.contains(&&**word), "{}", p.name);
            }
            (Unit::Text | Unit::Path, Value::Text(text)) => assert!(!text.contains(',')),
            (Unit::Variables, Value::Text(text)) => assert!(text.is_empty()),
            (Unit::Switch, Value::Switch(_)) => {}
            other => panic!("{}: {other:?}", p.name),
        }
    }

    #[test]
    fn names_are_distinct_and_values_in_range() {
        for (i, workload) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..i].iter().all(|w| w.name != workload.name));
            for (j, p) in workload.parameters.iter().enumerate() {
                assert!(workload.parameters[..j].iter().all(|q| q.name != p.name));
                assert!(p.name != "config", "`config` chooses a configuration");
                check(p, &p.default);
            }
            for (j, config) in workload.configs.iter().enumerate() {
                assert!(workload.configs[..j].iter().all(|c| c.name != config.name));
                for (name, value) in config.values {
                    let p = workload.parameters.iter().find(|p| p.name == *name);
                    check(p.unwrap(), value);
                }
            }
        }
    }
}
