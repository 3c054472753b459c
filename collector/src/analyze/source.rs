//! Where in the program was a call made? The names of a [`Caller`], and the lines that a row of a table comes from.

use super::merge::Merge;
use crate::model::Process;
use crate::model::stacks::{Caller, Frame};
use crate::trace::record::Names;
use std::collections::BTreeMap;

/// Where in the program a call was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The path of the library that called; `None` if it is not known.
    pub library: Option<String>,
    /// The line of the program; `None` if it is not known.
    pub line: Option<Frame>,
}

impl Source {
    /// Names where a call of a process was made.
    pub fn of(caller: Caller, known: &Process, names: &Names) -> Source {
        Source {
            library: known.modules.resolve(caller.address, names).map(|site| site.path),
            line: known.stacks.line(caller.line).cloned(),
        }
    }
}

/// The lines of the program that something comes from, by what each adds to it (ns, bytes, or calls). `None` is what comes
/// from lines that are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<Option<Frame>, u64>);

impl Lines {
    /// Adds what comes from a line.
    pub fn add(&mut self, line: Option<Frame>, weight: u64) {
        let sum = self.0.entry(line).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// Returns what comes from each line.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Frame>, u64)> + Clone {
        self.0.iter().map(|(line, weight)| (line.as_ref(), *weight))
    }

    /// Returns the line that most comes from, and its share of what comes from all lines, 0 to 1; `None` if most is not known.
    pub fn main(&self) -> Option<(&Frame, f64)> {
        main(self.iter())
    }

    /// Returns that line as a place of calls.
    pub fn source(&self) -> Source {
        Source { library: None, line: self.main().map(|(line, _)| line.clone()) }
    }
}

/// Returns the line that most of something comes from, as [`Lines::main`].
pub fn main<'l>(lines: impl Iterator<Item = (Option<&'l Frame>, u64)> + Clone) -> Option<(&'l Frame, f64)> {
    let (line, most) = lines.clone().max_by_key(|(line, weight)| (*weight, line.is_some()))?;
    let all: u128 = lines.map(|(_, weight)| u128::from(weight)).sum();
    Some((line?, if all == 0 { 1.0 } else { most as f64 / all as f64 }))
}

impl Merge for Lines {
    fn merge(&mut self, other: &Lines) {
        other.iter().for_each(|(line, weight)| self.add(line.cloned(), weight));
    }
}

#[cfg(test)]
impl Lines {
    /// Returns what comes from each of these lines.
    pub fn of<const N: usize>(parts: [(Option<Frame>, u64); N]) -> Lines {
        let mut lines = Lines::default();
        parts.into_iter().for_each(|(line, weight)| lines.add(line, weight));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> Option<Frame> {
        Some(Frame {
            file: "train.py".to_owned(),
            line: number,
            function: "step".to_owned(),
            ..Frame::default()
        })
    }

    #[test]
    fn the_main_line_is_the_one_that_most_comes_from() {
        let both = Lines::of([(line(1), 10), (line(2), 20), (line(1), 20)]);
        assert_eq!(both.main(), Some((&line(1).unwrap(), 0.6)));
        assert_eq!(Lines::of([(line(1), 10), (None, 20)]).main(), None);
        assert_eq!(Lines::of([(line(1), 0), (None, 0)]).main(), Some((&line(1).unwrap(), 1.0)));
        assert_eq!(Lines::of([]).main(), None);
    }

    #[test]
    fn lines_of_several_processes_add_up() {
        let mut both = Lines::of([(line(1), 10)]);
        both.merge(&Lines::of([(line(1), 5), (line(2), 20)]));
        assert_eq!(both.main(), Some((&line(2).unwrap(), 20.0 / 35.0)));
    }
}
