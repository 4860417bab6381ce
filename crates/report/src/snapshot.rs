//! What a tree is like.

use fsage_core::FileType;
use fsage_format::snapshot::{SnapshotEnd, SnapshotEntry, SnapshotMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Align, TextTable, bar};
use crate::units::{bytes, count};

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
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Sizes of regular files summed, bytes; a file with several names counts once for each.
    pub size_bytes: u64,
    /// Space allocated to them, bytes.
    pub allocated_bytes: u64,
    /// Extents of all files.
    pub extents: u64,
    /// Files with blocks, in more than one extent.
    pub files_in_pieces: u64,
    /// Regular files by size: element 0 counts empty ones, element N sizes from 2^(N-1).
    pub sizes: Vec<u64>,
}

fsage_format::document! {
    ShownTree, "fsage shown snapshot", 1;
}

/// Sums up a tree entry by entry.
#[derive(Debug)]
pub struct Tree(ShownTree);

impl Tree {
    /// Nothing yet.
    pub fn new(meta: SnapshotMeta) -> Self {
        Self(ShownTree {
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
            files_in_pieces: 0,
            sizes: Vec::new(),
        })
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: &SnapshotEntry) {
        let tree = &mut self.0;
        tree.entries += 1;
        match entry.file_type {
            FileType::Regular => {
                tree.files += 1;
                tree.size_bytes = tree.size_bytes.saturating_add(entry.size_bytes);
                tree.allocated_bytes = tree.allocated_bytes.saturating_add(entry.allocated_bytes);
                let bucket = (u64::BITS - entry.size_bytes.leading_zeros()) as usize;
                if tree.sizes.len() <= bucket {
                    tree.sizes.resize(bucket + 1, 0);
                }
                tree.sizes[bucket] += 1;
            }
            FileType::Directory => tree.directories += 1,
            FileType::Symlink => tree.symlinks += 1,
            FileType::Other => {}
        }
        tree.extents += entry.extents.len() as u64;
        tree.files_in_pieces += u64::from(entry.extents.len() > 1);
    }

    /// Everything that was added.
    pub fn finish(self, end: Option<SnapshotEnd>, bytes_dropped: u64) -> ShownTree {
        ShownTree {
            end,
            bytes_dropped,
            ..self.0
        }
    }
}

/// Everything that a terminal shows of a snapshot.
pub fn text(shown: &ShownTree, width: u16) -> String {
    let mut out = format!(
        "{} ({}) on {}\n{} files ({}, {} allocated), {} directories, {} symbolic links\n\
         {} extents; {} files in more than one\n",
        shown.meta.root,
        shown.meta.file_system,
        shown.meta.host,
        count(shown.files),
        bytes(shown.size_bytes),
        bytes(shown.allocated_bytes),
        count(shown.directories),
        count(shown.symlinks),
        count(shown.extents),
        count(shown.files_in_pieces),
    );
    match &shown.end {
        None => out.push_str("the snapshot has no end: what follows is what is whole of it\n"),
        Some(end) if end.stopped.is_some() => {
            out.push_str(
                "the snapshot was stopped before its end: what follows is a part of the tree\n",
            );
        }
        Some(end) if end.vanished + end.unreadable + end.other_mounts > 0 => {
            out.push_str(&format!(
                "{} vanished meanwhile, {} could not be read, {} other mounts left out\n",
                end.vanished, end.unreadable, end.other_mounts
            ));
        }
        Some(_) => {}
    }
    let most = shown.sizes.iter().copied().max().unwrap_or(1).max(1);
    let mut table = TextTable::new(
        &[
            ("file size", Align::Right),
            ("files", Align::Right),
            ("", Align::Left),
        ],
        width,
    );
    for (bucket, &files) in shown.sizes.iter().enumerate() {
        let low = if bucket == 0 { 0 } else { 1u64 << (bucket - 1) };
        table.row([
            if bucket == 0 {
                "empty".into()
            } else {
                format!("{} and more", bytes(low))
            },
            count(files),
            bar(files as f64 / most as f64, 30),
        ]);
    }
    out.push('\n');
    out.push_str(&table.render());
    out
}
