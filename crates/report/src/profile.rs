//! A system profile: the answer, all of it as a table, and the list of what can be measured.

mod answer;

use fsage_core::metric::{self, Group, MetricId};
use fsage_format::profile::{MetricValue, SystemProfile};
use fsage_format::result::environment::TargetRecord;

use crate::environment::VIRTUAL;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units;

/// What is shown of the profile in `file`: the answer; with `details` every metric.
pub fn text(profile: &SystemProfile, file: &str, details: bool, width: u16) -> String {
    if details {
        all(profile, width)
    } else {
        answer::text(profile, file, None, width)
    }
}

/// The answer for a terminal of so many `lines`: it says what it has no room for.
pub fn screen(profile: &SystemProfile, file: &str, lines: u16, width: u16) -> String {
    answer::text(profile, file, Some(lines), width)
}

/// What the stated costs of a simulated device begin with.
const SIMULATED: &str = "disk.device.";

/// Of what it is, and how far it can be trusted.
fn head(profile: &SystemProfile, page: &mut Page) {
    let target = &profile.environment.target;
    let measured = &profile.measurement;
    caution(profile, page);
    let device = target.device_text();
    let on = match (device.as_str(), simulated(target)) {
        ("", Some(device)) => format!("on {device}"),
        ("", None) if target.is_deviceless() || profile.environment.is_virtual() => {
            "without a device".to_owned()
        }
        _ => format!("on {}", or_unknown(&device)),
    };
    page.say(format!(
        "{}: {} {on}",
        profile.name,
        or_unknown(target.file_system.as_deref().unwrap_or_default()),
    ));
    if let Some(machine) = answer::machine(profile) {
        page.say(machine);
    }
    page.say(format!(
        "{}{} in {}, {}; {}",
        if measured.quick { "quick; " } else { "" },
        units::counted(profile.metrics.len() as u64, "metric"),
        units::duration(measured.elapsed_ns as f64),
        measured.cold_method.as_ref().map_or_else(
            || "none of cold caches".to_owned(),
            |how| format!("cold by {how}")
        ),
        answer::wholeness(profile),
    ));
    if profile.environment.is_virtual() {
        page.say(VIRTUAL);
    }
}

/// The device of a target that computes its time and what is charged for one; `None` where it has none.
fn simulated(target: &TargetRecord) -> Option<String> {
    let stated = &target.parameters;
    if !stated.keys().any(|key| key.starts_with(SIMULATED)) {
        return None;
    }
    let far = stated.get(&format!("{SIMULATED}far_ns"));
    let far = far.and_then(|ns| ns.parse::<f64>().ok());
    let far = far.map(|ns| format!(" ({} to another place)", units::duration(ns)));
    Some(format!("a simulated device{}", far.unwrap_or_default()))
}

fn all(profile: &SystemProfile, width: u16) -> String {
    let mut page = Page::new(width);
    head(profile, &mut page);
    page.blank();
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
        "caution: {} of {} disturbed while measured, or suspect (--details tells why): profile again on a quiet \
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

fn row(metric: &MetricValue) -> [String; 5] {
    [
        metric.name.clone(),
        value(metric),
        interval(metric),
        metric.runs.to_string(),
        MetricId::parse(&metric.name)
            .map_or(String::new(), |id| id.family().row().what.to_string()),
    ]
}

fn value(metric: &MetricValue) -> String {
    let bound = if metric.lower_bound { "at least " } else { "" };
    format!("{bound}{}", units::metric(metric.estimate, &metric.unit))
}

fn interval(metric: &MetricValue) -> String {
    match metric.interval() {
        // Found out, not estimated.
        Some((low, high)) if low >= high => "exact".to_owned(),
        Some((low, high)) if units::is_unusable(Some(low), Some(high)) => "unusable".to_owned(),
        Some((low, high)) => format!(
            "{} – {}",
            units::metric(low, &metric.unit),
            units::metric(high, &metric.unit)
        ),
        None => "unknown".to_owned(),
    }
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
    use fsage_format::profile::Environment;

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
        let shown = |profile: &SystemProfile| text(profile, "ext4.fsp", true, 80);
        assert!(shown(&profile).starts_with(&profile.name));
        let all = profile.metrics.len();
        let metric = profile.metrics.iter_mut().find(|m| m.name == "STAT");
        let metric = metric.unwrap();
        metric.marks = vec!["other processes ran".into()];
        (metric.estimate, metric.low, metric.high) = (731.0, Some(0.0), Some(1540.0));
        let said = shown(&profile);
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

    #[test]
    fn the_answer_of_a_profile_fits_a_screen() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/profiles");
        for file in std::fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            let mut profile = SystemProfile::load(&path).unwrap();
            for disturbed in [false, true] {
                for metric in &mut profile.metrics {
                    metric.marks = vec!["other processes ran".to_owned(); disturbed.into()];
                }
                let said = screen(&profile, "a file.fsp", 25, 80);
                let lines: Vec<&str> = said.lines().collect();
                assert!(lines.len() <= 24, "{} lines:\n{said}", lines.len());
                assert!(lines.iter().all(|l| l.chars().count() <= 80), "{said}");
                let main = [
                    "create", "read", "write", "fsync", "unlink", "device", "cache",
                ];
                for part in main.iter().chain(&["predict mine.fst --on 'a file.fsp'"]) {
                    assert!(said.contains(part), "{part}:\n{said}");
                }
                assert_eq!(said.starts_with("caution: "), disturbed, "{said}");
                assert_eq!(said.contains("  disturbed\n"), disturbed, "{said}");
            }
            profile.incomplete = Some("interrupted".to_owned());
            let said = text(&profile, "a.fsp", false, 80);
            assert!(said.contains("not whole: interrupted"), "{said}");
        }
        // Nothing that the answer is made of.
        let empty = SystemProfile::new("empty", Environment::default());
        let said = text(&empty, "empty.fsp", false, 80);
        assert!(said.contains("none of the main costs"), "{said}");
    }

    #[test]
    fn a_simulated_device_is_told() {
        let mut profile = SystemProfile::new("mem:disk", Environment::default());
        let target = &mut profile.environment.target;
        (target.virtual_time, target.file_system) = (true, Some("mem".into()));
        let said = |profile: &SystemProfile, details| text(profile, "m.fsp", details, 80);
        assert!(said(&profile, false).starts_with("mem:disk: mem without a device\n"));
        let stated = ("disk.device.far_ns".to_owned(), "8000000".to_owned());
        profile.environment.target.parameters.extend([stated]);
        for details in [false, true] {
            let said = said(&profile, details);
            let head = "mem:disk: mem on a simulated device (8 ms to another place)\n";
            assert!(said.starts_with(head), "{said}");
        }
    }

    #[test]
    fn no_cost_is_dropped_without_a_word() {
        let mut profile = SystemProfile::new("mem:disk", Environment::default());
        let costs = [
            "CR", "OPEN", "STAT", "RC4", "WN4", "FSYN4", "RENAME", "RMF4", "RFO", "RD1024", "RRD4",
            "BC", "DTR",
        ];
        profile.metrics = costs
            .iter()
            .map(|name| MetricValue {
                marks: vec!["other processes ran".into()],
                ..value_of(name)
            })
            .collect();
        let rows = |said: &str| said.lines().filter(|l| l.ends_with("disturbed")).count();
        // Where nobody tells how high the terminal is, as in a pipe, and where it is high enough.
        for said in [
            text(&profile, "a.fsp", false, 80),
            screen(&profile, "a.fsp", 60, 80),
        ] {
            assert_eq!(rows(&said), costs.len(), "{said}");
            assert!(!said.contains("more of the main costs"), "{said}");
        }
        let said = screen(&profile, "a.fsp", 22, 80);
        let left = costs.len() - rows(&said);
        assert!(said.lines().count() < 22 && left > 0, "{said}");
        let more = format!("{left} more of the main costs: --details\n");
        assert!(said.contains(&more), "{said}");
    }

    fn value_of(name: &str) -> MetricValue {
        MetricValue {
            name: name.into(),
            unit: "us".into(),
            estimate: 3.0,
            low: Some(2.9),
            high: Some(3.1),
            runs: 3,
            ..MetricValue::default()
        }
    }

    #[test]
    fn computed_time_is_named_as_such() {
        let mut profile = SystemProfile::new("mem:fast", Environment::default());
        for details in [false, true] {
            profile.environment.target.virtual_time = true;
            let said = text(&profile, "m.fsp", details, 80);
            assert!(said.contains("virtual") && !said.contains("CPUs"), "{said}");
            profile.environment.target.virtual_time = false;
            let said = text(&profile, "m.fsp", details, 80);
            assert!(!said.contains("virtual") && said.contains("CPUs"), "{said}");
        }
    }
}
