//! Numbers for what is sent once: found by a hash, taken without a lock, and never taken back.

use core::sync::atomic::{AtomicU64, Ordering};

/// Places that are tried before the table counts as full for a hash.
const PROBES: usize = 32;
/// The bit of a place that says that what it stands for was sent; the others are the hash's.
const SENT: u64 = 1;

/// A table of hashes. Valid when zero.
pub struct Numbers<const N: usize> {
    /// 0 = free. Relaxed: what a number stands for travels through the rings, and the collector waits for it.
    places: [AtomicU64; N],
}

impl<const N: usize> Numbers<N> {
    /// Returns the number of a hash, and sends what it stands for if that was not sent yet. `None`: `send` has failed, and
    /// may succeed another time. 0: the table has no place for it. Two threads may send the same at the same time, which
    /// does no harm.
    #[inline]
    pub fn number(&self, hash: u64, send: impl FnOnce(u32) -> bool) -> Option<u32> {
        let unsent = match hash & !SENT {
            0 => 2, // 0 would be a free place
            unsent => unsent,
        };
        for index in Self::probes(hash) {
            let place = self.places.get(index)?;
            let mut found = place.load(Ordering::Relaxed);
            if found == 0 {
                let taken = place.compare_exchange(0, unsent, Ordering::Relaxed, Ordering::Relaxed);
                found = taken.map_or_else(|found| found, |_| unsent);
            }
            let number = index as u32 + 1;
            if found == unsent | SENT {
                return Some(number);
            }
            if found == unsent {
                let is_sent = send(number);
                if is_sent {
                    place.store(unsent | SENT, Ordering::Relaxed);
                }
                return is_sent.then_some(number);
            }
        }
        Some(0)
    }

    #[inline]
    fn probes(hash: u64) -> impl Iterator<Item = usize> {
        const { assert!(N.is_power_of_two()) };
        let start = (hash >> 1) as usize;
        (0..PROBES).map(move |n| start.wrapping_add(n) % N)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<const N: usize>() -> Numbers<N> {
        Numbers { places: [const { AtomicU64::new(0) }; N] }
    }

    #[test]
    fn what_was_sent_keeps_its_number() {
        let numbers = table::<64>();
        let first = numbers.number(6, |_| true).unwrap();
        assert_eq!(numbers.number(6, |_| panic!("it was sent")), Some(first));
        // A hash in the same place gets the next one.
        let second = numbers.number(6 + (64 << 1), |_| true).unwrap();
        assert!(first != 0 && second != 0 && second != first);
    }

    #[test]
    fn what_could_not_be_sent_is_sent_again() {
        let numbers = table::<64>();
        assert_eq!(numbers.number(8, |_| false), None);
        assert!(numbers.number(8, |_| true).is_some_and(|number| number != 0));
    }

    #[test]
    fn a_full_table_gives_no_number() {
        let numbers = table::<32>();
        for hash in 0..32u64 {
            assert!(numbers.number((hash + 1) << 8, |_| true).is_some_and(|number| number != 0));
        }
        assert_eq!(numbers.number(77 << 8, |_| panic!("there is no place")), Some(0));
    }

    #[test]
    fn a_hash_of_zero_has_a_number() {
        let numbers = table::<32>();
        for hash in [0, 1] {
            assert!(numbers.number(hash, |_| true).is_some_and(|number| number != 0));
        }
    }
}
