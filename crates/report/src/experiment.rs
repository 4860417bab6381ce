//! An experiment as tables: what was measured, how sure that is, and what must be known of it.

use fsage_format::result::experiment::{
    BenchRun, Configuration, Experiment, FailedRun, MetricSummary,
};

use crate::table::{Align, TextTable};
use crate::units;

/// The metrics that are shown with their intervals, and their titles.
const SHOWN: [(&str, &str); 4] = [
    ("elapsed", "elapsed"),
    ("user", "user"),
    ("system", "system"),
    ("wait", "wait"),
];

/// What else is shown, by its mean: what processors did, and what caches and devices did.
const ACTIVITY: [&[(&str, &str)]; 2] = [
    &[
        ("cpu_share", "CPU"),
        ("run_delay", "run delay"),
        ("involuntary_switches", "preempted"),
        ("operations_per_s", "operations/s"),
    ],
    &[
        ("page_cache_hits", "cache hits"),
        ("device_sectors_read", "read"),
        ("device_sectors_written", "written"),
        ("flush", "flush after"),
    ],
];

/// What separates the parts of a configuration's name.
const PARTS: &str = " / ";

/// Everything that a terminal shows of an experiment.
pub fn text(experiment: &Experiment, width: u16) -> String {
    let runs: usize = experiment.configurations.iter().map(|c| c.runs.len()).sum();
    let mut out = format!(
        "{}, {} in {}, interleaved from seed {}\n",
        counted(experiment.configurations.len(), "configuration"),
        counted(runs, "run"),
        units::duration(experiment.elapsed_ns as f64),
        experiment.seed,
    );
    let measured: Vec<&Configuration> = experiment
        .configurations
        .iter()
        .filter(|c| !c.runs.is_empty())
        .collect();
    let names = Names::of(&experiment.configurations);
    if !names.common.is_empty() {
        out.push_str(&format!("all: {}\n", names.common.join(PARTS)));
    }
    if !measured.is_empty() {
        out.push_str("\nmean ± half-width of its 95 % interval (Student's t)\n");
        out.push_str(&table(&measured, &names, &SHOWN, width));
        let others = required_besides(experiment);
        if !others.is_empty() {
            out.push('\n');
            let columns: Vec<(&str, &str)> = others.iter().map(|m| (*m, *m)).collect();
            out.push_str(&table(&measured, &names, &columns, width));
        }
        out.push_str("\nmeans of what the system did for a run\n");
        for columns in ACTIVITY {
            out.push_str(&activity(&measured, &names, columns, width));
        }
        out.push_str(&steady(&measured, &names, width));
    }
    out.push_str("\nhow sure that is\n");
    out.push_str(&sure(experiment, &names, width));
    if !(experiment.failed.is_empty() && experiment.warnings.is_empty()) {
        out.push('\n');
    }
    for failed in &experiment.failed {
        out.push_str(&format!("not measured: {}\n", failure(failed)));
    }
    for warning in &experiment.warnings {
        out.push_str(&format!("note: {warning}\n"));
    }
    if experiment.interrupted {
        out.push_str("\ninterrupted: --resume goes on with it\n");
    }
    out
}

/// Configurations' names without the parts that all of them share, which are said once.
struct Names {
    common: Vec<String>,
    /// Whether the part at that place is shared.
    shared: Vec<bool>,
}

impl Names {
    fn of(configurations: &[Configuration]) -> Self {
        let split = |c: &Configuration| c.name.split(PARTS).map(str::to_owned).collect();
        let parts: Vec<Vec<String>> = configurations.iter().map(split).collect();
        let Some((first, rest)) = parts.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Self {
                common: Vec::new(),
                shared: Vec::new(),
            };
        };
        let alike = |(i, part): (usize, &String)| rest.iter().all(|p| p.get(i) == Some(part));
        let shared: Vec<bool> = first.iter().enumerate().map(alike).collect();
        let common = first.iter().zip(&shared).filter(|(_, shared)| **shared);
        Self {
            common: common.map(|(part, _)| part.clone()).collect(),
            shared,
        }
    }

    fn short(&self, name: &str) -> String {
        let own = |(i, part): (usize, &str)| {
            let shared = self.shared.get(i).copied().unwrap_or(false);
            (!shared).then(|| part.to_owned())
        };
        let parts: Vec<String> = name.split(PARTS).enumerate().filter_map(own).collect();
        parts.join(PARTS)
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", units::count(count as u64))
}

/// Why a run failed, as a sentence.
pub fn failure(failed: &FailedRun) -> String {
    format!(
        "run {} of {}: failed to {}",
        failed.run, failed.configuration, failed.error
    )
}

/// Required metrics that are not shown anyway.
fn required_besides(experiment: &Experiment) -> Vec<&str> {
    let shown = |name: &str| SHOWN.iter().any(|(metric, _)| *metric == name);
    let required = experiment.rule.required.iter().map(String::as_str);
    required.filter(|name| !shown(name)).collect()
}

fn table(
    configurations: &[&Configuration],
    names: &Names,
    metrics: &[(&str, &str)],
    width: u16,
) -> String {
    let there: Vec<&(&str, &str)> = metrics
        .iter()
        .filter(|(name, _)| configurations.iter().any(|c| c.metric(name).is_some()))
        .collect();
    let mut columns = vec![("configuration", Align::Left), ("n", Align::Right)];
    columns.extend(there.iter().map(|(_, title)| (*title, Align::Right)));
    let mut table = TextTable::new(&columns, width);
    for configuration in configurations {
        let n = configuration.runs.len() as u64;
        let mut row = vec![names.short(&configuration.name), units::count(n)];
        row.extend(there.iter().map(|(name, _)| {
            configuration
                .metric(name)
                .map_or_else(String::new, with_half_width)
        }));
        table.row(row);
    }
    table.render()
}

/// A mean with half the width of its interval, where there is one.
fn with_half_width(metric: &MetricSummary) -> String {
    match metric.half_width {
        Some(half) => units::plus_minus(metric.mean, half, &metric.unit),
        None => units::metric(metric.mean, &metric.unit),
    }
}

fn activity(
    configurations: &[&Configuration],
    names: &Names,
    columns: &[(&str, &str)],
    width: u16,
) -> String {
    let there: Vec<&(&str, &str)> = columns
        .iter()
        .filter(|(name, _)| configurations.iter().any(|c| c.metric(name).is_some()))
        .collect();
    let mut columns = vec![("configuration", Align::Left)];
    columns.extend(there.iter().map(|(_, title)| (*title, Align::Right)));
    let mut table = TextTable::new(&columns, width);
    for configuration in configurations {
        let mut row = vec![names.short(&configuration.name)];
        row.extend(there.iter().map(|(name, _)| {
            let metric = configuration.metric(name);
            metric.map_or_else(String::new, |m| units::metric(m.mean, &m.unit))
        }));
        table.row(row);
    }
    table.render()
}

/// Warm-up and steady throughput of the phases that are long enough to tell.
fn steady(configurations: &[&Configuration], names: &Names, width: u16) -> String {
    let columns = [
        ("configuration", Align::Left),
        ("phase", Align::Left),
        ("steady in", Align::Right),
        ("warm-up", Align::Right),
        ("operations/s then", Align::Right),
        ("and steady", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    let mut rows = 0;
    for configuration in configurations {
        for name in phases(&configuration.runs) {
            let of_name = |run: &BenchRun| {
                let phase = run.phases.iter().find(|p| p.result.name == name)?;
                phase.steady
            };
            let told: Vec<_> = configuration.runs.iter().filter_map(of_name).collect();
            if told.is_empty() {
                continue;
            }
            rows += 1;
            let steady: Vec<_> = told.iter().filter(|s| s.steady).collect();
            let mean = |of: Vec<f64>, write: fn(f64) -> String| {
                let n = of.len() as f64;
                let sum: f64 = of.iter().sum();
                if of.is_empty() {
                    String::new()
                } else {
                    write(sum / n)
                }
            };
            let rate = |of: f64| units::metric(of, "operations/s");
            table.row([
                names.short(&configuration.name),
                name.clone(),
                format!("{} of {} runs", steady.len(), told.len()),
                mean(
                    steady.iter().map(|s| s.warm_up_ns as f64).collect(),
                    units::duration,
                ),
                mean(
                    steady
                        .iter()
                        .filter_map(|s| s.warm_up_operations_per_s)
                        .collect(),
                    rate,
                ),
                mean(
                    steady
                        .iter()
                        .filter_map(|s| s.steady_operations_per_s)
                        .collect(),
                    rate,
                ),
            ]);
        }
    }
    if rows == 0 {
        return String::new();
    }
    format!(
        "\nwhere throughput becomes steady, by its change points\n{}",
        table.render()
    )
}

fn phases(runs: &[BenchRun]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for phase in runs.iter().flat_map(|r| &r.phases) {
        if !names.contains(&phase.result.name) {
            names.push(phase.result.name.clone());
        }
    }
    names
}

/// Why measuring ended, and what the samples look like.
fn sure(experiment: &Experiment, names: &Names, width: u16) -> String {
    let columns = [
        ("configuration", Align::Left),
        ("why it ended", Align::Left),
        ("metric", Align::Left),
        ("normal", Align::Left),
        ("far runs", Align::Left),
        ("drift", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    for configuration in &experiment.configurations {
        let mut first = (
            names.short(&configuration.name),
            configuration.stop_text.clone(),
        );
        let mut named = false;
        for name in &experiment.rule.required {
            let Some(metric) = configuration.metric(name) else {
                continue;
            };
            let (title, why) = std::mem::take(&mut first);
            let (normal, far, drift) = looks(metric);
            table.row([title, why, name.clone(), normal, far, drift]);
            named = true;
        }
        if !named {
            table.row([first.0, first.1]);
        }
    }
    table.render()
}

/// What the samples of a metric look like: normal, which lie far, whether they drift.
fn looks(metric: &MetricSummary) -> (String, String, String) {
    let normal = metric.normal.map_or("too few".to_owned(), |n| {
        let says = if n.normal { "yes" } else { "no" };
        format!("{says} (p {:.2})", n.p)
    });
    let far: Vec<String> = metric.outliers.iter().map(u32::to_string).collect();
    let far = if far.is_empty() {
        "none".to_owned()
    } else {
        far.join(", ")
    };
    let drift = metric.trend.map_or("too few".to_owned(), |t| {
        if t.drifts {
            let share = t.slope / metric.mean;
            format!("{} a run (p {:.2})", units::signed_percent(share), t.p)
        } else {
            format!("none (p {:.2})", t.p)
        }
    });
    (normal, far, drift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_format::result::experiment::{NormalityTest, StopReason, StoppingRule, Trend};
    use std::collections::BTreeMap;

    fn metric(name: &str, unit: &str, mean: f64) -> MetricSummary {
        MetricSummary {
            metric: name.into(),
            unit: unit.into(),
            required: name == "elapsed",
            n: 10,
            mean,
            half_width: Some(mean / 50.0),
            lower: Some(mean * 0.98),
            upper: Some(mean * 1.02),
            median: mean,
            sd: Some(mean / 20.0),
            min: mean,
            max: mean,
            normal: Some(NormalityTest {
                w: 0.8,
                p: 0.01,
                normal: false,
            }),
            outliers: vec![3],
            trend: Some(Trend {
                tau: 0.5,
                p: 0.02,
                slope: mean / 100.0,
                drifts: true,
            }),
        }
    }

    fn experiment() -> Experiment {
        let configuration = Configuration {
            name: "ext4 / PostMark".into(),
            target: "ext4".into(),
            target_spec: "scratch:ext4".into(),
            state: "fresh".into(),
            workload: "PostMark".into(),
            workload_spec: "postmark".into(),
            setup: None,
            cache: "cold".into(),
            parameters: BTreeMap::new(),
            target_record: None,
            runs: vec![BenchRun::default(); 10],
            metrics: vec![
                metric("elapsed", "ns", 1.5e9),
                metric("cpu_share", "share", 0.42),
                metric("device_sectors_read", "sectors", 2048.0),
            ],
            stop: StopReason::Precise,
            stop_text: "precise after 10 runs".into(),
        };
        Experiment {
            format: "fsage bench".into(),
            experiment_version: 1,
            plan: String::new(),
            plan_digest: String::new(),
            seed: 7,
            rule: StoppingRule {
                min_runs: 10,
                max_runs: 30,
                half_width_relative: 0.05,
                required: vec!["elapsed".into()],
                budget_ns: None,
            },
            started_unix_ns: 0,
            resumed_unix_ns: Vec::new(),
            elapsed_ns: 20_000_000_000,
            machine: None,
            configurations: vec![configuration],
            failed: vec![FailedRun {
                configuration: "ext4 / PostMark".into(),
                run: 4,
                order: 4,
                started_unix_ns: 0,
                steps: Vec::new(),
                error: "mount it".into(),
            }],
            drift: Vec::new(),
            warnings: vec!["be careful".into()],
            interrupted: false,
        }
    }

    #[test]
    fn means_have_their_intervals_and_doubts_are_told() {
        let text = text(&experiment(), 120);
        for said in [
            "1 configuration, 10 runs in 20 s, interleaved from seed 7",
            "1.5 ± 0.03 s",
            "42.0 %",
            "1 MiB",
            "precise after 10 runs",
            "no (p 0.01)",
            "+1.0 % a run (p 0.02)",
            "run 4 of ext4 / PostMark: failed to mount it",
            "note: be careful",
        ] {
            assert!(text.contains(said), "`{said}` is missing:\n{text}");
        }
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn what_all_names_share_is_said_once() {
        let mut two = experiment();
        let mut other = two.configurations[0].clone();
        other.name = "xfs / PostMark".into();
        two.configurations.push(other);
        let text = text(&two, 100);
        assert!(text.contains("all: PostMark\n"), "{text}");
        assert!(text.lines().any(|l| l.starts_with(" xfs   ")), "{text}");
    }

    #[test]
    fn an_experiment_without_runs_is_told_too() {
        let mut nothing = experiment();
        nothing.configurations[0].runs.clear();
        nothing.configurations[0].metrics.clear();
        let text = text(&nothing, 100);
        assert!(
            text.contains("how sure that is") && !text.contains("half-width"),
            "{text}"
        );
    }
}
