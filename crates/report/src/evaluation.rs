//! A model held against what it stands for.

use fsage_format::result::evaluation::{EvaluatedFigure, EvaluatedTarget, Evaluation, SideFigure};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{count, counted, metric, percent, plus_minus, signed_percent, significant};

/// What a terminal shows: the answer; with `details` all figures of each target.
pub fn text(result: &Evaluation, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    answer(result, &mut page);
    for warning in &result.warnings {
        page.say(format!("caution: {warning}"));
    }
    page.blank();
    if let ([target], false) = (result.targets.as_slice(), details) {
        page.table(&one(target, &shown(result), page.width()));
    } else if !result.targets.is_empty() {
        page.table(&over_targets(result, page.width()));
    }
    if details {
        for target in &result.targets {
            all_of(target, &mut page);
        }
    }
    page.finish()
}

/// The finding in three sentences.
fn answer(result: &Evaluation, page: &mut Page) {
    let names: Vec<&str> = result.targets.iter().map(|t| t.name.as_str()).collect();
    let on = names.join(", ");
    let (model, original) = (&result.model, &result.original);
    let part = if result.interrupted {
        "; interrupted, not all runs were made"
    } else {
        ""
    };
    if names.is_empty() {
        page.say(format!(
            "{model} and {original} were not run both on any target{part}"
        ));
        return;
    }
    page.say(if result.missed == 0 {
        format!(
            "{model} stands for {original} on {on}: all {} are within their limits{part}",
            counted(result.judged, "figure")
        )
    } else {
        format!(
            "{model} does not stand for {original} on {on}: {} of {} are off by more than their limits{part}",
            result.missed,
            counted(result.judged, "figure")
        )
    });
    if let Some(text) = likelihood(result) {
        page.say(text);
    }
    if let Some(worst) = &result.worst {
        page.say(format!(
            "farthest off: {} on {}, {} ({} allowed)",
            title(&worst.figure),
            worst.target,
            off(&worst.figure, worst.error),
            allowed(&worst.figure, worst.limit),
        ));
    }
    if let Some(ranking) = &result.ranking {
        let order = |names: &[String]| names.join(", ");
        let likely = percent(ranking.probability);
        page.say(if ranking.same {
            format!(
                "both are fastest on the same targets: {} ({likely} sure)",
                order(&ranking.original)
            )
        } else {
            format!(
                "they rank the targets differently: {} by the original, {} by the model ({likely} likely the same)",
                order(&ranking.original),
                order(&ranking.model)
            )
        });
    }
}

/// The answer goes by the means of the runs: how much of it the runs tell. Where time is computed there is no chance.
fn likelihood(result: &Evaluation) -> Option<String> {
    let figures = || result.targets.iter().flat_map(|t| &t.figures);
    let judged = || figures().filter(|f| f.within.is_some());
    let measured = figures().any(|f| f.original.low.is_some() || f.error_interval.is_some());
    if !measured {
        return (result.runs == 1).then(|| {
            "one run of each side: what of it is chance is not known, where time is not computed".into()
        });
    }
    let open = judged().filter(|f| {
        let (Some((low, high)), Some(limit)) = (f.error_interval, f.limit) else {
            return false;
        };
        let crosses = |edge: f64| low < edge && edge < high;
        crosses(limit) || crosses(-limit)
    });
    let open = open.count() as u64;
    Some(if open == 0 {
        "as far as the runs tell none of that is chance: no 95 % interval reaches across a limit"
            .into()
    } else {
        format!(
            "that goes by the means of the runs; of {} the 95 % interval reaches across the limit: more runs would tell",
            counted(open, "figure")
        )
    })
}

/// Whether a difference of the figure is one of shares.
fn is_share(name: &str) -> bool {
    name == "cached" || name == "sequential" || name.starts_with("cache_hits")
}

fn off(name: &str, error: f64) -> String {
    if is_share(name) {
        format!("{:+.1} points", error * 100.0)
    } else {
        signed_percent(error)
    }
}

fn allowed(name: &str, limit: f64) -> String {
    let value = significant(limit * 100.0);
    if is_share(name) {
        format!("{value} {}", if value == "1" { "point" } else { "points" })
    } else {
        format!("{value} %")
    }
}

/// A figure's name in words.
fn title(name: &str) -> String {
    match name.split_once(':') {
        Some(("operations", kind)) => format!("operations: {kind}"),
        Some(("latency", act)) => format!("latency of {act}"),
        Some(("cache_hits", "half")) => "hits, half the cache".into(),
        Some(("cache_hits", _)) => "hits, twice the cache".into(),
        _ => match name {
            "cached" => "reads from the cache".into(),
            "bytes_throughput" => "bytes a second".into(),
            "sequential" => "sequential transfers".into(),
            name => name.replace('_', " "),
        },
    }
}

/// The figures that the answer shows: of the counts the one that is farthest off, and all others that are judged.
fn shown(result: &Evaluation) -> Vec<String> {
    let all = || result.targets.iter().flat_map(|t| &t.figures);
    let counts = all().filter(|f| f.name.starts_with("operations:"));
    let error = |f: &EvaluatedFigure| f.error.unwrap_or(f64::INFINITY).abs();
    let worst = counts.max_by(|a, b| {
        let missed = |f: &EvaluatedFigure| f.within == Some(false);
        (missed(a).cmp(&missed(b))).then(error(a).total_cmp(&error(b)))
    });
    let mut names: Vec<String> = worst.map(|f| f.name.clone()).into_iter().collect();
    for figure in all().filter(|f| f.limit.is_some() && !f.name.starts_with("operations:")) {
        if !names.contains(&figure.name) {
            names.push(figure.name.clone());
        }
    }
    names
}

fn value(name: &str, unit: &str, of: SideFigure) -> String {
    if is_share(name) {
        return percent(of.mean);
    }
    match of.low.zip(of.high) {
        Some((low, high)) if high > low => plus_minus(of.mean, (high - low) / 2.0, unit),
        _ if unit == "count" => count(of.mean.round() as u64),
        _ => metric(of.mean, unit),
    }
}

fn difference(figure: &EvaluatedFigure) -> String {
    let mark = if figure.within == Some(false) {
        " !"
    } else {
        ""
    };
    match figure.error {
        Some(error) => format!("{}{mark}", off(&figure.name, error)),
        None => format!("not there{mark}"),
    }
}

/// Both sides on one target.
fn one(target: &EvaluatedTarget, names: &[String], width: u16) -> TextTable {
    let columns = [
        ("figure", Align::Left),
        ("original", Align::Right),
        ("model", Align::Right),
        ("difference", Align::Right),
        ("allowed", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for figure in names
        .iter()
        .filter_map(|name| target.figures.iter().find(|f| f.name == *name))
    {
        table.row([
            title(&figure.name),
            value(&figure.name, &figure.unit, figure.original),
            value(&figure.name, &figure.unit, figure.model),
            difference(figure),
            figure
                .limit
                .map_or_else(String::new, |limit| allowed(&figure.name, limit)),
        ]);
    }
    table
}

/// How far the model is off, by figure and target.
fn over_targets(result: &Evaluation, width: u16) -> TextTable {
    let mut columns = vec![("off by, on", Align::Left)];
    columns.extend(
        result
            .targets
            .iter()
            .map(|t| (t.name.as_str(), Align::Right)),
    );
    let mut table = TextTable::new(&columns, width);
    for name in shown(result) {
        let of = |target: &EvaluatedTarget| {
            let figure = target.figures.iter().find(|f| f.name == name);
            figure.map_or_else(String::new, difference)
        };
        let cells = std::iter::once(title(&name)).chain(result.targets.iter().map(of));
        table.row(cells);
    }
    table
}

/// Everything of a target.
fn all_of(target: &EvaluatedTarget, page: &mut Page) {
    let caches = target.made_cold.as_ref();
    let caches = caches.map_or_else(String::new, |how| format!(", cold by {how}"));
    page.title(format!("on {} ({}{caches})", target.name, target.spec));
    let names: Vec<String> = target.figures.iter().map(|f| f.name.clone()).collect();
    page.table(&one(target, &names, page.width()));
    page.blank();
    if let Some(distance) = target.progress_rms_distance {
        page.say(format!(
            "of the operations over relative time the shares lie {} apart (root mean square)",
            percent(distance)
        ));
    }
    let columns = [
        ("largest distance of distributions", Align::Left),
        ("operations", Align::Right),
        ("latency", Align::Right),
        ("size", Align::Right),
    ];
    let mut table = TextTable::new(&columns, page.width());
    for of in &target.distances {
        table.row([
            of.act.clone(),
            count(of.operations),
            format!("{:.2}", of.latency),
            of.size
                .map_or_else(String::new, |size| format!("{size:.2}")),
        ]);
    }
    page.table(&table);
}
