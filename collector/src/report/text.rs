//! Text with tones: the content of a line of the screen or a cell of a table.
//!
//! A tone is a meaning, not a look. [`Text::render`] turns tones into colours or drops them.

use super::names::{char_width, plain};
use std::fmt::Write;

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// The title of a section.
    Title,
    /// Details that can be skipped: bounds, heads of columns.
    Dim,
    /// The GPU computes.
    Work,
    /// The GPU moves data while nothing computes.
    Move,
    /// Wasted time, and whatever makes figures doubtful.
    Waste,
    /// Something is wrong.
    Problem,
}

impl Tone {
    /// Returns the parameters of "select graphic rendition" (ECMA-48). It uses the 16 colours that every theme sets.
    fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Title => "1",
            Tone::Dim => "2",
            Tone::Work => "32",
            Tone::Move => "34",
            Tone::Waste => "33",
            Tone::Problem => "31",
        }
    }
}

/// Characters, each with its tone. Control characters are replaced, so none moves the terminal's cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<(char, Tone)>);

/// Returns text in the tone of details.
pub fn dim(text: impl AsRef<str>) -> Text {
    Text::toned(Tone::Dim, text)
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Text {
        Text::toned(Tone::Plain, text)
    }
}

impl Text {
    /// Returns text of one tone.
    pub fn toned(tone: Tone, text: impl AsRef<str>) -> Text {
        Text(plain(text.as_ref()).chars().map(|c| (c, tone)).collect())
    }

    /// Returns this text followed by another.
    pub fn then(mut self, more: impl Into<Text>) -> Text {
        self.0.extend(more.into().0);
        self
    }

    /// Returns the text padded with blanks to a width.
    pub fn padded(self, width: usize) -> Text {
        let missing = width.saturating_sub(self.width());
        self.then(" ".repeat(missing))
    }

    /// Returns whether the text is empty or the sign for "not known".
    pub fn is_unknown(&self) -> bool {
        matches!(self.0.as_slice(), [('-', _)] | [])
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(c, _)| char_width(*c)).sum()
    }

    /// Returns the text without tones.
    pub fn characters(&self) -> String {
        self.0.iter().map(|(c, _)| *c).collect()
    }

    /// Returns other text in the tone of the first character of this one.
    pub fn replaced(&self, text: impl AsRef<str>) -> Text {
        Text::toned(self.0.first().map_or(Tone::Plain, |(_, tone)| *tone), text)
    }

    /// Returns the start of the text that fits.
    pub fn clipped(mut self, width: usize) -> Text {
        let mut used = 0;
        let fits = self.0.iter().take_while(|(c, _)| {
            used += char_width(*c);
            used <= width
        });
        let count = fits.count();
        self.0.truncate(count);
        self
    }

    /// Returns lines of at most `width` columns, broken at blanks, or inside a word that is longer than a line.
    pub fn wrapped(self, width: usize) -> Vec<Text> {
        let mut lines = Vec::new();
        let mut rest = self.0;
        loop {
            let (mut used, mut blank, mut end) = (0, None, rest.len());
            for (at, (c, _)) in rest.iter().enumerate() {
                used += char_width(*c);
                // A blank may be just past the edge: it is not drawn.
                if *c == ' ' && at > 0 && used <= width + 1 {
                    blank = Some(at);
                }
                if used > width {
                    end = blank.unwrap_or(at.max(1));
                    break;
                }
            }
            let mut next = rest.split_off(end);
            let blanks = next.iter().take_while(|(c, _)| *c == ' ').count();
            next.drain(..blanks);
            lines.push(Text(rest));
            if next.is_empty() {
                return lines;
            }
            rest = next;
        }
    }

    /// Returns the line as it is printed, without trailing blanks. In ASCII, µ becomes u and any other character becomes one
    /// `?` per column.
    pub fn render(&self, color: bool, ascii: bool) -> String {
        let end = self.0.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
        let mut out = String::new();
        let mut tone = Tone::Plain;
        for (c, next) in &self.0[..end] {
            // Blanks look the same in every tone.
            if color && *next != tone && *c != ' ' {
                let _ =
                    write!(out, "\u{1b}[0{}{}m", if *next == Tone::Plain { "" } else { ";" }, next.code());
                tone = *next;
            }
            match c {
                'µ' if ascii => out.push('u'),
                '·' if ascii => out.push('-'),
                c if ascii && !c.is_ascii() => (0..char_width(*c)).for_each(|_| out.push('?')),
                c => out.push(*c),
            }
        }
        if tone != Tone::Plain {
            out.push_str("\u{1b}[0m");
        }
        out
    }
}

/// Returns a line of plain text as it is printed, where only ASCII can be.
pub fn line(text: &str, ascii: bool) -> String {
    Text::from(text).render(false, ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, width: usize) -> Vec<String> {
        Text::from(text).wrapped(width).iter().map(Text::characters).collect()
    }

    #[test]
    fn lines_break_at_blanks_and_lose_nothing_else() {
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("one two three", 6), ["one", "two", "three"]);
        assert_eq!(lines("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(lines("", 5), [""]);
        assert_eq!(lines("世界世界", 4), ["世界", "世界"]);
        assert_eq!(lines("世", 1), ["世"], "a wide character is neither split nor dropped");
    }

    #[test]
    fn tones_become_colours_only_if_colours_are_on() {
        let line = Text::from("idle ").then(Text::toned(Tone::Waste, "69 %")).then("  ");
        assert_eq!(line.render(false, false), "idle 69 %");
        assert_eq!(line.render(true, false), "idle \u{1b}[0;33m69 %\u{1b}[0m");
        let back = Text::toned(Tone::Title, "a").then("b");
        assert_eq!(back.render(true, false), "\u{1b}[0;1ma\u{1b}[0mb");
    }

    #[test]
    fn ascii_keeps_the_width() {
        let line = Text::from("10 µs · 世é");
        assert_eq!(line.render(false, true), "10 us - ???");
        assert_eq!(line.width(), 11);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(Text::from("a\u{1b}[2J\n").characters(), "a?[2J?");
    }

    #[test]
    fn text_is_clipped_between_characters() {
        assert_eq!(Text::from("a世界").clipped(4).characters(), "a世");
    }
}
