//! The text snapshot of HBench-FS (Smith 2001, A.3): directory listings that end with `~~`.
//!
//! The format has no escapes: names end at a blank or a line's end. A name that holds a blank, a
//! line's end or is `~~` is refused on the way out, by path; on the way in a line with more fields
//! than the format knows is refused by its number. Devices and the like have no type and are left
//! out and counted.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

use fsage_core::FileType;
use rustc_hash::FxHashSet;

use crate::FormatError;
use crate::snapshot::SnapshotEntry;

/// Longer lines are damage: no name and no link is longer than 4096 bytes.
const MAX_LINE_BYTES: u64 = 16_384;

/// Reads a snapshot and gives every entry to `each`, the root (path empty) first. The format knows
/// inode number, type, size, name and link; everything else is 0, `allocated_bytes` the size.
pub fn read(
    mut input: impl BufRead,
    name: &Path,
    mut each: impl FnMut(SnapshotEntry) -> Result<(), FormatError>,
) -> Result<u64, FormatError> {
    let (mut number, mut entries) = (0u64, 0u64);
    let mut dir: Option<Vec<u8>> = None;
    let mut root = Vec::new();
    let mut line = Vec::new();
    // A name stands twice if it does so in a listing, or if that does.
    let (mut names, mut listings) = (FxHashSet::default(), FxHashSet::default());
    loop {
        line.clear();
        let got = std::io::Read::take(&mut input, MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|e| FormatError::io("read", name, e))?;
        if got == 0 {
            break;
        }
        number += 1;
        let bad = |problem: &str| FormatError::corrupt(name, format!("line {number}"), problem);
        if got as u64 == MAX_LINE_BYTES {
            return Err(bad("more than 16384 bytes, expected an entry"));
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        // What is cut may read as another size or name; the end of a listing cannot.
        if text.len() == got && text != b"~~" {
            return Err(bad("it ends within a line, expected a whole file"));
        }
        let entry = if number == 1 {
            let (path, entry) = root_line(text)
                .ok_or_else(|| bad("expected `NAME INUM SIZE` of the root directory"))?;
            root = path;
            dir = Some(Vec::new());
            Some(entry)
        } else if text == b"~~" {
            dir = None;
            names.clear();
            None
        } else if let Some(dir) = &dir {
            Some(
                entry_line(dir, text)
                    .ok_or_else(|| bad("expected `INUM TYPE SIZE NAME [LINK]` or `~~`"))?,
            )
        } else {
            let listed = listing(&root, text)
                .ok_or_else(|| bad("expected the path of a directory under the root"))?;
            if !listings.insert(listed.clone()) {
                return Err(bad("the directory was listed before, expected it once"));
            }
            dir = Some(listed);
            None
        };
        if let Some(entry) = entry {
            if !names.insert(entry.path.clone()) {
                return Err(bad(
                    "the name stands twice in its listing, expected it once",
                ));
            }
            entries += 1;
            each(entry)?;
        }
    }
    if number == 0 {
        return Err(FormatError::corrupt(
            name,
            "line 1",
            "an empty file, expected a root directory",
        ));
    }
    Ok(entries)
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn root_line(text: &[u8]) -> Option<(Vec<u8>, SnapshotEntry)> {
    let mut fields = text.rsplitn(3, |&b| b == b' ');
    let size = number(fields.next()?)?;
    let ino = number(fields.next()?)?;
    let name = fields
        .next()
        .filter(|name| !name.is_empty() && !name.contains(&b' '))?;
    Some((
        trim(name).to_vec(),
        SnapshotEntry::of(Vec::new(), ino, FileType::Directory, size),
    ))
}

fn trim(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// The directory of a listing, relative to the root.
fn listing(root: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let rest = trim(text).strip_prefix(root)?.strip_prefix(b"/")?;
    let beneath = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    (rest.split(|&b| b == b'/').all(beneath) && !rest.contains(&b' ')).then(|| rest.to_vec())
}

fn entry_line(dir: &[u8], text: &[u8]) -> Option<SnapshotEntry> {
    let fields: Vec<&[u8]> = text
        .split(|&b| b == b' ')
        .filter(|f| !f.is_empty())
        .collect();
    let (ino, kind, size, name, link) = match fields[..] {
        [ino, kind, size, name] => (ino, kind, size, name, None),
        [ino, b"2", size, name, link] => (ino, &b"2"[..], size, name, Some(link.to_vec())),
        _ => return None,
    };
    let file_type = match kind {
        b"0" => FileType::Regular,
        b"1" => FileType::Directory,
        b"2" => FileType::Symlink,
        _ => return None,
    };
    if name.contains(&b'/') || name == b"." || name == b".." {
        return None;
    }
    let path = if dir.is_empty() {
        name.to_vec()
    } else {
        [dir, b"/", name].concat()
    };
    let entry = SnapshotEntry::of(path, number(ino)?, file_type, number(size)?);
    Some(SnapshotEntry {
        link_target: link,
        ..entry
    })
}

/// Collects the entries of a tree and writes them as listings, depth first.
#[derive(Debug, Default)]
pub struct SnapshotText {
    root: (u64, u64),
    dirs: BTreeMap<Vec<u8>, Vec<u8>>,
    left_out: u64,
}

impl SnapshotText {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an entry. Refuses a name that the format cannot hold; errors name `name`, the output.
    pub fn push(&mut self, entry: &SnapshotEntry, name: &Path) -> Result<(), FormatError> {
        if entry.path.is_empty() {
            self.root = (entry.ino, entry.size_bytes);
            return Ok(());
        }
        let kind = match entry.file_type {
            FileType::Regular => 0,
            FileType::Directory => 1,
            FileType::Symlink => 2,
            FileType::Other => {
                self.left_out += 1;
                return Ok(());
            }
        };
        let link = entry.link_target.as_deref().unwrap_or_default();
        let cannot = |text: &[u8]| text.iter().any(|&b| b == b' ' || b == b'\n' || b == 0);
        if cannot(&entry.path) || cannot(link) {
            let path = entry.path.escape_ascii();
            let problem = format!(
                "`{path}` has a blank or a line's end in its name or link, which the HBench-FS \
                 snapshot (A.3) cannot hold"
            );
            return Err(FormatError::unwritable(name, problem));
        }
        let at = entry.path.iter().rposition(|&b| b == b'/');
        let (dir, base) = match at {
            Some(at) => (&entry.path[..at], &entry.path[at + 1..]),
            None => (&b""[..], &entry.path[..]),
        };
        let listing = self.dirs.entry(dir.to_vec()).or_default();
        listing.extend_from_slice(format!("{} {kind} {} ", entry.ino, entry.size_bytes).as_bytes());
        listing.extend_from_slice(base);
        if kind == 2 {
            listing.push(b' ');
            listing.extend_from_slice(link);
        }
        listing.push(b'\n');
        if kind == 1 {
            self.dirs.entry(entry.path.clone()).or_default();
        }
        Ok(())
    }

    /// Writes the text. Returns how many entries had no type in the format.
    pub fn write(mut self, mut output: impl Write, name: &Path) -> Result<u64, FormatError> {
        let mut all = Vec::new();
        let (ino, size) = self.root;
        all.extend_from_slice(format!("./ {ino} {size}\n").as_bytes());
        all.extend(self.dirs.remove(&b""[..]).unwrap_or_default());
        all.extend_from_slice(b"~~\n");
        let mut put = |bytes: &[u8]| {
            output
                .write_all(bytes)
                .map_err(|e| FormatError::io("write", name, e))
        };
        put(&all)?;
        // A directory sorts before everything that its path is a prefix of.
        for (dir, listing) in self.dirs {
            put(&[b"./", &dir[..], b"/\n", &listing, b"~~\n"].concat())?;
        }
        output
            .flush()
            .map_err(|e| FormatError::io("write", name, e))?;
        Ok(self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_lie_beneath_the_root() {
        for (dir, good) in [
            ("./src", true),
            (".//etc", false),
            ("./../etc", false),
            ("./a/./b", false),
            ("./a//b", false),
        ] {
            let text = format!(". 2 512\n21 0 10 file\n~~\n{dir}/\n22 0 10 other\n~~\n");
            let read = read(text.as_bytes(), Path::new("s.txt"), |_| Ok(()));
            assert_eq!(read.is_ok(), good, "{dir}: {read:?}");
        }
    }

    #[test]
    fn what_is_cut_or_there_twice_is_named_by_its_line() {
        let read = |text: &str| read(text.as_bytes(), Path::new("s.txt"), |_| Ok(()));
        let whole = ". 2 512\n21 1 10 d\n22 0 8192 filename.c\n~~\n./d/\n23 0 1 filename.c\n~~\n";
        assert_eq!(read(whole).unwrap(), 4);
        // The end of a listing is what it is without the line's end.
        assert_eq!(read(whole.trim_end()).unwrap(), 4);
        for cut in [". 2 51", &whole[..whole.find("name.c").unwrap()]] {
            let error = read(cut).unwrap_err().to_string();
            assert!(error.contains("it ends within a line"), "{cut}: {error}");
        }
        for (more, said) in [
            ("./d/\n~~\n", "line 8: the directory was listed before"),
            (
                "./e/\n5 0 1 x\n6 0 2 x\n~~\n",
                "line 10: the name stands twice",
            ),
        ] {
            let error = read(&[whole, more].concat()).unwrap_err().to_string();
            assert!(error.contains(said), "{more}: {error}");
        }
    }
}
