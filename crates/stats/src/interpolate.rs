//! Values between the measured ones.

/// The value at `x` of straight segments through `points`, which come in any order; at a point exactly the point's,
/// of several that share an x their mean. Before the first point it is that one's value, beyond the last one the last
/// segment goes on. `None` without a point, or with one that is not finite.
pub fn linear(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let usable = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    if points.is_empty() || !points.iter().all(usable) {
        return None;
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let merged: Vec<(f64, f64)> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|run| {
            let y = run.iter().map(|p| p.1).sum::<f64>() / run.len() as f64;
            run.first().map(|p| (p.0, y))
        })
        .collect();
    if x.is_nan() {
        return Some(f64::NAN);
    }
    let after = merged.partition_point(|p| p.0 < x);
    // The last segment goes on.
    let right = after.clamp(1, merged.len().max(2) - 1);
    match (merged.get(after), merged.get(right - 1), merged.get(right)) {
        (Some(here), ..) if after == 0 || here.0 == x => Some(here.1),
        (_, Some(a), Some(b)) => Some(a.1 + (x - a.0) / (b.0 - a.0) * (b.1 - a.1)),
        (_, only, _) => only.map(|p| p.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(f64, f64); 3] = [(4.0, 10.0), (1.0, 2.0), (16.0, 50.0)];

    #[test]
    fn between_at_and_beyond_the_points() {
        let at = |x| linear(&POINTS, x).unwrap();
        assert_eq!((at(4.0), at(2.5), at(0.1)), (10.0, 6.0, 2.0));
        assert!((at(28.0) - 90.0).abs() < 1e-12);
        let single = |x| linear(&[(2.0, 3.0)], x).unwrap();
        assert_eq!((single(1.0), single(2.0), single(8.0)), (3.0, 3.0, 3.0));
        assert_eq!(linear(&[(1.0, 2.0), (1.0, 4.0)], 1.0), Some(3.0));
    }

    #[test]
    fn what_gives_no_value_is_none() {
        assert_eq!(linear(&[], 1.0), None);
        assert_eq!(linear(&[(1.0, f64::NAN)], 1.0), None);
        assert!(linear(&POINTS, f64::NAN).unwrap().is_nan());
    }
}
