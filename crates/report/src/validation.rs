//! Tables 4.7 to 4.9 of Smith 2001 and what stands beside them.

mod causes;
mod speed;

pub use speed::average;

use fsage_format::result::validation::{
    FailedStep, Figures, Judgement, NamedError, NotPredicted, Pair, PairKind, Validation,
};

use self::speed::{OVERVIEW, Speed, elapsed_of, equal_of, error_of, headline};
use crate::environment::virtual_among;
use crate::labels::Labels;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{self, count, duration, percent, signed_percent};

/// Pairs that the short form shows, and notes.
const ROWS: usize = 12;
const NOTES: usize = 2;

/// What a terminal shows of a validation: how far predictions are off, one table; with `details` the tables of the
/// thesis and what the error consists of.
pub fn text(result: &Validation, details: bool, width: u16) -> String {
    let workloads = result.workloads.iter().map(|w| w.name.as_str());
    let targets = result.targets.iter().map(|t| t.name.as_str());
    let pairs = result.pairs.iter();
    let pairs = pairs.flat_map(|p| [p.workload.as_str(), p.target.as_str()]);
    let labels = Labels::of(workloads.chain(targets).chain(pairs));
    let result = &labels.put(result);
    let mut page = Page::new(width);
    finding(&mut page, result);
    let computed = result.targets.iter();
    if let Some(said) = virtual_among(computed.map(|t| (t.name.as_str(), t.virtual_time))) {
        page.say(said);
    }
    if !result.disturbed.is_empty() {
        page.say(format!(
            "caution: disturbed while measured: {}; measure again on a quiet machine",
            result.disturbed.join("; ")
        ));
    }
    if !result.pairs.is_empty() || !result.not_predicted.is_empty() {
        page.blank();
        if details && result.judgement.equal_speed.is_some() {
            page.say(OVERVIEW);
        }
        page.table(&overview(result, details, width));
        if result.pairs.len() > ROWS && !details {
            page.say(format!(
                "and {} more pairs (--details)",
                result.pairs.len() - ROWS
            ));
        }
    }
    if details {
        all(&mut page, result, width);
    }
    page.blank();
    if result.interrupted {
        page.say("interrupted: these are not all pairs of the plan");
    }
    let most = if details { usize::MAX } else { NOTES };
    for lacking in result.not_predicted.iter().take(most) {
        page.say(unpredicted(lacking));
    }
    for failed in result.failed.iter().take(most) {
        page.say(format!("failed: {}", failure(failed)));
    }
    for note in result.notes.iter().take(most) {
        page.say(format!("note: {note}"));
    }
    if !details {
        let all = [
            result.not_predicted.len(),
            result.failed.len(),
            result.notes.len(),
        ];
        let left: usize = all.iter().map(|n| n.saturating_sub(NOTES)).sum();
        let notes = (left > 0).then(|| units::counted(left as u64, "more note"));
        // Before anything is predicted there is no error, and no table.
        let tables =
            (!result.pairs.is_empty()).then(|| "causes of the error, every table".to_owned());
        let more: Vec<String> = notes.into_iter().chain(tables).collect();
        if !more.is_empty() {
            page.say(format!("{}: --details; all of it: --json", more.join(", ")));
        }
    }
    page.finish()
}

/// How far off, in three lines.
fn finding(page: &mut Page, result: &Validation) {
    let judgement = headline(&result.judgement);
    let of = &judgement.figures;
    let worst = result
        .pairs
        .iter()
        .filter(|p| p.measured_ns > 0.0)
        .max_by(|a, b| {
            error_of(result, a)
                .abs()
                .total_cmp(&error_of(result, b).abs())
        });
    let Some(worst) = worst else {
        page.say(if result.not_predicted.is_empty() {
            "nothing was measured and predicted: nothing to say"
        } else {
            "nothing of what was measured is predicted"
        });
        return;
    };
    let elapsed = of.average_elapsed_error.map_or(String::new(), |e| {
        format!(", {} of elapsed time", percent(e))
    });
    let raw = if result.judgement.equal_speed.is_some() {
        let raw = known(result.judgement.figures.average_error);
        format!(", at equal speed of the machine ({raw} as it was)")
    } else {
        String::new()
    };
    let half = (result.half.as_ref()).map_or(String::new(), |half| format!("{half} half: "));
    page.say(format!(
        "{half}predictions are off by {} of the time in the file system{elapsed}{raw}",
        known(of.average_error),
    ));
    let variation = match (worst.measured_variation, of.average_variation) {
        (Some(its), Some(v)) => format!(
            ", where runs vary by {}; on average over all pairs they vary by {}",
            percent(its),
            percent(v)
        ),
        (None, Some(v)) => format!(" (one run); runs vary by {} on average", percent(v)),
        _ => "; of one run each, so how much runs vary is unknown".to_owned(),
    };
    page.say(format!(
        "worst: {} on {}, {}{variation}",
        worst.workload,
        worst.target,
        signed_percent(error_of(result, worst)),
    ));
    if of.ranks_total > 0 {
        let apart = match of.ranks_apart_total {
            0 if of.average_variation.is_none() => {
                "which differ by more than runs vary is unknown".to_owned()
            }
            0 => "none differ by more than runs vary".to_owned(),
            n => format!(
                "{} of {n} that differ by more than runs vary",
                of.ranks_apart_right
            ),
        };
        page.say(format!(
            "order of targets right: {} of {} pairs, {apart}",
            count(of.ranks_right.into()),
            count(of.ranks_total.into())
        ));
    }
}

/// A share, where there is something that it is of.
pub fn known(share: Option<f64>) -> String {
    share.map_or_else(|| "unknown".to_owned(), percent)
}

fn overview(result: &Validation, details: bool, width: u16) -> TextTable {
    let columns = [
        ("workload", Align::Left),
        ("target", Align::Left),
        ("measured", Align::Right),
        ("predicted", Align::Right),
        ("error", Align::Right),
        ("as it was", Align::Right),
        ("runs vary", Align::Right),
        ("elapsed", Align::Right),
        ("elapsed error", Align::Right),
    ];
    let equal = result.judgement.equal_speed.is_some();
    let columns: Vec<_> = columns
        .into_iter()
        .filter(|c| equal || c.0 != "as it was")
        .collect();
    let mut table = TextTable::new(&columns, width).dropping(&[
        "elapsed",
        "runs vary",
        "elapsed error",
        "as it was",
    ]);
    let most = if details { usize::MAX } else { ROWS };
    for pair in result.pairs.iter().take(most) {
        let its = equal_of(result, pair);
        let elapsed_error = its.map_or(pair.elapsed_error, |e| e.elapsed_error);
        let mut row = vec![
            pair.workload.clone(),
            pair.target.clone(),
            duration(pair.measured_ns),
            duration(its.map_or(pair.predicted_ns, |e| e.predicted_ns)),
            signed_percent(error_of(result, pair)),
        ];
        row.extend(equal.then(|| signed_percent(pair.error)));
        row.extend([
            pair.measured_variation.map_or("one run".into(), percent),
            duration(pair.measured_elapsed_ns),
            elapsed_error.map_or("unknown".into(), signed_percent),
        ]);
        table.row(row);
    }
    for lacking in result.not_predicted.iter().take(most) {
        let mut row = vec![
            lacking.workload.clone(),
            lacking.target.clone(),
            duration(lacking.measured_ns),
            "not predicted".to_owned(),
            String::new(),
        ];
        row.extend(equal.then(String::new));
        row.extend([
            lacking.measured_variation.map_or("one run".into(), percent),
            duration(lacking.measured_elapsed_ns),
            String::new(),
        ]);
        table.row(row);
    }
    table
}

/// Everything else: the tables of the thesis are of predictions as they were.
fn all(page: &mut Page, result: &Validation, width: u16) {
    let raw = Speed::AsItWas.label(result);
    if !result.pairs.is_empty() {
        page.title(format!(
            "Predicted and measured time in the file system, with intervals (Smith 2001, Table 4.7){raw}",
        ));
        page.append(&pairs(result, width));
        let by = "Average error by target (Table 4.8) and by workload (Table 4.9)";
        if let Some(equal) = &result.judgement.equal_speed {
            page.title(format!("{by}{}", Speed::Equal.label(result)));
            page.append(&errors(equal, width));
        }
        page.title(format!("{by}{raw}"));
        page.append(&errors(&result.judgement, width));
    }
    for speed in [Speed::Equal, Speed::AsItWas] {
        let only = speed == Speed::AsItWas || result.judgement.equal_speed.is_some();
        let any = |p: &Pair| elapsed_of(p, speed).is_some();
        if only && result.pairs.iter().any(any) {
            let label = speed.label(result);
            page.title(format!("Predicted and measured elapsed time{label}"));
            page.append(&elapsed(result, speed, width));
        }
    }
    if !result.judgement.causes.is_empty() {
        causes::add(page, &result.judgement, raw, width);
    }
    page.blank();
    summary(page, result);
    page.title("workloads");
    for workload in &result.workloads {
        let setup = workload
            .setup
            .as_ref()
            .map_or(String::new(), |s| format!(", prepared by: {s}"));
        page.item(format!("{}: {}{setup}", workload.name, workload.spec));
    }
    if result.targets.iter().any(|t| t.name != t.spec) {
        page.say("targets");
        for target in &result.targets {
            page.item(format!("{}: {}", target.name, target.spec));
        }
    }
}

fn pairs(result: &Validation, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("workload", Align::Left),
            ("target", Align::Left),
            ("measured", Align::Right),
            ("runs vary", Align::Right),
            ("predicted", Align::Right),
            ("error", Align::Right),
        ],
        width,
    )
    .dropping(&["runs vary"]);
    let mut last = "";
    for pair in &result.pairs {
        let workload = if pair.workload == last {
            ""
        } else {
            &pair.workload
        };
        last = &pair.workload;
        table.row([
            workload.to_string(),
            pair.target.clone(),
            measured(pair),
            pair.measured_variation.map_or("one run".into(), percent),
            with_interval(pair),
            signed_percent(pair.error),
        ]);
    }
    table.render()
}

/// What is said of what has no prediction.
pub fn unpredicted(lacking: &NotPredicted) -> String {
    let NotPredicted {
        workload,
        target,
        reason,
        ..
    } = lacking;
    format!("{workload} on {target}: not predicted: {reason}")
}

/// What is said of a step that failed.
pub fn failure(failed: &FailedStep) -> String {
    let what = match &failed.workload {
        Some(workload) => format!("run {} of {workload} on", failed.run + 1),
        None => "profile of".to_string(),
    };
    format!("{what} {}: {}", failed.target, failed.error)
}

fn elapsed(result: &Validation, speed: Speed, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("workload", Align::Left),
            ("target", Align::Left),
            ("measured", Align::Right),
            ("predicted", Align::Right),
            ("error", Align::Right),
        ],
        width,
    );
    let mut last = "";
    for pair in &result.pairs {
        let Some((predicted_ns, error)) = elapsed_of(pair, speed) else {
            continue;
        };
        let same = pair.workload == last;
        last = &pair.workload;
        table.row([
            if same { "" } else { last }.to_string(),
            pair.target.clone(),
            duration(pair.measured_elapsed_ns),
            duration(predicted_ns),
            signed_percent(error),
        ]);
    }
    table.render()
}

fn with_interval(pair: &Pair) -> String {
    of_usable(pair.predicted_ns, pair.predicted_interval_ns, true)
}

fn measured(pair: &Pair) -> String {
    let several = pair.judged_by() > 1;
    of_usable(pair.measured_ns, pair.measured_interval_ns, several)
}

/// A time with its interval. Where there `is` one that is not told it is of no use.
fn of_usable(ns: f64, interval_ns: Option<(f64, f64)>, is: bool) -> String {
    let nothing = is.then_some((0.0, f64::INFINITY));
    let (low, high) = interval_ns.or(nothing).unzip();
    units::with_ends(ns, low, high, "ns")
}

/// A row for each target and workload, a column for each group and one for all.
fn errors(judged: &Judgement, width: u16) -> String {
    let mut columns = vec![("of", Align::Left), ("average error", Align::Right)];
    columns.extend(
        judged
            .groups
            .iter()
            .map(|g| (g.name.as_str(), Align::Right)),
    );
    let mut table = TextTable::new(&columns, width);
    for entry in &judged.by_target {
        table.row([entry.name.clone(), percent(entry.average_error)]);
    }
    for entry in &judged.by_workload {
        let mut row = vec![entry.name.clone(), percent(entry.average_error)];
        row.extend(judged.groups.iter().map(|group| {
            let same = |e: &&NamedError| e.name == entry.name;
            let found = group.by_workload.iter().find(same);
            found.map_or(String::new(), |e| percent(e.average_error))
        }));
        table.row(row);
    }
    if !judged.groups.is_empty() {
        let mut row = vec!["all".to_string(), known(judged.figures.average_error)];
        let of_groups = judged.groups.iter();
        row.extend(of_groups.map(|g| known(g.figures.average_error)));
        table.row(row);
    }
    table.render()
}

/// Two points always lie on a line: of fewer pairs than these no correlation is told, whatever a result says.
const LEAST_CORRELATED: usize = 3;

/// Figures of so many pairs, of the prediction that `label` says.
fn figures(of: &Figures, label: &str, pairs: usize) -> String {
    let mut out = format!(
        "error{label}: average {}, median {}, RMS {} of the measured latency",
        known(of.average_error),
        known(of.median_error),
        known(of.rms_error)
    );
    if let Some(r) = of.correlation.filter(|_| pairs >= LEAST_CORRELATED) {
        out.push_str(&format!("; correlation {r:.3}"));
    }
    if let Some(error) = of.average_elapsed_error {
        out.push_str(&format!("; of the elapsed time {}", percent(error)));
    }
    if let Some(variation) = of.average_variation {
        out.push_str(&format!("; runs vary by {} on average", percent(variation)));
    }
    if of.ranks_total == 0 {
        return out;
    }
    out.push_str(&format!(
        "\nranks{label}: {} of {} of targets in the right order",
        count(of.ranks_right.into()),
        units::counted(of.ranks_total.into(), "pair")
    ));
    if of.ranks_apart_total > 0 {
        out.push_str(&format!(
            ", {} of the {} that differ by more than their intervals ({})",
            count(of.ranks_apart_right.into()),
            count(of.ranks_apart_total.into()),
            percent(f64::from(of.ranks_apart_right) / f64::from(of.ranks_apart_total))
        ));
    }
    out
}

fn summary(page: &mut Page, result: &Validation) {
    let judged = &result.judgement;
    let raw = Speed::AsItWas.label(result);
    if !result.pairs.is_empty() {
        if let Some(equal) = &judged.equal_speed {
            let label = Speed::Equal.label(result);
            for line in figures(&equal.figures, label, result.pairs.len()).lines() {
                page.say(line);
            }
        }
        for line in figures(&judged.figures, raw, result.pairs.len()).lines() {
            page.say(line);
        }
    }
    let of_group = |name: &str| {
        let pairs = result.pairs.iter();
        pairs.filter(|p| p.group.as_deref() == Some(name)).count()
    };
    for group in &judged.groups {
        let pairs = of_group(&group.name);
        if pairs == 0 {
            continue;
        }
        for (index, line) in figures(&group.figures, raw, pairs).lines().enumerate() {
            if index == 0 {
                page.say(format!("within {}: {line}", group.name));
            } else {
                page.item(line);
            }
        }
    }
    if let Some(cpu) = result.cpu {
        page.say(format!(
            "profiles, workloads and the kernel's work for them were kept on CPU {cpu} alike"
        ));
    }
    for wrong in &judged.ranks_wrong {
        let within = if wrong.significant {
            ""
        } else {
            ", within their variation or 15 %"
        };
        page.item(format!(
            "wrong{raw}: {}: {} was measured to take {:.2} times as long as {}{within}",
            wrong.workload, wrong.slower, wrong.measured_ratio, wrong.faster,
        ));
    }
    page.say(format!(
        "{} each, in random order from seed {}; {}",
        units::counted(result.runs.into(), "run"),
        result.seed,
        traces(result)
    ));
}

/// From which traces the predictions were made.
fn traces(result: &Validation) -> String {
    let mut others: Vec<(&str, &str)> = Vec::new();
    for target in result
        .targets
        .iter()
        .filter(|t| t.trace_on != result.trace_on)
    {
        let entry = (
            target.group.as_deref().unwrap_or(&target.name),
            target.trace_on.as_str(),
        );
        if !others.contains(&entry) {
            others.push(entry);
        }
    }
    let mut out = format!(
        "every prediction is made from one trace on {}",
        result.trace_on
    );
    for (group, on) in others {
        out.push_str(&format!(", those of {group} from one on {on}"));
    }
    out
}

/// Predicted and measured time by kind of operation (Figure 4.8), largest difference first.
pub fn kinds(pair: &Pair, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("operation", Align::Left),
            ("count", Align::Right),
            ("measured", Align::Right),
            ("predicted", Align::Right),
            ("difference", Align::Right),
            ("of all differences", Align::Right),
        ],
        width,
    );
    // Kinds that are too high and too low cancel in the pair's error, so the whole is what they are off by.
    let off = pair.kinds.iter().map(|k| difference(k).abs());
    let total = off.sum::<f64>().max(1.0);
    let mut kinds: Vec<_> = pair.kinds.iter().collect();
    kinds.sort_by(|a, b| {
        let size = |k: &&PairKind| difference(k).abs();
        size(b).total_cmp(&size(a))
    });
    for kind in kinds {
        table.row([
            kind.kind.clone(),
            count(kind.count),
            duration(kind.measured_ns),
            duration(kind.predicted_ns),
            duration(difference(kind)),
            percent(difference(kind).abs() / total),
        ]);
    }
    table.render()
}

fn difference(kind: &PairKind) -> f64 {
    kind.predicted_ns - kind.measured_ns
}

#[cfg(test)]
mod tests {
    use fsage_format::result::validation::EqualSpeed;

    use super::*;

    fn kind(kind: &str, measured_ns: f64, predicted_ns: f64) -> PairKind {
        PairKind {
            kind: kind.into(),
            count: 10,
            measured_count: 10.0,
            measured_ns,
            predicted_ns,
            measured_distribution: fsage_format::result::validation::Distribution::default(),
            predicted_distribution: fsage_format::result::validation::Distribution::default(),
        }
    }

    fn pair(target: &str, kinds: Vec<PairKind>) -> Pair {
        let sum = |of: fn(&PairKind) -> f64| kinds.iter().map(of).sum::<f64>();
        let (measured_ns, predicted_ns) = (sum(|k| k.measured_ns), sum(|k| k.predicted_ns));
        Pair {
            workload: "PostMark".into(),
            target: target.into(),
            group: None,
            trace_on: "ext4".into(),
            measured_ns,
            measured_runs_ns: Vec::new(),
            traced_runs: 0,
            measured_interval_ns: Some((measured_ns * 0.2, measured_ns * 9.0)),
            measured_variation: Some(0.4),
            predicted_ns,
            predicted_interval_ns: Some((predicted_ns * 0.9, predicted_ns * 1.1)),
            error: predicted_ns / measured_ns - 1.0,
            measured_elapsed_ns: 2.0 * measured_ns,
            predicted_elapsed_ns: 2.0 * predicted_ns,
            elapsed_error: Some(predicted_ns / measured_ns - 1.0),
            equal_speed: None,
            ranked_ns: None,
            predicted_writeback_ns: 0.0,
            kinds,
            warnings: Vec::new(),
        }
    }

    fn shares(text: &str) -> Vec<f64> {
        let last = |line: &str| {
            let share = line.strip_suffix(" %")?.rsplit(' ').next()?;
            share.parse().ok()
        };
        text.lines().filter_map(last).collect()
    }

    #[test]
    fn two_points_are_no_correlation() {
        let of = Figures {
            correlation: Some(1.0),
            ..Figures::default()
        };
        assert!(!figures(&of, "", 2).contains("correlation"));
        assert!(figures(&of, "", 3).contains("correlation 1.000"));
    }

    #[test]
    fn shares_of_differences_that_cancel_are_shares() {
        let kinds = vec![
            kind("read", 1e6, 4e6),
            kind("write", 4e6, 1.1e6),
            kind("stat", 1e3, 1e3),
        ];
        let text = super::kinds(&pair("xfs", kinds), 100);
        let shares = shares(&text);
        assert_eq!(shares.len(), 3, "{text}");
        assert!(shares.iter().all(|s| (0.0..=100.0).contains(s)), "{text}");
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.2, "{text}");
    }

    /// One without pairs.
    fn nothing() -> Validation {
        Validation {
            format: String::new(),
            validation_version: 1,
            fsage_version: String::new(),
            started_unix_ns: 0,
            elapsed_ns: 0,
            seed: 1,
            runs: 2,
            trace_on: "ext4".into(),
            cpu: None,
            cache: String::new(),
            plan: String::new(),
            half: None,
            interrupted: false,
            workloads: Vec::new(),
            targets: Vec::new(),
            pairs: Vec::new(),
            not_predicted: Vec::new(),
            judgement: fsage_format::result::validation::Judgement::default(),
            failed: Vec::new(),
            disturbed: Vec::new(),
            notes: vec!["a note that goes on\x1b[1m".repeat(20); 9],
        }
    }

    /// One pair, off by 200 % as it was and by 10 % at equal speed.
    fn of_two_speeds() -> Validation {
        let mut only = pair("xfs", vec![kind("read", 1e9, 3e9)]);
        only.equal_speed = Some(EqualSpeed {
            reference_ns: 100,
            profile_reference_ns: 300,
            predicted_ns: 1.1e9,
            error: 0.1,
            predicted_elapsed_ns: 2.2e9,
            elapsed_error: Some(0.1),
        });
        let judged = |error| Judgement {
            by_target: vec![NamedError {
                name: "xfs".into(),
                average_error: error,
            }],
            figures: Figures {
                average_error: Some(error),
                ..Figures::default()
            },
            ..Judgement::default()
        };
        Validation {
            pairs: vec![only],
            judgement: Judgement {
                equal_speed: Some(Box::new(judged(0.1))),
                ..judged(2.0)
            },
            ..nothing()
        }
    }

    #[test]
    fn every_table_says_of_which_speed_it_is() {
        let mut result = of_two_speeds();
        let said = text(&result, true, 200);
        let mut tables = 0;
        for part in said.split("\n\n").filter(|p| p.contains('─')) {
            let (heading, rest) = part.split_once('\n').unwrap();
            let raw = rest.contains("200.0 %");
            let first = heading == OVERVIEW;
            assert_eq!(heading.ends_with(", as it was"), raw && !first, "{part}");
            let equal = first || heading.ends_with(", at equal speed");
            assert_eq!(
                equal,
                rest.contains(" 10.0 %") || rest.contains("+10.0 %"),
                "{part}"
            );
            tables += 1;
        }
        assert_eq!(tables, 6, "{said}");
        assert!(
            said.contains("error, at equal speed: average 10.0 %"),
            "{said}"
        );
        assert!(said.contains("error, as it was: average 200.0 %"), "{said}");
        // Where one pair's speed is unknown all of it is as it was, and no label is needed.
        result.judgement.equal_speed = None;
        let said = text(&result, true, 200);
        assert!(
            !said.contains("10.0 %") && said.contains("worst: PostMark on xfs, +200.0 %"),
            "{said}"
        );
        assert!(
            !said.contains("as it was") && !said.contains("equal speed"),
            "{said}"
        );
    }

    #[test]
    fn an_interval_that_is_not_told_is_of_no_use_unless_one_run_has_none() {
        let mut result = of_two_speeds();
        result.pairs[0].measured_interval_ns = None;
        result.pairs[0].measured_runs_ns = vec![1_000_000_000];
        assert!(!text(&result, true, 200).contains("unusable"));
        result.pairs[0].measured_runs_ns = vec![1, 1_999_999_999];
        assert!(text(&result, true, 200).contains("1 s (unusable)"));
    }

    #[test]
    fn the_answer_is_first_and_fits() {
        let mut result = nothing();
        assert!(text(&result, false, 80).starts_with("nothing was measured"));
        // Nothing is no zero, and has no tables.
        let said = text(&result, true, 80);
        assert!(
            !said.contains("0.0 %") && !said.contains("0 of 0") && !said.contains('─'),
            "{said}"
        );
        let said = text(&result, false, 80);
        assert!(
            said.contains("\n7 more notes: --details; all of it: --json\n"),
            "{said}"
        );
        let unsaid = Validation {
            notes: Vec::new(),
            interrupted: true,
            ..nothing()
        };
        assert_eq!(
            text(&unsaid, false, 80),
            "nothing was measured and predicted: nothing to say\n\ninterrupted: these are not all pairs of the plan\n"
        );
        result.judgement.figures.average_variation = Some(0.227);
        result.pairs = vec![pair("xfs", vec![kind("read", 1e9, 3e9)])];
        let said = text(&result, false, 200);
        assert!(
            said.contains("worst: PostMark on xfs, +200.0 %, where runs vary by 40.0 %; on average over all pairs they vary by 22.7 %"),
            "{said}"
        );
        result.pairs[0].target = "scratch:ext4,on=disk:hdd".into();
        let said = text(&result, true, 80);
        let table = said.split("\n\n").find(|b| b.contains("4.7")).unwrap();
        for word in ["predicted", "error", "3 ± 0.3 s", "+200.0 %"] {
            assert!(table.contains(word), "`{word}` is missing:\n{table}");
        }
        result.pairs.clear();
        result.disturbed = vec!["the profile of ext4: 300 of 650 metrics are marked".into()];
        let said = text(&result, false, 200);
        assert!(
            said.contains("caution: disturbed while measured: the profile of ext4"),
            "{said}"
        );
        result.disturbed.clear();
        for n in 0..30 {
            let target = format!("scratch:ext4,size=4G,on=disk:hdd-7200,mount=noatime,number={n}");
            result
                .pairs
                .push(pair(&target, vec![kind("read", 1e9, 3e9)]));
        }
        for width in [80, 160] {
            let text = text(&result, false, width);
            assert!(
                text.lines().take(4).any(|l| l.contains("+200.0 %")),
                "{text}"
            );
            let table = text.lines().position(|l| l.contains('─')).unwrap();
            assert!(table <= 7, "{text}");
            let widest = text.lines().map(|l| l.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{text}");
            assert!(!text.contains('\x1b'));
            assert!(text.contains("and 18 more pairs (--details)"), "{text}");
        }
        let all = text(&result, true, 80);
        assert!(all.contains("(unusable)"), "{all}");
    }
}
