//! Rows of a workload's table of parameters, shortly.

use crate::program::InputPath;
use crate::spec::Values;
use crate::table::{Parameter, Unit, Value};

/// Files above this would fill any target.
pub const LARGEST_FILE: i64 = 1 << 40;

/// Where the random sequence starts; 42 where nobody says.
pub const SEED: Parameter = Parameter {
    name: "seed",
    unit: Unit::Seed,
    default: Value::Number(42),
    range: (0, i64::MAX),
    what: "where the random sequence starts",
};

/// The file that a workload is made from, which [`file_needed`] has read.
pub const fn file(what: &'static str) -> Parameter {
    Parameter {
        name: "file",
        unit: Unit::Path,
        default: Value::text(""),
        range: (0, 0),
        what,
    }
}

/// What has to be read of a workload with a [`file`].
pub fn file_needed(values: &Values) -> Vec<InputPath> {
    match values.text("file") {
        "" => Vec::new(),
        file => vec![InputPath::Text(file.into())],
    }
}

/// A whole number.
pub const fn count(
    name: &'static str,
    default: u64,
    range: (i64, i64),
    what: &'static str,
) -> Parameter {
    number(Unit::Count, name, default, range, what)
}

/// A number of bytes, from one to the size of the largest file.
pub const fn bytes(name: &'static str, default: u64, what: &'static str) -> Parameter {
    number(Unit::Bytes, name, default, (1, LARGEST_FILE), what)
}

/// The size of one request in bytes.
pub const fn request(name: &'static str, default: u64, what: &'static str) -> Parameter {
    number(Unit::Bytes, name, default, (1, 1 << 30), what)
}

/// A share in hundredths.
pub const fn percent(name: &'static str, default: u64, what: &'static str) -> Parameter {
    number(Unit::Percent, name, default, (0, 100), what)
}

/// A switch.
pub const fn switch(name: &'static str, default: bool, what: &'static str) -> Parameter {
    Parameter {
        name,
        unit: Unit::Switch,
        default: Value::Switch(default),
        range: (0, 1),
        what,
    }
}

/// A range of bytes.
pub const fn byte_range(
    name: &'static str,
    default: (u64, u64),
    range: (i64, i64),
    what: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::ByteRange,
        default: Value::Range(default.0, default.1),
        range,
        what,
    }
}

const fn number(
    unit: Unit,
    name: &'static str,
    default: u64,
    range: (i64, i64),
    what: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit,
        default: Value::Number(default),
        range,
        what,
    }
}
