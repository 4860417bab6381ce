//! What a trace is like.

use fsage_format::result::characterization::{Characterization, SizeBucket};
use fsage_format::trace::{Loss, TraceEnd, TraceMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Align, TextTable, bar};
use crate::units::{bytes, count, duration};

/// What `fsage show TRACE --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownTrace {
    /// What the trace says about itself.
    pub meta: TraceMeta,
    /// What was known at its end; `None` if it has none.
    pub end: Option<TraceEnd>,
    /// What it lacks.
    pub loss: Loss,
    /// What its operations are like.
    #[serde(flatten)]
    pub found: Characterization,
}

fsage_format::document! {
    ShownTrace, "fsage shown trace", 1;
}

/// Everything that a terminal shows of a trace.
pub fn text(shown: &ShownTrace, width: u16) -> String {
    let found = &shown.found;
    let mut out = head(shown);
    out.push('\n');
    out.push_str(&mix(found, width));
    out.push_str("\nsizes of reads, writes and files\n\n");
    out.push_str(&sizes(found, width));
    out.push('\n');
    out.push_str(&locality(found));
    out.push_str(&over_time(found));
    if found.processes.len() > 1 {
        out.push('\n');
        out.push_str(&processes(found, width));
    }
    out
}

fn head(shown: &ShownTrace) -> String {
    let (meta, found) = (&shown.meta, &shown.found);
    let what = if meta.command.is_empty() {
        "running processes".into()
    } else {
        meta.command.join(" ")
    };
    let mut out = format!("{what}\n");
    if !meta.host.is_empty() {
        out.push_str(&format!(
            "on {}, kernel {}, captured by {}\n",
            meta.host, meta.kernel, meta.method
        ));
    }
    out.push_str(&format!(
        "{} operations in {}, {} of it in the file system; {} failed, {}\n",
        count(found.operations),
        duration(found.span_ns as f64),
        duration(found.latency_total_ns as f64),
        count(found.errors),
        if shown.loss.is_none() {
            "none lost".into()
        } else {
            shown.loss.to_string()
        },
    ));
    out.push_str(&format!(
        "{} read, {} written; {}{} files and {} directories touched\n",
        bytes(found.bytes_read),
        bytes(found.bytes_written),
        if found.distinct_capped {
            "at least "
        } else {
            ""
        },
        count(found.distinct_files),
        count(found.distinct_directories),
    ));
    out
}

fn mix(found: &Characterization, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("operation", Align::Left),
            ("count", Align::Right),
            ("failed", Align::Right),
            ("time", Align::Right),
            ("share", Align::Right),
            ("p50", Align::Right),
            ("p90", Align::Right),
            ("p99", Align::Right),
            ("max", Align::Right),
        ],
        width,
    );
    let time = |ns: Option<u64>| ns.map_or(String::new(), |ns| duration(ns as f64));
    for kind in &found.kinds {
        table.row([
            kind.kind.name().to_string(),
            count(kind.count),
            count(kind.errors),
            duration(kind.latency_total_ns as f64),
            format!("{:.1} %", kind.latency_percent),
            time(kind.latency_p50_ns),
            time(kind.latency_p90_ns),
            time(kind.latency_p99_ns),
            time(kind.latency_max_ns),
        ]);
    }
    table.render()
}

fn sizes(found: &Characterization, width: u16) -> String {
    let columns = [&found.read_sizes, &found.write_sizes, &found.file_sizes];
    let mut lows: Vec<(u64, u64)> = columns
        .iter()
        .flat_map(|c| c.iter().map(|b| (b.low_bytes, b.high_bytes)))
        .collect();
    lows.sort_unstable();
    lows.dedup();
    let mut table = TextTable::new(
        &[
            ("size", Align::Right),
            ("reads", Align::Right),
            ("writes", Align::Right),
            ("files", Align::Right),
            ("", Align::Left),
        ],
        width,
    );
    let in_bucket =
        |c: &[SizeBucket], low| c.iter().find(|b| b.low_bytes == low).map_or(0, |b| b.count);
    let most = lows
        .iter()
        .map(|&(low, _)| columns.iter().map(|c| in_bucket(c, low)).sum::<u64>())
        .max()
        .unwrap_or(1)
        .max(1);
    for (low, high) in lows {
        let counts = columns.map(|c| in_bucket(c, low));
        let all: u64 = counts.iter().sum();
        table.row([
            if low == high {
                bytes(low)
            } else {
                format!("{} and more", bytes(low))
            },
            count(counts[0]),
            count(counts[1]),
            count(counts[2]),
            bar(all as f64 / most as f64, 20),
        ]);
    }
    table.render()
}

fn locality(found: &Characterization) -> String {
    let share = |percent: Option<f64>| percent.map_or("unknown".into(), |p| format!("{p:.1} %"));
    let mut out = format!(
        "sequential: {} of reads, {} of writes\n",
        share(found.reads.sequential_percent),
        share(found.writes.sequential_percent)
    );
    match &found.page_cache {
        Some(cache) => out.push_str(&format!(
            "page cache as captured: {:.1} % of {} requested pages hit, {} read ahead\n",
            cache.hit_percent,
            count(cache.pages_requested),
            count(cache.pages_ahead)
        )),
        None => out.push_str("page cache as captured: unknown\n"),
    }
    out
}

fn over_time(found: &Characterization) -> String {
    let series = &found.over_time;
    format!(
        "open files: at most {}; by pieces of {}: {}\n",
        count(found.open_files_max),
        duration(series.piece_ns as f64),
        sparkline(&series.open_files_max, 60)
    )
}

/// A line of bars, one for each of at most `width` equal pieces (the highest value of each).
fn sparkline(values: &[u64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    values
        .chunks(values.len().div_ceil(width).max(1))
        .map(|piece| {
            let value = piece.iter().copied().max().unwrap_or(0);
            BARS[(value * 7 / most).min(7) as usize]
        })
        .collect()
}

fn processes(found: &Characterization, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("process", Align::Right),
            ("operations", Align::Right),
            ("read", Align::Right),
            ("written", Align::Right),
            ("time", Align::Right),
        ],
        width,
    );
    for process in found.processes.iter().take(20) {
        table.row([
            process.pid.to_string(),
            count(process.operations),
            bytes(process.bytes_read),
            bytes(process.bytes_written),
            duration(process.latency_total_ns as f64),
        ]);
    }
    let mut out = table.render();
    if found.processes.len() > 20 {
        out.push_str(&format!(
            "and {} more processes\n",
            found.processes.len() - 20
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::sparkline;

    #[test]
    fn sparklines_keep_their_highest_value() {
        assert_eq!(sparkline(&[0, 7], 10), "▁█");
        assert_eq!(sparkline(&[1; 100], 10).chars().count(), 10);
        assert_eq!(sparkline(&[], 10), "");
    }
}
