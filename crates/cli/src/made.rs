//! What a verb writes, and which files it may take the place of: empty ones, and those that fsage made. Nobody's script is
//! lost to a mistyped `-o`.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fsage_format::foreign::csv;
use fsage_format::foreign::hbench::{self, HbenchSource};
use fsage_format::{FileKind, FormatError, whole};

use crate::args::ExportFormat;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// A trace, a snapshot, a profile, an image or a result.
    Own,
    /// A model, which may be a text that somebody edited.
    Model,
    /// A file for another program.
    Export(ExportFormat),
    /// Profiles of files that live shortly.
    ShortLived,
    /// A plot.
    Plot,
}

/// Bytes from which a text is told.
const ENOUGH: u64 = 4096;

/// Refuses to take the place of a file that fsage did not make, now or when the result is there: what comes meanwhile is
/// spared. What is no regular file is written to and not replaced, as is stdout, wherever it goes.
pub fn may_replace(output: &Path, made: Made) -> Result<()> {
    if is_stream(output) {
        return Ok(());
    }
    let name = output.display();
    whole::settle(output).with_context(|| format!("write {name}"))?;
    let about = std::fs::metadata(output);
    if !about.is_ok_and(|about| about.is_file() && about.len() > 0) {
        return Ok(());
    }
    let begin =
        begin(output).with_context(|| format!("find out whether {name} may be replaced"))?;
    if made.is_like(&begin, output) {
        return Ok(());
    }
    let found = match fsage_format::sniff(output) {
        Ok(FileKind::Model | FileKind::FileRunner) if made != Made::Model => {
            "a model, which may have been edited".to_owned()
        }
        // One that is cut or damaged, or of another version, is its own all the same.
        Ok(_)
        | Err(
            FormatError::Corrupt { .. } | FormatError::TooNew { .. } | FormatError::TooOld { .. },
        ) if made.is_own() => return Ok(()),
        Err(FormatError::WrongKind { found, .. }) => found,
        Ok(kind) => format!("a {} of fsage", format!("{kind:?}").to_lowercase()),
        Err(error) => error.to_string(),
    };
    bail!(
        "write {name}: it is there and is {found}, which fsage does not replace: remove it first, or name another file"
    )
}

/// Whether a path is another name of an open stream: what it was sent to stays.
fn is_stream(path: &Path) -> bool {
    let names = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    names.iter().any(|name| path.starts_with(name))
}

fn begin(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(path)?.take(ENOUGH).read_to_end(&mut begin)?;
    Ok(begin)
}

impl Made {
    fn is_own(self) -> bool {
        matches!(self, Self::Own | Self::Model)
    }

    /// Whether a file that begins so is what fsage writes in a format of others, which has no mark of its own.
    fn is_like(self, begin: &[u8], path: &Path) -> bool {
        match self {
            Self::Own | Self::Model => false,
            Self::ShortLived => begin.starts_with(b"format = \"fsage short-lived files\""),
            Self::Plot => begin.starts_with(b"<svg width=\""),
            Self::Export(ExportFormat::Csv) => csv::begins_like(begin),
            Self::Export(ExportFormat::Fio) => begin.starts_with(b"; Made by fsage "),
            Self::Export(ExportFormat::Filebench | ExportFormat::Wml) => {
                begin.starts_with(b"# Made by fsage ")
            }
            Self::Export(ExportFormat::Strace) => is_strace(begin),
            Self::Export(ExportFormat::Hbench) => is_hbench(begin, path),
        }
    }
}

/// `1234  1700000000.123456789 openat(…`.
fn is_strace(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    let mut words = text.split_ascii_whitespace();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_time = |word: &str| {
        let parts = word.split_once('.');
        parts.is_some_and(|(s, ns)| is_number(s) && is_number(ns) && ns.len() == 9)
    };
    words.next().is_some_and(is_number) && words.next().is_some_and(is_time)
}

/// A trace, whose records tell themselves, a snapshot, which begins with its root, or a profile.
fn is_hbench(begin: &[u8], path: &Path) -> bool {
    let first = begin.split(|&b| b == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let root: Vec<&str> = first.split(' ').collect();
    if let ["./", ino, size] = root.as_slice() {
        return ino.parse::<u64>().is_ok() && size.parse::<u64>().is_ok();
    }
    let is_trace = File::open(path).is_ok_and(|file| {
        let mut source = HbenchSource::new(BufReader::new(file), path);
        matches!(source.read_op(), Ok(Some(_)))
    });
    let whole = begin.iter().rposition(|&b| b == b'\n');
    let lines = begin.get(..whole.map_or(0, |at| at + 1));
    let text = lines.and_then(|lines| std::str::from_utf8(lines).ok());
    is_trace
        || text.is_some_and(|text| {
            let parsed = hbench::profile::parse(text, path, "");
            parsed.is_ok_and(|profile| !profile.metrics.is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaces(dir: &Path, text: &str, made: Made) -> bool {
        let path = dir.join("f");
        std::fs::write(&path, text).unwrap();
        let done = may_replace(&path, made);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        done.is_ok()
    }

    #[test]
    fn what_fsage_wrote_may_be_written_again_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let csv: Vec<&str> = csv::COLUMNS.iter().map(|(name, _)| *name).collect();
        let csv = csv.join(",") + "\r\n1,2\r\n";
        let export = Made::Export;
        let all = [
            (Made::Own, "{\"format\":\"fsage run\"}"),
            (Made::Model, "format = \"fsm\"\n"),
            (Made::ShortLived, "format = \"fsage short-lived files\"\n"),
            (Made::Plot, "<svg width=\"800\" height=\"400\""),
            (export(ExportFormat::Csv), csv.as_str()),
            (export(ExportFormat::Fio), "; Made by fsage from a model.\n"),
            (
                export(ExportFormat::Wml),
                "# Made by fsage from a model of 9 operations.\n",
            ),
            (
                export(ExportFormat::Strace),
                "12    1700000000.000000001 close(3) = 0\n",
            ),
            (
                export(ExportFormat::Hbench),
                "# slow\nBC 8192\nLUS_BC 0.004\n",
            ),
            (export(ExportFormat::Hbench), "./ 2 512\n~~\n"),
        ];
        for (made, text) in all {
            assert!(replaces(dir, text, made), "{made:?}");
            assert!(replaces(dir, "", made), "{made:?}");
            let script = "#!/usr/bin/env python3\nimport os\nprint(os.getcwd())\n";
            for theirs in [
                script,
                "# notes\n",
                "x",
                "\u{0}\u{1}\u{2}",
                "PAR1 of others",
            ] {
                let is_damaged = theirs.starts_with("PAR1") && made.is_own();
                assert_eq!(
                    replaces(dir, theirs, made),
                    is_damaged,
                    "{made:?}: {theirs:?}"
                );
            }
        }
        assert!(
            !replaces(dir, "format = \"fsm\"\n", Made::Own),
            "it may be edited by hand"
        );
        assert!(!replaces(dir, "{\"format\":\"fsage run\"}", Made::Plot));
        assert!(may_replace(&dir.join("none"), Made::Own).is_ok());
        assert!(may_replace(Path::new("/dev/null"), Made::Own).is_ok());
        assert!(is_stream(Path::new("/dev/stdout")) && !is_stream(Path::new("/dev/shm/x.py")));
    }
}
