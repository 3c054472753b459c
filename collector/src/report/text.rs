//! Text with tones: what a line of the screen, or a cell of a table, holds.
//!
//! A tone says what something means, never how it looks; [`Text::render`] turns tones into colours, or drops them.

use super::names::{char_width, plain};
use std::fmt::Write;

/// What a piece of text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Where a section begins.
    Title,
    /// Details: intervals, heads of columns, what can be passed over.
    Dim,
    /// The GPU works.
    Work,
    /// The GPU moves data while nothing computes.
    Move,
    /// Time that goes by without use, and what makes figures doubtful.
    Waste,
    /// Something is wrong.
    Problem,
}

impl Tone {
    /// Parameters of the terminal's "select graphic rendition" (ECMA-48): of the 16 colours that every theme sets.
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

/// Characters, each with its tone. None of them moves a terminal's cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Vec<(char, Tone)>);

/// Details.
pub fn dim(text: impl AsRef<str>) -> Text {
    Text::toned(Tone::Dim, text)
}

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Text {
        Text::toned(Tone::Plain, text)
    }
}

impl Text {
    /// Text of one tone.
    pub fn toned(tone: Tone, text: impl AsRef<str>) -> Text {
        Text(plain(text.as_ref()).chars().map(|c| (c, tone)).collect())
    }

    /// This text and another behind it.
    pub fn then(mut self, more: impl Into<Text>) -> Text {
        self.0.extend(more.into().0);
        self
    }

    /// Blanks behind the text up to a width.
    pub fn padded(self, width: usize) -> Text {
        let missing = width.saturating_sub(self.width());
        self.then(" ".repeat(missing))
    }

    /// Whether it says that something is not known.
    pub fn is_unknown(&self) -> bool {
        matches!(self.0.as_slice(), [('-', _)] | [])
    }

    /// Columns on the screen.
    pub fn width(&self) -> usize {
        self.0.iter().map(|(c, _)| char_width(*c)).sum()
    }

    /// The text without its tones.
    pub fn characters(&self) -> String {
        self.0.iter().map(|(c, _)| *c).collect()
    }

    /// What a function makes of it in so many columns, in the tone that it begins with.
    pub fn shortened(&self, shorten: fn(&str, usize) -> String, width: usize) -> Text {
        let tone = self.0.first().map_or(Tone::Plain, |(_, tone)| *tone);
        Text::toned(tone, shorten(&self.characters(), width))
    }

    /// Its beginning, as far as it fits.
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

    /// Lines of at most `width` columns, broken at blanks, or inside a word that is longer than a line.
    pub fn wrapped(self, width: usize) -> Vec<Text> {
        let mut lines = Vec::new();
        let mut rest = self.0;
        loop {
            let (mut used, mut blank, mut end) = (0, None, rest.len());
            for (at, (c, _)) in rest.iter().enumerate() {
                used += char_width(*c);
                // A blank may stand beyond the edge: it is not drawn.
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

    /// The line as it is printed, without blanks at its end. In ASCII, other characters become `?`, as many as they take
    /// columns; µ becomes u.
    pub fn render(&self, color: bool, ascii: bool) -> String {
        let end = self.0.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
        let mut out = String::new();
        let mut tone = Tone::Plain;
        for (c, theirs) in &self.0[..end] {
            // Blanks look the same in every tone.
            if color && *theirs != tone && *c != ' ' {
                let _ = write!(
                    out,
                    "\u{1b}[0{}{}m",
                    if *theirs == Tone::Plain { "" } else { ";" },
                    theirs.code()
                );
                tone = *theirs;
            }
            match c {
                'µ' if ascii => out.push('u'),
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
        assert_eq!(lines("世", 1), ["世"], "a character is never split, nor left out");
    }

    #[test]
    fn tones_are_colours_only_where_colours_are_wanted() {
        let line = Text::from("idle ").then(Text::toned(Tone::Waste, "69 %")).then("  ");
        assert_eq!(line.render(false, false), "idle 69 %");
        assert_eq!(line.render(true, false), "idle \u{1b}[0;33m69 %\u{1b}[0m");
        let back = Text::toned(Tone::Title, "a").then("b");
        assert_eq!(back.render(true, false), "\u{1b}[0;1ma\u{1b}[0mb");
    }

    #[test]
    fn ascii_keeps_the_width() {
        let line = Text::from("10 µs 世é");
        assert_eq!(line.render(false, true), "10 us ???");
        assert_eq!(line.width(), 9);
    }

    #[test]
    fn no_control_character_is_taken() {
        assert_eq!(Text::from("a\u{1b}[2J\n").characters(), "a?[2J?");
    }

    #[test]
    fn text_is_clipped_between_characters() {
        assert_eq!(Text::from("a世界").clipped(4).characters(), "a世");
    }
}
