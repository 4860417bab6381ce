//! What if a part of the system were faster, or the machine larger.
//!
//! A change is a name, an operator and a number with or without a unit:
//!
//! * `memory=8G`, `memory*2`, `cache=512M`: how much there is to cache in;
//! * `disk*2`: a device twice as fast; `disk.seek*0.5`: half the time to get to a place;
//!   `disk.rate*2`: data moves at twice the rate;
//! * `fsync*0.5`, `create*0.5`: a group of metrics, their time times the number;
//! * `RDC*1.5`, `RDC/2`, `RDC=500000`, `STAT+200`, `STAT=50us`: metrics of the profile by name, in
//!   their own unit (`fsage profile --list`) or another of the kind;
//! * `RRD**2`: a name may end in `*`, and then means every metric that begins so. Without it `RRD`
//!   means the family RRD with all of its points and pauses.
//!
//! The operator is the first of `*/=+-` after which only a number follows, so that `RRD**2` is `RRD*`
//! times 2. A sign after the operator belongs to the number.

mod gain;
pub mod parts;
pub mod quantity;

use std::fmt::Write as _;

use fsage_core::metric::{MetricId, Unit};

use crate::cost::SystemVector;
pub use gain::elapsed_after;
use parts::Part;
use quantity::{Dimension, Quantity};

/// Why a change cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfError {
    /// No operator, or no number after it.
    #[error(
        "read the change '{0}', expected NAME*FACTOR, NAME/DIVISOR, NAME=VALUE, NAME+X or NAME-X, \
         such as memory=8G or fsync*0.5"
    )]
    Grammar(String),
    /// Nothing has the name.
    #[error(
        "find '{0}', expected a part such as memory, disk or fsync, or a metric; the nearest are {1} \
         ('fsage profile --list' names all metrics)"
    )]
    Unknown(String, String),
    /// The change makes no sense.
    #[error("apply the change '{0}': {1}")]
    Value(String, String),
}

/// More memory than any machine has: so many times, and 1 EiB.
const MOST_TIMES: f64 = 1e6;
const MOST_BYTES: f64 = (1u64 << 60) as f64;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Times(f64),
    Set(Quantity),
    Add(Quantity),
}

impl Operator {
    /// What is done with a number, which was `given` so; else why nothing can be.
    fn of(operator: &str, quantity: Quantity, given: &str) -> Result<Self, String> {
        let number = quantity.value;
        if !number.is_finite() {
            return Err(format!(
                "{given} is no finite number, expected one such as 0.5 or 8G"
            ));
        }
        let factor = match operator {
            "*" => number,
            "/" => 1.0 / number,
            "=" if number < 0.0 => {
                let why = "nothing of a system is negative, expected a number that is not";
                return Err(format!("{given} is less than zero: {why}"));
            }
            "=" => return Ok(Self::Set(quantity)),
            "-" => {
                return Ok(Self::Add(Quantity {
                    value: -number,
                    ..quantity
                }));
            }
            _ => return Ok(Self::Add(quantity)),
        };
        let what = match operator {
            "/" => "divisor",
            _ => "factor",
        };
        if quantity.dimension != Dimension::None {
            let is = quantity.dimension.what();
            return Err(format!(
                "{given} is {is}, expected a {what} without a unit, such as 2"
            ));
        }
        if !(number > 0.0 && factor.is_finite()) {
            return Err(format!(
                "{given} is no {what}, expected one greater than zero, such as 2"
            ));
        }
        Ok(Self::Times(factor))
    }
}

/// A change of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    text: String,
    part: Part,
    operator: Operator,
}

/// What a change did to a vector.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Applied {
    /// Metrics that it changed.
    pub metrics: Vec<MetricId>,
    /// Other things that it changed, such as a size of the model.
    pub sizes: bool,
    /// In words.
    pub meaning: String,
    /// Why nothing was changed, where nothing was.
    pub nothing: Option<String>,
}

impl std::str::FromStr for Change {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        let grammar = || {
            let mut after = text.split(['*', '/', '=', '+', '-']).skip(1);
            after.find_map(Quantity::unknown_unit).map_or_else(
                || WhatIfError::Grammar(text.to_owned()),
                |unit| {
                    let known =
                        "expected ns, us, ms, s, or K, M, G, T with or without B, and /s after it";
                    WhatIfError::Value(text.to_owned(), format!("'{unit}' is no unit, {known}"))
                },
            )
        };
        let (place, quantity) = text
            .char_indices()
            .filter(|&(at, c)| at > 0 && "*/=+-".contains(c))
            .find_map(|(at, _)| Some((at, Quantity::parse(text.get(at + 1..)?)?)))
            .ok_or_else(grammar)?;
        let name = text
            .get(..place)
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .ok_or_else(grammar)?;
        let bad = |why: &str| WhatIfError::Value(text.to_owned(), why.to_owned());
        let operator = text.get(place..=place).unwrap_or_default();
        let given = text.get(place + 1..).unwrap_or_default().trim();
        let operator = Operator::of(operator, quantity, given).map_err(|why| bad(&why))?;
        let part = Part::named(name).ok_or_else(|| {
            WhatIfError::Unknown(name.to_owned(), parts::nearest(name).join(", "))
        })?;
        let change = Self {
            text: text.to_owned(),
            part,
            operator,
        };
        change.check().map_err(|why| bad(&why))?;
        Ok(change)
    }
}

impl Change {
    /// The change as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether its number fits what it names.
    fn check(&self) -> Result<(), String> {
        let too_much = match self.operator {
            Operator::Times(factor) => factor > MOST_TIMES,
            Operator::Set(to) | Operator::Add(to) => to.value > MOST_BYTES,
        };
        if too_much && matches!(self.part, Part::Memory | Part::Cache) {
            return Err(format!(
                "no machine has so much memory, expected at most 1 EiB, or {MOST_TIMES} times what is there"
            ));
        }
        let (Operator::Set(by) | Operator::Add(by)) = self.operator else {
            return Ok(());
        };
        match &self.part {
            // 5 of a time and of a rate are not the same.
            Part::Metrics(metrics) | Part::Group(metrics)
                if by.dimension == Dimension::None && !of_one_unit(metrics) =>
            {
                Err(
                    "its metrics are in several units, expected a factor or a number with its unit"
                        .to_owned(),
                )
            }
            Part::Metrics(metrics) | Part::Group(metrics) => {
                let misfit = |id: &&MetricId| by.in_unit(id.unit()).is_none();
                if let Some(id) = metrics.iter().find(misfit) {
                    return Err(misfit_text(*id, by.dimension));
                }
                let is_set = matches!(self.operator, Operator::Set(_));
                let rate = metrics.iter().find(|id| id.unit().is_rate());
                match rate.filter(|_| is_set && by.value <= 0.0) {
                    Some(id) => Err(format!(
                        "at a rate of zero {id} would never end, expected more, such as {id}=8M/s"
                    )),
                    None => Ok(()),
                }
            }
            Part::Memory | Part::Cache if by.dimension == Dimension::Size => Ok(()),
            Part::Memory | Part::Cache => Err(format!(
                "{} is given for a size, expected one such as 8G, or a factor such as *2",
                by.dimension.what()
            )),
            Part::Disk | Part::Seek | Part::Bandwidth => Err(format!(
                "{} is given for a factor, expected one, such as disk*2 or disk.seek*0.5",
                by.dimension.what()
            )),
        }
    }

    /// Applies it to what the vector holds. A metric does not fall below zero, and a rate not to zero.
    pub fn apply(&self, vector: &mut SystemVector) -> Applied {
        let factor = match self.operator {
            Operator::Times(factor) => factor,
            Operator::Set(_) | Operator::Add(_) => 1.0,
        };
        match &self.part {
            Part::Metrics(metrics) => self.metrics(metrics, false, vector),
            Part::Group(metrics) => self.metrics(metrics, true, vector),
            Part::Memory => self.memory(vector, true),
            Part::Cache => self.memory(vector, false),
            Part::Disk => device(
                vector,
                |v| parts::speed_up(v, factor),
                format!("a device {} times as fast", number(factor)),
            ),
            Part::Seek => device(
                vector,
                |v| parts::reach(v, factor, 1.0),
                format!(
                    "{} times the time to get to a place on the device",
                    number(factor)
                ),
            ),
            Part::Bandwidth => device(
                vector,
                |v| parts::reach(v, 1.0, 1.0 / factor),
                format!(
                    "a device that moves data at {} times the rate",
                    number(factor)
                ),
            ),
        }
    }

    fn metrics(&self, metrics: &[MetricId], times: bool, vector: &mut SystemVector) -> Applied {
        let mut applied = Applied::default();
        let mut without_rate = Vec::new();
        for &id in metrics {
            let (Some(slot), Some(now)) = (vector.slots().slot(id), vector.get(id)) else {
                continue;
            };
            let by = |q: Quantity| q.in_unit(id.unit()).unwrap_or(q.value);
            let size = ["BC", "DNLC", "MDC"].contains(&id.family().row().stem);
            if size && now.lower_bound && !matches!(self.operator, Operator::Set(_)) {
                applied.nothing = Some(format!(
                    "{id} was not measured to its end, and everything is taken to fit; give a size, \
                     such as {id}=…"
                ));
                continue;
            }
            let to = match self.operator {
                Operator::Times(factor) if times && id.unit().is_rate() => now.value / factor,
                Operator::Times(factor) => now.value * factor,
                Operator::Set(to) => by(to),
                Operator::Add(more) => (now.value + by(more)).max(0.0),
            };
            if id.unit().is_rate() && to <= 0.0 {
                without_rate.push((id, now.value));
                continue;
            }
            vector.change(slot, to);
            if size {
                // Who names a size means it, also where the search for it was cut short.
                vector.size(id.family().row().stem, to);
                applied.sizes = true;
            }
            applied.metrics.push(id);
        }
        applied.meaning = match applied.metrics.as_slice() {
            [] => "no metric".to_owned(),
            [one] => format!("{one}: {}", one.family().row().what),
            [first, ..] => format!("{} metrics such as {first}", applied.metrics.len()),
        };
        match (without_rate.as_slice(), applied.metrics.is_empty()) {
            ([], true) if applied.nothing.is_none() => {
                applied.nothing = Some("none of its metrics was measured".to_owned());
            }
            ([(id, now), ..], true) => {
                let (unit, stem) = (id.unit().name(), id.family().row().stem);
                applied.nothing = Some(format!(
                    "{id} is {now} {unit}, and with so much less no rate is left; expected less than \
                     that, or a divisor such as {stem}/2"
                ));
            }
            (stay @ [(id, _), ..], false) => {
                let more = stay.len();
                let _ = write!(
                    applied.meaning,
                    "; {more} such as {id} stay, as no rate would be left"
                );
            }
            _ => {}
        }
        applied
    }

    /// Room to cache in. What was measured as a lower bound is known to be at most the memory.
    fn memory(&self, vector: &mut SystemVector, names: bool) -> Applied {
        let kib = |bytes: f64| bytes / 1024.0;
        let memory = vector.machine.memory_bytes.map(|bytes| kib(bytes as f64));
        let pages = vector.named("BC");
        let measured = pages.filter(|e| !e.lower_bound).map(|e| e.value);
        let base = if names { memory } else { measured.or(memory) };
        let base = base.or(measured);
        let wanted = match (self.operator, base) {
            (Operator::Times(factor), Some(base)) => base * factor,
            (Operator::Set(to), _) => kib(to.value),
            (Operator::Add(more), Some(base)) if base + kib(more.value) < 0.0 => {
                return Applied {
                    meaning: "room to cache in".to_owned(),
                    nothing: Some(format!(
                        "there is only {} to take it from; expected less than that, or a divisor such \
                         as memory/2",
                        size_text(base * 1024.0)
                    )),
                    ..Applied::default()
                };
            }
            (Operator::Add(more), Some(base)) => base + kib(more.value),
            _ => {
                return Applied {
                    meaning: "room to cache in".to_owned(),
                    nothing: Some(
                        "the profile tells neither its memory nor the size of its page cache; give \
                         a size, such as memory=8G"
                            .to_owned(),
                    ),
                    ..Applied::default()
                };
            }
        };
        let scale = base.filter(|&b| b > 0.0).map(|b| wanted / b);
        // Of the memory the page cache gets the share that it was measured to get.
        let to = match (measured, scale) {
            (Some(measured), Some(scale)) if names => measured * scale,
            _ => wanted,
        };
        vector.size("BC", to.floor());
        if names && let Some(scale) = scale {
            for name in ["DNLC", "MDC"] {
                if let Some(e) = vector.named(name).filter(|e| !e.lower_bound) {
                    vector.size(name, (e.value * scale).floor());
                }
            }
        }
        let before = measured.map_or_else(
            || "not measured to its end".to_owned(),
            |kib| size_text(kib * 1024.0),
        );
        Applied {
            metrics: Vec::new(),
            sizes: true,
            meaning: format!(
                "a page cache of {}, before {before}",
                size_text(to * 1024.0)
            ),
            nothing: None,
        }
    }
}

/// That a metric counts something else.
fn misfit_text(id: MetricId, given: Dimension) -> String {
    let expected = match id.unit() {
        Unit::Ns | Unit::Seconds => "a time such as 50us",
        Unit::KibPerS => "a rate such as 8M/s",
        Unit::Kib | Unit::Bytes => "a size such as 8M",
        Unit::Count | Unit::Ratio | Unit::OpsPerS => "a number without a unit",
    };
    let (what, unit) = (given.what(), id.unit().name());
    format!("{what} is given for {id}, which is in {unit}, expected {expected}")
}

fn of_one_unit(metrics: &[MetricId]) -> bool {
    let mut units = metrics.iter().map(|id| id.unit());
    let first = units.next();
    units.all(|unit| Some(unit) == first)
}

fn device(
    vector: &mut SystemVector,
    change: impl FnOnce(&mut SystemVector) -> usize,
    meaning: String,
) -> Applied {
    let before = vector.clone();
    let changed = change(vector);
    let ids = vector
        .slots()
        .iter()
        .filter(|&(slot, _)| vector.at(slot) != before.at(slot));
    Applied {
        metrics: ids.map(|(_, id)| id).collect(),
        sizes: false,
        meaning,
        nothing: (changed == 0).then(|| "no metric of the device was measured".to_owned()),
    }
}

fn number(factor: f64) -> String {
    if (1e-3..1e6).contains(&factor) {
        factor.to_string()
    } else {
        format!("{factor:e}")
    }
}

fn size_text(bytes: f64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let (unit, shift) = units
        .into_iter()
        .find(|&(_, shift)| bytes >= f64::from(1u32 << shift))
        .unwrap_or(("KiB", 10));
    let value = bytes / f64::from(1u32 << shift);
    if value >= 100.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
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
        for (bad, unit) in [("STAT=50parsec", "'parsec'"), ("memory=8X", "'X'")] {
            let error = bad.parse::<Change>().unwrap_err().to_string();
            assert!(error.contains(unit), "{error}");
        }
        assert!(matches!(
            "NOPE*2".parse::<Change>(),
            Err(WhatIfError::Unknown(..))
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

    #[test]
    fn units_are_those_of_the_metric_or_of_its_kind() {
        assert_eq!(after("STAT=50us", "STAT"), 50_000.0);
        assert_eq!(after("RDC=8M/s", "RDC"), 8192.0);
        assert_eq!(after("stat*2", "STAT_G10"), 1400.0);
        // Of a group, times are meant.
        assert_eq!(after("read*2", "RDC"), 500.0);
        for bad in [
            "STAT=8G",
            "STAT*8us",
            "memory=8",
            "memory=8us",
            "memory*1e300",
            "cache=1e30G",
            "disk=8G",
            "fsync=4M",
            // 5 ns of some, 5 KiB/s of others.
            "read=5",
            "read+5",
            "R*=5",
        ] {
            let refused = bad.parse::<Change>();
            assert!(
                matches!(refused, Err(WhatIfError::Value(..))),
                "{bad} {refused:?}"
            );
        }
    }

    #[test]
    fn what_is_refused_is_named_with_what_is_expected() {
        for (bad, said) in [
            ("RDC*inf", "inf is no finite number, expected one"),
            ("RDC=NaN", "NaN is no finite number, expected one"),
            ("STAT=1e305s", "1e305s is no finite number, expected one"),
            ("RDC*0", "0 is no factor, expected one greater than zero"),
            ("RDC*-2", "-2 is no factor, expected one greater than zero"),
            ("RDC/0", "0 is no divisor, expected one greater than zero"),
            // One over it is none.
            ("RDC/1e-320", "1e-320 is no divisor, expected one greater"),
            (
                "STAT*8us",
                "8us is a time, expected a factor without a unit",
            ),
            ("RDC/8M/s", "8M/s is a rate, expected a divisor without"),
            ("RDC=-1", "-1 is less than zero"),
            (
                "RDC=0",
                "at a rate of zero RDC would never end, expected more",
            ),
            ("STAT=8G", "a size is given for STAT"),
            ("STAT=8G", "in ns, expected a time such as 50us"),
            ("RDC=8G", "in KiB/s, expected a rate such as 8M/s"),
            ("BC=8us", "in KiB, expected a size such as 8M"),
            (
                "memory=8us",
                "a time is given for a size, expected one such",
            ),
            ("memory=8", "a number without a unit is given for a size"),
            ("memory*1e300", "expected at most 1 EiB, or 1000000 times"),
            ("disk=8G", "a size is given for a factor, expected one"),
        ] {
            let error = bad.parse::<Change>().unwrap_err().to_string();
            assert!(error.contains(said), "{bad}: {error}");
            assert!(error.contains(&format!("'{bad}'")), "{bad}: {error}");
        }
    }

    #[test]
    fn more_than_there_is_cannot_be_taken_away() {
        let applied = |change: &str, v: &mut SystemVector| {
            let change: Change = change.parse().unwrap();
            change.apply(v)
        };
        let mut v = vector();
        let all = applied("RDC-900000000G/s", &mut v);
        let why = all.nothing.unwrap();
        assert!(why.contains("RDC is 1000 KiB/s"), "{why}");
        assert!(why.contains("expected less than that"), "{why}");
        assert_eq!(v.named("RDC").unwrap().value, 1000.0);
        // Some of a family.
        let part = applied("RRD-20", &mut v);
        assert_eq!(part.nothing, None);
        let stays = "RRD64: ";
        assert!(part.meaning.starts_with(stays), "{}", part.meaning);
        let stays = "; 1 such as RRD4 stay, as no rate would be left";
        assert!(part.meaning.ends_with(stays), "{}", part.meaning);
        // What was not measured is still that.
        let none = applied("WRC-900000000G/s", &mut v).nothing.unwrap();
        assert_eq!(none, "none of its metrics was measured");
        let mut v = machine(Some((1_048_576.0, false)), Some(4 << 30));
        for (change, there) in [("memory-900G", "4.0 GiB"), ("cache-1e30G", "1.0 GiB")] {
            let why = applied(change, &mut v).nothing.unwrap();
            assert!(why.contains(&format!("only {there}")), "{change}: {why}");
            assert_eq!(v.named("BC").unwrap().value, 1_048_576.0);
        }
    }

    #[test]
    fn a_rate_that_is_nearly_none_has_a_cost() {
        for change in ["RDC*1e-320", "read*1e300"] {
            let mut v = vector();
            change.parse::<Change>().unwrap().apply(&mut v);
            let rate = v.named("RDC").unwrap().value;
            assert!(rate > 0.0 && (1e9 / rate).is_finite(), "{change}: {rate:e}");
        }
    }

    #[test]
    fn unknown_names_tell_the_nearest() {
        let reported = |text: &str| text.parse::<Change>().unwrap_err().to_string();
        assert!(
            reported("memroy*2").contains("memory"),
            "{}",
            reported("memroy*2")
        );
        assert!(
            reported("STATS*2").contains("STAT"),
            "{}",
            reported("STATS*2")
        );
    }

    #[test]
    fn huge_factors_stay_finite() {
        let mut v = vector();
        for _ in 0..3 {
            "STAT*1e300".parse::<Change>().unwrap().apply(&mut v);
        }
        let stat = v.named("STAT").unwrap();
        assert!(stat.value.is_finite() && stat.value <= 1e24);
    }

    fn machine(cache: Option<(f64, bool)>, memory_bytes: Option<u64>) -> SystemVector {
        let mut v = SystemVector::new("s", []);
        v.machine.memory_bytes = memory_bytes;
        if let Some((kib, lower_bound)) = cache {
            let id = MetricId::parse("BC").unwrap();
            let mut size = crate::cost::Estimate::exact(kib);
            size.lower_bound = lower_bound;
            v.set(id, size);
        }
        v
    }

    #[test]
    fn memory_is_the_page_cache_in_proportion() {
        const G: u64 = 1 << 30;
        let to = |change: &str, mut v: SystemVector| {
            let applied = change.parse::<Change>().unwrap().apply(&mut v);
            let size = v.named("BC").map(|e| (e.value, e.lower_bound));
            (size, applied.nothing.is_some())
        };
        let exact = || machine(Some((3.0 * 1_048_576.0, false)), Some(4 * G));
        assert_eq!(to("memory*2", exact()).0, Some((6.0 * 1_048_576.0, false)));
        assert_eq!(to("memory=8G", exact()).0, Some((6.0 * 1_048_576.0, false)));
        assert_eq!(to("memory+4G", exact()).0, Some((6.0 * 1_048_576.0, false)));
        assert_eq!(to("cache=8G", exact()).0, Some((8.0 * 1_048_576.0, false)));
        assert_eq!(to("cache*2", exact()).0, Some((6.0 * 1_048_576.0, false)));
        // Not measured to its end: at most all of the memory.
        let bound = || machine(Some((1000.0, true)), Some(4 * G));
        assert_eq!(to("memory/2", bound()).0, Some((2.0 * 1_048_576.0, false)));
        assert_eq!(to("BC*2", bound()), (Some((1000.0, true)), true));
        assert_eq!(to("BC=2M", bound()).0, Some((2048.0, false)));
        let unknown = || machine(Some((1000.0, true)), None);
        assert_eq!(to("memory*2", unknown()), (Some((1000.0, true)), true));
        assert_eq!(
            to("memory=8G", unknown()).0,
            Some((8.0 * 1_048_576.0, false))
        );
    }
}
