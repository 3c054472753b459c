//! Which columns does a table have, and where do their values come from?

use std::sync::Arc;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whole numbers.
    Number,
    /// Numbers with a fraction.
    Fraction,
    /// Yes or no.
    Flag,
    /// Texts.
    Text,
}

/// A value of a shared row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cell {
    /// Not known, or without a meaning.
    #[default]
    Null,
    Number(i64),
    Fraction(f64),
    Flag(bool),
    Text(Arc<str>),
}

impl Cell {
    /// A text, if there is one.
    pub fn text(text: Option<impl AsRef<str>>) -> Cell {
        text.map_or(Cell::Null, |text| Cell::Text(text.as_ref().into()))
    }

    /// A number, if there is one. One that is too large is the largest.
    pub fn number(number: Option<impl TryInto<i64>>) -> Cell {
        number.map_or(Cell::Null, |number| Cell::Number(fitted(number)))
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Cell>() + if let Cell::Text(text) = self { text.len() } else { 0 }
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Cell {
        Cell::Flag(flag)
    }
}

/// Returns a number as columns have it: the largest, if it is too large.
pub(super) fn fitted(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
    pub from: Values,
}

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Each row has a number of its own: this one.
    Own(usize),
    /// Rows share rows of several values, and this is one of those of a group.
    Shared {
        /// The number of the group.
        group: usize,
        /// The place among the group's values.
        at: usize,
    },
}

/// The columns of a table, in order.
///
/// What many rows have in common (the name of a kernel with its grid, the line and the stack of a call) is in a *group* of
/// columns: a row names an entry of it by a number, and all columns of the group share those numbers in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub table: String,
    pub columns: Vec<Column>,
    /// The number of columns with a number for each row.
    pub own: usize,
    /// The number of columns of each group.
    pub groups: Vec<usize>,
}

impl Layout {
    /// A table without columns yet.
    pub fn new(table: impl Into<String>) -> Layout {
        Layout { table: table.into(), ..Layout::default() }
    }

    /// Adds columns with a number for each row.
    pub fn own(mut self, names: &[&str]) -> Layout {
        for name in names {
            let (name, kind, from) = ((*name).to_owned(), Kind::Number, Values::Own(self.own));
            self.columns.push(Column { name, kind, from });
            self.own += 1;
        }
        self
    }

    /// Adds a group of columns.
    pub fn group<N: Into<String>>(mut self, columns: impl IntoIterator<Item = (N, Kind)>) -> Layout {
        let group = self.groups.len();
        let mut at = 0;
        for (name, kind) in columns {
            self.columns.push(Column { name: name.into(), kind, from: Values::Shared { group, at } });
            at += 1;
        }
        self.groups.push(at);
        self
    }
}
