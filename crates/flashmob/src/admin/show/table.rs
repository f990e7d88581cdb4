//! Columns that line up. It knows nothing of what stands in them.

use super::units::shortened;

/// To which side the cells of a column lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// How a cell is drawn where colours can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Good,
    Doubtful,
    Bad,
}

impl Colour {
    /// `text` in this colour.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Colour::Plain => return text.to_string(),
            Colour::Good => 32,
            Colour::Doubtful => 33,
            Colour::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// One line of cells.
pub(crate) type Row = Vec<(String, Colour)>;

/// Rows under a heading. The first column gives way when all of it would be too wide.
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Row>,
}

/// The first column keeps at least this.
const FIRST_MIN: usize = 8;

impl Table {
    /// A table whose columns lean as `sides` say.
    pub(crate) fn new(sides: &[Side]) -> Table {
        Table { sides: sides.to_vec(), rows: Vec::new() }
    }

    /// A row without colours; the heading is one, or two.
    pub(crate) fn plain<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.row(cells.into_iter().map(|cell| (cell.into(), Colour::Plain)).collect());
    }

    pub(crate) fn row(&mut self, cells: Row) {
        self.rows.push(cells);
    }

    /// The lines, each at most `width` columns as long as the columns but the first leave room for [`FIRST_MIN`].
    pub(crate) fn lines(&self, width: usize, colour: bool) -> Vec<String> {
        let mut widths: Vec<usize> = (0..self.sides.len())
            .map(|c| {
                self.rows.iter().filter_map(|row| row.get(c)).map(|(text, _)| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let gaps = widths.len().saturating_sub(1);
        let others: usize = widths.iter().skip(1).sum();
        let wanted = widths.first().copied().unwrap_or(0);
        let gap = if wanted + others + 2 * gaps <= width { 2 } else { 1 };
        if let Some(first) = widths.first_mut() {
            *first = wanted.min(width.saturating_sub(others + gap * gaps).max(FIRST_MIN));
        }
        self.rows.iter().map(|row| self.line(row, &widths, gap, colour)).collect()
    }

    fn line(&self, row: &Row, widths: &[usize], gap: usize, colour: bool) -> String {
        let mut line = String::new();
        for (i, (((text, paint), &width), side)) in row.iter().zip(widths).zip(&self.sides).enumerate() {
            let text = shortened(text, width);
            let pad = " ".repeat(width - text.chars().count());
            let text = if colour { paint.paint(&text) } else { text };
            let space = " ".repeat(if i > 0 { gap } else { 0 });
            line += &match side {
                Side::Left => format!("{space}{text}{pad}"),
                Side::Right => format!("{space}{pad}{text}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Table {
        let mut table = Table::new(&[Side::Left, Side::Right]);
        table.plain(["name", "n"]);
        table.row(vec![(name.to_string(), Colour::Good), ("100".to_string(), Colour::Plain)]);
        table
    }

    #[test]
    fn columns_line_up_and_no_line_ends_in_spaces() {
        assert_eq!(table("tablet").lines(80, false), ["name      n", "tablet  100"]);
        assert_eq!(Table::new(&[]).lines(80, false), [""; 0]);
    }

    #[test]
    fn a_colour_takes_no_room() {
        assert_eq!(table("tablet").lines(80, true), ["name      n", "\x1b[32mtablet\x1b[0m  100"]);
    }

    #[test]
    fn first_the_gap_and_then_the_first_column_give_way() {
        let name = "0123456789abcdef";
        for (width, expected) in [
            (21, "0123456789abcdef  100"),
            (20, "0123456789abcdef 100"),
            (19, "0123456…9abcdef 100"),
            (3, "012…cdef 100"),
        ] {
            let lines = table(name).lines(width, false);
            assert_eq!(lines[1], expected, "{width}");
            assert_eq!(lines[0].len(), expected.chars().count());
        }
    }
}
