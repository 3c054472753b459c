//! Which number does the text of an NVTX range have? Wire records contain texts; a trace names each text once.
//!
//! In a collection in windows, each trace has texts of its own, and those of ranges that were open at its start. Names go into
//! the trace before, too, while that one takes late records: so a text has one number in both, and a number one text.

use crate::hash::{HashMap, HashSet};

/// Limit on the distinct texts of a trace. A program that numbers its ranges ("step 17") makes new ones all the
/// time; texts beyond the limit are not in the trace.
const MOST: usize = 1 << 16;
/// Limit on the bytes of these texts.
const MOST_BYTES: usize = 16 << 20;

/// The texts of the present trace so far.
#[derive(Debug, Default)]
pub struct Texts {
    numbers: HashMap<Box<str>, u32>,
    bytes: usize,
    /// Those of the trace before.
    before: HashMap<Box<str>, u32>,
    /// The numbers of both.
    used: HashSet<u32>,
    /// The latest number that was unused.
    latest: u32,
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
        let number = match self.before.get(text) {
            Some(number) => *number,
            None => self.unused(),
        };
        self.numbers.insert(text.into(), number);
        self.bytes += text.len();
        (number, true)
    }

    /// Returns a number that neither trace uses. A program with many texts comes to the end of all numbers in a week.
    fn unused(&mut self) -> u32 {
        loop {
            self.latest = self.latest.wrapping_add(1);
            if self.latest != 0 && self.used.insert(self.latest) {
                return self.latest;
            }
        }
    }

    /// Begins the next trace, which has the texts with these numbers from the present one.
    pub fn turn(&mut self, kept: &HashSet<u32>) {
        self.before = std::mem::take(&mut self.numbers);
        let stay = self.before.iter().filter(|(_, number)| kept.contains(*number));
        self.numbers = stay.map(|(text, number)| (text.clone(), *number)).collect();
        self.bytes = self.numbers.keys().map(|text| text.len()).sum();
        self.used = self.before.values().copied().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(numbers: &[u32]) -> HashSet<u32> {
        numbers.iter().copied().collect()
    }

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

    /// In a collection in windows, the limit was one for all traces together: later ones had no texts.
    #[test]
    fn each_trace_has_texts_of_its_own() {
        let mut texts = Texts::default();
        let (open, _) = texts.number("epoch");
        for trace in 0..3 {
            let new = |step: &usize| texts.number(&format!("step {step} of {trace}")).1;
            assert_eq!((0..2 * MOST).filter(new).count(), MOST - 1, "trace {trace}");
            texts.turn(&only(&[open]));
            assert_eq!((texts.bytes, texts.numbers.len()), ("epoch".len(), 1));
            assert_eq!(texts.number("epoch"), (open, false));
        }
    }

    /// A late record of the trace before has the number that the others there have.
    #[test]
    fn a_text_has_the_same_number_in_the_next_trace() {
        let mut texts = Texts::default();
        assert_eq!([texts.number("forward"), texts.number("backward")], [(1, true), (2, true)]);
        texts.turn(&only(&[]));
        assert_eq!([texts.number("step"), texts.number("backward")], [(3, true), (2, true)]);
        texts.turn(&only(&[]));
        assert_eq!([texts.number("forward"), texts.number("backward")], [(4, true), (2, true)]);
    }

    #[test]
    fn numbers_begin_again_without_those_in_use() {
        let mut texts = Texts::default();
        let numbers = |texts: &mut Texts, names: [&str; 3]| names.map(|name| texts.number(name).0);
        assert_eq!(numbers(&mut texts, ["a", "b", "c"]), [1, 2, 3]);
        texts.turn(&only(&[2]));
        texts.turn(&only(&[2]));
        texts.latest = u32::MAX - 1;
        assert_eq!(numbers(&mut texts, ["d", "e", "f"]), [u32::MAX, 1, 3]);
    }

    #[test]
    fn the_bytes_of_texts_are_limited() {
        let mut texts = Texts::default();
        let mib = "x".repeat(1 << 20);
        let kept = (0..100).filter(|n| texts.number(&format!("{n}{mib}")).1).count();
        assert_eq!(kept, 15, "each is a little longer than a MiB");
    }
}
