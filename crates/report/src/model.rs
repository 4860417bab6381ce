//! How a model was fitted, and what it does.

mod shown;

use std::collections::BTreeMap;

use fsage_format::result::model::{FsmElapsed, FsmFit, ModelBytes, ModelFit};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{bytes, count, counted, duration, percent, signed_percent, significant};

pub use shown::shown;

/// So much of what a model is off by is said.
const SHOWN: usize = 4;

/// Kinds that are named of those that are left out.
const LEFT_OUT_NAMED: usize = 4;

/// What a terminal shows.
pub fn text(fit: &ModelFit, width: u16) -> String {
    let mut page = Page::new(width);
    let chunks = fit.chunks.last();
    let io_chunks = fit.io_chunks.last();
    page.say(format!(
        "{}: {} in {}, sizes in steps of {}, {}",
        fit.file.display(),
        counted(fit.modelled.iter().map(|o| o.count).sum(), "operation"),
        counted(chunks.map_or(0, |t| u64::from(t.chunks)), "time chunk"),
        bytes(io_chunks.map_or(0, |t| t.io_chunk_bytes)),
        bytes(fit.file_bytes),
    ));
    page.say(format!(
        "read {}, written {}, at another time at most {} of an operation{}",
        against(fit.read),
        against(fit.written),
        percent(chunks.map_or(0.0, |t| t.distance_percent / 100.0)),
        if fit.reached {
            String::new()
        } else {
            format!("; not within {}%", significant(fit.within_percent))
        }
    ));
    page.say(format!(
        "it runs with {} and {} made beforehand; {} writes and {} reads a file",
        counted(fit.threads, "thread"),
        counted(fit.setup_files, "file"),
        significant(fit.repeat_write),
        significant(fit.repeat_read),
    ));
    page.blank();
    page.table(&search(fit, page.width()));
    page.blank();
    page.table(&operations(fit, page.width()));
    let counted_only: u64 = fit
        .modelled
        .iter()
        .filter(|o| !o.run)
        .map(|o| o.count)
        .sum();
    if counted_only > 0 {
        page.blank();
        page.say(format!(
            "{} stand in the model and are not run: FileRunner creates, writes, reads and deletes, and opens \
             and closes around these",
            counted(counted_only, "operation")
        ));
    }
    let left = fit
        .left_out
        .iter()
        .map(|l| format!("{} {}", count(l.count), l.reason));
    let left: Vec<String> = left.collect();
    if !left.is_empty() {
        page.say(format!("not in the model: {}", left.join(", ")));
    }
    page.finish()
}

/// How long what was played takes at its own pace, where that is farther from the trace than so much.
fn takes(elapsed: &FsmElapsed, within_percent: f64) -> Option<String> {
    let off = elapsed
        .off()
        .filter(|off| off.abs() > within_percent / 100.0)?;
    Some(format!(
        "caution: played at its own pace it takes {} and the trace {} ({})",
        duration(elapsed.model_ns as f64),
        duration(elapsed.trace_ns as f64),
        signed_percent(off)
    ))
}

/// The same of a model that is read and edited.
pub fn fsm(fit: &FsmFit, width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "{}: {} in {}, {} in {}, {} of files, {} of visits; {}",
        fit.file.display(),
        counted(fit.operations, "operation"),
        counted(fit.phases, "phase"),
        counted(fit.processes, "process"),
        counted(fit.groups, "group"),
        counted(fit.file_classes, "class"),
        counted(fit.visits, "kind"),
        bytes(fit.file_bytes),
    ));
    page.say(format!(
        "played: read {}, written {}",
        against(fit.read_bytes),
        against(fit.written_bytes)
    ));
    if let Some(text) = takes(&fit.elapsed, fit.within_percent) {
        page.say(text);
    }
    let more = |(what, trace, model): (&str, u64, u64)| match trace {
        0 => format!("{what} not there"),
        trace => format!(
            "{what} {}",
            signed_percent(model as f64 / trace as f64 - 1.0)
        ),
    };
    let mut off: Vec<String> = fit.off().map(more).collect();
    if !off.is_empty() {
        let others = off.len().saturating_sub(SHOWN);
        off.truncate(SHOWN);
        if others > 0 {
            off.push(format!("{} more", count(others as u64)));
        }
        page.say(format!(
            "caution: off by more than {}: {}; a run of this model does other amounts than the trace did",
            percent(fit.within_percent / 100.0),
            off.join(", ")
        ));
    }
    for hits in &fit.hits {
        page.say(format!(
            "of page accesses a cache of {} has {} of the trace and {} of the model",
            bytes(hits.cache_bytes),
            percent(hits.trace_percent / 100.0),
            percent(hits.model_percent / 100.0),
        ));
    }
    page.blank();
    let headers = [
        ("operation", Align::Left),
        ("trace", Align::Right),
        ("model", Align::Right),
    ];
    let mut table = TextTable::new(&headers, page.width());
    for of in &fit.counts {
        table.row([of.kind.name().to_owned(), count(of.trace), count(of.model)]);
    }
    page.table(&table);
    say_otherwise(&mut page, fit);
    if fit.left_out > 0 {
        page.blank();
        page.say(format!(
            "not in the model: {}{}",
            counted(fit.left_out, "operation"),
            most_left_out(&fit.left_out_by_kind),
        ));
    }
    page.finish()
}

/// The kinds of which most are left out, in parentheses.
fn most_left_out(by_kind: &BTreeMap<String, u64>) -> String {
    let mut all: Vec<(&String, u64)> = by_kind.iter().map(|(kind, &n)| (kind, n)).collect();
    all.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let more = all.len().saturating_sub(LEFT_OUT_NAMED);
    let named = all.iter().take(LEFT_OUT_NAMED);
    let mut named: Vec<String> = named
        .map(|(kind, n)| format!("{kind} {}", count(*n)))
        .collect();
    if more > 0 {
        named.push(counted(more as u64, "more kind"));
    }
    if named.is_empty() {
        String::new()
    } else {
        format!(" ({})", named.join(", "))
    }
}

/// What a run of the model does as something else, or not at all.
fn say_otherwise(page: &mut Page, fit: &FsmFit) {
    let of = |run: bool| {
        let all = fit.otherwise.iter().filter(|of| of.run_as.is_some() == run);
        let named = all.map(|of| match of.run_as {
            Some(kind) => format!(
                "{} {} as {}",
                of.kind.name(),
                count(of.operations),
                kind.name()
            ),
            None => format!("{} {}", of.kind.name(), count(of.operations)),
        });
        Some(named.collect::<Vec<_>>().join(", ")).filter(|named| !named.is_empty())
    };
    if let Some(as_others) = of(true) {
        page.blank();
        page.say(format!("a run does as others: {as_others}"));
    }
    if let Some(not) = of(false) {
        page.blank();
        page.say(format!(
            "a run does not: {not} (no target has such a call, or another does it with its own)"
        ));
    }
}

/// How much more the model moves than the trace did, as a share of that.
fn off(of: ModelBytes) -> f64 {
    match of.trace_bytes {
        0 => 0.0,
        trace => of.model_bytes as f64 / trace as f64 - 1.0,
    }
}

fn against(of: ModelBytes) -> String {
    format!("{} ({})", bytes(of.model_bytes), signed_percent(off(of)))
}

/// Both searches side by side.
fn search(fit: &ModelFit, width: u16) -> TextTable {
    let columns = [
        ("chunks", Align::Right),
        ("at another time", Align::Right),
        ("I/O chunk", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for at in 0..fit.chunks.len().max(fit.io_chunks.len()) {
        let mut row = [const { String::new() }; 5];
        if let Some(tried) = fit.chunks.get(at) {
            row[0] = count(u64::from(tried.chunks));
            row[1] = percent(tried.distance_percent / 100.0);
        }
        if let Some(tried) = fit.io_chunks.get(at) {
            row[2] = bytes(tried.io_chunk_bytes);
            row[3] = signed_percent(tried.read_percent / 100.0);
            row[4] = signed_percent(tried.written_percent / 100.0);
        }
        table.row(row);
    }
    table
}

fn operations(fit: &ModelFit, width: u16) -> TextTable {
    let columns = [
        ("operation", Align::Left),
        ("number", Align::Right),
        ("count", Align::Right),
        ("cached", Align::Right),
        ("run", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    for operation in &fit.modelled {
        table.row([
            operation.name.clone(),
            operation.number.to_string(),
            count(operation.count),
            if operation.cached > 0 {
                count(operation.cached)
            } else {
                String::new()
            },
            if operation.run { "yes" } else { "" }.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_takes_another_time_than_its_trace_says_so() {
        let takes = |trace_ns, model_ns| {
            let elapsed = FsmElapsed { trace_ns, model_ns };
            takes(&elapsed, 10.0)
        };
        assert_eq!(takes(100_000_000, 91_000_000), None);
        assert_eq!(takes(0, 91_000_000), None);
        let said = takes(80_000_000, 40_000_000).unwrap_or_default();
        assert!(
            said.contains("takes 40 ms and the trace 80 ms (-50.0 %)"),
            "{said}"
        );
    }
}
