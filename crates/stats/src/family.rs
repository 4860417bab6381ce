//! Several tests at once.

/// The probability of a difference where there is none that is accepted.
pub const SIGNIFICANCE: f64 = 0.05;

/// Holm's step-down correction (1979): for each p value the smallest error rate of the whole family at
/// which its test is significant, so that among all tests of no difference at most that share finds
/// one. In the order given; NaN is passed through and counts as no test.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| !p[i].is_nan()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = p.to_vec();
    let mut least = 0.0_f64;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max(p[i] * (order.len() - rank) as f64).min(1.0);
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn one_test_stays_as_it_is_and_order_is_kept() {
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[]), [0.0; 0]);
        // Holm's own steps: 3 x 0.01, 2 x 0.02, and never less than the one before.
        let found = holm(&[0.02, 0.01, 0.021]);
        for (mine, expected) in found.iter().zip([0.04, 0.03, 0.04]) {
            assert!((mine - expected).abs() < 1e-15, "{found:?}");
        }
        let with_none = holm(&[0.02, f64::NAN, 0.9]);
        assert!(with_none[1].is_nan() && (with_none[0] - 0.04).abs() < 1e-15);
        assert!((with_none[2] - 0.9).abs() < 1e-15);
    }
}
