//! What a movement of the arm costs.

/// Seek time over the distance, as a fraction of the full stroke.
///
/// From the three figures of a data sheet the curve is `a + b sqrt(d) + c d`: the arm accelerates over
/// short distances and coasts over long ones (Ruemmler and Wilkes 1994, section "seeking"). Between two
/// places chosen at random the mean of `sqrt(d)` is 8/15 and that of `d` is 1/3, which fixes b and c.
#[derive(Debug, Clone, PartialEq)]
pub enum SeekCurve {
    /// `a + b sqrt(d) + c d`, in milliseconds.
    Formula {
        /// The shortest seek.
        a: f64,
        /// Of the square root of the distance.
        b: f64,
        /// Of the distance.
        c: f64,
    },
    /// Straight lines between (fraction, milliseconds).
    Points(Vec<(f64, f64)>),
}

impl SeekCurve {
    /// The curve through the figures of a data sheet, milliseconds; `None` if no curve that rises from
    /// the shortest to the longest seek has that average.
    pub fn from_figures(shortest: f64, average: f64, full: f64) -> Option<Self> {
        let b = (average - shortest - (full - shortest) / 3.0) * 5.0;
        let c = full - shortest - b;
        // The slope is b / (2 sqrt(d)) + c: least at one of its ends.
        let rises = shortest >= 0.0 && full >= shortest && b >= 0.0 && b / 2.0 + c >= 0.0;
        rises.then_some(Self::Formula { a: shortest, b, c })
    }

    /// Time of a seek over a fraction of the full stroke, nanoseconds; nothing for no distance.
    pub fn time_ns(&self, fraction: f64) -> u64 {
        if fraction <= 0.0 {
            return 0;
        }
        let d = fraction.min(1.0);
        let ms = match self {
            Self::Formula { a, b, c } => a + b * d.sqrt() + c * d,
            Self::Points(points) => between(points, d),
        };
        (ms * 1e6) as u64
    }
}

fn between(points: &[(f64, f64)], d: f64) -> f64 {
    let at = points.partition_point(|&(x, _)| x < d);
    match (
        at.checked_sub(1).and_then(|i| points.get(i)),
        points.get(at),
    ) {
        (Some(&(x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (d - x0) / (x1 - x0),
        (None, Some(&(_, y))) | (Some(&(_, y)), None) => y,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_over_random_places_is_the_data_sheets() {
        let curve = SeekCurve::from_figures(0.8, 8.5, 17.0).unwrap();
        // Distances between random places have the density 2 (1 - d).
        let steps = 100_000;
        let mean: f64 = (0..steps)
            .map(|i| {
                let d = (f64::from(i) + 0.5) / f64::from(steps);
                2.0 * (1.0 - d) * curve.time_ns(d) as f64 / f64::from(steps)
            })
            .sum();
        assert!((mean / 1e6 - 8.5).abs() < 0.01, "{mean}");
        assert_eq!(curve.time_ns(1.0), 17_000_000);
        assert_eq!(curve.time_ns(0.0), 0);
    }

    #[test]
    fn figures_that_no_rising_curve_has_are_refused() {
        assert!(SeekCurve::from_figures(5.0, 1.0, 17.0).is_none());
        assert!(SeekCurve::from_figures(1.0, 17.0, 17.0).is_none());
        assert!(SeekCurve::from_figures(1.0, 3.0, 2.0).is_none());
    }

    #[test]
    fn points_are_joined_by_lines() {
        let curve = SeekCurve::Points(vec![(0.0, 1.0), (0.5, 5.0), (1.0, 7.0)]);
        assert_eq!(curve.time_ns(0.25), 3_000_000);
        assert_eq!(curve.time_ns(0.75), 6_000_000);
        assert_eq!(curve.time_ns(2.0), 7_000_000);
    }
}
