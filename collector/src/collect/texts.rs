//! Which number does the text of an NVTX range have? Wire records contain texts; a trace names each text once.

use crate::hash::HashMap;

/// Limit on the distinct texts of a session. A program that numbers its ranges ("step 17") makes new ones all the
/// time; texts beyond the limit are not in the trace.
const MOST: usize = 1 << 16;

/// The texts so far.
#[derive(Debug, Default)]
pub struct Texts(HashMap<Box<str>, u32>);

impl Texts {
    /// The text's number, 0 for none; and whether it is new.
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
    fn a_text_has_one_number_and_their_count_is_limited() {
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
