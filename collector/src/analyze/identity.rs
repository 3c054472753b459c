//! Where did the GPU's time go? Parts that sum exactly to the span.
//!
//! Each timed operation covers three nested stretches of its timeline: where it **certainly** ran (from its latest
//! possible start to its earliest possible end, if those leave anything), where it ran by the best **estimate**, and
//! where it **possibly** ran (between its events). A burst or a run of launches certainly ran only from when the last of them had been
//! launched: before, the GPU may have waited for the host between any two of them. Every nanosecond of a span is counted once, by the first that holds
//! of what is estimated to run then:
//!
//! 1. a kernel runs: *compute*
//! 2. a graph launch runs: *graph* (its kernels are not told apart)
//! 3. a communication kernel runs: *exposed communication*
//! 4. a copy or a set runs: *exposed copy*
//! 5. work may run then that was left untimed to keep inside the budget: *unobserved*
//! 6. other work that has no estimate may run then: *undecided* (untimed work, or pairs that other work may lie inside)
//! 7. *idle*
//!
//! The values sum to the span, to the nanosecond. Each has an interval of its own: lo counts the time that is this
//! part's whatever the truth, hi the time that could be. The hi of *undecided* counts all the time that is not certain,
//! that of *unobserved* what of it was not observed.
//!
//! The span of a timeline reaches from its first start event to its last end event. A timeline is a device, with all that
//! one process did there, in ns of the line that its clocks were fitted to. Processes are added side by side.

use super::estimate::Sum;

/// What a stretch of GPU time is spent on, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A kernel.
    Compute = 0,
    /// A graph launch.
    Graph = 1,
    /// A communication kernel.
    Communication = 2,
    /// A copy or a set.
    Copy = 3,
}

impl Class {
    /// All, in order of precedence.
    pub const ALL: [Class; CLASSES] = [Class::Compute, Class::Graph, Class::Communication, Class::Copy];
}

/// How many classes there are.
pub const CLASSES: usize = 4;

/// How sure it is that an operation covers a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// It did.
    Certain,
    /// By the best estimate, it did.
    Estimated,
    /// It may have, and nothing better can be said.
    Undecided,
    /// It may have, and nobody looked, to keep inside the budget.
    Unobserved,
    /// It may have.
    Possible,
}

/// What covers the present moment of a sweep: operations by layer and class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cover {
    certain: [u32; CLASSES],
    estimated: [u32; CLASSES],
    undecided: [u32; CLASSES],
    unobserved: [u32; CLASSES],
    possible: [u32; CLASSES],
}

impl Cover {
    /// An operation's stretch begins.
    pub fn enter(&mut self, layer: Layer, class: Class) {
        self.layer(layer)[class as usize] += 1;
    }

    /// An operation's stretch ends.
    pub fn leave(&mut self, layer: Layer, class: Class) {
        self.layer(layer)[class as usize] -= 1;
    }

    /// Whether nothing is known or suspected to run, by the best estimate.
    pub fn is_idle(&self) -> bool {
        !any(&self.estimated) && !any(&self.undecided) && !any(&self.unobserved)
    }

    /// Whether nothing can run.
    pub fn is_certainly_idle(&self) -> bool {
        !any(&self.possible)
    }

    fn layer(&mut self, layer: Layer) -> &mut [u32; CLASSES] {
        match layer {
            Layer::Certain => &mut self.certain,
            Layer::Estimated => &mut self.estimated,
            Layer::Undecided => &mut self.undecided,
            Layer::Unobserved => &mut self.unobserved,
            Layer::Possible => &mut self.possible,
        }
    }
}

fn any(counts: &[u32]) -> bool {
    counts.iter().any(|count| *count > 0)
}

/// The parts of a span, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// First start event to last end event.
    pub span: u64,
    /// By [`Class`].
    pub busy: [Sum; CLASSES],
    /// Nothing ran.
    pub idle: Sum,
    /// Nobody can say. Its lo equals its value; its hi is all time that is not certain.
    pub undecided: Sum,
    /// Nobody looked. Its lo equals its value.
    pub unobserved: Sum,
    /// What is in the hi of `busy` only because nobody looked.
    pub maybe: [u64; CLASSES],
}

impl Identity {
    /// Counts `ns` that pass under `cover`.
    pub fn pass(&mut self, cover: &Cover, ns: u64) {
        self.span += ns;
        match cover.estimated.iter().position(|count| *count > 0) {
            Some(class) => self.busy[class].value += ns,
            None if any(&cover.unobserved) => {
                self.unobserved.value += ns;
                self.unobserved.lo += ns;
            }
            None if any(&cover.undecided) => {
                self.undecided.value += ns;
                self.undecided.lo += ns;
            }
            None => self.idle.value += ns,
        }
        let mut is_certain = cover.is_certainly_idle();
        for class in 0..CLASSES {
            if cover.certain[class] > 0 && !any(&cover.possible[..class]) {
                self.busy[class].lo += ns;
                is_certain = true;
            }
            if cover.possible[class] > 0 && !any(&cover.certain[..class]) {
                self.busy[class].hi += ns;
                self.maybe[class] += if cover.possible[class] == cover.unobserved[class] { ns } else { 0 };
            }
        }
        self.idle.lo += if cover.is_certainly_idle() { ns } else { 0 };
        self.idle.hi += if any(&cover.certain) { 0 } else { ns };
        self.undecided.hi += if is_certain { 0 } else { ns };
        self.unobserved.hi += if any(&cover.unobserved) && !is_certain { ns } else { 0 };
    }

    /// Edges can be off against each other by `ns` in all: the intervals widen, but for what never could have run.
    pub fn doubt(&mut self, ns: u64) {
        for part in self.busy.iter_mut().chain([&mut self.idle, &mut self.undecided, &mut self.unobserved]) {
            if part.hi > 0 {
                part.lo = part.lo.saturating_sub(ns);
                part.hi = part.hi.max(self.span.min(part.hi.saturating_add(ns)));
            }
        }
    }

    /// Work of `class` covered `ns` that were counted before it was known: the intervals widen.
    pub fn came_late(&mut self, class: Class, ns: u64) {
        for (other, part) in self.busy.iter_mut().enumerate() {
            if other == class as usize {
                part.hi = part.hi.saturating_add(ns);
            } else {
                part.lo = part.lo.saturating_sub(ns);
            }
        }
        self.idle.lo = self.idle.lo.saturating_sub(ns);
        self.undecided.hi = self.undecided.hi.saturating_add(ns);
    }

    /// Adds another span's parts.
    pub fn add(&mut self, other: &Identity) {
        self.span = self.span.saturating_add(other.span);
        for (part, theirs) in self.busy.iter_mut().zip(other.busy) {
            part.add(theirs);
        }
        for (part, theirs) in self.maybe.iter_mut().zip(other.maybe) {
            *part = part.saturating_add(theirs);
        }
        self.idle.add(other.idle);
        self.undecided.add(other.undecided);
        self.unobserved.add(other.unobserved);
    }
}
