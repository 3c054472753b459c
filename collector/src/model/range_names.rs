//! Which names of NVTX ranges differ only in a number at their end?
//!
//! Programs number their steps in the names of ranges: `ProfilerStep#17`, `step 12`. The **stem** of such a name is what
//! comes before the number. All names of a trace are known before its first record, so the stems are too.

use crate::hash::HashMap;
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// What stands for the number of a name.
const ANY: char = '*';

/// The number of names that share a stem from which on they are counted as one, if no `#` comes before the number.
/// Fewer are a program's parts, as `layer1` to `layer4`. PyTorch's profiler writes `ProfilerStep#17`, so that two names
/// with a `#` are enough.
const SEVERAL: usize = 5;

/// Names that differ only in their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stem<'n> {
    text: &'n str,
    is_numbered: bool,
}

impl<'n> Stem<'n> {
    fn of(name: &'n str) -> Stem<'n> {
        let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Stem { text, is_numbered: text.len() < name.len() && !text.is_empty() }
    }
}

/// Names that are counted as one.
#[derive(Clone, Debug, Default)]
pub struct Folded {
    /// Number of a text → the number of the first text with the same stem.
    first: HashMap<u32, u32>,
    /// The name for all of them, by the number of the first.
    names: HashMap<u32, String>,
}

impl Folded {
    /// Folds names that are numbered and so many that the number counts something.
    pub fn of(names: &Names) -> Folded {
        Folded::with(names, |stem, count| count >= if stem.ends_with('#') { 2 } else { SEVERAL })
    }

    /// Folds all numbered names that share their stem with others.
    pub fn all(names: &Names) -> Folded {
        Folded::with(names, |_, count| count >= 2)
    }

    fn with(names: &Names, counts: impl Fn(&str, usize) -> bool) -> Folded {
        let mut stems: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        let texts = names.0.range((Namespace::NvtxRange, 0)..=(Namespace::NvtxRange, u32::MAX));
        for ((_, id), text) in texts {
            let stem = Stem::of(text);
            if stem.is_numbered {
                stems.entry(stem.text).or_default().push(*id);
            }
        }
        let mut folded = Folded::default();
        for (stem, ids) in stems.into_iter().filter(|(stem, ids)| counts(stem, ids.len())) {
            folded.names.insert(ids[0], format!("{stem}{ANY}"));
            folded.first.extend(ids.iter().map(|id| (*id, ids[0])));
        }
        folded
    }

    /// The number that stands for a text: its own, or that of the first text with the same stem.
    pub fn number(&self, text: u32) -> u32 {
        self.first.get(&text).copied().unwrap_or(text)
    }

    /// The name of all texts that a number stands for; `None` if it stands for one text only.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Names {
        let text = |(id, text): (usize, &&str)| ((Namespace::NvtxRange, id as u32 + 1), (*text).to_owned());
        Names(texts.iter().enumerate().map(text).collect())
    }

    #[test]
    fn names_that_differ_in_a_number_are_one_name() {
        let folded =
            Folded::of(&names(&["ProfilerStep#1", "load", "ProfilerStep#22", "layer1", "layer2", "7", "8"]));
        assert_eq!([1, 2, 3, 4, 5, 6].map(|text| folded.number(text)), [1, 2, 1, 4, 5, 6]);
        assert_eq!((folded.name(1), folded.name(2), folded.name(4)), (Some("ProfilerStep#*"), None, None));
        let many = Folded::of(&names(&["step 1", "step 2", "step 3", "step 4", "step 15"]));
        assert_eq!((many.number(5), many.name(1)), (1, Some("step *")));
    }
}
