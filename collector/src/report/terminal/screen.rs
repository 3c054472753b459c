//! Lines that grow into a screen, and how figures stand in cells.

use crate::analyze::estimate::Estimate;
use crate::report::table::Table;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent};
use crate::report::view::{NARROWEST, Style, View};

/// Column at which a section's sentences begin, behind its title.
const INDENT: usize = 11;
/// Column at which its tables begin.
const INNER: usize = 2;

/// A screen that is being drawn.
pub struct Screen<'a> {
    /// What is shown.
    pub view: &'a View,
    /// How.
    pub style: &'a Style,
    /// What is drawn is a part of what the trace holds.
    is_limited: bool,
    lines: Vec<Text>,
}

impl<'a> Screen<'a> {
    /// An empty one; `is_limited` if a part of what the trace holds will be drawn.
    pub fn new(view: &'a View, style: &'a Style, is_limited: bool) -> Self {
        Screen { view, style, is_limited, lines: Vec::new() }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.style.width.max(NARROWEST)
    }

    /// Columns for pictures and tables.
    pub fn inner(&self) -> usize {
        self.width() - INNER
    }

    /// A sentence as broad as the screen.
    pub fn line(&mut self, text: impl Into<Text>) {
        self.lines.extend(text.into().wrapped(self.width()));
    }

    /// A section: its title beside its first sentence, an empty line before it.
    pub fn section(&mut self, title: &str, sentence: impl Into<Text>) {
        self.lines.push(Text::default());
        self.titled(title, INDENT, sentence);
    }

    /// A title and what it says, `indent` columns to the right; no empty line before it.
    pub fn titled(&mut self, title: &str, indent: usize, text: impl Into<Text>) {
        let mut before = Text::toned(Tone::Title, title);
        for line in text.into().wrapped(self.width() - indent) {
            self.lines.push(std::mem::take(&mut before).padded(indent).then(line));
        }
    }

    /// Another sentence of the section.
    pub fn more(&mut self, sentence: impl Into<Text>) {
        self.titled("", INDENT, sentence);
    }

    /// Two sentences: on one line where there is room.
    pub fn joined(&mut self, [one, two]: [Text; 2]) {
        let both = one.clone().then("; ").then(two.clone());
        if both.width() <= self.width() - INDENT {
            return self.more(both);
        }
        self.more(one);
        self.more(two);
    }

    /// A section that has nothing to show says so where it was asked for.
    pub fn none(&mut self, title: &str, sentence: &str) {
        if !self.view.sections.is_empty() {
            self.section(title, self.limited(sentence));
        }
    }

    /// That there is nothing may hold within the limits only.
    pub fn limited(&self, sentence: &str) -> String {
        let limits = if self.is_limited { " within these limits" } else { "" };
        format!("{sentence}{limits}")
    }

    /// A picture.
    pub fn picture(&mut self, picture: Text) {
        self.lines.push(Text::from(" ".repeat(INNER)).then(picture));
    }

    /// A table, and how many of its rows there was no room for: told with the option that shows them.
    pub fn table(&mut self, table: &Table, hidden: usize, section: &str) {
        let limit = (!self.style.full_names).then(|| self.inner());
        table.lines(limit).into_iter().for_each(|line| self.picture(line));
        if hidden > 0 {
            let rest = count(hidden as u64);
            self.remark(&match (self.view.sections.is_empty(), self.view.top) {
                (true, None) => format!("and {rest} more: --section {section}"),
                _ => format!("and {rest} more"),
            });
        }
    }

    /// A remark on the table above.
    pub fn remark(&mut self, remark: &str) {
        self.titled("", INNER, dim(remark));
    }

    /// All lines, as they are printed, and what the sign means that some figures bear.
    pub fn text(&mut self) -> String {
        if self.lines.iter().any(|line| bears_mark(&line.characters())) {
            let meaning = "before a figure: its interval, in --json, is wider than a fifth of it";
            self.lines.push(Text::default());
            self.line(dim(format!("{WIDE} {meaning}")));
        }
        let lines = self.lines.iter().map(|line| line.render(self.style.color, self.style.ascii) + "\n");
        lines.collect()
    }
}

/// Whether a figure of a line is marked as [`WIDE`].
fn bears_mark(line: &str) -> bool {
    let mut behind = line.split(WIDE).skip(1);
    behind.any(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '<'))
}

/// What stands where nothing is known.
pub const NONE: &str = "-";

/// A time in a cell.
pub fn time(ns: Option<u64>) -> Text {
    ns.map_or_else(|| NONE.to_owned(), duration).into()
}

/// Stands before every figure whose interval is wider than a fifth of it.
pub const WIDE: &str = "~";

/// A time that is not known exactly, in a sentence.
pub fn about(ns: Estimate<u64>) -> String {
    format!("{}{}", mark(ns), duration(ns.value))
}

/// The same as a share of a whole.
pub fn about_share(ns: Estimate<u64>, whole: u64) -> String {
    format!("{}{}", mark(ns), percent(ns.value, whole))
}

fn mark(ns: Estimate<u64>) -> &'static str {
    if ns.is_wide() { WIDE } else { "" }
}

/// The same in a cell.
pub fn estimate(ns: Option<Estimate<u64>>) -> Text {
    ns.map_or_else(|| NONE.to_owned(), about).into()
}

/// A count in a cell.
pub fn number(n: u64) -> Text {
    count(n).into()
}

/// The interval that holds a time, behind its best value; nothing where both ends read the same.
pub fn interval(lo: u64, hi: u64) -> Text {
    let (lo, hi) = (duration(lo), duration(hi));
    if lo == hi { Text::default() } else { dim(format!(" ({lo} to {hi})")) }
}

/// One or many: `1 gap`, `7 gaps`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_no_better_than_a_fifth_is_marked() {
        let said = |lo, value, hi| about(Estimate::new(value, lo, hi));
        assert_eq!([said(90, 100, 110), said(89, 100, 110)], ["100 ns", "~100 ns"]);
        assert_eq!([said(0, 0, 0), said(0, 0, 1)], ["0 ns", "~0 ns"]);
        assert!(bears_mark("  1  ~1.00 us") && bears_mark("~<0.1") && !bears_mark("~Matrix() .. ~~~ 12"));
    }

    #[test]
    fn an_interval_whose_ends_read_the_same_is_not_told() {
        let said = |lo, hi| interval(lo, hi).render(false, false);
        assert_eq!(said(112_000_100, 112_000_200), "");
        assert_eq!(said(112_000_000, 113_000_000), " (112 ms to 113 ms)");
    }
}
