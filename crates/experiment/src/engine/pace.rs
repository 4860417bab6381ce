//! How long the rest of an experiment takes, from what its steps took so far.

use super::Series;

/// What the steps of each series took: how many, and nanoseconds in all.
pub(super) struct Pace(Vec<(f64, f64)>);

impl Pace {
    /// From what was made before.
    pub fn new(all: &[Series]) -> Self {
        let of = |series: &Series| match series.took_ns {
            0 => (0.0, 0.0),
            ns => (f64::from(series.attempts), ns as f64),
        };
        Self(all.iter().map(of).collect())
    }

    /// A step of a series took that long.
    pub fn add(&mut self, series: usize, took_ns: u64) {
        if let Some((count, ns)) = self.0.get_mut(series) {
            *count += 1.0;
            *ns += took_ns as f64;
        }
    }

    /// How long everything that is wanted takes, seconds; `None` before the first step.
    pub fn remaining_s(&self, all: &[Series]) -> Option<f64> {
        let wanted = all.iter().enumerate().filter(|(_, s)| s.wanted > 0);
        let each = wanted.map(|(at, s)| Some(self.expected_ns(at, all)? * f64::from(s.wanted)));
        each.sum::<Option<f64>>().map(|ns| ns / 1e9)
    }

    /// The mean of the series itself, else of those most like it, else of all.
    fn expected_ns(&self, at: usize, all: &[Series]) -> Option<f64> {
        let mean = |counts: &dyn Fn(usize) -> bool| {
            let of = self.0.iter().enumerate().filter(|(i, _)| counts(*i));
            let (count, ns) = of.fold((0.0, 0.0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
            (count > 0.0).then(|| ns / count)
        };
        let alike = |like: &String| mean(&|i| all.get(i).is_some_and(|s| s.like.contains(like)));
        mean(&|i| i == at)
            .or_else(|| all.get(at)?.like.iter().find_map(alike))
            .or_else(|| mean(&|_| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(wanted: u32, like: &[&str]) -> Series {
        Series {
            wanted,
            like: like.iter().map(|&like| like.into()).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn the_closest_likeness_decides() {
        let mut all = [
            series(0, &["profile"]),
            series(1, &["w", "run"]),
            series(0, &["w", "run"]),
            series(0, &["w", "run"]),
            series(0, &["v", "run"]),
        ];
        let mut pace = Pace::new(&all);
        assert_eq!(pace.remaining_s(&all), None);
        assert_eq!(pace.remaining_s(&[]), Some(0.0));
        pace.add(0, 60_000_000_000);
        assert_eq!(pace.remaining_s(&all), Some(60.0), "anything");
        pace.add(1, 2_000_000_000);
        pace.add(2, 10_000_000_000);
        assert_eq!(pace.remaining_s(&all), Some(2.0), "its own");
        (all[1].wanted, all[3].wanted) = (0, 1);
        assert_eq!(pace.remaining_s(&all), Some(6.0), "the same workload");
        (all[3].wanted, all[4].wanted, all[2].wanted) = (0, 1, 1);
        assert_eq!(pace.remaining_s(&all), Some(16.0), "any run");
        let all = [Series {
            attempts: 4,
            took_ns: 8_000_000_000,
            ..series(3, &[])
        }];
        assert_eq!(Pace::new(&all).remaining_s(&all), Some(6.0));
    }
}
