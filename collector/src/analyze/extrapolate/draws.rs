//! Operations drawn at random as the sample of those next to them.
//!
//! A program has phases, and how many of its operations are drawn depends on how fast the GPU completes them. So each
//! operation that was not drawn is assumed to take the mean of the draw before it and the draw after it. A draw thus
//! stands for half of the operations on both sides; that number is its weight w, and Σw is the number of operations
//! not drawn. The error is computed from the differences of successive draws, as for a systematic sample (Wolter,
//! "Introduction to Variance Estimation", 2nd ed. 2007, §8.2): s² is the mean of (difference)² / 2, and the variance
//! of the sum is s² (Σw² + Σw), which is N (N − n) s² / n if n of N are drawn at equal distances. Each difference is
//! weighted with the weights of its own two draws, so that the end of a phase is accounted for where it is. Student's
//! t is taken with as many degrees of freedom as the differences are worth, two thirds of their number if all are
//! alike.
//!
//! Few draws can miss what is rare: of operations of which one in eight takes four times as long, two in five samples of
//! seven have none of those, and all differences are zero. So with fewer than [`FEW`] draws s² is no less than the variance
//! of all timed operations of the kind, drawn or not.

use super::{LEAST, Range, student};
use crate::analyze::estimate::Sum;

/// From so many draws on, their own differences say how much the operations vary (the usual least sample for a normal
/// approximation of a mean).
const FEW: u64 = 30;

/// Operations of one kind in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Draws {
    drawn: u64,
    /// The last draw, and its weight so far.
    last: Option<(Sum, f64)>,
    /// Operations not drawn since.
    since: u64,
    /// The draw before that: its time, and the factor of s² that results from its weight.
    before: Option<(f64, f64)>,
    /// The time of the operations that were not drawn.
    rest: Range,
    /// The variances that successive draws add, v: Σv, Σv².
    variance: f64,
    squares: f64,
    /// The sum of the factors of s² that result from the weights.
    factors: f64,
}

impl Draws {
    /// Takes an operation that was drawn.
    pub fn drawn(&mut self, time: Sum) {
        let since = std::mem::take(&mut self.since) as f64;
        match self.last {
            None => self.last = Some((time, since)),
            Some((last, weight)) => {
                self.last = Some((time, since / 2.0));
                self.weigh(last, weight + since / 2.0);
            }
        }
    }

    /// Takes an operation that was not drawn.
    pub fn not_drawn(&mut self) {
        self.since += 1;
    }

    /// Adds the draws of another process.
    pub fn merge(&mut self, other: &Draws) {
        self.settle();
        let mut other = *other;
        other.settle();
        self.drawn += other.drawn;
        self.since += other.since;
        self.rest = self.rest.plus(other.rest);
        self.variance += other.variance;
        self.squares += other.squares;
        self.factors += other.factors;
    }

    /// Returns the time of the operations that were not drawn, ns; `None` with too few draws. `spread`: the variance of all
    /// timed operations of the kind, ns².
    pub fn rest(&self, spread: f64) -> Option<Range> {
        let mut all = *self;
        all.settle();
        // Operations of a process in which none was drawn cannot be estimated.
        if all.drawn < LEAST || all.since > 0 {
            return None;
        }
        let n = all.drawn as f64;
        // The first and the last draw are in one difference only.
        let variance = all.variance * n / (n - 1.0);
        let of_all = if all.drawn < FEW { spread * all.factors } else { 0.0 };
        if variance <= of_all {
            return Some(all.rest.widened(student(n - 1.0) * of_all.sqrt()));
        }
        let freedom = (2.0 * all.variance * all.variance / all.squares).max((LEAST - 1) as f64);
        Some(all.rest.widened(student(freedom) * variance.sqrt()))
    }

    /// Adds a draw that stands for `weight` others.
    fn weigh(&mut self, time: Sum, weight: f64) {
        let each = Range { lo: time.lo as f64, value: time.value as f64, hi: time.hi as f64 };
        self.drawn += 1;
        self.rest = self.rest.plus(each.scaled(weight));
        let factor = weight * weight + weight;
        self.factors += factor;
        if let Some((value, before)) = self.before.replace((each.value, factor)) {
            let apart = each.value - value;
            let one = apart * apart / 2.0 * (before + factor) / 2.0;
            self.variance += one;
            self.squares += one * one;
        }
    }

    /// Ends the sequence of draws: the last one stands for all operations after it.
    fn settle(&mut self) {
        if let Some((time, weight)) = self.last.take() {
            let since = std::mem::take(&mut self.since) as f64;
            self.weigh(time, weight + since);
        }
        self.before = None;
    }
}
