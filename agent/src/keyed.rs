//! A table from handles to what we know of them: fixed size, lock-free, its keys never taken back.
//!
//! The driver hands the same addresses out again, so keys that stay bound the table by how many handles live at the same
//! time, nearly; what a key means *now* is the value's business.

use core::sync::atomic::{AtomicU64, Ordering};

/// Places tried before a table counts as full around a key.
const PROBES: usize = 64;

/// The table. Valid when zero, if `V` is.
pub struct Keyed<V, const N: usize> {
    places: [Place<V>; N],
}

struct Place<V> {
    /// 0 = free; set once. Relaxed: the value has its own publication.
    key: AtomicU64,
    value: V,
}

impl<V, const N: usize> Keyed<V, N> {
    /// The value of a key, which gets a place if it has none. `None` for key 0, and when the table is full.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&V> {
        const { assert!(N.is_power_of_two()) };
        if key == 0 {
            return None;
        }
        // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4): handles differ in their middle bits.
        let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - N.trailing_zeros())) as usize;
        for n in 0..PROBES {
            let place = self.places.get((start + n) % N)?;
            let found = place.key.load(Ordering::Relaxed);
            if found == key {
                return Some(&place.value);
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

    /// All values, free places' too.
    pub fn values(&self) -> impl Iterator<Item = &V> + '_ {
        self.places.iter().map(|p| &p.value)
    }
}
