//! Text snapshots as the thesis's aging workloads were made from (3.2.1): of each file its inode number, generation,
//! inode change time, type, size and disk blocks, and no name. The thesis states what they hold and nowhere their
//! form; this is the one that is read:
//!
//! ```text
//! # taken 851731200           seconds since the epoch; like all lines of the head it may be missing
//! # block_bytes 8192          the unit of disk blocks; 4096 where it is missing
//! # inodes_per_group 1920     and blocks_per_group, first_block: cylinder groups
//! # host, root, file_system   what it is of
//! 21386 871021 851690114 0 19124 4410-4411 4520
//! ```
//!
//! A line of a file is `INODE GENERATION CTIME TYPE SIZE [BLOCK | FIRST-LAST | 0]…`: the generation `-` where there is
//! none, the change time in seconds with or without a fraction, types as in HBench-FS (0 regular, 1 directory,
//! 2 symbolic link), blocks in the order of the file, 0 a hole. Without blocks it is not known where the file lies.

use std::io::BufRead;
use std::path::Path;

use fsage_core::FileType;
use rustc_hash::FxHashSet;

use crate::FormatError;
use crate::snapshot::{Extent, SnapshotEntry, SnapshotMeta};

/// What lines may hold: a file of 16 GiB in single blocks.
const MAX_LINE_BYTES: u64 = 32 << 20;

/// Where the head does not tell it.
const USUAL_BLOCK_BYTES: u64 = 4096;

/// Reads a classic snapshot, its head first.
#[derive(Debug)]
pub struct ClassicReader<'p, R> {
    input: R,
    name: &'p Path,
    meta: SnapshotMeta,
    number: u64,
    /// The line that was read last, without its end.
    line: Vec<u8>,
    ended: bool,
    /// Of the files so far: a file has one line.
    inodes: FxHashSet<u64>,
}

impl<'p, R: BufRead> ClassicReader<'p, R> {
    /// Reads the head; errors name `name`.
    pub fn open(input: R, name: &'p Path) -> Result<Self, FormatError> {
        let mut reader = Self {
            input,
            name,
            meta: SnapshotMeta {
                block_bytes: USUAL_BLOCK_BYTES,
                ..SnapshotMeta::default()
            },
            number: 0,
            line: Vec::new(),
            ended: false,
            inodes: FxHashSet::default(),
        };
        reader.meta.extra.insert("names".into(), "none".into());
        loop {
            reader.next_line()?;
            let Some(head) = reader.line.strip_prefix(b"#").filter(|_| !reader.ended) else {
                return Ok(reader);
            };
            let text = String::from_utf8_lossy(head).into_owned();
            reader.head(text.trim())?;
        }
    }

    /// What the head tells. Under `extra`, `names` is `none`.
    pub fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    fn head(&mut self, text: &str) -> Result<(), FormatError> {
        let (key, value) = text.split_once(' ').unwrap_or((text, ""));
        let value = value.trim();
        let number = || {
            let expected = format!("`{value}` is no number, expected one as {key}");
            let number: Option<u64> = value.parse().ok();
            number.ok_or_else(|| self.bad(&expected))
        };
        match key {
            "taken" => self.meta.taken_unix_ns = number()?.saturating_mul(1_000_000_000),
            "block_bytes" => {
                let bytes = number()?;
                if !(512..=1 << 30).contains(&bytes) {
                    return Err(self.bad("expected a block of 512 bytes to 1 GiB"));
                }
                self.meta.block_bytes = bytes;
            }
            "host" => self.meta.host = value.into(),
            "root" => self.meta.root = value.into(),
            "file_system" => self.meta.file_system = value.into(),
            "inodes_per_group" | "blocks_per_group" | "first_block" => {
                let number = number()?.to_string();
                self.meta.extra.insert(key.to_owned(), number);
            }
            // A remark.
            _ => {}
        }
        Ok(())
    }

    /// The next file, under its inode number as a path; the root, inode 2, under the empty one.
    pub fn next_entry(&mut self) -> Result<Option<SnapshotEntry>, FormatError> {
        while !self.ended {
            let text = String::from_utf8_lossy(&self.line).into_owned();
            let entry = (!text.trim().is_empty() && !text.starts_with('#'))
                .then(|| entry(&text, self.meta.block_bytes).map_err(|e| self.bad(&e)));
            let entry = entry.transpose()?;
            if let Some(entry) = &entry
                && !self.inodes.insert(entry.ino)
            {
                let problem = format!(
                    "inode {} had a line before, expected one for each",
                    entry.ino
                );
                return Err(self.bad(&problem));
            }
            self.next_line()?;
            if entry.is_some() {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<(), FormatError> {
        self.line.clear();
        let got = std::io::Read::take(&mut self.input, MAX_LINE_BYTES)
            .read_until(b'\n', &mut self.line)
            .map_err(|e| FormatError::io("read", self.name, e))?;
        self.number += 1;
        self.ended = got == 0;
        if got > 0 && self.line.pop_if(|last| *last == b'\n').is_none() {
            return Err(self.bad("it ends within a line, expected a whole file"));
        }
        Ok(())
    }

    fn bad(&self, problem: &str) -> FormatError {
        FormatError::corrupt(self.name, format!("line {}", self.number), problem)
    }
}

fn entry(text: &str, block_bytes: u64) -> Result<SnapshotEntry, String> {
    const EXPECTED: &str = "expected `INODE GENERATION CTIME TYPE SIZE [BLOCK…]`";
    let mut fields = text.split_ascii_whitespace();
    let mut field = || fields.next().ok_or_else(|| EXPECTED.to_owned());
    let [ino, generation, ctime, kind, size] = [field()?, field()?, field()?, field()?, field()?];
    let number = |text: &str| {
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse::<u64>().ok().filter(|_| digits);
        number.ok_or_else(|| format!("`{text}` is no number, {EXPECTED}"))
    };
    let file_type = match kind {
        "0" => FileType::Regular,
        "1" => FileType::Directory,
        "2" => FileType::Symlink,
        _ => return Err(format!("`{kind}` is no type, expected 0, 1 or 2")),
    };
    let generation = match generation {
        "-" => 0,
        text => u32::try_from(number(text)?).map_err(|_| format!("`{text}` is no generation"))?,
    };
    let ctime_ns = time_ns(ctime).ok_or_else(|| format!("`{ctime}` is no time in seconds"))?;
    let (ino, size_bytes) = (number(ino)?, number(size)?);
    let path = match (ino, file_type) {
        (2, FileType::Directory) => Vec::new(),
        _ => ino.to_string().into_bytes(),
    };
    let mut extents: Vec<Extent> = Vec::new();
    let mut logical_bytes = 0u64;
    for part in fields {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!(
                "`{part}` ends before it begins, expected FIRST-LAST"
            ));
        }
        let bytes = |blocks: u64| blocks.checked_mul(block_bytes);
        let length = (last - first).checked_add(1).and_then(bytes);
        let placed = length.zip(bytes(first));
        let end = placed.and_then(|(length, _)| logical_bytes.checked_add(length));
        let (Some((length_bytes, physical_bytes)), Some(end)) = (placed, end) else {
            return Err(format!("`{part}` is no block of a disk"));
        };
        if first > 0 {
            push(&mut extents, logical_bytes, physical_bytes, length_bytes);
        }
        logical_bytes = end;
    }
    let allocated = extents
        .iter()
        .map(|e| e.length_bytes)
        .fold(0, u64::saturating_add);
    let mut entry = SnapshotEntry::of(path, ino, file_type, size_bytes);
    if !extents.is_empty() {
        entry.allocated_bytes = allocated;
    }
    (entry.generation, entry.ctime_ns, entry.mtime_ns) = (generation, ctime_ns, ctime_ns);
    entry.extents = extents;
    Ok(entry)
}

/// Blocks that follow each other in file and on disk are one extent.
fn push(extents: &mut Vec<Extent>, logical_bytes: u64, physical_bytes: u64, length_bytes: u64) {
    if let Some(last) = extents.last_mut()
        && last.logical_bytes.saturating_add(last.length_bytes) == logical_bytes
        && last.physical_bytes.saturating_add(last.length_bytes) == physical_bytes
    {
        last.length_bytes = last.length_bytes.saturating_add(length_bytes);
        return;
    }
    extents.push(Extent {
        logical_bytes,
        physical_bytes,
        length_bytes,
        flags: 0,
    });
}

/// Seconds with at most nine places.
fn time_ns(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let nanos: i64 = format!("{part:0<9}").parse().ok()?;
    let seconds: i64 = whole.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<(SnapshotMeta, Vec<SnapshotEntry>), FormatError> {
        let mut reader = ClassicReader::open(text.as_bytes(), Path::new("day.txt"))?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            entries.push(entry);
        }
        Ok((reader.meta().clone(), entries))
    }

    #[test]
    fn what_the_thesis_names_is_read() {
        let (meta, entries) = read(
            "# taken 851731200\n# block_bytes 8192\n# inodes_per_group 1920\n# blocks_per_group 2048\n\
             # first_block 0\n2 1 851600000 1 512 40\n21386 871021 851690114.5 0 40000 4410-4411 4412 0 4520\n\
             # a remark\n\n7 - 0 0 0\n",
        )
        .unwrap();
        assert_eq!(
            (meta.taken_unix_ns, meta.block_bytes),
            (851_731_200_000_000_000, 8192)
        );
        assert_eq!(meta.groups().unwrap().inodes, 1920);
        assert_eq!((entries.len(), entries[0].path.len()), (3, 0));
        let file = &entries[1];
        assert_eq!(
            (file.path.as_slice(), file.generation),
            (&b"21386"[..], 871_021)
        );
        assert_eq!(file.ctime_ns, 851_690_114_500_000_000);
        let extents: Vec<(u64, u64, u64)> = file
            .extents
            .iter()
            .map(|e| {
                (
                    e.logical_bytes / 8192,
                    e.physical_bytes / 8192,
                    e.length_bytes / 8192,
                )
            })
            .collect();
        assert_eq!(extents, [(0, 4410, 3), (4, 4520, 1)]);
        assert_eq!(file.allocated_bytes, 4 * 8192);
    }

    #[test]
    fn what_is_no_snapshot_is_named_by_its_line() {
        for (text, said) in [
            ("# block_bytes 7\n", "line 1"),
            ("# taken yesterday\n", "`yesterday` is no number"),
            (
                "1 1 1 0\n",
                "expected `INODE GENERATION CTIME TYPE SIZE [BLOCK…]`",
            ),
            ("1 1 1 0 9\n1 1 1 5 9\n", "line 2"),
            ("1 1 1 0 9 8-7\n", "ends before it begins"),
            ("1 1 x 0 9\n", "no time in seconds"),
            ("1 1 1 0 9 18446744073709551615\n", "no block of a disk"),
            ("1 1 1 0 9", "ends within a line"),
            (
                "7 1 1 0 9\n8 1 1 0 9\n7 2 1 0 9\n",
                "line 3: inode 7 had a line before",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains(said) && error.contains("day.txt"),
                "{text}: {error}"
            );
        }
        assert_eq!(read("").unwrap().1.len(), 0);
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_or_an_error(text in "[#0-9 .\\-\na-z]{0,200}") {
            let _ = read(&text);
        }
    }
}
