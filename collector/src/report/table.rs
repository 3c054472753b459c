//! Columns of text that line up, and that give way to the name when the screen is narrow.

use super::text::{Text, Tone};

/// How a column is set, and what becomes of it on a narrow screen.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    align: Align,
    /// Shortens a name to the room that there is; without it a column is as wide as its widest cell.
    shorten: Option<fn(&str, usize) -> String>,
    /// A name is not given less than this while columns are left that it can do without.
    least: usize,
    /// May be left out: those of the highest rank first.
    rank: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Columns that a name is to have.
const NAME: usize = 32;
/// Blanks between columns.
const BETWEEN: usize = 2;

/// Words.
pub const fn left(head: &'static str) -> Column {
    Column { head, align: Align::Left, shorten: None, least: NAME, rank: None }
}

/// Numbers.
pub const fn right(head: &'static str) -> Column {
    Column { align: Align::Right, ..left(head) }
}

/// Names, shortened by `shorten` to the room that there is, wherever that is limited.
pub const fn names(head: &'static str, shorten: fn(&str, usize) -> String) -> Column {
    Column { shorten: Some(shorten), ..left(head) }
}

impl Column {
    /// Leaves the column out on narrow screens; the one with the highest rank goes first.
    pub const fn or_drop(self, rank: u8) -> Column {
        Column { rank: Some(rank), ..self }
    }

    /// Gives a name that may be this short less room, before other columns are left out for it, or it is itself.
    pub const fn down_to(self, least: usize) -> Column {
        Column { least, ..self }
    }
}

/// Rows of cells under heads.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
}

impl Table {
    /// A table of such columns.
    pub fn new(columns: &[Column]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Text>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, heads first, in at most `width` columns; without a limit where there is none. A column in which nothing
    /// is known of any row is left out.
    pub fn lines(&self, width: Option<usize>) -> Vec<Text> {
        match width {
            None => self.set_out(None),
            Some(width) => self.shortened().set_out(Some(width)),
        }
    }

    /// The table with its names as they are shown where there is all room in the world.
    fn shortened(&self) -> Table {
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.columns).map(|(cell, column)| match column.shorten {
                Some(shorten) => cell.shortened(shorten, usize::MAX),
                None => cell.clone(),
            });
            cells.collect()
        });
        Table { columns: self.columns.clone(), rows: rows.collect() }
    }

    fn set_out(&self, width: Option<usize>) -> Vec<Text> {
        let shown = self.shown(width);
        let head = shown.iter().map(|(column, width)| {
            let head = Text::toned(Tone::Dim, self.columns[*column].head);
            self.set(*column, *width, head)
        });
        let body = self.rows.iter().map(|row| {
            join(shown.iter().map(|(column, width)| {
                let cell = row.get(*column).cloned().unwrap_or_default();
                self.set(*column, *width, cell)
            }))
        });
        let lines = std::iter::once(join(head)).chain(body);
        lines.map(|line| width.map_or(line.clone(), |width| line.clipped(width))).collect()
    }

    /// The columns that are shown, each with its width.
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

    /// Whether the column with this head is drawn, where it is none that a narrow screen leaves out.
    pub fn has(&self, head: &str) -> bool {
        (0..self.columns.len()).any(|column| self.columns[column].head == head && self.is_known(column))
    }

    /// Whether anything is known of any row. Of no row at all, everything is.
    fn is_known(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        self.rows.is_empty() || cells.any(|cell| !cell.is_unknown())
    }

    /// As wide as the widest cell.
    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(Text::width);
        cells.chain([self.columns[column].head.chars().count()]).max().unwrap_or(0)
    }

    /// A cell in its column.
    fn set(&self, column: usize, width: usize, cell: Text) -> Text {
        let column = &self.columns[column];
        let cell = match column.shorten {
            Some(shorten) if cell.width() > width => cell.shortened(shorten, width),
            _ => cell,
        };
        match column.align {
            Align::Left => cell.padded(width),
            Align::Right => {
                let missing = width.saturating_sub(cell.width());
                Text::from(" ".repeat(missing)).then(cell)
            }
        }
    }
}

/// Shares out what the other columns leave among those that shrink, none of them getting more than it can use.
fn share(shown: &mut [(usize, usize)], width: usize, shrinks: impl Fn(usize) -> bool) {
    let between = BETWEEN * shown.len().saturating_sub(1);
    let fixed: usize = shown.iter().filter(|(column, _)| !shrinks(*column)).map(|(_, width)| width).sum();
    let mut room = width.saturating_sub(fixed + between);
    let mut names: Vec<usize> = (0..shown.len()).filter(|at| shrinks(shown[*at].0)).collect();
    // The shortest first: what it does not need is left to the others.
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
    fn a_name_that_may_be_short_shrinks_before_others_go_and_goes_itself_where_it_may() {
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
    fn what_is_known_of_no_row_is_not_drawn() {
        let mut table = Table::new(&[right("count"), right("GB/s")]);
        table.row(cells(["7", "-"]));
        assert!(table.has("count") && !table.has("GB/s") && !table.has("time"));
        assert_eq!(lines(&table, Some(40))[0], "count");
    }

    #[test]
    fn names_share_the_room_and_the_short_one_leaves_its_rest() {
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
