//! A point of a series is held against those beside it: a larger request does not take a fraction of the
//! time of a smaller one.

use std::collections::BTreeMap;

use fsage_core::metric::{MetricId, Unit};

use crate::book::Book;

/// How far off a point may be from both of its neighbours, as a factor. Real series have steps, at the
/// size of a block, of a window of read-ahead or of a cache; they rise and fall with their neighbours.
const ODD_TIMES: f64 = 4.0;

/// The points of these metrics that do not go with their neighbours, and what is to be said of each.
pub(crate) fn odd(book: &Book, ids: &[MetricId]) -> Vec<(MetricId, String)> {
    let mut series: BTreeMap<_, Vec<(MetricId, f64)>> = BTreeMap::new();
    for &id in ids {
        let key = (id.family().row().stem, id.gap());
        let point = request_ns(book, id).map(|ns| (id, ns));
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
fn request_ns(book: &Book, id: MetricId) -> Option<f64> {
    let point = f64::from(id.point()?);
    let estimate = book.estimate(id)?;
    match id.unit() {
        Unit::Ns => Some(estimate),
        Unit::KibPerS => Some(point * 1e9 / estimate.max(f64::MIN_POSITIVE)),
        _ => None,
    }
}

fn of_series(series: &[(MetricId, f64)]) -> Vec<(MetricId, String)> {
    let three = series.windows(3).filter_map(|window| match window {
        [(_, a), (id, b), (_, c)] => {
            let high = *b > ODD_TIMES * a.max(*c);
            let low = *b < a.min(*c) / ODD_TIMES;
            (high || low).then(|| {
                let us = |ns: f64| format!("{:.1} us", ns / 1e3);
                let words = format!(
                    "a request takes {}, but {} and {} at the sizes beside it",
                    us(*b),
                    us(*a),
                    us(*c)
                );
                (*id, words)
            })
        }
        _ => None,
    });
    three.collect()
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
    fn a_step_is_no_oddity() {
        assert_eq!(of_series(&series("RD", &[1.0, 1.0, 90.0, 95.0, 900.0])), []);
    }
}
