//! What a tree is like.

use std::collections::HashSet;

use fsage_core::FileType;
use fsage_format::result::layout::UnknownFiles;
use fsage_format::snapshot::{SnapshotEnd, SnapshotEntry, SnapshotMeta, extent_flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout;
use crate::page::{Page, quoted};
use crate::table::{Align, TextTable, bar};
use crate::units::{bytes, count, counted, percent};

/// What `fsage show SNAPSHOT --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownTree {
    /// What the snapshot says about itself.
    pub meta: SnapshotMeta,
    /// What was known at its end; `None` if it has none.
    pub end: Option<SnapshotEnd>,
    /// Bytes after its last whole piece, which could not be read.
    pub bytes_dropped: u64,
    /// Names.
    pub entries: u64,
    /// Regular files; one with several names counts once.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Their sizes summed, bytes.
    pub size_bytes: u64,
    /// Space allocated to them, bytes.
    pub allocated_bytes: u64,
    /// Extents of all files that lie somewhere: runs of blocks that are contiguous on the device, as `fsage layout` counts
    /// them.
    pub extents: u64,
    /// Regular files with data of which it is known where they lie; one with several names counts once.
    pub files_placed: u64,
    /// Those of which it is not, by why.
    pub unknown: UnknownFiles,
    /// Files with blocks, in more than one extent.
    pub files_in_pieces: u64,
    /// Names after the first of regular files that have several.
    pub further_links: u64,
    /// Regular files by size: element 0 counts empty ones, element N sizes from 2^(N-1).
    pub sizes: Vec<u64>,
}

fsage_format::document! {
    ShownTree, "fsage shown snapshot", 1;
}

/// Sums up a tree entry by entry.
#[derive(Debug)]
pub struct SnapshotSummary {
    tree: ShownTree,
    /// Files with several names that came already.
    linked: HashSet<u64>,
}

impl SnapshotSummary {
    /// Nothing yet.
    pub fn new(meta: SnapshotMeta) -> Self {
        let tree = ShownTree {
            meta,
            end: None,
            bytes_dropped: 0,
            entries: 0,
            files: 0,
            directories: 0,
            symlinks: 0,
            size_bytes: 0,
            allocated_bytes: 0,
            extents: 0,
            files_placed: 0,
            unknown: UnknownFiles::default(),
            files_in_pieces: 0,
            further_links: 0,
            sizes: Vec::new(),
        };
        Self {
            tree,
            linked: HashSet::new(),
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &SnapshotEntry) {
        let tree = &mut self.tree;
        tree.entries += 1;
        match entry.file_type {
            FileType::Regular if entry.links > 1 && !self.linked.insert(entry.ino) => {
                tree.further_links += 1;
            }
            FileType::Regular => {
                tree.files += 1;
                tree.size_bytes = tree.size_bytes.saturating_add(entry.size_bytes);
                tree.allocated_bytes = tree.allocated_bytes.saturating_add(entry.allocated_bytes);
                let bucket = (u64::BITS - entry.size_bytes.leading_zeros()) as usize;
                if tree.sizes.len() <= bucket {
                    tree.sizes.resize(bucket + 1, 0);
                }
                tree.sizes[bucket] += 1;
                tree.lies(entry);
            }
            FileType::Directory => tree.directories += 1,
            FileType::Symlink => tree.symlinks += 1,
            FileType::Other => {}
        }
    }

    /// Everything that was added.
    pub fn finish(self, end: Option<SnapshotEnd>, bytes_dropped: u64) -> ShownTree {
        ShownTree {
            end,
            bytes_dropped,
            ..self.tree
        }
    }
}

impl ShownTree {
    /// Where the data of a regular file lie. Names of a file after its first have no extents.
    fn lies(&mut self, entry: &SnapshotEntry) {
        let flags = entry.extents.iter().fold(0, |all, e| all | e.flags);
        let is_told = !entry.extents.is_empty();
        let has_data = entry.allocated_bytes > 0 && entry.size_bytes > 0;
        let unknown = &mut self.unknown;
        let reason = match flags & extent_flags::NO_ADDRESS {
            _ if !is_told && entry.links <= 1 && has_data => &mut unknown.not_told,
            0 => {
                let runs = entry.runs().unwrap_or(0);
                self.files_placed += u64::from(runs > 0);
                self.extents += runs;
                self.files_in_pieces += u64::from(runs > 1);
                return;
            }
            flags if flags & extent_flags::ENCODED != 0 => &mut unknown.encoded,
            flags if flags & extent_flags::NOT_ALIGNED != 0 => &mut unknown.inline,
            flags if flags & extent_flags::DELALLOC != 0 => &mut unknown.delayed,
            _ => &mut unknown.no_address,
        };
        *reason += 1;
    }
}

/// Sizes that the short form tells apart: below this, and what it is called.
const CLASSES: [(u64, &str); 5] = [
    (1, "empty"),
    (4 << 10, "under 4 KiB"),
    (64 << 10, "under 64 KiB"),
    (1 << 20, "under 1 MiB"),
    (64 << 20, "under 64 MiB"),
];

/// What a terminal shows of the snapshot in `file`; with `details` every class of sizes.
pub fn text(shown: &ShownTree, file: &str, details: bool, width: u16) -> String {
    let mut page = Page::new(width);
    page.say(format!(
        "{}: {} ({}, {} allocated), {}, {}",
        of_what(&shown.meta),
        counted(shown.files, "file"),
        bytes(shown.size_bytes),
        bytes(shown.allocated_bytes),
        counted(shown.directories, "directory"),
        counted(shown.symlinks, "symbolic link"),
    ));
    if shown.further_links > 0 {
        page.say(format!(
            "{} of files that count once",
            counted(shown.further_links, "further name")
        ));
    }
    page.say(places(shown));
    match &shown.end {
        None => page.say("INCOMPLETE: the snapshot has no end: this is what is whole of it"),
        Some(end) if end.stopped.is_some() => page
            .say("INCOMPLETE: the snapshot was stopped before its end: this is a part of the tree"),
        Some(end) => {
            if let Some(missing) = missing_from_tree(end.vanished, end.unreadable, end.other_mounts)
            {
                page.say(missing);
            }
        }
    }
    page.blank();
    page.table(&sizes(shown, details, width));
    page.blank();
    let next = "next: fsage predict TRACE --on PROFILE --snapshot";
    page.verbatim(format!("{next} {}", quoted(file)));
    page.finish()
}

/// What of a tree is not in its snapshot; `None` where all of it is.
pub fn missing_from_tree(vanished: u64, unreadable: u64, other_mounts: u64) -> Option<String> {
    let parts = [
        (vanished, format!("{} vanished meanwhile", count(vanished))),
        (
            unreadable,
            format!("{} could not be read", count(unreadable)),
        ),
        (
            other_mounts,
            format!("{} left out", counted(other_mounts, "other mount")),
        ),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let said: Vec<String> = parts.map(|(_, text)| text).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Which tree it is, as far as the snapshot tells.
fn of_what(meta: &SnapshotMeta) -> String {
    let mut text = match meta.root.as_str() {
        "" => "a tree without a name".to_owned(),
        root => root.to_owned(),
    };
    if !meta.file_system.is_empty() {
        text += &format!(" ({})", meta.file_system);
    }
    if !meta.host.is_empty() {
        text += &format!(" on {}", meta.host);
    }
    text
}

/// In how many pieces the files lie, where that is known.
fn places(shown: &ShownTree) -> String {
    let unknown = shown.unknown.total();
    let why = layout::unknown(&shown.unknown, layout::WRITE_FIRST);
    if shown.files_placed == 0 && unknown > 0 {
        return format!(
            "where {} with data lie is unknown: {why}",
            counted(unknown, "file")
        );
    }
    let (of, among) = match unknown {
        0 => (shown.files, "all files"),
        _ => (shown.files_placed, "those whose place is known"),
    };
    let mut text = format!(
        "{}; {} in more than one ({} of {among})",
        counted(shown.extents, "extent"),
        counted(shown.files_in_pieces, "file"),
        percent(shown.files_in_pieces as f64 / of.max(1) as f64),
    );
    if unknown > 0 {
        text += &format!("; places unknown: {why}");
    }
    text
}

fn sizes(shown: &ShownTree, details: bool, width: u16) -> TextTable {
    let columns = [
        ("file size", Align::Right),
        ("files", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    let rows = if details {
        by_power(&shown.sizes)
    } else {
        by_class(&shown.sizes)
    };
    for (title, files) in rows {
        let share = files as f64 / shown.files.max(1) as f64;
        table.row([title, count(files), percent(share), bar(share, 30)]);
    }
    table
}

fn by_power(sizes: &[u64]) -> Vec<(String, u64)> {
    let title = |bucket: usize| match bucket {
        0 => "empty".to_owned(),
        bucket => format!("{} and more", bytes(1u64 << (bucket - 1).min(63))),
    };
    let numbered = sizes.iter().enumerate();
    numbered.map(|(b, &files)| (title(b), files)).collect()
}

/// Bucket N begins at 2^(N-1), and the classes end at powers of two.
fn by_class(sizes: &[u64]) -> Vec<(String, u64)> {
    let low = |bucket: usize| {
        if bucket == 0 {
            0
        } else {
            1u64 << (bucket - 1).min(63)
        }
    };
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut begin = 0;
    for (end, title) in CLASSES {
        let its = sizes.iter().enumerate();
        let its = its.filter(|&(b, _)| (begin..end).contains(&low(b)));
        rows.push((title.to_owned(), its.map(|(_, n)| n).sum()));
        begin = end;
    }
    let large = sizes.iter().enumerate().filter(|&(b, _)| low(b) >= begin);
    rows.push(("64 MiB and more".to_owned(), large.map(|(_, n)| n).sum()));
    rows
}

#[cfg(test)]
mod tests {
    use fsage_format::snapshot::Extent;

    use super::*;

    fn file(ino: u64, flags: &[u32]) -> SnapshotEntry {
        let extent = |(at, &flags): (usize, &u32)| Extent {
            logical_bytes: at as u64 * 4096,
            physical_bytes: (ino + 2 * at as u64) * 4096,
            length_bytes: 4096,
            flags,
        };
        SnapshotEntry {
            extents: flags.iter().enumerate().map(extent).collect(),
            ..SnapshotEntry::of(
                vec![b'f'],
                ino,
                FileType::Regular,
                4096 * flags.len() as u64,
            )
        }
    }

    #[test]
    fn what_has_no_place_is_in_no_piece() {
        let delayed = extent_flags::UNKNOWN | extent_flags::DELALLOC;
        let said = |files: &[SnapshotEntry]| {
            let mut summary = SnapshotSummary::new(SnapshotMeta::default());
            for file in files {
                summary.add(file);
            }
            let shown = summary.finish(None, 0);
            let text = text(&shown, "a.fss", false, 200);
            (shown, text.lines().nth(1).unwrap_or_default().to_owned())
        };
        let (shown, line) = said(&[file(1, &[delayed]), file(2, &[delayed])]);
        assert_eq!(
            (shown.extents, shown.files_placed, shown.unknown.delayed),
            (0, 0, 2)
        );
        let after = "2 not yet written (take the snapshot again after `sync`)";
        assert_eq!(
            line,
            format!("where 2 files with data lie is unknown: {after}")
        );
        let (_, line) = said(&[file(1, &[0, 0]), file(2, &[0]), file(3, &[delayed])]);
        let known = "3 extents; 1 file in more than one (50.0 % of those whose place is known)";
        assert!(
            line.starts_with(known) && line.contains("1 not yet written"),
            "{line}"
        );
        let (_, line) = said(&[file(1, &[0, 0]), file(2, &[])]);
        assert_eq!(
            line,
            "2 extents; 1 file in more than one (50.0 % of all files)"
        );
    }

    #[test]
    fn parts_that_lie_side_by_side_and_what_lies_behind_the_end_are_no_more_extents() {
        let mut told = file(1, &[0, 0, 0]);
        // The second part goes on where the first ends; the third is behind the file's end.
        told.extents[1].physical_bytes = told.extents[0].physical_bytes + 4096;
        told.size_bytes = 2 * 4096;
        let mut summary = SnapshotSummary::new(SnapshotMeta::default());
        summary.add(&told);
        let shown = summary.finish(None, 0);
        assert_eq!(
            (shown.extents, shown.files_placed, shown.files_in_pieces),
            (1, 1, 0)
        );
    }

    #[test]
    fn what_a_snapshot_does_not_tell_is_not_shown_as_if_it_did() {
        let said = |root: &str, kind: &str, host: &str| {
            of_what(&SnapshotMeta {
                root: root.into(),
                file_system: kind.into(),
                host: host.into(),
                ..SnapshotMeta::default()
            })
        };
        assert_eq!(said("", "", ""), "a tree without a name");
        assert_eq!(said("/home", "ext4", "h"), "/home (ext4) on h");
        assert_eq!(said("/home", "", "h"), "/home on h");
    }

    #[test]
    fn classes_hold_every_file_once() {
        let sizes: Vec<u64> = (0..65).collect();
        for rows in [by_class(&sizes), by_power(&sizes)] {
            assert_eq!(rows.iter().map(|r| r.1).sum::<u64>(), (0..65).sum::<u64>());
        }
        let rows = by_class(&[7, 1, 0, 2]);
        assert_eq!(rows[0], ("empty".to_owned(), 7));
        assert_eq!(rows[1], ("under 4 KiB".to_owned(), 3));
        // A file of exactly 4 KiB, in the bucket that begins there, is not under it.
        let mut sizes = vec![0; 14];
        sizes[13] = 1;
        let rows = by_class(&sizes);
        assert_eq!(rows[1].1, 0);
        assert_eq!(rows[2], ("under 64 KiB".to_owned(), 1));
    }
}
