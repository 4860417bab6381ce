//! Writes a trace, piece by piece.

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fsage_core::{Op, OpSink, PathId, PathTable, SinkError};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type};
use rustc_hash::FxHashMap;

use super::columns::{COLUMNS, Coding, Id, escape};
use super::{AnnotationColumn, AnnotationValue, FORMAT, TraceEnd, TraceError, TraceMeta};
use crate::error::FormatError;
use crate::piece::{
    Buffer, Data, ENTRY_END, ENTRY_LOST, Holds, Long, PieceWriter, primitive, schema_error,
};

/// Operations in a whole piece: enough to compress well, few enough to hold.
pub const PIECE_ROWS: usize = 65_536;

/// Distinct path bytes that end a piece early, so that long paths do not cost memory without bound.
const PIECE_TEXT_BYTES: usize = 32 << 20;

/// Metadata entry of [`TraceMeta`].
pub(super) const ENTRY_META: &str = "fsage.trace";

/// Writes a trace. What [`TraceWriter::flush_piece`] has written survives a crash of the writer;
/// [`TraceWriter::finish`] makes the file an ordinary Parquet file.
pub struct TraceWriter {
    pieces: PieceWriter,
    buffers: Vec<Buffer>,
    added: Vec<AnnotationColumn>,
    rows: usize,
    lost: u64,
    kinds: Vec<ByteArray>,
    /// Texts of this piece's paths, by the id in the caller's table.
    texts: FxHashMap<PathId, ByteArray>,
    /// The caller's table when they were put there.
    epoch: u32,
    text_bytes: usize,
    long: Long,
}

impl TraceWriter {
    /// Creates the file, replacing what is there.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn create(path: &Path, meta: TraceMeta) -> Result<Self, TraceError> {
        Self::begin(path, false, &meta, &[])
    }

    /// Creates the file under another name; it replaces what is there when it is finished, and is
    /// gone if it never is. For a trace that is made from another file.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn create_whole(path: &Path, meta: TraceMeta) -> Result<Self, TraceError> {
        Self::begin(path, true, &meta, &[])
    }

    /// As [`TraceWriter::create_whole`], with columns beside the operations'.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn create_annotated(
        path: &Path,
        meta: TraceMeta,
        columns: &[AnnotationColumn],
    ) -> Result<Self, TraceError> {
        Self::begin(path, true, &meta, columns)
    }

    fn begin(
        path: &Path,
        whole: bool,
        meta: &TraceMeta,
        columns: &[AnnotationColumn],
    ) -> Result<Self, TraceError> {
        check_names(path, columns)?;
        let json = serde_json::to_string(meta)
            .map_err(|e| FormatError::unwritable(path, e.to_string()))?;
        let columns_of_file = schema(columns).map_err(|e| schema_error(path, &e))?;
        let entries = [(ENTRY_META, json)];
        let own = COLUMNS.iter().map(|c| Buffer::for_type(c.holds.physical()));
        let extra = columns
            .iter()
            .map(|c| Buffer::for_type(c.kind.holds().physical()));
        Ok(Self {
            pieces: PieceWriter::create(path, whole, FORMAT, columns_of_file, &entries)?,
            buffers: own.chain(extra).collect(),
            added: columns.to_vec(),
            rows: 0,
            lost: 0,
            kinds: fsage_core::OpKind::ALL
                .iter()
                .map(|k| ByteArray::from(Bytes::from_static(k.name().as_bytes())))
                .collect(),
            texts: FxHashMap::default(),
            epoch: 0,
            text_bytes: 0,
            long: Long::default(),
        })
    }

    /// Takes one operation and the values of the added columns, in their order; columns without a
    /// value are absent.
    pub fn push_annotated(
        &mut self,
        op: &Op,
        paths: &PathTable,
        values: &[AnnotationValue],
    ) -> Result<(), TraceError> {
        for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
            if column.holds == Holds::Text {
                continue;
            }
            let value = (column.get)(op);
            if column.optional {
                buffer.push_optional(value);
            } else {
                buffer.push(value.unwrap_or(0));
            }
        }
        if let (
            Some(Buffer {
                data: Data::Texts(kinds),
                ..
            }),
            Some(name),
        ) = (
            self.buffers.get_mut(Id::Kind as usize),
            self.kinds.get(op.kind as usize),
        ) {
            kinds.push(name.clone());
        }
        if self.epoch != paths.epoch() {
            self.epoch = paths.epoch();
            self.texts.clear();
        }
        for (id, path) in [
            (Id::Path, op.path),
            (Id::Path2, op.path2),
            (Id::Dir, op.dir),
            (Id::Dir2, op.dir2),
        ] {
            let Some(buffer) = self.buffers.get_mut(id as usize) else {
                continue;
            };
            buffer.defs.push(i16::from(path.is_some()));
            if let (Some(path), Data::Texts(texts)) = (path, &mut buffer.data) {
                let text = match self.texts.entry(path) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(place) => {
                        let text = escape(paths.get(path)).into_bytes();
                        let counted = self.long.take(&text, self.pieces.written());
                        counted.map_err(|e| FormatError::unwritable(self.pieces.path(), e))?;
                        self.text_bytes += text.len();
                        place.insert(ByteArray::from(text)).clone()
                    }
                };
                texts.push(text);
            }
        }
        self.push_added(values)?;
        self.rows += 1;
        let full = self.rows >= PIECE_ROWS || self.text_bytes >= PIECE_TEXT_BYTES;
        if full { self.flush_piece() } else { Ok(()) }
    }

    fn push_added(&mut self, values: &[AnnotationValue]) -> Result<(), TraceError> {
        let buffers = self.buffers.iter_mut().skip(COLUMNS.len());
        for ((index, column), buffer) in self.added.iter().enumerate().zip(buffers) {
            let value = values.get(index).unwrap_or(&AnnotationValue::Absent);
            buffer
                .defs
                .push(i16::from(*value != AnnotationValue::Absent));
            match (value, &mut buffer.data) {
                (AnnotationValue::Absent, _) => {}
                (AnnotationValue::Integer(v), Data::Longs(to)) => to.push(*v as i64),
                (AnnotationValue::Number(v), Data::Doubles(to)) => to.push(*v),
                (AnnotationValue::Text(v), Data::Texts(to)) => to.push(ByteArray::from(v.as_str())),
                _ => {
                    let problem =
                        format!("{value:?} in column {} of {:?}", column.name, column.kind);
                    return Err(FormatError::unwritable(self.pieces.path(), problem));
                }
            }
        }
        Ok(())
    }

    /// The number of operations lost so far, for a reader of an unfinished file.
    pub fn set_lost_so_far(&mut self, operations_lost: u64) {
        self.lost = operations_lost;
    }

    /// Operations taken so far.
    pub fn operations(&self) -> u64 {
        self.pieces.rows() + self.rows as u64
    }

    /// Writes what is held as a piece of its own, so that a crash does not lose it. Pieces end by
    /// themselves after [`PIECE_ROWS`] operations; a live capture also calls this every few seconds.
    pub fn flush_piece(&mut self) -> Result<(), TraceError> {
        if self.rows == 0 {
            return Ok(());
        }
        let progress = [(ENTRY_LOST, self.lost.to_string())];
        self.pieces
            .write_piece(self.rows as u64, &mut self.buffers, &progress)?;
        self.rows = 0;
        self.texts.clear();
        self.text_bytes = 0;
        Ok(())
    }

    /// Ends the trace. Returns the size of the file in bytes.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn finish(mut self, end: TraceEnd) -> Result<u64, TraceError> {
        self.flush_piece()?;
        let json = serde_json::to_string(&end)
            .map_err(|e| FormatError::unwritable(self.pieces.path(), e.to_string()))?;
        self.pieces.finish(&[(ENTRY_END, json)])
    }
}

impl OpSink for TraceWriter {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.push_annotated(op, paths, &[]).map_err(|e| SinkError {
            message: e.to_string(),
            source: Some(Box::new(e)),
        })
    }
}

fn check_names(path: &Path, columns: &[AnnotationColumn]) -> Result<(), FormatError> {
    for (index, column) in columns.iter().enumerate() {
        let own = COLUMNS.iter().any(|c| c.name == column.name);
        let twice = columns.iter().take(index).any(|c| c.name == column.name);
        let plain = column
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_');
        if own || twice || !plain || column.name.is_empty() {
            let problem = format!(
                "added column '{}', expected a name of letters, digits and _ that no other column \
                 has",
                column.name
            );
            return Err(FormatError::unwritable(path, problem));
        }
    }
    Ok(())
}

fn schema(added: &[AnnotationColumn]) -> Result<(Type, WriterProperties), ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_created_by(concat!("fsage ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_dictionary_page_size_limit(64 << 20)
        .set_data_page_size_limit(64 << 20)
        .set_data_page_row_count_limit(PIECE_ROWS)
        .set_max_row_group_row_count(Some(PIECE_ROWS))
        // What lets other readers skip pieces by time.
        .set_column_statistics_enabled("start_ns".into(), EnabledStatistics::Chunk);
    let mut fields = Vec::with_capacity(COLUMNS.len() + added.len());
    for column in COLUMNS {
        let path = ColumnPath::from(column.name);
        properties = match column.coding {
            Coding::Dictionary => properties,
            Coding::Delta => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Coding::Plain => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::PLAIN),
        };
        fields.push(Arc::new(primitive(
            column.name,
            column.holds,
            column.optional,
        )?));
    }
    for column in added {
        fields.push(Arc::new(primitive(
            &column.name,
            column.kind.holds(),
            true,
        )?));
    }
    let root = Type::group_type_builder("operation")
        .with_fields(fields)
        .build()?;
    Ok((root, properties.build()))
}

/// Chosen by measurement (`benchmarks/format-throughput.sh`): level 1 takes 12.1 bytes an operation of
/// PostMark, level 3 takes 11.7 in the same time.
const ZSTD_LEVEL: i32 = 3;
