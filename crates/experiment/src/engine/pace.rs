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

    /// How long everything that is wanted takes from the beginning of a step of `next` on, seconds. `None` while a sort of
    /// them has never been made, or for most of them only what is loosely like them: workloads differ by orders of
    /// magnitude, and a profile is none.
    pub fn remaining(&self, all: &[Series], next: usize) -> Option<Rest> {
        let (mut rest_ns, mut next_ns, mut wanted, mut known) = (0.0, 0.0, 0, 0);
        for (at, series) in all.iter().enumerate().filter(|(_, s)| s.wanted > 0) {
            let (each_ns, is_known) = self.expected_ns(at, all)?;
            rest_ns += each_ns * f64::from(series.wanted);
            wanted += series.wanted;
            known += if is_known { series.wanted } else { 0 };
            if at == next {
                next_ns = each_ns;
            }
        }
        (known * 2 >= wanted).then_some(Rest {
            others_s: (rest_ns - next_ns) / 1e9,
            next_s: next_ns / 1e9,
            most_s: f64::INFINITY,
        })
    }

    /// The mean of the series itself, else of those most like it; and whether these are as like as any.
    fn expected_ns(&self, at: usize, all: &[Series]) -> Option<(f64, bool)> {
        let mean = |counts: &dyn Fn(usize) -> bool| {
            let of = self.0.iter().enumerate().filter(|(i, _)| counts(*i));
            let (count, ns) = of.fold((0.0, 0.0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
            (count > 0.0).then(|| ns / count)
        };
        let alike = |like: &String| mean(&|i| all.get(i).is_some_and(|s| s.like.contains(like)));
        let own = mean(&|i| i == at).map(|ns| (ns, true));
        own.or_else(|| {
            let mut like = all.get(at)?.like.iter().enumerate();
            like.find_map(|(loose, like)| Some((alike(like)?, loose == 0)))
        })
    }
}

/// How long the rest takes, of which the next step is one, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::struct_field_names, reason = "times, by their unit")]
pub struct Rest {
    others_s: f64,
    next_s: f64,
    most_s: f64,
}

impl Rest {
    /// No longer than so many nanoseconds, if there is such a limit.
    pub(super) fn within(self, left_ns: Option<u64>) -> Self {
        let most_s = left_ns.map_or(self.most_s, |ns| ns as f64 / 1e9);
        Self { most_s, ..self }
    }

    /// The same seen so long after the step began: one that takes longer than others did is taken to end now.
    pub fn later(self, spent_s: f64) -> Self {
        let left = |s: f64| (s - spent_s).max(0.0);
        Self {
            next_s: left(self.next_s),
            most_s: left(self.most_s),
            ..self
        }
    }

    /// How long it takes from here on, seconds.
    pub fn seconds(self) -> f64 {
        (self.others_s + self.next_s).min(self.most_s)
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
        let left = |pace: &Pace, all: &[Series]| pace.remaining(all, 1).map(Rest::seconds);
        assert_eq!(left(&pace, &all), None);
        assert_eq!(left(&pace, &[]), Some(0.0));
        pace.add(0, 60_000_000_000);
        assert_eq!(left(&pace, &all), None, "a profile is no run");
        pace.add(1, 2_000_000_000);
        pace.add(2, 10_000_000_000);
        assert_eq!(left(&pace, &all), Some(2.0), "its own");
        (all[1].wanted, all[3].wanted) = (0, 1);
        assert_eq!(left(&pace, &all), Some(6.0), "the same workload");
        (all[3].wanted, all[4].wanted, all[2].wanted) = (0, 1, 1);
        assert_eq!(left(&pace, &all), Some(16.0), "any run");
        all[4].wanted = 2;
        assert_eq!(left(&pace, &all), None, "most are only runs");
        let all = [Series {
            attempts: 4,
            took_ns: 8_000_000_000,
            ..series(3, &[])
        }];
        let rest = Pace::new(&all).remaining(&all, 0).unwrap();
        let shown = [0.0, 1.5, 2.0, 60.0].map(|spent_s| Some(rest.later(spent_s).seconds()));
        assert_eq!(
            shown,
            [6.0, 4.5, 4.0, 4.0].map(Some),
            "it goes on within a step"
        );
    }
}
