//! Operations drawn by chance as the sample of those beside them.
//!
//! A program has phases, and how many of its operations are drawn follows how fast the GPU gets on. So each that was not drawn
//! takes the mean of the draw before it and the one behind it: a draw stands for half of those on both sides, which is its
//! weight w, and Σw is their number. The error is read from how far draws that follow each other are apart, as of a
//! systematic sample (Wolter, "Introduction to Variance Estimation", 2nd ed. 2007, §8.2): s² is the mean of (difference)² / 2,
//! and the sum is off by s² (Σw² + Σw) in variance, which is N (N − n) s² / n where n of N are drawn at even distances. Each
//! difference counts with the weights of its own two draws, so that the sum knows where a phase ends. Student's t takes as
//! many degrees of freedom as the differences are worth, two thirds of their number where all are alike.

use super::{LEAST, Range, student};
use crate::analyze::estimate::Sum;

/// Operations of one kind in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Draws {
    drawn: u64,
    /// The last draw, and how many that were not drawn it stands for so far.
    last: Option<(Sum, f64)>,
    /// Not drawn since.
    since: u64,
    /// The draw before that: its time, and what its weight makes of s².
    before: Option<(f64, f64)>,
    /// The time of those that were not drawn.
    rest: Range,
    /// Over draws that follow each other, of what they add to the variance v: Σv, Σv².
    variance: f64,
    squares: f64,
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

    /// Takes one that was not.
    pub fn not_drawn(&mut self) {
        self.since += 1;
    }

    /// Takes over another's.
    pub fn merge(&mut self, other: &Draws) {
        self.settle();
        let mut other = *other;
        other.settle();
        self.drawn += other.drawn;
        self.since += other.since;
        self.rest = self.rest.plus(other.rest);
        self.variance += other.variance;
        self.squares += other.squares;
    }

    /// The time of those that were not drawn, ns; `None` with too few draws.
    pub fn rest(&self) -> Option<Range> {
        let mut all = *self;
        all.settle();
        // Those of a process in which none was drawn are not known.
        if all.drawn < LEAST || all.since > 0 {
            return None;
        }
        let n = all.drawn as f64;
        // The first and the last are in one difference only.
        let variance = all.variance * n / (n - 1.0);
        if variance == 0.0 {
            return Some(all.rest);
        }
        let freedom = (2.0 * all.variance * all.variance / all.squares).max((LEAST - 1) as f64);
        Some(all.rest.widened(student(freedom) * variance.sqrt()))
    }

    /// Takes a draw that stands for `weight` others.
    fn weigh(&mut self, time: Sum, weight: f64) {
        let each = Range { lo: time.lo as f64, value: time.value as f64, hi: time.hi as f64 };
        self.drawn += 1;
        self.rest = self.rest.plus(each.scaled(weight));
        let factor = weight * weight + weight;
        if let Some((value, before)) = self.before.replace((each.value, factor)) {
            let apart = each.value - value;
            let one = apart * apart / 2.0 * (before + factor) / 2.0;
            self.variance += one;
            self.squares += one * one;
        }
    }

    /// Nothing comes any more: no draw waits for others.
    fn settle(&mut self) {
        if let Some((time, weight)) = self.last.take() {
            let since = std::mem::take(&mut self.since) as f64;
            self.weigh(time, weight + since);
        }
        self.before = None;
    }
}
