//! What a replay gave.

use fsage_core::Errno;
use fsage_format::result::replay::{Replay, ReplayDifference};

use crate::table::{Align, TextTable};
use crate::units::{bytes, count, duration, percent, signed_percent};

/// Everything that a terminal shows of a replay.
pub fn text(result: &Replay, width: u16) -> String {
    let mut out = format!(
        "{} operations, {} replayed on {} ({} speed, {} order, {} threads at most), seed {}\n",
        count(result.operations),
        count(result.replayed),
        result.target,
        result.speed,
        result.order,
        count(result.threads),
        result.seed,
    );
    for mapping in &result.mapped {
        let to = if mapping.to.is_empty() {
            "."
        } else {
            &mapping.to
        };
        out.push_str(&format!("{} lies in {to}\n", mapping.from));
    }
    let built = &result.built;
    out.push_str(&format!(
        "made before: {} files with {}, {} further names, {} directories, {} symbolic links\n",
        count(built.files),
        bytes(built.bytes),
        count(built.links),
        count(built.directories),
        count(built.symlinks),
    ));
    match &result.made_cold {
        Some(how) => out.push_str(&format!("caches: {} ({how})\n", result.caches)),
        None if result.caches.is_empty() => {}
        None => out.push_str(&format!(
            "caches: {}, as making that tree left them\n",
            result.caches
        )),
    }
    out.push('\n');
    out.push_str(&kinds(result, width));
    out.push('\n');
    out.push_str(&timing(result));
    out.push_str(&differences(result, width));
    out.push_str(&skipped(result));
    out.push_str(&verified(result));
    if let Some(kept) = &result.kept {
        out.push_str(&format!("kept in {kept}\n"));
    }
    if result.interrupted {
        out.push_str("interrupted: what follows in the trace was not replayed\n");
    }
    for warning in &result.warnings {
        out.push_str(&format!("warning: {warning}\n"));
    }
    out
}

fn kinds(result: &Replay, width: u16) -> String {
    let columns = [
        ("operation", Align::Left),
        ("count", Align::Right),
        ("differ", Align::Right),
        ("p50 then", Align::Right),
        ("p50 now", Align::Right),
        ("p99 now", Align::Right),
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
    table.render()
}

fn timing(result: &Replay) -> String {
    let timing = &result.timing;
    let took = duration(timing.replayed_elapsed_ns as f64);
    let traced = duration(timing.traced_elapsed_ns as f64);
    let mut out = match (timing.due_elapsed_ns, timing.ratio) {
        (Some(due), Some(ratio)) => format!(
            "took {took}, due in {} ({}); {traced} in the trace\n",
            duration(due as f64),
            signed_percent(ratio - 1.0),
        ),
        (_, Some(ratio)) => format!("took {took}; {traced} in the trace (x{ratio:.3})\n"),
        (_, None) => format!("took {took}\n"),
    };
    if let Some(error) = &timing.start_error {
        out.push_str(&format!(
            "operations started off their time by {} (median), {} (99 %), {} (most)\n",
            duration(error.p50_ns as f64),
            duration(error.p99_ns as f64),
            duration(error.max_ns as f64),
        ));
    }
    out
}

fn differences(result: &Replay, width: u16) -> String {
    if result.differ == 0 {
        return "every result is the trace's\n".into();
    }
    let share = result.differ as f64 / (result.replayed.max(1)) as f64;
    let mut out = format!(
        "{} results differ from the trace's ({}); the first:\n\n",
        count(result.differ),
        percent(share)
    );
    let columns = [
        ("row", Align::Right),
        ("operation", Align::Left),
        ("trace", Align::Left),
        ("target", Align::Left),
        ("name", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    for d in &result.differences {
        table.row([
            count(d.row),
            d.kind.clone(),
            outcome(d.expected),
            outcome(d.actual),
            name(d),
        ]);
    }
    out.push_str(&table.render());
    out.push('\n');
    out
}

/// Control characters of a stranger's name do not reach the terminal.
fn name(difference: &ReplayDifference) -> String {
    shown(&difference.name)
}

fn shown(name: &str) -> String {
    name.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default().collect());
            escaped.unwrap_or_else(|| vec![c])
        })
        .collect()
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

fn skipped(result: &Replay) -> String {
    let mut out = String::new();
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
            "impossible" => "cannot have been done by any file system",
            "no_thread" => "had no thread: this machine allows no more of them",
            _ => "have no call on a target",
        };
        out.push_str(&format!("{} {what}: {}\n", count(*total), list.join(", ")));
    }
    out
}

fn verified(result: &Replay) -> String {
    let Some(verified) = &result.verified else {
        return String::new();
    };
    if verified.wrong == 0 {
        return format!(
            "verified: all {} names are as the trace leads to\n",
            count(verified.names)
        );
    }
    let mut out = format!(
        "verified: {} of {} names are not as the trace leads to; the first:\n",
        count(verified.wrong),
        count(verified.names)
    );
    for wrong in &verified.first {
        out.push_str(&format!("  {}: {}\n", shown(&wrong.name), wrong.problem));
    }
    out
}
