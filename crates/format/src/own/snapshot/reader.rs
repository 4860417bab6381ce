//! Reads a snapshot, piece by piece.

use std::path::Path;

use fsage_core::DevId;

use super::columns::{COLUMNS, EXTENT_COLUMNS, Id, type_of};
use super::{ENTRY_META, Extent, FORMAT, SnapshotEnd, SnapshotEntry, SnapshotLoss, SnapshotMeta};
use crate::error::FormatError;
use crate::piece::{Allowance, Column, ENTRY_END, PieceFile};
use crate::trace::columns::unescape;

/// Entries handed out at once.
const BATCH: usize = 4096;

/// Bytes of names and extents that end a batch early.
const BATCH_BYTES: u64 = 32 << 20;

/// Reads a snapshot, one piece in memory at a time.
pub struct SnapshotReader {
    file: PieceFile,
    meta: SnapshotMeta,
    end: Option<SnapshotEnd>,
    loss: SnapshotLoss,
    texts: Allowance,
    total: u64,
    wanted: Vec<usize>,
    columns: Vec<Column>,
    next_piece: usize,
    rows: usize,
    row: usize,
    /// The next slot of the extents' columns.
    slot: usize,
}

impl SnapshotReader {
    /// Opens a snapshot. A truncated or interrupted one is opened as far as it is whole;
    /// [`SnapshotReader::loss`] says what is missing.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let file = PieceFile::open(path, FORMAT)?;
        let meta = file.json_entry(ENTRY_META)?;
        let end: Option<SnapshotEnd> = if file.finished() {
            Some(file.json_entry(ENTRY_END)?)
        } else {
            None
        };
        let loss = SnapshotLoss {
            unfinished: end.is_none(),
            stopped: end.as_ref().and_then(|end| end.stopped.clone()),
            bytes_dropped: file.dropped(),
        };
        let mut wanted = Vec::new();
        for column in COLUMNS {
            wanted.push(file.find(column.name, column.holds, 0)?);
        }
        for column in EXTENT_COLUMNS {
            let name = format!("extents.list.element.{}", column.name);
            wanted.push(file.find(&name, column.holds, 1)?);
        }
        Ok(Self {
            total: file.piece_rows().fold(0, u64::saturating_add),
            columns: wanted.iter().map(|_| Column::default()).collect(),
            texts: Allowance::texts(file.bytes()),
            file,
            meta,
            end,
            loss,
            wanted,
            next_piece: 0,
            rows: 0,
            row: 0,
            slot: 0,
        })
    }

    /// What the snapshot says about itself.
    pub fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    /// The device that it is of.
    pub fn dev(&self) -> DevId {
        DevId(self.meta.dev)
    }

    /// What was known at its end; `None` if it has no end (it was cut, entries are missing).
    pub fn end(&self) -> Option<&SnapshotEnd> {
        self.end.as_ref()
    }

    /// What is missing.
    pub fn loss(&self) -> &SnapshotLoss {
        &self.loss
    }

    /// The number of entries in the file.
    pub fn total_entries(&self) -> u64 {
        self.total
    }

    /// Appends the next entries to `batch`, at least one unless the snapshot has ended. Returns how
    /// many.
    pub fn next_batch(&mut self, batch: &mut Vec<SnapshotEntry>) -> Result<usize, FormatError> {
        while self.row == self.rows {
            let piece = self.next_piece;
            if piece >= self.file.piece_rows().len() {
                return Ok(0);
            }
            self.next_piece += 1;
            (self.rows, self.row, self.slot) = (0, 0, 0);
            self.rows =
                self.file
                    .read_piece(piece, &self.wanted, &mut self.columns)? as usize;
        }
        let most = (self.rows - self.row).min(BATCH);
        let (mut count, mut held) = (0, 0);
        while count < most && held < BATCH_BYTES {
            let piece = self.next_piece.saturating_sub(1);
            let entry = self.entry().ok_or_else(|| {
                let problem = format!("row {} has a column without its value", self.row);
                self.file.corrupt(piece, "", problem)
            })?;
            let target = entry.link_target.as_ref().map_or(0, Vec::len);
            let text = (entry.path.len() + target) as u64;
            self.texts
                .take(text)
                .map_err(|e| self.file.corrupt(piece, "", e))?;
            held += text + (entry.extents.len() * size_of::<Extent>()) as u64;
            batch.push(entry);
            self.row += 1;
            count += 1;
        }
        Ok(count)
    }

    fn get(&self, id: Id) -> Option<u64> {
        self.columns.get(id as usize)?.get(self.row)
    }

    fn text(&self, id: Id) -> Option<&[u8]> {
        let index = self.get(id)?;
        self.columns.get(id as usize)?.texts.get(index as usize)
    }

    /// The current row; `None` if a required value is missing.
    fn entry(&mut self) -> Option<SnapshotEntry> {
        let extents = self.extents()?;
        Some(SnapshotEntry {
            path: unescape(self.text(Id::Path)?),
            ino: self.get(Id::Ino)?,
            generation: self.get(Id::Generation)? as u32,
            file_type: type_of(self.text(Id::Type)?)?,
            size_bytes: self.get(Id::SizeBytes)?,
            allocated_bytes: self.get(Id::AllocatedBytes)?,
            links: self.get(Id::Links)? as u32,
            link_target: self.text(Id::LinkTarget).map(unescape),
            mode: self.get(Id::Mode)? as u32,
            uid: self.get(Id::Uid)? as u32,
            gid: self.get(Id::Gid)? as u32,
            atime_ns: self.get(Id::AtimeNs)? as i64,
            mtime_ns: self.get(Id::MtimeNs)? as i64,
            ctime_ns: self.get(Id::CtimeNs)? as i64,
            btime_ns: self.get(Id::BtimeNs).map(|t| t as i64),
            extents,
        })
    }

    /// The extents of the current row. Every row has at least one slot; the first of a row repeats
    /// nothing, the others repeat the list.
    fn extents(&mut self) -> Option<Vec<Extent>> {
        let [logical, physical, length, flags] = self.columns.get(COLUMNS.len()..)? else {
            return None;
        };
        let mut extents = Vec::new();
        let mut slot = self.slot;
        while slot < logical.repeats.len() {
            if slot > self.slot && logical.repeats.get(slot) == Some(&false) {
                break;
            }
            if let Some(logical_bytes) = logical.get(slot) {
                extents.push(Extent {
                    logical_bytes,
                    physical_bytes: physical.get(slot)?,
                    length_bytes: length.get(slot)?,
                    flags: flags.get(slot)? as u32,
                });
            }
            slot += 1;
        }
        if slot == self.slot {
            return None;
        }
        self.slot = slot;
        Some(extents)
    }
}
