//! A model held against what it stands for.

use fsage_format::result::evaluation::{EvaluatedFigure, EvaluatedTarget, Evaluation, SideFigure};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{
    count, counted, is_unusable, metric, percent, plus_minus, signed_percent, significant,
};

/// What a terminal shows: the answer; with `details` all figures of each target.
pub fn text(result: &Evaluation, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    answer(result, &mut page);
    for warning in &result.warnings {
        page.say(format!("caution: {warning}"));
    }
    if !result.left_out.is_empty() {
        let kinds = result.left_out.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, n)| format!("{kind} {}", count(*n)))
            .collect();
        page.say(format!(
            "left out, as no run of a model does it: {}",
            kinds.join(", ")
        ));
    }
    page.blank();
    let shown = shown(result);
    if let ([target], false) = (result.targets.as_slice(), details) {
        page.table(&one(target, &shown.names, page.width()));
    } else if !result.targets.is_empty() {
        page.table(&over_targets(result, &shown.names, page.width()));
    }
    if !details {
        not_shown(&shown, &mut page);
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
            "{model} does not stand for {original} on {on}: {} of {} {} off by more than {}{part}",
            result.missed,
            counted(result.judged, "figure"),
            if result.missed == 1 { "is" } else { "are" },
            if result.missed == 1 {
                "its limit"
            } else {
                "their limits"
            },
        )
    });
    if let Some(text) = likelihood(result) {
        page.say(text);
    }
    if let Some(worst) = &result.worst {
        let figures = result.targets.iter().flat_map(|t| &t.figures);
        let mut of = figures.filter(|f| f.name == worst.figure && f.within == Some(false));
        let far = match of.find(|f| f.error.is_none()) {
            Some(_) if worst.error == 0.0 => "not in the original".to_owned(),
            _ => off(&worst.figure, worst.error),
        };
        page.say(format!(
            "farthest off: {} on {}, {far} ({} allowed)",
            title(&worst.figure),
            worst.target,
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
        Some(("failed", kind)) => format!("failed: {kind}"),
        Some(("latency", act)) => format!("latency of {act}"),
        Some(("cache_hits", "half")) => "hits, half the cache".into(),
        Some(("cache_hits", _)) => "hits, twice the cache".into(),
        _ => match name {
            "cached" => "reads from the cache".into(),
            "throughput" => "operations a second".into(),
            "bytes_throughput" => "bytes a second".into(),
            "sequential" => "sequential transfers".into(),
            name => name.replace('_', " "),
        },
    }
}

/// Rows of the answer's table.
const MOST: usize = 24;

/// What the answer's table shows, in the figures' order, and what of the judged figures has no row there.
struct Shown {
    names: Vec<String>,
    off: usize,
    within: usize,
}

/// A name among the figures of all targets: whether one of them is off, and how far beside its limit.
fn judged(result: &Evaluation, name: &str) -> (bool, f64) {
    let figures = result.targets.iter().flat_map(|t| &t.figures);
    let figures = figures.filter(|f| f.name == name);
    figures.fold((false, 0.0), |(off, far): (bool, f64), figure| {
        let error = figure.error.unwrap_or(f64::INFINITY).abs();
        // What must be equal and is not is worse than anything that may differ.
        let beside = error / figure.limit.unwrap_or(1.0).max(1e-9);
        (off || figure.within == Some(false), far.max(beside))
    })
}

/// Everything that is off, the worst of it where that is more than there are rows; in the room left what is within its
/// limits: of the counts the farthest off where none is, of the others all.
fn shown(result: &Evaluation) -> Shown {
    let figures = result.targets.iter().flat_map(|t| &t.figures);
    let mut all: Vec<(&str, bool, f64)> = Vec::new();
    for figure in figures.filter(|f| f.limit.is_some()) {
        if !all.iter().any(|(name, ..)| *name == figure.name) {
            let (off, far) = judged(result, &figure.name);
            all.push((&figure.name, off, far));
        }
    }
    let is_count = |name: &str| name.starts_with("operations:") || name.starts_with("failed:");
    let mut worst: Vec<(&str, f64)> = all
        .iter()
        .filter_map(|(name, off, far)| off.then_some((*name, *far)))
        .collect();
    worst.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut names: Vec<&str> = worst.iter().map(|(name, _)| *name).collect();
    let mut within: Vec<(&str, f64)> = all
        .iter()
        .filter_map(|(name, off, far)| (!off).then_some((*name, *far)))
        .collect();
    if names.iter().any(|name| is_count(name)) {
        within.retain(|(name, _)| !is_count(name));
    } else {
        let counts = within.iter().filter(|(name, _)| is_count(name));
        let farthest = counts.max_by(|a, b| a.1.total_cmp(&b.1)).copied();
        within
            .retain(|(name, _)| !is_count(name) || farthest.is_some_and(|(kept, _)| kept == *name));
    }
    names.extend(within.iter().map(|(name, _)| *name));
    names.truncate(MOST);
    let hidden = |off| {
        let of = all
            .iter()
            .filter(|(name, is_off, _)| *is_off == off && !names.contains(name));
        of.count()
    };
    let (off, within) = (hidden(true), hidden(false));
    let shown = all.iter().filter(|(name, ..)| names.contains(name));
    Shown {
        names: shown.map(|(name, ..)| (*name).to_owned()).collect(),
        off,
        within,
    }
}

/// What has no row, and where it has one.
fn not_shown(shown: &Shown, page: &mut Page) {
    let parts = [
        (shown.off, "more that are off", "1 more that is off"),
        (shown.within, "within their limits", "1 within its limit"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, many, one)| match n {
            1 => one.to_owned(),
            n => format!("{} {many}", count(n as u64)),
        })
        .collect();
    if !parts.is_empty() {
        page.say(format!("not shown: {} (--details)", parts.join(", ")));
    }
}

fn value(name: &str, unit: &str, of: SideFigure) -> String {
    if is_share(name) {
        return percent(of.mean);
    }
    let is_unusable = is_unusable(of.low, of.high);
    let text = match of.low.zip(of.high) {
        Some((low, high)) if high > low && !is_unusable => {
            plus_minus(of.mean, (high - low) / 2.0, unit)
        }
        _ if unit == "count" => count(of.mean.round() as u64),
        _ => metric(of.mean, unit),
    };
    let per = if unit == "operations/s" { "/s" } else { "" };
    // As of two runs, whose interval may be a thousand times as wide as the value.
    let says = if is_unusable { " (unusable)" } else { "" };
    format!("{text}{per}{says}")
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

/// What is allowed of a figure; of a count also a few, whatever share of it they are.
fn tolerated(figure: &EvaluatedFigure) -> String {
    let Some(limit) = figure.limit else {
        return String::new();
    };
    let beyond = figure.error.is_none_or(|error| error.abs() > limit);
    if beyond && figure.within == Some(true) {
        "a few".into()
    } else {
        allowed(&figure.name, limit)
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
            tolerated(figure),
        ]);
    }
    table
}

/// How far the model is off, by figure and target.
fn over_targets(result: &Evaluation, names: &[String], width: u16) -> TextTable {
    let mut columns = vec![("off by, on", Align::Left)];
    columns.extend(
        result
            .targets
            .iter()
            .map(|t| (t.name.as_str(), Align::Right)),
    );
    let mut table = TextTable::new(&columns, width);
    for name in names {
        let of = |target: &EvaluatedTarget| {
            let figure = target.figures.iter().find(|f| f.name == *name);
            figure.map_or_else(String::new, difference)
        };
        let cells = std::iter::once(title(name)).chain(result.targets.iter().map(of));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(
        name: &str,
        unit: &str,
        (original, model): (f64, f64),
        limit: f64,
    ) -> EvaluatedFigure {
        let side = |mean| SideFigure {
            mean,
            low: None,
            high: None,
        };
        let error = (original > 0.0).then(|| model / original - 1.0);
        EvaluatedFigure {
            name: name.into(),
            unit: unit.into(),
            original: side(original),
            model: side(model),
            error,
            error_interval: None,
            limit: Some(limit),
            within: Some(error.is_some_and(|e| e.abs() <= limit)),
        }
    }

    #[test]
    fn an_interval_that_says_nothing_is_not_shown() {
        let shown = |half: f64, unit: &str| {
            let of = SideFigure {
                mean: 3990.0,
                low: Some(3990.0 - half),
                high: Some(3990.0 + half),
            };
            value("latency_mean", unit, of)
        };
        assert_eq!(shown(5.41e6, "ns"), "3.99 us (unusable)");
        assert_eq!(shown(100.0, "ns"), "3.99 ± 0.1 us");
        assert!(shown(5.41e6, "operations/s").ends_with("/s (unusable)"));
    }

    fn evaluation(targets: &[Vec<EvaluatedFigure>]) -> Evaluation {
        let target = |(at, figures): (usize, &Vec<EvaluatedFigure>)| EvaluatedTarget {
            name: format!("target {at}"),
            spec: "mem:fast".into(),
            made_cold: None,
            figures: figures.clone(),
            distances: Vec::new(),
            progress_rms_distance: None,
        };
        let targets: Vec<EvaluatedTarget> = targets.iter().enumerate().map(target).collect();
        let all = || targets.iter().flat_map(|t| &t.figures);
        Evaluation {
            model: "a.fsm".into(),
            original: "a.fst".into(),
            judged: all().count() as u64,
            missed: all().filter(|f| f.within == Some(false)).count() as u64,
            targets,
            ..Evaluation::default()
        }
    }

    fn rows(text: &str) -> Vec<&str> {
        let rows = text.lines().skip_while(|l| !l.contains("───")).skip(1);
        rows.take_while(|l| l.starts_with(' ')).collect()
    }

    #[test]
    fn every_figure_that_is_off_has_a_row() {
        let figures = vec![
            figure("operations:close", "count", (100.0, 100.0), 0.01),
            figure("operations:fdatasync", "count", (244.0, 0.0), 0.01),
            figure("operations:fsync", "count", (0.0, 31.0), 0.01),
            figure("operations:write", "count", (500.0, 900.0), 0.01),
            figure("bytes_read", "B", (4096.0, 4096.0), 0.01),
            figure(
                "throughput",
                "operations/s",
                (1_091_091.0, 2_000_000.0),
                0.05,
            ),
        ];
        let result = evaluation(std::slice::from_ref(&figures));
        let page = text(&result, false, 80);
        let off: Vec<&str> = rows(&page)
            .into_iter()
            .filter(|l| l.contains('!'))
            .collect();
        assert_eq!(off.len(), 4, "{page}");
        assert!(page.contains("4 of 6 figures are off"), "{page}");
        for name in ["fdatasync", "fsync", "write", "operations a second"] {
            assert!(off.iter().any(|l| l.contains(name)), "{name}\n{page}");
        }
        assert!(page.contains("1,091,091/s"), "{page}");
        // A count that is as it should be tells nothing beside them, and is not lost without a word.
        assert!(!page.contains("close"), "{page}");
        assert!(
            page.contains("not shown: 1 within its limit (--details)"),
            "{page}"
        );
        assert!(text(&result, true, 80).contains("operations: close"));
        // What is off on one target only has a row of all.
        let good = vec![figure(
            "operations:fdatasync",
            "count",
            (244.0, 244.0),
            0.01,
        )];
        let page = text(&evaluation(&[good, figures]), false, 80);
        assert_eq!(rows(&page).len(), 5, "{page}");
    }

    #[test]
    fn what_fails_in_the_model_alone_is_said() {
        let figures = vec![
            figure("operations:fault", "count", (1589.0, 1589.0), 0.01),
            figure("failed:fault", "count", (0.0, 548.0), 0.01),
        ];
        let mut result = evaluation(&[figures]);
        result.worst = Some(fsage_format::result::evaluation::WorstFigure {
            target: "target 0".into(),
            figure: "failed:fault".into(),
            error: 0.0,
            limit: 0.01,
        });
        let page = text(&result, false, 120);
        assert!(
            page.contains("1 of 2 figures is off by more than its limit"),
            "{page}"
        );
        assert!(
            page.contains("failed: fault on target 0, not in the original"),
            "{page}"
        );
        assert_eq!(
            rows(&page),
            [" failed: fault         0    548  not there !      1 %"],
            "{page}"
        );
    }

    #[test]
    fn of_more_figures_than_fit_the_worst_are_shown_and_the_others_counted() {
        let kind = |n: u32| {
            let name = format!("operations:kind{n:02}");
            figure(&name, "count", (100.0, 110.0 + f64::from(n)), 0.01)
        };
        let mut figures: Vec<EvaluatedFigure> = (0..30).map(kind).collect();
        figures.push(figure("bytes_read", "B", (1.0, 1.0), 0.01));
        let page = text(&evaluation(&[figures]), false, 80);
        assert_eq!(rows(&page).len(), MOST, "{page}");
        assert!(page.contains("kind29") && page.contains("kind06") && !page.contains("kind05"));
        assert!(
            page.contains("not shown: 6 more that are off, 1 within its limit (--details)"),
            "{page}"
        );
    }
}
