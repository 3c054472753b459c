//! Tables with aligned columns. On a narrow screen, some columns are dropped in favour of the name.

use super::names::distinct;
use super::text::{Text, Tone};

/// How a column is aligned, and what happens to it on a narrow screen.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    align: Align,
    /// Shortens a name to the available width; names that differ stay different. Without it, a column is as wide as its
    /// widest cell.
    shorten: Option<fn(&str, usize) -> String>,
    /// The width below which a name is not shortened while other columns can be dropped instead.
    least: usize,
    /// The column may be dropped; the highest rank is dropped first.
    rank: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// The default minimum width of a name, in columns.
const NAME: usize = 32;
/// The number of blanks between columns.
const BETWEEN: usize = 2;

/// Returns a left-aligned column, for words.
pub const fn left(head: &'static str) -> Column {
    Column { head, align: Align::Left, shorten: None, least: NAME, rank: None }
}

/// Returns a right-aligned column, for numbers.
pub const fn right(head: &'static str) -> Column {
    Column { align: Align::Right, ..left(head) }
}

/// Returns a column of names, which `shorten` fits to the available width.
pub const fn names(head: &'static str, shorten: fn(&str, usize) -> String) -> Column {
    Column { shorten: Some(shorten), ..left(head) }
}

impl Column {
    /// Allows the column to be dropped on narrow screens; the highest rank is dropped first.
    pub const fn or_drop(self, rank: u8) -> Column {
        Column { rank: Some(rank), ..self }
    }

    /// Sets the minimum width of a name: it is shortened to this before other columns, or the name itself, are dropped.
    pub const fn down_to(self, least: usize) -> Column {
        Column { least, ..self }
    }
}

/// Rows of cells below column heads.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub fn new(columns: &[Column]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, which must have as many cells as the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Text>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the lines, heads first, in at most `width` columns if there is a limit. A column without a known value in any
    /// row is left out.
    pub fn lines(&self, width: Option<usize>) -> Vec<Text> {
        match width {
            None => self.set_out(None),
            Some(width) => self.shortened().set_out(Some(width)),
        }
    }

    /// Returns the table with names as they are shown without any limit of width.
    fn shortened(&self) -> Table {
        let mut rows = self.rows.clone();
        for (column, _) in self.columns.iter().enumerate().filter(|(_, column)| column.shorten.is_some()) {
            let cells = self.cells(column, usize::MAX, |_| true);
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row[column] = cell);
        }
        Table { columns: self.columns.clone(), rows }
    }

    fn set_out(&self, width: Option<usize>) -> Vec<Text> {
        let shown = self.shown(width);
        let head = shown.iter().map(|(column, width)| {
            let head = Text::toned(Tone::Dim, self.columns[*column].head);
            self.set(*column, *width, head)
        });
        let columns: Vec<Vec<Text>> = shown
            .iter()
            .map(|(column, width)| self.cells(*column, *width, |cell| cell.width() > *width))
            .collect();
        let body = (0..self.rows.len()).map(|row| {
            join(
                shown
                    .iter()
                    .zip(&columns)
                    .map(|((column, width), cells)| self.set(*column, *width, cells[row].clone())),
            )
        });
        let lines = std::iter::once(join(head)).chain(body);
        lines.map(|line| width.map_or(line.clone(), |width| line.clipped(width))).collect()
    }

    /// Returns the columns that are shown, each with its width.
    fn shown(&self, width: Option<usize>) -> Vec<(usize, usize)> {
        let known = (0..self.columns.len()).filter(|column| self.is_known(*column));
        let mut shown: Vec<(usize, usize)> = known.map(|column| (column, self.natural(column))).collect();
        let Some(width) = width else { return shown };
        let shrinks = |column: usize| self.columns[column].shorten.is_some();
        let rank = |column: usize| self.columns[column].rank;
        let needed = |shown: &[(usize, usize)]| -> usize {
            let least = |(column, width): &(usize, usize)| {
                if shrinks(*column) { (*width).min(self.columns[*column].least) } else { *width }
            };
            shown.iter().map(least).sum::<usize>() + BETWEEN * shown.len().saturating_sub(1)
        };
        while needed(&shown) > width
            && let Some(least) = shown.iter().filter_map(|(column, _)| rank(*column)).max()
        {
            shown.retain(|(column, _)| rank(*column) != Some(least));
        }
        share(&mut shown, width, shrinks);
        shown
    }

    /// Returns whether the column with this head is drawn, unless a narrow screen drops it.
    pub fn has(&self, head: &str) -> bool {
        (0..self.columns.len()).any(|column| self.columns[column].head == head && self.is_known(column))
    }

    /// Returns whether any row has a known value. In a table without rows, all columns count as known.
    fn is_known(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        self.rows.is_empty() || cells.any(|cell| !cell.is_unknown())
    }

    /// Returns the width of the widest cell.
    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(Text::width);
        cells.chain([self.columns[column].head.chars().count()]).max().unwrap_or(0)
    }

    /// Returns the cells of a column. Those that `is_long` selects are shortened to its width.
    fn cells(&self, column: usize, width: usize, is_long: impl Fn(&Text) -> bool) -> Vec<Text> {
        let cells = self.rows.iter().map(|row| row.get(column).cloned().unwrap_or_default());
        let cells: Vec<Text> = cells.collect();
        let Some(shorten) = self.columns[column].shorten.filter(|_| cells.iter().any(&is_long)) else {
            return cells;
        };
        let names: Vec<String> = cells.iter().map(Text::characters).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let long = |name: &str| is_long(&Text::from(name));
        let short = distinct(
            &names,
            width,
            |name, width| {
                if long(name) { shorten(name, width) } else { name.to_owned() }
            },
        );
        cells.iter().zip(short).map(|(cell, short)| cell.replaced(short)).collect()
    }

    /// Returns a cell aligned for its column.
    fn set(&self, column: usize, width: usize, cell: Text) -> Text {
        let column = &self.columns[column];
        match column.align {
            Align::Left => cell.padded(width),
            Align::Right => {
                let missing = width.saturating_sub(cell.width());
                Text::from(" ".repeat(missing)).then(cell)
            }
        }
    }
}

/// Distributes the width that the other columns leave among the columns that shrink. None gets more than it can use.
fn share(shown: &mut [(usize, usize)], width: usize, shrinks: impl Fn(usize) -> bool) {
    let between = BETWEEN * shown.len().saturating_sub(1);
    let fixed: usize = shown.iter().filter(|(column, _)| !shrinks(*column)).map(|(_, width)| width).sum();
    let mut room = width.saturating_sub(fixed + between);
    let mut names: Vec<usize> = (0..shown.len()).filter(|at| shrinks(shown[*at].0)).collect();
    // The shortest comes first: what it does not need is left for the others.
    names.sort_by_key(|at| shown[*at].1);
    for (given, at) in names.iter().enumerate() {
        let fair = room / (names.len() - given);
        shown[*at].1 = shown[*at].1.min(fair);
        room -= shown[*at].1;
    }
}

fn join(cells: impl Iterator<Item = Text>) -> Text {
    let mut line = Text::default();
    for (index, cell) in cells.enumerate() {
        let between = if index > 0 { BETWEEN } else { 0 };
        line = line.then(" ".repeat(between)).then(cell);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::names::cut;
    use super::*;

    fn lines(table: &Table, width: Option<usize>) -> Vec<String> {
        table.lines(width).iter().map(|line| line.render(false, false)).collect()
    }

    fn cells<const N: usize>(cells: [&str; N]) -> [Text; N] {
        cells.map(Text::from)
    }

    #[test]
    fn columns_line_up_and_lines_end_with_text() {
        let mut table = Table::new(&[right("count"), left("unit"), left("name")]);
        table.row(cells(["7", "µs", "x"]));
        table.row(cells(["12", "ns", ""]));
        table.row(cells(["1", "世", "wide"]));
        assert_eq!(
            lines(&table, None),
            ["count  unit  name", "    7  µs    x", "   12  ns", "    1  世    wide"]
        );
    }

    #[test]
    fn a_narrow_screen_leaves_out_what_matters_least_and_then_shortens_names() {
        let mut table = Table::new(&[
            right("total"),
            right("min").or_drop(2),
            right("avg").or_drop(1),
            names("name", cut),
        ]);
        table.row(cells(["1.00 ms", "10.0 µs", "20.0 µs", "a_kernel_with_a_rather_long_name_indeed"]));
        assert_eq!(lines(&table, Some(80))[0], "  total      min      avg  name");
        assert_eq!(lines(&table, Some(55))[0], "  total      avg  name", "the name keeps 32");
        assert_eq!(lines(&table, Some(45))[0], "  total  name");
        assert_eq!(lines(&table, Some(24)), ["  total  name", "1.00 ms  a_kernel_..deed"]);
        assert_eq!(lines(&table, None), lines(&table, Some(80)));
    }

    #[test]
    fn a_name_shrinks_to_its_minimum_before_columns_are_dropped() {
        let table = |last: Column| {
            let mut table = Table::new(&[right("total"), right("avg").or_drop(2), last]);
            table.row(cells(["1.00 ms", "20.0 µs", "a_name_of_thirty_two_characters_"]));
            lines(&table, Some(40)).remove(1)
        };
        assert_eq!(table(names("name", cut)), "1.00 ms  a_name_of_thirty_two..aracters_");
        assert_eq!(table(names("name", cut).down_to(20)), "1.00 ms  20.0 µs  a_name_of_thir..cters_");
        assert_eq!(table(names("name", cut).down_to(23).or_drop(3)), "1.00 ms  20.0 µs");
    }

    #[test]
    fn a_column_without_known_values_is_not_drawn() {
        let mut table = Table::new(&[right("count"), right("GB/s")]);
        table.row(cells(["7", "-"]));
        assert!(table.has("count") && !table.has("GB/s") && !table.has("time"));
        assert_eq!(lines(&table, Some(40))[0], "count");
    }

    #[test]
    fn names_share_the_width_that_short_ones_do_not_need() {
        let mut table = Table::new(&[names("a", cut), names("b", cut), names("c", cut)]);
        table.row(cells(["xy", "0123456789", "0123456789"]));
        assert_eq!(lines(&table, Some(20))[1], "xy  0123..9  0123..9");
    }

    #[test]
    fn no_line_is_longer_than_the_screen() {
        let mut table = Table::new(&[right("total"), names("name", cut), left("library")]);
        table.row(cells(["1.00 ms", "kernel", "libtorch_cuda.so"]));
        for width in 0..40 {
            assert!(table.lines(Some(width)).iter().all(|line| line.width() <= width), "{width}");
        }
    }
}
