//! Sections 3.4 and 3.5: how it is told, and what others can do with it.

use super::{Answer, Evidence, Found, PRECISE, names, percent, split};
use crate::check::evidence::{Cell, Measured};

/// Each metric that a result stands on.
fn measured(e: &Evidence) -> impl Iterator<Item = (&Cell, &Measured)> {
    e.cells
        .iter()
        .flat_map(|c| c.metrics.iter().map(move |m| (c, m)))
}

pub(in crate::check) fn intervals(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let mut with = 0;
    for (cell, metric) in measured(e) {
        if metric.n > 1 {
            with += 1;
        } else {
            found.lacks(format!(
                "{}: an interval of {}: one run has none",
                cell.name, metric.name
            ));
        }
    }
    if with > 0 {
        found.has(format!("95 % intervals of {with} means"));
    }
    if e.cells.iter().all(|c| c.metrics.is_empty()) {
        found.lacks("a metric with an interval");
    }
    found.answer()
}

pub(in crate::check) fn student(e: &Evidence) -> Answer {
    if measured(e).all(|(_, m)| m.n < 2) {
        return Answer::NotApplicable("there are no intervals".into());
    }
    let mut found = Found::default();
    found.has("every interval is by Student's t distribution");
    found.answer()
}

pub(in crate::check) fn precision(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for (cell, metric) in measured(e) {
        let name = format!("{}: {}", cell.name, metric.name);
        match metric.half_width_relative {
            Some(width) if width <= PRECISE => {
                found.has(format!(
                    "{name} to {} of its mean ({} runs)",
                    percent(width),
                    metric.n
                ));
            }
            Some(width) => found.lacks(format!(
                "{name} under 5 %: it is {} of the mean ({} runs)",
                percent(width),
                metric.n
            )),
            None => found.lacks(format!("{name}: how precise it is")),
        }
    }
    found.answer()
}

pub(in crate::check) fn normality(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let mut few = 0;
    for (cell, metric) in measured(e) {
        let name = format!("{}: {}", cell.name, metric.name);
        match metric.normal {
            Some(true) => found.has(format!("{name} passes for normal ({} runs)", metric.n)),
            Some(false) => {
                found.lacks(format!(
                    "{name}: why its {} samples are not normal",
                    metric.n
                ));
            }
            None => few += 1,
        }
    }
    if found.has.is_empty() && found.missing.is_empty() && few > 0 {
        return Answer::NotApplicable("too few or equal samples for a test".into());
    }
    found.answer()
}

pub(in crate::check) fn outliers(e: &Evidence) -> Answer {
    let mut found = Found::default();
    found.has("no sample is left out");
    for (cell, metric) in measured(e).filter(|(_, m)| m.outliers > 0) {
        found.lacks(format!(
            "{}: why {} of {} samples of {} lie far from the others",
            cell.name, metric.outliers, metric.n, metric.name
        ));
    }
    for failed in &e.failed {
        found.lacks(format!("why a run failed: {failed}"));
    }
    found.answer()
}

pub(in crate::check) fn stability(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let mut tested = 0;
    for (cell, metric) in measured(e) {
        match metric.drifts {
            Some(true) => found.lacks(format!(
                "{}: why {} moves from run to run",
                cell.name, metric.name
            )),
            Some(false) => tested += 1,
            None => {}
        }
    }
    for metric in &e.drifting {
        found.lacks(format!("why {metric} moves over the whole experiment"));
    }
    if tested > 0 {
        found.has(format!("{tested} metrics without a trend from run to run"));
    }
    if found.has.is_empty() && found.missing.is_empty() {
        return Answer::NotApplicable("too few or equal runs to see a trend".into());
    }
    found.answer()
}

pub(in crate::check) fn graphs(e: &Evidence) -> Answer {
    let with = measured(e).filter(|(_, m)| m.n > 1).count();
    Answer::Author(if with > 0 {
        vec![format!("{with} means with the ends of their intervals")]
    } else {
        Vec::new()
    })
}

pub(in crate::check) fn raw_data(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let (kept, _, without) = split(e, |c| c.raw.then_some(true));
    if !kept.is_empty() {
        let runs: usize = kept.iter().map(|c| c.runs).sum();
        found.has(format!("every sample of {runs} runs"));
    }
    if !without.is_empty() {
        found.lacks(format!("samples of {}", names(&without)));
    }
    found.answer()
}

pub(in crate::check) fn software_available(e: &Evidence) -> Answer {
    let mut has = Vec::new();
    for w in e.workloads.iter().filter(|w| !w.command) {
        has.push(format!("{}: its text and fsage repeat it", w.name));
    }
    for w in e.workloads.iter().filter(|w| w.command) {
        has.push(format!(
            "{}: its command; what it needs is yours to publish",
            w.name
        ));
    }
    Answer::Author(has)
}
