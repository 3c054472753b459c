//! Windows as the sample of what ran in the pauses.
//!
//! A window opens at some time and lasts for so many launches. So the chance that an operation is in one is proportional
//! to the time that the launches around it take: slow phases of a program have more windows for their launches than fast
//! ones. The operations of a window therefore count in inverse proportion to how long it was (Horvitz and Thompson, 1952).
//! With equal weights, the totals of a kernel that is slow in some phases were a tenth too high on average. And since more of
//! the slow phases is timed, less of them is left to be estimated.
//!
//! The mean time of an operation is the weighted sum of times divided by the weighted number of operations in all windows
//! after the first phase. This is a ratio estimate, whose error is computed from how far each window is from it (Cochran,
//! "Sampling Techniques", 3rd ed. 1977, §6.3 and §9A), with Student's t and one degree of freedom less than there are
//! windows. Launches in runs count in their window with the mean of those of them that were drawn there; the error of
//! that is part of the spread between windows.

use super::{LEAST, Range, Windows, student};
use crate::analyze::estimate::Sum;

/// Operations of one kind, window by window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clusters {
    /// The window that is still open.
    open: Window,
    /// Complete windows after the first phase that had any operations, and the operations and the time (best values, ns) in
    /// them.
    windows: u64,
    operations: f64,
    time: f64,
    /// How long they were, ns.
    spans: f64,
    /// Over windows, of operations n and time y, both for each ns that the window was open: Σn, Σy, Σn², Σny, Σy².
    n: f64,
    y: Range,
    nn: f64,
    ny: f64,
    yy: f64,
}

/// One window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    number: u64,
    /// How long it was, ns, once an operation of the kind has come after it.
    span: Option<u64>,
    /// The operations that were timed outside of runs, and their time.
    timed: (u64, Sum),
    /// The same for those that were drawn from runs.
    drawn: (u64, Sum),
    not_drawn: u64,
}

impl Clusters {
    /// Takes a timed operation.
    pub fn timed(&mut self, windows: &Windows, time: Sum, is_drawn: bool) {
        let Some(window) = self.window(windows) else { return };
        let kind = if is_drawn { &mut window.drawn } else { &mut window.timed };
        kind.0 += 1;
        kind.1.add(time);
    }

    /// Takes an operation of a run that was not drawn.
    pub fn not_drawn(&mut self, windows: &Windows) {
        if let Some(window) = self.window(windows) {
            window.not_drawn += 1;
        }
    }

    /// Takes note of how long the last window with such operations was, if it is over.
    pub fn time_passes(&mut self, windows: &Windows) {
        self.open.span = self.open.span.or_else(|| windows.span(self.open.number));
    }

    /// Returns the present window, after closing the one before; `None` in the first phase.
    fn window(&mut self, windows: &Windows) -> Option<&mut Window> {
        if windows.number < 2 {
            return None;
        }
        self.time_passes(windows);
        if self.open.number != windows.number {
            self.close();
            self.open.number = windows.number;
        }
        Some(&mut self.open)
    }

    /// Adds the open window to the sums. If nothing came after it, it counts as if it had been as long as the others.
    fn close(&mut self) {
        let window = std::mem::take(&mut self.open);
        let (count, time) = window.whole();
        let others = || (self.windows > 0).then(|| self.spans / self.windows as f64);
        let span = window.span.map(|span| span as f64).or_else(others);
        let Some(span) = span.filter(|_| count > 0.0) else { return };
        let (n, y) = (count / span, time.scaled(1.0 / span));
        self.windows += 1;
        self.operations += count;
        self.time += time.value;
        self.spans += span;
        self.n += n;
        self.y = self.y.plus(y);
        self.nn += n * n;
        self.ny += n * y.value;
        self.yy += y.value * y.value;
    }

    /// Adds the windows of another process.
    pub fn merge(&mut self, other: &Clusters) {
        let mut other = *other;
        self.close();
        other.close();
        self.windows += other.windows;
        self.operations += other.operations;
        self.time += other.time;
        self.spans += other.spans;
        self.n += other.n;
        self.y = self.y.plus(other.y);
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
        let mean = all.y.scaled(1.0 / all.n);
        let squares = (all.yy - 2.0 * mean.value * all.ny + mean.value * mean.value * all.nn).max(0.0);
        // The error for the mean of the untimed operations, which are a finite population.
        let untimed = untimed as f64;
        let error = (k / (k - 1.0) * squares).sqrt() / all.n * ((n + untimed) / untimed).sqrt();
        // What the windows have more than their share is missing in the rest. Where most is timed, this difference says little.
        let missing = (all.time / n - mean.value) * (n / untimed).min(1.0);
        Some(mean.less(missing).widened(student(k - 1.0) * error))
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
