//! A figure of two runs, side by side.

use crate::analyze::estimate;
use crate::report::rows::numbers::{Estimate, Kind, divided};
use schemars::JsonSchema;
use serde::Serialize;

/// A figure of both runs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Figure {
    /// The figure of the run before the change; null = not known.
    pub before: Option<Estimate<f64>>,
    /// The figure of the run after the change; null = not known.
    pub after: Option<Estimate<f64>>,
    /// After less before, by their best values; null = one of them is not known.
    pub change: Option<f64>,
    /// The same as a share of before; null = not known, or before is 0.
    pub change_share: Option<f64>,
    /// The intervals of both do not overlap, or both are exact: the two runs differed in this direction, or not at all.
    pub is_certain: bool,
}

/// A figure of both runs that may be negative.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Signed {
    /// The figure of the run before the change; null = not known.
    pub before: Option<f64>,
    /// The figure of the run after the change; null = not known.
    pub after: Option<f64>,
    /// After less before; null = one of them is not known.
    pub change: Option<f64>,
}

/// What figures of both runs are divided by, so that they are of one step each.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// For the run before the change.
    pub before: f64,
    /// For the run after it.
    pub after: f64,
}

impl Scale {
    /// Leaves figures as they are.
    pub const RUN: Scale = Scale { before: 1.0, after: 1.0 };

    /// Divides a count of each run.
    pub fn count(self, before: u64, after: u64) -> Figure {
        self.times(Some(Estimate::exactly(before)), Some(Estimate::exactly(after)))
    }

    /// Divides an estimate of each run.
    pub fn times(self, before: Option<Estimate>, after: Option<Estimate>) -> Figure {
        let by = |estimate: Option<Estimate>, divisor: f64| estimate.map(|it| divided(it, divisor));
        Figure::of(by(before, self.before), by(after, self.after))
    }
}

impl Figure {
    /// Puts an estimate of each run side by side.
    pub fn of(before: Option<Estimate<f64>>, after: Option<Estimate<f64>>) -> Figure {
        let both = before.zip(after);
        let change = both.map(|(before, after)| after.value - before.value);
        let base = before.map(|before| before.value).filter(|value| *value > 0.0);
        let is_certain = both.is_some_and(|(before, after)| {
            let are_exact = before.lo == before.hi && after.lo == after.hi;
            are_exact || after.hi < before.lo || after.lo > before.hi
        });
        let change_share = change.zip(base).map(|(change, base)| change / base);
        Figure { before, after, change, change_share, is_certain }
    }

    /// Puts a number of each run side by side that is known exactly.
    pub fn exactly(before: Option<f64>, after: Option<f64>) -> Figure {
        let exact = |value: f64| Estimate { value, lo: value, hi: value, kind: Kind::Exact };
        Figure::of(before.map(exact), after.map(exact))
    }

    /// Returns the size of the change; 0 if it is not known.
    pub fn size(&self) -> f64 {
        self.change.map_or(0.0, f64::abs)
    }

    /// Whether both runs have exactly the same figure, or neither has one.
    pub fn is_same(&self) -> bool {
        self.change == Some(0.0) || (self.before.is_none() && self.after.is_none())
    }

    /// Whether neither run has anything of this, by the best values.
    pub fn is_nothing(&self) -> bool {
        let is_none = |side: Option<Estimate<f64>>| side.is_none_or(|side| side.value == 0.0);
        is_none(self.before) && is_none(self.after)
    }
}

impl Signed {
    /// Puts a number of each run side by side.
    pub fn of(before: Option<f64>, after: Option<f64>) -> Signed {
        Signed { before, after, change: before.zip(after).map(|(before, after)| after - before) }
    }
}

/// Returns the sum of two estimates.
pub fn plus(one: Estimate, other: Estimate) -> Estimate {
    estimate::Estimate::from(one).plus(other.into()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(lo: u64, value: u64, hi: u64) -> Option<Estimate> {
        Some(Estimate { value, lo, hi, kind: Kind::Corrected })
    }

    #[test]
    fn a_change_is_certain_if_the_bounds_do_not_overlap() {
        let of = |before, after| Scale::RUN.times(before, after);
        assert!(!of(between(90, 100, 110), between(80, 85, 90)).is_certain, "both may be 90");
        assert!(of(between(90, 100, 110), between(80, 85, 89)).is_certain);
        assert!(of(between(90, 100, 110), between(111, 120, 130)).is_certain);
        assert!(of(between(5, 5, 5), between(5, 5, 5)).is_certain, "exactly the same");
        assert!(!of(between(5, 5, 5), None).is_certain, "nothing is known of the second run");
    }

    #[test]
    fn a_change_is_a_share_of_what_was_before() {
        let figure = Scale { before: 10.0, after: 20.0 }.count(100, 150);
        assert_eq!((figure.change, figure.change_share), (Some(-2.5), Some(-0.25)));
        let appeared = Scale::RUN.count(0, 7);
        assert_eq!((appeared.change, appeared.change_share), (Some(7.0), None));
        assert!(Scale::RUN.count(3, 3).is_same() && !appeared.is_same());
        assert!(Scale::RUN.count(0, 0).is_nothing() && !appeared.is_nothing());
    }
}
