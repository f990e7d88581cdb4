//! Columns that line up. It knows nothing of what stands in them.

use crate::{columns, shortened};

/// To which side the cells of a column lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How a cell is drawn where colours can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// In none.
    Plain,
    /// Green.
    Good,
    /// Yellow.
    Doubtful,
    /// Red.
    Bad,
}

impl Colour {
    /// `text` in this colour.
    #[must_use]
    pub fn paint(self, text: &str) -> String {
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
pub type Row = Vec<(String, Colour)>;

/// Rows under a heading. The first column gives way when all of it would be too wide.
#[derive(Debug)]
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Row>,
}

/// The first column keeps at least this.
const FIRST_MIN: usize = 8;

impl Table {
    /// A table whose columns lean as `sides` say.
    #[must_use]
    pub fn new(sides: &[Side]) -> Table {
        Table { sides: sides.to_vec(), rows: Vec::new() }
    }

    /// A row without colours; the heading is one, or two.
    pub fn plain<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.row(cells.into_iter().map(|cell| (cell.into(), Colour::Plain)).collect());
    }

    /// A row.
    pub fn row(&mut self, cells: Row) {
        self.rows.push(cells);
    }

    /// The lines, each at most `width` columns as long as the columns but the first leave room for [`FIRST_MIN`].
    #[must_use]
    pub fn lines(&self, width: usize, colour: bool) -> Vec<String> {
        self.fitted(width, FIRST_MIN, colour)
    }

    /// Two blanks between columns, or one where the room asks for it; then the first column gives way down to `first_min`.
    fn fitted(&self, width: usize, first_min: usize, colour: bool) -> Vec<String> {
        let widest = |c: usize| self.rows.iter().filter_map(|row| row.get(c)).map(|(text, _)| columns(text)).max();
        let mut widths: Vec<usize> = (0..self.sides.len()).map(|c| widest(c).unwrap_or(0)).collect();
        let gaps = widths.len().saturating_sub(1);
        let others: usize = widths.iter().skip(1).sum();
        let wanted = widths.first().copied().unwrap_or(0);
        let gap = if wanted + others + 2 * gaps <= width { 2 } else { 1 };
        if let Some(first) = widths.first_mut() {
            *first = wanted.min(width.saturating_sub(others + gap * gaps).max(first_min));
        }
        self.rows.iter().map(|row| self.line(row, &widths, gap, colour)).collect()
    }

    fn line(&self, row: &Row, widths: &[usize], gap: usize, colour: bool) -> String {
        let mut line = String::new();
        for (i, (((text, paint), &width), side)) in row.iter().zip(widths).zip(&self.sides).enumerate() {
            let text = shortened(text, width);
            let pad = " ".repeat(width.saturating_sub(columns(&text)));
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

/// Rows as lines that begin with `indent`, the first `words` columns flush left and the others right; one blank between columns where two would
/// take more than `width`. No cell is shortened, and a row may have fewer cells than others.
#[must_use]
pub fn aligned(rows: &[Vec<String>], words: usize, indent: &str, width: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut table =
        Table::new(&[vec![Side::Left; words.min(columns)], vec![Side::Right; columns.saturating_sub(words)]].concat());
    rows.iter().for_each(|row| table.plain(row.iter().cloned()));
    let lines = table.fitted(width.saturating_sub(indent.len()), usize::MAX, false);
    lines.iter().map(|line| format!("{}\n", format!("{indent}{line}").trim_end())).collect()
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

    #[test]
    fn wide_names_keep_the_columns_straight() {
        assert_eq!(table("タブ").lines(80, false), ["name    n", "タブ  100"]);
        assert_eq!(table("タブレット端末の台所").lines(15, false)[1], "タブ…の台所 100");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows = [vec!["order", "", "p50"], vec!["random", "!", "1235"], vec!["all"]];
        let rows = rows.map(|row| row.into_iter().map(String::from).collect());
        assert_eq!(aligned(&rows, 1, "  ", 80), "  order       p50\n  random  !  1235\n  all\n");
        assert_eq!(aligned(&rows, 1, "  ", 16), "  order     p50\n  random ! 1235\n  all\n");
        assert_eq!(aligned(&rows, 9, "", 1), "order    p50\nrandom ! 1235\nall\n", "nothing is shortened");
        assert_eq!(aligned(&[], 1, "", 80), "");
    }
}
