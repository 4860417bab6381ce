//! Student's t distribution (Student 1908; Abramowitz and Stegun 26.7).

use crate::special::incomplete_beta;

/// The probability that a t variable with `df > 0` degrees of freedom is at most `t`.
pub fn cdf(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    let tail = upper_tail(t.abs(), df);
    if t >= 0.0 { 1.0 - tail } else { tail }
}

/// The probability that it exceeds `t >= 0`; exact also where it is tiny.
pub(crate) fn upper_tail(t: f64, df: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    if square < df {
        // Near 0 the other side of the beta function keeps the digits of t.
        0.5 - 0.5 * incomplete_beta(0.5, df / 2.0, square / (df + square))
    } else {
        0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + square))
    }
}

/// The value that a t variable with `df > 0` degrees of freedom exceeds with probability `1 - p`,
/// by bisection of the distribution function; NaN unless `0 < p < 1`.
pub fn quantile(p: f64, df: f64) -> f64 {
    if !(p > 0.0 && p < 1.0 && df > 0.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        return -quantile(1.0 - p, df);
    }
    let tail = 1.0 - p;
    let mut high = 1.0;
    while upper_tail(high, df) > tail && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if upper_tail(middle, df) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
