//! Where a sweep over working-set sizes leaves a cache.

use serde::{Deserialize, Serialize};

/// A step in a sweep: up to `fits` the cost is that of the cache, from `exceeds` on it is not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The largest size on the low level.
    pub fits: f64,
    /// The smallest size above it.
    pub exceeds: f64,
    /// Mean cost on the low level.
    pub low: f64,
    /// Mean cost above it.
    pub high: f64,
    /// Share of the variance of the logarithm of the cost that the step explains, 0 to 1.
    pub explained: f64,
}

/// Finds the step of `(size, cost)` points with costs above 0: the split into two levels of least
/// squared error of the logarithm (a single change point, Hinkley 1970). `None` for fewer than two
/// points, a point that is not positive and finite, or where no split raises the cost by at least
/// the factor `least_rise` (1.5 tells a cache from noise): the sweep lies on one level, so that its
/// largest size is only a lower bound of the cache.
pub fn step(points: &[(f64, f64)], least_rise: f64) -> Option<Knee> {
    let usable = |p: &(f64, f64)| p.0.is_finite() && p.1.is_finite() && p.1 > 0.0;
    if points.len() < 2 || !points.iter().all(usable) {
        return None;
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = squared_error(&sorted);
    let mut best: Option<(f64, Knee)> = None;
    for split in 1..sorted.len() {
        let (below, above) = sorted.split_at(split);
        let (Some(last), Some(first)) = (below.last(), above.first()) else {
            continue;
        };
        let (low, high) = (level(below), level(above));
        if last.0 == first.0 || high < low * least_rise {
            continue;
        }
        let rest = squared_error(below) + squared_error(above);
        if best.as_ref().is_none_or(|(least, _)| rest < *least) {
            let explained = if total > 0.0 { 1.0 - rest / total } else { 0.0 };
            best = Some((
                rest,
                Knee {
                    fits: last.0,
                    exceeds: first.0,
                    low,
                    high,
                    explained,
                },
            ));
        }
    }
    best.map(|(_, knee)| knee)
}

fn level(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64
}

fn squared_error(points: &[(f64, f64)]) -> f64 {
    let centre = points.iter().map(|p| p.1.ln()).sum::<f64>() / points.len() as f64;
    points.iter().map(|p| (p.1.ln() - centre).powi(2)).sum()
}

/// The size at which a sweep's cost first passes `share` of the way from `low` to `high`, straight
/// between the two points around it; `None` where it never does.
pub fn crossing(points: &[(f64, f64)], low: f64, high: f64, share: f64) -> Option<f64> {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let limit = low + share * (high - low);
    let first = sorted.first()?;
    if first.1 >= limit {
        return Some(first.0);
    }
    sorted.windows(2).find_map(|pair| match pair {
        [a, b] if a.1 < limit && b.1 >= limit => {
            Some(a.0 + (limit - a.1) / (b.1 - a.1) * (b.0 - a.0))
        }
        _ => None,
    })
}

/// The capacity C of a cache from the miss ratios of uniform random accesses to working sets of
/// size N: `1 - C / N` above C, 0 below it (least squares over the points that miss, repeated until
/// these are exactly the ones with N above C). Exact for LRU and for any policy that keeps C of N
/// equally likely items. `None` where nothing misses.
pub fn capacity_from_random_misses(points: &[(f64, f64)]) -> Option<f64> {
    let usable: Vec<_> = points
        .iter()
        .filter(|p| p.0 > 0.0 && p.0.is_finite() && p.1.is_finite())
        .collect();
    let mut capacity = 0.0;
    let mut found = None;
    for _ in 0..20 {
        let (mut top, mut bottom) = (0.0, 0.0);
        for &&(size, misses) in usable.iter().filter(|p| p.0 > capacity && p.1 > 0.0) {
            top += (1.0 - misses) / size;
            bottom += 1.0 / (size * size);
        }
        if bottom == 0.0 {
            break;
        }
        let next = top / bottom;
        found = Some(next);
        if next == capacity {
            break;
        }
        capacity = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lru_cliff_is_found_between_its_neighbours() {
        let sweep: Vec<(f64, f64)> = [
            (64, 300),
            (128, 310),
            (192, 290),
            (240, 330),
            (256, 9000),
            (320, 9500),
        ]
        .map(|(s, c)| (f64::from(s), f64::from(c)))
        .to_vec();
        let knee = step(&sweep, 1.5).unwrap();
        assert_eq!((knee.fits, knee.exceeds), (240.0, 256.0));
        assert!(knee.explained > 0.98);
        assert_eq!(step(&sweep[..4], 1.5), None);
    }

    #[test]
    fn random_misses_give_the_capacity() {
        let points: Vec<(f64, f64)> = [100.0, 200.0, 254.0, 300.0, 400.0, 600.0, 1000.0]
            .map(|n: f64| (n, (1.0 - 254.0 / n).max(0.0)))
            .to_vec();
        assert!((capacity_from_random_misses(&points).unwrap() - 254.0).abs() < 1e-9);
        assert_eq!(capacity_from_random_misses(&points[..3]), None);
    }

    #[test]
    fn a_gradual_rise_crosses_half_way() {
        let points = [(1.0, 0.0), (2.0, 0.0), (3.0, 10.0)];
        assert_eq!(crossing(&points, 0.0, 10.0, 0.5), Some(2.5));
        assert_eq!(crossing(&points, 0.0, 30.0, 0.5), None);
    }
}
