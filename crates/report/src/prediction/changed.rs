//! What-if: what each change does on each system.

use fsage_format::result::prediction::{Changed, Prediction, TargetPrediction};

use super::time;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{self, signed_percent};

/// Systems whose changes are told in a sentence each.
const IN_WORDS: usize = 3;

/// What the changes do: what was asked, and so before everything else. Returns whether there is any.
pub(super) fn say(result: &Prediction, page: &mut Page) -> bool {
    let changed = result.targets.iter();
    let changed = changed.filter_map(|t| Some((t, t.what_if.as_ref()?)));
    let changed: Vec<_> = changed.collect();
    if result.what_if.is_empty() || changed.is_empty() {
        return false;
    }
    let asked = format!("What if {}:", result.what_if.join(", "));
    match changed.as_slice() {
        [(target, after)] => page.say(format!("{asked} {}.", effect(target, after))),
        all if all.len() > IN_WORDS => {
            page.say(asked);
            page.table(&changes(all, page.width()));
        }
        all => {
            page.say(asked);
            for (target, after) in all {
                page.item(effect(target, after));
            }
        }
    }
    for text in nothings(result) {
        page.item(text);
    }
    page.blank();
    true
}

/// `on ext4 elapsed 8 s becomes 6 s (-25.0 %), in the file system 7 s becomes 5 s`.
fn effect(target: &TargetPrediction, after: &Changed) -> String {
    let before = target.elapsed_ns.unwrap_or_default();
    let latency = target.latency_total_ns.unwrap_or_default();
    // Where calls change and the whole does not, threads meet differently: what that does is no more than hardly anything.
    let elapsed = match by(before, after.elapsed_ns) {
        same if same == UNCHANGED && by(latency, after.latency_total_ns) != UNCHANGED => {
            format!("{} hardly changes", time(before))
        }
        same if same == UNCHANGED => format!("{} is {same}", time(before)),
        by => format!("{} becomes {} ({by})", time(before), time(after.elapsed_ns)),
    };
    let inside = match by(latency, after.latency_total_ns) {
        same if same == UNCHANGED => format!("{} is {same}", time(latency)),
        _ => format!("{} becomes {}", time(latency), time(after.latency_total_ns)),
    };
    format!(
        "on {} elapsed {elapsed}, in the file system {inside}",
        target.name
    )
}

/// What is as it was, as far as figures are shown.
const UNCHANGED: &str = "unchanged";

/// How much more or less it is.
fn by(before: f64, after: f64) -> String {
    if time(before) == time(after) {
        return UNCHANGED.to_owned();
    }
    match after / before {
        times if !times.is_finite() => "of nothing".to_owned(),
        // Nobody reads thousands of percent.
        times if times >= 10.0 => format!("x{}", units::significant(times)),
        times => signed_percent(times - 1.0),
    }
}

/// The same of many systems, a row each.
fn changes(all: &[(&TargetPrediction, &Changed)], width: u16) -> TextTable {
    let columns = [
        ("target", Align::Left),
        ("elapsed", Align::Right),
        ("then", Align::Right),
        ("change", Align::Right),
        ("in the file system", Align::Right),
        ("then there", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width).dropping(&["in the file system", "then there"]);
    for (target, after) in all {
        let before = target.elapsed_ns.unwrap_or_default();
        table.row([
            target.name.clone(),
            time(before),
            time(after.elapsed_ns),
            by(before, after.elapsed_ns),
            time(target.latency_total_ns.unwrap_or_default()),
            time(after.latency_total_ns),
        ]);
    }
    table
}

/// Changes that change nothing, and why; what is so on all systems once.
fn nothings(result: &Prediction) -> Vec<String> {
    let mut reported: Vec<(String, Vec<&str>)> = Vec::new();
    for target in &result.targets {
        let effects = target.what_if.iter().flat_map(|w| &w.effects);
        for effect in effects {
            let Some(why) = &effect.nothing else { continue };
            let text = format!("{} changes nothing: {why}", effect.change);
            match reported.iter_mut().find(|t| t.0 == text) {
                Some((_, names)) => names.push(&target.name),
                None => reported.push((text, vec![&target.name])),
            }
        }
    }
    let all = result.targets.len();
    reported
        .into_iter()
        .map(|(text, names)| match names.len() {
            n if n == all => text,
            _ => format!("on {}: {text}", names.join(", ")),
        })
        .collect()
}
