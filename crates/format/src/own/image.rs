//! `.fsi`: the image of a whole file system, sparse and compressed, with what made it.
//!
//! ```text
//! head   magic "FSGIMAGE" | version u32 | length of the JSON u32 | JSON ([`ImageHead`]) | checksum of all that u64
//! piece  place u64 | length u32 | length as stored u32 | checksum of these and of what follows u64 | zstd frame
//! end    2^64 - 1 | pieces u32 | 0 u32 | checksum of the pieces' checksums u64
//! ```
//! All numbers are little-endian. Pieces stand in the order of their places; what no piece holds is zero.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{FormatError, Version, check_version};
use crate::piece::Checksum;
use crate::result::document;
use crate::whole::Whole;

/// The version that is written; every version up to it is read.
pub const IMAGE_VERSION: Version = Version(1);

/// The longest piece.
pub const PIECE_BYTES: usize = 1 << 20;

/// What an image begins with.
pub(crate) const IMAGE_MAGIC: &[u8; 8] = b"FSGIMAGE";
const FORMAT: &str = "image";
const END: u64 = u64::MAX;
/// What stands before a piece's bytes, and the whole of the end.
const MARK_BYTES: usize = 24;
const MAX_HEAD_BYTES: u32 = 1 << 20;
/// Mostly data of files, which programs have compressed or nothing does: level 1 leaves it at twice the rate of 3.
const ZSTD_LEVEL: i32 = 1;

/// How a file system was aged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Aged {
    /// The name of the workload's file.
    pub workload: String,
    /// Its SHA-256, hexadecimal.
    pub workload_sha256: String,
    /// What made the workload, as it says itself; null where it does not.
    pub made: serde_json::Value,
    /// Simulated days that were applied, also those without operations.
    pub days: u64,
    /// Operations that were applied.
    pub operations: u64,
    /// Whether space was allocated and no data written.
    pub fast: bool,
    /// Whether all of the workload was applied.
    pub whole: bool,
    /// The layout score at the end; null where it was not taken.
    pub layout_score: Option<f64>,
    /// Wall clock at the end, nanoseconds since 1970.
    pub ended_unix_ns: u64,
}

impl Aged {
    /// In a line, for records of measurements.
    pub fn in_words(&self) -> String {
        let score = self
            .layout_score
            .map_or(String::new(), |score| format!(", layout score {score:.3}"));
        let how = if self.fast {
            ", space allocated and no data written"
        } else {
            ""
        };
        let part = if self.whole { "" } else { ", a part of it" };
        let digest = self.workload_sha256.get(..12).unwrap_or_default();
        format!(
            "{} days of {} (SHA-256 {digest}…){part}{how}{score}",
            self.days, self.workload
        )
    }
}

/// What an image says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ImageHead {
    /// The fsage that wrote it.
    pub fsage: String,
    /// The kernel that wrote the file system (`uname -r`).
    pub kernel: String,
    /// Its type, as `ext4`.
    pub file_system: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// The options that mkfs was run with; empty where fsage did not make it.
    pub mkfs_options: String,
    /// What mkfs says about itself and its version.
    pub mkfs: String,
    /// The target that it was kept from.
    pub target: String,
    /// How it was aged; null where nothing is known.
    pub aged: Option<Aged>,
}

document! {
    ImageHead, "fsage image", 1;
}

/// Whether the file begins like an image.
pub fn is_image(file: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let mut begin = [0; 8];
    file.read_exact_at(&mut begin, 0).is_ok() && &begin == IMAGE_MAGIC
}

/// Writes an image, which is there when it is finished and not before.
#[derive(Debug)]
pub struct ImageWriter {
    to: BufWriter<Whole>,
    path: PathBuf,
    pieces: u32,
    checksums: Checksum,
    /// Bytes of data so far.
    pub data_bytes: u64,
    stored: Vec<u8>,
}

impl ImageWriter {
    /// Begins an image.
    pub fn create(path: &Path, head: &ImageHead) -> Result<Self, FormatError> {
        let json =
            serde_json::to_vec(head).map_err(|e| FormatError::unwritable(path, e.to_string()))?;
        let length = u32::try_from(json.len())
            .ok()
            .filter(|l| *l <= MAX_HEAD_BYTES);
        let length = length.ok_or_else(|| {
            FormatError::unwritable(path, "what made it takes more than a MiB of text")
        })?;
        let mut bytes = IMAGE_MAGIC.to_vec();
        bytes.extend(IMAGE_VERSION.0.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(json);
        bytes.extend(Checksum::of(&bytes).to_le_bytes());
        let failed = |e| FormatError::io("write", path, e);
        let mut to = BufWriter::with_capacity(PIECE_BYTES, Whole::create(path).map_err(failed)?);
        to.write_all(&bytes).map_err(failed)?;
        Ok(Self {
            to,
            path: path.to_owned(),
            pieces: 0,
            checksums: Checksum::new(),
            data_bytes: 0,
            stored: Vec::new(),
        })
    }

    /// What is written to.
    pub fn file(&self) -> &File {
        self.to.get_ref().file()
    }

    /// Takes the next piece, at most [`PIECE_BYTES`] and after those before.
    pub fn push(&mut self, place: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let failed = |e| FormatError::io("write", &self.path, e);
        self.stored = zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(failed)?;
        let checksum = checksum(place, (bytes.len(), self.stored.len()), &self.stored);
        let mark = mark(
            place,
            bytes.len() as u32,
            self.stored.len() as u32,
            checksum,
        );
        self.to.write_all(&mark).map_err(failed)?;
        self.to.write_all(&self.stored).map_err(failed)?;
        self.pieces += 1;
        self.data_bytes += bytes.len() as u64;
        self.checksums.add(&checksum.to_le_bytes());
        Ok(())
    }

    /// Ends the image.
    pub fn finish(mut self) -> Result<(), FormatError> {
        let path = self.path;
        let failed = |e: io::Error| FormatError::io("write", &path, e);
        let end = mark(END, self.pieces, 0, self.checksums.value());
        self.to.write_all(&end).map_err(failed)?;
        let whole = self.to.into_inner().map_err(|e| failed(e.into_error()))?;
        whole.commit().map_err(failed)
    }
}

fn mark(place: u64, length: u32, stored: u32, checksum: u64) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    let parts = [place, u64::from(length) | u64::from(stored) << 32, checksum];
    for (to, part) in mark.chunks_exact_mut(8).zip(parts) {
        to.copy_from_slice(&part.to_le_bytes());
    }
    mark
}

/// Place, the two lengths, checksum.
fn parts(mark: &[u8; MARK_BYTES]) -> (u64, u32, u32, u64) {
    let word = |at: usize| {
        let bytes = mark.get(at..at + 8).and_then(|b| b.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    (word(0), word(8) as u32, (word(8) >> 32) as u32, word(16))
}

fn checksum(place: u64, (length, stored): (usize, usize), bytes: &[u8]) -> u64 {
    let mut sum = Checksum::new();
    sum.add(&place.to_le_bytes());
    sum.add(&(length as u64 | (stored as u64) << 32).to_le_bytes());
    sum.add(bytes);
    sum.value()
}

/// Reads an image, a piece in memory at a time.
#[derive(Debug)]
pub struct ImageReader {
    from: BufReader<File>,
    path: PathBuf,
    head: ImageHead,
    pieces: u32,
    checksums: Checksum,
    /// Where the next piece may begin at the earliest.
    next: u64,
    stored: Vec<u8>,
}

impl ImageReader {
    /// Opens an image. One that was cut is refused at once.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let failed = |e| FormatError::io("read", path, e);
        let file = File::open(path).map_err(failed)?;
        let mut from = BufReader::with_capacity(PIECE_BYTES, file);
        let head = read_head(path, &mut from)?;
        let begin = from.stream_position().map_err(failed)?;
        let mut end = [0; MARK_BYTES];
        let ended = from
            .seek(SeekFrom::End(-(MARK_BYTES as i64)))
            .and_then(|at| from.read_exact(&mut end).map(|()| at));
        match ended.map_err(failed)? {
            at if at >= begin && parts(&end).0 == END => {}
            _ => return Err(FormatError::corrupt(path, "its end", TRUNCATED)),
        }
        from.seek(SeekFrom::Start(begin)).map_err(failed)?;
        Ok(Self {
            from,
            path: path.to_owned(),
            head,
            pieces: 0,
            checksums: Checksum::new(),
            next: 0,
            stored: Vec::new(),
        })
    }

    /// What it says of itself.
    pub fn head(&self) -> &ImageHead {
        &self.head
    }

    /// Reads the next piece into `piece` and returns its place; `None` at the end.
    pub fn next(&mut self, piece: &mut Vec<u8>) -> Result<Option<u64>, FormatError> {
        let number = self.pieces;
        let Some((place, length)) = self.next_stored()? else {
            return Ok(None);
        };
        piece.clear();
        piece.resize(length, 0);
        let unpacked = zstd::bulk::decompress_to_buffer(&self.stored, piece);
        if unpacked.ok() != Some(length) {
            let bad = "zstd does not read it";
            return Err(FormatError::corrupt(
                &self.path,
                format!("piece {number}"),
                bad,
            ));
        }
        Ok(Some(place))
    }

    /// Reads all pieces that are left and holds each against its checksum, without unpacking it: how many there are,
    /// and how many bytes of data.
    pub fn check(&mut self) -> Result<(u32, u64), FormatError> {
        let mut data_bytes = 0;
        while let Some((_, length)) = self.next_stored()? {
            data_bytes += length as u64;
        }
        Ok((self.pieces, data_bytes))
    }

    /// Reads the next piece as it is stored; its place and length.
    fn next_stored(&mut self) -> Result<Option<(u64, usize)>, FormatError> {
        let number = self.pieces;
        let bad = |what: &str| {
            FormatError::corrupt(&self.path, format!("piece {number}"), what.to_owned())
        };
        let failed = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => bad(TRUNCATED),
            _ => FormatError::io("read", &self.path, e),
        };
        let mut mark = [0; MARK_BYTES];
        self.from.read_exact(&mut mark).map_err(failed)?;
        let (place, length, stored, sum) = parts(&mark);
        if place == END {
            let whole = length == number && stored == 0 && sum == self.checksums.value();
            return if whole {
                Ok(None)
            } else {
                Err(bad("pieces are missing or others than were written"))
            };
        }
        let (length, stored) = (length as usize, stored as usize);
        let end = place.checked_add(length as u64);
        if length > PIECE_BYTES
            || stored > zstd::compress_bound(PIECE_BYTES)
            || place < self.next
            || end.is_none_or(|end| end > self.head.size_bytes)
        {
            return Err(bad(
                "it lies outside of the file system, expected places that rise within it",
            ));
        }
        self.stored.resize(stored, 0);
        self.from.read_exact(&mut self.stored).map_err(failed)?;
        if checksum(place, (length, stored), &self.stored) != sum {
            return Err(bad("it differs from its checksum"));
        }
        self.checksums.add(&sum.to_le_bytes());
        self.pieces += 1;
        self.next = end.unwrap_or(END);
        Ok(Some((place, length)))
    }
}

const TRUNCATED: &str = "it is truncated: expected the end that every whole image has";

fn read_head(path: &Path, from: &mut impl Read) -> Result<ImageHead, FormatError> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => FormatError::corrupt(path, "its head", TRUNCATED),
        _ => FormatError::io("read", path, e),
    };
    let mut bytes = vec![0; 16];
    from.read_exact(&mut bytes).map_err(failed)?;
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(bytes.unwrap_or_default())
    };
    if !bytes.starts_with(IMAGE_MAGIC) {
        return Err(FormatError::WrongKind {
            path: path.to_owned(),
            found: crate::sniff::describe(&bytes),
            expected: "an image that `fsage age keep` wrote",
        });
    }
    let (version, length) = (number(8), number(12));
    check_version(path, FORMAT, Version(version), IMAGE_VERSION)?;
    if length > MAX_HEAD_BYTES {
        return Err(FormatError::corrupt(
            path,
            "its head",
            "it is longer than a MiB",
        ));
    }
    bytes.resize(16 + length as usize + 8, 0);
    from.read_exact(bytes.get_mut(16..).unwrap_or_default())
        .map_err(failed)?;
    let (head, sum) = bytes.split_at(16 + length as usize);
    if Checksum::of(head).to_le_bytes() != sum {
        return Err(FormatError::corrupt(
            path,
            "its head",
            "it differs from its checksum",
        ));
    }
    let json = head.get(16..).unwrap_or_default();
    serde_json::from_slice(json).map_err(|e| FormatError::corrupt(path, "its head", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dir: &Path) -> PathBuf {
        let path = dir.join("x.fsi");
        let head = ImageHead {
            file_system: "ext4".into(),
            size_bytes: 8 << 20,
            aged: Some(Aged {
                days: 3,
                ..Aged::default()
            }),
            ..ImageHead::default()
        };
        let mut writer = ImageWriter::create(&path, &head).unwrap();
        writer.push(0, &[7; 5000]).unwrap();
        let noise: Vec<u8> = (0..PIECE_BYTES as u64)
            .map(|i| ((i * i) >> 7) as u8)
            .collect();
        writer.push(3 << 20, &noise).unwrap();
        assert!(!path.exists(), "until it is whole");
        writer.finish().unwrap();
        path
    }

    fn read(path: &Path) -> Result<Vec<(u64, usize)>, FormatError> {
        let mut reader = ImageReader::open(path)?;
        let (mut piece, mut found) = (Vec::new(), Vec::new());
        while let Some(place) = reader.next(&mut piece)? {
            found.push((place, piece.len()));
        }
        Ok(found)
    }

    fn checked(path: &Path) -> Result<(u32, u64), FormatError> {
        ImageReader::open(path)?.check()
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        assert_eq!(read(&path).unwrap(), [(0, 5000), (3 << 20, PIECE_BYTES)]);
        assert_eq!(checked(&path).unwrap(), (2, 5000 + PIECE_BYTES as u64));
        let head = ImageReader::open(&path).unwrap().head().clone();
        assert_eq!(head.aged.unwrap().days, 3);
        assert!(is_image(&File::open(&path).unwrap()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path());
        let whole = std::fs::read(&path).unwrap();
        let step = whole.len() / 97;
        for at in (0..whole.len()).step_by(step.max(1)).chain(0..40) {
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
            assert!(checked(&path).is_err(), "cut at {at}");
            let mut changed = whole.clone();
            changed[at] ^= 4;
            std::fs::write(&path, &changed).unwrap();
            assert!(read(&path).is_err(), "byte {at}");
            assert!(checked(&path).is_err(), "byte {at}");
        }
        let mut newer = whole;
        newer[8] = 2;
        std::fs::write(&path, &newer).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("version 2 of the image format"), "{error}");
    }
}
