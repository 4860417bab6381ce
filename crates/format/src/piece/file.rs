//! Opens a file of pieces, whole or not, and reads one piece at a time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::chunk::{Column, Decoder};
use super::footer::{Footer, Group, Leaf};
use super::limits::{Allowance, MAX_GROUP_BYTES, MAX_GROUP_ROWS, MAX_LIST_SLOTS};
use super::schema::Holds;
use super::trailer::{Checksum, HEAD_BYTES, HEAD_MAGIC, Head, SEAL_BYTES, Seal};
use super::{ENTRY_FORMAT, ENTRY_VERSION, Format, PARQUET_MAGIC};
use crate::error::{FormatError, Version, check_version};

/// The most bytes that the footer of a finished file may take: about a million row groups.
const MAX_FILE_FOOTER_BYTES: u64 = 1 << 30;

/// The version whose footer has no seal.
const UNSEALED_VERSION: &str = "1";

/// An open file of pieces.
pub(crate) struct PieceFile {
    path: PathBuf,
    file: File,
    pub(super) length: u64,
    footer: Footer,
    finished: bool,
    /// Whether every piece must have its checksum behind it.
    summed: bool,
    dropped: u64,
    decoder: Decoder,
    bytes: Vec<u8>,
}

/// Why a footer could not be had.
enum Missing {
    /// The file cannot be read.
    Error(FormatError),
    /// There is none or it is damaged, and why.
    Footer(String),
}

impl PieceFile {
    /// Opens a file of that format. Where the file has no sound end, what is whole is recovered.
    pub(crate) fn open(path: &Path, format: Format) -> Result<Self, FormatError> {
        let opened = Self::open_any(path, format.expected)?;
        let found = opened.footer.entry(ENTRY_FORMAT);
        if found != Some(format.name) {
            let found = found.map_or_else(
                || "a Parquet file that fsage did not write".to_owned(),
                |name| format!("a {name} of fsage"),
            );
            return Err(FormatError::WrongKind {
                path: path.to_owned(),
                found,
                expected: format.expected,
            });
        }
        let text = opened.footer.entry(ENTRY_VERSION).unwrap_or_default();
        let version = text.parse().map_err(|_| {
            FormatError::corrupt(path, ENTRY_VERSION, format!("'{text}', expected a number"))
        })?;
        check_version(path, format.name, Version(version), format.version)?;
        Ok(opened)
    }

    /// Opens a file of any of fsage's Parquet formats.
    pub(crate) fn open_any(path: &Path, expected: &'static str) -> Result<Self, FormatError> {
        crate::sniff::check_regular(path, expected)?;
        let file = File::open(path).map_err(|e| FormatError::io("open", path, e))?;
        let about = file
            .metadata()
            .map_err(|e| FormatError::io("read", path, e))?;
        let length = about.len();
        let decoder = Decoder::new(length).map_err(|e| FormatError::io("read", path, e))?;
        let mut this = Self {
            path: path.to_owned(),
            file,
            length,
            footer: Footer::default(),
            finished: true,
            summed: false,
            dropped: 0,
            decoder,
            bytes: Vec::new(),
        };
        let begin = this.read(0, length.min(512))?;
        if !begin.starts_with(PARQUET_MAGIC) {
            let (path, found) = (path.to_owned(), crate::sniff::other(path, &begin));
            return Err(FormatError::WrongKind {
                path,
                found,
                expected,
            });
        }
        match this.read_footer() {
            Ok((footer, sealed)) => (this.footer, this.summed) = (footer, sealed),
            Err(Missing::Error(e)) => return Err(e),
            Err(Missing::Footer(why)) => this.recover(&why)?,
        }
        this.check_groups()?;
        Ok(this)
    }

    pub(super) fn read(&self, start: u64, length: u64) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        self.read_into(start, length, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads bytes that are known to lie within the file.
    fn read_into(&self, start: u64, length: u64, out: &mut Vec<u8>) -> Result<(), FormatError> {
        out.resize(length as usize, 0);
        self.file
            .read_exact_at(out, start)
            .map_err(|e| FormatError::io("read", &self.path, e))
    }

    /// Reads the footer of a finished file, and whether it is sealed.
    fn read_footer(&self) -> Result<(Footer, bool), Missing> {
        let Some(tail_at) = self.length.checked_sub(8).filter(|&at| at >= 4) else {
            return Err(Missing::Footer("it ends after its first bytes".to_owned()));
        };
        let tail = self.read(tail_at, 8).map_err(Missing::Error)?;
        let (words, _) = tail.as_chunks::<4>();
        let &[length, magic] = words else {
            return Err(Missing::Footer("it has no end".to_owned()));
        };
        if &magic != PARQUET_MAGIC {
            return Err(Missing::Footer(
                "it does not end as a finished file does".to_owned(),
            ));
        }
        let length = u64::from(u32::from_le_bytes(length));
        let start = tail_at.checked_sub(length).filter(|&s| s >= 4);
        let Some(start) = start.filter(|_| length <= MAX_FILE_FOOTER_BYTES) else {
            return Err(Missing::Footer(format!("its footer claims {length} bytes")));
        };
        let bytes = self.read(start, length).map_err(Missing::Error)?;
        let damaged =
            |why: &str| Missing::Footer(format!("its footer (byte {start}) is damaged: {why}"));
        let seal = self.seal_before(start).map_err(Missing::Error)?;
        if seal.is_some_and(|seal| !seal.is_of(&bytes)) {
            return Err(damaged("it differs from its checksum"));
        }
        let footer = Footer::parse(&bytes).map_err(|e| damaged(&e))?;
        // Another writer, who may have made this file of one of fsage's, keeps neither trailers nor
        // the seal.
        if seal.is_none()
            && footer.entry(ENTRY_VERSION) != Some(UNSEALED_VERSION)
            && self.has_first_trailer().map_err(Missing::Error)?
        {
            return Err(damaged("its checksum is missing"));
        }
        Ok((footer, seal.is_some()))
    }

    /// The seal that ends where the footer starts, if there is one.
    fn seal_before(&self, footer_at: u64) -> Result<Option<Seal>, FormatError> {
        let Some(at) = footer_at.checked_sub(SEAL_BYTES as u64) else {
            return Ok(None);
        };
        Ok(Seal::parse(&self.read(at, SEAL_BYTES as u64)?))
    }

    /// Whether the first trailer of fsage stands where it puts one, damaged or not.
    fn has_first_trailer(&self) -> Result<bool, FormatError> {
        if self.length < 4 + HEAD_MAGIC.len() as u64 {
            return Ok(false);
        }
        Ok(self.read(4, HEAD_MAGIC.len() as u64)? == HEAD_MAGIC)
    }

    /// The file has no end; this is what is whole of it.
    pub(super) fn recovered(&mut self, footer: Footer, end: u64) {
        self.finished = false;
        self.summed = true;
        self.footer = footer;
        self.dropped = self.length - end;
    }

    /// Whether every column lies within the file, no byte in two of them, in pieces that can be held.
    fn check_groups(&self) -> Result<(), FormatError> {
        let mut rows = Allowance::rows(self.length);
        let mut before = 4;
        for (index, group) in self.footer.groups.iter().enumerate() {
            if group.chunks.is_empty() {
                continue;
            }
            let (start, end) = span(group);
            let chunks = group.chunks.iter().map(|c| c.length);
            let bytes = chunks.fold(0, u64::saturating_add);
            let problem = if group.rows > MAX_GROUP_ROWS {
                Some(format!(
                    "{} rows, expected at most {MAX_GROUP_ROWS}",
                    group.rows
                ))
            } else if start < before || start > end || end > self.length {
                let length = self.length;
                Some(format!(
                    "bytes {start} to {end}, expected some between {before} and {length}"
                ))
            } else if end - start > MAX_GROUP_BYTES || bytes > end - start {
                let length = end - start;
                Some(format!("columns of {bytes} bytes in {length} bytes"))
            } else {
                rows.take(group.rows).err()
            };
            if let Some(problem) = problem {
                return Err(self.corrupt(index, "", problem));
            }
            before = end;
        }
        Ok(())
    }

    /// An error about a piece.
    pub(crate) fn corrupt(&self, piece: usize, column: &str, problem: String) -> FormatError {
        let place = match column {
            "" => format!("piece {piece}"),
            column => format!("piece {piece}, column {column}"),
        };
        FormatError::corrupt(&self.path, place, problem)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.length
    }

    /// Whether the file has its end.
    pub(crate) fn finished(&self) -> bool {
        self.finished
    }

    /// Bytes after the last whole piece.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The metadata entry of that name.
    pub(crate) fn entry(&self, name: &str) -> Option<&str> {
        self.footer.entry(name)
    }

    /// A metadata entry that is JSON.
    pub(crate) fn json_entry<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<T, FormatError> {
        let bad =
            |problem: String| FormatError::corrupt(&self.path, format!("metadata {name}"), problem);
        let text = self.entry(name).ok_or_else(|| bad("missing".to_owned()))?;
        serde_json::from_str(text).map_err(|e| bad(e.to_string()))
    }

    /// The columns.
    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.footer.leaves
    }

    /// The place of the column of that name; an error if it is missing or holds something else.
    pub(crate) fn find(
        &self,
        name: &str,
        holds: Holds,
        max_rep: u32,
    ) -> Result<usize, FormatError> {
        let place = self.leaves().iter().position(|leaf| {
            leaf.name == name
                && leaf.physical == Some(holds.stored())
                && leaf.max_rep == max_rep
                && leaf.max_def <= 1
        });
        place.ok_or_else(|| {
            let problem = format!("missing or of another type, expected {holds:?}");
            FormatError::corrupt(self.path(), format!("column {name}"), problem)
        })
    }

    /// Rows of each piece.
    pub(crate) fn piece_rows(&self) -> impl ExactSizeIterator<Item = u64> {
        self.footer.groups.iter().map(|g| g.rows)
    }

    /// Decodes the columns of a piece: `out[i]` becomes the column `wanted[i]`.
    pub(crate) fn read_piece(
        &mut self,
        piece: usize,
        wanted: &[usize],
        out: &mut [Column],
    ) -> Result<u64, FormatError> {
        let Some(group) = self.footer.groups.get(piece).cloned() else {
            return Ok(0);
        };
        let (start, end) = span(&group);
        let mut bytes = std::mem::take(&mut self.bytes);
        self.decoder.begin_piece(end - start);
        self.read_into(start, end - start, &mut bytes)?;
        self.verify(piece, start, end, &bytes)?;
        for (&index, column) in wanted.iter().zip(out) {
            let (Some(chunk), Some(leaf)) =
                (group.chunks.get(index), self.footer.leaves.get(index))
            else {
                continue;
            };
            let from = (chunk.start - start) as usize;
            let body = bytes
                .get(from..from + chunk.length as usize)
                .unwrap_or_default();
            let max = if leaf.max_rep > 0 {
                MAX_LIST_SLOTS
            } else {
                group.rows
            };
            self.decoder
                .decode(body, chunk, leaf, max, column)
                .map_err(|e| self.corrupt(piece, &leaf.name, e))?;
            let slots = column.values.len() as u64;
            if leaf.max_rep == 0 && slots != group.rows {
                let problem = format!("{slots} values, expected {}", group.rows);
                return Err(self.corrupt(piece, &leaf.name, problem));
            }
        }
        self.bytes = bytes;
        Ok(group.rows)
    }

    /// Compares the piece with the checksum of the trailer behind it, if there is one.
    fn verify(&self, piece: usize, start: u64, end: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let head = if end + HEAD_BYTES as u64 > self.length {
            None
        } else {
            Head::parse(&self.read(end, HEAD_BYTES as u64)?).filter(|h| h.piece_start == start)
        };
        match head {
            Some(head) if head.piece_checksum != Checksum::of(bytes) => {
                let problem = format!("bytes {start} to {end} differ from their checksum");
                Err(self.corrupt(piece, "", problem))
            }
            None if self.summed => {
                let problem = format!("the checksum of bytes {start} to {end} is damaged");
                Err(self.corrupt(piece, "", problem))
            }
            _ => Ok(()),
        }
    }
}

/// First byte of a row group and the byte after its last.
fn span(group: &Group) -> (u64, u64) {
    let start = group.chunks.iter().map(|c| c.start).min().unwrap_or(0);
    let end = group
        .chunks
        .iter()
        .map(|c| c.start.saturating_add(c.length))
        .max()
        .unwrap_or(0);
    (start, end)
}
