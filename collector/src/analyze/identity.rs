//! The parts that a GPU's time is divided into. They sum exactly to the span.
//!
//! Each timed operation covers three nested intervals of its timeline: where it **certainly** ran (from its latest
//! possible start to its earliest possible end, if the one is before the other), where it ran by the best
//! **estimate**, and where it **possibly** ran (between its events). A burst or a run of launches certainly ran only
//! after the last of them had been launched: before that, the GPU may have waited for the host between any two of
//! them. Every nanosecond of a span is counted once, in the first of these parts that applies by the best estimate:
//!
//! 1. a kernel runs: *compute*
//! 2. a graph launch runs: *graph* (its kernels are not separated)
//! 3. a communication kernel runs: *exposed communication*
//! 4. a copy or a memset runs: *exposed copy*
//! 5. work may run of which the records may be lost: *undecided*
//! 6. work may run that was left untimed to keep within the budget: *unobserved*
//! 7. other work without an estimate may run: *undecided* (untimed work, or event pairs that may contain other work)
//! 8. *idle*
//!
//! The values sum to the span, to the nanosecond. Each has an interval of its own: lo counts the time that certainly
//! belongs to this part, hi the time that may belong to it. The hi of *undecided* counts all time that is not
//! certain, and that of *unobserved* all of it that was not observed.
//!
//! The span of a timeline is from its first start event to its last end event. A timeline is a device with all the
//! work of one process there, in ns of the line that its clocks were fitted to. Several processes are added.

use super::estimate::Sum;

/// What an interval of GPU time is spent on, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A kernel.
    Compute = 0,
    /// A graph launch.
    Graph = 1,
    /// A communication kernel.
    Communication = 2,
    /// A copy or a memset.
    Copy = 3,
}

impl Class {
    /// All, in order of precedence.
    pub const ALL: [Class; CLASSES] = [Class::Compute, Class::Graph, Class::Communication, Class::Copy];
}

/// The number of classes.
pub const CLASSES: usize = 4;

/// A part of a span by the best estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The GPU ran work of this class.
    Busy(Class),
    /// The time was not observed.
    Unobserved,
    /// It is neither certainly busy nor idle.
    Undecided,
    /// Nothing ran.
    Idle,
}

/// The number of parts.
pub const PARTS: usize = CLASSES + 3;

impl Part {
    /// All, in order of precedence.
    pub const ALL: [Part; PARTS] = [
        Part::Busy(Class::Compute),
        Part::Busy(Class::Graph),
        Part::Busy(Class::Communication),
        Part::Busy(Class::Copy),
        Part::Unobserved,
        Part::Undecided,
        Part::Idle,
    ];

    /// Its place in [`ALL`](Self::ALL).
    pub fn index(self) -> usize {
        match self {
            Part::Busy(class) => class as usize,
            Part::Unobserved => CLASSES,
            Part::Undecided => CLASSES + 1,
            Part::Idle => CLASSES + 2,
        }
    }
}

/// How certain it is that an operation covers an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// It certainly does.
    Certain,
    /// By the best estimate it does.
    Estimated,
    /// It may, and there is no better estimate.
    Undecided,
    /// It may, and it was left untimed to keep within the budget.
    Unobserved,
    /// Something may, of which the record may be lost.
    Lost,
    /// It may, between its events.
    Possible,
}

/// The parts of a span, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// From the first start event to the last end event.
    pub span: u64,
    /// The time of each [`Class`].
    pub busy: [Sum; CLASSES],
    /// The time in which nothing ran.
    pub idle: Sum,
    /// The time that is neither certainly busy nor idle. Its lo equals its value; its hi is all time that is not
    /// certain.
    pub undecided: Sum,
    /// The time that was not observed. Its lo equals its value.
    pub unobserved: Sum,
    /// The part of each hi of `busy` that results from unobserved time only.
    pub maybe: [u64; CLASSES],
}

impl Identity {
    /// Returns the length of each [`Part`], ns.
    pub fn values(&self) -> [u64; PARTS] {
        Part::ALL.map(|part| match part {
            Part::Busy(class) => self.busy[class as usize].value,
            Part::Unobserved => self.unobserved.value,
            Part::Undecided => self.undecided.value,
            Part::Idle => self.idle.value,
        })
    }

    /// Counts `ns` that were spent on one part.
    pub fn pass(&mut self, part: Part, ns: u64) {
        self.span += ns;
        match part {
            Part::Busy(class) => self.busy[class as usize].value += ns,
            Part::Unobserved => {
                self.unobserved.value += ns;
                self.unobserved.lo += ns;
            }
            Part::Undecided => {
                self.undecided.value += ns;
                self.undecided.lo += ns;
            }
            Part::Idle => self.idle.value += ns,
        }
    }

    /// Widens the intervals by `ns`, by which edges can be off against each other in all. Parts that never can have
    /// run stay 0.
    pub fn doubt(&mut self, ns: u64) {
        for part in self.busy.iter_mut().chain([&mut self.idle, &mut self.undecided, &mut self.unobserved]) {
            if part.hi > 0 {
                part.lo = part.lo.saturating_sub(ns);
                part.hi = part.hi.max(self.span.min(part.hi.saturating_add(ns)));
            }
        }
    }

    /// Widens the intervals by `ns` that were counted before work of `class` in them was known.
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
