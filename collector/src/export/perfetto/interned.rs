//! Which number stands for a text, and on which sequences has that been said?
//!
//! A text has the same number on all sequences, so that arguments are encoded once; each sequence says for itself what the
//! numbers that it uses stand for, when it first does.

use super::proto::InternedString;
use crate::hash::HashMap;
use std::rc::Rc;

/// The most texts that get a number: beyond that, memory would grow with the length of a trace whose names are all different.
/// Such a text is written where it occurs.
const MOST: usize = 1 << 16;

/// Texts of one kind.
#[derive(Debug, Default)]
pub(super) struct Texts {
    indices: HashMap<Rc<str>, usize>,
    texts: Vec<Rc<str>>,
}

/// A text in a file.
#[derive(Clone, Debug)]
pub enum Text {
    /// It has a number.
    Interned(usize),
    /// It is written where it occurs.
    Itself(Rc<str>),
}

impl Texts {
    /// Returns what stands for a text.
    pub fn intern(&mut self, text: &str) -> Text {
        if let Some(index) = self.indices.get(text) {
            return Text::Interned(*index);
        }
        let (shared, index): (Rc<str>, _) = (text.into(), self.texts.len());
        if index == MOST {
            return Text::Itself(shared);
        }
        self.texts.push(Rc::clone(&shared));
        self.indices.insert(shared, index);
        Text::Interned(index)
    }

    /// Says what a text's number stands for.
    pub fn said(&self, index: usize) -> InternedString {
        said(index, self.texts.get(index).map_or("", |text| text))
    }
}

/// Returns the number of the text at an index.
pub(super) fn iid(index: usize) -> u64 {
    index as u64 + 1
}

/// Says what a number stands for.
pub(super) fn said(index: usize, text: &str) -> InternedString {
    InternedString { iid: Some(iid(index)), str: Some(text.to_owned()) }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Set(Vec<u64>);

impl Set {
    /// Adds a number and returns whether it is new.
    pub fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_and_memory_is_bounded() {
        let mut texts = Texts::default();
        let number = |text: &Text| match text {
            Text::Interned(index) => *index,
            Text::Itself(text) => panic!("{text} has no number"),
        };
        assert_eq!(
            (number(&texts.intern("a")), number(&texts.intern("b")), number(&texts.intern("a"))),
            (0, 1, 0)
        );
        for index in 2..MOST {
            assert_eq!(number(&texts.intern(&index.to_string())), index);
        }
        assert!(matches!(texts.intern("one more"), Text::Itself(text) if &*text == "one more"));
        assert_eq!(number(&texts.intern("b")), 1);
        assert_eq!((texts.texts.len(), texts.indices.len()), (MOST, MOST));
    }

    #[test]
    fn a_number_is_new_once() {
        let mut set = Set::default();
        let new: Vec<bool> = [0, 63, 64, 1_000, 64, 0, 65].map(|index| set.insert(index)).into();
        assert_eq!(new, [true, true, true, true, false, false, true]);
    }
}
