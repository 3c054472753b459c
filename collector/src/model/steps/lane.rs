//! How often and how regularly does each token of a sequence occur?

use super::spacing::Spacings;
use super::token::{Key, Kind, Letter, Place, Sequence};
use crate::hash::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The most tokens that are kept. The rarest half is dropped when there are more, so that tokens of a loop stay, which
/// come again and again.
const MOST_TOKENS: usize = 4096;

/// The number of last occurrences that are kept.
const RECENT: usize = 16;

/// The occurrences of a token.
#[derive(Clone, Debug)]
pub(super) struct Occurrences {
    pub kind: Kind,
    /// Whether it is a plain token, not a precise one.
    pub is_plain: bool,
    pub count: u64,
    /// Its first and last place.
    pub first: u64,
    pub last: u64,
    /// What had been [launched](Lane::launched) before the first.
    pub launched: u64,
    time: u64,
    pub spacings: Spacings,
    recent: [u64; RECENT],
}

impl Occurrences {
    fn first(place: &Place, is_plain: bool, launched: u64) -> Occurrences {
        let Place { number, time, kind, .. } = *place;
        let mut recent = [0; RECENT];
        recent[0] = number;
        let spacings = Spacings::default();
        let (first, last) = (number, number);
        Occurrences { kind, is_plain, count: 1, first, last, launched, time, spacings, recent }
    }

    fn again(&mut self, place: &Place) {
        self.spacings.add(place.number - self.last, place.time.saturating_sub(self.time));
        (self.last, self.time) = (place.number, place.time);
        self.recent[self.count as usize % RECENT] = place.number;
        self.count += 1;
    }

    /// Its last places, in order.
    pub(super) fn recent(&self) -> impl Iterator<Item = u64> {
        let kept = self.count.min(RECENT as u64);
        (self.count - kept..self.count).map(|at| self.recent[at as usize % RECENT])
    }

    /// The mean distance of its last occurrences.
    pub(super) fn last_distance(&self) -> f64 {
        let kept = self.count.min(RECENT as u64);
        let from = self.recent().next().unwrap_or(self.last);
        (self.last - from) as f64 / kept.saturating_sub(1).max(1) as f64
    }
}

/// Keys are hashes already.
#[derive(Clone, Debug, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// The contexts of the operations of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Contexts {
    /// It has no operation.
    #[default]
    None,
    /// All are of this one.
    One(u32),
    /// They are of several.
    Several,
}

impl Contexts {
    fn add(&mut self, context: u32) {
        *self = match *self {
            Contexts::None => Contexts::One(context),
            Contexts::One(other) if other == context => Contexts::One(context),
            Contexts::One(_) | Contexts::Several => Contexts::Several,
        };
    }
}

/// A sequence and its tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    sequence: Sequence,
    /// Kernel and graph launches.
    pub launches: u64,
    /// Operations inside graphs.
    pub in_graphs: u64,
    /// The contexts of its operations.
    pub contexts: Contexts,
    /// When the call of its first operation began, and that of the last one: host ns.
    pub ends: Option<(u64, u64)>,
    pub tokens: HashMap<Key, Occurrences, BuildHasherDefault<AsItIs>>,
}

impl Lane {
    /// From when to when it has operations, ns.
    pub(super) fn time(&self) -> u64 {
        self.ends.map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// The number of places.
    pub(super) fn len(&self) -> u64 {
        self.sequence.len()
    }

    /// The number of launches, and of operations inside graphs.
    pub(super) fn launched(&self) -> u64 {
        self.launches + self.in_graphs
    }

    /// Takes what the next record contributes.
    pub(super) fn observe(&mut self, letter: &Letter) {
        let launched = self.launched();
        self.launches += u64::from(letter.kind.computes());
        if letter.kind.is_operation() {
            self.contexts.add(letter.context);
            let (first, _) = self.ends.unwrap_or((letter.time, 0));
            self.ends = Some((first, letter.time));
        }
        if let Kind::Graph(operations) = letter.kind {
            self.in_graphs += u64::from(operations);
        }
        let Some(place) = self.sequence.place(letter) else { return };
        self.occurs(place.plain, &place, true, launched);
        self.occurs(place.precise, &place, false, launched);
        if self.tokens.len() > MOST_TOKENS {
            self.drop_the_rarest();
        }
    }

    fn occurs(&mut self, key: Key, place: &Place, is_plain: bool, launched: u64) {
        let known = self.tokens.entry(key);
        let first = || Occurrences::first(place, is_plain, launched);
        known.and_modify(|known| known.again(place)).or_insert_with(first);
    }

    /// Drops the rarer half; among equally rare tokens those that came last, so that a long step's tokens stay until
    /// they come again.
    fn drop_the_rarest(&mut self) {
        let mut order: Vec<(u64, std::cmp::Reverse<u64>, Key)> =
            self.tokens.iter().map(|(key, of)| (of.count, std::cmp::Reverse(of.first), *key)).collect();
        order.sort_unstable();
        for (_, _, key) in &order[..order.len() / 2] {
            self.tokens.remove(key);
        }
    }
}
