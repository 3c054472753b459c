//! Columns of text that line up.

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells; a header first, if any.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

/// Blanks between columns.
const BETWEEN: usize = 2;

impl Table {
    /// A table of such columns.
    pub fn new(columns: &[Align]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as the table has columns.
    pub fn row<Cell: Into<String>>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Rewrites a column, its header left as it is.
    pub fn map_column(&mut self, column: usize, rewrite: impl Fn(&str) -> String) {
        for cell in self.rows.iter_mut().skip(1).filter_map(|row| row.get_mut(column)) {
            *cell = rewrite(cell);
        }
    }

    /// Columns that the columns before `last` take, with the space behind each.
    pub fn width_before(&self, last: usize) -> usize {
        (0..last).map(|column| self.width(column) + BETWEEN).sum()
    }

    /// The lines, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).zip(&self.columns).map(|((cell, width), align)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            let line: Vec<String> = cells.collect();
            line.join(&" ".repeat(BETWEEN)).trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_with_text() {
        let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
        table.row(["count", "unit", "name"]);
        table.row(["7", "µs", "x"]);
        table.row(["12", "ns", ""]);
        assert_eq!(table.lines(), ["count  unit  name", "    7  µs    x", "   12  ns"]);
        assert_eq!(table.width_before(2), 13);
    }
}
