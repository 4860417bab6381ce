//! Section 3.3: how it was run.

use super::{Answer, Evidence, Found, PRECISE, names, seconds, split};

/// As many as the study made of each of its own benchmarks (section 6).
const ENOUGH_RUNS: usize = 10;

pub(in crate::check) fn identical_runs(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let (fresh, reused, unknown) = split(e, |c| c.fresh);
    if !fresh.is_empty() {
        found.has(format!(
            "a file system of its own for each run: {}",
            names(&fresh)
        ));
    }
    let several: Vec<_> = reused.into_iter().filter(|c| c.runs > 1).collect();
    if !several.is_empty() {
        found.lacks(format!(
            "the same file system for each run (each takes what the last has left): {}",
            names(&several)
        ));
    }
    if !unknown.is_empty() {
        found.lacks(format!("whether runs began alike: {}", names(&unknown)));
    }
    let (set, _, _) = split(e, |c| c.cache.as_deref().map(|state| state != "as found"));
    if !set.is_empty() {
        found.has(format!(
            "caches in the same state before each run: {}",
            names(&set)
        ));
    }
    if e.cells.iter().all(|c| c.runs < 2) {
        found.lacks("a second run to be like the first");
    }
    found.answer()
}

pub(in crate::check) fn number_of_runs(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for cell in &e.cells {
        let runs = cell.runs;
        let precise = !cell.metrics.is_empty()
            && cell
                .metrics
                .iter()
                .all(|m| m.half_width_relative.is_some_and(|w| w <= PRECISE));
        let counted = if runs == 1 {
            "one run".to_owned()
        } else {
            format!("{runs} runs")
        };
        let reported = cell.stop.clone().unwrap_or_else(|| counted.clone());
        if runs >= ENOUGH_RUNS || (runs > 2 && precise) {
            found.has(format!("{}: {reported}", cell.name));
        } else {
            found.lacks(format!("{}: more than {counted}", cell.name));
        }
    }
    if e.cells.is_empty() {
        found.lacks("any run");
    }
    if e.interrupted {
        found.lacks("the rest: it was stopped before its end");
    }
    found.answer()
}

pub(in crate::check) fn steady_state(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for cell in &e.cells {
        let length = cell
            .elapsed_ns
            .map_or(String::new(), |ns| format!(" of {}", seconds(ns)));
        match cell.steady {
            Some((mostly, reported)) if mostly == reported => found.has(format!(
                "{}: steady for more than half of each of {reported} runs{length}",
                cell.name
            )),
            Some((mostly, reported)) => found.lacks(format!(
                "{}: a steady state for more than half of {} of {reported} runs{length}",
                cell.name,
                reported - mostly
            )),
            None => found.lacks(format!(
                "{}: whether its throughput{} became steady",
                cell.name,
                if length.is_empty() {
                    String::new()
                } else {
                    format!(" in runs{length}")
                }
            )),
        }
    }
    found.answer()
}

pub(in crate::check) fn automated(e: &Evidence) -> Answer {
    let mut found = Found::default();
    match (&e.plan, e.kind) {
        (Some(plan), _) => found.has(format!(
            "a plan of {} lines, kept in the result",
            plan.lines().count()
        )),
        (None, "fsage validation") => found.has("`fsage validate` made every run by itself"),
        (None, _) => found.lacks("a plan: this was one run by hand"),
    }
    found.answer()
}

pub(in crate::check) fn same_conditions(e: &Evidence) -> Answer {
    if e.cells.len() < 2 {
        return Answer::NotApplicable("one configuration: nothing is compared in it".into());
    }
    let mut found = Found::default();
    found.has(format!("{} configurations on one machine", e.cells.len()));
    if e.interleaved {
        found.has("their runs interleaved in random order");
    } else {
        found.lacks("runs of the configurations in turns");
    }
    found.answer()
}
