//! The screen as a list of lines, and how figures are formatted.

use crate::analyze::estimate::Estimate;
use crate::report::names;
use crate::report::rows::source_lines::MainLine;
use crate::report::table::Table;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent};
use crate::report::view::{NARROWEST, Style, View};

/// The column at which a section's sentences start, after its title.
const INDENT: usize = 11;
/// The column at which a section's tables start.
const INNER: usize = 2;

/// The share from which on a line is shown as the one that all comes from.
const WHOLE: f64 = 0.995;

/// A screen that is being drawn.
pub struct Screen<'a> {
    /// Which sections and rows are shown.
    pub view: &'a View,
    /// Width, colours and character set.
    pub style: &'a Style,
    /// Filters limit the report to a part of the trace.
    is_limited: bool,
    lines: Vec<Text>,
}

impl<'a> Screen<'a> {
    /// Returns an empty screen. `is_limited` means that filters are set.
    pub fn new(view: &'a View, style: &'a Style, is_limited: bool) -> Self {
        Screen { view, style, is_limited, lines: Vec::new() }
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.style.width.max(NARROWEST)
    }

    /// Returns the columns that pictures and tables have.
    pub fn inner(&self) -> usize {
        self.width() - INNER
    }

    /// Adds a sentence as wide as the screen.
    pub fn line(&mut self, text: impl Into<Text>) {
        self.lines.extend(text.into().wrapped(self.width()));
    }

    /// Adds lines as they are.
    pub fn push(&mut self, lines: impl IntoIterator<Item = Text>) {
        self.lines.extend(lines);
    }

    /// Returns the number of lines so far.
    pub fn height(&self) -> usize {
        self.lines.len()
    }

    /// Starts a section with an empty line, then its title next to its first sentence.
    pub fn section(&mut self, title: &str, sentence: impl Into<Text>) {
        self.lines.push(Text::default());
        self.titled(title, INDENT, sentence);
    }

    /// Adds a title and its text, which starts at column `indent`, without an empty line before them.
    pub fn titled(&mut self, title: &str, indent: usize, text: impl Into<Text>) {
        let mut before = Text::toned(Tone::Title, title);
        for line in text.into().wrapped(self.width() - indent) {
            self.lines.push(std::mem::take(&mut before).padded(indent).then(line));
        }
    }

    /// Adds another sentence to the section.
    pub fn more(&mut self, sentence: impl Into<Text>) {
        self.titled("", INDENT, sentence);
    }

    /// Adds two sentences, on one line if they fit.
    pub fn joined(&mut self, [one, two]: [Text; 2]) {
        let both = one.clone().then("; ").then(two.clone());
        if both.width() <= self.width() - INDENT {
            return self.more(both);
        }
        self.more(one);
        self.more(two);
    }

    /// Adds a section that has nothing to show, if the user selected sections.
    pub fn none(&mut self, title: &str, sentence: &str) {
        if self.view.is_selected() {
            self.section(title, self.limited(sentence));
        }
    }

    /// Returns a sentence that says that there is nothing, with the restriction that filters are set.
    pub fn limited(&self, sentence: &str) -> String {
        let limits = if self.is_limited { " with these filters" } else { "" };
        format!("{sentence}{limits}")
    }

    /// Adds a picture.
    pub fn picture(&mut self, picture: Text) {
        self.lines.push(Text::from(" ".repeat(INNER)).then(picture));
    }

    /// Adds a table. If some of its rows are hidden, the line below says how many, and with which option they are shown.
    pub fn table(&mut self, table: &Table, hidden: usize, section: &str) {
        let limit = (!self.style.full_names).then(|| self.inner());
        table.lines(limit).into_iter().for_each(|line| self.picture(line));
        if hidden > 0 {
            let rest = count(hidden as u64);
            self.remark(&match (self.view.is_selected(), self.view.top) {
                (false, None) => format!("and {rest} more: --section {section}"),
                _ => format!("and {rest} more"),
            });
        }
    }

    /// Adds a remark on the table above.
    pub fn remark(&mut self, remark: &str) {
        self.titled("", INNER, dim(remark));
    }

    /// Whether a text is on the screen.
    pub fn has(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.characters().contains(text))
    }

    /// Returns the lines that say something, without blanks around them.
    pub fn sentences(&self) -> Vec<String> {
        let lines = self.lines.iter().map(|line| line.characters().trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// Returns all lines as they are printed, with a legend if a figure of a section is marked with [`WIDE`].
    pub fn text(&mut self) -> String {
        if !self.view.sections.is_empty() && self.lines.iter().any(|line| has_wide_figure(&line.characters()))
        {
            let meaning =
                "marks a figure whose bounds (in --json) are further apart than a fifth of its value";
            self.lines.push(Text::default());
            self.line(dim(format!("{WIDE} {meaning}")));
        }
        let lines = self.lines.iter().map(|line| line.render(self.style.color, self.style.ascii) + "\n");
        lines.collect()
    }
}

/// Returns whether a figure in a line is marked with [`WIDE`].
pub fn has_wide_figure(line: &str) -> bool {
    let mut after = line.split(WIDE).skip(1);
    after.any(|text| text.starts_with(|c: char| c.is_ascii_digit() || c == '<'))
}

/// What a cell shows where nothing is known.
pub const NONE: &str = "-";

/// Formats a time for a cell.
pub fn time(ns: Option<u64>) -> Text {
    ns.map_or_else(|| NONE.to_owned(), duration).into()
}

/// The sign before a figure whose bounds are further apart than a fifth of its value.
pub const WIDE: &str = "~";

/// Formats a time that has bounds, for a sentence.
pub fn about(ns: impl Into<Estimate<u64>>) -> String {
    let ns = ns.into();
    format!("{}{}", mark(ns), duration(ns.value))
}

/// Formats a time that has bounds as a share of a whole.
pub fn about_share(ns: impl Into<Estimate<u64>>, whole: u64) -> String {
    let ns = ns.into();
    format!("{}{}", mark(ns), percent(ns.value, whole))
}

fn mark(ns: Estimate<u64>) -> &'static str {
    if ns.is_wide() { WIDE } else { "" }
}

/// Formats a time that has bounds, for a cell.
pub fn estimate(ns: Option<impl Into<Estimate<u64>>>) -> Text {
    ns.map_or_else(|| NONE.to_owned(), about).into()
}

/// Formats the line of the program that most of a row comes from, with its share unless that is all.
pub fn line(main: &MainLine) -> Text {
    let Some(place) = main.line.as_deref().map(names::line) else { return dim(NONE) };
    match main.line_share {
        Some(share) if share < WHOLE => Text::from(place).then(dim(format!(" {:.0}%", share * 100.0))),
        _ => place.into(),
    }
}

/// Formats a count for a cell.
pub fn number(n: u64) -> Text {
    count(n).into()
}

/// Returns the bounds of a time, to be printed after its best estimate. Returns nothing if both bounds print the same.
pub fn interval(lo: u64, hi: u64) -> Text {
    let (lo, hi) = (duration(lo), duration(hi));
    if lo == hi { Text::default() } else { dim(format!(" ({lo} to {hi})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_with_bounds_wider_than_a_fifth_are_marked() {
        let said = |lo, value, hi| about(Estimate::new(value, lo, hi));
        assert_eq!([said(90, 100, 110), said(89, 100, 110)], ["100 ns", "~100 ns"]);
        assert_eq!([said(0, 0, 0), said(0, 0, 1)], ["0 ns", "~0 ns"]);
        assert!(
            has_wide_figure("  1  ~1.00 us")
                && has_wide_figure("~<0.1")
                && !has_wide_figure("~Matrix() .. ~~~ 12")
        );
    }

    #[test]
    fn bounds_that_print_the_same_are_omitted() {
        let said = |lo, hi| interval(lo, hi).render(false, false);
        assert_eq!(said(112_000_100, 112_000_200), "");
        assert_eq!(said(112_000_000, 113_000_000), " (112 ms to 113 ms)");
    }
}
