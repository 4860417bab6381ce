//! What became of a target that was aged.

use fsage_format::image::ImageHead;
use fsage_format::result::aged::AgedRun;

use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units::{bytes, count, counted, duration, percent};

/// What an image of a file system says of itself, all of which was held against its checksums; `contents` are its
/// pieces and the bytes of data in them.
pub fn image(head: &ImageHead, contents: (u32, u64), width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "image of {} of {}, kept from {} under kernel {}",
        head.file_system,
        bytes(head.size_bytes),
        head.target,
        head.kernel
    ));
    match &head.aged {
        Some(aged) => page.say(format!("aged: {}", aged.in_words())),
        None => page.say("nothing tells how it was aged"),
    }
    page.say(format!(
        "whole: {} of data in {}, each as its checksum says",
        bytes(contents.1),
        counted(u64::from(contents.0), "piece"),
    ));
    if !head.mkfs_options.is_empty() {
        page.say(format!("mkfs {} ({})", head.mkfs_options, head.mkfs));
    }
    page.finish()
}

/// Days that are shown: the first, the last and some between.
const MOST_DAYS: usize = 12;

/// How far it came, how fast, and what the target was like at the ends of days; `was_temporary` says whether the target
/// went with the run.
pub fn text(result: &AgedRun, was_temporary: bool, width: u16) -> String {
    let mut page = Page::new(width);
    let tally = &result.tally;
    let end = result.days.last();
    page.say(format!(
        "{} {} {} of {}: {} full, layout score {}",
        result.target,
        if result.interrupted {
            "was aged by the first"
        } else {
            "was aged by"
        },
        counted(result.simulated_days(), "day"),
        result.workload,
        percent(end.map_or(0.0, |day| day.utilisation)),
        score(result.layout_score),
    ));
    page.say(format!(
        "{} operations in {}: {} made and {} removed ({} a second), {} {}",
        count(tally.operations),
        duration(result.elapsed_ns as f64),
        count(tally.created),
        count(tally.removed),
        count(result.changes_per_second.round() as u64),
        bytes(tally.written_bytes),
        if result.fast {
            "allocated, no data written"
        } else {
            "written"
        },
    ));
    if result.interrupted {
        page.say(if was_temporary {
            "stopped before the workload's end, and its file system went with it: begin anew"
        } else {
            "stopped before the workload's end; --resume goes on where a result was asked for (-o)"
        });
    }
    page.blank();
    page.table(&days(result, page.width()));
    page.finish()
}

/// The first and the last of the days, and some between.
fn days(result: &AgedRun, width: u16) -> TextTable {
    let columns = [
        ("day", Align::Right),
        ("operations", Align::Right),
        ("full", Align::Right),
        ("available", Align::Right),
        ("inodes", Align::Right),
        ("score", Align::Right),
        ("disk full", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    let step = result
        .days
        .len()
        .saturating_sub(1)
        .div_ceil(MOST_DAYS)
        .max(1);
    let last = result.days.len().saturating_sub(1);
    for (index, day) in result.days.iter().enumerate() {
        if index % step != 0 && index != last {
            continue;
        }
        table.row([
            count(day.day),
            count(day.operations),
            percent(day.utilisation),
            bytes(day.available_bytes),
            if day.files == 0 {
                "-".to_owned()
            } else {
                count(day.files)
            },
            score(day.layout_score),
            count(day.no_space),
        ]);
    }
    table
}

fn score(score: Option<f64>) -> String {
    score.map_or("-".to_owned(), |score| format!("{score:.3}"))
}
