//! Numbers for the texts of ranges: records on the wire carry their text, a trace names it once.

use std::collections::HashMap;

/// Distinct texts of a session. A program that numbers its ranges ("step 17") makes ever new ones: what is beyond has no
/// text in the trace.
const MOST: usize = 1 << 16;

/// The texts so far.
#[derive(Debug, Default)]
pub struct Texts(HashMap<Box<str>, u32>);

impl Texts {
    /// The text's number, 0 for none; true when it was not known before.
    pub fn number(&mut self, text: &str) -> (u32, bool) {
        if let Some(&number) = self.0.get(text) {
            return (number, false);
        }
        if text.is_empty() || self.0.len() >= MOST {
            return (0, false);
        }
        let number = self.0.len() as u32 + 1;
        self.0.insert(text.into(), number);
        (number, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_and_there_are_only_so_many() {
        let mut texts = Texts::default();
        assert_eq!(texts.number("forward"), (1, true));
        assert_eq!(texts.number("backward"), (2, true));
        assert_eq!(texts.number("forward"), (1, false));
        assert_eq!(texts.number(""), (0, false));
        for step in 2..MOST {
            assert!(texts.number(&format!("step {step}")).1);
        }
        assert_eq!(texts.number("one more"), (0, false));
        assert_eq!(texts.number("backward"), (2, false));
    }
}
