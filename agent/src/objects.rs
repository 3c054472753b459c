//! A table from handles to the objects that they mean now. It has a fixed size and takes no lock.
//!
//! A driver mostly reuses the handles of what was destroyed, but need not. A key keeps its place after its object is removed,
//! and while a place is left that never had a key, nothing else happens. Then a new key takes over the place of one without an
//! object. So the table has room for as many objects as are alive at the same time, however many handles a process meets.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Places that are tried before the table counts as full for a key.
const PROBES: usize = 64;
/// How often a thread looks at a place that another thread is filling before it gives up. The other thread has a few
/// instructions to go, unless it has lost the processor.
const PATIENCE: usize = 1000;

/// The table. Valid when zero.
pub struct Objects<T: 'static, const N: usize> {
    places: [Place<T>; N],
}

struct Place<T> {
    /// 0 = it never had one. It changes from 0 by exchange, and then only while `object` is [`filling`]. Relaxed: the exchange
    /// and the store of `object` around the change order it.
    key: AtomicU64,
    /// The object that the key means, null, or [`filling`]. Release on the store, acquire on the load. SeqCst on the exchange
    /// that begins to fill it, and on the loads that follow in `insert`: of two threads that fill places for the same key, at
    /// least one sees the other.
    object: AtomicPtr<T>,
}

/// Why an object was not inserted.
pub enum Refused<T: 'static> {
    /// The key has this object, which another thread has inserted.
    Taken(&'static T),
    /// Another thread is inserting one at this moment.
    Busy,
    /// No place is left.
    Full,
}

/// Stands for the object of a place that a thread is filling.
fn filling<T>() -> *mut T {
    core::ptr::dangling_mut()
}

impl<T> Place<T> {
    #[inline(always)]
    fn has(&self, key: u64) -> bool {
        self.key.load(Ordering::Relaxed) == key
    }

    /// Returns its object if it has this key.
    #[inline(always)]
    fn object_of(&self, key: u64) -> Option<&'static T> {
        if !self.has(key) {
            return None;
        }
        let object = self.object();
        // Another key may have taken the place over meanwhile. Acquire of its object makes its key visible. A program that uses
        // a handle while it exists does not see the key come back after that: its own object would have to be removed first.
        object.filter(|_| self.has(key))
    }

    #[inline(always)]
    fn object(&self) -> Option<&'static T> {
        let object = self.object.load(Ordering::Acquire);
        // SAFETY: null, or inserted, so it lives as long as the process.
        if object == filling() { None } else { unsafe { object.as_ref() } }
    }

    /// Removes this object. Returns true for the first thread to do so.
    fn clear(&self, object: &'static T) -> bool {
        let this = core::ptr::from_ref(object).cast_mut();
        self.object.compare_exchange(this, core::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl<T, const N: usize> Objects<T, N> {
    /// Returns the object of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Option<&'static T> {
        self.places_of(key).find_map(|place| place.object_of(key))
    }

    /// Returns the object of a key that is in the first place where it would be looked for.
    #[inline(always)]
    pub fn first(&self, key: u64) -> Option<&'static T> {
        self.places.get(Self::start(key))?.object_of(key).filter(|_| key != 0)
    }

    /// Whether an object can be inserted for a key. Another thread may take the room at any time.
    pub fn has_room(&self, key: u64) -> bool {
        key != 0 && self.room(key).is_some()
    }

    /// Inserts an object for a key that has none.
    pub fn insert(&self, key: u64, object: &'static T) -> Result<(), Refused<T>> {
        if key == 0 {
            return Err(Refused::Full);
        }
        for _ in 0..PATIENCE {
            if let Some(known) = self.find(key) {
                return Err(Refused::Taken(known));
            }
            // A place that is being filled may be this key's, whatever key it had.
            if self.probes(key).any(Self::is_filling) {
                core::hint::spin_loop();
                continue;
            }
            let Some(place) = self.room(key) else { return Err(Refused::Full) };
            if self.fill(place, key, object) {
                return Ok(());
            }
        }
        Err(Refused::Busy)
    }

    /// Fills a place without an object, unless another thread is faster or is filling one that may be the same key's.
    fn fill(&self, place: &Place<T>, key: u64, object: &'static T) -> bool {
        let old = place.key.load(Ordering::Relaxed);
        // A free place takes the key first, so that every thread that looks for the key from now on chooses this place.
        let is_free = old == 0;
        if is_free && place.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        let known = if is_free { key } else { old };
        let none = core::ptr::null_mut();
        if place.object.compare_exchange(none, filling(), Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        let is_another = |p: &&Place<T>| !core::ptr::eq(*p, place);
        let is_alone = place.has(known)
            && self
                .probes(key)
                .filter(is_another)
                .all(|p| !Self::is_filling(p) && p.object_of(key).is_none());
        if is_alone {
            place.key.store(key, Ordering::Relaxed);
        }
        let new = if is_alone { core::ptr::from_ref(object).cast_mut() } else { none };
        place.object.store(new, Ordering::Release);
        is_alone
    }

    fn is_filling(place: &Place<T>) -> bool {
        place.object.load(Ordering::SeqCst) == filling()
    }

    /// Returns the best place for a key that has no object: one that has the key, one without a key, or else one whose key has
    /// no object.
    fn room(&self, key: u64) -> Option<&Place<T>> {
        let is_empty = |place: &&Place<T>| place.object.load(Ordering::Relaxed).is_null();
        let own = self.probes(key).find(|place| place.has(key) && is_empty(place));
        own.or_else(|| self.probes(key).find(|place| place.has(0)))
            .or_else(|| self.probes(key).find(is_empty))
    }

    /// Removes the object of a key and returns it. Of several threads, one gets it.
    pub fn remove(&self, key: u64) -> Option<&'static T> {
        let object = self.find(key)?;
        self.remove_this(key, object).then_some(object)
    }

    /// Removes this object of a key, if it is still there. Returns true for the first thread to do so.
    pub fn remove_this(&self, key: u64, object: &'static T) -> bool {
        self.places_of(key).any(|place| place.clear(object))
    }

    /// Removes the objects for which `is_one` is true, and passes them to `removed`.
    pub fn remove_where(&self, is_one: impl Fn(&'static T) -> bool, removed: impl Fn(&'static T)) {
        for place in &self.places {
            if let Some(object) = place.object().filter(|object| is_one(object))
                && place.clear(object)
            {
                removed(object);
            }
        }
    }

    /// Returns all objects.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + '_ {
        self.places.iter().filter_map(Place::object)
    }

    /// Returns the number of the first place where a key is looked for.
    #[inline(always)]
    fn start(key: u64) -> usize {
        const { assert!(N.is_power_of_two() && N >= PROBES) };
        // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4): handles differ in their middle bits.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - N.trailing_zeros())) as usize
    }

    /// Returns the places where a key may be, in the order in which they are tried.
    #[inline]
    fn probes(&self, key: u64) -> impl Iterator<Item = &Place<T>> + '_ {
        let start = Self::start(key);
        (start..start + PROBES).filter_map(|n| self.places.get(n % N))
    }

    /// Returns those among them that were ever used: no key is behind a free place.
    #[inline]
    fn places_of(&self, key: u64) -> impl Iterator<Item = &Place<T>> + '_ {
        self.probes(key).take_while(|place| !place.has(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    type Table = Objects<u64, 64>;

    fn table() -> Box<Table> {
        let place = || Place { key: AtomicU64::new(0), object: AtomicPtr::new(core::ptr::null_mut()) };
        Box::new(Objects { places: core::array::from_fn(|_| place()) })
    }

    /// An object that lives as long as the process: the handle that means it.
    fn object(key: u64) -> &'static u64 {
        Box::leak(Box::new(key))
    }

    #[test]
    fn a_table_that_is_full_of_dead_handles_takes_new_ones() {
        let table = table();
        for key in 1..=1000u64 {
            assert!(table.has_room(key) && table.insert(key, object(key)).is_ok(), "{key}");
            assert_eq!((table.find(key), table.iter().count()), (Some(&key), 1));
            assert_eq!(table.remove(key), Some(&key));
            assert_eq!((table.find(key), table.remove(key)), (None, None));
        }
    }

    #[test]
    fn a_table_that_is_full_of_live_handles_says_so() {
        let table = table();
        let inserted = (1..=100u64).filter(|key| table.insert(*key, object(*key)).is_ok()).count();
        assert_eq!(inserted, 64);
        assert!(!table.has_room(100) && matches!(table.insert(100, object(100)), Err(Refused::Full)));
        assert!((1..=64u64).all(|key| table.find(key) == Some(&key)));
        table.remove(7).unwrap();
        assert!(table.has_room(100) && table.insert(100, object(100)).is_ok());
        assert_eq!((table.find(7), table.find(100)), (None, Some(&100)));
    }

    #[test]
    fn a_key_has_one_object() {
        let table = table();
        let (first, second) = (object(5), object(5));
        assert!(table.insert(5, first).is_ok());
        assert!(matches!(table.insert(5, second), Err(Refused::Taken(known)) if core::ptr::eq(known, first)));
        assert!(!table.remove_this(5, second) && table.remove_this(5, first) && !table.remove_this(5, first));
        assert!(table.insert(5, second).is_ok());
        assert!(!table.has_room(0) && table.insert(0, first).is_err() && table.first(0).is_none());
    }

    #[test]
    fn threads_that_insert_and_remove_never_find_the_object_of_another_handle() {
        let rounds: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let (table, is_over) = (table(), AtomicBool::new(false));
        // Each has keys of its own, and all together have many more than there are places.
        let work = |thread: u64| {
            for round in 0..rounds {
                let key = 1 + thread + 4 * (round % 200);
                let own = object(key);
                match table.insert(key, own) {
                    Ok(()) => {
                        assert!(core::ptr::eq(table.find(key).unwrap(), own), "it stays until it is removed");
                        assert!(core::ptr::eq(table.remove(key).unwrap(), own));
                    }
                    Err(Refused::Taken(other)) => panic!("{other} is there for {key}"),
                    Err(Refused::Busy | Refused::Full) => {}
                }
            }
        };
        let look = || {
            while !is_over.load(Ordering::Relaxed) {
                for key in 1..=800 {
                    assert!(table.find(key).is_none_or(|found| *found == key));
                    assert!(table.first(key).is_none_or(|found| *found == key));
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(look);
            let workers: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
            let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(results.iter().all(Result::is_ok));
        });
    }

    #[test]
    fn threads_that_meet_the_same_new_handle_share_its_object() {
        for round in 0..if cfg!(miri) { 2 } else { 200 } {
            let table = table();
            // In every second round the table is full of dead handles, so that each new one takes a place over.
            for dead in 1000..if round % 2 == 0 { 1000 } else { 1064u64 } {
                assert!(table.insert(dead, object(dead)).is_ok() && table.remove(dead).is_some());
            }
            let meet = || {
                for key in 1..=32u64 {
                    let own = object(key);
                    let inserted = table.insert(key, own);
                    assert!(!matches!(inserted, Err(Refused::Full)));
                }
            };
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(meet))));
            for key in 1..=32u64 {
                let of_key = table.iter().filter(|object| **object == key).count();
                assert!(of_key <= 1, "{of_key} objects of {key}");
            }
        }
    }
}
