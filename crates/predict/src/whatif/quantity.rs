//! Numbers with a unit: `8G`, `50us`, `200MB/s`, `0.5`.

use fsage_core::metric::Unit;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Nothing: in the unit of whatever it is applied to.
    None,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
    /// Bytes a second.
    Rate,
}

impl Dimension {
    /// What a number of it is called.
    pub fn what(self) -> &'static str {
        match self {
            Self::None => "a number without a unit",
            Self::Time => "a time",
            Self::Size => "a size",
            Self::Rate => "a rate",
        }
    }
}

/// A number as it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// In nanoseconds, bytes or bytes a second where it has a unit.
    pub value: f64,
    /// Of what.
    pub dimension: Dimension,
}

const TIMES: [(&str, f64); 5] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
];

impl Quantity {
    /// Reads a number, a blank or none, and a unit or none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(value) = number(text) {
            return Some(Self {
                value,
                dimension: Dimension::None,
            });
        }
        let (value, unit) = split(text)?;
        let (scale, dimension) = scale(unit)?;
        Some(Self {
            value: value * scale,
            dimension,
        })
    }

    /// The unit of a number that has one which is not known.
    pub fn unknown_unit(text: &str) -> Option<&str> {
        let (_, unit) = split(text.trim())?;
        scale(unit).is_none().then_some(unit)
    }

    /// The number in the unit of a metric; `None` where it counts something else.
    pub fn in_unit(self, unit: Unit) -> Option<f64> {
        let scale = match (self.dimension, unit) {
            (Dimension::None, _) | (Dimension::Time, Unit::Ns) | (Dimension::Size, Unit::Bytes) => {
                1.0
            }
            (Dimension::Time, Unit::Seconds) => 1e9,
            (Dimension::Size, Unit::Kib) | (Dimension::Rate, Unit::KibPerS) => 1024.0,
            _ => return None,
        };
        Some(self.value / scale)
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim_end().parse().ok()
}

/// A number and the letters after it.
fn split(text: &str) -> Option<(f64, &str)> {
    let unit_at = text
        .char_indices()
        .rev()
        .take_while(|&(_, c)| c.is_alphabetic() || c == '/')
        .last()?
        .0;
    // The e of 5e2 is part of the number, which was tried first; that of 5e2us is before its unit.
    Some((number(text.get(..unit_at)?)?, text.get(unit_at..)?))
}

fn scale(unit: &str) -> Option<(f64, Dimension)> {
    if let Some(&(_, ns)) = TIMES.iter().find(|t| t.0 == unit) {
        return Some((ns, Dimension::Time));
    }
    let (size, dimension) = match unit.strip_suffix("/s") {
        Some(size) => (size, Dimension::Rate),
        None => (unit, Dimension::Size),
    };
    let prefix = size
        .strip_suffix("iB")
        .or_else(|| size.strip_suffix('B'))
        .unwrap_or(size);
    let power = match prefix {
        "" if size == "B" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some((1024f64.powi(power), dimension))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        let read = |text: &str| Quantity::parse(text).map(|q| (q.value, q.dimension));
        assert_eq!(read("0.5"), Some((0.5, Dimension::None)));
        assert_eq!(read("5e2"), Some((500.0, Dimension::None)));
        assert_eq!(read("50us"), Some((50e3, Dimension::Time)));
        assert_eq!(read("1.5 ms"), Some((1.5e6, Dimension::Time)));
        assert_eq!(read("8G"), Some((8e0 * 1024f64.powi(3), Dimension::Size)));
        assert_eq!(read("8GiB"), read("8G"));
        assert_eq!(read("512B"), Some((512.0, Dimension::Size)));
        assert_eq!(
            read("200MB/s"),
            Some((200e0 * 1024f64.powi(2), Dimension::Rate))
        );
        for bad in ["", "G", "8Q", "8G/m", "x5", "-", "5 5"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_what_a_metric_counts_fits_it() {
        let q = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(q("8M").in_unit(Unit::Kib), Some(8192.0));
        assert_eq!(q("2s").in_unit(Unit::Ns), Some(2e9));
        assert_eq!(q("3").in_unit(Unit::Ratio), Some(3.0));
        assert_eq!(q("8M").in_unit(Unit::Ns), None);
        assert_eq!(q("8ms").in_unit(Unit::Count), None);
    }
}
