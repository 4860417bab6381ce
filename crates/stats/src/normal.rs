//! The standard normal distribution (Abramowitz and Stegun 26.2).

/// The probability that a standard normal variable exceeds `z`, to about 14 digits, also where it is
/// tiny.
pub fn upper_tail(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 2.5 {
        // The series 26.2.11: 1/2 - density * (z + z^3/3 + z^5/(3*5) + ...).
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term > sum * 1e-17 && term > 0.0 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        0.5 - density * sum
    } else {
        // The continued fraction 26.2.14, from its tail.
        let fraction = (1..=120).rev().fold(z, |tail, k| z + f64::from(k) / tail);
        density / fraction
    }
}

/// The value that a standard normal variable exceeds with probability `1 - p`, by bisection of
/// [`upper_tail`]; NaN unless `0 < p < 1`.
pub fn quantile(p: f64) -> f64 {
    if !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        return -quantile(1.0 - p);
    }
    let tail = 1.0 - p;
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if upper_tail(middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
