//! A system profile as a table, and the list of what can be measured.

use fsage_core::metric::{self, Group, MetricId};
use fsage_format::profile::{MetricValue, SystemProfile};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units;

/// Everything that a terminal shows of a profile.
pub fn text(profile: &SystemProfile, width: u16) -> String {
    let (machine, target) = (&profile.environment.machine, &profile.environment.target);
    let measured = &profile.measurement;
    let mut page = Page::new(width);
    caution(profile, &mut page);
    page.say(format!(
        "{}: {} on {}",
        profile.name,
        or_unknown(target.file_system.as_deref().unwrap_or_default()),
        or_unknown(&target.device_text()),
    ));
    page.say(format!(
        "{}, {} CPUs, {}, kernel {}",
        or_unknown(machine.processor.model.as_deref().unwrap_or_default()),
        machine.processor.cpus.unwrap_or(0),
        units::bytes(machine.memory.total_bytes.unwrap_or(0)),
        or_unknown(&machine.kernel.text()),
    ));
    page.say(format!(
        "{}{} metrics in {}, {}",
        if measured.quick { "quick; " } else { "" },
        profile.metrics.len(),
        units::duration(measured.elapsed_ns as f64),
        measured
            .cold_method
            .as_ref()
            .map_or_else(|| "no cold ones".to_owned(), |how| format!("cold by {how}")),
    ));
    page.blank();
    if let Some(reason) = profile.incomplete_reason() {
        page.say(format!("not whole: {reason}"));
        page.blank();
    }
    let mut table = TextTable::new(
        &[
            ("metric", Align::Left),
            ("estimate", Align::Right),
            ("95 % interval", Align::Right),
            ("runs", Align::Right),
            ("what", Align::Prose),
        ],
        width,
    );
    for value in &profile.metrics {
        table.row(row(value));
    }
    page.table(&table);
    suspects(profile, &mut page);
    if !profile.absent.is_empty() {
        page.title("not measured:");
        for (reason, names) in by_reason(profile) {
            let named = names.iter().take(NAMED).copied().collect::<Vec<_>>();
            let more = names.len().saturating_sub(NAMED);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            page.item(format!("{}{more}: {reason}", named.join(", ")));
        }
    }
    page.finish()
}

/// That it was disturbed, before any figure.
fn caution(profile: &SystemProfile, page: &mut Page) {
    let all = profile.metrics.len() as u64;
    let marked = profile.metrics.iter().filter(|m| !m.marks.is_empty());
    let marked = marked.count() as u64;
    if marked == 0 {
        return;
    }
    page.say(format!(
        "caution: {} of {} disturbed while measured, or suspect: why stands below them; profile again on a quiet \
         machine",
        units::count(marked),
        units::counted(all, "metric"),
    ));
}

/// Names that stand before one reason.
const NAMED: usize = 4;

/// What was not measured, by why, in the order of the first of each.
fn by_reason(profile: &SystemProfile) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for absent in &profile.absent {
        match groups.iter_mut().find(|g| g.0 == absent.reason) {
            Some((_, names)) => names.push(&absent.name),
            None => groups.push((&absent.reason, vec![&absent.name])),
        }
    }
    groups
}

/// What disturbed the measurement, and which metrics are marked for what else.
fn suspects(profile: &SystemProfile, page: &mut Page) {
    let mut said = Vec::new();
    for disturbance in &profile.disturbances {
        let what = match disturbance.procedure.as_str() {
            "" => "the measurement",
            procedure => procedure,
        };
        let repeated = match disturbance.repeated {
            0 => String::new(),
            1 => " (repeated once)".to_owned(),
            times => format!(" (repeated {times} times)"),
        };
        let marks = match disturbance.marks.as_slice() {
            [] => "quiet when it was repeated".to_owned(),
            marks => marks.join(", "),
        };
        said.push(format!("{what}{repeated}: {marks}"));
    }
    let reported = |mark: &String| profile.disturbances.iter().any(|d| d.marks.contains(mark));
    for value in &profile.metrics {
        for mark in value.marks.iter().filter(|mark| !reported(mark)) {
            said.push(format!("{}: {mark}", value.name));
        }
    }
    if !said.is_empty() {
        page.title("disturbed or suspect:");
    }
    for said in said {
        page.item(said);
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn row(value: &MetricValue) -> [String; 5] {
    let bound = if value.lower_bound { "at least " } else { "" };
    let interval = match value.interval() {
        // Found out, not estimated.
        Some((low, high)) if low >= high => String::new(),
        Some((low, high)) if units::is_unusable(Some(low), Some(high)) => "unusable".to_owned(),
        Some((low, high)) => format!(
            "{} – {}",
            units::metric(low, &value.unit),
            units::metric(high, &value.unit)
        ),
        None => "unknown".to_owned(),
    };
    [
        value.name.clone(),
        format!("{bound}{}", units::metric(value.estimate, &value.unit)),
        interval,
        value.runs.to_string(),
        MetricId::parse(&value.name).map_or(String::new(), |id| id.family().row().what.to_string()),
    ]
}

/// Every metric that can be measured, by group.
pub fn list(width: u16) -> String {
    let mut out = String::new();
    for group in Group::ALL {
        out.push_str(&format!("{}\n", group.name()));
        let mut table = TextTable::new(
            &[
                ("metric", Align::Left),
                ("unit", Align::Left),
                ("what", Align::Prose),
            ],
            width,
        );
        for row in metric::FAMILIES.iter().filter(|f| f.group == *group) {
            table.row([
                names(row),
                row.unit.name().to_string(),
                row.what.to_string(),
            ]);
        }
        out.push_str(&table.render());
        out.push('\n');
    }
    let mut page = Page::new(width);
    page.append(&out);
    page.say(
        "Names ending in _G1, _G10, _G150 and _G2000: the same after a pause of 1, 10, 150 and 2,000 us.",
    );
    page.finish()
}

/// How a family's metrics are called: `RD1..RD4096`, with ` +G` where there are gaps.
fn names(row: &metric::Family) -> String {
    let base = match row.points {
        None => row.stem.to_string(),
        Some(points) => match (points.values.first(), points.values.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{0}{first}..{0}{last}", row.stem)
            }
            (Some(only), _) => format!("{}{only}", row.stem),
            _ => row.stem.to_string(),
        },
    };
    if row.gaps {
        format!("{base} +_G")
    } else {
        base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_leads_and_an_interval_that_says_nothing_is_unusable() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../corpus/profiles/ext4.fsp"
        );
        let mut profile = SystemProfile::load(std::path::Path::new(file)).unwrap();
        for metric in &mut profile.metrics {
            metric.marks.clear();
        }
        assert!(text(&profile, 80).starts_with(&profile.name));
        let all = profile.metrics.len();
        let metric = profile.metrics.iter_mut().find(|m| m.name == "STAT");
        let metric = metric.unwrap();
        metric.marks = vec!["other processes ran".into()];
        (metric.estimate, metric.low, metric.high) = (731.0, Some(0.0), Some(1540.0));
        let said = text(&profile, 80);
        assert!(
            said.starts_with(&format!("caution: 1 of {all} metrics disturbed")),
            "{said}"
        );
        let row = said.lines().find(|l| l.starts_with(" STAT ")).unwrap();
        assert!(
            row.contains("731 ns  ") && row.contains("unusable"),
            "{row}"
        );
    }
}
