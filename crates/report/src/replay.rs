//! What a replay gave.

use fsage_core::Errno;
use fsage_format::result::replay::{Replay, ReplayKind};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{bytes, count, counted, duration, percent, signed_percent};

/// Everything that a terminal shows of a replay.
pub fn text(result: &Replay, width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "{}, {} replayed on {} ({} speed, {} order, {} at most), seed {}",
        counted(result.operations, "operation"),
        count(result.replayed),
        result.target,
        result.speed,
        result.order,
        counted(result.threads, "thread"),
        result.seed,
    ));
    for mapping in &result.mapped {
        let to = match mapping.to.as_str() {
            "" => "the target's top directory".to_owned(),
            to => format!("the target's {to}"),
        };
        page.say(format!("what lay below {} lies in {to}", mapping.from));
    }
    let built = &result.built;
    page.say(format!(
        "made before: {} with {}, {}, {}, {}",
        counted(built.files, "file"),
        bytes(built.bytes),
        counted(built.links, "further name"),
        counted(built.directories, "directory"),
        counted(built.symlinks, "symbolic link"),
    ));
    if built.incoming > 0 {
        page.say(format!(
            "{} of these for links and renames from elsewhere: sizes as the trace saw them later",
            count(built.incoming)
        ));
    }
    match &result.made_cold {
        Some(how) => page.say(format!("caches: {} ({how})", result.caches)),
        None if result.caches.is_empty() => {}
        None => page.say(format!(
            "caches: {}, as making that tree left them",
            result.caches
        )),
    }
    page.blank();
    page.table(&kinds(result, width));
    page.blank();
    say_timing(&mut page, result);
    say_differences(&mut page, result);
    say_skipped(&mut page, result);
    say_verified(&mut page, result);
    if let Some(kept) = &result.kept {
        page.say(format!("kept in {kept}"));
    }
    if result.interrupted {
        page.say("interrupted: what follows in the trace was not replayed");
    }
    for warning in &result.warnings {
        page.say(format!("warning: {warning}"));
    }
    page.finish()
}

fn kinds(result: &Replay, width: u16) -> TextTable {
    let columns = [
        ("operation", Align::Left),
        ("count", Align::Right),
        ("differ", Align::Right),
        ("median then", Align::Right),
        ("median now", Align::Right),
        ("99 % now", Align::Right),
        ("all then", Align::Right),
        ("all now", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    let mut kinds: Vec<_> = result.kinds.iter().collect();
    kinds.sort_by_key(|k| std::cmp::Reverse(k.replayed.total_ns));
    let time = |known: bool, ns: u64| {
        if known {
            duration(ns as f64)
        } else {
            String::new()
        }
    };
    for kind in kinds {
        let known = kind.traced.count > 0;
        table.row([
            kind.kind.clone(),
            count(kind.operations),
            count(kind.differ),
            time(known, kind.traced.p50_ns),
            time(true, kind.replayed.p50_ns),
            time(true, kind.replayed.p99_ns),
            time(known, kind.traced.total_ns),
            time(true, kind.replayed.total_ns),
        ]);
    }
    // The kinds add up to it, where there are several.
    if result.kinds.len() > 1 {
        let sum = |of: fn(&ReplayKind) -> u64| result.kinds.iter().map(of).sum::<u64>();
        let known = result.kinds.iter().any(|k| k.traced.count > 0);
        table.row([
            "total".to_owned(),
            count(sum(|k| k.operations)),
            count(sum(|k| k.differ)),
            String::new(),
            String::new(),
            String::new(),
            time(known, sum(|k| k.traced.total_ns)),
            time(true, sum(|k| k.replayed.total_ns)),
        ]);
    }
    table
}

fn say_timing(page: &mut Page, result: &Replay) {
    let timing = &result.timing;
    let took = duration(timing.replayed_elapsed_ns as f64);
    let traced = duration(timing.traced_elapsed_ns as f64);
    page.say(match (timing.due_elapsed_ns, timing.ratio) {
        (Some(due), Some(ratio)) => format!(
            "took {took}, due in {} ({}); in the trace these operations took {traced}",
            duration(due as f64),
            signed_percent(ratio - 1.0),
        ),
        (_, Some(ratio)) => {
            format!("took {took}; in the trace these operations took {traced} (x{ratio:.3})")
        }
        (_, None) => format!("took {took}"),
    });
    if let Some(error) = &timing.start_error {
        page.say(format!(
            "operations started off their time by {} (median), {} (99 %), {} (most)",
            duration(error.p50_ns as f64),
            duration(error.p99_ns as f64),
            duration(error.max_ns as f64),
        ));
    }
}

fn say_differences(page: &mut Page, result: &Replay) {
    if result.differ == 0 {
        page.say("every result is the trace's");
        return;
    }
    let share = result.differ as f64 / (result.replayed.max(1)) as f64;
    page.say(format!(
        "{} results differ from the trace's ({}); the first:",
        count(result.differ),
        percent(share)
    ));
    page.blank();
    let columns = [
        ("row", Align::Right),
        ("operation", Align::Left),
        ("trace", Align::Left),
        ("target", Align::Left),
        ("name", Align::Left),
    ];
    let mut table = TextTable::new(&columns, page.width());
    for d in &result.differences {
        table.row([
            count(d.row),
            d.kind.clone(),
            outcome(d.expected),
            outcome(d.actual),
            d.name.clone(),
        ]);
    }
    page.table(&table);
    page.blank();
}

fn outcome(raw: i64) -> String {
    let errno = raw
        .checked_neg()
        .and_then(|e| i32::try_from(e).ok())
        .filter(|&e| e > 0);
    match errno.map(Errno) {
        Some(errno) => errno
            .symbol()
            .map_or_else(|| format!("error {}", errno.0), str::to_owned),
        None => raw.to_string(),
    }
}

fn say_skipped(page: &mut Page, result: &Replay) {
    if result.skipped_traced_ns > 0 {
        let replayed: u64 = result.kinds.iter().map(|k| k.traced.total_ns).sum();
        page.say(format!(
            "{} of the {} in the trace's calls are of operations that have none here:",
            duration(result.skipped_traced_ns as f64),
            duration(replayed.saturating_add(result.skipped_traced_ns) as f64),
        ));
    }
    for (why, total) in &result.skipped {
        let mut kinds: Vec<(&str, u64)> = result
            .skipped_kinds
            .iter()
            .filter_map(|(kind, reasons)| Some((kind.as_str(), *reasons.get(why)?)))
            .collect();
        kinds.sort_by_key(|(kind, n)| (std::cmp::Reverse(*n), *kind));
        let list: Vec<String> = kinds
            .iter()
            .map(|(k, n)| format!("{k} {}", count(*n)))
            .collect();
        let what = match why.as_str() {
            "free" => "cost a file system nothing",
            "outside" => "lie outside of what is replayed",
            "not_a_file" => "are of pipes, sockets or devices",
            "unreadable_path" => "have a path that could not be read",
            "unknown_descriptor" => "have a descriptor of which the trace does not tell",
            "program_error" => "failed in the program",
            "failed_then" => "failed in the trace and would not here",
            "impossible" => "cannot have been done by any file system",
            "no_thread" => "had no thread: this machine allows no more of them",
            _ => "have no call on a target",
        };
        page.say(format!("{} {what}: {}", count(*total), list.join(", ")));
    }
}

fn say_verified(page: &mut Page, result: &Replay) {
    let Some(verified) = &result.verified else {
        return;
    };
    if verified.wrong == 0 {
        page.say(format!(
            "verified: {} as the trace leads to{}",
            match verified.names {
                1 => "the only name is".to_owned(),
                names => format!("all {} names are", count(names)),
            },
            match result.changes_untold() {
                0 => String::new(),
                some => format!(
                    ", without what {} changes by descriptors of which it does not tell did",
                    count(some)
                ),
            }
        ));
    } else {
        page.say(format!(
            "verified: {} of {} names are not as the trace leads to; the first:",
            count(verified.wrong),
            count(verified.names)
        ));
        for wrong in &verified.first {
            page.item(format!("{}: {}", wrong.name, wrong.problem));
        }
    }
    let unlike = &verified.not_verified;
    if !unlike.is_empty() {
        let kinds = unlike
            .iter()
            .map(|(kind, n)| format!("{kind} {}", count(*n)));
        page.say(format!(
            "not verified: what {} changed that no target has a call for: {}",
            counted(unlike.values().sum(), "operation"),
            kinds.collect::<Vec<_>>().join(", ")
        ));
    }
}
