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
    if let Some(others) = days_not_shown(result) {
        page.say(others);
    }
    page.finish()
}

/// Whether the table has that one of so many days.
fn is_shown(index: usize, days: usize) -> bool {
    let last = days.saturating_sub(1);
    let step = last.div_ceil(MOST_DAYS).max(1);
    index.is_multiple_of(step) || index == last
}

/// How many days the table leaves out, and what of all must not be missed; `None` where it has all.
fn days_not_shown(result: &AgedRun) -> Option<String> {
    let all = result.days.len();
    let of = |shown: bool| {
        let days = result.days.iter().enumerate();
        days.filter(move |(index, _)| is_shown(*index, all) == shown)
    };
    let hidden = of(false).count();
    if hidden == 0 {
        return None;
    }
    let full = |shown| of(shown).map(|(_, day)| day.no_space).sum::<u64>();
    let (there, not_there) = (full(true), full(false));
    let mut text = format!(
        "{} of {} with operations are not shown (--json has all)",
        count(hidden as u64),
        counted(all as u64, "day"),
    );
    if there + not_there > 0 {
        text += &format!(
            "; {} met a full disk in all, {} of them on days not shown",
            counted(there + not_there, "operation"),
            count(not_there),
        );
    }
    Some(text)
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
    for (index, day) in result.days.iter().enumerate() {
        if !is_shown(index, result.days.len()) {
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

#[cfg(test)]
mod tests {
    use fsage_format::result::aged::AgedDay;

    use super::*;

    #[test]
    fn days_that_are_not_shown_are_counted_with_what_met_a_full_disk_on_them() {
        let run = |days: u64| AgedRun {
            days: (0..days)
                .map(|day| AgedDay {
                    day,
                    no_space: 10 + day % 2,
                    ..AgedDay::default()
                })
                .collect(),
            ..AgedRun::default()
        };
        let words = |run: &AgedRun| {
            let text = text(run, false, 200);
            (text.lines().count(), text.replace('\n', " "))
        };
        let (_, all) = words(&run(13));
        assert!(!all.contains("not shown"), "{all}");
        // Every other one of 15.
        let (lines, some) = words(&run(15));
        assert!(
            some.contains(
                "7 of 15 days with operations are not shown (--json has all); 157 operations met a full disk in all, 77 of \
                 them on days not shown"
            ),
            "{some}"
        );
        assert!(lines <= 24, "{some}");
        let mut none = run(15);
        none.days.iter_mut().for_each(|day| day.no_space = 0);
        let (_, none) = words(&none);
        assert!(
            none.contains("not shown") && !none.contains("met a full"),
            "{none}"
        );
    }
}
