//! What if a part of the system were faster.
//!
//! A change is `PATTERN` followed by an operator and a number:
//!
//! * `RDC*1.5`, `RDC/2`: the metric's value times, or divided by, the number;
//! * `RDC=500000`, `STAT+200`, `STAT-50`: set to, raised or lowered by the number, in the unit of
//!   the metric (`fsage profile --list`);
//! * `RRD**2`: a pattern may end in `*`, and then means every metric that begins so: RRD1 to
//!   RRD4096, twice as fast. Without it `RRD` means the family RRD with all of its points and pauses.
//!
//! The operator is the last of `*/=+-` before the number, so that `RRD**2` is `RRD*` times 2. A sign
//! after the operator belongs to the number.

use fsage_core::metric::{MetricId, family};

use crate::cost::{Slot, SystemVector};

/// Why a change cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// No operator, or no number after it.
    #[error(
        "read the change '{0}', expected NAME*FACTOR, NAME/DIVISOR, NAME=VALUE, NAME+X or NAME-X"
    )]
    Grammar(String),
    /// No metric has the name.
    #[error("find a metric named '{0}'; 'fsage profile --list' names them all")]
    Unknown(String),
    /// The change makes no sense.
    #[error("apply the change '{0}': {1}")]
    Value(String, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Times(f64),
    Set(f64),
    Add(f64),
}

/// A change of some metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    text: String,
    metrics: Vec<MetricId>,
    operator: Operator,
}

impl std::str::FromStr for Change {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        let grammar = || WhatIfError::Grammar(text.to_owned());
        // The number is the longest end of the text that is one and has an operator before it.
        let (place, number) = text
            .char_indices()
            .filter(|&(at, c)| at > 0 && "*/=+-".contains(c))
            .find_map(|(at, _)| {
                let number = text.get(at + 1..)?.trim().parse::<f64>().ok()?;
                Some((at, number))
            })
            .ok_or_else(grammar)?;
        let pattern = text
            .get(..place)
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .ok_or_else(grammar)?;
        let bad = |why| WhatIfError::Value(text.to_owned(), why);
        if !number.is_finite() {
            return Err(bad("the number is not finite"));
        }
        let operator = match text.get(place..=place) {
            Some("*") if number > 0.0 => Operator::Times(number),
            Some("/") if number > 0.0 => Operator::Times(1.0 / number),
            Some("*" | "/") => return Err(bad("a factor must be greater than zero")),
            Some("=") if number >= 0.0 => Operator::Set(number),
            Some("=") => return Err(bad("a metric cannot be negative")),
            Some("-") => Operator::Add(-number),
            _ => Operator::Add(number),
        };
        let metrics = matching(pattern);
        if metrics.is_empty() {
            return Err(WhatIfError::Unknown(pattern.to_owned()));
        }
        Ok(Self {
            text: text.to_owned(),
            metrics,
            operator,
        })
    }
}

fn matching(pattern: &str) -> Vec<MetricId> {
    if let Some(start) = pattern.strip_suffix('*') {
        return MetricId::all()
            .filter(|id| id.to_string().starts_with(start))
            .collect();
    }
    match (MetricId::parse(pattern), family(pattern)) {
        // A scalar's name also is its family's: its pauses change with it.
        (_, Some(family)) => family.metrics().collect(),
        (Some(id), None) => vec![id],
        (None, None) => Vec::new(),
    }
}

impl Change {
    /// The change as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Applies it to the metrics that the vector holds; how many those were. A metric does not fall
    /// below zero, and a rate not to zero.
    pub fn apply(&self, vector: &mut SystemVector) -> usize {
        let mut changed = 0;
        for &id in &self.metrics {
            let slot: Option<Slot> = vector.slots().slot(id);
            let (Some(slot), Some(now)) = (slot, vector.get(id)) else {
                continue;
            };
            let to = match self.operator {
                Operator::Times(factor) => now.value * factor,
                Operator::Set(value) => value,
                Operator::Add(more) => (now.value + more).max(0.0),
            };
            if id.unit().is_rate() && to <= 0.0 {
                continue;
            }
            vector.change(slot, to);
            changed += 1;
        }
        changed
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    fn vector() -> SystemVector {
        let m = |name: &str, v: f64| (MetricId::parse(name).unwrap(), v, v * 0.9, v * 1.1);
        SystemVector::new(
            "s",
            [
                m("RDC", 1000.0),
                m("RRD4", 10.0),
                m("RRD64", 40.0),
                m("STAT", 500.0),
                m("STAT_G10", 700.0),
            ],
        )
    }

    fn after(change: &str, name: &str) -> f64 {
        let mut v = vector();
        change.parse::<Change>().unwrap().apply(&mut v);
        v.named(name).unwrap().value
    }

    #[test]
    fn the_grammar() {
        assert_eq!(after("RDC*1.5", "RDC"), 1500.0);
        assert_eq!(after("RDC/2", "RDC"), 500.0);
        assert_eq!(after("RDC=5e2", "RDC"), 500.0);
        assert_eq!(after("RRD**2", "RRD64"), 80.0);
        assert_eq!(after("RRD*/2", "RRD4"), 5.0);
        assert_eq!(after("RRD*2", "RRD4"), 20.0);
        assert_eq!(after("RRD64 * 3", "RRD4"), 10.0);
        assert_eq!(after("STAT+200", "STAT_G10"), 900.0);
        assert_eq!(after("STAT-600", "STAT"), 0.0);
        assert_eq!(after("STAT_G10=1", "STAT"), 500.0);
        assert_eq!(after("STAT=-0", "STAT"), 0.0);
    }

    #[test]
    fn what_is_refused() {
        for bad in ["", "RDC", "RDC*", "*2", "RDC*x", "RDC*inf"] {
            assert!(bad.parse::<Change>().is_err(), "{bad}");
        }
        assert!(matches!(
            "NOPE*2".parse::<Change>(),
            Err(WhatIfError::Unknown(_))
        ));
        assert!(matches!(
            "RDC*0".parse::<Change>(),
            Err(WhatIfError::Value(..))
        ));
        assert!(matches!(
            "RDC=-1".parse::<Change>(),
            Err(WhatIfError::Value(..))
        ));
    }
}
