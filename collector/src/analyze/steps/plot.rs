//! The times of steps over the run, in bounded memory.

use super::times::Taken;

/// The most means of a plot.
const PLOT: usize = 60;
/// The most parts, each a power of two of steps: a mean of the plot is that of several.
const PARTS: usize = 8 * PLOT;

/// Some steps in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of the first.
    pub first: u64,
    /// When that began, host ns.
    pub start: u64,
    /// How many there are.
    pub steps: u64,
    /// How long they took, ns.
    pub total: u64,
    /// How long the longest took, ns.
    pub longest: u64,
}

impl Part {
    fn of(taken: &Taken) -> Part {
        let Taken { step, start, duration, .. } = *taken;
        Part { first: step, start, steps: 1, total: duration, longest: duration }
    }

    /// Adds the steps after these.
    fn add(&mut self, next: &Part) {
        if self.steps == 0 {
            *self = *next;
            return;
        }
        self.steps += next.steps;
        self.total = self.total.saturating_add(next.total);
        self.longest = self.longest.max(next.longest);
    }

    /// Returns the mean of its steps, ns.
    pub(super) fn mean(&self) -> u64 {
        self.total / self.steps.max(1)
    }

    /// Returns the mean of all but the longest, ns: a single pause says nothing of the others.
    pub(super) fn trimmed_mean(&self) -> u64 {
        match self.steps {
            0 | 1 => self.total,
            steps => (self.total - self.longest.min(self.total)) / (steps - 1),
        }
    }
}

/// Steps in a row, divided into equal parts.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    full: Vec<Part>,
    /// The steps of a full part.
    width: u64,
    /// The part that is not full yet.
    open: Part,
}

impl Default for Plot {
    fn default() -> Self {
        Plot { full: Vec::new(), width: 1, open: Part::default() }
    }
}

impl Plot {
    pub(super) fn add(&mut self, taken: &Taken) {
        self.open.add(&Part::of(taken));
        if self.open.steps < self.width {
            return;
        }
        self.full.push(std::mem::take(&mut self.open));
        if self.full.len() == PARTS {
            self.full = together(&self.full, 2);
            self.width *= 2;
        }
    }

    /// Returns the parts; a last one that is not half full would be noise.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.each(1)
    }

    /// Returns the means of equally many steps each, of which there are fewer than [`PLOT`], and a last one of fewer steps if that
    /// is at least half full.
    pub(super) fn means(&self) -> Vec<u64> {
        self.coarse().iter().map(Part::mean).collect()
    }

    fn coarse(&self) -> Vec<Part> {
        let mut of = 1;
        while self.full.len() / of >= PLOT {
            of *= 2;
        }
        self.each(of)
    }

    /// Returns each `of` parts as one. The last one may have fewer steps, but at least half.
    fn each(&self, of: usize) -> Vec<Part> {
        let open = Some(self.open).filter(|open| open.steps > 0);
        let all: Vec<Part> = self.full.iter().copied().chain(open).collect();
        let mut parts = together(&all, of);
        let least = (self.width * of as u64).div_ceil(2);
        parts.pop_if(|last| last.steps < least);
        parts
    }

    /// Returns how much longer, in ns, the last third of the steps is than the first after the warm-up: medians of means, so that
    /// outliers in some of them change nothing. 0 with fewer than twelve means.
    pub(super) fn drift(&self, warm_up: u64) -> f64 {
        let parts = self.coarse();
        let width = parts.first().map_or(1, |part| part.steps);
        let steady = parts.get(warm_up.div_ceil(width) as usize..).unwrap_or_default();
        if steady.len() < 12 {
            return 0.0;
        }
        let middle = |parts: &[Part]| {
            let mut means: Vec<u64> = parts.iter().map(Part::mean).collect();
            means.sort_unstable();
            means[means.len() / 2] as f64
        };
        let third = steady.len() / 3;
        middle(&steady[steady.len() - third..]) - middle(&steady[..third])
    }
}

/// Returns each `of` parts as one; the last may be of fewer.
fn together(parts: &[Part], of: usize) -> Vec<Part> {
    let one = |some: &[Part]| {
        let mut whole = Part::default();
        some.iter().for_each(|part| whole.add(part));
        whole
    };
    parts.chunks(of).map(one).collect()
}
