//! How far predictions lie from measurements.

use serde::{Deserialize, Serialize};

use crate::describe::{mean, median};

/// Relative errors over pairs; 0.1 is 10 %.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelativeErrors {
    /// (predicted - measured) / measured of each pair, in their order.
    pub errors: Vec<f64>,
    /// Mean of the absolute errors (Smith 2001, Table 4.8).
    pub average: f64,
    /// Median of the absolute errors.
    pub median: f64,
    /// Root of the mean of the squared errors.
    pub rms: f64,
}

/// The relative errors of `(measured, predicted)` pairs. `None` for no pairs or where a measured
/// value is not above 0: there a relative error means nothing.
pub fn relative_errors(pairs: &[(f64, f64)]) -> Option<RelativeErrors> {
    if pairs.is_empty()
        || pairs
            .iter()
            .any(|&(measured, _)| measured.is_nan() || measured <= 0.0)
    {
        return None;
    }
    let errors: Vec<f64> = pairs.iter().map(|&(m, p)| (p - m) / m).collect();
    let absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    let rms = mean(&errors.iter().map(|e| e * e).collect::<Vec<_>>()).sqrt();
    Some(RelativeErrors {
        average: mean(&absolute),
        median: median(&absolute),
        rms,
        errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_kept_apart_from_sizes() {
        let e = relative_errors(&[(10.0, 11.0), (10.0, 7.0), (4.0, 4.0)]).unwrap();
        assert!((e.errors[1] + 0.3).abs() < 1e-12);
        assert!((e.average - 0.4 / 3.0).abs() < 1e-12);
        assert!((e.median - 0.1).abs() < 1e-12);
        assert!((e.rms - (0.1_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(relative_errors(&[(0.0, 1.0)]), None);
    }
}
