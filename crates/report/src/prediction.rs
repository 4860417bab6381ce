//! What a workload would cost.

use fsage_format::result::prediction::{CacheUse, Confidence, Prediction, TargetPrediction};

use crate::table::{Align, TextTable, bar};
use crate::units::{count, duration, percent, significant};

/// Metrics shown of each target.
const METRICS_SHOWN: usize = 10;

/// Everything that a terminal shows of a prediction.
pub fn text(result: &Prediction, width: u16) -> String {
    let mut out = format!(
        "{} operations, {} of them on the traced file system; {} page cache, {} start\n",
        count(result.operations),
        count(result.operations_charged),
        result.cache,
        result.start
    );
    if result.traced_latency_ns > 0 {
        out.push_str(&format!(
            "as traced: {} in the file system\n",
            duration(result.traced_latency_ns as f64)
        ));
    }
    for target in &result.targets {
        out.push('\n');
        out.push_str(&one(target, width));
    }
    if result.targets.len() > 1 {
        out.push_str("\nranking\n\n");
        out.push_str(&ranking(result, width));
    }
    for warning in &result.warnings {
        out.push_str(&format!("warning: {warning}\n"));
    }
    out
}

fn one(target: &TargetPrediction, width: u16) -> String {
    let mut out = format!("on {}\n\n", target.name);
    out.push_str(&kinds(target, width));
    // Several threads may also gain from each other: one commit for two, the nearest read first.
    let others = match target.waiting_ns {
        ns if ns > 0.0 => format!(", {} because of other threads", duration(ns)),
        ns if ns < 0.0 => format!(", {} less because of other threads", duration(-ns)),
        _ => String::new(),
    };
    out.push_str(&format!(
        "\ntotal {}, {} of it waiting for the device{others}; beside it {} of writing behind ({} slower)\n",
        with_interval(target.latency_total_ns, target.latency_interval_ns),
        duration(target.device_ns),
        duration(target.writeback_ns),
        percent(target.writeback_slowdown),
    ));
    let changed = target.what_if.as_ref().and_then(|w| w.elapsed_ns);
    out.push_str(&format!(
        "elapsed {}{} with the think times of the trace; hit rates: pages {}, names {}, attributes {}\n",
        duration(target.elapsed_ns),
        changed.map_or_else(String::new, |ns| format!(" (what if: {})", duration(ns))),
        rate(&target.caches.page),
        rate(&target.caches.name),
        rate(&target.caches.attribute)
    ));
    out.push_str("\nwhere the time goes, by metric of the profile\n\n");
    out.push_str(&metrics(target, width));
    for warning in &target.warnings {
        out.push_str(&format!("warning: {warning}\n"));
    }
    out
}

fn kinds(target: &TargetPrediction, width: u16) -> String {
    let mut columns = vec![
        ("operation", Align::Left),
        ("count", Align::Right),
        ("time", Align::Right),
        ("share", Align::Right),
        ("each", Align::Right),
    ];
    if target.what_if.is_some() {
        columns.extend([("what if", Align::Right), ("difference", Align::Right)]);
    }
    let mut table = TextTable::new(&columns, width);
    let mut order: Vec<usize> = (0..target.kinds.len()).collect();
    order.sort_by(|&a, &b| {
        target.kinds[b]
            .latency_ns
            .total_cmp(&target.kinds[a].latency_ns)
    });
    for index in order {
        let kind = &target.kinds[index];
        let mut row = vec![
            kind.kind.clone(),
            count(kind.count),
            duration(kind.latency_ns),
            percent(kind.share),
            duration(kind.latency_ns / kind.count.max(1) as f64),
        ];
        if let Some(changed) = target.what_if.as_ref().and_then(|w| w.kinds.get(index)) {
            row.extend([
                duration(changed.latency_ns),
                duration(changed.difference_ns),
            ]);
        }
        table.row(row);
    }
    let mut total = vec![
        "total".to_string(),
        count(target.kinds.iter().map(|k| k.count).sum()),
        duration(target.latency_total_ns),
        percent(1.0),
        String::new(),
    ];
    if let Some(changed) = &target.what_if {
        total.extend([
            duration(changed.latency_total_ns),
            duration(changed.difference_ns),
        ]);
    }
    table.row(total);
    table.render()
}

fn with_interval(value: f64, (low, high): (f64, f64)) -> String {
    format!(
        "{} ({} to {})",
        duration(value),
        duration(low),
        duration(high)
    )
}

fn rate(cache: &CacheUse) -> String {
    cache.hit_rate.map_or("not used".into(), percent)
}

fn metrics(target: &TargetPrediction, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("metric", Align::Left),
            ("weight", Align::Right),
            ("time", Align::Right),
            ("share", Align::Right),
            ("", Align::Left),
        ],
        width,
    );
    for metric in target.metrics.iter().take(METRICS_SHOWN) {
        table.row([
            metric.name.clone(),
            significant(metric.weight),
            duration(metric.time_ns),
            percent(metric.share),
            bar(metric.share, 20),
        ]);
    }
    table.render()
}

fn ranking(result: &Prediction, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("", Align::Right),
            ("target", Align::Left),
            ("latency", Align::Right),
            ("of the fastest", Align::Right),
            ("sure?", Align::Left),
        ],
        width,
    );
    for (index, place) in result.ranking.iter().enumerate() {
        let next = result.ranking.get(index + 1);
        let sure = next.and_then(|next| {
            let pair = result
                .pairs
                .iter()
                .find(|p| p.faster == place.name && p.slower == next.name)?;
            Some(match pair.confidence {
                Confidence::Sure => "surely before the next",
                Confidence::Likely => "likely before the next",
                Confidence::NotDistinguishable => "not distinguishable from the next",
            })
        });
        table.row([
            place.place.to_string(),
            place.name.clone(),
            duration(place.latency_total_ns),
            format!("x{:.2}", place.ratio),
            sure.unwrap_or_default().to_string(),
        ]);
    }
    table.render()
}
