//! All that is known of a prediction, system by system.

use fsage_format::result::prediction::{
    CacheUse, ContextClass, ContextRecord, MetricShare, Prediction, TargetPrediction,
};

use super::{is_disturbed, probability, range, time};
use crate::page::Page;
use crate::table::{Align, TextTable, bar};
use crate::units::{count, counted, duration, percent, significant};

/// Metrics shown of each target.
const METRICS_SHOWN: usize = 10;

/// Everything beyond the answer.
pub fn details(result: &Prediction, width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "{}, {} of them on the traced file system; {} page cache, {} start",
        counted(result.operations, "operation"),
        count(result.operations_charged),
        result.cache,
        result.start
    ));
    if result.traced_latency_ns > 0 {
        page.say(format!(
            "as traced: {} elapsed, {} in the file system",
            duration(result.traced_run_ns as f64),
            duration(result.traced_latency_ns as f64)
        ));
    }
    for target in &result.targets {
        page.title(format!("on {}", target.name));
        page.blank();
        match &target.incomplete {
            Some(_) => incomplete(target, &mut page),
            None => one(target, &mut page),
        }
        for warning in &target.warnings {
            page.say(format!("warning: {warning}"));
        }
    }
    if let Some(context) = &result.context {
        page.title(format!(
            "what calls took on {}, where they were traced",
            context.system
        ));
        page.blank();
        page.table(&corrected(context, width));
    }
    if !result.pairs.is_empty() {
        page.title("the order of each two, by elapsed time");
        page.blank();
        page.table(&pairs(result, width));
    }
    for warning in &result.warnings {
        page.say(format!("warning: {warning}"));
    }
    page.finish()
}

/// Classes of calls that are not told of hold less than this share of the time.
const CLASS_SAID: f64 = 0.01;

fn corrected(context: &ContextRecord, width: u16) -> TextTable {
    let mut table = TextTable::new(
        &[
            ("operation", Align::Left),
            ("count", Align::Right),
            ("as traced", Align::Right),
            ("by its profile", Align::Right),
            ("costs are taken", Align::Right),
        ],
        width,
    );
    let mut classes: Vec<&ContextClass> = context.classes.iter().collect();
    classes.sort_by(|a, b| b.measured_ns.total_cmp(&a.measured_ns));
    let all: f64 = classes.iter().map(|class| class.measured_ns).sum();
    for class in classes {
        if class.measured_ns.max(class.predicted_ns) < CLASS_SAID * all {
            continue;
        }
        table.row([
            class.kind.clone(),
            count(class.operations),
            time(class.measured_ns),
            time(class.predicted_ns),
            format!("x{:.2}", class.factor),
        ]);
    }
    table
}

fn incomplete(target: &TargetPrediction, page: &mut Page) {
    let Some(what) = &target.incomplete else {
        return;
    };
    page.say("costs are missing, so that there is no total:");
    let mut table = TextTable::new(
        &[
            ("metric", Align::Left),
            ("uses", Align::Right),
            ("what it measures", Align::Prose),
            ("instead", Align::Left),
        ],
        page.width(),
    );
    for missing in &what.missing {
        table.row([
            missing.family.clone(),
            count(missing.uses),
            missing.what.clone(),
            missing
                .stand_in
                .clone()
                .unwrap_or_else(|| "nothing".to_owned()),
        ]);
    }
    page.table(&table);
}

fn one(target: &TargetPrediction, page: &mut Page) {
    page.table(&kinds(target, page.width()));
    let total = target.latency_total_ns.unwrap_or_default();
    // Several threads may also gain from each other: one commit for two, the nearest read first.
    let others = match target.waiting_ns {
        ns if ns > 0.0 => format!(", {} because of other threads", time(ns)),
        ns if ns < 0.0 => format!(", {} less because of other threads", time(-ns)),
        _ => String::new(),
    };
    page.blank();
    page.say(format!(
        "in the file system {} ({} with 95 %), {} of it the device works{others}",
        time(total),
        range(target.latency_interval_ns, total),
        time(target.device_ns),
    ));
    if target.processor_wait_ns >= 1.0 {
        page.say(format!(
            "beside it, {} of waiting for a processor in calls",
            time(target.processor_wait_ns)
        ));
    }
    let elapsed = target.elapsed_ns.unwrap_or_default();
    page.say(format!(
        "elapsed {} ({} with 95 %) with the think times of the trace",
        time(elapsed),
        range(target.elapsed_interval_ns, elapsed),
    ));
    if target.writeback_ns > 0.0 {
        page.say(format!(
            "beside both, what is written behind: {} more, the time in the file system times {} while \
             it is written, {} of the traced run",
            time(target.writeback_ns),
            significant(1.0 + target.writeback_slowdown),
            percent(target.utilization)
        ));
    }
    let unsure = &target.uncertainty;
    if !unsure.parts.is_empty() {
        let parts = unsure.parts.iter();
        let parts = parts.map(|p| format!("{} x{:.2}", p.what, p.log_half_width.exp()));
        page.say(format!(
            "95 % of the time in the file system: x{:.2} either way, of {} (squares of logarithms add up)",
            unsure.log_half_width.exp(),
            parts.collect::<Vec<_>>().join(", ")
        ));
    }
    if let Some(trouble) = &unsure.trouble {
        page.say(format!("the interval: {trouble}"));
    }
    page.say(format!(
        "hit rates: pages {}, names {}, attributes {}",
        rate(&target.caches.page),
        rate(&target.caches.name),
        rate(&target.caches.attribute)
    ));
    changes(target, page);
    page.title("where the time goes, by metric of the profile, without waiting for other threads");
    page.blank();
    page.table(&metrics(target, page.width()));
}

fn changes(target: &TargetPrediction, page: &mut Page) {
    let Some(changed) = &target.what_if else {
        return;
    };
    for effect in &changed.effects {
        let nothing = effect.nothing.as_ref();
        page.say(format!(
            "what if {}: {}{}",
            effect.change,
            effect.meaning,
            nothing.map_or_else(String::new, |why| format!("; changes nothing: {why}"))
        ));
    }
    page.say(format!(
        "elapsed then {} ({} of difference)",
        time(changed.elapsed_ns),
        time(changed.elapsed_difference_ns)
    ));
}

fn kinds(target: &TargetPrediction, width: u16) -> TextTable {
    let mut columns = vec![
        ("operation", Align::Left),
        ("count", Align::Right),
        ("time", Align::Right),
        ("of total", Align::Right),
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
            time(kind.latency_ns),
            percent(kind.share),
            time(kind.latency_ns / kind.count.max(1) as f64),
        ];
        if let Some(changed) = target.what_if.as_ref().and_then(|w| w.kinds.get(index)) {
            row.extend([time(changed.latency_ns), time(changed.difference_ns)]);
        }
        table.row(row);
    }
    let total = target.latency_total_ns.unwrap_or_default();
    let mut row = vec![
        "total".to_string(),
        count(target.kinds.iter().map(|k| k.count).sum()),
        time(total),
        percent(f64::from(u8::from(total > 0.0))),
        String::new(),
    ];
    if let Some(changed) = &target.what_if {
        row.extend([time(changed.latency_total_ns), time(changed.difference_ns)]);
    }
    table.row(row);
    table
}

fn rate(cache: &CacheUse) -> String {
    cache.hit_rate.map_or("not used".into(), percent)
}

fn metrics(target: &TargetPrediction, width: u16) -> TextTable {
    let mut table = TextTable::new(
        &[
            ("metric", Align::Left),
            ("what it measures", Align::Prose),
            ("weight", Align::Right),
            ("time", Align::Right),
            ("of it", Align::Right),
            ("", Align::Left),
        ],
        width,
    );
    // What is deducted is part of no whole: it stands apart, so that the shares add up to the time above.
    let (positive, deducted): (Vec<&MetricShare>, Vec<&MetricShare>) =
        target.metrics.iter().partition(|m| m.time_ns >= 0.0);
    let sum = |metrics: &[&MetricShare]| metrics.iter().map(|m| m.time_ns).sum::<f64>();
    let total = sum(&positive) + sum(&deducted);
    let share = |ns: f64| if total > 0.0 { ns / total } else { 0.0 };
    let (shown, rest) = positive.split_at(METRICS_SHOWN.min(positive.len()));
    for metric in shown {
        table.row([
            metric.name.clone(),
            metric.what.clone(),
            significant(metric.weight),
            time(metric.time_ns),
            percent(share(metric.time_ns)),
            bar(share(metric.time_ns), 10),
        ]);
    }
    let mut together = |name: &str, what: String, ns: f64, bar: String| {
        let [time, percent] = [time(ns), percent(share(ns))];
        table.row([name.to_owned(), what, String::new(), time, percent, bar]);
    };
    if !rest.is_empty() {
        let what = format!("{} more metrics", rest.len());
        let ns = sum(rest);
        together("other", what, ns, bar(share(ns), 10));
    }
    if !deducted.is_empty() {
        let what = "deducted: metrics at the other end of lines beyond the sizes measured";
        let names: Vec<&str> = deducted.iter().take(3).map(|m| m.name.as_str()).collect();
        let more = if deducted.len() > names.len() {
            ", …"
        } else {
            ""
        };
        let what = format!("{what} ({}{more})", names.join(", "));
        together("less", what, sum(&deducted), String::new());
        together("total", String::new(), total, String::new());
    }
    table
}

fn pairs(result: &Prediction, width: u16) -> TextTable {
    let mut table = TextTable::new(
        &[
            ("faster", Align::Left),
            ("slower", Align::Left),
            ("times as long", Align::Right),
            ("probability", Align::Right),
            ("less in the file system", Align::Right),
        ],
        width,
    );
    for pair in &result.pairs {
        let said = |p: f64| {
            let mut names = [&pair.faster, &pair.slower].into_iter();
            if pair.same_target {
                "one target".to_owned()
            } else if names.any(|name| is_disturbed(result, name)) {
                "disturbed".to_owned()
            } else {
                probability(p)
            }
        };
        table.row([
            pair.faster.clone(),
            pair.slower.clone(),
            format!("x{:.2}", pair.ratio),
            said(pair.probability),
            said(pair.latency_probability),
        ]);
    }
    table
}
