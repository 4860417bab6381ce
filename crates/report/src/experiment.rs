//! An experiment as a person asks for it: what must be known first, who is fastest and how surely, one table.

mod details;
mod finding;

use fsage_format::result::experiment::{Configuration, Experiment, StopReason};
use fsage_stats::{SIGNIFICANCE, holm, mean, ratio, welch};

pub use details::failure;

use crate::comparison::{UNUSABLE, WORTH_TELLING};
use crate::environment::virtual_among;
use crate::labels::Labels;
use crate::names::PARTS;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units;
use details::{Names, with_half_width};

/// Configurations that the short form shows.
const ROWS: usize = 12;

/// The longest name, in characters, for which other columns make room.
const NAME_WHOLE: usize = 34;

/// To what a longer one is cut before other columns do.
const NAME_LEAST: usize = 28;

/// Failures that the short form tells.
const FAILURES: usize = 2;

/// What a terminal shows of an experiment: cautions, the finding, the table; with `details` everything.
pub fn text(experiment: &Experiment, details: bool, width: u16) -> String {
    let experiment = &labelled(experiment, width);
    let mut page = Page::new(width);
    let names = Names::of(&experiment.configurations);
    let groups = groups(experiment);
    cautions(&mut page, experiment, &names);
    finding::add(&mut page, experiment, &groups, &names);
    let runs: usize = experiment.configurations.iter().map(|c| c.runs.len()).sum();
    let mut all = format!(
        "{}, {} in {}, interleaved from seed {}",
        counted(experiment.configurations.len(), "configuration"),
        counted(runs, "run"),
        units::duration(experiment.elapsed_ns as f64),
        experiment.seed,
    );
    if !names.common.is_empty() {
        all.push_str(&format!("; all: {}", names.common.join(PARTS)));
    }
    page.say(all);
    let computed = experiment.configurations.iter().map(|c| {
        let record = c.target_record.as_ref();
        (c.target.as_str(), record.is_some_and(|r| r.virtual_time))
    });
    if let Some(said) = virtual_among(computed) {
        page.say(said);
    }
    if runs > 0 {
        page.blank();
        page.table(&table(experiment, &groups, &names, details, width));
    }
    let shown: usize = groups.iter().map(|g| g.members.len()).sum();
    if shown > ROWS && !details {
        page.say(format!(
            "and {} (--details)",
            counted(shown - ROWS, "configuration")
        ));
    }
    if details {
        details::add(&mut page, experiment, width);
    } else {
        brief(&mut page, experiment);
    }
    if experiment.interrupted {
        page.blank();
        page.say("interrupted: --resume goes on with it");
    }
    page.finish()
}

/// With names that are no longer than they must be: where they would be cut in the table, shorter still.
fn labelled(experiment: &Experiment, width: u16) -> Experiment {
    let all = || experiment.configurations.iter().map(|c| c.name.as_str());
    let put = Labels::of(all()).put(experiment);
    if longest(&put, &Names::of(&put.configurations)) <= NAME_WHOLE {
        return put;
    }
    Labels::side_by_side(width, all()).put(experiment)
}

/// The characters of the longest name in the table.
fn longest(experiment: &Experiment, names: &Names) -> usize {
    let all = experiment.configurations.iter();
    let length = all.map(|c| names.short(&c.name).chars().count());
    length.max().unwrap_or(0)
}

fn counted(count: usize, what: &str) -> String {
    units::counted(count as u64, what)
}

/// The metric that the experiment is about.
fn subject(experiment: &Experiment) -> &str {
    let first = experiment.rule.required.first();
    first.map_or("elapsed", String::as_str)
}

/// Whether more of it is better.
fn is_rate(metric: &str) -> bool {
    metric.contains("per_s") || metric.ends_with("hits")
}

/// Configurations that are held against one of them: the fastest of several targets, else the first.
struct Group<'a> {
    /// What its members have in common.
    name: String,
    base: usize,
    by_target: bool,
    members: Vec<&'a Configuration>,
    /// The members' p against the base, corrected for all that are held against one.
    p: Vec<Option<f64>>,
}

fn groups(experiment: &Experiment) -> Vec<Group<'_>> {
    let metric = subject(experiment);
    let mut targets: Vec<&str> = Vec::new();
    for c in &experiment.configurations {
        if !targets.contains(&c.target.as_str()) {
            targets.push(&c.target);
        }
    }
    let by_target = targets.len() > 1;
    let mut groups: Vec<Group<'_>> = Vec::new();
    for c in experiment
        .configurations
        .iter()
        .filter(|c| !c.runs.is_empty())
    {
        let parts: Vec<&str> = c.name.split(PARTS).filter(|p| *p != c.target).collect();
        let name = if by_target {
            parts.join(PARTS)
        } else {
            c.target.clone()
        };
        match groups.iter_mut().find(|g| g.name == name) {
            Some(group) => group.members.push(c),
            None => groups.push(Group {
                name,
                base: 0,
                by_target,
                members: vec![c],
                p: Vec::new(),
            }),
        }
    }
    for group in groups.iter_mut().filter(|g| g.by_target) {
        let value = |c: &Configuration| {
            let value = c.metric(metric).map_or(f64::INFINITY, |m| m.mean);
            if is_rate(metric) { -value } else { value }
        };
        let numbered = group.members.iter().enumerate();
        let best = numbered.min_by(|a, b| value(a.1).total_cmp(&value(b.1)));
        group.base = best.map_or(0, |(index, _)| index);
    }
    test(&mut groups, &experiment.rule.required);
    groups
}

/// Tests as `compare` does: Welch's, by Holm's correction for all required metrics of all pairs.
fn test(groups: &mut [Group<'_>], required: &[String]) {
    let mut all = Vec::new();
    for group in groups.iter() {
        let base = group.members.get(group.base);
        for (member, base) in group.members.iter().zip(base.into_iter().cycle()) {
            for metric in required {
                let other = member.name != base.name;
                let tested = welch(&member.samples(metric), &base.samples(metric));
                let tested = tested.filter(|_| other);
                all.push(tested.map_or(f64::NAN, |t| t.p));
            }
        }
    }
    let mut p = holm(&all).into_iter().step_by(required.len().max(1));
    for group in groups {
        let of = |_: &&Configuration| p.next().filter(|p| !p.is_nan());
        group.p = group.members.iter().map(of).collect();
    }
}

/// What must be known before any figure.
fn cautions(page: &mut Page, experiment: &Experiment, names: &Names) {
    let mut all = Vec::new();
    let runs: usize = experiment.configurations.iter().map(|c| c.runs.len()).sum();
    let every = experiment.configurations.iter().flat_map(|c| &c.runs);
    let marked: Vec<&str> = every
        .filter_map(|r| r.marks.first().map(String::as_str))
        .collect();
    if let Some(first) = marked.first() {
        all.push(format!(
            "{} of {runs} runs were disturbed ({first})",
            marked.len()
        ));
    }
    let every = experiment.configurations.iter().flat_map(|c| &c.runs);
    let left: Vec<&str> = every
        .filter_map(|r| r.command.as_ref()?.left_running.as_deref())
        .collect();
    if let Some(first) = left.first() {
        all.push(format!(
            "{} of {runs} runs left {first} running",
            left.len()
        ));
    }
    if !experiment.failed.is_empty() {
        all.push(format!(
            "{} failed",
            counted(experiment.failed.len(), "run")
        ));
    }
    let goal = experiment.rule.half_width_relative;
    let wide: Vec<String> = experiment
        .configurations
        .iter()
        .filter(|c| c.stop != StopReason::Precise && !c.runs.is_empty())
        .filter_map(|c| {
            let width = c.metric(subject(experiment))?.half_width_relative()?;
            let name = names.short(&c.name);
            let name = if name.is_empty() {
                c.name.clone()
            } else {
                name
            };
            (width > goal).then(|| format!("{name} ±{:.0} %", width * 100.0))
        })
        .collect();
    if let Some(first) = wide.first() {
        let more = match wide.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        all.push(format!(
            "not as precise as asked (±{}): {first}{more}",
            units::percent(goal)
        ));
    }
    if experiment
        .drift
        .iter()
        .any(|d| d.trend.is_some_and(|t| t.drifts))
    {
        all.push("the machine drifted from run to run".to_owned());
    }
    if !all.is_empty() {
        page.say(format!("caution: {}", all.join("; ")));
    }
}

/// A configuration against the base of its group.
struct Against {
    ratio: f64,
    is_apart: bool,
    text: String,
}

fn against(
    c: &Configuration,
    base: &Configuration,
    metric: &str,
    p: Option<f64>,
) -> Option<Against> {
    let (mine, its) = (c.samples(metric), base.samples(metric));
    if mine.is_empty() || its.is_empty() {
        return None;
    }
    let value = mean(&mine) / mean(&its);
    // As in virtual time, where nothing but the configuration makes a difference.
    let exact = is_constant(&mine) && is_constant(&its);
    let ends = match ratio(&mine, &its) {
        Some(_) if exact => "neither varies".to_owned(),
        None if mine.len() < 2 || its.len() < 2 => "no interval".to_owned(),
        None => "no bounds".to_owned(),
        Some(r) if units::is_unusable(Some(r.low), Some(r.high)) => UNUSABLE.to_owned(),
        Some(r) => format!("{:.2} to {:.2}", r.low, r.high),
    };
    value.is_finite().then(|| Against {
        ratio: value,
        is_apart: (exact || p.is_some_and(|p| p < SIGNIFICANCE))
            && (value - 1.0).abs() >= WORTH_TELLING,
        text: format!("x{value:.2} ({ends})"),
    })
}

fn is_constant(samples: &[f64]) -> bool {
    let pairs = samples.windows(2);
    samples.len() > 1 && pairs.map(|w| w[1] - w[0]).all(|d| d == 0.0)
}

fn table(
    experiment: &Experiment,
    groups: &[Group<'_>],
    names: &Names,
    details: bool,
    width: u16,
) -> TextTable {
    let metric = subject(experiment);
    let several = groups.iter().any(|g| g.members.len() > 1);
    let title = match groups.first() {
        Some(g) if g.by_target => "against the fastest",
        _ => "against the first",
    };
    // Columns go before names that are not long.
    let name = if longest(experiment, names) <= NAME_WHOLE {
        Align::Whole
    } else {
        Align::Left
    };
    let mut columns = vec![
        ("configuration", name),
        ("runs", Align::Right),
        (metric, Align::Right),
    ];
    if several {
        columns.push((title, Align::Right));
    }
    columns.extend([
        ("CPU", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
    ]);
    let table = TextTable::new(&columns, width).naming(NAME_LEAST);
    let mut table = table.dropping(&["CPU", "read", "written", "runs"]);
    let most = if details { usize::MAX } else { ROWS };
    let rows = groups.iter().flat_map(|g| {
        let members = g.members.iter().zip(&g.p);
        members.map(move |(c, p)| (g, c, *p))
    });
    for (group, c, p) in rows.take(most) {
        let short = names.short(&c.name);
        let mut row = vec![
            if short.is_empty() {
                c.name.clone()
            } else {
                short
            },
            units::count(c.runs.len() as u64),
            c.metric(metric).map_or("none".into(), with_half_width),
        ];
        if several {
            row.push(match group.members.get(group.base) {
                Some(base) if base.name == c.name => "1".to_owned(),
                Some(base) => against(c, base, metric, p).map_or("unknown".into(), |a| a.text),
                None => String::new(),
            });
        }
        for other in ["cpu_share", "device_sectors_read", "device_sectors_written"] {
            let found = c.metric(other);
            row.push(found.map_or_else(String::new, |m| units::metric(m.mean, &m.unit)));
        }
        table.row(row);
    }
    table
}

/// What the short form says of what failed and of the rest.
fn brief(page: &mut Page, experiment: &Experiment) {
    page.blank();
    for failed in experiment.failed.iter().take(FAILURES) {
        page.say(format!("not measured: {}", failure(failed)));
    }
    let left = experiment.failed.len().saturating_sub(FAILURES) + experiment.warnings.len();
    let unusable = experiment
        .configurations
        .iter()
        .filter_map(|c| c.metric(subject(experiment)))
        .any(|m| units::is_unusable(m.lower, m.upper));
    if unusable {
        page.say(
            "interval unusable: too few runs, or too different, to say more than that they vary",
        );
    }
    let moved = |c: &Configuration| {
        let sectors = ["device_sectors_read", "device_sectors_written"];
        sectors
            .iter()
            .any(|name| c.metric(name).is_some_and(|m| m.mean > 0.0))
    };
    if experiment.configurations.iter().any(moved) {
        page.say("read and written: by the device meanwhile, for anyone");
    }
    if left > 0 {
        page.say(format!(
            "{} and every figure: --details, or --json",
            counted(left, "note")
        ));
    } else {
        page.say("every figure: --details, or --json");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_format::result::experiment::{
        BenchRun, FailedRun, MetricSummary, NormalityTest, StoppingRule, Trend,
    };
    use std::collections::BTreeMap;

    fn metric(name: &str, unit: &str, mean: f64) -> MetricSummary {
        MetricSummary {
            metric: name.into(),
            unit: unit.into(),
            required: name == "elapsed",
            n: 10,
            mean,
            half_width: Some(mean / 50.0),
            half_width_student: None,
            interval: None,
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
                ..StoppingRule::default()
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

    /// `ext4 / PostMark` and others of the same workload that take so many times as long, give or take.
    fn beside(others: &[(&str, f64)]) -> Experiment {
        let mut all = experiment();
        let of = |target: &str, mean: f64| {
            let mut one = all.configurations[0].clone();
            one.name = format!("{target} / PostMark");
            one.target = target.into();
            one.metrics[0] = metric("elapsed", "ns", mean * 1.5e9);
            for (at, run) in one.runs.iter_mut().enumerate() {
                let value = (mean * 1.5e9) * (1.0 + 0.02 * (at % 3) as f64);
                run.metrics.insert("elapsed".into(), value);
            }
            one
        };
        let others = [("ext4", 1.0)].iter().chain(others);
        all.configurations = others.map(|(target, mean)| of(target, *mean)).collect();
        all
    }

    #[test]
    fn what_cannot_be_told_apart_is_told_with_its_range() {
        let words = |all: &Experiment| {
            let said = text(all, false, 80);
            said.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let said = words(&beside(&[("xfs", 1.004)]));
        let finding = "ext4 and xfs cannot be told apart: elapsed 1.5 s to 1.51 s";
        assert!(
            said.contains(finding) && !said.contains("fastest:"),
            "{said}"
        );
        let said = words(&beside(&[("xfs", 1.004), ("btrfs", 2.0)]));
        let finding = "cannot be told apart: elapsed 1.5 s to 1.51 s; btrfs x2.00";
        assert!(said.contains(finding), "{said}");
        let said = words(&beside(&[("xfs", 2.0)]));
        assert!(said.contains("ext4 is fastest: elapsed 1.5"), "{said}");
        // Against the first of one target, where another is alike and a third is not.
        let mut all = beside(&[("b", 1.004), ("c", 2.0)]);
        for (one, workload) in all.configurations.iter_mut().zip(["a", "b", "c"]) {
            one.target = "ext4".into();
            one.name = format!("ext4 / {workload}");
        }
        let said = words(&all);
        assert!(
            said.contains("against a (elapsed")
                && said.contains("c x2.00")
                && said.contains("b cannot be told from it"),
            "{said}"
        );
    }

    #[test]
    fn means_have_their_intervals_and_doubts_are_reported() {
        let text = text(&experiment(), true, 120);
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
        let text = text(&two, true, 100);
        assert!(text.contains("all: PostMark\n"), "{text}");
        assert!(text.lines().any(|l| l.starts_with(" xfs   ")), "{text}");
    }

    #[test]
    fn long_names_keep_what_tells_them_apart() {
        let loops = "cmd: for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i bs=64k; done; rm f1";
        let mut all = experiment();
        all.configurations.clear();
        for work in ["postmark:transactions=1000,files=200", loops] {
            for kind in ["ext4", "xfs"] {
                let target = format!("scratch:{kind},size=512M");
                let mut c = measured(&target, &[1.0e9, 1.1e9, 1.2e9], &[]);
                c.name = format!("{target} / {work}");
                all.configurations.push(c);
            }
        }
        let text = text(&all, false, 80);
        let rows = text.lines().skip_while(|line| !line.contains('─')).skip(1);
        let rows: Vec<&str> = rows.take(4).collect();
        for (row, (kind, work)) in rows.iter().zip([
            ("ext4", "postmark"),
            ("xfs", "postmark"),
            ("ext4", "cmd"),
            ("xfs", "cmd"),
        ]) {
            assert!(row.contains(kind) && row.contains(work), "{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn an_experiment_without_runs_is_reported_too() {
        let mut nothing = experiment();
        nothing.configurations[0].runs.clear();
        nothing.configurations[0].metrics.clear();
        let text = text(&nothing, true, 100);
        assert!(
            text.contains("how sure that is") && !text.contains("half-width"),
            "{text}"
        );
    }

    fn measured(target: &str, samples: &[f64], marks: &[&str]) -> Configuration {
        let mut c = experiment().configurations.remove(0);
        c.name = format!("{target} / PostMark");
        c.target = target.into();
        c.runs = samples
            .iter()
            .map(|&ns| BenchRun {
                metrics: [("elapsed".to_owned(), ns)].into(),
                marks: marks.iter().map(|m| (*m).to_owned()).collect(),
                ..BenchRun::default()
            })
            .collect();
        let found = fsage_stats::positive_mean_interval(samples, 0.95);
        c.metrics = vec![MetricSummary {
            mean: mean(samples),
            lower: found.map(|i| i.low),
            upper: found.map(|i| i.high),
            ..metric("elapsed", "ns", 1.0)
        }];
        c
    }

    fn three() -> Experiment {
        let mut three = experiment();
        three.configurations = vec![
            measured("xfs", &[2.0e9, 2.02e9, 1.98e9, 2.01e9], &["a hypervisor"]),
            measured("ext4", &[1.0e9, 1.01e9, 0.99e9, 1.0e9], &[]),
            measured("btrfs", &[1.001e9, 1.012e9, 0.992e9, 1.003e9], &[]),
            measured("slow", &[8e9, 1e9, 40e9], &[]),
        ];
        three
    }

    #[test]
    fn it_tells_apart_what_a_comparison_tells_apart() {
        let mut two = experiment();
        // Welch's p is 0.017; Fieller's ratio has no bounds.
        two.configurations = vec![
            measured("ext4", &[1.0e9, 0.01e9, 2.6e9, 0.2e9], &[]),
            measured("xfs", &[9.0e9, 14.0e9, 11e9, 16e9], &[]),
        ];
        let said = text(&two, false, 120);
        assert!(
            said.contains("ext4 is fastest: elapsed") && said.contains("xfs x13.12 (no bounds)"),
            "{said}"
        );
        // An interval that says too little is not printed.
        two.configurations[1] = measured("xfs", &[0.95e9, 5.0e9, 1.2e9], &[]);
        two.configurations[0] = measured("ext4", &[1.0e9, 1.1e9, 0.9e9], &[]);
        let said = text(&two, false, 120);
        assert!(
            said.contains("cannot be told apart") && said.contains("x2.38 (unusable)"),
            "{said}"
        );
        // In virtual time runs are the same.
        two.configurations[1] = measured("xfs", &[5.0e9, 5.0e9], &[]);
        two.configurations[0] = measured("ext4", &[1.0e9, 1.0e9], &[]);
        let said = text(&two, false, 120);
        assert!(
            said.contains("ext4 is fastest") && said.contains("xfs x5.00 (neither varies)"),
            "{said}"
        );
        // Alone it would be told apart, among eleven tests not.
        let near = [1.11e9, 1.04e9, 1.13e9, 1.08e9];
        let base = measured("ext4", &[1.0e9, 1.06e9, 1.04e9, 1.0e9], &[]);
        two.configurations = vec![base.clone(), measured("xfs", &near, &[])];
        assert!(text(&two, false, 120).contains("ext4 is fastest"));
        let more = (0..10).map(|i| measured(&format!("t{i}"), &near, &[]));
        two.configurations.extend(more);
        assert!(text(&two, false, 120).contains("cannot be told apart"));
    }

    #[test]
    fn the_answer_is_first_and_fits() {
        for width in [80, 160] {
            let text = text(&three(), false, width);
            assert!(text.lines().count() <= 24, "{text}");
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{text}");
            let flat = text.replace("\n  ", " ");
            for said in [
                "caution: 4 of 15 runs were disturbed (a hypervisor); 1 run failed",
                "ext4 and btrfs, slow cannot be told apart: elapsed 1 s to 16.3 s",
                "xfs x2.00 (1.9",
                "(unusable)",
                "every figure: --details",
            ] {
                assert!(flat.contains(said), "`{said}` is missing:\n{text}");
            }
            assert!(
                !text.contains("-0.") && !text.contains("how sure"),
                "{text}"
            );
        }
    }
}
