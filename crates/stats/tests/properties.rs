//! Properties that hold for any samples, against independent naive oracles.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests compare exact values"
)]

use fsage_stats::{correlate, describe, interpolate, line, median_interval, summary, welch};
use proptest::prelude::*;

fn samples(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1e6..1e6, n)
}

/// P(Binomial(n, 1/2) <= k) by adding up exact binomial coefficients.
fn binomial_sum(n: usize, k: usize) -> f64 {
    let (mut term, mut sum) = (0.5_f64.powi(n as i32), 0.0);
    for i in 0..=k {
        sum += term;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    sum
}

proptest! {
    #[test]
    fn a_summary_is_in_order(x in samples(1..60)) {
        let s = summary(&x);
        let ladder = [s.min, s.p5, s.p25, s.median, s.p75, s.p95, s.p99, s.max];
        prop_assert!(ladder.windows(2).all(|w| w[0] <= w[1]));
        prop_assert!(s.min - 1e-6 <= s.mean && s.mean <= s.max + 1e-6);
        if x.len() > 1 {
            prop_assert!(s.low <= s.mean && s.mean <= s.high);
        }
    }

    #[test]
    fn summaries_ignore_order_and_follow_scale(mut x in samples(2..40), k in 0.1..100.0) {
        let before = summary(&x);
        x.reverse();
        for v in &mut x { *v *= k; }
        let after = summary(&x);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-7 * a.abs().max(k * 1e3);
        prop_assert!(close(before.median * k, after.median));
        prop_assert!(close(before.stddev * k, after.stddev));
        prop_assert!(close(before.high * k, after.high));
    }

    #[test]
    fn the_median_interval_is_the_narrowest_that_covers(n in 1_usize..200) {
        let x: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        match median_interval(&x, 0.95) {
            None => prop_assert!(2.0 * binomial_sum(n, 0) > 0.05),
            Some(i) => {
                let rank = i.low as usize;
                prop_assert_eq!(i.high as usize, n + 1 - rank);
                prop_assert!(2.0 * binomial_sum(n, rank - 1) <= 0.05 + 1e-12);
                prop_assert!(2.0 * binomial_sum(n, rank) > 0.05 || 2 * rank >= n);
                prop_assert!((i.confidence - (1.0 - 2.0 * binomial_sum(n, rank - 1))).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_curve_stays_between_its_neighbours(
        points in prop::collection::btree_map(1_u32..10_000, 0.0..1e6, 1..20),
        x in 0.0..20_000.0,
    ) {
        let points: Vec<(f64, f64)> = points.into_iter().map(|(x, y)| (f64::from(x), y)).collect();
        let at = |x| interpolate::linear(&points, x).unwrap();
        for &(px, py) in &points {
            prop_assert_eq!(at(px), py);
        }
        let last = points.last().unwrap().0;
        let left = points.iter().rev().find(|p| p.0 <= x).or(points.first()).unwrap().1;
        let right = points.iter().find(|p| p.0 >= x).or(points.last()).unwrap().1;
        let slack = 1e-9 * left.abs().max(right.abs());
        prop_assert!(x > last || left.min(right) - slack <= at(x) && at(x) <= left.max(right) + slack);
    }

    #[test]
    fn welch_is_antisymmetric(a in samples(2..20), b in samples(2..20)) {
        if let (Some(ab), Some(ba)) = (welch(&a, &b), welch(&b, &a)) {
            prop_assert!((ab.t + ba.t).abs() <= 1e-12 * ab.t.abs().max(1.0));
            prop_assert!((0.0..=1.0).contains(&ab.p));
            prop_assert_eq!(ab.low <= 0.0 && 0.0 <= ab.high, ab.p >= 0.05);
        }
    }

    #[test]
    fn points_on_a_line_give_the_line(slope in -1e3..1e3_f64, intercept in -1e3..1e3_f64, n in 3_usize..30) {
        let points: Vec<(f64, f64)> =
            (0..n).map(|i| (i as f64, slope * i as f64 + intercept)).collect();
        let fitted = line::fit(&points).unwrap();
        prop_assert!((fitted.slope - slope).abs() < 1e-8 && (fitted.intercept - intercept).abs() < 1e-6);
    }

    #[test]
    fn any_rising_prediction_ranks_all_right(x in prop::collection::btree_set(1_u32..1_000_000, 2..15)) {
        let systems: Vec<(f64, f64)> =
            x.iter().map(|&v| (f64::from(v), f64::from(v).sqrt() + 3.0)).collect();
        let ranks = correlate::ranks_right(&systems, 0.0);
        prop_assert_eq!(ranks.right, ranks.total);
        prop_assert_eq!(ranks.total, x.len() * (x.len() - 1) / 2);
    }

    #[test]
    fn nothing_panics(
        x in prop::collection::vec(prop::num::f64::ANY, 0..12),
        y in prop::collection::vec(prop::num::f64::ANY, 0..12),
    ) {
        let _ = summary(&x);
        let _ = describe::quantile(&x, y.first().copied().unwrap_or(0.5));
        let _ = welch(&x, &y);
        let _ = median_interval(&x, 0.95);
        let pairs: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).collect();
        let _ = correlate::ranks_right(&pairs, 0.05);
        let _ = line::fit(&pairs);
        let _ = interpolate::linear(&pairs, f64::NAN);
        let _ = interpolate::linear(&pairs, 1e308);
    }
}
