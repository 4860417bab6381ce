//! A system profile at a glance: of what it is, how far it can be trusted, the main costs, what to do next.

use fsage_core::metric::MetricId;
use fsage_format::profile::{MetricValue, SystemProfile};

use super::{interval, or_unknown, value};
use crate::page::{Page, quoted};
use crate::table::{Align, TextTable};
use crate::units::{self, counted};

/// The main costs, as they are shown: what it is in words, and the metrics that tell it, the first that was measured.
const COSTS: [(&str, &[&str]); 13] = [
    ("create a file", &["CR"]),
    ("open a file", &["OPEN"]),
    ("stat a file", &["STAT"]),
    ("read 4 KiB, cached", &["RC4"]),
    ("write 4 KiB at the end", &["WN4", "WF4"]),
    ("fsync a new file of 4 KiB", &["FSYN4", "FSYN16", "FSYN1"]),
    ("rename a file", &["RENAME"]),
    ("unlink a file of 4 KiB", &["RMF4", "RMF1", "RM"]),
    ("first read of a cold file", &["RFO", "RFF", "RFS"]),
    (
        "device, in sequence",
        &["RD1024", "RD256", "RD64", "RD4096"],
    ),
    ("device, 4 KiB anywhere", &["RRD4", "RRD1"]),
    ("page cache", &["BC"]),
    ("throttled writer", &["DTR"]),
];

/// Those that go first where a terminal has no room, in this order.
const SPARE: [&str; 5] = [
    "throttled writer",
    "rename a file",
    "stat a file",
    "device, 4 KiB anywhere",
    "open a file",
];

/// The answer with all of the main costs that were measured. On a terminal of so many `lines` those go that it has no room
/// for, and it says how many.
pub(super) fn text(profile: &SystemProfile, file: &str, lines: Option<u16>, width: u16) -> String {
    let all = page(profile, file, 0, width);
    let Some(lines) = lines else {
        return all;
    };
    // The last line of a terminal is that of what is typed next.
    let fits = |page: &String| page.lines().count() < lines.into();
    if fits(&all) {
        return all;
    }
    let mut last = all;
    for spared in 1..=SPARE.len() {
        last = page(profile, file, spared, width);
        if fits(&last) {
            break;
        }
    }
    last
}

fn page(profile: &SystemProfile, file: &str, spared: usize, width: u16) -> String {
    let mut page = Page::new(width);
    super::head(profile, &mut page);
    let all = measured(profile);
    let spare = SPARE.get(..spared).unwrap_or_default();
    let shown: Vec<Cost<'_>> = all
        .iter()
        .filter(|(what, _)| !spare.contains(what))
        .copied()
        .collect();
    page.blank();
    if shown.is_empty() {
        page.say("none of the main costs was measured");
    } else {
        page.table(&costs(&shown, width));
    }
    let left = all.len() - shown.len();
    if left > 0 {
        page.say(format!("{left} more of the main costs: --details"));
    }
    if let Some(text) = names(profile) {
        page.say(text);
    }
    page.blank();
    next(profile, file, &mut page);
    page.finish()
}

/// A cost in words, and the metric that tells it.
type Cost<'p> = (&'static str, &'p MetricValue);

/// The main costs that were measured.
fn measured(profile: &SystemProfile) -> Vec<Cost<'_>> {
    let found = COSTS
        .iter()
        .filter_map(|(what, names)| Some((*what, names.iter().find_map(|n| profile.get(n))?)));
    found.collect()
}

fn costs(shown: &[Cost<'_>], width: u16) -> TextTable {
    let marked = shown.iter().any(|(_, m)| !m.marks.is_empty());
    let mut columns = vec![
        // The metric goes before what it means is cut.
        ("main costs", Align::Whole),
        ("metric", Align::Left),
        ("estimate", Align::Right),
        ("95 % interval", Align::Right),
    ];
    if marked {
        columns.push(("mark", Align::Whole));
    }
    let mut table = TextTable::new(&columns, width).dropping(&["metric"]);
    for (what, metric) in shown {
        let mut row = vec![
            (*what).to_owned(),
            metric.name.clone(),
            value(metric),
            interval(metric),
        ];
        row.extend((!metric.marks.is_empty()).then(|| "disturbed".to_owned()));
        table.row(row);
    }
    table
}

/// How many names and inodes are kept, and how much is read ahead.
fn names(profile: &SystemProfile) -> Option<String> {
    let parts = [("DNLC", "names"), ("MDC", "inodes"), ("RAW", "read-ahead")];
    let of = |(metric, what): (&str, &str)| {
        let found = profile.get(metric)?;
        Some(format!("{what} {} ({metric})", value(found)))
    };
    let parts: Vec<String> = parts.into_iter().filter_map(of).collect();
    (!parts.is_empty()).then(|| format!("caches: {}", parts.join(", ")))
}

fn next(profile: &SystemProfile, file: &str, page: &mut Page) {
    let word = quoted(file);
    page.verbatim("next: fsage trace -o mine.fst --under DIR -- COMMAND");
    page.verbatim(format!("      fsage predict mine.fst --on {word}"));
    let first = profile.metrics.iter().find(|m| !m.marks.is_empty());
    let first = first
        .or_else(|| profile.get("FSYN4"))
        .or(profile.metrics.first());
    let explain = first.filter(|m| MetricId::parse(&m.name).is_some());
    let explain = explain.map_or(String::new(), |m| format!("; fsage show {}", m.name));
    page.verbatim(format!("more: fsage show {word} --details{explain}"));
}

/// Whether it is whole, in a few words.
pub(super) fn wholeness(profile: &SystemProfile) -> String {
    let absent = profile.absent.len() as u64;
    match (profile.incomplete_reason(), absent) {
        (Some(reason), _) => format!("not whole: {reason}"),
        (None, 0) => "whole".to_owned(),
        (None, n) => format!("{} not measured", counted(n, "other")),
    }
}

/// The machine in a line; none where the time is computed.
pub(super) fn machine(profile: &SystemProfile) -> Option<String> {
    let environment = &profile.environment;
    if environment.is_virtual() {
        return None;
    }
    let machine = &environment.machine;
    Some(format!(
        "{}, {} CPUs, {}, kernel {}",
        or_unknown(machine.processor.model.as_deref().unwrap_or_default()),
        machine.processor.cpus.unwrap_or(0),
        units::bytes(machine.memory.total_bytes.unwrap_or(0)),
        or_unknown(&machine.kernel.text()),
    ))
}
