//! Where the time goes: by kind of operation, by metric, by family, and what would help.

use fsage_core::OpKind;
use fsage_core::metric::FamilyId;

use crate::certainty;
use crate::cost::SystemVector;
use crate::cost::ledger::dot;
use crate::elapsed::Replay;
use crate::result::{FamilyShare, Help, KindPrediction, MetricShare};
use crate::run::Target;
use crate::whatif::{Change, parts};

/// Changes that are told to help.
const HELPS: usize = 3;

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

/// By family, the largest first; the shares add up to 1.
pub fn families(weights: &[f64], vector: &SystemVector) -> Vec<FamilyShare> {
    let mut sums: Vec<(FamilyId, f64)> = Vec::new();
    for ((slot, id), &weight) in vector.slots().iter().zip(weights) {
        let time_ns = weight * vector.unit_cost_ns(slot);
        match sums.last_mut() {
            Some((family, sum)) if *family == id.family() => *sum += time_ns,
            _ => sums.push((id.family(), time_ns)),
        }
    }
    sums.retain(|&(_, time_ns)| time_ns != 0.0);
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let positive: f64 = sums.iter().map(|s| s.1.max(0.0)).sum();
    sums.into_iter()
        .map(|(family, time_ns)| FamilyShare {
            family: family.row().stem.to_owned(),
            what: family.row().what.to_owned(),
            time_ns,
            share: share(time_ns, positive),
        })
        .collect()
}

/// What would save most: each group of metrics in half the time, and a device twice as fast, each
/// alone. Totals are linear in the metrics, so that no pass is needed.
pub fn helps(weights: &[f64], vector: &SystemVector, total: f64) -> Vec<Help> {
    let (now, _) = dot(weights, vector);
    let groups = parts::groups().map(|name| (format!("{name}*0.5"), half(name)));
    let device = ("disk*2".to_owned(), "a device twice as fast".to_owned());
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
            })
        })
        .filter(|help| help.saves_ns > 0.0)
        .collect();
    all.sort_by(|a, b| b.saves_ns.total_cmp(&a.saves_ns));
    all.truncate(HELPS);
    all
}

fn half(group: &str) -> String {
    format!("{group} in half the time")
}

/// The share of the time that stands on metrics whose interval is unknown, and these, those that hold
/// a hundredth of it and more, the largest first.
pub fn unknown(weights: &[f64], vector: &SystemVector) -> (f64, Vec<String>) {
    let mut total = 0.0;
    let mut of_unknown = Vec::new();
    for ((slot, id), &weight) in vector.slots().iter().zip(weights) {
        let time_ns = (weight * vector.unit_cost_ns(slot)).max(0.0);
        total += time_ns;
        if time_ns > 0.0 && vector.at(slot).is_some_and(|e| e.unknown) {
            of_unknown.push((time_ns, id.to_string()));
        }
    }
    of_unknown.sort_by(|a, b| b.0.total_cmp(&a.0));
    let sum = share(of_unknown.iter().map(|u| u.0).sum(), total);
    let large = of_unknown.into_iter().filter(|u| u.0 >= 0.01 * total);
    (sum, large.map(|u| u.1).collect())
}
