//! When to stop measuring.

use serde::{Deserialize, Serialize};

use crate::interval::{Interval, mean_interval};

/// Run until precise, but never without end: stop once the 95 % interval's half-width falls under a
/// share of the mean, after at least `min_runs` and at most `max_runs` (Jain 1991, 25.4; Georges
/// 2007, 3.3). A budget of time is the caller's and ends it as [`StopReason::TimeBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// Fewest runs.
    pub min_runs: usize,
    /// Most runs.
    pub max_runs: usize,
    /// The half-width to reach, as a share of the estimate (0.05 for 5 %).
    pub half_width_relative: f64,
}

/// Why measuring stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The interval is as narrow as asked.
    Precise,
    /// The most runs allowed were made before it was.
    MaxRuns,
    /// Time ran out before it was.
    TimeBudget,
    /// The user ended it.
    Interrupted,
}

impl Default for Stopping {
    /// 10 to 100 runs, 5 %.
    fn default() -> Self {
        Self {
            min_runs: 10,
            max_runs: 100,
            half_width_relative: 0.05,
        }
    }
}

impl Stopping {
    /// Whether to stop after `samples`, judged by the interval of their mean; `None` to go on.
    pub fn check(&self, samples: &[f64]) -> Option<StopReason> {
        self.check_interval(samples.len(), || mean_interval(samples, 0.95))
    }

    /// Whether to stop after `runs`, judged by the interval of any estimate.
    pub fn check_interval(
        &self,
        runs: usize,
        interval: impl FnOnce() -> Option<Interval>,
    ) -> Option<StopReason> {
        if runs >= self.min_runs
            && let Some(interval) = interval()
            && (interval
                .half_width_relative()
                .is_some_and(|w| w <= self.half_width_relative)
                || (interval.low == 0.0 && interval.high == 0.0))
        {
            return Some(StopReason::Precise);
        }
        (runs >= self.max_runs).then_some(StopReason::MaxRuns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_when_precise_or_at_the_most_runs() {
        let rule = Stopping {
            min_runs: 3,
            max_runs: 5,
            half_width_relative: 0.05,
        };
        assert_eq!(rule.check(&[1.0, 1.0]), None);
        assert_eq!(rule.check(&[1.0, 1.0, 1.001]), Some(StopReason::Precise));
        assert_eq!(rule.check(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(
            rule.check(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            Some(StopReason::MaxRuns)
        );
        assert_eq!(rule.check(&[0.0, 0.0, 0.0]), Some(StopReason::Precise));
    }
}
