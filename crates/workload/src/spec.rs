//! What a user writes to name a workload.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use fsage_core::Seed;

use crate::program::{BuildError, InputPath, Inputs, Program};
use crate::table::{Config, Parameter, Unit, Value, WORKLOADS, Workload};

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
    /// The workload has no such configuration.
    #[error("workload '{workload}' has no configuration '{name}'; expected {known}")]
    UnknownConfig {
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
            values: parameters.iter().map(|p| p.default.clone()).collect(),
        }
    }

    /// Each parameter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, &Value)> + '_ {
        self.parameters.iter().zip(&self.values)
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find(|(p, _)| p.name == name).map(|(_, v)| v)
    }

    /// A count, a number of bytes, a seed, a share in hundredths or a time in nanoseconds; 0 for a
    /// name that is none.
    pub fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(&Value::Number(n)) => n,
            _ => 0,
        }
    }

    /// The ends of a range; zeros for a name that is none.
    pub fn range(&self, name: &str) -> (u64, u64) {
        match self.get(name) {
            Some(&Value::Range(low, high)) => (low, high),
            _ => (0, 0),
        }
    }

    /// A bias; -1 for a name that is none.
    pub fn bias(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(&Value::Bias(b)) => b,
            _ => -1,
        }
    }

    /// A switch; off for a name that is none.
    pub fn switch(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Switch(true)))
    }

    /// A choice, a text or a path; empty for a name that is none.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// Sets a parameter to a value of its unit that is in range; a name that is none is left alone.
    fn set(&mut self, name: &str, value: Value) {
        let slots = self.values.iter_mut().zip(self.parameters);
        if let Some((slot, _)) = slots.into_iter().find(|(_, p)| p.name == name) {
            *slot = value;
        }
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
    /// The phases of a generated workload with what [`WorkloadSpec::needs`] named read into
    /// `inputs`; a command has none, which is an error.
    pub fn program(&self, inputs: &Inputs) -> Result<Program, BuildError> {
        match self {
            WorkloadSpec::Generated { workload, values } => (workload.build)(values, inputs),
            WorkloadSpec::Command(command) => Err(BuildError::new(
                format!("cmd:{command}"),
                "a command is run by the shell and has no operations of its own",
            )),
        }
    }

    /// What has to be read before the program can be built.
    pub fn needs(&self) -> Vec<InputPath> {
        match self {
            WorkloadSpec::Generated { workload, values } => (workload.needs)(values),
            WorkloadSpec::Command(_) => Vec::new(),
        }
    }

    /// Of one that works on the files that lie in the target whether it changes them; `None` for one that has a
    /// directory of its own.
    pub fn in_target(&self) -> Option<bool> {
        self.needs().iter().find_map(|need| match need {
            InputPath::Target { changes } => Some(*changes),
            InputPath::Tree(_) | InputPath::Text(_) => None,
        })
    }

    /// The shell command, `None` for a generated workload.
    pub fn command(&self) -> Option<&str> {
        match self {
            WorkloadSpec::Generated { .. } => None,
            WorkloadSpec::Command(command) => Some(command),
        }
    }

    /// The same with another seed; a workload without one stays as it is.
    #[must_use]
    pub fn with_seed(mut self, seed: Seed) -> Self {
        if let WorkloadSpec::Generated { workload, values } = &mut self {
            for parameter in workload.parameters {
                if parameter.unit == Unit::Seed {
                    values.set(parameter.name, Value::Number(seed.0));
                }
            }
        }
        self
    }

    /// Whether it is a model of a trace: what it sets up was there before that, and is none of it.
    pub fn is_model(&self) -> bool {
        match self {
            WorkloadSpec::Generated { workload, .. } => {
                matches!(workload.name, "model" | "filerunner")
            }
            WorkloadSpec::Command(_) => false,
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
                    (Unit::Seed, &Value::Number(n)) => Some(Seed(n)),
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
                    if parameter.unit == Unit::Variables {
                        if !values.text(parameter.name).is_empty() {
                            write!(f, "{separator}{value}")?;
                        }
                        continue;
                    }
                    let unit = if parameter.unit == Unit::Time {
                        "ns"
                    } else {
                        ""
                    };
                    write!(f, "{separator}{}={value}{unit}", parameter.name)?;
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

/// The parts of a spec behind the workload's name, in pairs of name and text.
fn assignments<'t>(
    workload: &'static Workload,
    text: &'t str,
) -> Result<Vec<(&'t str, &'t str)>, SpecError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let pair = match (part.split_once('='), workload.parameters.first()) {
            (Some((name, value)), _) => (name.trim(), value.trim()),
            (None, Some(first)) if first.unit == Unit::Path && pairs.is_empty() => {
                (first.name, part)
            }
            _ => {
                return Err(SpecError::NotAnAssignment {
                    workload: workload.name,
                    part: part.to_owned(),
                });
            }
        };
        pairs.push(pair);
    }
    Ok(pairs)
}

fn parse_values(workload: &'static Workload, text: &str) -> Result<Values, SpecError> {
    let mut values = Values::defaults(workload.parameters);
    let pairs = assignments(workload, text)?;
    for (i, (name, text)) in pairs.iter().enumerate() {
        if *name == CONFIG && !workload.configs.is_empty() {
            if pairs.iter().take(i).any(|(n, _)| n == name) {
                return Err(SpecError::Twice {
                    workload: workload.name,
                    name: CONFIG,
                });
            }
            for (name, value) in config(workload, text)?.values {
                values.set(name, value.clone());
            }
        }
    }
    let mut given: Vec<&str> = Vec::new();
    for (name, text) in pairs {
        if name == CONFIG && !workload.configs.is_empty() {
            continue;
        }
        let parameter = parameter(workload, name)?;
        if given.contains(&name) {
            return Err(SpecError::Twice {
                workload: workload.name,
                name: parameter.name,
            });
        }
        given.push(name);
        if parameter.unit == Unit::Variables {
            let mut variables = values.text(parameter.name).to_owned();
            if !variables.is_empty() {
                variables.push(',');
            }
            variables.push_str(&format!("{name}={text}"));
            values.set(parameter.name, Value::Text(Cow::Owned(variables)));
            continue;
        }
        let value = parse_value(parameter, text).ok_or_else(|| SpecError::BadValue {
            workload: workload.name,
            name: parameter.name,
            text: text.to_owned(),
            expected: expected(parameter),
        })?;
        values.set(name, value);
    }
    Ok(values)
}

/// What chooses a configuration among a workload's parameters.
const CONFIG: &str = "config";

fn config(workload: &'static Workload, name: &str) -> Result<&'static Config, SpecError> {
    let found = workload.configs.iter().find(|c| c.name == name);
    found.ok_or_else(|| SpecError::UnknownConfig {
        workload: workload.name,
        name: name.to_owned(),
        known: workload
            .configs
            .iter()
            .map(|c| c.name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn parameter(workload: &'static Workload, name: &str) -> Result<&'static Parameter, SpecError> {
    let named = |p: &&Parameter| p.name == name && p.unit != Unit::Variables;
    let others = |p: &&Parameter| p.unit == Unit::Variables && !name.is_empty();
    let parameters = workload.parameters;
    let found = parameters.iter().find(named);
    found
        .or_else(|| parameters.iter().find(others))
        .ok_or_else(|| {
            let mut known: Vec<&str> = workload.parameters.iter().map(|p| p.name).collect();
            if !workload.configs.is_empty() {
                known.push(CONFIG);
            }
            SpecError::UnknownParameter {
                workload: workload.name,
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
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
        Unit::Percent => {
            let digits = text.strip_suffix('%').unwrap_or(text);
            Some(Value::Number(within(digits.trim().parse().ok()?)?))
        }
        Unit::Time => Some(Value::Number(within(parse_time_ns(text)?)?)),
        Unit::Choice(words) => words
            .iter()
            .find(|&&word| word == text)
            .map(|&word| Value::text(word)),
        Unit::Text | Unit::Path | Unit::Variables => Some(Value::Text(Cow::Owned(text.to_owned()))),
    }
}

/// A time in whole nanoseconds: a number of seconds, or with ns, us, ms or s behind it.
fn parse_time_ns(text: &str) -> Option<u64> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        _ => return None,
    };
    let ns = number.trim().parse::<f64>().ok()? * scale;
    // Above 2^53 a float no longer holds every whole number: 104 days.
    (0.0..9e15).contains(&ns).then(|| ns.round() as u64)
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

/// What can be written for a parameter, with its range; a phrase.
pub fn expected(parameter: &Parameter) -> String {
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
        Unit::Percent => format!("a share in hundredths from {low} to {high}"),
        Unit::Time => format!(
            "a time from {low} ns to {} s (ns, us, ms, s allowed; seconds without)",
            high as f64 / 1e9
        ),
        Unit::Choice(words) => format!("one of {}", words.join(", ")),
        Unit::Text => "a text".to_owned(),
        Unit::Path => "a path".to_owned(),
        Unit::Variables => "values of variables".to_owned(),
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
             bias-read=5,bias-create=5,buffering=true,buffer=4096,threads=1,seed=42"
        );
    }

    #[test]
    fn a_configuration_gives_way_to_what_is_given() {
        let spec = parse("postmark:files=7,config=cvfs-large,seed=3").unwrap();
        assert_eq!(
            spec.to_string(),
            "postmark:files=7,transactions=20000,size=512-328072,subdirs=50,read=4096,write=4096,\
             bias-read=5,bias-create=5,buffering=false,buffer=4096,threads=1,seed=3"
        );
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("postmark:config=CVFS"),
            "workload 'postmark' has no configuration 'CVFS'; expected fsl, cvfs, cvfs-large"
        );
        assert!(error("postmark:config=fsl,config=cvfs").contains("'config'"));
        assert!(error("postmark:confg=fsl").ends_with(", config"));
        assert_eq!(spec.clone().with_seed(Seed(9)).seed(), Some(Seed(9)));
    }

    #[test]
    fn every_unit_is_read_and_refused() {
        let p = |unit, range| Parameter {
            name: "x",
            unit,
            default: Value::Number(0),
            range,
            what: "",
        };
        let read = |unit, range, text| parse_value(&p(unit, range), text);
        assert_eq!(
            read(Unit::Percent, (0, 100), "35%"),
            Some(Value::Number(35))
        );
        assert_eq!(read(Unit::Percent, (0, 100), "101"), None);
        let day = (0, 86_400_000_000_000);
        for (text, ns) in [
            ("1.5", 1_500_000_000),
            ("20ms", 20_000_000),
            ("3us", 3000),
            ("0", 0),
        ] {
            assert_eq!(read(Unit::Time, day, text), Some(Value::Number(ns)));
        }
        for bad in ["-1", "nan", "inf", "1h", "1e30", "100000"] {
            assert_eq!(read(Unit::Time, day, bad), None, "{bad}");
        }
        let words = Unit::Choice(&["a", "b"]);
        assert_eq!(read(words, (0, 0), "b"), Some(Value::text("b")));
        assert_eq!(read(words, (0, 0), "c"), None);
        assert_eq!(expected(&p(words, (0, 0))), "one of a, b");
    }

    #[test]
    fn commands_keep_their_text() {
        let spec = parse("cmd: grep -r 'a:b,c=d' .").unwrap();
        assert_eq!(spec.short_name(), "grep -r 'a:b,c=d' .");
        assert!(spec.program(&Inputs::default()).is_err() && spec.seed().is_none());
        assert_eq!(parse("cmd:  "), Err(SpecError::NoCommand));
    }

    #[test]
    fn errors_say_what_was_expected() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("").contains("expected NAME"));
        let unknown = message("postmarks:files=1");
        assert!(unknown.starts_with("unknown workload 'postmarks'; expected postmark, "));
        assert!(unknown.ends_with(" or cmd:COMMAND"));
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
