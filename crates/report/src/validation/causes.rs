//! What the error consists of, largest first.

use fsage_format::result::validation::Judgement;

use crate::table::{Align, TextTable};
use crate::units::{count, duration, percent, signed_percent};

/// Rows that a terminal shows, and the smallest share that is worth one; JSON has all.
const SHOWN: usize = 15;
const LEAST: f64 = 0.001;

/// Both lists: by group and kind of operation, and by pair and kind.
pub(super) fn text(judged: &Judgement, width: u16) -> String {
    let mut out = String::from(
        "\nCauses of error by kind of operation, largest first: parts of all differences, each weighed \
         by its pair's\nmeasured latency, so that every pair counts alike\n\n",
    );
    out.push_str(&kinds(judged, width));
    out.push_str("\nCauses of error by pair, largest first\n\n");
    out.push_str(&pairs(judged, width));
    out
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
    let shown = judged.causes_by_kind.iter().filter(|c| c.share >= LEAST);
    for cause in shown.take(SHOWN) {
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
            ("of the pair", Align::Right),
            ("share", Align::Right),
        ],
        width,
    );
    let shown = judged.causes.iter().filter(|c| c.share >= LEAST);
    for cause in shown.take(SHOWN) {
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
    table.render()
}
