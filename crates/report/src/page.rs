//! Pages: sentences that wrap at words, and tables. What is said is plain text, whoever wrote it.

use unicode_width::UnicodeWidthStr;

use crate::plain::plain;
use crate::table::{TextTable, elided};

/// Longer sentences are cut in their middle: no page is buried by one name or one error.
const LONGEST_SAID: usize = 2000;

/// Words that belong to the number before them.
const UNITS: [&str; 24] = [
    "ns",
    "us",
    "ms",
    "s",
    "min",
    "h",
    "%",
    "B",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "PiB",
    "B/s",
    "KiB/s",
    "MiB/s",
    "GiB/s",
    "MB/s",
    "GB/s",
    "CPU",
    "CPUs",
    "MHz",
    "operations/s",
    "±",
];

/// Lists that are longer than a line are broken on lines of so many columns; on narrower ones nothing is read.
const SPLIT_FROM: usize = 30;

/// A page in the making.
#[derive(Debug)]
pub struct Page {
    out: String,
    width: u16,
}

impl Page {
    /// An empty page for a terminal of `width` columns.
    pub fn new(width: u16) -> Self {
        Self {
            out: String::new(),
            width: width.max(40),
        }
    }

    /// Its width.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// A paragraph from the first column; further lines are set in.
    pub fn say(&mut self, text: impl AsRef<str>) {
        self.paragraph(0, text.as_ref());
    }

    /// A paragraph that is set in, one of several.
    pub fn item(&mut self, text: impl AsRef<str>) {
        self.paragraph(2, text.as_ref());
    }

    /// A line that is kept as it is, however long: something to copy.
    pub fn verbatim(&mut self, text: impl AsRef<str>) {
        self.out.push_str(&plain(text.as_ref()));
        self.out.push('\n');
    }

    /// An empty line, unless one is there or nothing precedes.
    pub fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A part of the details: a line above it, its title, and what follows.
    pub fn title(&mut self, text: impl AsRef<str>) {
        self.blank();
        self.say(text);
    }

    /// A table.
    pub fn table(&mut self, table: &TextTable) {
        self.out.push_str(&table.render());
    }

    /// Text that was laid out by another page.
    pub fn append(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// The text, ending with a line feed.
    pub fn finish(self) -> String {
        self.out
    }

    fn paragraph(&mut self, indent: usize, text: &str) {
        let text = elided(text, LONGEST_SAID);
        let further = indent + 2;
        let first = usize::from(self.width) - indent;
        for (index, line) in wrapped_from(&plain(&text), first, usize::from(self.width) - further)
            .iter()
            .enumerate()
        {
            let blanks = if index == 0 { indent } else { further };
            self.out.extend(std::iter::repeat_n(' ', blanks));
            self.out.push_str(line);
            self.out.push('\n');
        }
    }
}

/// A file's name as a shell takes it.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}

/// The columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// The text in lines of at most `width` columns. Words stay whole, and so do a number and its unit; what is
/// longer than a line stands on one of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    wrapped_from(text, width, width)
}

fn wrapped_from(text: &str, first: usize, further: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in pieces(text) {
        let room = if lines.is_empty() { first } else { further };
        let mut word = word;
        if word.width() > room && further >= SPLIT_FROM {
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
                used = 0;
            }
            let room = if lines.is_empty() { first } else { further };
            word = split_list(&word, room, further, &mut lines);
        }
        let wide = word.width();
        let room = if lines.is_empty() { first } else { further };
        if !line.is_empty() && used + 1 + wide > room {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        if !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += wide;
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// A word that is longer than a line: a list such as a specification is broken behind its commas. Gives the rest.
fn split_list(word: &str, first: usize, further: usize, lines: &mut Vec<String>) -> String {
    let mut room = first;
    let mut line = String::new();
    for item in word.split_inclusive(',') {
        if !line.is_empty() && line.width() + item.width() > room {
            lines.push(std::mem::take(&mut line));
            room = further;
        }
        line.push_str(item);
    }
    line
}

/// Words, with what must stand beside them.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    // Blanks of a name stay as many as they are.
    for word in text.split(' ') {
        match pieces.last_mut() {
            Some(last) if belongs(last, word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

fn belongs(before: &str, word: &str) -> bool {
    let bare = word.trim_matches(|c: char| ",;:.)(".contains(c));
    let number = before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_ascii_digit());
    (number && UNITS.contains(&bare)) || before.ends_with('±')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_longer_than_a_line_break_behind_commas() {
        let spec =
            "postmark:files=200,transactions=500,size=500-10000,subdirs=0,read=512 on mem:disk";
        let lines = wrapped(spec, 40);
        assert_eq!(
            lines,
            [
                "postmark:files=200,transactions=500,",
                "size=500-10000,subdirs=0,read=512 on",
                "mem:disk"
            ]
        );
        assert_eq!(wrapped("a,b c", 1), ["a,b", "c"]);
    }

    #[test]
    fn words_and_units_stay_whole() {
        let text = "it took 8.65 ± 0.12 s on ext4, which is 12.5 % of all";
        for width in 12..50 {
            let lines = wrapped(text, width);
            assert!(lines.iter().all(|l| l.len() <= width + 2), "{lines:?}");
            assert_eq!(lines.join(" "), text);
            assert!(
                lines.iter().any(|l| l.contains("8.65 ± 0.12 s")),
                "{lines:?}"
            );
            assert!(lines.iter().any(|l| l.contains("12.5 %")), "{lines:?}");
        }
    }

    #[test]
    fn a_page_keeps_to_its_width_and_to_one_line_each() {
        let mut page = Page::new(40);
        page.blank();
        page.say(
            "a name with a line\nfeed and an \x1b[1m escape that goes on for longer than a line",
        );
        page.blank();
        page.blank();
        page.item("x".repeat(100_000));
        let text = page.finish();
        assert!(text.starts_with("a name with a line\\nfeed"), "{text}");
        assert!(text.contains("\\x1b[1m") && !text.contains("\n\n\n"));
        assert!(text.len() < 3000);
    }
}
