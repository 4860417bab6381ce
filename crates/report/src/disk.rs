//! Disk models, and what an emulated disk has served.

use fsage_format::result::disk::{DiskList, DiskStatistics, DiskSummary};

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{bytes, count};

/// What serving it in real time adds: nothing beside an arm, but much beside flash.
const SSD_PATH: &str = "served here, loop device and FUSE add 20 to 100 us to each request and carry about \
                        2 GB/s: slower than its figures";

/// All models, one a line.
pub fn list(list: &DiskList, width: u16) -> String {
    let columns = [
        ("model", Align::Left),
        ("random 4 KiB", Align::Right),
        ("sequential", Align::Right),
        ("what it is", Align::Prose),
    ];
    let mut table = TextTable::new(&columns, width);
    for model in &list.models {
        table.row([
            model.name.clone(),
            milliseconds(model.random_read_ms),
            rates(model),
            model.description.clone(),
        ]);
    }
    table.render()
}

/// One model: what it amounts to, its figures as they stand in its file, with their sources. That file can be
/// copied: long lines of it stay where they would have to be broken.
pub fn model(model: &DiskSummary, text: &str, width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!("{}: {}", model.name, model.description));
    page.say(format!(
        "{} of the real disk; a random read of 4 KiB takes {}; {} in sequence",
        bytes(model.capacity_bytes),
        milliseconds(model.random_read_ms),
        rates(model),
    ));
    if model.kind == "ssd" {
        page.say(SSD_PATH);
    }
    page.blank();
    for line in text.lines() {
        page.verbatim(line);
    }
    page.finish()
}

/// What a disk has served, in three lines.
pub fn statistics(found: &DiskStatistics) -> String {
    let requests = |name: &str, r: &fsage_format::result::disk::DiskRequests| {
        format!("{} {name} ({})", count(r.requests), bytes(r.bytes))
    };
    let late = &found.lateness;
    format!(
        "{}, {}, {} flushes; at most {} at once\n\
         later than the model: p50 {:.1} us, p99 {:.1} us, at most {:.1} us ({} requests)\n",
        requests("reads", &found.reads),
        requests("writes", &found.writes),
        count(found.flushes.requests),
        count(found.deepest_queue),
        late.p50_us,
        late.p99_us,
        late.max_us,
        count(late.requests),
    )
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.3} ms")
}

fn rates(model: &DiskSummary) -> String {
    let (start, end) = (model.start_mb_s, model.end_mb_s);
    if (start - end).abs() < 0.5 {
        format!("{start:.0} MB/s")
    } else {
        format!("{start:.0} to {end:.0} MB/s")
    }
}
