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
        let samples = independent(metric, &self.runs);
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

/// What an interval of a metric is made of: the samples or, of runs that were spread over rounds, the means of
/// the rounds. How these differ is how the machine does from one to the next, which no run within one shows.
pub fn independent(metric: &str, runs: &[BenchRun]) -> Vec<f64> {
    let of = |run: &BenchRun| Some((run.round, *run.metrics.get(metric)?));
    let samples: Vec<(u32, f64)> = runs.iter().filter_map(of).collect();
    let values = |of: &[(u32, f64)]| of.iter().map(|s| s.1).collect::<Vec<f64>>();
    if runs.iter().all(|run| run.round == 0) {
        return values(&samples);
    }
    let rounds = samples.chunk_by(|a, b| a.0 == b.0);
    rounds
        .map(|round| fsage_stats::mean(&values(round)))
        .collect()
}

/// The runs of a configuration that its precision asks for, as far as can be told now.
pub fn expected_runs(measured: &Measured, rule: &Rule) -> u32 {
    let runs = measured.runs.len() as u32;
    if measured.enough(rule).is_some() {
        return runs;
    }
    let needed = |metric: &String| {
        let samples = independent(metric, &measured.runs);
        let width = mean_interval(&samples, 0.95)?.half_width_relative()?;
        let factor = (width / rule.half_width_relative).powi(2);
        Some(
            (measured.runs.len() as f64 * factor)
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
    fn rounds_count_as_one_each_in_an_interval() {
        let rule = rule("min_runs = 6\nrounds = 3\nround_pause = \"1s\"");
        let rounds: Vec<u32> = (0..8).map(|run| rule.round_of(run)).collect();
        assert_eq!(rounds, [0, 0, 1, 1, 2, 2, 3, 3]);
        let runs = [10.0, 12.0, 20.0, 22.0, 30.0, 32.0].iter().enumerate();
        let runs = runs.map(|(i, &x)| BenchRun {
            round: rule.round_of(i as u32),
            ..run(x)
        });
        let mut measured = Measured {
            runs: runs.collect(),
            ..Measured::default()
        };
        assert_eq!(independent("elapsed", &measured.runs), [11.0, 21.0, 31.0]);
        let wide = mean_interval(&independent("elapsed", &measured.runs), 0.95).unwrap();
        let narrow = mean_interval(&measured.samples("elapsed"), 0.95).unwrap();
        assert!(wide.high - wide.low > 2.0 * (narrow.high - narrow.low));
        for run in &mut measured.runs {
            run.round = 0;
        }
        assert_eq!(independent("elapsed", &measured.runs).len(), 6);
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
