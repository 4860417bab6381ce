//! The last line of a text that fsage makes and people edit, a comment: a digest of all before it. Whoever edits the text
//! leaves one that differs, and fsage does not replace what is somebody's work.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use fsage_format::piece::Checksum;

/// What the line says before the digest.
const SAYS: &str =
    "Digest of all above, by which fsage replaces this file only if nobody edited it: ";

/// No such line is longer.
const LONGEST: u64 = 128;

/// Bytes that are read at a time.
const PART: usize = 1 << 16;

/// A text with its last line, a comment between `begin` and `end`.
pub fn with(mut text: String, [begin, end]: [&str; 2]) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let digest = Checksum::of(text.as_bytes());
    text + &format!("{begin}{SAYS}{digest:016x}{end}\n")
}

/// A plot, in SVG, with its last line.
pub fn plot(svg: String) -> String {
    with(svg, ["<!-- ", " -->"])
}

/// Whether a file has the line, and nobody has changed what stands before it.
pub fn is_on(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| is_in(file).unwrap_or(false))
}

fn is_in(mut file: File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let tail_at = length.saturating_sub(LONGEST);
    file.seek(SeekFrom::Start(tail_at))?;
    let mut tail = Vec::new();
    Read::by_ref(&mut file)
        .take(LONGEST)
        .read_to_end(&mut tail)?;
    let Some(lines) = tail.strip_suffix(b"\n") else {
        return Ok(false);
    };
    let line_at = lines
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |at| at + 1);
    let line = lines.get(line_at..).unwrap_or_default();
    let Some(told) = digest_in(&String::from_utf8_lossy(line)) else {
        return Ok(false);
    };
    file.rewind()?;
    Ok(sum_of(file.take(tail_at + line_at as u64))? == told)
}

/// The digest that a line tells.
fn digest_in(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(SAYS)?;
    u64::from_str_radix(rest.get(..16)?, 16).ok()
}

fn sum_of(mut from: impl Read) -> io::Result<u64> {
    let (mut sum, mut part) = (Checksum::new(), vec![0; PART]);
    loop {
        let read = from.read(&mut part)?;
        if read == 0 {
            return Ok(sum.value());
        }
        sum.add(part.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_text_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let is_marked = |text: &str| {
            std::fs::write(&path, text).unwrap();
            is_on(&path)
        };
        let texts = [
            "a = 1\nb = 2\n".to_owned(),
            "x".repeat(PART * 2 + 3),
            String::new(),
        ];
        for text in texts {
            for comment in [["# ", ""], ["<!-- ", " -->"]] {
                let marked = with(text.clone(), comment);
                assert!(is_marked(&marked), "{marked}");
                assert!(marked.starts_with(&text) && marked.lines().last().unwrap().len() < 120);
                assert!(!is_marked(&text));
                assert!(!is_marked(&marked.replacen(['a', 'x', '\n'], "c", 1)));
                assert!(!is_marked(&format!("{marked}c = 3\n")));
                assert!(!is_marked(&format!("c{marked}")));
                assert!(!is_marked(marked.trim_end()));
            }
        }
        assert!(!is_on(&dir.path().join("none")) && !is_on(dir.path()));
    }
}
