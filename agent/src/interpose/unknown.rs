//! Which CUDA functions do programs look up that this version does not know? A function that comes with
//! CUDA's next release passes through, and its effect is not observed. So each such function is reported by
//! name, with the number of its lookups.
//!
//! Known functions are those in the table and those that pass through for a reason ([`PASSED`]). Lookups come
//! before the session does, and there are usually no unknown ones, so the places are allocated at the first
//! one. They are wiped in a forked child ([`wiped`]), which counts its own lookups.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{Head, Lookup, Namespace, Record};

use super::known::PASSED;
use crate::hook::{Hooks, Table};
use crate::sink::{self, Ring, text, wiped};
use crate::sys::Errno;

/// The number of names that are kept; lookups of further names are counted together.
const PLACES: usize = 256;
/// The longest name in bytes. CUDA's longest names have about 60.
const NAME_BYTES: usize = 96;

/// The counts of unknown functions. Valid when zero.
struct Unknown {
    places: [Place; PLACES],
    /// The lookups of names that found no place.
    others: Count,
}

struct Place {
    /// The name's hash; 0 = free. Relaxed: `length` publishes the name.
    hash: AtomicU64,
    /// The name's length in bytes; 0 = it is not written yet. Release by the thread that writes the name,
    /// acquire by the one that reports it.
    length: AtomicU32,
    /// The name. Relaxed: published by `length`.
    name: [AtomicU8; NAME_BYTES],
    count: Count,
}

/// A number of lookups, and the number last reported. Relaxed: if the poller and the process's end report a
/// count at the same time, it is reported twice, which does not change it.
struct Count {
    lookups: AtomicU64,
    published: AtomicU64,
}

/// The places, or null. Release by the thread that creates them, acquire by the others.
static UNKNOWN: AtomicPtr<Unknown> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// The number of the calling thread's lookups that were counted.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// The number of unknown functions that the calling thread has looked up. A lookup inside a lookup (by a
/// runtime for its caller) counts once.
pub fn counted() -> u64 {
    COUNTED.get()
}

/// Whether a name begins like CUDA's functions. (The names of cuBLAS, cuDNN and similar libraries continue
/// with a small letter.)
pub fn is_cudas(name: &CStr) -> bool {
    let name = name.to_bytes();
    let rest = name.strip_prefix(b"cuda").or_else(|| name.strip_prefix(b"cu"));
    rest.and_then(<[u8]>::first).is_some_and(u8::is_ascii_uppercase)
}

/// Counts a lookup that found a CUDA function under this name.
pub fn found(name: &CStr) {
    if !sink::is_enabled() || !is_cudas(name) || is_known(name) {
        return;
    }
    let errno = Errno::save();
    if let Some(unknown) = existing().or_else(make) {
        unknown.count_of(name.to_bytes()).lookups.fetch_add(1, Ordering::Relaxed);
        COUNTED.set(COUNTED.get() + 1);
    }
    errno.restore();
}

fn is_known(name: &CStr) -> bool {
    Table::named(name).is_some()
        || Table::variants(name).next().is_some()
        || PASSED.binary_search_by(|passed| passed.as_bytes().cmp(name.to_bytes())).is_ok()
}

fn existing() -> Option<&'static Unknown> {
    // SAFETY: null, or created by `make` and never unmapped.
    unsafe { UNKNOWN.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn make() -> Option<&'static Unknown> {
    let memory = wiped::map(size_of::<Unknown>())?.memory.cast();
    // If another thread was first, this mapping stays unused: pages that are never touched. Relaxed for a
    // failure: `existing` reads the pointer again.
    let _ = UNKNOWN.compare_exchange(core::ptr::null_mut(), memory, Ordering::Release, Ordering::Relaxed);
    existing()
}

impl Unknown {
    /// The count of a name, which gets a place if one is free.
    fn count_of(&self, name: &[u8]) -> &Count {
        if name.len() > NAME_BYTES {
            return &self.others;
        }
        let hash = text::hash(name);
        for place in &self.places {
            match place.hash.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    place.name.iter().zip(name).for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
                    place.length.store(name.len() as u32, Ordering::Release);
                    return &place.count;
                }
                Err(other) if other == hash => return &place.count,
                Err(_) => {}
            }
        }
        &self.others
    }

    /// Publishes every count that has changed, and the name before the first count.
    fn publish(&self, push: &mut dyn FnMut(&[u64]) -> bool) {
        for (place, id) in self.places.iter().zip(1..) {
            if place.hash.load(Ordering::Relaxed) == 0 {
                break; // the first free place: places are taken in order
            }
            let length = place.length.load(Ordering::Acquire) as usize;
            let is_new = place.count.published.load(Ordering::Relaxed) == 0;
            if length != 0 && (!is_new || place.introduce(id, length, push)) {
                place.count.publish(id, push);
            }
        }
        self.others.publish(0, push);
    }
}

impl Place {
    fn introduce(&self, id: u32, length: usize, push: &mut dyn FnMut(&[u64]) -> bool) -> bool {
        let name: Vec<u8> = self.name.iter().take(length).map(|b| b.load(Ordering::Relaxed)).collect();
        text::with_intern(Namespace::Function, id, &name, push)
    }
}

impl Count {
    /// Publishes the count, if it is not the one last published.
    fn publish(&self, function: u32, push: &mut dyn FnMut(&[u64]) -> bool) {
        let count = self.lookups.load(Ordering::Relaxed);
        if count == self.published.load(Ordering::Relaxed) {
            return;
        }
        let head = Head::new::<Lookup>();
        let lookup = Lookup { head, count, function, reserved: 0, reserved2: [0; 5] };
        if push(lookup.as_words()) {
            self.published.store(count, Ordering::Relaxed);
        }
    }
}

/// Poller: publishes what has changed.
pub fn publish_new(ring: &mut Ring) {
    if let Some(unknown) = existing() {
        unknown.publish(&mut |words| ring.push(words));
    }
}

/// Poller: has everything published again, for a collector that has not seen it.
pub fn forget_published() {
    let Some(unknown) = existing() else { return };
    for count in unknown.places.iter().map(|place| &place.count).chain([&unknown.others]) {
        count.published.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown() -> Box<Unknown> {
        // SAFETY: valid when zero.
        unsafe { Box::<Unknown>::new_zeroed().assume_init() }
    }

    fn look_up(unknown: &Unknown, name: &str) {
        unknown.count_of(name.as_bytes()).lookups.fetch_add(1, Ordering::Relaxed);
    }

    /// Values by number.
    type By<T> = Vec<(u32, T)>;

    /// What is published: names, and counts.
    fn published(unknown: &Unknown) -> (By<String>, By<u64>) {
        let (mut names, mut counts) = (Vec::new(), Vec::new());
        unknown.publish(&mut |words| {
            match Lookup::from_words(words) {
                Some(lookup) => counts.push((lookup.function, lookup.count)),
                None => {
                    let (intern, text) = gpuspy_wire::record::Intern::text(words).unwrap();
                    names.push((intern.id, String::from_utf8(text.to_vec()).unwrap()));
                }
            }
            true
        });
        (names, counts)
    }

    #[test]
    fn a_name_is_published_once_and_its_count_when_it_has_changed() {
        let unknown = unknown();
        for name in ["cuNew", "cuNewer", "cuNew"] {
            look_up(&unknown, name);
        }
        let names = vec![(1, "cuNew".to_owned()), (2, "cuNewer".to_owned())];
        assert_eq!(published(&unknown), (names, vec![(1, 2), (2, 1)]));
        look_up(&unknown, "cuNewer");
        assert_eq!(published(&unknown), (vec![], vec![(2, 2)]));
        assert_eq!(published(&unknown), (vec![], vec![]));
    }

    #[test]
    fn a_record_that_does_not_fit_is_published_again() {
        let unknown = unknown();
        look_up(&unknown, "cuNew");
        unknown.publish(&mut |_| false);
        assert_eq!(published(&unknown), (vec![(1, "cuNew".to_owned())], vec![(1, 1)]));
    }

    #[test]
    fn names_beyond_the_last_place_are_counted_together() {
        let unknown = unknown();
        for n in 0..PLACES + 3 {
            look_up(&unknown, &format!("cuNew{n}"));
        }
        look_up(&unknown, &"cuLong".repeat(NAME_BYTES));
        let (names, counts) = published(&unknown);
        assert_eq!((names.len(), counts.last()), (PLACES, Some(&(0, 4))));
    }

    #[test]
    fn functions_that_are_hooked_or_pass_through_are_known_and_other_libraries_functions_are_not_cudas() {
        for name in [c"cuLaunchKernel", c"cuMemAlloc_v2", c"cuMemAlloc", c"cuMemGetInfo", c"cudaGetLastError"]
        {
            assert!(is_cudas(name) && is_known(name), "{name:?}");
        }
        for name in [c"cuTomorrowLaunchKernel", c"cuLaunchKernel_v9", c"cudaTomorrow"] {
            assert!(is_cudas(name) && !is_known(name), "{name:?}");
        }
        for name in [
            c"cublasCreate_v2",
            c"cudnnCreate",
            c"cufftExecC2C",
            c"cu",
            c"cuda",
            c"curl_easy_init",
            c"printf",
        ] {
            assert!(!is_cudas(name), "{name:?}");
        }
    }
}
