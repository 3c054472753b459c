//! Numbers for what is sent once: found by a hash, taken without a lock, and never taken back.

use core::hint::cold_path;
use core::sync::atomic::{AtomicU64, Ordering};

/// Places that are tried before the table counts as full for a hash.
const PROBES: usize = 32;
/// The bit of a place that says that what it stands for was sent, and the bit that keeps what was found of it then; the
/// others are the hash's.
const SENT: u64 = 1;
const FOUND: u64 = 2;

/// What has a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// Its number; 0 = the table has no place for it.
    pub number: u32,
    /// What was found of it when it was sent.
    pub found: bool,
}

/// A table of hashes. Valid when zero.
pub struct Numbers<const N: usize> {
    /// 0 = free. Relaxed: what a number stands for travels through the rings, and the collector waits for it.
    places: [AtomicU64; N],
}

impl<const N: usize> Numbers<N> {
    /// Returns the number of a hash, and sends what it stands for if that was not sent yet. `send` returns what it finds
    /// of it, which must be the same each time; `None`: it has failed, and may succeed another time. Two threads may send
    /// the same at the same time, which does no harm.
    #[inline]
    pub fn number(&self, hash: u64, send: impl FnOnce(u32) -> Option<bool>) -> Option<Numbered> {
        let unsent = match hash & !(SENT | FOUND) {
            0 => 4, // 0 would be a free place
            unsent => unsent,
        };
        for index in Self::probes(hash) {
            let place = self.places.get(index)?;
            let mut known = place.load(Ordering::Relaxed);
            if known == 0 {
                let taken = place.compare_exchange(0, unsent, Ordering::Relaxed, Ordering::Relaxed);
                known = taken.map_or_else(|known| known, |_| unsent);
            }
            let number = index as u32 + 1;
            if known & !FOUND == unsent | SENT {
                return Some(Numbered { number, found: known & FOUND != 0 });
            }
            if known == unsent {
                let found = send(number)?;
                let mark = if found { SENT | FOUND } else { SENT };
                place.store(unsent | mark, Ordering::Relaxed);
                return Some(Numbered { number, found });
            }
        }
        Some(Numbered { number: 0, found: false })
    }

    /// Has everything sent again at its next use, under its number: a collector has come that has not seen it.
    pub fn forget_sent(&self) {
        self.places.iter().for_each(|place| _ = place.fetch_and(!(SENT | FOUND), Ordering::Relaxed));
    }

    /// Returns the number of a hash if what it stands for was sent.
    #[inline(always)]
    pub fn known(&self, hash: u64) -> Option<Numbered> {
        // Most are in their first place.
        let first = Self::probes(hash).next()?;
        let known = self.places.get(first)?.load(Ordering::Relaxed);
        if known & !FOUND == Self::sent(hash) {
            return Some(Numbered { number: first as u32 + 1, found: known & FOUND != 0 });
        }
        cold_path();
        self.known_further(hash)
    }

    #[inline(never)]
    fn known_further(&self, hash: u64) -> Option<Numbered> {
        for index in Self::probes(hash) {
            let known = self.places.get(index)?.load(Ordering::Relaxed);
            if known & !FOUND == Self::sent(hash) {
                return Some(Numbered { number: index as u32 + 1, found: known & FOUND != 0 });
            }
            if known == 0 {
                break;
            }
        }
        None
    }

    /// Returns what is in the place of a hash when what it stands for was sent, but for what was found of it.
    #[inline(always)]
    fn sent(hash: u64) -> u64 {
        hash & !(SENT | FOUND) | SENT
    }

    #[inline(always)]
    fn probes(hash: u64) -> impl Iterator<Item = usize> {
        const { assert!(N.is_power_of_two()) };
        let start = (hash >> 2) as usize;
        (0..PROBES).map(move |n| start.wrapping_add(n) % N)
    }
}

/// Hashes two words: the halves of their product (Yi, wyhash).
#[inline(always)]
pub fn mix(left: u64, right: u64) -> u64 {
    let product = u128::from(left ^ 0xA076_1D64_78BD_642F) * u128::from(right ^ 0xE703_7ED1_A0B4_28DB);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<const N: usize>() -> Numbers<N> {
        Numbers { places: [const { AtomicU64::new(0) }; N] }
    }

    fn is_numbered(numbered: Option<Numbered>) -> bool {
        numbered.is_some_and(|numbered| numbered.number != 0)
    }

    #[test]
    fn what_was_sent_keeps_its_number_and_what_was_found_of_it() {
        let numbers = table::<64>();
        let first = numbers.number(12, |_| Some(true)).unwrap();
        assert!(first.found);
        assert_eq!(numbers.number(12, |_| panic!("it was sent")), Some(first));
        // A hash in the same place gets the next one.
        let second = numbers.number(12 + (64 << 2), |_| Some(false)).unwrap();
        assert!(first.number != 0 && second.number != 0 && second.number != first.number && !second.found);
        assert_eq!(numbers.number(12 + (64 << 2), |_| panic!("it was sent")), Some(second));
        let known = [12, 12 + (64 << 2), 12 + (128 << 2), 16].map(|hash| numbers.known(hash));
        assert_eq!(known, [Some(first), Some(second), None, None]);
    }

    #[test]
    fn what_could_not_be_sent_is_sent_again() {
        let numbers = table::<64>();
        assert_eq!(numbers.number(8, |_| None), None);
        assert_eq!(numbers.known(8), None);
        assert!(is_numbered(numbers.number(8, |_| Some(false))));
    }

    /// A collector that came later had the numbers of stacks, and no stacks.
    #[test]
    fn what_was_sent_is_sent_again_under_its_number_when_that_is_forgotten() {
        let numbers = table::<64>();
        let hashes = [12, 12 + (64 << 2), 0];
        let before = hashes.map(|hash| numbers.number(hash, |_| Some(true)));
        numbers.forget_sent();
        assert_eq!(hashes.map(|hash| numbers.known(hash)), [None; 3]);
        let mut sent = Vec::new();
        // In another order than before.
        for (hash, before) in hashes.into_iter().zip(before).rev() {
            let again = numbers.number(hash, |number| {
                sent.push(number);
                Some(true)
            });
            assert_eq!(again, before);
        }
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn a_full_table_gives_no_number() {
        let numbers = table::<32>();
        for hash in 0..32u64 {
            assert!(is_numbered(numbers.number((hash + 1) << 8, |_| Some(false))));
        }
        let none = Numbered { number: 0, found: false };
        assert_eq!(numbers.number(77 << 8, |_| panic!("there is no place")), Some(none));
    }

    #[test]
    fn a_hash_of_zero_has_a_number() {
        let numbers = table::<32>();
        for hash in [0, 1, 2, 3] {
            assert!(is_numbered(numbers.number(hash, |_| Some(false))));
        }
    }
}
