//! What the error consists of, largest first.

use fsage_format::result::validation::{Judgement, KindCause};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{count, duration, percent, signed_percent};

/// Rows that a terminal shows, and the smallest share that is worth one; JSON has all.
const SHOWN: usize = 15;
const LEAST: f64 = 0.001;

/// Both lists: by group and kind of operation, and by pair and kind. Each adds up to all differences. `label` says which
/// predictions they are of.
pub(super) fn add(page: &mut Page, judged: &Judgement, label: &str, width: u16) {
    page.title(format!(
        "What the error consists of{label}, by kind of operation, largest first: shares of all differences between \
         predicted and measured; each is weighed by its pair's measured latency, so that every pair counts alike",
    ));
    page.append(&kinds(judged, width));
    page.title(format!(
        "The same by pair{label}; the error is the kind's part of the pair's measured time"
    ));
    page.append(&pairs(judged, width));
}

fn kinds(judged: &Judgement, width: u16) -> String {
    let grouped = judged.causes_by_kind.iter().any(|c| c.group.is_some());
    let mut columns = vec![
        ("operation", Align::Left),
        ("share", Align::Right),
        ("too high", Align::Right),
        ("too low", Align::Right),
        ("most in", Align::Left),
    ];
    if grouped {
        columns.insert(0, ("group", Align::Left));
    }
    let mut table = TextTable::new(&columns, width);
    let by_kind = &judged.causes_by_kind;
    let shown = by_kind.iter().take(SHOWN).take_while(|c| c.share >= LEAST);
    let rest = &by_kind[shown.clone().count()..];
    for cause in shown {
        let mut row = vec![
            cause.kind.clone(),
            percent(cause.share),
            percent(cause.share_high),
            percent(cause.share_low),
            cause.most_in.clone(),
        ];
        if grouped {
            row.insert(0, cause.group.clone().unwrap_or_default());
        }
        table.row(row);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&KindCause) -> f64| percent(rest.iter().map(of).sum());
        let mut row = vec![
            format!("{} others", rest.len()),
            sum(|c| c.share),
            sum(|c| c.share_high),
            sum(|c| c.share_low),
        ];
        if grouped {
            row.insert(0, String::new());
        }
        table.row(row);
    }
    table.render()
}

fn pairs(judged: &Judgement, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("workload", Align::Left),
            ("target", Align::Left),
            ("operation", Align::Left),
            ("count", Align::Right),
            ("measured", Align::Right),
            ("predicted", Align::Right),
            ("error", Align::Right),
            ("share", Align::Right),
        ],
        width,
    )
    .dropping(&["count", "predicted", "measured"]);
    let causes = &judged.causes;
    let shown = causes.iter().take(SHOWN).take_while(|c| c.share >= LEAST);
    let rest = &causes[shown.clone().count()..];
    for cause in shown {
        table.row([
            cause.workload.clone(),
            cause.target.clone(),
            cause.kind.clone(),
            count(cause.count.round() as u64),
            duration(cause.measured_ns),
            duration(cause.predicted_ns),
            signed_percent(cause.of_pair),
            percent(cause.share),
        ]);
    }
    if !rest.is_empty() {
        let mut row = vec![format!("{} others", rest.len())];
        row.resize(7, String::new());
        row.push(percent(rest.iter().map(|c| c.share).sum()));
        table.row(row);
    }
    table.render()
}
