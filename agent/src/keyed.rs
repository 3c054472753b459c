//! A table from handles to what is known of them. It has a fixed size, takes no lock and never removes a key.
//!
//! The driver reuses addresses, so although keys stay, the table needs little more room than the number of handles that
//! are alive at the same time. What a key means *now* is up to the value.

use core::sync::atomic::{AtomicU64, Ordering};

/// Places that are tried before the table counts as full for a key.
const PROBES: usize = 64;

/// The table. Valid when zero, if `V` is.
pub struct Keyed<V, const N: usize> {
    places: [Place<V>; N],
}

struct Place<V> {
    /// 0 = free; set once. Relaxed: the value orders its own accesses.
    key: AtomicU64,
    value: V,
}

impl<V, const N: usize> Keyed<V, N> {
    /// Returns the value of a key, which gets a place if it has none. `None` for key 0, and when the table is full.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&V> {
        self.place(key, true)
    }

    /// Returns the value of a key, if it has a place.
    pub fn find(&self, key: u64) -> Option<&V> {
        self.place(key, false)
    }

    /// Returns the value of a key that is in the first place where it would be looked for.
    #[inline(always)]
    pub fn first(&self, key: u64) -> Option<&V> {
        let place = self.places.get(Self::start(key))?;
        (place.key.load(Ordering::Relaxed) == key && key != 0).then_some(&place.value)
    }

    /// Returns the number of that place.
    #[inline(always)]
    fn start(key: u64) -> usize {
        // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4): handles differ in their middle bits.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - N.trailing_zeros())) as usize
    }

    #[inline]
    fn place(&self, key: u64, make: bool) -> Option<&V> {
        const { assert!(N.is_power_of_two()) };
        if key == 0 {
            return None;
        }
        let start = Self::start(key);
        for n in 0..PROBES {
            let place = self.places.get((start + n) % N)?;
            let found = place.key.load(Ordering::Relaxed);
            if found == key {
                return Some(&place.value);
            }
            if found == 0 && !make {
                return None;
            }
            if found == 0 {
                match place.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(&place.value),
                    Err(other) if other == key => return Some(&place.value),
                    Err(_) => {}
                }
            }
        }
        None
    }

    /// Returns all values, those of free places included.
    pub fn values(&self) -> impl Iterator<Item = &V> + '_ {
        self.places.iter().map(|p| &p.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    fn table<const N: usize>() -> Box<Keyed<AtomicU64, N>> {
        Box::new(Keyed { places: [const { Place { key: AtomicU64::new(0), value: AtomicU64::new(0) } }; N] })
    }

    #[test]
    fn a_key_keeps_its_place() {
        let table = table::<128>();
        for key in 1..=64u64 {
            table.get(key << 12).unwrap().store(key, Ordering::Relaxed);
        }
        for key in 1..=64u64 {
            assert_eq!(table.get(key << 12).unwrap().load(Ordering::Relaxed), key);
        }
        assert!(table.get(0).is_none(), "0 is no handle");
    }

    #[test]
    fn a_full_table_says_so() {
        let table = table::<64>();
        assert_eq!((1..=100u64).filter(|key| table.get(*key).is_some()).count(), 64);
    }

    #[test]
    fn threads_that_meet_a_new_key_share_its_place() {
        for _ in 0..200 {
            let table = table::<64>();
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for key in 1..=32u64 {
                            table.get(key).unwrap().fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert!((1..=32u64).all(|key| table.get(key).unwrap().load(Ordering::Relaxed) == 4));
        }
    }
}
