//! Windows as the sample of what ran in the pauses.
//!
//! The mean time of an operation is the sum of times divided by the number of operations in all windows after the
//! first phase. This is a ratio estimate, whose error is computed from how far each window is from it (Cochran,
//! "Sampling Techniques", 3rd ed. 1977, §6.3 and §9A), with Student's t and one degree of freedom less than there are
//! windows. Launches in runs count in their window with the mean of those of them that were drawn there; the error of
//! that is part of the spread between windows.

use super::{LEAST, Range, student};
use crate::analyze::estimate::Sum;

/// Operations of one kind, window by window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clusters {
    /// The window that is still open.
    open: Window,
    /// Complete windows after the first phase that had any operations, and the operations and the time in them.
    windows: u64,
    operations: f64,
    time: Range,
    /// Over windows, of operations n and time y: Σn², Σny, Σy².
    nn: f64,
    ny: f64,
    yy: f64,
}

/// One window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    number: u64,
    /// The operations that were timed outside of runs, and their time.
    timed: (u64, Sum),
    /// The same for those that were drawn from runs.
    drawn: (u64, Sum),
    not_drawn: u64,
}

impl Clusters {
    /// Takes a timed operation.
    pub fn timed(&mut self, number: u64, time: Sum, is_drawn: bool) {
        let Some(window) = self.window(number) else { return };
        let kind = if is_drawn { &mut window.drawn } else { &mut window.timed };
        kind.0 += 1;
        kind.1.add(time);
    }

    /// Takes an operation of a run that was not drawn.
    pub fn not_drawn(&mut self, number: u64) {
        if let Some(window) = self.window(number) {
            window.not_drawn += 1;
        }
    }

    /// Returns the window with this number, after closing the one before; `None` in the first phase.
    fn window(&mut self, number: u64) -> Option<&mut Window> {
        if number < 2 {
            return None;
        }
        if self.open.number != number {
            self.close();
            self.open.number = number;
        }
        Some(&mut self.open)
    }

    /// Adds the open window to the sums.
    fn close(&mut self) {
        let (n, time) = std::mem::take(&mut self.open).whole();
        if n > 0.0 {
            self.windows += 1;
            self.operations += n;
            self.time = self.time.plus(time);
            self.nn += n * n;
            self.ny += n * time.value;
            self.yy += time.value * time.value;
        }
    }

    /// Adds the windows of another process.
    pub fn merge(&mut self, other: &Clusters) {
        let mut other = *other;
        self.close();
        other.close();
        self.windows += other.windows;
        self.operations += other.operations;
        self.time = self.time.plus(other.time);
        self.nn += other.nn;
        self.ny += other.ny;
        self.yy += other.yy;
    }

    /// Returns the mean time of the `untimed` operations outside of the windows, ns; `None` with too few windows.
    pub fn mean(&self, untimed: u64) -> Option<Range> {
        let mut all = *self;
        all.close();
        if all.windows < LEAST || untimed == 0 {
            return None;
        }
        let (k, n) = (all.windows as f64, all.operations);
        let mean = Range { lo: all.time.lo / n, value: all.time.value / n, hi: all.time.hi / n };
        let squares = (all.yy - 2.0 * mean.value * all.ny + mean.value * mean.value * all.nn).max(0.0);
        // The error for the mean of the untimed operations, which are a finite population.
        let error = (k / (k - 1.0) * squares).sqrt() / n * ((n + untimed as f64) / untimed as f64).sqrt();
        Some(mean.widened(student(k - 1.0) * error))
    }
}

impl Window {
    /// Returns how many operations its time covers, and that time.
    fn whole(&self) -> (f64, Range) {
        let of = |sum: Sum| Range { lo: sum.lo as f64, value: sum.value as f64, hi: sum.hi as f64 };
        let ((timed, time), (drawn, drawn_time)) = (self.timed, self.drawn);
        if drawn == 0 {
            return (timed as f64, of(time));
        }
        let in_runs = drawn + self.not_drawn;
        let mean = |sum: u64| sum as f64 / drawn as f64;
        let each = Range { lo: mean(drawn_time.lo), value: mean(drawn_time.value), hi: mean(drawn_time.hi) };
        ((timed + in_runs) as f64, of(time).plus(each.times(in_runs)))
    }
}
