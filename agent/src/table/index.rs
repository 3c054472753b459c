//! Which entry of the table has this name? A hash table with open addressing that is made when the agent is compiled.

/// Four times as many places as names, so that most searches end at the first.
const PLACES: usize = 2048;

/// Positions in a list of names.
pub struct Index {
    /// A position plus one; 0 = free.
    places: [u16; PLACES],
}

impl Index {
    /// Indexes a list of names. Of equal names, the first has a place.
    #[allow(clippy::indexing_slicing, reason = "a constant function, with positions below the lengths")]
    pub const fn of(names: &[&str]) -> Index {
        assert!(names.len() < PLACES / 2);
        let mut places = [0; PLACES];
        let mut position = 0;
        while position < names.len() {
            let name = names[position].as_bytes();
            let mut place = hash(name);
            while places[place] != 0 && !equal(names[places[place] as usize - 1].as_bytes(), name) {
                place = (place + 1) % PLACES;
            }
            if places[place] == 0 {
                places[place] = position as u16 + 1;
            }
            position += 1;
        }
        Index { places }
    }

    /// Returns the position of a name. `is` says whether a position is it.
    #[inline]
    pub fn find(&self, name: &[u8], is: impl Fn(usize) -> bool) -> Option<usize> {
        let start = hash(name);
        let taken = (start..start + PLACES).map_while(|place| {
            let position = *self.places.get(place % PLACES)?;
            usize::from(position).checked_sub(1)
        });
        taken.into_iter().find(|position| is(*position))
    }
}

/// A hash of a name, folded to a place: eight bytes at a time, each followed by a multiplication (Knuth, TAOCP 6.4, with 2⁶⁴
/// divided by the golden ratio). The last eight overlap those before them.
const fn hash(name: &[u8]) -> usize {
    let (mut hash, mut rest) = (name.len() as u64, name);
    while let Some((word, after)) = rest.split_first_chunk() {
        hash = mixed(hash, u64::from_le_bytes(*word));
        rest = after;
    }
    let last = match name.last_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = 0;
            while let Some((byte, after)) = rest.split_first() {
                word = word << 8 | *byte as u64;
                rest = after;
            }
            word
        }
    };
    (mixed(hash, last) >> 32) as usize % PLACES
}

const fn mixed(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

#[allow(clippy::indexing_slicing, reason = "a constant function, with positions below the lengths")]
const fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len()
}

#[cfg(test)]
mod tests {
    use crate::hook::{Hooks, Table};
    use std::collections::BTreeMap;

    #[test]
    fn every_hook_is_found_by_its_symbol_and_with_its_variants() {
        let mut by_base: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for hook in Table::all() {
            assert_eq!(Table::named(hook.symbol).map(|found| found.api), Some(hook.api), "{:?}", hook.symbol);
            by_base.entry(hook.base).or_default().push(hook.api);
        }
        for (base, expected) in by_base {
            let found: Vec<u16> = Table::variants(base).map(|hook| hook.api).collect();
            assert_eq!(found, expected, "the entries of {base:?} follow each other");
        }
        for name in [c"", c"cu", c"cuLaunchKerne", c"cuLaunchKernel_", c"cuTomorrow"] {
            assert!(Table::named(name).is_none() && Table::variants(name).next().is_none(), "{name:?}");
        }
    }
}
