//! Tables 4.7 to 4.9 of Smith 2001 and what stands beside them.

mod causes;

use fsage_format::result::validation::{
    FailedStep, Figures, NamedError, Pair, PairKind, Validation,
};

use crate::table::{Align, TextTable};
use crate::units::{count, duration, percent, signed_percent};

/// Everything that a terminal shows of a validation.
pub fn text(result: &Validation, width: u16) -> String {
    let mut out = String::new();
    out.push_str("Predicted and measured latency (Smith 2001, Table 4.7)\n\n");
    out.push_str(&pairs(result, width));
    out.push_str("\nAverage error by target (Table 4.8) and by workload (Table 4.9)\n\n");
    out.push_str(&errors(result, width));
    if result.pairs.iter().any(|p| p.elapsed_error.is_some()) {
        out.push_str("\nPredicted and measured elapsed time\n\n");
        out.push_str(&elapsed(result, width));
    }
    if !result.judgement.causes.is_empty() {
        out.push_str(&causes::text(&result.judgement, width));
    }
    out.push('\n');
    out.push_str(&summary(result));
    out.push_str("\nworkloads\n");
    for workload in &result.workloads {
        out.push_str(&format!("  {}: {}", workload.name, workload.spec));
        if let Some(setup) = &workload.setup {
            out.push_str(&format!(", prepared by: {setup}"));
        }
        out.push('\n');
    }
    if result.targets.iter().any(|t| t.name != t.spec) {
        out.push_str("targets\n");
        for target in &result.targets {
            out.push_str(&format!("  {}: {}\n", target.name, target.spec));
        }
    }
    for failed in &result.failed {
        out.push_str(&format!("failed: {}\n", failure(failed)));
    }
    for note in &result.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
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
    );
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
            duration(pair.measured_ns),
            pair.measured_variation.map_or("one run".into(), percent),
            with_interval(pair),
            signed_percent(pair.error),
        ]);
    }
    table.render()
}

/// What is said of a step that failed.
pub fn failure(failed: &FailedStep) -> String {
    let what = match &failed.workload {
        Some(workload) => format!("run {} of {workload} on", failed.run + 1),
        None => "profile of".to_string(),
    };
    format!("{what} {}: {}", failed.target, failed.error)
}

fn elapsed(result: &Validation, width: u16) -> String {
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
        let Some(error) = pair.elapsed_error else {
            continue;
        };
        let same = pair.workload == last;
        last = &pair.workload;
        table.row([
            if same { "" } else { last }.to_string(),
            pair.target.clone(),
            duration(pair.measured_elapsed_ns),
            duration(pair.predicted_elapsed_ns),
            signed_percent(error),
        ]);
    }
    table.render()
}

fn with_interval(pair: &Pair) -> String {
    let (low, high) = pair.predicted_interval_ns;
    let half = (high - low) / 2.0;
    if pair.predicted_ns > 0.0 && half > 0.0 {
        format!(
            "{} ±{:.0} %",
            duration(pair.predicted_ns),
            half / pair.predicted_ns * 100.0
        )
    } else {
        duration(pair.predicted_ns)
    }
}

/// A row for each target and workload, a column for each group and one for all.
fn errors(result: &Validation, width: u16) -> String {
    let judged = &result.judgement;
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
        let mut row = vec!["all".to_string(), percent(judged.figures.average_error)];
        let of_groups = judged.groups.iter();
        row.extend(of_groups.map(|g| percent(g.figures.average_error)));
        table.row(row);
    }
    table.render()
}

fn figures(of: &Figures) -> String {
    let mut out = format!(
        "error: average {}, median {}, RMS {} of the measured latency",
        percent(of.average_error),
        percent(of.median_error),
        percent(of.rms_error)
    );
    if let Some(r) = of.correlation {
        out.push_str(&format!("; correlation {r:.3}"));
    }
    if let Some(error) = of.average_elapsed_error {
        out.push_str(&format!("; of the elapsed time {}", percent(error)));
    }
    if let Some(variation) = of.average_variation {
        out.push_str(&format!("; runs vary by {} on average", percent(variation)));
    }
    out.push_str(&format!(
        "\nranks: {} of {} pairs of targets in the right order",
        count(of.ranks_right.into()),
        count(of.ranks_total.into())
    ));
    if of.ranks_apart_total > 0 {
        out.push_str(&format!(
            ", {} of the {} that differ by more than their intervals ({})",
            count(of.ranks_apart_right.into()),
            count(of.ranks_apart_total.into()),
            percent(f64::from(of.ranks_apart_right) / f64::from(of.ranks_apart_total))
        ));
    }
    out.push('\n');
    out
}

fn summary(result: &Validation) -> String {
    let judged = &result.judgement;
    let mut out = figures(&judged.figures);
    for group in &judged.groups {
        let its = figures(&group.figures);
        out.push_str(&format!("within {}: ", group.name));
        out.push_str(&its.replacen("\nranks", "\n  ranks", 1));
    }
    if let Some(cpu) = result.cpu {
        out.push_str(&format!(
            "profiles, workloads and the kernel's work for them were kept on CPU {cpu} alike\n"
        ));
    }
    for wrong in &judged.ranks_wrong {
        out.push_str(&format!(
            "  wrong: {}: {} was measured faster than {} by {}{}\n",
            wrong.workload,
            wrong.faster,
            wrong.slower,
            percent(wrong.measured_ratio - 1.0),
            if wrong.significant {
                ""
            } else {
                ", within their variation or 15 %"
            }
        ));
    }
    out.push_str(&format!(
        "{} runs each, in random order from seed {}; {}\n",
        result.runs,
        result.seed,
        traces(result)
    ));
    out
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
            ("of the error", Align::Right),
        ],
        width,
    );
    let total = (pair.predicted_ns - pair.measured_ns).abs().max(1.0);
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
            signed_percent(difference(kind) / total),
        ]);
    }
    table.render()
}

fn difference(kind: &PairKind) -> f64 {
    kind.predicted_ns - kind.measured_ns
}
