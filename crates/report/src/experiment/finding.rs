//! What an experiment found: who is fastest, or that it cannot be told.

use fsage_format::result::experiment::{Configuration, Experiment};

use super::details::{Names, with_half_width};
use super::{Against, Group, against, counted, is_constant, subject};
use crate::page::Page;
use crate::units;

/// Groups of configurations whose finding is told.
const FINDINGS: usize = 2;

/// Others that are named one by one.
const NAMED: usize = 4;

/// A sentence for each of the first groups.
pub(super) fn add(page: &mut Page, experiment: &Experiment, groups: &[Group<'_>], names: &Names) {
    let metric = subject(experiment);
    for group in groups.iter().take(FINDINGS) {
        page.say(finding(group, metric, groups.len() > 1, names));
    }
    if groups.len() > FINDINGS {
        page.say(format!("and {} more, below", groups.len() - FINDINGS));
    }
}

/// What a configuration is called in its group.
fn called(group: &Group<'_>, c: &Configuration, names: &Names) -> String {
    if group.by_target {
        return c.target.clone();
    }
    let short = names.short(&c.name);
    if short.is_empty() {
        c.name.clone()
    } else {
        short
    }
}

fn finding(group: &Group<'_>, metric: &str, named: bool, names: &Names) -> String {
    let Some(base) = group.members.get(group.base) else {
        return String::new();
    };
    let value = base
        .metric(metric)
        .map_or_else(String::new, with_half_width);
    let title = if named && !group.name.is_empty() {
        format!("{}: ", group.name)
    } else {
        String::new()
    };
    let first = called(group, base, names);
    if group.members.len() == 1 {
        let runs = counted(base.runs.len(), "run");
        return format!("{title}{first}: {metric} {value} ({runs})");
    }
    let mut others: Vec<(f64, String)> = Vec::new();
    let mut alike: Vec<&Configuration> = Vec::new();
    let others_of = group.members.iter().zip(&group.p);
    for (c, p) in others_of.filter(|(c, _)| c.name != base.name) {
        match against(c, base, metric, *p) {
            Some(Against {
                is_apart: false, ..
            })
            | None => alike.push(c),
            Some(apart) => {
                let name = called(group, c, names);
                others.push((apart.ratio, format!("{name} {}", apart.text)));
            }
        }
    }
    others.sort_by(|a, b| a.0.total_cmp(&b.0));
    let others = others.into_iter().map(|(_, text)| text).collect();
    let mut parts = shortened(others, "below");
    let with_base = listed(group, &alike, names);
    let head = match (group.by_target, with_base) {
        (true, None) => format!("{title}{first} is fastest: {metric} {value}"),
        (true, Some(alike_names)) if alike.iter().all(|c| is_fixed(c, base, metric)) => format!(
            "{title}{first} and {alike_names} differ by less than 1 %: {metric} {}",
            range(base, &alike, metric).unwrap_or(value)
        ),
        (true, Some(alike_names)) => format!(
            "{title}{first} and {alike_names} cannot be told apart: {metric} {}",
            range(base, &alike, metric).unwrap_or(value)
        ),
        (false, None) => format!("{title}against {first} ({metric} {value})"),
        (false, Some(_)) if parts.is_empty() => {
            format!("{title}against {first} ({metric} {value}): no other can be told from it")
        }
        (false, Some(alike_names)) => {
            parts.push(format!("{alike_names} cannot be told from it"));
            format!("{title}against {first} ({metric} {value})")
        }
    };
    if parts.is_empty() {
        head
    } else {
        format!("{head}; {}", parts.join(", "))
    }
}

/// Whether neither of them varies, as in virtual time: then it is told what they are, not what cannot be told.
fn is_fixed(c: &Configuration, base: &Configuration, metric: &str) -> bool {
    is_constant(&c.samples(metric)) && is_constant(&base.samples(metric))
}

/// The first of many, and how many more there are.
fn shortened(mut all: Vec<String>, place: &str) -> Vec<String> {
    if all.len() > NAMED {
        let more = all.len() - (NAMED - 1);
        all.truncate(NAMED - 1);
        all.push(format!("{more} more {place}"));
    }
    all
}

/// Their names; `None` of none.
fn listed(group: &Group<'_>, all: &[&Configuration], names: &Names) -> Option<String> {
    let called = all.iter().map(|c| called(group, c, names)).collect();
    let called = shortened(called, "below");
    (!called.is_empty()).then(|| called.join(", "))
}

/// From the lowest mean to the highest, where they are written differently.
fn range(base: &Configuration, alike: &[&Configuration], metric: &str) -> Option<String> {
    let all = [base].into_iter().chain(alike.iter().copied());
    let all: Vec<_> = all.filter_map(|c| c.metric(metric)).collect();
    let unit = &all.first()?.unit;
    let means = || all.iter().map(|m| m.mean);
    let low = means().fold(f64::INFINITY, f64::min);
    let high = means().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (units::metric(low, unit), units::metric(high, unit));
    (low != high).then(|| format!("{low} to {high}"))
}
