//! Several profiles of one target as one.
//!
//! Cached calls differ more between instances of the same file system than within one, so a target
//! may be profiled more than once, each time on a file system of its own.

use std::collections::BTreeMap;

use fsage_format::profile::{Absent, MetricValue, SystemProfile};

/// One profile of several of the same target: estimates are means over the instances, intervals
/// cover all of theirs, samples stand one after the other. `None` for no profiles.
pub fn merge(profiles: Vec<SystemProfile>) -> Option<SystemProfile> {
    let count = profiles.len();
    let mut profiles = profiles.into_iter();
    let mut merged = profiles.next()?;
    if count == 1 {
        return Some(merged);
    }
    let mut values: BTreeMap<String, Vec<MetricValue>> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    let mut absent: BTreeMap<String, Absent> = BTreeMap::new();
    let rest: Vec<SystemProfile> = profiles.collect();
    for profile in &rest {
        // One that is not whole is a part of the whole that they make.
        merged.incomplete = merged.incomplete.or_else(|| profile.incomplete.clone());
        merged
            .disturbances
            .extend(profile.disturbances.iter().cloned());
    }
    let first_metrics = std::mem::take(&mut merged.metrics);
    let first_absent = std::mem::take(&mut merged.absent);
    merged.measurement.reference_ns = mean_ns(
        std::iter::once(merged.measurement.reference_ns)
            .chain(rest.iter().map(|p| p.measurement.reference_ns)),
    );
    let rest = rest.into_iter().map(|p| (p.metrics, p.absent));
    for (metrics, missing) in std::iter::once((first_metrics, first_absent)).chain(rest) {
        for value in metrics {
            if !values.contains_key(&value.name) {
                order.push(value.name.clone());
            }
            values.entry(value.name.clone()).or_default().push(value);
        }
        for entry in missing {
            absent.insert(entry.name.clone(), entry);
        }
    }
    merged.metrics = order
        .iter()
        .filter_map(|name| values.remove(name))
        .filter_map(one)
        .collect();
    let measured = |name: &String| merged.metrics.iter().any(|m| &m.name == name);
    merged.absent = absent
        .into_values()
        .filter(|a| !measured(&a.name))
        .collect();
    merged.measurement.instances = u32::try_from(count).ok();
    Some(merged)
}

/// The mean; unknown of one, unknown of all together.
fn mean_ns(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let all: Vec<f64> = values
        .map(|ns| ns.map(|ns| ns as f64))
        .collect::<Option<_>>()?;
    Some(fsage_stats::mean(&all) as u64)
}

fn one(values: Vec<MetricValue>) -> Option<MetricValue> {
    let mean =
        |f: fn(&MetricValue) -> f64| fsage_stats::mean(&values.iter().map(f).collect::<Vec<_>>());
    let estimate = mean(|v| v.estimate);
    // Unknown of one instance, unknown of all together.
    let intervals: Option<Vec<(f64, f64)>> = values.iter().map(MetricValue::interval).collect();
    let (low, high) = intervals
        .map(|all| {
            all.iter().fold((f64::INFINITY, 0.0f64), |(low, high), i| {
                (low.min(i.0), high.max(i.1))
            })
        })
        .unzip();
    let (mean, median) = (mean(|v| v.mean), mean(|v| v.median));
    let runs = values.iter().map(|v| v.runs).sum();
    let preempted = values.iter().map(|v| v.preempted).sum();
    let lower_bound = values.iter().any(|v| v.lower_bound);
    let samples: Vec<f64> = values
        .iter()
        .flat_map(|v| v.samples.iter().copied())
        .collect();
    let mut marks: Vec<String> = values
        .iter()
        .flat_map(|v| v.marks.iter().cloned())
        .collect();
    marks.sort();
    marks.dedup();
    let reference_ns = mean_ns(values.iter().map(|v| v.reference_ns));
    let first = values.into_iter().next()?;
    Some(MetricValue {
        estimate,
        low,
        high,
        mean,
        median,
        runs,
        preempted,
        lower_bound,
        samples,
        marks,
        reference_ns,
        quantiles: Vec::new(),
        ..first
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_format::profile::Environment;

    fn profile(estimate: f64) -> SystemProfile {
        let mut profile = SystemProfile::new("x", Environment::default());
        profile.metrics.push(MetricValue {
            name: "STAT".into(),
            unit: "ns".into(),
            estimate,
            low: Some(estimate - 1.0),
            high: Some(estimate + 1.0),
            mean: estimate,
            median: estimate,
            runs: 10,
            samples: vec![estimate],
            ..MetricValue::default()
        });
        profile
    }

    #[test]
    fn what_is_to_be_doubted_of_one_is_to_be_doubted_of_all() {
        let mut second = profile(20.0);
        second.incomplete = Some("interrupted".into());
        second.metrics[0].marks = vec!["disturbed".into()];
        (second.metrics[0].low, second.metrics[0].high) = (None, None);
        let merged = merge(vec![profile(10.0), second]).unwrap();
        assert_eq!(merged.incomplete_reason(), Some("interrupted"));
        let stat = merged.get("STAT").unwrap();
        assert_eq!((stat.interval(), stat.marks.len()), (None, 1));
    }

    #[test]
    fn estimates_are_means_and_intervals_cover_all() {
        let mut second = profile(20.0);
        second.absent.push(Absent {
            name: "STAT".into(),
            reason: "x".into(),
        });
        second.absent.push(Absent {
            name: "BC".into(),
            reason: "y".into(),
        });
        let merged = merge(vec![profile(10.0), second]).unwrap();
        let stat = merged.get("STAT").unwrap();
        assert_eq!(
            (stat.estimate, stat.low, stat.high, stat.runs),
            (15.0, Some(9.0), Some(21.0), 20)
        );
        assert_eq!(stat.samples, [10.0, 20.0]);
        assert_eq!(
            merged.absent.len(),
            1,
            "what one instance measured is not absent"
        );
        assert!(merge(vec![]).is_none());
    }
}
