//! Writes a snapshot, piece by piece.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type};

use super::columns::{COLUMNS, EXTENT_COLUMNS, Id, type_name};
use super::{ENTRY_META, FORMAT, SnapshotEnd, SnapshotEntry, SnapshotMeta};
use crate::error::FormatError;
use crate::piece::{Allowance, Buffer, Data, ENTRY_END, PieceWriter, primitive, schema_error};
use crate::trace::columns::escape;

/// Entries in a whole piece.
const PIECE_ROWS: usize = 65_536;

/// Extents that end a piece early.
const PIECE_EXTENTS: usize = 1 << 20;

/// The most extents of one file that a reader accepts in a piece beside the others.
const MAX_FILE_EXTENTS: usize = 7 << 20;

/// Path bytes that end a piece early.
const PIECE_TEXT_BYTES: usize = 32 << 20;

/// Writes a snapshot; a cut-off file can be read up to its last whole piece.
pub struct SnapshotWriter {
    pieces: PieceWriter,
    buffers: Vec<Buffer>,
    rows: usize,
    extents: usize,
    text_bytes: usize,
    /// Of all pieces.
    all_text: u64,
}

impl SnapshotWriter {
    /// Creates the file without a name; it replaces what is there when it is finished, and is gone if
    /// it never is.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn create(path: &Path, meta: SnapshotMeta) -> Result<Self, FormatError> {
        let json = serde_json::to_string(&meta)
            .map_err(|e| FormatError::unwritable(path, e.to_string()))?;
        let columns_of_file = schema().map_err(|e| schema_error(path, &e))?;
        let entries = [(ENTRY_META, json)];
        let own = COLUMNS.iter().map(|c| c.holds);
        let parts = EXTENT_COLUMNS.iter().map(|c| c.holds);
        Ok(Self {
            pieces: PieceWriter::create(path, true, FORMAT, columns_of_file, &entries)?,
            buffers: own
                .chain(parts)
                .map(|h| Buffer::for_type(h.physical()))
                .collect(),
            rows: 0,
            extents: 0,
            text_bytes: 0,
            all_text: 0,
        })
    }

    /// Takes one entry.
    pub fn push(&mut self, entry: &SnapshotEntry) -> Result<(), FormatError> {
        if entry.extents.len() > MAX_FILE_EXTENTS {
            let problem = format!(
                "{} extents of {}, expected at most {MAX_FILE_EXTENTS}",
                entry.extents.len(),
                escape(&entry.path)
            );
            return Err(FormatError::unwritable(self.pieces.path(), problem));
        }
        for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
            match (column.get)(entry) {
                _ if matches!(buffer.data, Data::Texts(_)) => {}
                value if column.optional => buffer.push_optional(value),
                value => buffer.push(value.unwrap_or(0)),
            }
        }
        self.push_text(Id::Path, Some(escape(&entry.path)));
        self.push_text(Id::Type, Some(type_name(entry.file_type).to_owned()));
        self.push_text(Id::LinkTarget, entry.link_target.as_deref().map(escape));
        let parts = self.buffers.iter_mut().skip(COLUMNS.len());
        for (column, buffer) in EXTENT_COLUMNS.iter().zip(parts) {
            if entry.extents.is_empty() {
                buffer.defs.push(0);
                buffer.reps.push(0);
            }
            for (index, extent) in entry.extents.iter().enumerate() {
                buffer.defs.push(1);
                buffer.reps.push(i16::from(index > 0));
                buffer.push((column.get)(extent));
            }
        }
        self.rows += 1;
        self.extents += entry.extents.len();
        if self.rows >= PIECE_ROWS
            || self.extents >= PIECE_EXTENTS
            || self.text_bytes >= PIECE_TEXT_BYTES
        {
            self.flush_piece()?;
        }
        Ok(())
    }

    fn push_text(&mut self, id: Id, text: Option<String>) {
        let Some(buffer) = self.buffers.get_mut(id as usize) else {
            return;
        };
        if COLUMNS.get(id as usize).is_some_and(|c| c.optional) {
            buffer.defs.push(i16::from(text.is_some()));
        }
        if let (Some(text), Data::Texts(texts)) = (text, &mut buffer.data) {
            self.text_bytes += text.len();
            texts.push(ByteArray::from(text.into_bytes()));
        }
    }

    fn flush_piece(&mut self) -> Result<(), FormatError> {
        if self.rows > 0 {
            self.pieces
                .write_piece(self.rows as u64, &mut self.buffers, &[])?;
            self.all_text += self.text_bytes as u64;
            // What its reader would refuse is no snapshot.
            let counted = Allowance::texts(self.pieces.written()).take(self.all_text);
            counted.map_err(|e| FormatError::unwritable(self.pieces.path(), e))?;
            (self.rows, self.extents, self.text_bytes) = (0, 0, 0);
        }
        Ok(())
    }

    /// Entries taken so far.
    pub fn entries(&self) -> u64 {
        self.pieces.rows() + self.rows as u64
    }

    /// Ends the snapshot. Returns the size of the file in bytes.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "what is given belongs to the file"
    )]
    pub fn finish(mut self, end: SnapshotEnd) -> Result<u64, FormatError> {
        self.flush_piece()?;
        let json = serde_json::to_string(&end)
            .map_err(|e| FormatError::unwritable(self.pieces.path(), e.to_string()))?;
        self.pieces.finish(&[(ENTRY_END, json)])
    }
}

fn schema() -> Result<(Type, WriterProperties), ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(concat!("fsage ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_dictionary_page_size_limit(1 << 20)
        .set_data_page_size_limit(8 << 20)
        .set_data_page_row_count_limit(PIECE_ROWS)
        .set_max_row_group_row_count(Some(PIECE_ROWS))
        // Paths are distinct: a dictionary would hold them all.
        .set_column_dictionary_enabled("path".into(), false);
    let mut fields = Vec::new();
    for column in COLUMNS {
        if column.delta {
            let path = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        fields.push(Arc::new(primitive(
            column.name,
            column.holds,
            column.optional,
        )?));
    }
    let mut parts = Vec::new();
    for column in EXTENT_COLUMNS {
        parts.push(Arc::new(primitive(column.name, column.holds, false)?));
        let leaf = ["extents", "list", "element", column.name]
            .map(str::to_owned)
            .to_vec();
        if primitive(column.name, column.holds, false)?.get_physical_type() == PhysicalType::INT64 {
            properties = properties
                .set_column_dictionary_enabled(ColumnPath::new(leaf.clone()), false)
                .set_column_encoding(ColumnPath::new(leaf), Encoding::DELTA_BINARY_PACKED);
        }
    }
    fields.push(Arc::new(list("extents", parts)?));
    let root = Type::group_type_builder("file")
        .with_fields(fields)
        .build()?;
    Ok((root, properties.build()))
}

/// A list of structures, in Parquet's three levels.
fn list(name: &str, parts: Vec<Arc<Type>>) -> Result<Type, ParquetError> {
    let element = Type::group_type_builder("element")
        .with_repetition(Repetition::REQUIRED)
        .with_fields(parts)
        .build()?;
    let repeated = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element)])
        .build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(repeated)])
        .build()
}
