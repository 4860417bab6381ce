//! What a model knows of a trace; and whether two traces are of the same workload.

use fsage_format::result::character::{
    CacheHits, Characterised, GroupStats, KindCount, Likeness, PhaseStats, Verdict,
};
use fsage_format::result::characterization::SizeBucket;

use crate::characterization::{program_of, sparkline};
use crate::page::{Page, quoted};
use crate::table::{Align, TextTable, elided};
use crate::units::{bytes, count, counted, duration, percent, significant};

/// Rows of each table in the short form.
const ROWS: usize = 3;
const MARKS: usize = 60;
/// A name in the short form keeps to a part of a line.
const NAME_MOST: usize = 20;
const HOT_MOST: usize = 18;

/// What a terminal shows of one trace: the answer, phases and groups; with `details` everything else.
pub fn text(found: &Characterised, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    head(&mut page, found);
    page.blank();
    let rows = if details { usize::MAX } else { ROWS };
    page.table(&phases(found, rows, page.width()));
    page.blank();
    page.table(&groups(found, rows, page.width()));
    page.blank();
    for (name, values) in [
        ("operations", &found.timeline.operations),
        ("working set", &found.timeline.working_set_bytes),
    ] {
        page.verbatim(format!("{name:<12}{}", sparkline(values, MARKS)));
    }
    if details {
        all(&mut page, found);
    } else {
        let file = quoted(&found.trace.display().to_string());
        page.verbatim(format!("more: fsage show {file} --characterise --details"));
    }
    page.finish()
}

fn head(page: &mut Page, found: &Characterised) {
    let all = &found.found;
    let processes: u64 = found.groups.iter().map(|g| g.processes).sum();
    let file = found.trace.file_name().unwrap_or_default();
    page.say(format!(
        "{}: {} on files in {}, {}, {} in {}",
        elided(&file.to_string_lossy(), NAME_MOST),
        counted(found.operations_on_files, "operation"),
        duration(all.span_ns as f64),
        counted(found.phases.len() as u64, "phase"),
        counted(processes, "process"),
        counted(found.groups.len() as u64, "group"),
    ));
    page.say(format!(
        "{} read in {}, {} of them sequential; {} written in {}, {} sequential",
        bytes(all.bytes_read),
        typical(&all.read_sizes),
        share(all.reads.sequential_percent),
        bytes(all.bytes_written),
        typical(&all.write_sizes),
        share(all.writes.sequential_percent),
    ));
    page.say(format!(
        "{} of {} are touched; {}",
        bytes(found.reuse.footprint_bytes),
        counted(found.popularity.files, "file"),
        caches(&found.reuse.hits)
    ));
    let tenth = found.popularity.shares.iter();
    let tenth = tenth
        .filter(|s| (s.files_percent - 10.0).abs() < 1e-9)
        .map(|s| {
            format!(
                "a tenth of the files has {} of the operations",
                percent(s.operations_percent / 100.0)
            )
        });
    let hot = all.files_hottest.first();
    let hot = hot.map(|f| {
        let last = f.path.rsplit('/').next().unwrap_or_default();
        format!("most time: {}", elided(last, HOT_MOST))
    });
    let said: Vec<String> = tenth.chain(hot).collect();
    if !said.is_empty() {
        page.say(said.join("; "));
    }
    let under_way = &found.concurrency.others_under_way;
    let beside: u64 = under_way.iter().skip(1).sum();
    page.say(format!(
        "at most {} at once; {} of the operations began beside others",
        counted(found.concurrency.threads_at_once, "thread"),
        percent(beside as f64 / under_way.iter().sum::<u64>().max(1) as f64),
    ));
}

/// Where half of the requests are at most so large.
fn typical(sizes: &[SizeBucket]) -> String {
    let all: u64 = sizes.iter().map(|s| s.count).sum();
    let mut below = 0;
    let median = sizes.iter().find(|s| {
        below += s.count;
        2 * below >= all
    });
    match median.filter(|_| all > 0) {
        Some(s) if s.low_bytes == s.high_bytes => counted(all, "request"),
        Some(s) => format!(
            "{} (median ≥ {})",
            counted(all, "request"),
            bytes(s.low_bytes)
        ),
        None => "no request".into(),
    }
}

fn share(percent: Option<f64>) -> String {
    percent.map_or("unknown".into(), |p| format!("{p:.1} %"))
}

/// A few sizes: a sixteenth, a quarter and all of what is touched.
fn caches(hits: &[CacheHits]) -> String {
    let last = hits.len();
    let mut at: Vec<usize> = [5, 3, 1]
        .iter()
        .filter_map(|back| last.checked_sub(*back))
        .collect();
    at.dedup();
    let shown: Vec<String> = at
        .iter()
        .filter_map(|&i| hits.get(i))
        .zip([" has", "", ""])
        .map(|(h, has)| {
            format!(
                "of {}{has} {}",
                bytes(h.cache_bytes),
                percent(h.hit_percent / 100.0)
            )
        })
        .collect();
    if shown.is_empty() {
        "no page is read or written".into()
    } else {
        format!("of page accesses a cache {}", shown.join(", "))
    }
}

/// The most frequent kinds with their shares.
fn mix(kinds: &[KindCount], most: usize) -> String {
    let all: u64 = kinds.iter().map(|k| k.operations).sum();
    let shown = kinds.iter().take(most).map(|k| {
        let percent = 100.0 * k.operations as f64 / all.max(1) as f64;
        format!("{} {percent:.0} %", k.kind.name())
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The sum of what has no row of its own.
fn rest(kinds: impl Iterator<Item = KindCount>) -> Vec<KindCount> {
    let mut all: Vec<KindCount> = Vec::new();
    for kind in kinds {
        match all.iter_mut().find(|k| k.kind == kind.kind) {
            Some(known) => known.operations += kind.operations,
            None => all.push(kind),
        }
    }
    all.sort_by_key(|k| std::cmp::Reverse(k.operations));
    all
}

/// So many rows, the last for all that are left if there are more.
fn split<T>(all: &[T], rows: usize) -> (&[T], &[T]) {
    let most = if all.len() > rows { rows - 1 } else { rows };
    all.split_at(most.min(all.len()))
}

fn phases(found: &Characterised, rows: usize, width: u16) -> TextTable {
    let columns = [
        ("phase", Align::Right),
        ("for", Align::Right),
        ("operations", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("mix", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    let (shown, left) = split(&found.phases, rows);
    let mut row = |at: String, of: &PhaseStats| {
        table.row([
            at,
            duration(of.span_ns as f64),
            count(of.operations),
            bytes(of.bytes_read),
            bytes(of.bytes_written),
            mix(&of.kinds, 2),
        ]);
    };
    for phase in shown {
        row(duration(phase.start_ns as f64), phase);
    }
    if !left.is_empty() {
        let sum = |of: fn(&PhaseStats) -> u64| left.iter().map(of).sum::<u64>();
        let others = PhaseStats {
            start_ns: 0,
            span_ns: sum(|p| p.span_ns),
            operations: sum(|p| p.operations),
            bytes_read: sum(|p| p.bytes_read),
            bytes_written: sum(|p| p.bytes_written),
            kinds: rest(left.iter().flat_map(|p| p.kinds.iter().copied())),
        };
        row(format!("{} others", left.len()), &others);
    }
    table
}

fn groups(found: &Characterised, rows: usize, width: u16) -> TextTable {
    let columns = [
        ("group", Align::Left),
        ("processes", Align::Right),
        ("at once", Align::Right),
        ("operations", Align::Right),
        ("mix", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width).dropping(&["at once"]);
    let (shown, left) = split(&found.groups, rows);
    let all = found.operations_on_files.max(1) as f64;
    let mut row = |name: String, of: &GroupStats, at_once: String| {
        table.row([
            name,
            count(of.processes),
            at_once,
            percent(of.operations as f64 / all),
            mix(&of.kinds, 2),
        ]);
    };
    for group in shown {
        row(name(found, group), group, count(group.at_once));
    }
    if !left.is_empty() {
        let sum = |of: fn(&GroupStats) -> u64| left.iter().map(of).sum::<u64>();
        let others = GroupStats {
            processes: sum(|g| g.processes),
            at_once: 0,
            pids: Vec::new(),
            operations: sum(|g| g.operations),
            bytes_read: sum(|g| g.bytes_read),
            bytes_written: sum(|g| g.bytes_written),
            latency_total_ns: sum(|g| g.latency_total_ns),
            kinds: rest(left.iter().flat_map(|g| g.kinds.iter().copied())),
        };
        row(format!("{} others", left.len()), &others, String::new());
    }
    table
}

/// What its processes are called: their programs, the numbers of those that have none.
fn name(found: &Characterised, group: &GroupStats) -> String {
    let mut names: Vec<String> = Vec::new();
    for pid in &group.pids {
        let name = program_of(&found.found.processes, *pid);
        let name = name.map_or_else(|| pid.to_string(), str::to_owned);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(2);
    names.truncate(2);
    match more {
        0 => names.join(", "),
        _ => format!("{}, …", names.join(", ")),
    }
}

/// Everything else.
fn all(page: &mut Page, found: &Characterised) {
    let width = page.width();
    page.title("hits of caches that go by the last use and are empty at first");
    let columns = [("cache", Align::Right), ("hits", Align::Right)];
    let mut table = TextTable::new(&columns, width);
    for hit in &found.reuse.hits {
        table.row([bytes(hit.cache_bytes), percent(hit.hit_percent / 100.0)]);
    }
    page.table(&table);
    if found.reuse.sampled_percent < 100.0 {
        page.say(format!(
            "from {} % of the pages, chosen by a hash",
            significant(found.reuse.sampled_percent)
        ));
    }
    page.title("the most used files");
    let columns = [("of the files", Align::Right), ("operations", Align::Right)];
    let mut table = TextTable::new(&columns, width);
    for of in &found.popularity.shares {
        table.row([
            format!("{} %", significant(of.files_percent)),
            percent(of.operations_percent / 100.0),
        ]);
    }
    page.table(&table);
    page.title("operations by how many others were under way");
    let columns = [("others", Align::Right), ("operations", Align::Right)];
    let mut table = TextTable::new(&columns, width);
    for (others, operations) in found.concurrency.others_under_way.iter().enumerate() {
        if *operations > 0 {
            table.row([others.to_string(), count(*operations)]);
        }
    }
    page.table(&table);
    over_time(page, found);
    page.blank();
    page.append(&crate::characterization::details(&found.found, width));
}

fn over_time(page: &mut Page, found: &Characterised) {
    page.title(format!(
        "over time, {} a row",
        duration(found.timeline.piece_ns as f64)
    ));
    let columns = [
        ("at", Align::Right),
        ("operations", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("working set", Align::Right),
        ("touched", Align::Right),
        ("threads", Align::Right),
    ];
    let mut table = TextTable::new(&columns, page.width());
    let of = &found.timeline;
    let at = |series: &[u64], i: usize| series.get(i).copied().unwrap_or(0);
    for i in 0..of.operations.len() {
        table.row([
            duration(of.piece_ns as f64 * i as f64),
            count(at(&of.operations, i)),
            bytes(at(&of.bytes_read, i)),
            bytes(at(&of.bytes_written, i)),
            bytes(at(&of.working_set_bytes, i)),
            bytes(at(&of.footprint_bytes, i)),
            count(at(&of.threads, i)),
        ]);
    }
    page.table(&table);
}

/// What a terminal shows of two traces: whether they are the same workload, and by what.
pub fn against(found: &Likeness, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    let reference = &found.reference;
    let worst = found
        .measures
        .iter()
        .filter(|m| m.distance.is_some())
        .max_by(|a, b| {
            a.distance
                .unwrap_or(0.0)
                .total_cmp(&b.distance.unwrap_or(0.0))
        });
    page.say(format!(
        "{}: distance {:.3}, by {} {:.3}",
        match found.verdict {
            Verdict::Same => "the same workload",
            Verdict::Alike => "alike, the same workload or one of its kind",
            Verdict::Different => "different workloads",
        },
        found.distance,
        worst.map_or("nothing", |m| m.name.as_str()),
        found.distance_worst,
    ));
    page.say(format!(
        "two seeds of one workload: at most {} and {}; different workloads: from {} on",
        reference.seeds_distance, reference.seeds_distance_worst, reference.others_distance
    ));
    let by_time = worst.is_some_and(|m| matches!(m.name.as_str(), "phases" | "concurrency"));
    if found.verdict == Verdict::Alike && by_time {
        page.say(
            "phases and concurrency differ from run to run of one program, too, where its processes go on side by side",
        );
    }
    page.blank();
    page.table(&side_by_side(found, page.width()));
    page.blank();
    let columns = [
        ("measure", Align::Left),
        ("distance", Align::Right),
        ("which is", Align::Prose),
    ];
    let mut table = TextTable::new(&columns, page.width());
    for measure in &found.measures {
        table.row([
            measure.name.clone(),
            measure
                .distance
                .map_or("none".into(), |d| format!("{d:.3}")),
            measure.what.clone(),
        ]);
    }
    page.table(&table);
    for measure in &found.measures {
        if let Some(trace) = &measure.not_told_by {
            page.blank();
            page.say(format!(
                "{} counts for nothing: {} does not tell it",
                measure.name,
                trace.display()
            ));
        }
    }
    if details {
        for of in [&found.a, &found.b] {
            page.title(of.trace.display().to_string());
            page.append(&text(of, true, width));
        }
    }
    page.finish()
}

/// What tells how long it went on and how large it was, and counts for nothing.
fn side_by_side(found: &Likeness, width: u16) -> TextTable {
    let columns = [
        ("trace", Align::Left),
        ("operations", Align::Right),
        ("in", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("touched", Align::Right),
        ("files", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for of in [&found.a, &found.b] {
        let all = &of.found;
        table.row([
            of.trace.display().to_string(),
            count(of.operations_on_files),
            duration(all.span_ns as f64),
            bytes(all.bytes_read),
            bytes(all.bytes_written),
            bytes(of.reuse.footprint_bytes),
            count(of.popularity.files),
        ]);
    }
    table
}
