//! What a verb writes, and which files it may take the place of: empty ones, and those that fsage made and that are of the
//! same kind. Nobody's script is lost to a mistyped `-o`, and no measurement.

pub mod mark;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fsage_format::foreign::hbench::{self, HbenchSource};
use fsage_format::foreign::{csv, strace};
use fsage_format::{FileKind, FormatError, whole};

use crate::args::ExportFormat;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// A trace, a snapshot, a profile, an image, a model or a result.
    Own(FileKind),
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
    let found = match fsage_format::sniff(output) {
        Ok(kind) if made.is_of_kind(kind) => return Ok(()),
        Ok(kind @ (FileKind::Model | FileKind::FileRunner)) => {
            format!("{}, which may have been edited", kind.what())
        }
        Ok(kind) => format!("{} of fsage", kind.what()),
        // It is a file of fsage's, and what it was cannot be told any more.
        Err(FormatError::Corrupt { .. }) if made.is_damaged(&begin) => return Ok(()),
        Err(FormatError::Corrupt { .. }) => "a damaged file".to_owned(),
        Err(FormatError::WrongKind { found, .. }) => match made.is_like(&begin, output) {
            Like::Own => return Ok(()),
            Like::Edited => "one that fsage made and somebody may have edited since".to_owned(),
            Like::Other => found,
        },
        Err(error) => error.to_string(),
    };
    bail!(
        "write {name}: it is there and is {found}, which fsage does not replace by {}: remove it first, or name another \
         file",
        made.what()
    )
}

/// Whose a file of a format of others is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Like {
    /// As fsage wrote it.
    Own,
    /// Of fsage, and not as it wrote it.
    Edited,
    /// Of somebody else.
    Other,
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
    /// What it is, with its article.
    fn what(self) -> &'static str {
        match self {
            Self::Own(kind) => kind.what(),
            Self::Export(ExportFormat::Csv) => "CSV",
            Self::Export(ExportFormat::Fio) => "a job file of fio",
            Self::Export(ExportFormat::Filebench | ExportFormat::Wml) => "a script of filebench",
            Self::Export(ExportFormat::Strace) => "text of strace",
            Self::Export(ExportFormat::Hbench) => "a file of HBench-FS",
            Self::ShortLived => "profiles of short-lived files",
            Self::Plot => "a plot",
        }
    }

    /// Whether it is a file of fsage's of that kind; models are one in either form.
    fn is_of_kind(self, kind: FileKind) -> bool {
        let model = |kind| matches!(kind, FileKind::Model | FileKind::FileRunner);
        matches!(self, Self::Own(own) if own == kind || model(own) && model(kind))
    }

    /// Whether a damaged file that begins so may be one of these: traces and snapshots are told by their end alone.
    fn is_damaged(self, begin: &[u8]) -> bool {
        let in_pieces = matches!(self, Self::Own(FileKind::Trace | FileKind::Snapshot));
        in_pieces && fsage_format::piece::begins_like(begin)
    }

    /// Whether a file that begins so is what fsage writes in a format of others, by the mark that it has there.
    fn is_like(self, begin: &[u8], path: &Path) -> Like {
        let is_own = match self {
            Self::Own(_) => false,
            Self::ShortLived => begin.starts_with(b"format = \"fsage short-lived files\""),
            Self::Export(ExportFormat::Csv) => csv::begins_like(begin),
            Self::Export(ExportFormat::Strace) => strace::begins_like(begin),
            Self::Export(ExportFormat::Hbench) => is_hbench(begin, path),
            Self::Export(ExportFormat::Fio) => return text(begin, b"; Made by fsage ", path),
            Self::Export(ExportFormat::Filebench | ExportFormat::Wml) => {
                return text(begin, b"# Made by fsage ", path);
            }
            // A plot has no mark but the one at its end.
            Self::Plot => begin.starts_with(b"<svg ") && mark::is_on(path),
        };
        if is_own { Like::Own } else { Like::Other }
    }
}

/// A text that people edit counts as fsage's as long as nobody has.
fn text(begin: &[u8], head: &[u8], path: &Path) -> Like {
    match (begin.starts_with(head), mark::is_on(path)) {
        (true, true) => Like::Own,
        (true, false) => Like::Edited,
        (false, _) => Like::Other,
    }
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
    fn both_kinds_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("valuable");
        for (text, made, expected) in [
            (
                "{\"format\":\"fsage run\"}",
                Made::Own(FileKind::Trace),
                "is a result of run of fsage, which fsage does not replace by a trace",
            ),
            (
                "PAR1FSGPIECE and then damage",
                Made::Own(FileKind::Image),
                "which fsage does not replace by an image",
            ),
            (
                "# Made by fsage from a model, and mine.\n",
                Made::Export(ExportFormat::Wml),
                "is one that fsage made and somebody may have edited since",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = may_replace(&path, made).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
            assert!(
                said.contains("valuable") && said.contains("remove it first"),
                "{said}"
            );
        }
    }

    /// What others made looks like what fsage makes of it.
    #[test]
    fn what_others_made_of_the_same_kind_is_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let recorded = "1 1700000000.000000000 openat(AT_FDCWD, \"f\", O_RDONLY) = 3 <0.000010>\n";
        let logo = "<svg width=\"24\" height=\"24\" xmlns=\"http://www.w3.org/2000/svg\"></svg>\n";
        let edited = mark::with("# Made by fsage from a model.\na\n".to_owned(), ["# ", ""]);
        for (made, text) in [
            (Made::Export(ExportFormat::Strace), recorded.to_owned()),
            (Made::Plot, logo.to_owned()),
            (Made::Plot, mark::plot(logo.to_owned()).replace("24", "48")),
            (
                Made::Export(ExportFormat::Wml),
                edited.replace("\na\n", "\nb\n"),
            ),
        ] {
            assert!(!replaces(dir.path(), &text, made), "{text}");
        }
    }

    #[test]
    fn what_fsage_wrote_may_be_written_again_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let csv: Vec<&str> = csv::COLUMNS.iter().map(|(name, _)| *name).collect();
        let csv = csv.join(",") + "\r\n1,2\r\n";
        let export = Made::Export;
        let own = Made::Own;
        let by_hand = |text: &str, comment| mark::with(text.to_owned(), comment);
        let plot = mark::plot("<svg width=\"800\" height=\"400\"></svg>\n".to_owned());
        let fio = by_hand("; Made by fsage from a model.\n", ["; ", ""]);
        let wml = by_hand(
            "# Made by fsage from a model of 9 operations.\n",
            ["# ", ""],
        );
        let all = [
            (own(FileKind::Run), "{\"format\":\"fsage run\"}"),
            (own(FileKind::Model), "format = \"fsm\"\n"),
            (own(FileKind::FileRunner), "IOChunkSize = 4096\n"),
            (own(FileKind::Image), "FSGIMAGE and then nothing"),
            (own(FileKind::Trace), "PAR1FSGPIECE and then damage"),
            (Made::ShortLived, "format = \"fsage short-lived files\"\n"),
            (Made::Plot, plot.as_str()),
            (export(ExportFormat::Csv), csv.as_str()),
            (export(ExportFormat::Fio), fio.as_str()),
            (export(ExportFormat::Wml), wml.as_str()),
            (
                export(ExportFormat::Strace),
                "strace: made by fsage (export --to strace), not recorded\n",
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
                assert!(!replaces(dir, theirs, made), "{made:?}: {theirs:?}");
            }
            // Nor of another kind, whatever is written.
            let is_model = |made| made == own(FileKind::Model) || made == own(FileKind::FileRunner);
            let is_other = |other| other != made && !(is_model(other) && is_model(made));
            for (other, text) in all.iter().filter(|(other, _)| is_other(*other)) {
                assert!(
                    !replaces(dir, text, made),
                    "{made:?} in the place of {other:?}"
                );
            }
        }
        assert!(
            !replaces(dir, "format = \"fsm\"\n", own(FileKind::Run)),
            "it may be edited by hand"
        );
        assert!(!replaces(dir, "{\"format\":\"fsage run\"}", Made::Plot));
        assert!(may_replace(&dir.join("none"), own(FileKind::Run)).is_ok());
        assert!(may_replace(Path::new("/dev/null"), own(FileKind::Run)).is_ok());
        assert!(is_stream(Path::new("/dev/stdout")) && !is_stream(Path::new("/dev/shm/x.py")));
    }
}
