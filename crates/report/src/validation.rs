//! Tables 4.7 to 4.9 of Smith 2001 and what stands beside them.

use fsage_format::result::validation::{Pair, PairKind, Validation};

use crate::table::{Align, TextTable};
use crate::units::{count, duration, percent, signed_percent};

/// Everything that a terminal shows of a validation.
pub fn text(result: &Validation, width: u16) -> String {
    let mut out = String::new();
    out.push_str("Predicted and measured latency (Smith 2001, Table 4.7)\n\n");
    out.push_str(&pairs(result, width));
    out.push_str("\nAverage error by target (Table 4.8) and by workload (Table 4.9)\n\n");
    out.push_str(&errors(result, width));
    out.push('\n');
    out.push_str(&summary(result));
    out.push_str("\nworkloads\n");
    for workload in &result.workloads {
        out.push_str(&format!("  {}: {}\n", workload.name, workload.spec));
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

fn errors(result: &Validation, width: u16) -> String {
    let mut table = TextTable::new(
        &[("of", Align::Left), ("average error", Align::Right)],
        width,
    );
    for entry in result.by_target.iter().chain(&result.by_workload) {
        table.row([entry.name.clone(), percent(entry.average_error)]);
    }
    table.render()
}

fn summary(result: &Validation) -> String {
    let mut out = format!(
        "error: average {}, median {}, RMS {} of the measured latency",
        percent(result.average_error),
        percent(result.median_error),
        percent(result.rms_error)
    );
    match result.correlation {
        Some(r) => out.push_str(&format!("; correlation {r:.3}\n")),
        None => out.push('\n'),
    }
    out.push_str(&format!(
        "ranks: {} of {} pairs of targets in the right order\n",
        count(result.ranks_right.into()),
        count(result.ranks_total.into())
    ));
    if let Some(cpu) = result.cpu {
        out.push_str(&format!(
            "profiles, workloads and the kernel's work for them were kept on CPU {cpu} alike\n"
        ));
    }
    for wrong in &result.ranks_wrong {
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
        "{} runs each, in random order from seed {}; every prediction is made from one trace on {}\n",
        result.runs, result.seed, result.trace_on
    ));
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
