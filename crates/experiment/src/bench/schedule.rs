//! When a configuration has enough runs: a pure function of what was measured so far.

use fsage_format::result::experiment::{BenchRun, FailedRun, StopReason};
use fsage_stats::{Stopping, mean_interval};

use crate::plan::Rule;

/// A configuration with so many failed runs is given up.
pub const MOST_FAILURES: u32 = 3;

/// What was measured of one configuration so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Runs that ended well, in their order.
    pub runs: Vec<BenchRun>,
    /// Runs that failed.
    pub failed: Vec<FailedRun>,
    /// Failed runs that no longer count against it.
    pub forgiven: u32,
}

/// What was measured of one that was not begun.
pub(super) static NOTHING: Measured = Measured {
    runs: Vec::new(),
    failed: Vec::new(),
    forgiven: 0,
};

impl Measured {
    /// Runs that were begun and ended, well or not.
    pub fn attempts(&self) -> u32 {
        (self.runs.len() + self.failed.len()) as u32
    }

    /// The samples of a metric.
    pub fn samples(&self, metric: &str) -> Vec<f64> {
        let of = |run: &BenchRun| run.metrics.get(metric).copied();
        self.runs.iter().filter_map(of).collect()
    }

    /// How long its runs took with all that belongs to them, nanoseconds.
    pub fn used_ns(&self) -> u64 {
        let runs = self.runs.iter().flat_map(|r| &r.steps);
        let failed = self.failed.iter().flat_map(|f| &f.steps);
        runs.chain(failed).map(|s| s.elapsed_ns).sum()
    }

    /// Why it needs no more runs by itself; `None` if it does.
    pub fn enough(&self, rule: &Rule) -> Option<StopReason> {
        let runs = self.runs.len();
        let precise = |metric: &String| self.is_precise(metric, rule);
        if runs as u32 >= rule.min_runs && rule.required.iter().all(precise) {
            return Some(StopReason::Precise);
        }
        if runs as u32 >= rule.max_runs {
            return Some(StopReason::MaxRuns);
        }
        let counted = (self.failed.len() as u32).saturating_sub(self.forgiven);
        (counted >= MOST_FAILURES).then_some(StopReason::Failing)
    }

    /// Whether a metric's interval is as narrow as asked. One that no run has never is.
    pub fn is_precise(&self, metric: &str, rule: &Rule) -> bool {
        let samples = self.samples(metric);
        let stopping = Stopping {
            min_runs: 2,
            max_runs: usize::MAX,
            half_width_relative: rule.half_width_relative,
        };
        stopping
            .check_interval(samples.len(), || mean_interval(&samples, 0.95))
            .is_some()
    }
}

/// The runs of a configuration that its precision asks for, as far as can be told now.
pub fn expected_runs(measured: &Measured, rule: &Rule) -> u32 {
    let runs = measured.runs.len() as u32;
    if measured.enough(rule).is_some() {
        return runs;
    }
    let needed = |metric: &String| {
        let samples = measured.samples(metric);
        let width = mean_interval(&samples, 0.95)?.half_width_relative()?;
        let factor = (width / rule.half_width_relative).powi(2);
        Some(
            (samples.len() as f64 * factor)
                .ceil()
                .min(f64::from(rule.max_runs)) as u32,
        )
    };
    let needed = rule.required.iter().filter_map(needed).max().unwrap_or(0);
    needed
        .max(rule.min_runs)
        .max(runs + 1)
        .min(rule.max_runs.max(runs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BenchPlan;
    use fsage_format::result::experiment::StepTime;
    use std::path::Path;

    fn rule(rule: &str) -> Rule {
        let text = format!("{rule}\n[[target]]\nspec='/'\n[[workload]]\nspec='cmd: true'\n");
        let plan = BenchPlan::parse(Path::new("p"), &text, Path::new("/"));
        plan.unwrap().rule
    }

    fn run(elapsed_ns: f64) -> BenchRun {
        BenchRun {
            metrics: [("elapsed".to_string(), elapsed_ns)].into(),
            steps: vec![StepTime {
                name: "run".into(),
                elapsed_ns: 1_000_000_000,
            }],
            ..BenchRun::default()
        }
    }

    fn failure() -> FailedRun {
        FailedRun {
            configuration: String::new(),
            run: 0,
            order: 0,
            started_unix_ns: 0,
            steps: Vec::new(),
            error: "run".into(),
        }
    }

    #[test]
    fn reasons_are_told_apart() {
        let rule = rule("min_runs = 2\nmax_runs = 4");
        let mut measured = Measured::default();
        assert_eq!(measured.enough(&rule), None);
        measured.runs = vec![run(1.0), run(1.0)];
        assert_eq!(measured.enough(&rule), Some(StopReason::Precise));
        measured.runs = vec![run(1.0), run(5.0), run(1.0)];
        assert_eq!(measured.enough(&rule), None);
        measured.failed = vec![failure(); 3];
        assert_eq!(measured.enough(&rule), Some(StopReason::Failing));
        measured.forgiven = 3;
        assert_eq!(measured.enough(&rule), None);
        measured.runs.push(run(9.0));
        assert_eq!(measured.enough(&rule), Some(StopReason::MaxRuns));
    }

    #[test]
    fn the_runs_to_come_are_estimated() {
        let rule = rule("min_runs = 3\nmax_runs = 50");
        assert_eq!(expected_runs(&Measured::default(), &rule), 3);
        let mut measured = Measured {
            runs: vec![run(1.0); 3],
            ..Measured::default()
        };
        assert_eq!(expected_runs(&measured, &rule), 3);
        measured.runs.extend([run(1.3), run(0.8)]);
        let expected = expected_runs(&measured, &rule);
        assert!((6..=50).contains(&expected), "{expected}");
    }
}
