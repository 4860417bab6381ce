//! How tables are laid out: borderless, numbers to the right, never wider than the terminal.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table in the making.
#[derive(Debug)]
pub struct TextTable {
    table: Table,
    align: Vec<Align>,
}

impl TextTable {
    /// A table with these column titles, laid out for `width` characters.
    pub fn new(columns: &[(&str, Align)], width: u16) -> Self {
        let mut table = Table::new();
        table
            .load_style(
                TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')),
            )
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.max(40));
        let align: Vec<Align> = columns.iter().map(|c| c.1).collect();
        table.set_header(
            columns
                .iter()
                .map(|(title, align)| Cell::new(title).set_alignment(to_cell(*align))),
        );
        for (index, (title, align)) in columns.iter().enumerate() {
            if let (Align::Right, Some(column)) = (align, table.column_mut(index)) {
                let title = title.chars().count() as u16;
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
                    title.max(6) + 2,
                )));
            }
        }
        Self { table, align }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row<I, S>(&mut self, cells: I)
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let align = &self.align;
        self.table
            .add_row(cells.into_iter().enumerate().map(|(i, text)| {
                Cell::new(text.into())
                    .set_alignment(to_cell(align.get(i).copied().unwrap_or(Align::Left)))
            }));
    }

    /// The text, without trailing blanks, ending with a line feed.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for line in self.table.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

fn to_cell(align: Align) -> CellAlignment {
    match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    }
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

    #[test]
    fn bars_grow_with_the_share() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 5), "██▌");
    }
}
