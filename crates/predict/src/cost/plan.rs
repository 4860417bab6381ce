//! From what an operation needs to weights of measured metrics.

use fsage_core::metric::{FamilyId, GAPS_US, MetricId, Unit};

use super::fallback::{Term, substitutes, without_device};
use super::gap::Gap;
use super::stem::{Stem, waits_for_device};
use super::vector::{Slot, SystemVector};

/// One thing that an operation asks of the system: so many times this family, of that size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charge {
    /// The family.
    pub stem: Stem,
    /// Pause since the thread's last call of the kind.
    pub gap: Gap,
    /// The size, in the unit of the family's series (KiB, or entries of a directory).
    pub size: f64,
    /// How often.
    pub times: f64,
    /// Whether it costs little because the device is there already: it lies beside the last request.
    pub beside: bool,
}

impl Charge {
    /// Once, without a size.
    pub fn once(stem: Stem, gap: Gap) -> Self {
        Self {
            stem,
            gap,
            size: 0.0,
            times: 1.0,
            beside: false,
        }
    }

    /// Once, of `size`.
    pub fn sized(stem: Stem, gap: Gap, size: f64) -> Self {
        Self {
            stem,
            gap,
            size,
            ..Self::once(stem, gap)
        }
    }

    /// `times` times.
    pub fn many(stem: Stem, gap: Gap, times: f64) -> Self {
        Self {
            stem,
            gap,
            times,
            ..Self::once(stem, gap)
        }
    }
}

type Gaps = [Slot; GAPS_US.len()];

/// A measured size of a series: its cost is `weight` times the metric's unit cost.
#[derive(Debug, Clone, Copy)]
struct Point {
    size: f64,
    weight: f64,
    gaps: Gaps,
}

#[derive(Debug, Clone)]
enum Rule {
    /// Measured; points ascend in size, one point for a scalar. `rate`: a scalar rate, whose weight
    /// is the size. `proportional`: beyond the last point in proportion, because the last segment
    /// falls.
    Measured {
        points: Vec<Point>,
        rate: bool,
        proportional: bool,
    },
    /// Not measured: this sum stands in.
    Substitute(&'static [Term]),
    /// Not measured, and nothing stands in.
    Missing,
}

/// For one system: how each family is charged.
#[derive(Debug, Clone)]
pub struct Plan {
    rules: Vec<Rule>,
}

impl Plan {
    /// The rules that the metrics of `vector` allow.
    pub fn new(vector: &SystemVector) -> Self {
        let mut rules: Vec<Rule> = Stem::ALL
            .iter()
            .map(|&s| measured(vector, s).unwrap_or(Rule::Missing))
            .collect();
        // In rounds, so that a substitute stands on measured families in the end and never on itself.
        loop {
            let known: Vec<bool> = rules.iter().map(|r| !matches!(r, Rule::Missing)).collect();
            // What is taken to be in the costs of others says nothing of what the device takes.
            let nothing = |rule: &Rule| matches!(rule, Rule::Substitute([]));
            let nothing: Vec<bool> = rules.iter().map(nothing).collect();
            let mut found = false;
            for (&stem, rule) in Stem::ALL.iter().zip(&mut rules) {
                let holds = |s: Stem| {
                    let is = |all: &Vec<bool>| all.get(s as usize) == Some(&true);
                    is(&known) && !(stem.mostly_device() && is(&nothing))
                };
                if matches!(rule, Rule::Missing)
                    && let Some(terms) = stand_in(stem, vector.machine.deviceless, &holds)
                {
                    *rule = Rule::Substitute(terms);
                    found = true;
                }
            }
            if !found {
                break;
            }
        }
        Self { rules }
    }

    /// Adds the request vector of `charge` to `out`: (metric, weight), the weight in KiB for rates.
    #[inline]
    pub fn charge(&self, charge: &Charge, out: &mut Vec<(Slot, f64)>) {
        self.charge_deep(charge, out, 0);
    }

    fn charge_deep(&self, charge: &Charge, out: &mut Vec<(Slot, f64)>, depth: u8) {
        match self.rules.get(charge.stem as usize) {
            Some(Rule::Measured {
                points,
                rate,
                proportional,
            }) => {
                self.charge_measured(charge, points, *rate, *proportional, out, depth);
            }
            Some(Rule::Substitute(terms)) if depth < 8 => {
                for term in *terms {
                    let part = match *term {
                        Term::Same(stem) => Charge { stem, ..*charge },
                        Term::Sized(stem, size) => Charge {
                            stem,
                            size,
                            ..*charge
                        },
                        Term::Each(stem, size) => Charge {
                            stem,
                            size: size * charge.times,
                            times: 1.0,
                            ..*charge
                        },
                        Term::Times(stem, times) => Charge {
                            stem,
                            times: times * charge.times,
                            ..*charge
                        },
                    };
                    self.charge_deep(&part, out, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn charge_measured(
        &self,
        charge: &Charge,
        points: &[Point],
        rate: bool,
        proportional: bool,
        out: &mut Vec<(Slot, f64)>,
        depth: u8,
    ) {
        let Some(first) = points.first() else { return };
        if rate {
            push(out, first, charge.gap, charge.times * charge.size);
            return;
        }
        // Families measured with 4 KiB: what follows in the same request arrives in sequence.
        if depth < 8
            && charge.size > 4.0
            && matches!(charge.stem, Stem::RfN | Stem::RfS | Stem::RfF | Stem::RfO)
        {
            let times = charge.times * (charge.size - 4.0) / charge.size;
            self.charge_deep(
                &Charge {
                    stem: Stem::Rd,
                    times,
                    ..*charge
                },
                out,
                depth + 1,
            );
        }
        let after = points.partition_point(|p| p.size < charge.size);
        let (left, right) = match (after, points.get(after)) {
            (_, Some(p)) if after == 0 || p.size <= charge.size => {
                return push(out, p, charge.gap, charge.times * p.weight);
            }
            (i, Some(right)) => (points.get(i - 1), Some(right)),
            (i, None) => match i.checked_sub(2).and_then(|l| points.get(l)) {
                Some(left) if !proportional => (Some(left), points.get(i - 1)),
                _ => (None, points.get(i - 1)),
            },
        };
        match (left, right) {
            (Some(left), Some(right)) => {
                let share = (charge.size - left.size) / (right.size - left.size);
                push(
                    out,
                    left,
                    charge.gap,
                    charge.times * left.weight * (1.0 - share),
                );
                push(out, right, charge.gap, charge.times * right.weight * share);
            }
            (None, Some(last)) => {
                let scale = if last.size > 0.0 && points.len() > 1 {
                    charge.size / last.size
                } else {
                    1.0
                };
                push(out, last, charge.gap, charge.times * last.weight * scale);
            }
            _ => {}
        }
    }

    /// What stands in for a family that was not measured: `None` if it was; an empty text if it is
    /// taken to be in the costs of others.
    pub fn substitute(&self, stem: Stem) -> Option<String> {
        match self.rules.get(stem as usize) {
            Some(Rule::Substitute(terms)) => {
                let names: Vec<&str> = terms.iter().map(|t| t.stem().name()).collect();
                Some(names.join(" + "))
            }
            _ => None,
        }
    }

    /// Whether uses of a family are missing from the totals: it was not measured, and nothing stands in
    /// for it, or on a machine with a device only what never goes there.
    pub fn lacks(&self, stem: Stem, deviceless: bool) -> bool {
        match self.rules.get(stem as usize) {
            Some(Rule::Missing) => true,
            Some(Rule::Substitute(_)) => {
                !deviceless && stem.mostly_device() && !self.reaches_device(stem, 0)
            }
            _ => false,
        }
    }

    /// Whether what is charged for a family is measured at the device, at least in part.
    fn reaches_device(&self, stem: Stem, depth: u8) -> bool {
        match self.rules.get(stem as usize) {
            Some(Rule::Measured { .. }) => stem.at_device(),
            Some(Rule::Substitute(terms)) if depth < 8 => terms
                .iter()
                .any(|term| self.reaches_device(term.stem(), depth + 1)),
            _ => false,
        }
    }
}

#[inline]
fn push(out: &mut Vec<(Slot, f64)>, point: &Point, gap: Gap, weight: f64) {
    let low = gap.low as usize;
    let (Some(&a), b) = (point.gaps.get(low), point.gaps.get(low + 1)) else {
        return;
    };
    match b {
        Some(&b) if gap.share > 0.0 && a != b => {
            out.push((a, weight * f64::from(1.0 - gap.share)));
            out.push((b, weight * f64::from(gap.share)));
        }
        _ => out.push((a, weight)),
    }
}

/// The first substitute all of whose terms can be charged.
fn stand_in(stem: Stem, deviceless: bool, holds: &dyn Fn(Stem) -> bool) -> Option<&'static [Term]> {
    let in_memory = if deviceless {
        without_device(stem)
    } else {
        &[]
    };
    in_memory
        .iter()
        .chain(substitutes(stem))
        .copied()
        .find(|terms| terms.iter().all(|t| holds(t.stem())))
}

/// From how far on a read counts as one anywhere, in KiB.
const FAR_KIB: u64 = 16_384;
/// The size of the read anywhere that stands in for one that far off.
const ANYWHERE_KIB: u32 = 4;

/// The largest distance in KiB that was measured (RX), 0 where none was.
fn farthest_kib(vector: &SystemVector) -> u64 {
    let distances = Stem::Rx.family().into_iter().flat_map(FamilyId::metrics);
    let measured = distances.filter(|&id| vector.get(id).is_some());
    measured
        .filter_map(MetricId::point)
        .max()
        .map_or(0, u64::from)
}

/// A series of distances that ended early (RX) says nothing of what is farther: how far it goes, in KiB, and the metric of a
/// read anywhere, which does.
pub fn cut_short(vector: &SystemVector) -> Option<(u64, MetricId)> {
    let farthest = farthest_kib(vector);
    let anywhere = Stem::RRd.family()?.at(ANYWHERE_KIB)?;
    let known = vector.get(anywhere).is_some_and(|rate| rate.value > 0.0);
    ((1..FAR_KIB).contains(&farthest) && known).then_some((farthest, anywhere))
}

/// How far the distances go of which the cost is known, in KiB.
pub fn far_kib(vector: &SystemVector) -> u64 {
    cut_short(vector).map_or_else(|| farthest_kib(vector), |_| FAR_KIB)
}

fn measured(vector: &SystemVector, stem: Stem) -> Option<Rule> {
    let family = stem.family()?;
    let row = family.row();
    let rate = row.unit == Unit::KibPerS;
    let mut points: Vec<Point> = Vec::new();
    for base in family.metrics().filter(|id| id.gap() == 0) {
        let Some(gaps) = gaps_of(vector, base) else {
            continue;
        };
        let size = base.point().map_or(0.0, f64::from);
        let weight = if rate && base.point().is_some() {
            size
        } else {
            1.0
        };
        // A rate of zero would be an infinite latency.
        if rate && vector.at(gaps[0]).is_none_or(|e| e.value <= 0.0) {
            continue;
        }
        points.push(Point { size, weight, gaps });
    }
    if points.is_empty() {
        return None;
    }
    if stem == Stem::Rx
        && let Some(gaps) = cut_short(vector).and_then(|(_, anywhere)| gaps_of(vector, anywhere))
    {
        points.push(Point {
            size: FAR_KIB as f64,
            weight: f64::from(ANYWHERE_KIB),
            gaps,
        });
    }
    if stem == Stem::Rc
        && points.first().is_some_and(|p| p.size > 0.0)
        && let Some(gaps) = Stem::RdO.family().and_then(|f| gaps_of(vector, f.scalar()))
    {
        points.insert(
            0,
            Point {
                size: 0.0,
                weight: 1.0,
                gaps,
            },
        );
    }
    let cost = |p: &Point| vector.unit_cost_ns(p.gaps[0]) * p.weight;
    let proportional = match points.as_slice() {
        [.., a, b] => cost(b) <= cost(a),
        _ => false,
    };
    Some(Rule::Measured {
        points,
        rate: rate && row.points.is_none(),
        proportional,
    })
}

/// A call that waits for no device and is said to take less than this share after a pause is one whose measurement was disturbed.
const LEAST_AFTER_PAUSE: f64 = 0.5;

/// The metric at each gap; where one was not measured, or cannot be right, the nearest that can.
fn gaps_of(vector: &SystemVector, base: MetricId) -> Option<Gaps> {
    let alone = vector.get(base.with_gap(0)?).map(|e| e.value);
    let alone = alone.filter(|_| !waits_for_device(base.family()));
    let at = |gap: usize| {
        let id = base.with_gap(gap as u8)?;
        let after = vector.get(id)?.value;
        let credible = alone.is_none_or(|alone| after >= alone * LEAST_AFTER_PAUSE);
        vector.slots().slot(id).filter(|_| credible)
    };
    let measured: Vec<Option<Slot>> = (0..GAPS_US.len()).map(at).collect();
    let nearest = |gap: usize| {
        (0..GAPS_US.len())
            .filter_map(|i| {
                measured
                    .get(i)
                    .copied()
                    .flatten()
                    .map(|s| (i.abs_diff(gap), s))
            })
            .min()
            .map(|(_, slot)| slot)
    };
    let mut gaps = [Slot(0); GAPS_US.len()];
    for (gap, place) in gaps.iter_mut().enumerate() {
        *place = nearest(gap)?;
    }
    Some(gaps)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    /// What a charge costs on a system with these metrics.
    fn cost(metrics: &[(&str, f64)], charge: Charge) -> f64 {
        let all = metrics.iter().map(|&(name, value)| {
            let id = MetricId::parse(name).unwrap();
            (id, value, value, value)
        });
        let vector = SystemVector::new("s", all);
        let mut slots = Vec::new();
        Plan::new(&vector).charge(&charge, &mut slots);
        let each = |&(slot, times): &(Slot, f64)| times * vector.unit_cost_ns(slot);
        slots.iter().map(each).sum()
    }

    #[test]
    fn what_is_farther_than_was_measured_is_anywhere() {
        let far = |size| Charge::sized(Stem::Rx, Gap::NONE, size);
        let known = [("RX64", 100.0), ("RRD4", 4e9 / 10_000.0)];
        assert_eq!(cost(&known, far(64.0)), 100.0);
        assert_eq!(cost(&known, far(FAR_KIB as f64)), 10_000.0);
        let whole = [("RX64", 100.0), ("RX16384", 200.0), ("RRD4", 1.0)];
        assert_eq!(cost(&whole, far(FAR_KIB as f64)), 200.0);
        let vector = |known: &[(&str, f64)]| {
            let all = known
                .iter()
                .map(|&(n, v)| (MetricId::parse(n).unwrap(), v, v, v));
            SystemVector::new("s", all)
        };
        assert_eq!(far_kib(&vector(&known)), FAR_KIB);
        assert_eq!(far_kib(&vector(&known[..1])), 64);
        assert_eq!(far_kib(&vector(&whole)), 16_384);
        assert!(cut_short(&vector(&whole)).is_none());
    }

    #[test]
    fn a_sync_of_many_files_costs_blocks_apart_or_else_what_else_is_known() {
        let sync = Charge::once(Stem::SynF, Gap::NONE);
        let known = [("FSYNR", 7.0), ("FDSR", 160.0)];
        assert_eq!([cost(&known, sync), cost(&known[1..], sync)], [7.0, 10.0]);
        assert!(cost(&[("FSY4", 5.0)], sync) > 0.0);
        // Costs of calls may be taken to be in those of others by way of a third.
        let plan = Plan::new(&SystemVector::new("s", []));
        assert!(!plan.lacks(Stem::ObjR, true) && !plan.lacks(Stem::ObjN, true));
    }

    #[test]
    fn a_pause_that_is_said_to_make_a_call_cheap_was_not_measured_right() {
        let rested = Charge::once(Stem::Stat, Gap::LONGEST);
        let (quick, slow) = (
            [("STAT", 10.0), ("STAT_G2000", 1.0)],
            [("STAT", 10.0), ("STAT_G2000", 8.0)],
        );
        assert_eq!([cost(&quick, rested), cost(&slow, rested)], [10.0, 8.0]);
        // A disk may have come round meanwhile.
        let synced = Charge::once(Stem::FsyC, Gap::LONGEST);
        assert_eq!(cost(&[("FSYC", 10.0), ("FSYC_G2000", 1.0)], synced), 1.0);
    }
}
