//! What is said of an experiment: a pure function of what was kept.

use fsage_format::result::experiment::{
    BenchRun, Configuration, EXPERIMENT_FORMAT, EXPERIMENT_VERSION, Experiment, ExperimentDrift,
    FailedRun, MeanInterval, MetricSummary, NormalityTest, StopReason, StoppingRule, Trend,
};
use fsage_stats::{
    IntervalKind, SIGNIFICANCE, drift, mean_interval, outliers, positive_mean_interval_kind,
    shapiro_wilk, summary,
};

use super::kept::Found;
use super::metrics;
use super::schedule::{Measured, independent};
use crate::plan::{BenchPlan, Rule, Subject};

/// The result of a plan from what was kept of it. `reason` is why configurations without enough runs have
/// no more.
pub fn experiment(plan: &BenchPlan, found: &Found, reason: StopReason) -> Experiment {
    let configurations: Vec<Configuration> = plan
        .subjects
        .iter()
        .map(|subject| configuration(plan, subject, found, reason))
        .collect();
    let mut failed: Vec<FailedRun> = Vec::new();
    for measured in found.measured.values() {
        failed.extend_from_slice(&measured.failed);
    }
    failed.sort_by_key(|run| run.order);
    let begin = found.begin.as_ref();
    let drift = plan.rule.required.iter();
    let drift = drift.map(|m| drift_of(m, &configurations)).collect();
    let interrupted = configurations
        .iter()
        .any(|c| c.stop == StopReason::Interrupted);
    let mut experiment = Experiment {
        format: EXPERIMENT_FORMAT.into(),
        experiment_version: EXPERIMENT_VERSION,
        plan: plan.text.clone(),
        plan_digest: begin.map_or_else(|| plan.digest(), |b| b.digest.clone()),
        seed: plan.seed,
        rule: rule(&plan.rule),
        started_unix_ns: begin.map_or(0, |begin| begin.started_unix_ns),
        resumed_unix_ns: found.resumed_unix_ns.clone(),
        elapsed_ns: found.used_ns(),
        machine: begin.and_then(|begin| begin.machine.clone()),
        configurations,
        failed,
        drift,
        warnings: Vec::new(),
        interrupted,
    };
    experiment.warnings = warnings(&experiment);
    experiment
}

fn rule(rule: &Rule) -> StoppingRule {
    StoppingRule {
        min_runs: rule.min_runs,
        max_runs: rule.max_runs,
        half_width_relative: rule.half_width_relative,
        required: rule.required.clone(),
        budget_ns: Some(u64::try_from(rule.budget.as_nanos()).unwrap_or(u64::MAX)),
        rounds: rule.rounds,
        round_pause_ns: u64::try_from(rule.round_pause.as_nanos()).unwrap_or(u64::MAX),
    }
}

fn configuration(
    plan: &BenchPlan,
    subject: &Subject,
    found: &Found,
    reason: StopReason,
) -> Configuration {
    let measured = found.of(&subject.name);
    let stop = measured.enough(&plan.rule).unwrap_or(reason);
    let metrics = names(&measured.runs);
    let metrics: Vec<MetricSummary> = metrics
        .iter()
        .map(|name| summarize(name, &measured.runs, plan.rule.required.contains(name)))
        .collect();
    Configuration {
        name: subject.name.clone(),
        target: subject.target.name.clone(),
        target_spec: subject.target.spec.to_string(),
        state: subject.state.to_string(),
        workload: subject.workload.name.clone(),
        workload_spec: subject.workload.spec.to_string(),
        setup: subject.workload.setup.clone(),
        cache: subject.caches.to_string(),
        parameters: subject.parameters.clone(),
        target_record: found.targets.get(&subject.name).cloned(),
        stop_text: stop_text(stop, measured, &metrics, &plan.rule),
        runs: measured.runs.clone(),
        metrics,
        stop,
    }
}

/// The metrics of any run: those of the table first, in its order.
fn names(runs: &[BenchRun]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for metric in metrics::METRICS {
        let mut of: Vec<&String> = runs
            .iter()
            .flat_map(|r| r.metrics.keys())
            .filter(|name| match metric.name.strip_suffix(':') {
                Some(_) => name.starts_with(metric.name),
                None => *name == metric.name,
            })
            .collect();
        of.sort();
        of.dedup();
        names.extend(of.into_iter().cloned());
    }
    names
}

/// All samples of a metric.
pub fn summarize(name: &str, runs: &[BenchRun], required: bool) -> MetricSummary {
    let of = |run: &BenchRun| Some((run.run, *run.metrics.get(name)?));
    let (numbers, samples): (Vec<u32>, Vec<f64>) = runs.iter().filter_map(of).unzip();
    let apart = independent(name, runs);
    let student = mean_interval(&apart, 0.95);
    let of_any = || student.map(|i| (i, IntervalKind::Student));
    let found = positive_mean_interval_kind(&apart, 0.95).or_else(of_any);
    let (ends, kind) = found.unzip();
    let half = student.map(|i| (i.high - i.low) / 2.0);
    let all = summary(&samples);
    let far = outliers(&samples);
    MetricSummary {
        metric: name.to_owned(),
        unit: metrics::unit(name).to_owned(),
        required,
        n: samples.len() as u64,
        mean: all.mean,
        half_width: half.filter(|_| kind == Some(IntervalKind::Student)),
        half_width_student: half,
        interval: kind.map(|kind| match kind {
            IntervalKind::Student => MeanInterval::Student,
            IntervalKind::StudentFromZero => MeanInterval::StudentFromZero,
            IntervalKind::LogNormal => MeanInterval::LogNormal,
        }),
        lower: ends.map(|i| i.low),
        upper: ends.map(|i| i.high),
        median: fsage_stats::median(&samples),
        sd: (samples.len() > 1).then_some(all.stddev),
        min: all.min,
        max: all.max,
        normal: shapiro_wilk(&samples).map(|n| NormalityTest {
            w: n.w,
            p: n.p,
            normal: n.p >= SIGNIFICANCE,
        }),
        outliers: far
            .iter()
            .filter_map(|&i| numbers.get(i).copied())
            .collect(),
        trend: trend(&samples),
    }
}

fn trend(samples: &[f64]) -> Option<Trend> {
    drift(samples).map(|d| Trend {
        tau: d.tau,
        p: d.p,
        slope: d.slope,
        drifts: d.p < SIGNIFICANCE,
    })
}

/// The trend over all runs in the order in which they were made, each over its configuration's mean.
fn drift_of(metric: &str, configurations: &[Configuration]) -> ExperimentDrift {
    let mut all: Vec<(u64, f64)> = Vec::new();
    for configuration in configurations {
        let samples = configuration.samples(metric);
        // One run is its own mean.
        if samples.len() < 2 {
            continue;
        }
        let mean = fsage_stats::mean(&samples);
        let of = |run: &BenchRun| Some((run.order, run.metrics.get(metric)? / mean));
        all.extend(configuration.runs.iter().filter_map(of));
    }
    all.retain(|(_, x)| x.is_finite());
    all.sort_by_key(|(order, _)| *order);
    let samples: Vec<f64> = all.into_iter().map(|(_, x)| x).collect();
    ExperimentDrift {
        metric: metric.to_owned(),
        n: samples.len() as u64,
        trend: trend(&samples),
    }
}

fn stop_text(
    stop: StopReason,
    measured: &Measured,
    metrics: &[MetricSummary],
    rule: &Rule,
) -> String {
    let runs = measured.runs.len();
    let goal = format!("{:.3}", rule.half_width_relative * 100.0);
    let goal = goal.trim_end_matches('0').trim_end_matches('.');
    let widths: Vec<String> = rule
        .required
        .iter()
        .map(|name| {
            let of = metrics.iter().find(|m| m.metric == *name);
            match of.and_then(MetricSummary::half_width_relative) {
                Some(width) => format!("{name} ±{:.1} %", width * 100.0),
                None => format!("{name} without an interval"),
            }
        })
        .collect();
    let widths = widths.join(", ");
    let goal = format!("asked for ±{goal} %");
    match stop {
        StopReason::Precise => format!("precise after {runs} runs: {widths} ({goal})"),
        StopReason::MaxRuns if rule.min_runs == rule.max_runs => {
            format!("{runs} runs, as many as asked for: {widths} ({goal})")
        }
        StopReason::MaxRuns => {
            format!("not precise after the most runs, {runs}: {widths} ({goal})")
        }
        StopReason::TimeBudget => {
            format!("time was over after {runs} runs: {widths} ({goal})")
        }
        StopReason::Failing => format!(
            "given up after {} failed runs; {runs} ended well",
            measured.failed.len()
        ),
        StopReason::AfterFailure => {
            format!("stopped after {runs} runs because a run of the experiment failed")
        }
        StopReason::Interrupted => format!("interrupted after {runs} runs: {widths} ({goal})"),
    }
}

/// What a reader must know of all of it.
fn warnings(experiment: &Experiment) -> Vec<String> {
    let mut warnings = Vec::new();
    for drift in &experiment.drift {
        if let Some(trend) = drift.trend.filter(|t| t.drifts) {
            warnings.push(format!(
                "{} drifts over the experiment: {:+.2} % from run to run (Mann-Kendall p = {:.3}); the \
                 configurations share it, as their runs are interleaved",
                drift.metric,
                trend.slope * 100.0,
                trend.p
            ));
        }
    }
    warnings.extend(too_short(experiment));
    for configuration in &experiment.configurations {
        for name in &experiment.rule.required {
            of_required(configuration, name, &mut warnings);
        }
        of_runs(configuration, &mut warnings);
    }
    if !experiment.resumed_unix_ns.is_empty() {
        warnings.push(format!(
            "the experiment was stopped and went on {} times: the machine may have changed meanwhile",
            experiment.resumed_unix_ns.len()
        ));
    }
    warnings
}

/// Runs within less than this say nothing of how a machine differs from minute to minute.
const SHORT_NS: u64 = 120_000_000_000;

/// What the intervals of a short experiment do not hold.
fn too_short(experiment: &Experiment) -> Option<String> {
    // What is computed does not differ from minute to minute.
    let is_measured =
        |c: &&Configuration| !c.target_record.as_ref().is_some_and(|t| t.virtual_time);
    let runs = || {
        let measured = experiment.configurations.iter().filter(is_measured);
        measured.flat_map(|c| &c.runs)
    };
    if experiment.rule.rounds > 1 || runs().count() < 2 || experiment.machine.is_none() {
        return None;
    }
    let ended = |run: &BenchRun| run.started_unix_ns.saturating_add(run.elapsed_ns);
    let span_ns = runs()
        .map(ended)
        .max()?
        .saturating_sub(runs().map(|run| run.started_unix_ns).min()?);
    (span_ns < SHORT_NS).then(|| {
        format!(
            "all runs lie within {:.1} s: how the machine differs from one minute to the next is not in the intervals \
             (of ten runs in seven seconds they held a mean of minutes in 58 to 70 %, not 95 %); --rounds 5 spreads \
             the runs and takes it in",
            span_ns as f64 / 1e9
        )
    })
}

fn of_required(configuration: &Configuration, name: &str, warnings: &mut Vec<String>) {
    let title = &configuration.name;
    let Some(metric) = configuration.metric(name) else {
        if !configuration.runs.is_empty() {
            warnings.push(format!("{title}: no run has the required metric {name}"));
        }
        return;
    };
    if let Some(normal) = metric.normal.filter(|n| !n.normal) {
        warnings.push(format!(
            "{title}: {name} is not normally distributed (Shapiro-Wilk W = {:.3}, p = {:.3}); the \
             interval of its mean holds only roughly for {} runs",
            normal.w, normal.p, metric.n
        ));
    }
    if let Some(trend) = metric.trend.filter(|t| t.drifts) {
        let per_run = trend.slope / metric.mean * 100.0;
        warnings.push(format!(
            "{title}: {name} drifts by {per_run:+.2} % from run to run (Mann-Kendall p = {:.3})",
            trend.p
        ));
    }
    if !metric.outliers.is_empty() {
        let runs: Vec<String> = metric.outliers.iter().map(u32::to_string).collect();
        warnings.push(format!(
            "{title}: {name} of run {} lies far from the others (Tukey); it counts all the same",
            runs.join(", ")
        ));
    }
}

fn of_runs(configuration: &Configuration, warnings: &mut Vec<String>) {
    let title = &configuration.name;
    let runs = &configuration.runs;
    let marked = runs.iter().filter(|r| !r.marks.is_empty()).count();
    if let Some(first) = runs.iter().find(|r| !r.marks.is_empty()) {
        warnings.push(format!(
            "{title}: {marked} of {} runs are marked, run {}: {}",
            runs.len(),
            first.run,
            first.marks.join("; ")
        ));
    }
    let reported = runs.iter().flat_map(|r| &r.phases).filter_map(|p| p.steady);
    let never = reported.clone().filter(|s| !s.steady).count();
    let all = reported.count();
    if never * 2 > all {
        warnings.push(format!(
            "{title}: throughput did not become steady in {never} of {all} phases; a longer run would \
             say more"
        ));
    }
    if configuration.cache == "cold" && runs.iter().any(|r| r.cold_verified.is_none()) {
        warnings.push(format!("{title}: nothing could show that caches were cold"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn run(number: u32, order: u64, elapsed: f64) -> BenchRun {
        BenchRun {
            run: number,
            order,
            metrics: [("elapsed".to_string(), elapsed)].into(),
            ..BenchRun::default()
        }
    }

    fn judged(samples: [&[f64]; 2], reason: StopReason) -> Experiment {
        let text = "[[target]]\nname='a'\nspec='/'\n[[target]]\nname='b'\nspec='/tmp'\n\
                    [[workload]]\nname='w'\nspec='cmd: true'\n";
        let plan = BenchPlan::parse(Path::new("p"), text, Path::new("/")).unwrap();
        let of = |(c, (subject, samples)): (usize, (&Subject, &&[f64]))| {
            let runs = samples.iter().enumerate();
            let measured = Measured {
                runs: runs
                    .map(|(i, &x)| run(i as u32, (2 * i + c) as u64, x))
                    .collect(),
                ..Measured::default()
            };
            (subject.name.clone(), measured)
        };
        let found = Found {
            measured: plan
                .subjects
                .iter()
                .zip(&samples)
                .enumerate()
                .map(of)
                .collect(),
            ..Found::default()
        };
        experiment(&plan, &found, reason)
    }

    #[test]
    fn samples_are_summarized_and_outliers_named() {
        let a = [10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.0, 10.1, 9.9, 14.0];
        let b = [5.0; 10];
        let found = judged([&a, &b], StopReason::Interrupted);
        let first = &found.configurations[0];
        let metric = first.metric("elapsed").unwrap();
        assert_eq!(
            (metric.n, metric.unit.as_str(), metric.required),
            (10, "ns", true)
        );
        assert_eq!(metric.outliers, [9]);
        assert!(
            (metric.mean - 10.4).abs() < 1e-9,
            "an outlier is never dropped"
        );
        assert!(!metric.normal.unwrap().normal);
        assert_eq!(first.stop, StopReason::Interrupted);
        let second = &found.configurations[1];
        assert_eq!(second.stop, StopReason::Precise);
        assert!(second.stop_text.contains("±0.0 %"), "{}", second.stop_text);
        let said = found.warnings.join("\n");
        assert!(said.contains("a / w: elapsed of run 9 lies far"), "{said}");
        assert!(said.contains("not normally distributed"), "{said}");
        assert!(found.interrupted);
    }

    #[test]
    fn a_drift_of_the_machine_is_reported_for_all() {
        let a: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let b: Vec<f64> = (0..10).map(|i| 7.0 + 0.07 * f64::from(i)).collect();
        let found = judged([&a, &b], StopReason::MaxRuns);
        let trend = found.drift[0].trend.unwrap();
        assert!(trend.drifts && trend.slope > 0.0, "{trend:?}");
        assert_eq!(found.drift[0].n, 20);
        let said = found.warnings.join("\n");
        assert!(
            said.contains("elapsed drifts over the experiment: +0.4"),
            "{said}"
        );
    }

    #[test]
    fn which_interval_a_mean_has_is_said() {
        let wide = [1.2, 2.0, 1.4, 9.0, 3.1, 1.1];
        let narrow = [10.0, 10.1, 9.9, 10.0];
        let found = judged([&wide, &narrow], StopReason::MaxRuns);
        let of = |at: usize| found.configurations[at].metric("elapsed").unwrap();
        let (wide, narrow) = (of(0), of(1));
        assert_eq!(narrow.interval, Some(MeanInterval::Student));
        let half = narrow.half_width.unwrap();
        assert!((narrow.mean + half - narrow.upper.unwrap()).abs() < 1e-9);
        assert_eq!(narrow.half_width_student, Some(half));
        assert_eq!(wide.interval, Some(MeanInterval::LogNormal));
        assert_eq!(wide.half_width, None, "it is not symmetric");
        // What the rule of stopping is about is told all the same.
        let rule = wide.half_width_relative().unwrap();
        let width = found.configurations[0]
            .stop_text
            .contains(&format!("±{:.1} %", rule * 100.0));
        assert!(
            width && rule > 0.25,
            "{}",
            found.configurations[0].stop_text
        );
    }

    #[test]
    fn nothing_measured_is_no_figure() {
        let found = judged([&[], &[1.0]], StopReason::AfterFailure);
        assert!(found.configurations[0].metrics.is_empty());
        let one = found.configurations[1].metric("elapsed").unwrap();
        assert_eq!((one.half_width, one.sd), (None, None));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Experiment>(&text).unwrap(), found);
    }
}
