//! Sections 3 and 3.1: what is measured, and against what.

use super::{Answer, Evidence, Found, percent};

pub(in crate::check) fn what_was_done(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for w in &e.workloads {
        found.has(format!("workload {}: {}", w.name, w.spec));
    }
    if e.workloads.is_empty() {
        found.lacks("the workload's text");
    }
    if let Some(plan) = &e.plan {
        found.has(format!("the plan, {} lines", plan.lines().count()));
    }
    if let Some(seed) = e.seed {
        found.has(format!("seed {seed}"));
    } else if e.workloads.iter().any(|w| !w.command) {
        found.lacks("a seed");
    }
    let version = e.machine.as_ref().map(|m| m.fsage.clone());
    let version = version.filter(|v| !v.is_empty());
    found.expect("the version of fsage", version, |v| format!("fsage {v}"));
    found.answer()
}

pub(in crate::check) fn why(_: &Evidence) -> Answer {
    Answer::Author(Vec::new())
}

pub(in crate::check) fn questions(_: &Evidence) -> Answer {
    Answer::Author(Vec::new())
}

pub(in crate::check) fn baseline(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let compared: Vec<&str> = e
        .workloads
        .iter()
        .map(|w| w.name.as_str())
        .filter(|name| e.cells.iter().filter(|c| c.workload == *name).count() > 1)
        .collect();
    if compared.is_empty() {
        found.lacks("a second target or configuration with the same workload");
    } else {
        let names: Vec<&str> = e.cells.iter().map(|c| c.name.as_str()).collect();
        found.has(format!(
            "{} configurations: {}",
            names.len(),
            names.join(", ")
        ));
    }
    found.answer()
}

pub(in crate::check) fn several_benchmarks(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for (micro, sort) in [(false, "macro-benchmark"), (true, "micro-benchmark")] {
        let all = e.workloads.iter().filter(|w| w.micro == micro);
        let all: Vec<&str> = all.map(|w| w.name.as_str()).collect();
        if all.is_empty() {
            found.lacks(format!("a {sort}"));
        } else {
            found.has(format!("{sort}: {}", all.join(", ")));
        }
    }
    found.answer()
}

pub(in crate::check) fn io_bound(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let mut waits = false;
    for cell in &e.cells {
        match cell.cpu_share {
            Some(share) => {
                waits |= share < 0.5;
                let share = percent(share);
                found.has(format!(
                    "{}: processor {share} of the elapsed time",
                    cell.name
                ));
            }
            None => found.lacks(format!("{}: its share of processor time", cell.name)),
        }
    }
    if !waits && found.missing.is_empty() {
        found.lacks("a workload bound by I/O: all use a processor for half of their time or more");
    }
    found.answer()
}

pub(in crate::check) fn accurate_timing(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let clock = e.machine.as_ref().and_then(|m| m.clock_source.clone());
    found.expect("the clock's source", clock, |c| {
        format!("nanoseconds of the monotonic clock, source {c}")
    });
    for cell in &e.cells {
        if let Some(elapsed) = cell.elapsed_ns.filter(|ns| *ns < 1e6) {
            found.lacks(format!(
                "{}: a run that is long beside what starting it takes: it lasts {:.0} us",
                cell.name,
                elapsed / 1e3
            ));
        }
    }
    found.answer()
}

pub(in crate::check) fn scalable(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for w in &e.workloads {
        if w.command {
            found.lacks(format!(
                "{}: what a command does depends on the machine's programs and files (compiles, 7.2)",
                w.name
            ));
        } else {
            found.has(format!("{}: its text decides what is done", w.name));
        }
    }
    found.answer()
}

pub(in crate::check) fn several_threads(e: &Evidence) -> Answer {
    let mut found = Found::default();
    let most = e.workloads.iter().max_by_key(|w| w.streams);
    match most.and_then(|w| Some((w, w.streams?))) {
        Some((w, streams)) if streams > 1 => {
            found.has(format!("{}: {streams} streams at once", w.name));
        }
        Some(_) => found.lacks("a workload of several streams: all run one"),
        None if e.workloads.iter().all(|w| w.command) && !e.workloads.is_empty() => {
            return Answer::Author(vec!["whether a command uses several is its own".into()]);
        }
        None => found.lacks("how many streams ran at once: this result does not tell"),
    }
    found.answer()
}

pub(in crate::check) fn understood(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for w in &e.workloads {
        let reported = e.cells.iter().any(|c| c.workload == w.name && c.by_kind);
        if reported {
            found.has(format!(
                "{}: every kind of operation, counted and timed",
                w.name
            ));
        } else {
            found.lacks(format!("{}: which operations it makes", w.name));
        }
    }
    found.answer()
}

pub(in crate::check) fn breakdown(e: &Evidence) -> Answer {
    let mut found = Found::default();
    for cell in &e.cells {
        let mut reported = Vec::new();
        if cell.by_mode {
            reported.push("user, system and waiting time");
        }
        if cell.by_kind {
            reported.push("latency by kind of operation");
        }
        if reported.is_empty() {
            found.lacks(format!("{}: where its time goes", cell.name));
        } else {
            found.has(format!("{}: {}", cell.name, reported.join("; ")));
        }
    }
    found.answer()
}
