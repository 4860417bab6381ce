//! A point of a series is held against those beside it: a larger request does not take a fraction of the
//! time of a smaller one.

use std::collections::BTreeMap;

use fsage_core::metric::{MetricId, Unit};

use crate::measurements::Measurements;

/// How far off a point may be from both of its neighbours, as a factor. Real series have steps, at the
/// size of a block, of a window of read-ahead or of a cache; they rise and fall with their neighbours.
const ODD_TIMES: f64 = 4.0;
/// The same of the first and the last of rates, which have one neighbour: a step may lie there. What is a time
/// may begin with a case of its own: an fsync of nothing, a write of less than a page.
const ODD_TIMES_AT_END: f64 = 8.0;

/// The points of these metrics that do not go with their neighbours, and what is to be said of each.
pub(crate) fn odd(measurements: &Measurements, ids: &[MetricId]) -> Vec<(MetricId, String)> {
    let mut series: BTreeMap<_, Vec<(MetricId, f64)>> = BTreeMap::new();
    for &id in ids {
        let key = (id.family().row().stem, id.gap());
        let point = request_ns(measurements, id).map(|ns| (id, ns));
        series.entry(key).or_default().extend(point);
    }
    let mut found = Vec::new();
    for points in series.values_mut() {
        points.sort_by_key(|(id, _)| id.point());
        found.extend(of_series(points));
    }
    found
}

/// What one request of a point takes, in nanoseconds; `None` where that is not what it says.
fn request_ns(measurements: &Measurements, id: MetricId) -> Option<f64> {
    let point = f64::from(id.point()?);
    let estimate = measurements.estimate(id)?;
    match id.unit() {
        Unit::Ns => Some(estimate),
        Unit::KibPerS => Some(point * 1e9 / estimate.max(f64::MIN_POSITIVE)),
        _ => None,
    }
}

fn of_series(series: &[(MetricId, f64)]) -> Vec<(MetricId, String)> {
    let at = |index: Option<usize>| series.get(index?).map(|&(_, ns)| ns);
    let judged = series.iter().enumerate().filter_map(|(index, &(id, ns))| {
        let before = at(index.checked_sub(1));
        let after = at(Some(index + 1));
        let (least, most, times) = match (before, after) {
            (Some(a), Some(c)) => (a.min(c), a.max(c), ODD_TIMES),
            (one, None) | (None, one) if id.unit() == Unit::KibPerS => {
                (one?, one?, ODD_TIMES_AT_END)
            }
            _ => return None,
        };
        let odd = ns > times * most || ns < least / times;
        odd.then(|| (id, words(ns, before, after)))
    });
    judged.collect()
}

fn words(ns: f64, before: Option<f64>, after: Option<f64>) -> String {
    let us = |ns: f64| format!("{:.1} us", ns / 1e3);
    let beside: Vec<String> = before.into_iter().chain(after).map(us).collect();
    let sizes = if beside.len() > 1 { "sizes" } else { "size" };
    let beside = beside.join(" and ");
    format!(
        "a request takes {}, but {beside} at the {sizes} beside it",
        us(ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(stem: &str, ns: &[f64]) -> Vec<(MetricId, f64)> {
        let ids = fsage_core::metric::family(stem).unwrap().metrics();
        ids.zip(ns.iter().copied()).collect()
    }

    #[test]
    fn a_read_of_16_kib_is_not_twenty_times_as_fast_as_one_of_8() {
        let mut ns: Vec<f64> = (0..13).map(|power| 40e3 * 1.5f64.powi(power)).collect();
        assert_eq!(of_series(&series("RD", &ns)), []);
        ns[4] = 3.1e3;
        let odd = of_series(&series("RD", &ns));
        assert_eq!(odd.len(), 1);
        assert_eq!(odd[0].0.to_string(), "RD16");
        assert!(odd[0].1.contains("takes 3.1 us"), "{}", odd[0].1);
    }

    #[test]
    fn the_first_has_one_neighbour() {
        let odd = of_series(&series("RD", &[345.0, 14_500.0, 15e3, 16e3]));
        assert_eq!(odd.len(), 1);
        assert_eq!(odd[0].0.to_string(), "RD1");
        assert!(
            odd[0].1.ends_with("but 14.5 us at the size beside it"),
            "{}",
            odd[0].1
        );
        assert_eq!(of_series(&series("RD", &[345.0])), []);
        assert_eq!(of_series(&series("FSY", &[100.0, 364e3, 370e3])), []);
    }

    #[test]
    fn a_step_is_no_oddity() {
        assert_eq!(of_series(&series("RD", &[1.0, 1.0, 90.0, 95.0, 700.0])), []);
    }
}
