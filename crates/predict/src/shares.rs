//! Where the time goes: by kind of operation, by metric, by family, and what would help.

use fsage_core::OpKind;
use fsage_core::metric::{FamilyId, MetricId};

use crate::certainty;
use crate::cost::ledger::dot;
use crate::cost::{Slot, SystemVector};
use crate::elapsed::Replay;
use crate::result::{FamilyShare, Help, KindPrediction, MetricShare};
use crate::run::Target;
use crate::whatif::{Change, parts};

/// Costs of reads and lookups by how files lie to those before.
const BY_PLACE: [&str; 8] = [
    "RFN", "RFS", "RFF", "RFO", "LUS_NC", "LUN_NC", "LUF_NC", "LUR_NC",
];

/// Changes that are told to help, and one that always is if it does.
const HELPS: usize = 3;
const DEVICE: &str = "disk*2";

/// A part of a whole, 0 to 1.
pub fn share(part: f64, total: f64) -> f64 {
    if total > 0.0 {
        (part / total).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// By kind of operation; `half` is that of the total's interval by the model alone.
pub fn kinds(target: &Target, replayed: &Replay, total: f64, model: f64) -> Vec<KindPrediction> {
    OpKind::ALL
        .iter()
        .filter(|&&kind| target.ledger.count(kind) > 0)
        .map(|&kind| {
            let (alone_ns, error) = dot(target.ledger.weights(kind), &target.vector);
            let waiting_ns = replayed.waited_ns(kind);
            let latency_ns = alone_ns + waiting_ns;
            let profile = certainty::Z_95 * certainty::log_error(latency_ns, error);
            KindPrediction {
                kind: kind.name().to_owned(),
                count: target.ledger.count(kind),
                latency_ns,
                waiting_ns,
                processor_wait_ns: replayed.queued_ns(kind),
                interval_ns: certainty::interval(latency_ns, model.hypot(profile)),
                share: share(latency_ns, total),
            }
        })
        .collect()
}

/// By metric, the largest first.
pub fn metrics(weights: &[f64], vector: &SystemVector) -> Vec<MetricShare> {
    let mut all: Vec<MetricShare> = vector
        .slots()
        .iter()
        .zip(weights)
        .filter(|&(_, &weight)| weight != 0.0)
        .map(|((slot, id), &weight)| MetricShare {
            name: id.to_string(),
            what: id.words(),
            weight,
            time_ns: weight * vector.unit_cost_ns(slot),
            share: 0.0,
        })
        .collect();
    // A line that is extended beyond the sizes that were measured has a weight below 0 at one end.
    let positive: f64 = all.iter().map(|m| m.time_ns.max(0.0)).sum();
    for metric in &mut all {
        metric.share = share(metric.time_ns, positive);
    }
    all.sort_by(|a, b| b.time_ns.abs().total_cmp(&a.time_ns.abs()));
    all
}

/// By family, the largest first; the times add up to the sum of all, the shares to 1.
pub fn families(weights: &[f64], vector: &SystemVector) -> Vec<FamilyShare> {
    let mut sums: Vec<(FamilyId, f64)> = Vec::new();
    for ((slot, id), &weight) in vector.slots().iter().zip(weights) {
        let time_ns = weight * vector.unit_cost_ns(slot);
        match sums.last_mut() {
            Some((family, sum)) if *family == id.family() => *sum += time_ns,
            _ => sums.push((id.family(), time_ns)),
        }
    }
    deduct(&mut sums);
    sums.retain(|&(_, time_ns)| time_ns > 0.0);
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let total: f64 = sums.iter().map(|s| s.1).sum();
    sums.into_iter()
        .map(|(family, time_ns)| FamilyShare {
            family: family.row().stem.to_owned(),
            what: family.row().short.to_owned(),
            time_ns,
            share: share(time_ns, total),
        })
        .collect()
}

/// Takes what families are below 0 from those of their group and, where these have not as much, from all: a line that
/// is extended beyond the sizes that were measured may end in another family than it began.
fn deduct(sums: &mut [(FamilyId, f64)]) {
    for at in 0..sums.len() {
        let Some(&(family, below)) = sums.get(at).filter(|sum| sum.1 < 0.0) else {
            continue;
        };
        let group = parts::group_of(family);
        let left = take(sums, -below, |other| group.contains(&other));
        take(sums, left, |_| true);
        if let Some(sum) = sums.get_mut(at) {
            sum.1 = 0.0;
        }
    }
}

/// Takes so much from the times above 0 of these families, of each in proportion; what they do not have is returned.
fn take(sums: &mut [(FamilyId, f64)], ns: f64, from: impl Fn(FamilyId) -> bool) -> f64 {
    let has = |sum: &(FamilyId, f64)| sum.1 > 0.0 && from(sum.0);
    let all: f64 = sums.iter().filter(|sum| has(sum)).map(|sum| sum.1).sum();
    if all <= 0.0 {
        return ns;
    }
    let left = (1.0 - ns / all).max(0.0);
    for sum in sums.iter_mut().filter(|sum| has(sum)) {
        sum.1 *= left;
    }
    (ns - all).max(0.0)
}

/// What would save most: each group of metrics in half the time, and a device twice as fast, each
/// alone, without what is waited. Sums of calls are linear in the metrics, so that no pass is needed.
pub fn helps(weights: &[f64], vector: &SystemVector, total: f64) -> Vec<Help> {
    let (now, _) = dot(weights, vector);
    let groups = parts::groups().map(|name| (format!("{name}*0.5"), half(name)));
    let device = (DEVICE.to_owned(), "a device twice as fast".to_owned());
    let mut all: Vec<Help> = groups
        .chain(std::iter::once(device))
        .filter_map(|(change, what)| {
            let mut faster = vector.clone();
            let parsed: Change = change.parse().ok()?;
            parsed.apply(&mut faster);
            let saves_ns = now - dot(weights, &faster).0;
            Some(Help {
                change,
                what,
                saves_ns,
                share: share(saves_ns, total),
                elapsed_saved_ns: None,
            })
        })
        .filter(|help| help.saves_ns > 0.0)
        .collect();
    all.sort_by(|a, b| b.saves_ns.total_cmp(&a.saves_ns));
    let rest = all.split_off(HELPS.min(all.len()));
    // Threads that queue for a device gain more than its own time.
    all.extend(rest.into_iter().filter(|help| help.change == DEVICE));
    all
}

fn half(group: &str) -> String {
    format!("{group} in half the time")
}

/// The share of the time that stands on metrics whose interval is unknown, and these, those that hold
/// a hundredth of it and more, the largest first.
pub fn unknown(weights: &[f64], vector: &SystemVector) -> (f64, Vec<String>) {
    let of = |(slot, _): (Slot, MetricId)| vector.at(slot).is_some_and(|e| e.unknown);
    let part = Part::of(weights, vector, of);
    (part.share, part.carrying)
}

/// A part of the metrics that a time stands on.
pub struct Part {
    /// Its share of the time.
    pub share: f64,
    /// Those that hold a hundredth of the time and more, the largest first.
    pub carrying: Vec<String>,
    /// The share of these.
    pub carrying_share: f64,
    /// How many of all metrics hold so much.
    pub of: usize,
}

impl Part {
    /// The metrics that are `which`.
    pub fn of(
        weights: &[f64],
        vector: &SystemVector,
        which: impl Fn((Slot, MetricId)) -> bool,
    ) -> Self {
        let times = vector.slots().iter().zip(weights);
        let times: Vec<_> = times
            .map(|(metric, &weight)| ((weight * vector.unit_cost_ns(metric.0)).max(0.0), metric))
            .filter(|time| time.0 > 0.0)
            .collect();
        let total: f64 = times.iter().map(|t| t.0).sum();
        let carries = |t: &&(f64, (Slot, MetricId))| t.0 >= 0.01 * total;
        let mut part: Vec<_> = times.iter().filter(|t| which(t.1)).collect();
        part.sort_by(|a, b| b.0.total_cmp(&a.0));
        let carrying = part.iter().copied().filter(carries);
        Self {
            share: share(part.iter().fold(0.0, |sum, t| sum + t.0), total),
            carrying_share: share(carrying.fold(0.0, |sum, t| sum + t.0), total),
            carrying: part
                .into_iter()
                .filter(carries)
                .map(|t| t.1.1.to_string())
                .collect(),
            of: times.iter().filter(carries).count(),
        }
    }
}

/// The share of the time that hangs on where files lie to each other, and its families.
pub fn by_place(weights: &[f64], vector: &SystemVector) -> (f64, Vec<&'static str>) {
    let of = |(_, id): (Slot, MetricId)| BY_PLACE.contains(&id.family().row().stem);
    let part = Part::of(weights, vector, of);
    let named = part.carrying.iter();
    (
        part.share,
        named
            .filter_map(|name| Some(MetricId::parse(name)?.family().row().stem))
            .collect(),
    )
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "exact by construction"
)]
mod tests {
    use super::*;
    use fsage_core::metric::family;

    fn deducted(sums: &[(&str, f64)]) -> Vec<f64> {
        let mut sums: Vec<_> = sums.iter().map(|s| (family(s.0).unwrap(), s.1)).collect();
        deduct(&mut sums);
        sums.into_iter().map(|sum| sum.1).collect()
    }

    #[test]
    fn what_is_deducted_is_taken_from_its_group_first() {
        let sums = [("WE", 60.0), ("WD", -20.0), ("WN", 20.0), ("CR", 40.0)];
        assert_eq!(deducted(&sums), [45.0, 0.0, 15.0, 40.0]);
        // More than the group has: the rest from all others.
        let sums = [("WE", 10.0), ("WD", -30.0), ("CR", 60.0), ("FSYN", 20.0)];
        assert_eq!(deducted(&sums), [0.0, 0.0, 45.0, 15.0]);
        // Of no group.
        let sums = [("CR", 30.0), ("SYNC", -10.0), ("WD", 10.0)];
        assert_eq!(deducted(&sums), [22.5, 0.0, 7.5]);
        // Nothing to take it from.
        assert_eq!(deducted(&[("WD", -5.0)]), [0.0]);
    }

    #[test]
    fn shares_of_families_are_those_of_the_sum() {
        let id = |name| MetricId::parse(name).unwrap();
        let vector = SystemVector::new(
            "s",
            [("WE1", 10.0), ("WD1", 5.0), ("CR", 20.0)].map(|m| (id(m.0), m.1, m.1, m.1)),
        );
        let mut weights = vec![0.0; vector.slots().iter().count()];
        for (name, weight) in [("WE1", 8.0), ("WD1", -4.0), ("CR", 2.0)] {
            weights[vector.slots().slot(id(name)).unwrap().0 as usize] = weight;
        }
        let found = families(&weights, &vector);
        let shown: Vec<_> = found
            .iter()
            .map(|f| (f.family.as_str(), f.time_ns, f.share))
            .collect();
        assert_eq!(shown, [("WE", 60.0, 0.6), ("CR", 40.0, 0.4)]);
    }
}
