//! Reads a trace, piece by piece.

use std::path::Path;

use fsage_core::{
    After, DevId, Fd, FileId, Op, OpFlags, OpKind, OpSource, Outcome, PathId, PathTable, Pause,
    Pid, SourceError, Tid,
};

use super::columns::{COLUMNS, COLUMNS_OF_3, COLUMNS_OF_4, COLUMNS_OF_5, Id, unescape};
use super::writer::ENTRY_META;
use super::{
    AnnotationColumn, AnnotationKind, AnnotationValue, Annotations, FORMAT, Loss, TraceEnd,
    TraceError, TraceMeta,
};
use crate::error::FormatError;
use crate::piece::{
    Allowance, Column, ENTRY_END, ENTRY_LOST, ENTRY_VERSION, PATH_BYTES, Physical, PieceFile,
};

/// Operations handed out at once: few enough to stay in the processor's cache.
const BATCH: usize = 4096;

/// Bytes of added texts that end a batch early.
const BATCH_TEXT_BYTES: u64 = 32 << 20;

/// Reads a trace, one piece in memory at a time.
pub struct TraceReader {
    file: PieceFile,
    meta: TraceMeta,
    end: Option<TraceEnd>,
    loss: Loss,
    total: u64,
    /// Leaves of the trace's own columns, then of the added ones.
    wanted: Vec<usize>,
    /// The number of the trace's own.
    own: usize,
    added: Vec<AnnotationColumn>,
    columns: Vec<Column>,
    names: Names,
    paths: PathTable,
    /// For distinct paths and for the texts of added columns.
    path_bytes: Allowance,
    texts: Allowance,
    next_piece: usize,
    rows: usize,
    row: usize,
    forgets: bool,
}

/// What the indices of a piece's text columns mean.
#[derive(Default)]
struct Names {
    kinds: Vec<OpKind>,
    /// For each of path, path2, dir, dir2.
    paths: [Vec<PathId>; 4],
}

const PATH_COLUMNS: [Id; 4] = [Id::Path, Id::Path2, Id::Dir, Id::Dir2];

impl TraceReader {
    /// Opens a trace. A truncated or unfinished one is opened as far as it is whole;
    /// [`TraceReader::loss`] says what is missing.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = PieceFile::open(path, FORMAT)?;
        let meta: TraceMeta = file.json_entry(ENTRY_META)?;
        let end: Option<TraceEnd> = if file.finished() {
            Some(file.json_entry(ENTRY_END)?)
        } else {
            None
        };
        let so_far = file
            .entry(ENTRY_LOST)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let loss = Loss {
            operations_lost: end.as_ref().map_or(so_far, |end| end.operations_lost),
            unfinished: !file.finished(),
            bytes_dropped: file.dropped(),
        };
        let own = match file.entry(ENTRY_VERSION) {
            Some("1" | "2" | "3") => COLUMNS_OF_3,
            Some("4") => COLUMNS_OF_4,
            Some("5") => COLUMNS_OF_5,
            _ => COLUMNS.len(),
        };
        let (wanted, added) = find_columns(&file, own)?;
        let total = file.piece_rows().fold(0u64, u64::saturating_add);
        Ok(Self {
            columns: wanted.iter().map(|_| Column::default()).collect(),
            path_bytes: Allowance::paths(file.bytes()),
            texts: Allowance::texts(file.bytes()),
            file,
            meta,
            end,
            loss,
            total,
            wanted,
            own,
            added,
            names: Names::default(),
            paths: PathTable::new(),
            next_piece: 0,
            rows: 0,
            row: 0,
            forgets: false,
        })
    }

    /// Whether operations that tell waits tell those for processors within themselves too: since version 5.
    pub fn tells_queued(&self) -> bool {
        self.own > COLUMNS_OF_4
    }

    /// Whether they tell for how long they slept within themselves, and how often before: [`super::TELLS_SLEEP`].
    pub fn tells_sleep(&self) -> bool {
        self.meta.extra.contains_key(super::TELLS_SLEEP)
    }

    /// From now on the table of paths begins anew with each piece, so that memory does not grow with their number:
    /// an operation's paths are known until the next batch.
    pub fn forget_paths(&mut self) {
        self.forgets = true;
    }

    /// What the trace says about itself.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// What was known at its end; `None` if it has no end.
    pub fn end(&self) -> Option<&TraceEnd> {
        self.end.as_ref()
    }

    /// What is missing.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// The number of operations in the file.
    pub fn total_operations(&self) -> u64 {
        self.total
    }

    /// The columns that an analysis added.
    pub fn annotation_columns(&self) -> &[AnnotationColumn] {
        &self.added
    }

    /// Skips the next `count` operations without decoding whole pieces that lie within them. Returns
    /// how many were skipped; fewer where the trace ends first.
    pub fn skip(&mut self, count: u64) -> Result<u64, TraceError> {
        let mut left = count;
        loop {
            let step = left.min((self.rows - self.row) as u64);
            self.row += step as usize;
            left -= step;
            if left == 0 {
                return Ok(count);
            }
            let rows = self.file.piece_rows().nth(self.next_piece);
            match rows {
                None => return Ok(count - left),
                Some(rows) if rows <= left => {
                    self.next_piece += 1;
                    left -= rows;
                }
                Some(_) => self.load()?,
            }
        }
    }

    /// As [`OpSource::next_batch`], with the added columns: `notes` is replaced by one row for each
    /// operation appended.
    pub fn next_annotated(
        &mut self,
        batch: &mut Vec<Op>,
        notes: &mut Annotations,
    ) -> Result<usize, TraceError> {
        notes.values.clear();
        notes.width = self.added.len();
        let before = batch.len();
        let (start, count) = self.next_rows(batch)?;
        let (mut taken, mut held) = (0, 0);
        while taken < count && held < BATCH_TEXT_BYTES {
            let decoded = self.columns.iter().skip(self.own);
            for (column, decoded) in self.added.iter().zip(decoded) {
                let value = added_value(column.kind, decoded, start + taken);
                if let AnnotationValue::Text(text) = &value {
                    held += text.len() as u64;
                    let piece = self.next_piece.saturating_sub(1);
                    self.texts
                        .take(text.len() as u64)
                        .map_err(|e| self.file.corrupt(piece, &column.name, e))?;
                }
                notes.values.push(value);
            }
            taken += 1;
        }
        // The others come with the next batch.
        batch.truncate(before + taken);
        self.row = start + taken;
        Ok(taken)
    }

    /// Appends the next rows of the current or the next piece; returns the first one's place in its
    /// piece and how many.
    fn next_rows(&mut self, batch: &mut Vec<Op>) -> Result<(usize, usize), TraceError> {
        while self.row == self.rows {
            if self.next_piece >= self.file.piece_rows().len() {
                return Ok((0, 0));
            }
            self.load()?;
        }
        let start = self.row;
        let end = (start + BATCH).min(self.rows);
        let own = self.columns.get(..self.own).unwrap_or_default();
        let rows = Rows::new(own, &self.names, start);
        batch.reserve(end - start);
        for row in 0..end - start {
            let op = rows.op(row).ok_or_else(|| {
                let problem = format!("row {} has a column without its value", start + row);
                self.file
                    .corrupt(self.next_piece.saturating_sub(1), "", problem)
            })?;
            batch.push(op);
        }
        self.row = end;
        Ok((start, end - start))
    }

    /// Decodes the next piece.
    fn load(&mut self) -> Result<(), TraceError> {
        let piece = self.next_piece;
        self.next_piece += 1;
        (self.rows, self.row) = (0, 0);
        if self.forgets {
            self.paths.take();
            self.path_bytes = Allowance::paths(self.file.bytes());
        }
        let rows = self
            .file
            .read_piece(piece, &self.wanted, &mut self.columns)?;
        self.names
            .load(&self.columns, &mut self.paths, &mut self.path_bytes)
            .map_err(|(column, problem)| {
                let name = COLUMNS.get(column).map_or("", |c| c.name);
                self.file.corrupt(piece, name, problem)
            })?;
        self.rows = rows as usize;
        Ok(())
    }
}

impl OpSource for TraceReader {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        self.next_rows(batch)
            .map(|(_, count)| count)
            .map_err(|e| SourceError {
                message: e.to_string(),
                source: Some(Box::new(e)),
            })
    }
}

impl Names {
    /// Maps the texts of a new piece. The error names the column.
    fn load(
        &mut self,
        columns: &[Column],
        paths: &mut PathTable,
        allowed: &mut Allowance,
    ) -> Result<(), (usize, String)> {
        let mut held = (paths.text_bytes() + PATH_BYTES * paths.len()) as u64;
        self.kinds.clear();
        let kind = Id::Kind as usize;
        for text in columns.get(kind).into_iter().flat_map(|c| c.texts.iter()) {
            let name = String::from_utf8_lossy(text);
            let known = OpKind::from_name(&name);
            self.kinds
                .push(known.ok_or_else(|| (kind, format!("the unknown kind '{name}'")))?);
        }
        for (id, ids) in PATH_COLUMNS.iter().zip(&mut self.paths) {
            let index = *id as usize;
            ids.clear();
            for text in columns.get(index).into_iter().flat_map(|c| c.texts.iter()) {
                let id = if text.contains(&b'\\') {
                    paths.intern(&unescape(text))
                } else {
                    paths.intern(text)
                };
                let full = || (index, "more than 2^32 distinct paths".to_owned());
                ids.push(id.ok_or_else(full)?);
                let grown = (paths.text_bytes() + PATH_BYTES * paths.len()) as u64 - held;
                allowed.take(grown).map_err(|e| (index, e))?;
                held += grown;
            }
        }
        Ok(())
    }
}

/// A column's values from the first row of a batch on.
#[derive(Clone, Copy, Default)]
struct Field<'a> {
    values: &'a [u64],
    present: &'a [bool],
}

/// The columns of a batch, to be put together row by row.
struct Rows<'a> {
    fields: [Field<'a>; COLUMNS.len()],
    names: &'a Names,
}

impl<'a> Rows<'a> {
    fn new(columns: &'a [Column], names: &'a Names, start: usize) -> Self {
        let mut fields = [Field::default(); COLUMNS.len()];
        for (field, column) in fields.iter_mut().zip(columns) {
            field.values = column.values.get(start..).unwrap_or_default();
            field.present = column.present.get(start..).unwrap_or_default();
        }
        Self { fields, names }
    }

    #[inline]
    fn get(&self, id: Id, row: usize) -> Option<u64> {
        let field = &self.fields[id as usize];
        match field.present.get(row) {
            Some(false) => None,
            _ => field.values.get(row).copied(),
        }
    }

    #[inline]
    fn path(&self, id: Id, which: usize, row: usize) -> Option<PathId> {
        let index = self.get(id, row)?;
        self.names.paths.get(which)?.get(index as usize).copied()
    }

    /// The operation of a row; `None` if a required value is missing.
    #[inline]
    fn op(&self, row: usize) -> Option<Op> {
        let kind = *self.names.kinds.get(self.get(Id::Kind, row)? as usize)?;
        let file = match self.get(Id::Dev, row) {
            Some(dev) => Some(FileId {
                dev: DevId(dev),
                ino: self.get(Id::Ino, row)?,
                generation: self.get(Id::Generation, row)? as u32,
            }),
            None => None,
        };
        Some(Op {
            kind,
            record: OpFlags(self.get(Id::Record, row)? as u16),
            start_ns: self.get(Id::StartNs, row)?,
            latency_ns: self.get(Id::LatencyNs, row),
            pid: Pid(self.get(Id::Pid, row)? as u32),
            tid: Tid(self.get(Id::Tid, row)? as u32),
            result: Outcome::from_raw(self.get(Id::Result, row)? as i64),
            fd: self.get(Id::Fd, row).map(|fd| Fd(fd as u32 as i32)),
            file,
            path: self.path(Id::Path, 0, row),
            path2: self.path(Id::Path2, 1, row),
            dir: self.path(Id::Dir, 2, row),
            dir2: self.path(Id::Dir2, 3, row),
            offset: self.get(Id::Offset, row),
            length: self.get(Id::Length, row),
            flags: self.get(Id::Flags, row)? as u32,
            size_bytes: self.get(Id::SizeBytes, row),
            pages_missed: self.get(Id::PagesMissed, row).map(|v| v as u32),
            pages_ahead: self.get(Id::PagesAhead, row).map(|v| v as u32),
            pause: self.pause(row),
        })
    }

    #[inline]
    fn pause(&self, row: usize) -> Pause {
        let ns = |id| self.get(id, row).unwrap_or(0);
        Pause {
            ready_ns: ns(Id::ReadyNs),
            asleep_ns: ns(Id::AsleepNs),
            waited_ns: ns(Id::WaitedNs),
            queued_ns: ns(Id::QueuedNs),
            blocked_ns: ns(Id::BlockedNs),
            sleeps: ns(Id::Sleeps) as u32,
            after: self.get(Id::AfterTid, row).map(|tid| After {
                tid: Tid(tid as u32),
                ops: ns(Id::AfterOps) as u32,
                lag_ns: ns(Id::AfterLagNs),
                rest_ns: ns(Id::AfterRestNs),
            }),
        }
    }
}

fn added_value(kind: AnnotationKind, column: &Column, row: usize) -> AnnotationValue {
    let Some(value) = column.get(row) else {
        return AnnotationValue::Absent;
    };
    match kind {
        AnnotationKind::Integer => AnnotationValue::Integer(value),
        AnnotationKind::Number => AnnotationValue::Number(f64::from_bits(value)),
        AnnotationKind::Text => column
            .texts
            .get(value as usize)
            .map_or(AnnotationValue::Absent, |t| {
                AnnotationValue::Text(String::from_utf8_lossy(t).into_owned())
            }),
    }
}

/// The places of the trace's own columns in the file, then of the added ones.
fn find_columns(
    file: &PieceFile,
    own: usize,
) -> Result<(Vec<usize>, Vec<AnnotationColumn>), FormatError> {
    let leaves = file.leaves();
    let mut wanted = Vec::new();
    for column in COLUMNS.iter().take(own) {
        wanted.push(file.find(column.name, column.holds, 0)?);
    }
    let mut added = Vec::new();
    for (index, leaf) in leaves.iter().enumerate() {
        let kind = match leaf.physical {
            Some(Physical::Int64) => AnnotationKind::Integer,
            Some(Physical::Double) => AnnotationKind::Number,
            Some(Physical::Bytes) => AnnotationKind::Text,
            _ => continue,
        };
        if !wanted.contains(&index) && leaf.max_rep == 0 && leaf.max_def <= 1 {
            wanted.push(index);
            added.push(AnnotationColumn {
                name: leaf.name.clone(),
                kind,
            });
        }
    }
    Ok((wanted, added))
}
