//! How files and free space lie.

use fsage_format::result::layout::{
    FreeSpace, Layout, Layouts, NotComparable, Score, UnknownFiles,
};

use crate::page::Page;
use crate::table::{Align, TextTable, bar};
use crate::units::{bytes, count, counted, percent};

/// Columns of a bar.
const BAR: usize = 24;

/// From this share of unknown places on it is said why they are.
const MOSTLY: f64 = 0.5;

/// How the names of snapshots end.
const SNAPSHOT: &str = ".fss";

/// What helps where a snapshot has files that were not yet written when it was taken.
pub(crate) const WRITE_FIRST: &str = "take the snapshot again after `sync`";

/// Targets of which that is said.
const UNKNOWN_SAID: usize = 4;

/// What a terminal shows: all of one, or a line each of several.
pub fn text(found: &Layouts, by_size: bool, width: u16) -> String {
    let mut page = Page::new(width);
    match found.layouts.as_slice() {
        [layout] => one(&mut page, layout, found.against.first()),
        layouts => several(&mut page, layouts, &found.against),
    }
    if let Some(apart) = &found.not_comparable {
        page.blank();
        page.say(caution(apart, found.layouts.len()));
    }
    if let Some(distance) = found.score_rms_distance.filter(|_| found.layouts.len() > 1) {
        page.blank();
        page.say(format!(
            "root mean square of the differences: {distance:.3}"
        ));
    }
    if by_size && let Some(last) = found.layouts.last() {
        page.title(if found.layouts.len() > 1 {
            format!("by size of file, {}:", last.target)
        } else {
            "by size of file:".to_owned()
        });
        let beside = found.against.last();
        page.table(&sizes(
            last,
            beside.filter(|other| last.is_comparable(other)),
            width,
        ));
    }
    for layout in &found.layouts {
        if let Some(free) = &layout.free {
            page.title(free_title(free));
            page.table(&free_table(free, width));
        }
        if let Some(why) = &layout.free_unknown {
            page.blank();
            page.say(format!("free space unknown: failed to {why}"));
        }
    }
    let mut notes: Vec<&String> = found.layouts.iter().flat_map(|l| &l.notes).collect();
    notes.dedup();
    for note in notes {
        page.blank();
        page.say(note);
    }
    page.finish()
}

/// That scores count blocks of different sizes.
fn caution(apart: &NotComparable, targets: usize) -> String {
    let (these, those) = (apart.block_bytes, apart.against_block_bytes);
    let of = if targets > 1 {
        format!(" for {} of {targets} targets", count(apart.pairs))
    } else {
        String::new()
    };
    format!(
        "caution: not comparable{of}: these scores count blocks of {}, those against them blocks of {}; age a target with \
         blocks of one size, as scratch:ext4,size=…,mkfs=-b {these}",
        bytes(these),
        bytes(those),
    )
}

fn score(score: Option<Score>) -> String {
    score.map_or("unknown".to_owned(), |s| format!("{:.3}", s.value()))
}

fn one(page: &mut Page, layout: &Layout, against: Option<&Layout>) {
    let kind = match layout.file_system.as_str() {
        "" => String::new(),
        kind => format!(" ({kind})"),
    };
    page.say(match layout.score {
        Some(found) => format!(
            "{}{kind}: layout score {} ({} of {} blocks lie right behind the one before them)",
            layout.target,
            score(layout.score),
            count(found.optimal_blocks),
            count(found.counted_blocks),
        ),
        None => format!(
            "{}{kind}: layout score unknown: no file of two blocks or more has a known place",
            layout.target
        ),
    });
    if let Some(other) = against {
        page.say(format!("{}: {}", other.target, score(other.score)));
    }
    let placed = if layout.files_placed > 0 {
        format!(
            "{} in {} ({} a file), ",
            count(layout.files_placed),
            counted(layout.extents, "extent"),
            each(layout),
        )
    } else {
        String::new()
    };
    page.say(format!(
        "{}: {placed}{} without a block, {} unknown",
        counted(layout.files, "file"),
        count(layout.files_empty),
        count(layout.unknown.total()),
    ));
    if layout.unknown.total() > 0 {
        page.item(format!("unknown: {}", why(layout)));
    }
    if layout.unreadable > 0 {
        page.item(format!("{} could not be read", count(layout.unreadable)));
    }
    if let Some(split) = &layout.split {
        page.say(format!(
            "split files (inode and first block in different groups): {} of {} ({})",
            count(split.split),
            count(split.files),
            percent(split.split as f64 / split.files.max(1) as f64),
        ));
    }
    // Where a file system could have some.
    if let Some(why) = layout
        .split_unknown
        .as_ref()
        .filter(|_| layout.file_system.starts_with("ext"))
    {
        page.say(format!("split files unknown: {why}"));
    }
    if layout.files_placed > 1 {
        page.blank();
        page.table(&extents(layout, page.width()));
    }
    if !layout.worst.is_empty() {
        page.blank();
        page.table(&worst(layout, page.width()));
    }
}

/// How many extents a file has; nothing is known of those without a place.
fn each(layout: &Layout) -> String {
    match (layout.files_placed, layout.unknown.total()) {
        (0, 0) => "-".to_owned(),
        (0, _) => "unknown".to_owned(),
        (placed, _) => format!("{:.2}", layout.extents as f64 / placed as f64),
    }
}

/// Why places are unknown. What was not written when a snapshot was taken is so in it for ever.
fn why(layout: &Layout) -> String {
    if layout.target.ends_with(SNAPSHOT) {
        unknown(&layout.unknown, WRITE_FIRST)
    } else {
        unknown(&layout.unknown, "--sync writes them out")
    }
}

/// Why so many files have no known place; `help` is what helps those that were not yet written.
pub(crate) fn unknown(files: &UnknownFiles, help: &str) -> String {
    let delayed = format!("not yet written ({help})");
    let reasons = [
        (files.encoded, "compressed or encrypted"),
        (files.inline, "inline or in a part of a block"),
        (files.delayed, delayed.as_str()),
        (files.no_address, "without an address"),
        (
            files.not_told,
            "of which nothing is told (no FIEMAP, no permission, no extents)",
        ),
    ];
    let there = reasons.iter().filter(|(n, _)| *n > 0);
    let said: Vec<String> = there
        .map(|(n, why)| format!("{} {why}", count(*n)))
        .collect();
    said.join(", ")
}

fn extents(layout: &Layout, width: u16) -> TextTable {
    let columns = [
        ("extents", Align::Right),
        ("files", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    let mut above = 0;
    for class in &layout.by_extents {
        let from = (class.up_to / 2 + 1).max(above + 1);
        let share = class.files as f64 / layout.files_placed.max(1) as f64;
        table.row([
            if from == class.up_to {
                count(from)
            } else {
                format!("{} to {}", count(from), count(class.up_to))
            },
            count(class.files),
            percent(share),
            bar(share, BAR),
        ]);
        above = class.up_to;
    }
    table
}

fn worst(layout: &Layout, width: u16) -> TextTable {
    let columns = [
        ("file", Align::Left),
        ("size", Align::Right),
        ("extents", Align::Right),
        ("score", Align::Right),
    ];
    let mut table = TextTable::new(&columns, width);
    for file in &layout.worst {
        table.row([
            file.path.clone(),
            bytes(file.size_bytes),
            count(file.extents),
            score(file.score),
        ]);
    }
    table
}

fn sizes(layout: &Layout, against: Option<&Layout>, width: u16) -> TextTable {
    let mut columns = vec![
        ("up to", Align::Right),
        ("files", Align::Right),
        ("extents", Align::Right),
        ("score", Align::Right),
        ("", Align::Left),
    ];
    if against.is_some() {
        columns.insert(4, ("against", Align::Right));
    }
    let mut table = TextTable::new(&columns, width);
    for class in &layout.by_size {
        let shown = |of: Option<Score>| of.map_or("-".to_owned(), |s| format!("{:.3}", s.value()));
        let mut row = vec![
            bytes(class.up_to_bytes),
            count(class.files),
            count(class.extents),
            shown(class.score),
        ];
        if let Some(other) = against {
            let same = other
                .by_size
                .iter()
                .find(|o| o.up_to_bytes == class.up_to_bytes);
            row.push(shown(same.and_then(|o| o.score)));
        }
        row.push(class.score.map_or(String::new(), |s| bar(s.value(), BAR)));
        table.row(row);
    }
    table
}

fn free_title(free: &FreeSpace) -> String {
    format!(
        "free: {} in {}, the largest {}",
        bytes(free.bytes),
        counted(free.extents, "extent"),
        bytes(free.largest_bytes),
    )
}

fn free_table(free: &FreeSpace, width: u16) -> TextTable {
    let columns = [
        ("free extents from", Align::Right),
        ("extents", Align::Right),
        ("bytes", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    for class in &free.by_size {
        let share = class.bytes as f64 / free.bytes.max(1) as f64;
        table.row([
            bytes(class.from_bytes),
            count(class.extents),
            bytes(class.bytes),
            percent(share),
            bar(share, BAR),
        ]);
    }
    table
}

fn several(page: &mut Page, layouts: &[Layout], against: &[Layout]) {
    let without: Vec<String> = layouts
        .iter()
        .chain(against)
        .filter_map(mostly_unknown)
        .collect();
    for text in without.iter().take(UNKNOWN_SAID) {
        page.say(text);
    }
    if without.len() > UNKNOWN_SAID {
        page.say(format!(
            "and the same of {} more",
            count((without.len() - UNKNOWN_SAID) as u64)
        ));
    }
    page.blank();
    let mut columns = vec![
        ("target", Align::Left),
        ("files", Align::Right),
        ("extents a file", Align::Right),
        ("unknown", Align::Right),
        ("score", Align::Right),
    ];
    let by_day = against.iter().any(|other| other.day.is_some());
    if by_day {
        columns.push(("day", Align::Right));
    }
    if !against.is_empty() {
        columns.extend([("against", Align::Right), ("difference", Align::Right)]);
    }
    let mut table = TextTable::new(&columns, page.width()).dropping(&["unknown", "files"]);
    for (index, layout) in layouts.iter().enumerate() {
        let mut row = vec![
            layout.target.clone(),
            count(layout.files),
            each(layout),
            count(layout.unknown.total()),
            score(layout.score),
        ];
        if let Some(other) = against.get(index) {
            let both = layout.score.zip(other.score);
            let both = both.filter(|_| layout.is_comparable(other));
            if by_day {
                row.push(other.day.map_or("-".to_owned(), count));
            }
            row.push(score(other.score));
            row.push(both.map_or(String::new(), |(a, b)| {
                format!("{:+.3}", b.value() - a.value())
            }));
        }
        table.row(row);
    }
    page.table(&table);
}

/// That a score is that of few of the files, and why. A file without a block has no place that could be known.
fn mostly_unknown(layout: &Layout) -> Option<String> {
    let places = layout.unknown.total();
    let all = places + layout.files_placed;
    (places > 0 && places as f64 >= MOSTLY * all as f64).then(|| {
        format!(
            "{}: where {} of {} with data lie is unknown: {}",
            layout.target,
            count(places),
            counted(all, "file"),
            why(layout)
        )
    })
}

#[cfg(test)]
mod tests {
    use fsage_format::result::layout::SizeClass;

    use super::*;

    #[test]
    fn where_most_places_are_unknown_it_is_said_how_many_and_why() {
        let day = |name: &str, unknown: u64| Layout {
            target: name.into(),
            files: 100,
            files_placed: 90 - unknown,
            files_empty: 10,
            unknown: UnknownFiles {
                delayed: unknown,
                ..UnknownFiles::default()
            },
            ..Layout::default()
        };
        let layouts = vec![day("day-1.fss", 80), day("day-2.fss", 3)];
        let found = Layouts {
            layouts,
            ..Layouts::default()
        };
        for width in [80, 160] {
            let said = text(&found, false, width);
            let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let caution = "day-1.fss: where 80 of 90 files with data lie is unknown: 80 not yet written (take the \
                           snapshot again after `sync`)";
            assert!(words.starts_with(caution), "{said}");
            assert!(!words.contains("day-2.fss: where"), "{said}");
        }
    }

    #[test]
    fn scores_of_blocks_of_two_sizes_are_not_subtracted() {
        let day = |target: &str, block_bytes, optimal| Layout {
            target: target.into(),
            block_bytes,
            day: Some(3),
            score: Score::of(1000, optimal),
            by_size: vec![SizeClass {
                up_to_bytes: 8192,
                score: Score::of(1000, optimal),
                ..SizeClass::default()
            }],
            ..Layout::default()
        };
        let said = |against_bytes: u64, not_comparable| {
            let found = Layouts {
                layouts: vec![day("a.fss", 4096, 964), day("b.fss", 4096, 964)],
                against: vec![day("x", against_bytes, 991), day("x", against_bytes, 991)],
                score_rms_distance: None,
                not_comparable,
            };
            text(&found, true, 200)
        };
        let apart = NotComparable {
            block_bytes: 4096,
            against_block_bytes: 1024,
            pairs: 2,
            reason: String::new(),
        };
        let apart = said(1024, Some(apart));
        let caution = "caution: not comparable for 2 of 2 targets: these scores count blocks of 4 KiB, those against them \
                       blocks of 1 KiB";
        assert!(
            apart.contains(caution) && apart.contains("mkfs=-b 4096"),
            "{apart}"
        );
        assert!(!apart.contains("+0.027"), "{apart}");
        assert_eq!(apart.matches("0.991").count(), 2, "none by size: {apart}");
        // Where one size is not known, as of older results, or both are the same.
        for known in [said(4096, None), said(0, None)] {
            assert!(
                known.contains("+0.027") && !known.contains("caution"),
                "{known}"
            );
        }
    }

    #[test]
    fn what_is_unknown_has_no_number_and_what_is_said_of_it_helps() {
        let of = |target: &str| Layout {
            target: target.into(),
            files: 749,
            unknown: UnknownFiles {
                delayed: 749,
                ..UnknownFiles::default()
            },
            ..Layout::default()
        };
        let said = |layouts: Vec<Layout>| {
            let found = Layouts {
                layouts,
                ..Layouts::default()
            };
            text(&found, false, 160)
        };
        let snapshot = said(vec![of("d1.fss")]);
        assert!(snapshot.contains("749 not yet written (take the snapshot again after `sync`)"));
        assert!(
            !snapshot.contains("--sync") && !snapshot.contains("0.00"),
            "{snapshot}"
        );
        let directory = said(vec![of("d1")]);
        assert!(
            directory.contains("749 not yet written (--sync writes them out)"),
            "{directory}"
        );
        let empty = Layout {
            unknown: UnknownFiles::default(),
            files_empty: 749,
            ..of("empty.fss")
        };
        let several = said(vec![of("d1.fss"), empty]);
        let rows: Vec<&str> = several.lines().filter(|l| l.starts_with(' ')).collect();
        assert!(!several.contains("0.00"), "{several}");
        assert!(rows.iter().any(|l| l.contains("749  unknown")), "{several}");
    }
}
