//! Which run comes next, and when a configuration has enough: pure functions of the seed and of what was
//! measured so far, so that a continued experiment makes the runs that an uninterrupted one makes.

use fsage_format::result::experiment::{BenchRun, FailedRun, StopReason};
use fsage_stats::{Stopping, mean_interval};
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::plan::{BenchPlan, Rule};

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

/// How far the experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This configuration, by its place in the plan, is measured next.
    Measure(usize),
    /// Every configuration has enough.
    Done,
    /// Time is over and some have not.
    OutOfTime,
}

/// What is measured next. Rounds: in each, every configuration that has not enough yet is run once, in an
/// order that the seed and the round give (Traeger 2007, section 4; Jain 1991, 16: a drift of the machine
/// falls on all alike).
pub fn next(plan: &BenchPlan, found: &[Measured]) -> Next {
    let open = |i: &usize| {
        found
            .get(*i)
            .is_some_and(|m| m.enough(&plan.rule).is_none())
    };
    let unfinished: Vec<usize> = (0..plan.subjects.len()).filter(open).collect();
    let attempts = |i: &usize| found.get(*i).map_or(0, Measured::attempts);
    let Some(round) = unfinished.iter().map(attempts).min() else {
        return Next::Done;
    };
    let used_ns: u64 = found.iter().map(Measured::used_ns).sum();
    if u128::from(used_ns) >= plan.rule.budget.as_nanos() {
        return Next::OutOfTime;
    }
    let order = order(plan, round);
    let of_round = |i: &usize| unfinished.contains(i) && attempts(i) == round;
    order
        .into_iter()
        .find(of_round)
        .map_or(Next::Done, Next::Measure)
}

/// The order of all configurations in a round.
fn order(plan: &BenchPlan, round: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..plan.subjects.len()).collect();
    // Another sequence of the generator for each round, not another part of one.
    let mut random = Pcg64::new(u128::from(plan.seed), u128::from(round));
    order.shuffle(&mut random);
    order
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
    use fsage_format::result::experiment::StepTime;
    use std::path::Path;

    fn plan(rule: &str) -> BenchPlan {
        let text = format!(
            "{rule}\nseed = 7\n[[target]]\nname='a'\nspec='/'\n[[target]]\nname='b'\nspec='/tmp'\n\
             [[workload]]\nspec='cmd: true'\n[[workload]]\nspec='postmark'\n"
        );
        BenchPlan::parse(Path::new("p"), &text, Path::new("/")).unwrap()
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

    /// All runs in their order; the sample of run `n` of a configuration is `value(configuration, n)`.
    fn all(
        plan: &BenchPlan,
        mut found: Vec<Measured>,
        value: fn(usize, usize) -> f64,
    ) -> Vec<usize> {
        let mut order = Vec::new();
        while let Next::Measure(i) = next(plan, &found) {
            order.push(i);
            let n = found[i].runs.len();
            found[i].runs.push(run(value(i, n)));
        }
        order
    }

    #[test]
    fn rounds_are_shuffled_and_repeatable() {
        let plan = plan("runs = 6");
        let empty = vec![Measured::default(); 4];
        let order = all(&plan, empty.clone(), |_, _| 1.0);
        assert_eq!(order.len(), 24);
        let mut rounds: Vec<Vec<usize>> = order.chunks(4).map(<[usize]>::to_vec).collect();
        assert_ne!(rounds[0], rounds[1]);
        for round in &mut rounds {
            round.sort_unstable();
            assert_eq!(*round, [0, 1, 2, 3]);
        }
        assert_eq!(all(&plan, empty.clone(), |_, _| 1.0), order);
        let other = BenchPlan { seed: 8, ..plan };
        assert_ne!(all(&other, empty, |_, _| 1.0), order);
    }

    #[test]
    fn a_stopped_experiment_goes_on_as_if_it_had_not_been() {
        let plan = plan("min_runs = 3\nmax_runs = 9");
        // Configuration 2 never becomes precise.
        let value = |i: usize, n: usize| if i == 2 { (1 + n * 5) as f64 } else { 7.0 };
        let whole = all(&plan, vec![Measured::default(); 4], value);
        assert_eq!(whole.iter().filter(|&&i| i == 2).count(), 9);
        assert_eq!(whole.len(), 9 + 3 * 3);
        for cut in 0..=whole.len() {
            let mut found = vec![Measured::default(); 4];
            for &i in &whole[..cut] {
                let n = found[i].runs.len();
                found[i].runs.push(run(value(i, n)));
            }
            assert_eq!(all(&plan, found, value), whole[cut..], "after {cut}");
        }
    }

    #[test]
    fn reasons_are_told_apart() {
        let plan = plan("min_runs = 2\nmax_runs = 4\nbudget = '7s'");
        let mut measured = Measured::default();
        assert_eq!(measured.enough(&plan.rule), None);
        measured.runs = vec![run(1.0), run(1.0)];
        assert_eq!(measured.enough(&plan.rule), Some(StopReason::Precise));
        measured.runs = vec![run(1.0), run(5.0), run(1.0)];
        assert_eq!(measured.enough(&plan.rule), None);
        measured.failed = vec![failure(); 3];
        assert_eq!(measured.enough(&plan.rule), Some(StopReason::Failing));
        measured.forgiven = 3;
        assert_eq!(measured.enough(&plan.rule), None);
        measured.runs.push(run(9.0));
        assert_eq!(measured.enough(&plan.rule), Some(StopReason::MaxRuns));
        let found = vec![measured, Measured::default()];
        assert!(matches!(next(&plan, &found), Next::Measure(_)), "4 s of 7");
        let wide = |n| Measured {
            runs: (0..n).map(|i| run(f64::from(i * 9 + 1))).collect(),
            ..Measured::default()
        };
        assert_eq!(next(&plan, &[wide(3), wide(3), wide(1)]), Next::OutOfTime);
    }

    #[test]
    fn the_runs_to_come_are_estimated() {
        let rule = plan("min_runs = 3\nmax_runs = 50").rule;
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
