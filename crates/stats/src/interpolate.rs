//! Values between the measured ones.

use serde::{Deserialize, Serialize};

/// How the space between two points is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Straight in x and y.
    Linear,
    /// Straight in log x and y: for costs that grow with each doubling.
    LogX,
    /// Straight in log x and log y: power laws. Segments with a y at or below 0 are straight in
    /// log x and y.
    LogLog,
}

/// What happens outside of the measured range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// The value of the nearest end.
    Clamp,
    /// Below: the value of the first point. Above: the last segment goes on.
    ExtendAbove,
    /// Below: the value of the first point. Above: the last point's y over x stays (a cost per
    /// unit).
    ProportionalAbove,
}

/// A series of points (x, y) with values in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    points: Vec<(f64, f64)>,
    scale: Scale,
    outside: Outside,
}

impl Curve {
    /// A curve through `points` in any order; the mean of those that share an x. Points that are not
    /// finite, or with an x at or below 0 on a logarithmic scale, are an error of the caller and
    /// make it `None`, as does having no point.
    pub fn new(points: &[(f64, f64)], scale: Scale, outside: Outside) -> Option<Self> {
        let usable = |&(x, y): &(f64, f64)| {
            x.is_finite() && y.is_finite() && (scale == Scale::Linear || x > 0.0)
        };
        if points.is_empty() || !points.iter().all(usable) {
            return None;
        }
        let mut sorted = points.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let merged = sorted
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|run| {
                let y = run.iter().map(|p| p.1).sum::<f64>() / run.len() as f64;
                run.first().map(|p| (p.0, y))
            })
            .collect();
        Some(Self {
            points: merged,
            scale,
            outside,
        })
    }

    /// Straight segments, clamped at both ends.
    pub fn linear(points: &[(f64, f64)]) -> Option<Self> {
        Self::new(points, Scale::Linear, Outside::Clamp)
    }

    /// The points, ascending in x.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The value at `x`; at a point exactly the point's.
    pub fn at(&self, x: f64) -> f64 {
        let after = self.points.partition_point(|p| p.0 < x);
        let (Some(&first), Some(&last)) = (self.points.first(), self.points.last()) else {
            return f64::NAN;
        };
        if x.is_nan() {
            return f64::NAN;
        }
        match self.points.get(after) {
            Some(&here) if here.0 == x => here.1,
            Some(&right) => match after.checked_sub(1).and_then(|i| self.points.get(i)) {
                Some(&left) => self.between(left, right, x),
                None => first.1,
            },
            None => match self.outside {
                Outside::ProportionalAbove if last.0 > 0.0 => last.1 * x / last.0,
                Outside::Clamp | Outside::ProportionalAbove => last.1,
                Outside::ExtendAbove => {
                    match self
                        .points
                        .len()
                        .checked_sub(2)
                        .and_then(|i| self.points.get(i))
                    {
                        Some(&before) => self.between(before, last, x),
                        None => last.1,
                    }
                }
            },
        }
    }

    fn between(&self, a: (f64, f64), b: (f64, f64), x: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (x - a.0) / (b.0 - a.0),
            Scale::LogX | Scale::LogLog => (x / a.0).ln() / (b.0 / a.0).ln(),
        };
        if self.scale == Scale::LogLog && a.1 > 0.0 && b.1 > 0.0 {
            a.1 * (b.1 / a.1).powf(share)
        } else {
            a.1 + share * (b.1 - a.1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(f64, f64); 3] = [(4.0, 10.0), (1.0, 2.0), (16.0, 50.0)];

    #[test]
    fn between_and_at_the_points() {
        let linear = Curve::linear(&POINTS).unwrap();
        assert_eq!(
            (
                linear.at(4.0),
                linear.at(2.5),
                linear.at(0.1),
                linear.at(99.0)
            ),
            (10.0, 6.0, 2.0, 50.0)
        );
        let log = Curve::new(&POINTS, Scale::LogX, Outside::Clamp).unwrap();
        assert!((log.at(2.0) - 6.0).abs() < 1e-12);
        let both = Curve::new(&POINTS, Scale::LogLog, Outside::Clamp).unwrap();
        assert!((both.at(8.0) - 500f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn beyond_the_last_point() {
        let at = |outside| {
            Curve::new(&POINTS, Scale::Linear, outside)
                .unwrap()
                .at(28.0)
        };
        assert!((at(Outside::ExtendAbove) - 90.0).abs() < 1e-12);
        assert!((at(Outside::ProportionalAbove) - 87.5).abs() < 1e-12);
        let single = Curve::new(&[(2.0, 3.0)], Scale::LogX, Outside::ExtendAbove).unwrap();
        assert_eq!((single.at(1.0), single.at(8.0)), (3.0, 3.0));
    }

    #[test]
    fn what_cannot_be_a_curve_is_none() {
        assert_eq!(Curve::linear(&[]), None);
        assert_eq!(Curve::linear(&[(1.0, f64::NAN)]), None);
        assert_eq!(Curve::new(&[(0.0, 1.0)], Scale::LogX, Outside::Clamp), None);
        assert_eq!(
            Curve::linear(&[(1.0, 2.0), (1.0, 4.0)]).unwrap().at(1.0),
            3.0
        );
    }
}
