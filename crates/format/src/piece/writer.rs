//! Writes a Parquet file piece by piece.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};

use super::trailer::{Checksum, Head, Seal};
use super::{ENTRY_FORMAT, ENTRY_VERSION, Format};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::FormatError;
use crate::whole::place::Place;
use crate::whole::{ReaderGone, Whole, is_stdout, sync};

/// Where the bytes go.
enum Target {
    /// To the file itself, at its place, which can be read while it grows.
    InPlace(File, Place),
    /// To a file that is there when it is whole.
    Whole(Whole),
}

/// A file that knows the checksum of what was written to it since the last trailer.
struct Summed {
    file: Target,
    sum: Checksum,
    bytes: u64,
    /// Takes what is written from when the footer begins: its seal stands before it.
    footer: Option<Vec<u8>>,
}

impl Summed {
    /// Fails if somebody else has changed the size of a file that grows in place: what was written is gone, or
    /// is not all of it.
    fn is_own(&self) -> std::io::Result<()> {
        let Target::InPlace(file, _) = &self.file else {
            return Ok(());
        };
        let about = file.metadata()?;
        if !about.is_file() || about.len() == self.bytes {
            return Ok(());
        }
        let what = format!(
            "something else has written to it or cut it: it has {} bytes, expected {}",
            about.len(),
            self.bytes
        );
        Err(std::io::Error::other(what))
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.is_own()?;
        match &mut self.file {
            Target::InPlace(file, _) => file.write_all(bytes).map_err(ReaderGone::named)?,
            Target::Whole(file) => file.write_all(bytes)?,
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(footer) = &mut self.footer {
            footer.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.is_own()?;
        let written = match &mut self.file {
            Target::InPlace(file, _) => file.write(bytes).map_err(ReaderGone::named)?,
            Target::Whole(file) => file.write(bytes)?,
        };
        self.sum.add(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.file {
            Target::InPlace(file, _) => file.flush(),
            Target::Whole(file) => file.flush(),
        }
    }
}

/// The values of one column of a piece.
#[derive(Debug)]
pub(crate) enum Data {
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Doubles(Vec<f64>),
    Texts(Vec<ByteArray>),
}

/// One column of a piece.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub data: Data,
    /// Definition levels; empty for a required column.
    pub defs: Vec<i16>,
    /// Repetition levels; empty for a column without lists.
    pub reps: Vec<i16>,
}

impl Buffer {
    pub(crate) fn new(data: Data) -> Self {
        Self {
            data,
            defs: Vec::new(),
            reps: Vec::new(),
        }
    }

    /// Adds the integer of an optional column's row.
    pub(crate) fn push_optional(&mut self, value: Option<u64>) {
        self.defs.push(i16::from(value.is_some()));
        if let Some(value) = value {
            self.push(value);
        }
    }

    /// Adds an integer.
    pub(crate) fn push(&mut self, value: u64) {
        match &mut self.data {
            Data::Ints(values) => values.push(value as u32 as i32),
            Data::Longs(values) => values.push(value as i64),
            Data::Doubles(_) | Data::Texts(_) => {}
        }
    }

    fn clear(&mut self) {
        self.defs.clear();
        self.reps.clear();
        match &mut self.data {
            Data::Ints(values) => values.clear(),
            Data::Longs(values) => values.clear(),
            Data::Doubles(values) => values.clear(),
            Data::Texts(values) => values.clear(),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let defs = (!self.defs.is_empty()).then_some(self.defs.as_slice());
        let reps = (!self.reps.is_empty()).then_some(self.reps.as_slice());
        match &self.data {
            Data::Ints(values) => column
                .typed::<Int32Type>()
                .write_batch(values, defs, reps)?,
            Data::Longs(values) => column
                .typed::<Int64Type>()
                .write_batch(values, defs, reps)?,
            Data::Doubles(values) => column
                .typed::<DoubleType>()
                .write_batch(values, defs, reps)?,
            Data::Texts(values) => column
                .typed::<ByteArrayType>()
                .write_batch(values, defs, reps)?,
        };
        Ok(())
    }

    /// A buffer for a column of that type.
    pub(crate) fn for_type(physical: PhysicalType) -> Self {
        Self::new(match physical {
            PhysicalType::INT32 => Data::Ints(Vec::new()),
            PhysicalType::DOUBLE => Data::Doubles(Vec::new()),
            PhysicalType::BYTE_ARRAY => Data::Texts(Vec::new()),
            _ => Data::Longs(Vec::new()),
        })
    }
}

/// Writes pieces, each followed by its trailer.
pub(crate) struct PieceWriter {
    file: SerializedFileWriter<Summed>,
    schema: SchemaDescPtr,
    path: PathBuf,
    entries: Vec<KeyValue>,
    previous_end: u64,
    rows: u64,
}

/// Empties a file and keeps others of fsage's from doing the same until it is closed.
fn claimed(place: &Place) -> std::io::Result<File> {
    let file = place.open(true)?;
    if file.metadata()?.is_file() {
        // On file systems without locks nobody is kept away.
        if let Err(Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            return Err(std::io::Error::other("another process is writing it"));
        }
    }
    place.empty(&file)?;
    Ok(file)
}

impl PieceWriter {
    /// Creates the file, replacing what is there, and writes a first trailer without rows, so that
    /// even a file that never got a piece says what it is. A `whole` file replaces what is there only
    /// when it is finished.
    pub(crate) fn create(
        path: &Path,
        whole: bool,
        format: Format,
        (schema, properties): (Type, WriterProperties),
        entries: &[(&str, String)],
    ) -> Result<Self, FormatError> {
        let failed = |e| FormatError::io("create", path, e);
        let summed = |file| Summed {
            file,
            sum: Checksum::new(),
            bytes: 0,
            footer: None,
        };
        // Others may write to stdout too.
        if whole || is_stdout(path) {
            let file = Whole::create(path).map_err(failed)?;
            let inner = summed(Target::Whole(file));
            return Self::begun(path, inner, format, (schema, properties), entries);
        }
        let place = Place::of(path).map_err(failed)?;
        let file = claimed(&place).map_err(failed)?;
        let own = file.try_clone().map_err(failed)?;
        let inner = summed(Target::InPlace(file, place.clone()));
        let begun = Self::begun(path, inner, format, (schema, properties), entries);
        if begun.is_err() {
            // As on a full disk.
            place.remove(&own);
        }
        begun
    }

    fn begun(
        path: &Path,
        inner: Summed,
        format: Format,
        (schema, properties): (Type, WriterProperties),
        entries: &[(&str, String)],
    ) -> Result<Self, FormatError> {
        let mut all = vec![
            KeyValue::new(ENTRY_FORMAT.to_owned(), format.name.to_owned()),
            KeyValue::new(ENTRY_VERSION.to_owned(), format.version.to_string()),
        ];
        all.extend(
            entries
                .iter()
                .map(|(k, v)| KeyValue::new((*k).to_owned(), v.clone())),
        );
        let tree = Arc::new(schema);
        let schema = Arc::new(SchemaDescriptor::new(Arc::clone(&tree)));
        let file = SerializedFileWriter::new(inner, tree, Arc::new(properties))
            .map_err(|e| parquet_error(path, e))?;
        let mut writer = Self {
            file,
            schema,
            path: path.to_owned(),
            entries: all,
            previous_end: 0,
            rows: 0,
        };
        writer.write_trailer(&[])?;
        Ok(writer)
    }

    /// Rows written so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of whole pieces so far.
    pub(crate) fn written(&self) -> u64 {
        self.previous_end
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a piece of `rows` rows and empties the buffers. `progress` are metadata entries of the
    /// trailer alone.
    pub(crate) fn write_piece(
        &mut self,
        rows: u64,
        buffers: &mut [Buffer],
        progress: &[(&str, String)],
    ) -> Result<(), FormatError> {
        let path = &self.path;
        let mut group = self
            .file
            .next_row_group()
            .map_err(|e| parquet_error(path, e))?;
        for buffer in buffers.iter() {
            let column = group.next_column().map_err(|e| parquet_error(path, e))?;
            let mut column = column
                .ok_or_else(|| FormatError::unwritable(path, "more columns than the schema has"))?;
            buffer
                .write(&mut column)
                .map_err(|e| parquet_error(path, e))?;
            column.close().map_err(|e| parquet_error(path, e))?;
        }
        group.close().map_err(|e| parquet_error(path, e))?;
        buffers.iter_mut().for_each(Buffer::clear);
        self.rows += rows;
        self.write_trailer(progress)
    }

    fn write_trailer(&mut self, progress: &[(&str, String)]) -> Result<(), FormatError> {
        let path = &self.path;
        self.file
            .flush()
            .map_err(|e| FormatError::io("write", path, e))?;
        let groups = self.file.flushed_row_groups();
        let last = groups.last().map(|g| vec![g.clone()]).unwrap_or_default();
        let mut entries = self.entries.clone();
        entries.extend(
            progress
                .iter()
                .map(|(k, v)| KeyValue::new((*k).to_owned(), v.clone())),
        );
        let rows = last
            .iter()
            .map(parquet::file::metadata::RowGroupMetaData::num_rows)
            .sum();
        let about = FileMetaData::new(1, rows, None, Some(entries), Arc::clone(&self.schema), None);
        let metadata = ParquetMetaData::new(about, last);
        let mut footer = Vec::new();
        ParquetMetaDataWriter::new(&mut footer, &metadata)
            .finish()
            .map_err(|e| parquet_error(path, e))?;
        // The length and the magic at its end would make the trailer look like a file's end.
        footer.truncate(footer.len().saturating_sub(8));
        let head = Head {
            footer_bytes: footer.len() as u64,
            piece_start: self.previous_end.max(4),
            piece_checksum: self.file.inner().sum.value(),
            previous_end: self.previous_end,
            rows_so_far: self.rows,
            footer_checksum: Checksum::of(&footer),
        };
        self.file
            .write_all(&head.encode(&footer))
            .and_then(|()| self.file.flush())
            .map_err(|e| FormatError::io("write", path, e))?;
        self.previous_end = self.file.bytes_written() as u64;
        self.file.inner_mut().sum = Checksum::new();
        Ok(())
    }

    /// Writes the file's footer with these metadata entries beside those it began with, and the file
    /// to stable storage. Returns its size in bytes.
    pub(crate) fn finish(mut self, entries: &[(&str, String)]) -> Result<u64, FormatError> {
        let all = self.entries.iter().cloned();
        let end = entries
            .iter()
            .map(|(k, v)| KeyValue::new((*k).to_owned(), v.clone()));
        for entry in all.chain(end) {
            self.file.append_key_value_metadata(entry);
        }
        let path = self.path;
        self.file
            .flush()
            .map_err(|e| FormatError::io("write", &path, e))?;
        self.file.inner_mut().footer = Some(Vec::new());
        // This writes the footer too.
        let mut inner = self
            .file
            .into_inner()
            .map_err(|e| parquet_error(&path, e))?;
        let footer = inner.footer.take().unwrap_or_default();
        // Its length and the magic are no part of it.
        let body = footer
            .get(..footer.len().saturating_sub(8))
            .unwrap_or_default();
        let seal = Seal {
            footer_bytes: body.len() as u64,
            footer_checksum: Checksum::of(body),
            rows: self.rows,
            last_trailer_end: self.previous_end,
        };
        inner
            .put(&seal.encode())
            .and_then(|()| inner.put(&footer))
            .and_then(|()| inner.is_own())
            .map_err(|e| FormatError::io("write", &path, e))?;
        let kept = match inner.file {
            Target::InPlace(file, place) => sync(&file).map(|()| place.sync_name()),
            Target::Whole(file) => file.commit(),
        };
        kept.map_err(|e| FormatError::io("write", &path, e))?;
        Ok(inner.bytes)
    }
}

/// A full disk or the like, where that is what happened beneath.
fn parquet_error(path: &Path, e: ParquetError) -> FormatError {
    match e {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => FormatError::io("write", path, *io),
            Err(other) => FormatError::unwritable(path, other.to_string()),
        },
        other => FormatError::unwritable(path, other.to_string()),
    }
}

/// A schema that Parquet does not allow.
pub(crate) fn schema_error(path: &Path, e: &ParquetError) -> FormatError {
    FormatError::unwritable(path, format!("columns that Parquet allows: {e}"))
}
