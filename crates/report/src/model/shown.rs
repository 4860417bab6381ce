//! What a model does and what to do with it.

use fsage_format::result::model::ShownModel;

use crate::page::{Page, quoted};
use crate::table::{Align, TextTable};
use crate::units::{bytes, count, counted, duration, percent};

/// Kinds of operations in the short form.
const KINDS: usize = 9;

/// What a terminal shows of a model: what it does; with `details` every kind and every phase.
pub fn shown(model: &ShownModel, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    let file = model.file.display().to_string();
    let total: u64 = model.counts.iter().map(|c| c.operations).sum();
    let longer = if model.is_longer { "more than " } else { "" };
    let span = model
        .span_ns
        .map_or(String::new(), |ns| format!(" in {}", duration(ns as f64)));
    let is_fsm = model.kind == "fsm";
    page.say(format!(
        "{file}: {}; {longer}{}{span}",
        if is_fsm {
            "a model of a workload"
        } else {
            "a FileRunner configuration"
        },
        counted(total, "operation"),
    ));
    page.say(if is_fsm {
        format!(
            "{}, {} in {} ({} at once), {} of files, {} of visits",
            counted(model.phases, "phase"),
            counted(model.processes, "process"),
            counted(model.groups, "group"),
            count(model.at_once),
            counted(model.file_classes, "class"),
            counted(model.visits, "kind"),
        )
    } else {
        format!(
            "{}, {} ({} at once)",
            counted(model.phases, "time chunk"),
            counted(model.processes, "process"),
            count(model.at_once),
        )
    });
    page.say(format!(
        "{} made beforehand, {} made by it; {} read, {} written",
        counted(model.files_before, "file"),
        count(model.files_later),
        bytes(model.bytes_read),
        bytes(model.bytes_written),
    ));
    if model.left_out > 0 {
        let left = counted(model.left_out, "operation");
        page.say(format!("not in it: {left} of the trace"));
    }
    if !model.counts.is_empty() {
        page.blank();
        page.table(&kinds(model, total, details, width));
    }
    if details && !model.by_phase.is_empty() {
        page.title(if is_fsm { "phases" } else { "time chunks" });
        page.table(&phases(model, width));
    }
    page.blank();
    let workload = if is_fsm { "model" } else { "filerunner" };
    let spec = quoted(&format!("{workload}:{file}"));
    page.verbatim(format!("next: fsage run {spec} scratch:ext4"));
    page.verbatim(format!(
        "      fsage predict --workload {spec} --on there.fsp"
    ));
    if !details {
        page.verbatim(format!("more: fsage show {} --details", quoted(&file)));
    }
    page.finish()
}

fn kinds(model: &ShownModel, total: u64, details: bool, width: u16) -> TextTable {
    let columns = [
        ("operation", Align::Left),
        ("count", Align::Right),
        ("share", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    let share = |n: u64| percent(n as f64 / total.max(1) as f64);
    let all = model.counts.len();
    let most = if details || all == KINDS + 1 {
        all
    } else {
        KINDS
    };
    for of in model.counts.iter().take(most) {
        table.row([of.kind.clone(), count(of.operations), share(of.operations)]);
    }
    let rest = model.counts.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = rest.iter().map(|c| c.operations).sum();
        table.row([format!("{} others", rest.len()), count(sum), share(sum)]);
    }
    table
}

fn phases(model: &ShownModel, width: u16) -> TextTable {
    let is_fsm = model.kind == "fsm";
    let columns = [
        ("number", Align::Right),
        ("from", Align::Right),
        (if is_fsm { "groups" } else { "processes" }, Align::Right),
        (if is_fsm { "lines" } else { "definitions" }, Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for (number, phase) in (1..).zip(&model.by_phase) {
        let from = phase.start_ns;
        table.row([
            count(number),
            from.map_or(String::new(), |ns| duration(ns as f64)),
            count(phase.parts),
            count(phase.lines),
        ]);
    }
    let left = model.phases.saturating_sub(model.by_phase.len() as u64);
    if left > 0 {
        table.row([format!("{} more", count(left))]);
    }
    table
}
