//! Bars and sparklines of one line, drawn with Unicode's block elements or in ASCII.

use super::text::{Text, Tone};

/// A part of a bar.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The size.
    pub value: u64,
    /// The characters that it is drawn with, in Unicode and in ASCII.
    pub glyph: [char; 2],
    /// The meaning, which decides the colour.
    pub tone: Tone,
}

impl Part {
    /// Returns the character that it is drawn with.
    pub fn drawn(&self, ascii: bool) -> char {
        self.glyph[usize::from(ascii)]
    }
}

/// Returns a bar of `width` columns whose parts are in proportion. A part above zero has at least one column.
pub fn bar(parts: &[Part], width: usize, ascii: bool) -> Text {
    let total: u128 = parts.iter().map(|part| u128::from(part.value)).sum();
    if total == 0 {
        return Text::default();
    }
    let share = |part: &Part| part.value as f64 / total as f64 * width as f64;
    let mut columns: Vec<usize> =
        parts.iter().map(|part| if part.value > 0 { (share(part) as usize).max(1) } else { 0 }).collect();
    // Rounding down leaves columns to distribute; the minimum of one column may have taken too many.
    let missing = |at: &usize, columns: &[usize]| share(&parts[*at]) - columns[*at] as f64;
    while columns.iter().sum::<usize>() < width {
        let most = (0..parts.len()).max_by(|a, b| missing(a, &columns).total_cmp(&missing(b, &columns)));
        most.into_iter().for_each(|at| columns[at] += 1);
    }
    while columns.iter().sum::<usize>() > width
        && let Some(at) = (0..parts.len())
            .filter(|at| columns[*at] > 1)
            .min_by(|a, b| missing(a, &columns).total_cmp(&missing(b, &columns)))
    {
        columns[at] -= 1;
    }
    let drawn = parts.iter().zip(&columns);
    drawn.fold(Text::default(), |line, (part, columns)| {
        line.then(Text::toned(part.tone, part.drawn(ascii).to_string().repeat(*columns)))
    })
}

/// Returns a bar as long as its share of `width`: a thin line below half a column, nothing only for zero.
pub fn length(value: u64, most: u64, width: usize, ascii: bool) -> String {
    if value == 0 || most == 0 {
        return String::new();
    }
    let columns = (value as f64 / most as f64 * width as f64).round() as usize;
    match (columns, ascii) {
        (0, false) => "▏".to_owned(),
        (0, true) => "|".to_owned(),
        (_, false) => "█".repeat(columns.min(width)),
        (_, true) => "#".repeat(columns.min(width)),
    }
}

/// The mark of a column that is higher than a sparkline shows, in Unicode and in ASCII.
pub const CUT: [char; 2] = ['▲', '^'];

/// Draws values from left to right in `width` columns. The height of a column is the maximum of its values; zero is a blank,
/// and the highest character is `most`. What is above that is [`CUT`].
pub fn sparkline(values: &[u64], most: u64, width: usize, ascii: bool) -> String {
    let marks: [char; 8] = if ascii {
        ['_', '.', '-', ':', '=', '+', '*', '#']
    } else {
        ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    };
    let column = |at: usize| {
        let (from, to) = (at * values.len() / width, (at + 1) * values.len() / width);
        values[from..].iter().take((to - from).max(1)).copied().max().unwrap_or(0)
    };
    let mark = |value: u64| {
        if value == 0 || most == 0 {
            return ' ';
        }
        if value > most {
            return CUT[usize::from(ascii)];
        }
        let height = (u128::from(value) * 8).div_ceil(u128::from(most)) as usize;
        marks[height.clamp(1, 8) - 1]
    };
    (0..width).map(|at| mark(column(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(value: u64, glyph: char) -> Part {
        Part { value, glyph: [glyph; 2], tone: Tone::Plain }
    }

    #[test]
    fn a_bar_fills_its_width_and_shows_small_parts() {
        let drawn = |parts: &[Part], width| bar(parts, width, false).characters();
        assert_eq!(drawn(&[part(50, 'a'), part(50, 'b')], 10), "aaaaabbbbb");
        assert_eq!(drawn(&[part(1, 'a'), part(0, 'b'), part(9_999, 'c')], 10), "accccccccc");
        assert_eq!(drawn(&[part(1, 'a'), part(1, 'b'), part(1, 'c')], 10).len(), 10);
        assert_eq!(drawn(&[part(u64::MAX, 'a'), part(u64::MAX, 'b')], 4), "aabb");
        assert_eq!(drawn(&[part(0, 'a')], 10), "");
        assert_eq!(
            drawn(&[part(1, 'a'), part(1, 'b'), part(1, 'c')], 2),
            "abc",
            "all parts are drawn even where there is no room"
        );
    }

    #[test]
    fn lengths_are_in_proportion() {
        assert_eq!(length(5, 10, 10, true), "#####");
        assert_eq!(length(1, 1_000_000, 10, true), "|");
        assert_eq!(length(0, 10, 10, true), "");
        assert_eq!(length(u64::MAX, u64::MAX, 3, false), "███");
    }

    #[test]
    fn a_sparkline_keeps_the_peak() {
        assert_eq!(sparkline(&[0, 1, 4, 8], 8, 4, false), " ▁▄█");
        assert_eq!(sparkline(&[1, 8], 8, 5, false), "▁▁▁██", "values are repeated where there is room");
        assert_eq!(
            sparkline(&[0, 8, 0, 1, 0, 0], 8, 3, true),
            "#_ ",
            "a column has the maximum of its values"
        );
        assert_eq!(sparkline(&[99, 1, 8, 4], 8, 4, false), "▲▁█▄", "a column above the scale is cut");
        assert_eq!(sparkline(&[99, 1, 8, 4], 8, 2, true), "^#");
        assert_eq!(sparkline(&[], 8, 3, true), "   ");
        assert_eq!(sparkline(&[u64::MAX], u64::MAX, 3, true), "###");
    }
}
