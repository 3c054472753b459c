//! Which number does the text of an NVTX range have? Wire records contain texts; a trace names each text once.

use crate::hash::HashMap;

/// Limit on the distinct texts of a session. A program that numbers its ranges ("step 17") makes new ones all the
/// time; texts beyond the limit are not in the trace.
const MOST: usize = 1 << 16;
/// Limit on the bytes of these texts.
const MOST_BYTES: usize = 16 << 20;

/// The texts so far.
#[derive(Debug, Default)]
pub struct Texts {
    numbers: HashMap<Box<str>, u32>,
    bytes: usize,
}

impl Texts {
    /// The text's number, 0 for none; and whether it is new.
    pub fn number(&mut self, text: &str) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(text) {
            return (number, false);
        }
        if text.is_empty() || self.numbers.len() >= MOST || self.bytes + text.len() > MOST_BYTES {
            return (0, false);
        }
        let number = self.numbers.len() as u32 + 1;
        self.numbers.insert(text.into(), number);
        self.bytes += text.len();
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

    #[test]
    fn the_bytes_of_texts_are_limited() {
        let mut texts = Texts::default();
        let mib = "x".repeat(1 << 20);
        let kept = (0..100).filter(|n| texts.number(&format!("{n}{mib}")).1).count();
        assert_eq!(kept, 15, "each is a little longer than a MiB");
    }
}
