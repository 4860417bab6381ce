//! A run of a workload as tables.

use fsage_format::result::layout::Layout;
use fsage_format::result::run::{CommandRun, PhaseRun, Unexpected, WorkloadRun};

use crate::environment::VIRTUAL;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units;

/// Mismatches that are told one by one; the rest is in the JSON.
const TOLD: usize = 5;

/// The times of more streams than this are left to the JSON.
const SHOWN_STREAMS: usize = 32;

/// Everything that a terminal shows of a run.
pub fn text(run: &WorkloadRun, width: u16) -> String {
    let mut page = Page::new(width);
    if let Some((first, more)) = run.marks.split_first() {
        let more = match more.len() {
            0 => String::new(),
            n => format!("; {n} more with --json"),
        };
        page.say(format!("caution: the run was disturbed ({first}{more})"));
    }
    page.say(finding(run));
    let file_system = run.environment.target.file_system.as_deref();
    let file_system = file_system.map_or(String::new(), |kind| format!(" ({kind})"));
    page.say(format!(
        "{} on {}{file_system}{}",
        run.workload,
        run.target,
        length(run)
    ));
    if run.environment.is_virtual() {
        page.say(VIRTUAL);
    }
    for phase in &run.phases {
        page.blank();
        say_phase(&mut page, phase);
    }
    if let Some(command) = &run.command {
        page.blank();
        say_command(&mut page, command);
    }
    for warning in &run.warnings {
        page.blank();
        page.say(format!("warning: {warning}"));
    }
    if run.interrupted {
        page.blank();
        page.say("interrupted: these are not all of the workload's operations");
    }
    page.finish()
}

/// What the run took, phase by phase.
fn finding(run: &WorkloadRun) -> String {
    let name = run.workload.split(':').next().unwrap_or_default();
    let took = |elapsed_ns: u64| units::duration(elapsed_ns as f64);
    let phases = run.phases.iter();
    let mut parts: Vec<String> = phases
        .map(|phase| format!("{} {}", phase.name, took(phase.elapsed_ns)))
        .collect();
    parts.extend(run.command.iter().map(|command| took(command.elapsed_ns)));
    if parts.is_empty() {
        parts.push("ended before anything of it was run".to_owned());
    }
    format!("{name} on {}: {}", run.target, parts.join(", "))
}

fn length(run: &WorkloadRun) -> String {
    let time = run
        .run_for_ns
        .map(|ns| format!(", run for {}", units::duration(ns as f64)));
    let count = run
        .operations_per_stream
        .map(|n| format!(", {} operations of each stream", units::count(n)));
    time.or(count).unwrap_or_default()
}

fn say_phase(page: &mut Page, phase: &PhaseRun) {
    let streams = match phase.streams.len() {
        1 => String::new(),
        n => format!(", {n} streams at once"),
    };
    let cold = phase.cold.as_ref();
    let cold = cold.map_or(String::new(), |c| format!(", cold by {c}"));
    page.say(format!("{}: {}{streams}{cold}", phase.role, phase.name));
    let mut line = format!(
        "{} in {}: {} operations/s",
        units::counted(phase.operations, "operation"),
        units::duration(phase.elapsed_ns as f64),
        units::metric(phase.operations_per_s, "operations/s"),
    );
    for (verb, bytes) in [("read", phase.bytes_read), ("written", phase.bytes_written)] {
        if bytes > 0 {
            line.push_str(&format!(
                ", {} {verb} ({}/s)",
                units::bytes(bytes),
                units::bytes(per_second(bytes, phase.elapsed_ns))
            ));
        }
    }
    page.say(line);
    if let Some(layout) = &phase.layout {
        page.say(lie(layout));
    }
    if phase.operations > 0 {
        page.table(&kinds(phase, page.width()));
    }
    say_streams(page, phase);
    page.say(harness(phase));
    say_mismatches(page, phase);
}

/// How files lay.
fn lie(layout: &Layout) -> String {
    let score = layout.score.map(|score| format!("{:.3}", score.value()));
    let split = layout
        .split
        .map(|split| format!(", {} split", units::count(split.split)));
    format!(
        "layout score {}: {} in {}{}, {} unknown",
        score.as_deref().unwrap_or("-"),
        units::counted(layout.files_placed, "file"),
        units::counted(layout.extents, "extent"),
        split.unwrap_or_default(),
        units::count(layout.unknown.total())
    )
}

fn per_second(count: u64, elapsed_ns: u64) -> u64 {
    if elapsed_ns == 0 {
        return 0;
    }
    (count as f64 * 1e9 / elapsed_ns as f64) as u64
}

fn kinds(phase: &PhaseRun, width: u16) -> TextTable {
    let columns = [
        ("operation", Align::Left),
        ("count", Align::Right),
        ("share", Align::Right),
        ("mean", Align::Right),
        ("median", Align::Right),
        ("99 %", Align::Right),
        ("longest", Align::Right),
        ("errors", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    let mut kinds: Vec<_> = phase.kinds.iter().collect();
    kinds.sort_by_key(|k| std::cmp::Reverse(k.latency_total_ns));
    for kind in kinds {
        let total = phase.latency_total_ns.max(1) as f64;
        let errors: Vec<String> = kind
            .errors
            .iter()
            .map(|(symbol, count)| format!("{} {symbol}", units::count(*count)))
            .collect();
        table.row([
            kind.kind.clone(),
            units::count(kind.count),
            units::percent(kind.latency_total_ns as f64 / total),
            units::duration(kind.mean_ns),
            units::duration(kind.p50_ns as f64),
            units::duration(kind.p99_ns as f64),
            units::duration(kind.max_ns as f64),
            errors.join(", "),
        ]);
    }
    table
}

/// When each of several streams was done: how fairly they were served.
fn say_streams(page: &mut Page, phase: &PhaseRun) {
    if phase.streams.len() < 2 || phase.streams.len() > SHOWN_STREAMS {
        return;
    }
    let times = phase.streams.iter();
    let times = times.map(|s| units::duration(s.elapsed_ns as f64));
    let times = times.collect::<Vec<_>>().join(", ");
    page.say(format!("streams ended after {times}"));
}

/// Where the time went that no operation took.
fn harness(phase: &PhaseRun) -> String {
    let all = phase.elapsed_ns as f64 * phase.streams.len().max(1) as f64;
    let mut out = format!(
        "in operations {} of {} stream time, processor {}",
        units::percent(if all > 0.0 {
            phase.latency_total_ns as f64 / all
        } else {
            0.0
        }),
        units::duration(all),
        units::duration(phase.cpu_ns as f64),
    );
    if phase.cpu_ns as f64 > all {
        out.push_str(" (reading that took some of it)");
    }
    if let Some(delay_ns) = phase.run_delay_ns {
        let delay = units::duration(delay_ns as f64);
        out.push_str(&format!(", waiting for a processor {delay}"));
    }
    let skipped: u64 = phase.skipped.values().sum();
    if skipped > 0 {
        out.push_str(&format!(
            "; {} operations have no call here ({})",
            units::count(skipped),
            phase.skipped.keys().cloned().collect::<Vec<_>>().join(", ")
        ));
    }
    out
}

fn say_mismatches(page: &mut Page, phase: &PhaseRun) {
    if phase.unexpected == 0 {
        return;
    }
    page.say(format!(
        "{} did not end as the workload expected, the first:",
        units::counted(phase.unexpected, "operation")
    ));
    for mismatch in phase.mismatches.iter().take(TOLD) {
        page.item(unexpected(mismatch));
    }
}

/// One operation that did not end as expected, as a sentence.
pub fn unexpected(m: &Unexpected) -> String {
    format!(
        "{} (operation {} of stream {})",
        m.in_words(),
        units::count(m.index),
        m.stream
    )
}

fn say_command(page: &mut Page, command: &CommandRun) {
    let time = |ns: u64| units::duration(ns as f64);
    let end = match (command.exit_status, command.exit_signal) {
        (Some(status), _) => format!("exit status {status}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "no exit status".to_string(),
    };
    page.say(format!(
        "{} elapsed, {} user, {} system, {end}",
        time(command.elapsed_ns),
        time(command.user_ns),
        time(command.system_ns),
    ));
    let resident = command
        .max_resident_bytes
        .map_or_else(String::new, |bytes| {
            format!(", {} at most resident", units::bytes(bytes))
        });
    page.say(format!(
        "{} read from and {} written to devices{resident}",
        units::bytes(command.device_read_bytes),
        units::bytes(command.device_written_bytes),
    ));
    page.say(format!(
        "{} page faults with I/O, {} without; {} voluntary and {} involuntary context switches",
        units::count(command.major_faults),
        units::count(command.minor_faults),
        units::count(command.voluntary_switches),
        units::count(command.involuntary_switches),
    ));
}
