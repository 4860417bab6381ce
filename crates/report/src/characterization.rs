//! What a trace is like.

use std::collections::BTreeMap;

use fsage_format::result::aging::{AGING_ENTRY, AgingKind, Made};
use fsage_format::result::characterization::{
    Characterization, NameStats, PageCache, ProcessStats, SizeBucket,
};
use fsage_format::trace::{Loss, TraceEnd, TraceMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::page::{Page, quoted};
use crate::table::{Align, TextTable, bar, elided};
use crate::units::{bytes, count, counted, duration, percent};

/// What `fsage show TRACE --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownTrace {
    /// What the trace says about itself.
    pub meta: TraceMeta,
    /// What was known at its end; `None` if it has none.
    pub end: Option<TraceEnd>,
    /// What it lacks.
    pub loss: Loss,
    /// What its operations are like.
    #[serde(flatten)]
    pub found: Characterization,
}

fsage_format::document! {
    ShownTrace, "fsage shown trace", 2;
}

/// Rows of each kind, by how much there is to say before them; what is left is a row of its own.
const ROWS: [[usize; 4]; 3] = [[3, 3, 2, 2], [2, 2, 2, 1], [2, 2, 1, 1]];

/// Lines of the short form: those of a usual terminal.
const SCREEN: usize = 24;

/// A name in the short form keeps to one line.
const NAME_MOST: usize = 32;

/// What a terminal shows of the trace in `file`: the finding, where the time goes, what to do next; with `details`
/// everything else.
pub fn text(shown: &ShownTrace, file: &str, details: bool, width: u16) -> String {
    let page = |rows| {
        let mut page = Page::new(width);
        head(&mut page, shown);
        page.blank();
        page.table(&where_it_goes(shown, rows, width));
        if details {
            all(&mut page, shown, width);
        }
        page.blank();
        next(&mut page, shown, file, details);
        page.finish()
    };
    let [most, less, least] = ROWS;
    let on_screen = |text: &String| details || text.lines().count() <= SCREEN;
    let shorter = [most, less].into_iter().map(page).find(on_screen);
    shorter.unwrap_or_else(|| page(least))
}

fn head(page: &mut Page, shown: &ShownTrace) {
    let (meta, found) = (&shown.meta, &shown.found);
    let what = match (meta.command.is_empty(), meta.method.as_str()) {
        (false, _) => elided(&meta.command.join(" "), NAME_MOST).into_owned(),
        (true, "") => "operations".into(),
        (true, method) => format!("{method} trace"),
    };
    let lost = if shown.loss.is_none() {
        "none lost".into()
    } else {
        format!("INCOMPLETE: {}", shown.loss)
    };
    page.say(format!(
        "{what}: {} in {}, {} failed, {lost}",
        counted(found.operations, "operation"),
        duration(found.span_ns as f64),
        count(found.errors),
    ));
    if let Some(made) = aging(meta) {
        page.say(aged(&made));
    }
    if found.latency_total_ns > 0 {
        let most: Vec<String> = found
            .kinds
            .iter()
            .take(2)
            .filter(|k| k.latency_percent >= 0.05)
            .map(|k| {
                format!(
                    "{} of it {}",
                    percent(k.latency_percent / 100.0),
                    k.kind.name()
                )
            })
            .collect();
        page.say(format!(
            "{} in the file system ({}); {}",
            duration(found.latency_total_ns as f64),
            most.join(", "),
            number_of_processes(found),
        ));
    }
    if let Some(pauses) = &found.pauses {
        let time = |ns: u64| duration(ns as f64);
        page.say(format!(
            "between operations threads worked for {}, waited for each other for {}, for timers and others \
             for {}, for processors for {}",
            time(pauses.worked_ns),
            time(pauses.waited_ns),
            time(pauses.asleep_ns),
            time(pauses.ready_ns),
        ));
    }
    let cached = found
        .page_cache
        .map_or(String::new(), |cache| pages(&cache));
    let least = if found.distinct_capped {
        "at least "
    } else {
        ""
    };
    page.say(format!(
        "{} read{cached}, {} written; {least}{}, {}",
        bytes(found.bytes_read),
        bytes(found.bytes_written),
        counted(found.distinct_files, "file"),
        counted(found.distinct_directories, "directory"),
    ));
}

/// Those beyond a limit are not told apart.
fn number_of_processes(found: &Characterization) -> String {
    let least = match found.processes_other_operations {
        0 => "",
        _ => "at least ",
    };
    format!(
        "{least}{}",
        counted(found.processes.len() as u64, "process")
    )
}

/// How an aging workload was made; none for any other trace.
fn aging(meta: &TraceMeta) -> Option<Made> {
    serde_json::from_str(meta.extra.get(AGING_ENTRY)?).ok()
}

fn aged(made: &Made) -> String {
    let source = match made.kind {
        AgingKind::Profile => format!("profile {}", made.source),
        AgingKind::Snapshots => format!("snapshots of {}", made.source),
        AgingKind::Git => format!("git history of {}", made.source),
        AgingKind::Model => format!("model {}", made.source),
    };
    format!(
        "an aging workload of {} for a file system of {}: {source}, {} in these operations",
        counted(made.days.into(), "simulated day"),
        bytes(made.size_bytes),
        counted(made.operations, "change"),
    )
}

/// What the page cache had: what was read ahead came from the device before it was asked for.
fn pages(cache: &PageCache) -> String {
    match cache.pages_ahead {
        0 => format!(" ({:.1} % of the pages cached)", cache.hit_percent),
        ahead => format!(
            " ({} of {} pages missed, {} more read ahead)",
            count(cache.pages_missed),
            count(cache.pages_requested),
            count(ahead)
        ),
    }
}

/// A row of the short table: what, operations, time.
type Row = (String, u64, u64);

/// By kind, process, directory and file: the first of each, and the rest as a row, so that each adds up.
fn where_it_goes(shown: &ShownTrace, most_rows: [usize; 4], width: u16) -> TextTable {
    let found = &shown.found;
    let timed = found.latency_total_ns > 0;
    let mut columns = vec![
        ("by", Align::Left),
        ("where the time goes", Align::Left),
        ("operations", Align::Right),
    ];
    if timed {
        columns.push(("time", Align::Right));
        columns.push(("of time", Align::Right));
    } else {
        columns.push(("of operations", Align::Right));
    }
    let mut table = TextTable::new(&columns, width);
    let of_name = |n: &NameStats| (n.path.clone(), n.operations, n.latency_total_ns);
    let kinds = found
        .kinds
        .iter()
        .map(|k| (k.kind.name().to_owned(), k.count, k.latency_total_ns));
    let mut processes: Vec<Row> = named(shown)
        .into_iter()
        .map(|(name, p)| (name, p.operations, p.latency_total_ns))
        .collect();
    processes.sort_by_key(|p| std::cmp::Reverse((p.2, p.1)));
    let parts: [(&str, Vec<Row>); 4] = [
        ("operation", kinds.collect()),
        ("process", processes),
        (
            "directory",
            found.directories_hottest.iter().map(of_name).collect(),
        ),
        ("file", found.files_hottest.iter().map(of_name).collect()),
    ];
    for ((title, rows), most) in parts.into_iter().zip(most_rows) {
        let (mut operations, mut time) = (found.operations, found.latency_total_ns);
        let rest = rows.len().saturating_sub(most);
        // One row for one thing that is left says no more than the thing itself.
        let most = if rest == 1 { most + 1 } else { most };
        let mut put = |by: &str, (name, n, ns): Row| {
            let (part, whole) = if timed {
                (ns, found.latency_total_ns)
            } else {
                (n, found.operations)
            };
            let share = percent(part as f64 / whole.max(1) as f64);
            let mut row = vec![by.to_owned(), name, count(n)];
            row.extend(timed.then(|| duration(ns as f64)));
            row.push(share);
            table.row(row);
        };
        let none = rows.is_empty();
        for (index, row) in rows.into_iter().take(most).enumerate() {
            operations = operations.saturating_sub(row.1);
            time = time.saturating_sub(row.2);
            put(if index == 0 { title } else { "" }, row);
        }
        if operations > 0 {
            put(
                if none { title } else { "" },
                ("all others".into(), operations, time),
            );
        }
    }
    table
}

/// Processes with what they are called: their program, or that of the process that began them.
fn named(shown: &ShownTrace) -> Vec<(String, &ProcessStats)> {
    let found = &shown.found;
    let empty = BTreeMap::new();
    let programs = shown.end.as_ref().map_or(&empty, |end| &end.programs);
    let own: BTreeMap<u32, &str> = found
        .processes
        .iter()
        .filter_map(|p| Some((p.pid, p.name.as_deref()?)))
        .chain(programs.iter().map(|(pid, name)| (*pid, name.as_str())))
        .collect();
    let parents: BTreeMap<u32, u32> = found
        .processes
        .iter()
        .filter_map(|p| Some((p.pid, p.parent_pid?)))
        .collect();
    // Where calls outside of some directories were left out, a child's program may be unknown.
    let inherits = shown.meta.under.is_empty() || !programs.is_empty();
    let several = found.shared_numbers();
    let name = |process: &ProcessStats| {
        let pid = process.pid;
        if let Some(name) = &process.name {
            return format!("{name} ({pid})");
        }
        let mut at = pid;
        let mut parent = process.parent_pid;
        for _ in 0..64 {
            // What is known of a number alone may be another process's.
            let is_its = at != pid || !several.contains(&pid);
            if let Some(name) = own.get(&at).filter(|_| is_its) {
                return format!("{name} ({pid})");
            }
            let Some(next) = parent.filter(|_| inherits) else {
                break;
            };
            (at, parent) = (next, parents.get(&next).copied());
        }
        pid.to_string()
    };
    found.processes.iter().map(|p| (name(p), p)).collect()
}

/// The program of a process, or of the process that began it.
pub(crate) fn program_of(processes: &[ProcessStats], pid: u32) -> Option<&str> {
    let mut at = pid;
    for _ in 0..64 {
        let process = processes.iter().find(|p| p.pid == at)?;
        if let Some(name) = &process.name {
            return Some(name);
        }
        at = process.parent_pid?;
    }
    None
}

/// Below this size mkfs gives ext4 blocks of 1 KiB, from it on of 4 KiB.
const SMALL_EXT4_BYTES: u64 = 512 << 20;

/// A target in which an aging workload is sure to have room: inodes and journal take some, root keeps a twentieth. Its
/// blocks are of the size of those that the workload repeats, where ext4 can have them: layout scores of others cannot be
/// compared.
pub fn target_for(made: &Made) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let needed = (made.peak_bytes as f64 / 0.82) as u64 + 8 * MIB;
    let bytes = made.size_bytes.max(needed);
    // Of a large one nobody counts the last megabytes.
    let size = if bytes >= 16 * GIB {
        format!("{}G", bytes.div_ceil(GIB))
    } else {
        format!("{}M", bytes.div_ceil(MIB))
    };
    let usual = if bytes < SMALL_EXT4_BYTES { 1024 } else { 4096 };
    let blocks = made.source_block_bytes.filter(|&b| b != usual);
    match blocks.filter(|b| [1024, 2048, 4096].contains(b)) {
        Some(blocks) => quoted(&format!("scratch:ext4,size={size},mkfs=-b {blocks}")),
        None => format!("scratch:ext4,size={size}"),
    }
}

/// What one would do with it.
fn next(page: &mut Page, shown: &ShownTrace, file: &str, details: bool) {
    let word = quoted(file);
    if let Some(made) = aging(&shown.meta) {
        let target = target_for(&made);
        page.verbatim(format!(
            "next: fsage age apply {word} {target} --keep aged.fsi"
        ));
    } else if shown.loss.is_none() {
        page.verbatim("next: fsage profile DIR --quick -o there.fsp");
        page.verbatim(format!("      fsage predict {word} --on there.fsp"));
    }
    if !details {
        page.verbatim(format!("more: fsage show {word} --details, or --ops"));
    }
}

/// Everything else.
fn all(page: &mut Page, shown: &ShownTrace, width: u16) {
    let (meta, found) = (&shown.meta, &shown.found);
    if !meta.command.is_empty() {
        page.title(format!("command: {}", meta.command.join(" ")));
    }
    if !meta.host.is_empty() {
        page.say(format!(
            "kernel {}, captured by {}",
            meta.kernel, meta.method
        ));
    }
    page.append(&details(found, width));
    if found.processes.len() > 1 {
        page.title("processes, most operations first");
        page.append(&processes(shown, width));
    }
}

/// What is told of the operations themselves: mix, sizes, places, names.
pub(crate) fn details(found: &Characterization, width: u16) -> String {
    let page = &mut Page::new(width);
    page.title("by kind of operation; times are of single operations");
    page.append(&mix(found, width));
    page.title("sizes of reads, writes and files");
    page.append(&sizes(found, width));
    page.blank();
    locality(page, found);
    over_time(page, found);
    for (title, names) in [
        ("directories", &found.directories_hottest),
        ("files", &found.files_hottest),
    ] {
        if !names.is_empty() {
            page.title(format!("{title} with most time"));
            page.append(&hottest(names, found, width));
        }
    }
    std::mem::replace(page, Page::new(width)).finish()
}

fn hottest(names: &[NameStats], found: &Characterization, width: u16) -> String {
    let columns = [
        ("name", Align::Left),
        ("operations", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("time", Align::Right),
        ("share", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width).dropping(&["read", "written"]);
    for name in names {
        table.row([
            name.path.clone(),
            count(name.operations),
            bytes(name.bytes_read),
            bytes(name.bytes_written),
            duration(name.latency_total_ns as f64),
            percent(name.latency_total_ns as f64 / found.latency_total_ns.max(1) as f64),
        ]);
    }
    table.render()
}

fn mix(found: &Characterization, width: u16) -> String {
    let mut table = TextTable::new(
        &[
            ("operation", Align::Left),
            ("count", Align::Right),
            ("failed", Align::Right),
            ("time", Align::Right),
            ("share", Align::Right),
            ("p50", Align::Right),
            ("p90", Align::Right),
            ("p99", Align::Right),
            ("max", Align::Right),
        ],
        width,
    )
    .dropping(&["p90", "failed", "max"]);
    let time = |ns: Option<u64>| ns.map_or(String::new(), |ns| duration(ns as f64));
    for kind in &found.kinds {
        table.row([
            kind.kind.name().to_string(),
            count(kind.count),
            count(kind.errors),
            duration(kind.latency_total_ns as f64),
            format!("{:.1} %", kind.latency_percent),
            time(kind.latency_p50_ns),
            time(kind.latency_p90_ns),
            time(kind.latency_p99_ns),
            time(kind.latency_max_ns),
        ]);
    }
    table.render()
}

fn sizes(found: &Characterization, width: u16) -> String {
    let columns = [&found.read_sizes, &found.write_sizes, &found.file_sizes];
    let mut lows: Vec<(u64, u64)> = columns
        .iter()
        .flat_map(|c| c.iter().map(|b| (b.low_bytes, b.high_bytes)))
        .collect();
    lows.sort_unstable();
    lows.dedup();
    let lows = without_gaps(&lows);
    let mut table = TextTable::new(
        &[
            ("size", Align::Right),
            ("reads", Align::Right),
            ("writes", Align::Right),
            ("files", Align::Right),
            ("", Align::Left),
        ],
        width,
    );
    let in_bucket =
        |c: &[SizeBucket], low| c.iter().find(|b| b.low_bytes == low).map_or(0, |b| b.count);
    let most = lows
        .iter()
        .map(|&(low, _)| columns.iter().map(|c| in_bucket(c, low)).sum::<u64>())
        .max()
        .unwrap_or(1)
        .max(1);
    for (low, high) in lows {
        let counts = columns.map(|c| in_bucket(c, low));
        let all: u64 = counts.iter().sum();
        table.row([
            if low == high {
                bytes(low)
            } else {
                format!("{} and more", bytes(low))
            },
            count(counts[0]),
            count(counts[1]),
            count(counts[2]),
            bar(all as f64 / most as f64, 20),
        ]);
    }
    table.render()
}

/// Powers of two in a row, those between that hold nothing too.
fn without_gaps(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(64);
    for &(low, high) in ranges {
        while let Some(&(_, before)) = all.last()
            && before + 1 < low
        {
            all.push((before + 1, before.saturating_mul(2).saturating_add(1)));
        }
        all.push((low, high));
    }
    all
}

fn locality(page: &mut Page, found: &Characterization) {
    let share = |percent: Option<f64>| percent.map_or("unknown".into(), |p| format!("{p:.1} %"));
    page.say(format!(
        "sequential: {} of reads, {} of writes",
        share(found.reads.sequential_percent),
        share(found.writes.sequential_percent)
    ));
    match &found.page_cache {
        Some(cache) => page.say(format!(
            "page cache as captured: {:.1} % of {} requested pages hit, {} read ahead",
            cache.hit_percent,
            count(cache.pages_requested),
            count(cache.pages_ahead)
        )),
        None => page.say("page cache as captured: unknown"),
    }
}

fn over_time(page: &mut Page, found: &Characterization) {
    let series = &found.over_time;
    if series.open_files_max.is_empty() {
        return;
    }
    let each = per_mark(series.open_files_max.len(), MARKS);
    page.say(format!(
        "open files: at most {}; over time, a mark for every {}:",
        count(found.open_files_max),
        duration(series.piece_ns as f64 * each as f64)
    ));
    page.item(sparkline(&series.open_files_max, MARKS));
}

/// Marks in a line of bars.
const MARKS: usize = 60;

/// How many of so many pieces one of at most `width` marks stands for.
fn per_mark(pieces: usize, width: usize) -> usize {
    pieces.div_ceil(width).max(1)
}

/// A line of bars, one for each of at most `width` equal pieces (the highest value of each).
pub(crate) fn sparkline(values: &[u64], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    values
        .chunks(per_mark(values.len(), width))
        .map(|piece| {
            let value = piece.iter().copied().max().unwrap_or(0);
            BARS[(value * 7 / most).min(7) as usize]
        })
        .collect()
}

fn processes(shown: &ShownTrace, width: u16) -> String {
    const MOST: usize = 40;
    let columns = [
        ("process", Align::Left),
        ("operations", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("time", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    let all = named(shown);
    for (name, process) in all.iter().take(MOST) {
        table.row([
            name.clone(),
            count(process.operations),
            bytes(process.bytes_read),
            bytes(process.bytes_written),
            duration(process.latency_total_ns as f64),
        ]);
    }
    if all.len() > MOST {
        let rest = all.iter().skip(MOST).map(|(_, p)| p);
        let sum = |of: fn(&ProcessStats) -> u64| rest.clone().map(|p| of(p)).sum::<u64>();
        table.row([
            format!("{} others", count((all.len() - MOST) as u64)),
            count(sum(|p| p.operations)),
            bytes(sum(|p| p.bytes_read)),
            bytes(sum(|p| p.bytes_written)),
            duration(sum(|p| p.latency_total_ns) as f64),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use fsage_format::result::aging::Made;

    use super::{PageCache, pages, per_mark, sparkline, target_for, without_gaps};

    #[test]
    fn a_target_has_blocks_of_the_size_of_those_that_the_workload_repeats() {
        let of = |mib: u64, source_block_bytes| {
            target_for(&Made {
                size_bytes: mib << 20,
                source_block_bytes,
                ..Made::default()
            })
        };
        // mkfs gives small ones 1 KiB.
        assert_eq!(of(64, Some(4096)), "'scratch:ext4,size=64M,mkfs=-b 4096'");
        assert_eq!(of(700, Some(1024)), "'scratch:ext4,size=700M,mkfs=-b 1024'");
        assert_eq!(of(700, Some(4096)), "scratch:ext4,size=700M");
        assert_eq!(of(64, Some(1024)), "scratch:ext4,size=64M");
        // Neither known nor what ext4 can have.
        assert_eq!(of(64, None), "scratch:ext4,size=64M");
        assert_eq!(of(64, Some(8192)), "scratch:ext4,size=64M");
    }

    #[test]
    fn what_was_read_ahead_was_not_cached() {
        let read = |ahead| {
            pages(&PageCache {
                pages_requested: 32_768,
                pages_missed: 32,
                pages_ahead: ahead,
                hit_percent: 99.9,
            })
        };
        assert_eq!(
            read(16_352),
            " (32 of 32,768 pages missed, 16,352 more read ahead)"
        );
        assert_eq!(read(0), " (99.9 % of the pages cached)");
    }

    #[test]
    fn sizes_stand_in_a_row() {
        let row = without_gaps(&[(0, 0), (1, 1), (4, 7), (32, 63)]);
        let lows: Vec<u64> = row.iter().map(|r| r.0).collect();
        assert_eq!(lows, [0, 1, 2, 4, 8, 16, 32]);
        assert!(row.windows(2).all(|two| two[0].1 + 1 == two[1].0));
        let top = [(1 << 62, (1 << 63) - 1), (1 << 63, u64::MAX)];
        assert_eq!(without_gaps(&top), top);
    }

    #[test]
    fn a_mark_says_how_long_it_is() {
        assert_eq!(per_mark(490, 60), 9);
        assert_eq!(sparkline(&[1; 490], 60).chars().count(), 55);
        assert_eq!(per_mark(0, 60), 1);
    }

    #[test]
    fn sparklines_keep_their_highest_value() {
        assert_eq!(sparkline(&[0, 7], 10), "▁█");
        assert_eq!(sparkline(&[1; 100], 10).chars().count(), 10);
        assert_eq!(sparkline(&[], 10), "");
    }
}
