//! How tables are laid out: borderless, numbers to the right, never wider than the terminal.
//!
//! A number and its unit are never split, long names are cut where they are alike (`names`), prose wraps at
//! words. What does not fit is left out by columns, least important first, and said.

use std::borrow::Cow;

use fsage_core::text::{cut_after, cut_before};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::names;
use crate::page::wrapped;
use crate::plain::plain;

/// Before a column is left out for it, a name is cut to this, and prose wraps to it.
const NAME_LEAST: usize = 22;
const PROSE_LEAST: usize = 26;
/// And before one is left out that the table is for.
const NAME_SHORT: usize = 11;
/// Where nothing more can be left out.
const LEAST: usize = 6;
/// What prose in a cell may hold.
const LONGEST_PROSE: usize = 800;
/// And a name, before what it shares with others is cut.
const LONGEST_NAME: usize = 400;
const GAP: usize = 2;

/// What a column holds, and how it is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Names, to the left.
    Left,
    /// Numbers with their units, to the right; never cut.
    Right,
    /// Words, to the left, on several lines where they are long.
    Prose,
    /// Words, to the left, never cut: what the table is for.
    Whole,
}

/// A table in the making.
#[derive(Debug)]
pub struct TextTable {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    width: usize,
    /// Titles of columns that may be left out, least important first.
    drop: Vec<String>,
    /// What a name is cut to before a column is left out for it.
    name_least: usize,
}

impl TextTable {
    /// A table with these column titles, laid out for `width` characters.
    pub fn new(columns: &[(&str, Align)], width: u16) -> Self {
        Self {
            columns: columns
                .iter()
                .map(|(title, align)| (plain(title).into_owned(), *align))
                .collect(),
            rows: Vec::new(),
            width: usize::from(width.max(40)),
            drop: Vec::new(),
            name_least: NAME_LEAST,
        }
    }

    /// Says to what a name is cut at the most before a column is left out for it.
    pub fn naming(mut self, least: usize) -> Self {
        self.name_least = least;
        self
    }

    /// Says which columns are left out first where not all fit. The others follow from the right, once names are
    /// short.
    pub fn dropping(mut self, titles: &[&str]) -> Self {
        self.drop = titles.iter().map(|t| (*t).to_owned()).collect();
        self
    }

    /// Adds a row; missing cells stay empty.
    pub fn row<I, S>(&mut self, cells: I)
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let of_column = |(index, text): (usize, S)| {
            let text: String = text.into();
            let longest = match self.columns.get(index) {
                Some((_, Align::Prose)) => LONGEST_PROSE,
                Some((_, Align::Left)) => LONGEST_NAME,
                _ => self.width,
            };
            // Cut before it is escaped, so that a long name costs no more than a short one.
            elided(&plain(&elided(&text, longest)), longest).into_owned()
        };
        self.rows
            .push(cells.into_iter().enumerate().map(of_column).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, without trailing blanks, ending with a line feed.
    pub fn render(&self) -> String {
        let (shown, dropped) = self.fit();
        let mut out = String::new();
        let header: Vec<Vec<String>> = shown
            .iter()
            .map(|&(column, wide)| wrapped(&self.columns[column].0, wide))
            .collect();
        let height = header.iter().map(Vec::len).max().unwrap_or(0);
        let header = header.into_iter().map(|mut lines| {
            let above = height - lines.len();
            lines.splice(0..0, std::iter::repeat_n(String::new(), above));
            lines
        });
        self.lines(&mut out, &shown, &header.collect::<Vec<_>>());
        let total = total(shown.iter().map(|s| s.1));
        out.extend(std::iter::repeat_n('─', total.min(self.width)));
        out.push('\n');
        let names: Vec<Vec<String>> = shown.iter().map(|s| self.names(s.0, s.1)).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let cell = |(&(column, wide), names): (&(usize, usize), &Vec<String>)| {
                let name = names.get(index).map(|name| vec![name.clone()]);
                name.unwrap_or_else(|| self.cell(row, column, wide))
            };
            let cells: Vec<Vec<String>> = shown.iter().zip(&names).map(cell).collect();
            self.lines(&mut out, &shown, &cells);
        }
        if !dropped.is_empty() {
            let said = format!(
                "not shown at {} columns: {}",
                self.width,
                dropped.join(", ")
            );
            for line in wrapped(&said, self.width - 1) {
                out.push_str(&format!(" {line}\n"));
            }
        }
        out
    }

    /// All of a column of names as they are shown, which turns on the others there; of any other column nothing.
    fn names(&self, column: usize, wide: usize) -> Vec<String> {
        if self.columns[column].1 != Align::Left {
            return Vec::new();
        }
        let name = |row: &Vec<String>| row.get(column).cloned().unwrap_or_default();
        let all: Vec<String> = self.rows.iter().map(name).collect();
        names::fitted(&all.iter().map(String::as_str).collect::<Vec<_>>(), wide)
    }

    fn cell(&self, row: &[String], column: usize, wide: usize) -> Vec<String> {
        let text = row.get(column).map_or("", String::as_str);
        match self.columns[column].1 {
            Align::Prose => {
                let word = |word: &str| elided(word, wide).into_owned();
                let words: Vec<String> = text.split(' ').map(word).collect();
                wrapped(&words.join(" "), wide)
            }
            Align::Left | Align::Right | Align::Whole => vec![text.to_owned()],
        }
    }

    /// One row, on as many lines as its highest cell.
    fn lines(&self, out: &mut String, shown: &[(usize, usize)], cells: &[Vec<String>]) {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..height {
            let mut line = String::from(" ");
            for (place, (&(column, wide), cell)) in shown.iter().zip(cells).enumerate() {
                if place > 0 {
                    line.push_str("  ");
                }
                let text = cell.get(index).map_or("", String::as_str);
                let blanks = std::iter::repeat_n(' ', wide.saturating_sub(text.width()));
                if self.columns[column].1 == Align::Right {
                    line.extend(blanks);
                    line.push_str(text);
                } else {
                    line.push_str(text);
                    line.extend(blanks);
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    /// The columns that are shown with their widths, and the titles of the others.
    fn fit(&self) -> (Vec<(usize, usize)>, Vec<String>) {
        let needs: Vec<ColumnWidth> = (0..self.columns.len()).map(|c| self.need(c)).collect();
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let mut dropped = Vec::new();
        let mut least: Vec<usize> = needs.iter().map(|n| n.least).collect();
        while total(kept.iter().map(|&c| least[c])) > self.width {
            let next = self.next_to_drop(&kept);
            let spare = next.filter(|&c| self.is_spare(c));
            if spare.is_none() && self.narrowed(&kept, &mut least, NAME_SHORT) {
                continue;
            }
            let Some(column) = next else {
                break;
            };
            kept.retain(|&c| c != column);
            if !self.columns[column].0.is_empty() {
                dropped.push((column, self.columns[column].0.clone()));
            }
        }
        // Two columns may still be too wide: names give way, a number never does.
        while total(kept.iter().map(|&c| least[c])) > self.width {
            if !self.narrowed(&kept, &mut least, LEAST) {
                break;
            }
        }
        let mut room = self
            .width
            .saturating_sub(total(kept.iter().map(|&c| least[c])));
        for kind in [Align::Left, Align::Right, Align::Prose] {
            for &column in kept.iter().filter(|&&c| self.columns[c].1 == kind) {
                let more = room.min(needs[column].natural.saturating_sub(least[column]));
                least[column] += more;
                room -= more;
            }
        }
        dropped.sort_unstable();
        (
            kept.into_iter().map(|c| (c, least[c])).collect(),
            dropped.into_iter().map(|(_, title)| title).collect(),
        )
    }

    /// Takes one from the widest of the columns that are no numbers, as long as it has more than `most`.
    fn narrowed(&self, kept: &[usize], least: &mut [usize], most: usize) -> bool {
        let gives_way = |&c: &usize| matches!(self.columns[c].1, Align::Left | Align::Prose);
        let names = kept.iter().copied().filter(gives_way);
        let names = names.filter(|&c| least[c] > most);
        let widest = names.max_by_key(|&c| least[c]);
        let room = widest.and_then(|c| least.get_mut(c));
        room.map(|wide| *wide -= 1).is_some()
    }

    /// Whether a table is nothing less without a column.
    fn is_spare(&self, column: usize) -> bool {
        let title = &self.columns[column].0;
        title.is_empty() || self.drop.contains(title)
    }

    /// Columns without a title are pictures of others; the first column and one beside it stay.
    fn next_to_drop(&self, kept: &[usize]) -> Option<usize> {
        if kept.len() <= 2 {
            return None;
        }
        let untitled = |&&c: &&usize| c > 0 && self.columns[c].0.is_empty();
        let named = |title: &String| kept.iter().copied().find(|&c| self.columns[c].0 == *title);
        kept.iter()
            .find(untitled)
            .copied()
            .or_else(|| self.drop.iter().find_map(named))
            .or_else(|| {
                let may = |&&c: &&usize| self.columns[c].1 != Align::Whole;
                kept.iter().skip(1).rfind(may).copied()
            })
    }

    fn need(&self, column: usize) -> ColumnWidth {
        let (title, align) = &self.columns[column];
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
        let word = title
            .split(' ')
            .map(UnicodeWidthStr::width)
            .max()
            .unwrap_or(0);
        let least = match align {
            Align::Right | Align::Whole => widest,
            Align::Left => widest.min(self.name_least),
            Align::Prose => widest.min(PROSE_LEAST),
        };
        ColumnWidth {
            natural: widest.max(title.width()),
            least: least.max(word),
        }
    }
}

/// How wide a column wants to be and how narrow it can be.
struct ColumnWidth {
    natural: usize,
    least: usize,
}

/// The width of a table with these columns.
fn total(columns: impl Iterator<Item = usize>) -> usize {
    let (count, sum) = columns.fold((0, 0), |(n, sum), wide| (n + 1, sum + wide));
    1 + sum + GAP * usize::saturating_sub(count, 1)
}

/// The text in at most `width` columns: what is longer loses its middle, from a separator to a separator where that
/// leaves enough, and never a part of a number.
pub fn elided(text: &str, width: usize) -> Cow<'_, str> {
    // A text of no more bytes than columns fits, and so nearly all do.
    if text.len() <= width || (text.len() <= width.saturating_mul(8) && text.width() <= width) {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let fits = |limit: usize| {
        let mut used = 0;
        move |c: &char| {
            used += c.width().unwrap_or(1).max(1);
            used <= limit
        }
    };
    let head: usize = text
        .chars()
        .take_while(fits(room.div_ceil(2)))
        .map(char::len_utf8)
        .sum();
    let end = cut_before(text, head);
    // What the head leaves is the tail's.
    let left = room.saturating_sub(text.get(..end).unwrap_or_default().width());
    let tail: usize = text
        .chars()
        .rev()
        .take_while(fits(left))
        .map(char::len_utf8)
        .sum();
    if end + tail >= text.len() {
        return Cow::Borrowed(text);
    }
    let start = cut_after(text, text.len() - tail);
    let part = |of: std::ops::Range<usize>| text.get(of).unwrap_or_default();
    Cow::Owned(format!("{}…{}", part(0..end), part(start..text.len())))
}

/// A bar of at most `width` characters for a share of 0 to 1.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut out: String = std::iter::repeat_n('█', eighths / 8).collect();
    if !eighths.is_multiple_of(8) {
        out.push(PARTS[eighths % 8]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_and_numbers_align() {
        let mut table = TextTable::new(&[("name", Align::Left), ("time", Align::Right)], 60);
        table.row(["read", "1 s"]);
        table.row(["write", "100 ms"]);
        let text = table.render();
        assert!(text.lines().all(|l| l.chars().count() <= 60), "{text}");
        let ends: Vec<usize> = text.lines().skip(2).map(|l| l.chars().count()).collect();
        assert_eq!(ends[0], ends[1], "{text}");
    }

    fn wide(width: u16) -> String {
        let columns = [
            ("target", Align::Left),
            ("elapsed", Align::Right),
            ("99 %", Align::Right),
            ("longest", Align::Right),
            ("why", Align::Prose),
        ];
        let mut table = TextTable::new(&columns, width).dropping(&["99 %", "longest"]);
        table.row([
            "scratch:ext4,size=4G,on=disk:hdd-7200,mount=noatime",
            "12 min 5 s ± 20.5 s",
            "12,345,678 ns",
            "9,999,999,999 ns",
            "stopped after 30 runs, which was the most allowed, without being as precise as asked",
        ]);
        table.render()
    }

    #[test]
    fn numbers_stay_whole_and_columns_that_do_not_fit_are_named() {
        for width in 40..200 {
            let text = wide(width);
            let longest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(longest <= usize::from(width), "{width}\n{text}");
            assert!(text.contains("12 min 5 s ± 20.5 s"), "{text}");
            for (title, value) in [("99 %", "12,345,678 ns"), ("longest", "9,999,999,999 ns")] {
                let said = text.contains(&format!("not shown at {width} columns"));
                assert!(
                    text.contains(value) || (said && text.contains(title)),
                    "{text}"
                );
            }
        }
        assert!(
            wide(100).contains("not shown at 100 columns: 99 %\n"),
            "{}",
            wide(100)
        );
        assert!(wide(100).contains("9,999,999,999 ns") && !wide(160).contains("not shown"));
    }

    #[test]
    fn names_wrap_and_verdicts_stay_whole() {
        let columns = [
            ("b", Align::Prose),
            ("a", Align::Prose),
            ("mean", Align::Right),
            ("b / a", Align::Right),
            ("so", Align::Whole),
        ];
        for width in 70..120 {
            let mut table = TextTable::new(&columns, width).dropping(&["mean"]);
            let name = "ext4-on-a-long-named-disk / PostMark / files=1000 / cold";
            table.row([
                name,
                name,
                "1.23 s",
                "x1.234 (1.200 to 1.300)",
                "not once corrected",
            ]);
            let text = table.render();
            let longest = text.lines().map(UnicodeWidthStr::width).max().unwrap();
            assert!(longest <= usize::from(width), "{width}\n{text}");
            for word in ["not once corrected", "x1.234 (1.200 to 1.300)", "PostMark"] {
                assert!(text.contains(word), "{word} at {width}\n{text}");
            }
        }
    }

    #[test]
    fn long_and_hostile_names_are_cut_and_escaped() {
        let mut table = TextTable::new(&[("name", Align::Left), ("n", Align::Right)], 50);
        for _ in 0..200 {
            table.row(["/a\x1b[2J\n".repeat(12_500), "1".to_owned()]);
        }
        let text = table.render();
        assert!(text.len() < 200 * 120 && !text.contains('\x1b'));
        assert_eq!(text.lines().count(), 202);
        assert!(text.contains('…'));
    }

    #[test]
    fn the_middle_is_what_a_long_name_loses() {
        assert_eq!(elided("abcdefghij", 10), "abcdefghij");
        assert_eq!(elided("abcdefghij", 7), "abc…hij");
        assert_eq!(elided("ééééé", 5), "ééééé");
        assert_eq!(elided("字字字字字", 5), "字…字");
        // Never inside a number: it would be another one.
        let spec = "postmark:files=5000,transactions=20000";
        assert_eq!(elided(spec, 36), "postmark:files=…,transactions=20000");
        assert_eq!(elided(spec, 22), "postmark:…=20000");
        for width in 6..38 {
            let cut = elided(spec, width);
            assert!(cut.width() <= width, "{cut}");
            let mut numbers = cut.split(|c: char| !c.is_ascii_digit());
            assert!(numbers.all(|n| ["", "5000", "20000"].contains(&n)), "{cut}");
        }
    }

    #[test]
    fn bars_grow_with_the_share() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 5), "██▌");
    }
}
