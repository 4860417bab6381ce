//! All of an experiment: every figure, how sure it is, and what must be known of it.

use fsage_format::result::experiment::{
    BenchRun, Configuration, Experiment, FailedRun, MetricSummary,
};

use crate::names::PARTS;
use crate::page::Page;
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

/// Everything else that a terminal shows of an experiment.
pub(super) fn add(page: &mut Page, experiment: &Experiment, width: u16) {
    let measured: Vec<&Configuration> = experiment
        .configurations
        .iter()
        .filter(|c| !c.runs.is_empty())
        .collect();
    let names = Names::of(&experiment.configurations);
    if !names.common.is_empty() {
        page.title(format!("all: {}", names.common.join(PARTS)));
    }
    if !measured.is_empty() {
        page.title(
            "means with their 95 % intervals: ± half the width (Student's t); from low to high where runs vary \
             much (log-normal)",
        );
        page.append(&table(&measured, &names, &SHOWN, width));
        let others = required_besides(experiment);
        if !others.is_empty() {
            page.blank();
            let columns: Vec<(&str, &str)> = others.iter().map(|m| (*m, *m)).collect();
            page.append(&table(&measured, &names, &columns, width));
        }
        page.title("means of what the system did for a run");
        for columns in ACTIVITY {
            page.append(&activity(&measured, &names, columns, width));
        }
        page.append(&steady(&measured, &names, width));
    }
    page.title("how sure that is");
    page.append(&sure(experiment, &names, width));
    page.blank();
    for failed in &experiment.failed {
        page.say(format!("not measured: {}", failure(failed)));
    }
    for warning in &experiment.warnings {
        page.say(format!("note: {warning}"));
    }
}

/// Configurations' names without the parts that all of them share, which are said once.
pub(super) struct Names {
    pub(super) common: Vec<String>,
    /// Whether the part at that place is shared.
    shared: Vec<bool>,
}

impl Names {
    pub(super) fn of(configurations: &[Configuration]) -> Self {
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

    pub(super) fn short(&self, name: &str) -> String {
        let own = |(i, part): (usize, &str)| {
            let shared = self.shared.get(i).copied().unwrap_or(false);
            (!shared).then(|| part.to_owned())
        };
        let parts: Vec<String> = name.split(PARTS).enumerate().filter_map(own).collect();
        parts.join(PARTS)
    }
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

/// A mean with its interval, where there is one.
pub(super) fn with_half_width(metric: &MetricSummary) -> String {
    units::with_ends(metric.mean, metric.lower, metric.upper, &metric.unit)
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
            let reported: Vec<_> = configuration.runs.iter().filter_map(of_name).collect();
            if reported.is_empty() {
                continue;
            }
            rows += 1;
            let steady: Vec<_> = reported.iter().filter(|s| s.steady).collect();
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
                format!("{} of {} runs", steady.len(), reported.len()),
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
        ("why it ended", Align::Prose),
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
