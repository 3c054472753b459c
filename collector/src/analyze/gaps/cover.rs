//! What covers the current moment of a sweep, and how long what did.
//!
//! A sweep stops several times for each operation. So what it counts there is one number for everything that certainly and
//! possibly runs; the parts of the [`Identity`], which are many, are added up from these at the end.

use super::super::identity::{CLASSES, Class, Identity, Layer, PARTS, Part};

/// The number of layers.
const LAYERS: usize = 6;
/// The number of sets of classes.
const SETS: usize = 1 << CLASSES;

/// The operations at the current moment of a sweep, by layer and class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cover([Counts; LAYERS]);

/// The operations of one layer, by class.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    of: [u32; CLASSES],
    /// The classes that have any.
    any: Set,
}

/// A set of classes: bit *c* is set for class *c*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set(u8);

impl Set {
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its place among all sets.
    fn index(self) -> usize {
        usize::from(self.0) % SETS
    }

    /// The numbers of its classes.
    fn classes(self) -> impl Iterator<Item = usize> {
        (0..CLASSES).filter(move |class| self.0 >> class & 1 != 0)
    }

    /// Those of its classes before which `other` has none.
    fn not_after(self, other: Set) -> Set {
        Set(self.0 & (other.0 ^ other.0.wrapping_sub(1)))
    }
}

impl Cover {
    /// Adds an operation whose interval starts.
    pub fn enter(&mut self, layer: Layer, class: Class) {
        let counts = &mut self.0[layer as usize];
        counts.of[class as usize] += 1;
        counts.any.0 |= 1 << class as u8;
    }

    /// Removes an operation whose interval ends.
    pub fn leave(&mut self, layer: Layer, class: Class) {
        let counts = &mut self.0[layer as usize];
        let count = &mut counts.of[class as usize];
        *count -= 1;
        counts.any.0 &= !(u8::from(*count == 0) << class as u8);
    }

    /// Returns the part of the span that the current moment belongs to.
    pub fn part(&self) -> Part {
        match Class::ALL.get(self.any(Layer::Estimated).0.trailing_zeros() as usize) {
            Some(class) => Part::Busy(*class),
            None if self.may_be_lost() => Part::Undecided,
            None if !self.any(Layer::Unobserved).is_empty() => Part::Unobserved,
            None if !self.any(Layer::Undecided).is_empty() => Part::Undecided,
            None => Part::Idle,
        }
    }

    /// Whether nothing runs or may run, by the best estimate.
    pub fn is_idle(&self) -> bool {
        [Layer::Estimated, Layer::Undecided, Layer::Unobserved, Layer::Lost]
            .iter()
            .all(|layer| self.any(*layer).is_empty())
    }

    /// Whether something may run of which the record is lost.
    pub fn may_be_lost(&self) -> bool {
        !self.any(Layer::Lost).is_empty()
    }

    /// Whether nothing can run.
    pub fn is_certainly_idle(&self) -> bool {
        self.any(Layer::Possible).is_empty()
    }

    fn any(&self, layer: Layer) -> Set {
        self.0[layer as usize].any
    }
}

/// How long a span was covered by what.
#[derive(Clone, Debug, Default)]
pub struct Covered {
    /// By the classes that certainly ran, and by those that possibly did, ns.
    times: [[u64; SETS]; SETS],
    /// By [`Part`], ns.
    parts: [u64; PARTS],
    /// What was added up so far.
    identity: Identity,
}

impl Covered {
    /// Counts `ns` during which `cover` applies, whose part is `part`.
    pub fn pass(&mut self, cover: &Cover, part: Part, ns: u64) {
        let (certain, possible) = (cover.any(Layer::Certain), cover.any(Layer::Possible));
        self.times[certain.index()][possible.index()] += ns;
        self.parts[part.index()] += ns;
        if cover.any(Layer::Unobserved).is_empty() {
            return;
        }
        let of = |layer: Layer, class: usize| cover.0[layer as usize].of[class];
        for class in possible.not_after(certain).classes() {
            let is_unobserved = of(Layer::Possible, class) == of(Layer::Unobserved, class);
            self.identity.maybe[class] += if is_unobserved { ns } else { 0 };
        }
        let is_certain = possible.is_empty() || !certain.not_after(possible).is_empty();
        self.identity.unobserved.hi += if is_certain { 0 } else { ns };
    }

    /// Widens the intervals by `ns` that were counted before work of `class` in them was known.
    pub fn came_late(&mut self, class: Class, ns: u64) {
        self.add_up();
        self.identity.came_late(class, ns);
    }

    /// Returns the length of each part of the span so far, ns.
    pub fn values(&self) -> [u64; PARTS] {
        let mut values = self.identity.values();
        values.iter_mut().zip(self.parts).for_each(|(sum, ns)| *sum += ns);
        values
    }

    /// Returns the parts of the span.
    pub fn identity(mut self) -> Identity {
        self.add_up();
        self.identity
    }

    /// Adds up what was counted since the last time.
    fn add_up(&mut self) {
        let identity = &mut self.identity;
        for (part, ns) in Part::ALL.into_iter().zip(std::mem::take(&mut self.parts)) {
            identity.pass(part, ns);
        }
        for (certain, times) in (0u8..).map(Set).zip(std::mem::take(&mut self.times)) {
            for (possible, ns) in (0u8..).map(Set).zip(times).filter(|(_, ns)| *ns > 0) {
                let certainly = certain.not_after(possible);
                certainly.classes().for_each(|class| identity.busy[class].lo += ns);
                possible.not_after(certain).classes().for_each(|class| identity.busy[class].hi += ns);
                identity.idle.lo += if possible.is_empty() { ns } else { 0 };
                identity.idle.hi += if certain.is_empty() { ns } else { 0 };
                let is_certain = possible.is_empty() || !certainly.is_empty();
                identity.undecided.hi += if is_certain { 0 } else { ns };
            }
        }
    }
}
