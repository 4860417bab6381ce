//! What a user writes to name a workload.

use std::fmt;
use std::str::FromStr;

use fsage_core::{OpSource, Seed};

use crate::table::{Parameter, Unit, Value, WORKLOADS, Workload};

/// Why a spec was not understood; completes "failed to read the workload: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Nothing was written.
    #[error("the workload is empty; expected NAME, NAME:PARAMETER=VALUE,… or cmd:COMMAND")]
    Empty,
    /// `cmd:` with nothing behind it.
    #[error("no command after 'cmd:'")]
    NoCommand,
    /// There is no such workload.
    #[error("unknown workload '{name}'; expected {known} or cmd:COMMAND")]
    UnknownWorkload {
        /// As written.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A part without `=`.
    #[error("'{part}' in workload '{workload}' is not PARAMETER=VALUE")]
    NotAnAssignment {
        /// The workload's name.
        workload: &'static str,
        /// As written.
        part: String,
    },
    /// The workload has no such parameter.
    #[error("workload '{workload}' has no parameter '{name}'; expected one of {known}")]
    UnknownParameter {
        /// The workload's name.
        workload: &'static str,
        /// As written.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A parameter was given twice.
    #[error("parameter '{name}' of workload '{workload}' is given twice")]
    Twice {
        /// The workload's name.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
    },
    /// A value was not understood or is out of range.
    #[error("'{text}' for parameter '{name}' of workload '{workload}' is not {expected}")]
    BadValue {
        /// The workload's name.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
        /// As written.
        text: String,
        /// What would be right, with its range.
        expected: String,
    },
}

/// The values of a workload's parameters, one for each row of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    parameters: &'static [Parameter],
    values: Vec<Value>,
}

impl Values {
    /// The defaults of a table.
    pub fn defaults(parameters: &'static [Parameter]) -> Self {
        Self {
            parameters,
            values: parameters.iter().map(|p| p.default).collect(),
        }
    }

    /// Each parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, Value)> + '_ {
        self.parameters.iter().zip(self.values.iter().copied())
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.iter().find(|(p, _)| p.name == name).map(|(_, v)| v)
    }

    /// A count, a number of bytes or a seed; 0 for a name that is none.
    pub fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(Value::Number(n)) => n,
            _ => 0,
        }
    }

    /// The ends of a range; zeros for a name that is none.
    pub fn range(&self, name: &str) -> (u64, u64) {
        match self.get(name) {
            Some(Value::Range(low, high)) => (low, high),
            _ => (0, 0),
        }
    }

    /// A bias; -1 for a name that is none.
    pub fn bias(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Bias(b)) => b,
            _ => -1,
        }
    }

    /// A switch; off for a name that is none.
    pub fn switch(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Switch(true)))
    }
}

/// A workload that can be run.
#[derive(Debug, Clone)]
pub enum WorkloadSpec {
    /// One of the table, with its values.
    Generated {
        /// The row.
        workload: &'static Workload,
        /// Its values, in range.
        values: Values,
    },
    /// A shell command, run in the target's directory.
    Command(String),
}

impl PartialEq for WorkloadSpec {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl WorkloadSpec {
    /// The stream of a generated workload; `None` for a command.
    pub fn source(&self) -> Option<Box<dyn OpSource + Send>> {
        match self {
            WorkloadSpec::Generated { workload, values } => Some((workload.build)(values)),
            WorkloadSpec::Command(_) => None,
        }
    }

    /// A short name for tables: the workload's, or the command's.
    pub fn short_name(&self) -> &str {
        match self {
            WorkloadSpec::Generated { workload, .. } => workload.name,
            WorkloadSpec::Command(command) => command,
        }
    }

    /// The seed, where the workload has one.
    pub fn seed(&self) -> Option<Seed> {
        match self {
            WorkloadSpec::Generated { values, .. } => {
                values.iter().find_map(|(p, v)| match (p.unit, v) {
                    (Unit::Seed, Value::Number(n)) => Some(Seed(n)),
                    _ => None,
                })
            }
            WorkloadSpec::Command(_) => None,
        }
    }
}

/// Every parameter is written, also those at their default: the text alone repeats the run.
impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadSpec::Command(command) => write!(f, "cmd:{command}"),
            WorkloadSpec::Generated { workload, values } => {
                f.write_str(workload.name)?;
                for (i, (parameter, value)) in values.iter().enumerate() {
                    let separator = if i == 0 { ':' } else { ',' };
                    write!(f, "{separator}{}={value}", parameter.name)?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for WorkloadSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        if let Some(command) = text.strip_prefix("cmd:") {
            let command = command.trim();
            if command.is_empty() {
                return Err(SpecError::NoCommand);
            }
            return Ok(WorkloadSpec::Command(command.to_owned()));
        }
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        if name.is_empty() {
            return Err(SpecError::Empty);
        }
        let workload = Workload::find(name).ok_or_else(|| SpecError::UnknownWorkload {
            name: name.to_owned(),
            known: WORKLOADS
                .iter()
                .map(|w| w.name)
                .collect::<Vec<_>>()
                .join(", "),
        })?;
        Ok(WorkloadSpec::Generated {
            workload,
            values: parse_values(workload, rest)?,
        })
    }
}

fn parse_values(workload: &'static Workload, text: &str) -> Result<Values, SpecError> {
    let mut values = Values::defaults(workload.parameters);
    let mut given = vec![false; workload.parameters.len()];
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return Err(SpecError::NotAnAssignment {
                workload: workload.name,
                part: part.to_owned(),
            });
        };
        let slots = values
            .values
            .iter_mut()
            .zip(&mut given)
            .zip(workload.parameters);
        let Some(((slot, given), parameter)) = slots.into_iter().find(|s| s.1.name == name.trim())
        else {
            return Err(SpecError::UnknownParameter {
                workload: workload.name,
                name: name.trim().to_owned(),
                known: workload
                    .parameters
                    .iter()
                    .map(|p| p.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        };
        if std::mem::replace(given, true) {
            return Err(SpecError::Twice {
                workload: workload.name,
                name: parameter.name,
            });
        }
        *slot = parse_value(parameter, value.trim()).ok_or_else(|| SpecError::BadValue {
            workload: workload.name,
            name: parameter.name,
            text: value.trim().to_owned(),
            expected: expected(parameter),
        })?;
    }
    Ok(values)
}

fn parse_value(parameter: &Parameter, text: &str) -> Option<Value> {
    let within = |n: u64| {
        let n = i64::try_from(n).ok()?;
        (parameter.range.0 <= n && n <= parameter.range.1).then_some(n as u64)
    };
    match parameter.unit {
        Unit::Count => Some(Value::Number(within(text.parse().ok()?)?)),
        Unit::Seed => Some(Value::Number(text.parse().ok()?)),
        Unit::Bytes => Some(Value::Number(within(parse_bytes(text)?)?)),
        Unit::ByteRange => {
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            let (low, high) = (within(parse_bytes(low)?)?, within(parse_bytes(high)?)?);
            (low <= high).then_some(Value::Range(low, high))
        }
        Unit::Bias => {
            let bias: i64 = text.parse().ok()?;
            (parameter.range.0 <= bias && bias <= parameter.range.1).then_some(Value::Bias(bias))
        }
        Unit::Switch => match text {
            "true" | "yes" | "on" | "1" => Some(Value::Switch(true)),
            "false" | "no" | "off" | "0" => Some(Value::Switch(false)),
            _ => None,
        },
    }
}

/// A number of bytes, with k, M or G behind it for powers of 1024.
fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn expected(parameter: &Parameter) -> String {
    let (low, high) = parameter.range;
    match parameter.unit {
        Unit::Count => format!("a whole number from {low} to {high}"),
        Unit::Seed => "a whole number of 64 bits".to_owned(),
        Unit::Bytes => format!("a number of bytes from {low} to {high} (k, M, G allowed)"),
        Unit::ByteRange => {
            format!("a range of bytes LOW-HIGH from {low} to {high} (k, M, G allowed)")
        }
        Unit::Bias => format!("a chance in tenths from {low} to {high} (-1 for never asked)"),
        Unit::Switch => "true or false".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<WorkloadSpec, SpecError> {
        text.parse()
    }

    #[test]
    fn what_is_printed_reads_back() {
        for text in [
            "postmark",
            "postmark:files=5000,size=512-16k,seed=7",
            "cmd: make -j2",
        ] {
            let spec = parse(text).unwrap();
            assert_eq!(parse(&spec.to_string()).unwrap(), spec);
        }
        let spec = parse("postmark:files=5000, transactions=20000,size=512-16384,subdirs=50");
        assert_eq!(
            spec.unwrap().to_string(),
            "postmark:files=5000,transactions=20000,size=512-16384,subdirs=50,read=512,write=512,\
             bias-read=5,bias-create=5,buffering=true,buffer=4096,seed=42"
        );
    }

    #[test]
    fn commands_keep_their_text() {
        let spec = parse("cmd: grep -r 'a:b,c=d' .").unwrap();
        assert_eq!(spec.short_name(), "grep -r 'a:b,c=d' .");
        assert!(spec.source().is_none() && spec.seed().is_none());
        assert_eq!(parse("cmd:  "), Err(SpecError::NoCommand));
    }

    #[test]
    fn errors_say_what_was_expected() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("").contains("expected NAME"));
        assert_eq!(
            message("postmarks:files=1"),
            "unknown workload 'postmarks'; expected postmark or cmd:COMMAND"
        );
        assert!(message("postmark:file=1").contains("no parameter 'file'; expected one of files,"));
        assert!(message("postmark:files").contains("'files' in workload 'postmark'"));
        assert!(message("postmark:files=1,files=2").contains("given twice"));
        for bad in ["0", "-3", "1e3", "99999999999999999999", ""] {
            assert!(message(&format!("postmark:files={bad}")).contains("a whole number from 1 to"));
        }
        for bad in ["5-4", "0-9", "a-b", "1-", "18446744073709551615k"] {
            assert!(message(&format!("postmark:size={bad}")).contains("a range of bytes"));
        }
        assert!(message("postmark:bias-read=11").contains("from -1 to 10"));
        assert!(message("postmark:buffering=maybe").contains("true or false"));
    }
}
