//! Which characters of a name do not reach a terminal as they are? Names of kernels, files and functions are the program's own
//! and may have any.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character can move a terminal's cursor or reorder what it shows: control characters, and invisible ones that
/// join, separate or change direction.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns text with `?` for each harmful character.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_harmful(c) { '?' } else { c }).collect()
}

/// Returns JSON in which harmful characters are escaped. (Those of ASCII are in any JSON; the others occur only in strings,
/// and are below U+10000.)
pub fn json(text: String) -> String {
    match escaped(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

fn escaped(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c != '\n' && is_harmful(c);
    if text.is_ascii() || !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_escaped(c) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_harmful_characters_is_escaped_and_means_the_same() {
        let name = "a\u{1b}[2J\u{9b}b\u{202e}c\u{feff}\u{2028}µ\n";
        let value = serde_json::json!({ name: [name, 1] });
        for text in [value.to_string(), format!("{value:#}\n")] {
            let escaped = json(text);
            assert!(!escaped.chars().any(|c| c != '\n' && is_harmful(c)), "{escaped}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }
        assert_eq!(plain(name), "a?[2J?b?c??µ?");
        assert_eq!(json("[\"µ\"]".to_owned()), "[\"µ\"]");
    }
}
