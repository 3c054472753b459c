//! CUDA's functions that this version does not know: what comes with CUDA's next release is looked up by the programs that use
//! it, passes through, and what it does is not seen. So each is told by its name and by how often it was looked up.
//!
//! Known are the table's functions and those that pass through for a reason ([`PASSED`]). Lookups come before the session
//! does, and usually there are none of these: the places are made at the first. They are wiped in a forked child
//! ([`wiped`]), whose own lookups are its own.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{Head, Lookup, Namespace, Record};

use super::known::PASSED;
use crate::hook::{Hooks, Table};
use crate::sink::{self, Ring, Session, text, wiped};
use crate::sys::{Errno, ticks};
use crate::thread;

/// Names that are kept; lookups of more are counted together.
const PLACES: usize = 256;
/// Bytes of a name. CUDA's longest have about 60.
const NAME_BYTES: usize = 96;

/// Valid when zero.
struct Unknown {
    places: [Place; PLACES],
    /// Of names that found no place.
    others: Count,
}

struct Place {
    /// The name's hash; 0 = free. Relaxed: `length` publishes the name.
    hash: AtomicU64,
    /// Of the name; 0 = it is not there yet. Release by who writes it, acquire by who tells it.
    length: AtomicU32,
    /// Relaxed: published by `length`.
    name: [AtomicU8; NAME_BYTES],
    count: Count,
}

/// Relaxed: numbers. Where the poller and the process's end tell one at the same time, it is told twice, which adds nothing.
struct Count {
    lookups: AtomicU64,
    told: AtomicU64,
}

/// The places, or null. Release by who makes them, acquire by everybody else.
static UNKNOWN: AtomicPtr<Unknown> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// Lookups of the calling thread that were counted.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
}

/// How many lookups of unknown functions the calling thread has made. A lookup inside a lookup (a runtime's, for its
/// caller) is one.
pub fn counted() -> u64 {
    COUNTED.get()
}

/// Whether a name begins as CUDA's functions do. (cuBLAS's, cuDNN's and their like go on with a small letter.)
pub fn is_cudas(name: &CStr) -> bool {
    let name = name.to_bytes();
    let rest = name.strip_prefix(b"cuda").or_else(|| name.strip_prefix(b"cu"));
    rest.and_then(<[u8]>::first).is_some_and(u8::is_ascii_uppercase)
}

/// A function of CUDA's was found by this name.
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
    Table::all().iter().any(|hook| hook.symbol == name || hook.base == name)
        || PASSED.binary_search_by(|passed| passed.as_bytes().cmp(name.to_bytes())).is_ok()
}

fn existing() -> Option<&'static Unknown> {
    // SAFETY: null, or made by `make` and never unmapped.
    unsafe { UNKNOWN.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn make() -> Option<&'static Unknown> {
    let memory = wiped::map(size_of::<Unknown>())?.memory.cast();
    // Where another thread's was first this one is left: pages that nobody touches. Relaxed where that was: `existing` looks.
    let _ = UNKNOWN.compare_exchange(core::ptr::null_mut(), memory, Ordering::Release, Ordering::Relaxed);
    existing()
}

impl Unknown {
    /// The count of a name, which gets a place if there is one.
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

    /// Pushes what is new of every count, and before its first the name.
    fn tell(&self, push: &mut dyn FnMut(&[u64]) -> bool) {
        for (place, id) in self.places.iter().zip(1..) {
            if place.hash.load(Ordering::Relaxed) == 0 {
                break; // the first free one: they are taken in order
            }
            let length = place.length.load(Ordering::Acquire) as usize;
            let is_new = place.count.told.load(Ordering::Relaxed) == 0;
            if length != 0 && (!is_new || place.introduce(id, length, push)) {
                place.count.tell(id, push);
            }
        }
        self.others.tell(0, push);
    }
}

impl Place {
    fn introduce(&self, id: u32, length: usize, push: &mut dyn FnMut(&[u64]) -> bool) -> bool {
        let name: Vec<u8> = self.name.iter().take(length).map(|b| b.load(Ordering::Relaxed)).collect();
        text::with_intern(Namespace::Function, id, &name, push)
    }
}

impl Count {
    /// Pushes it, if it is not what was told last.
    fn tell(&self, function: u32, push: &mut dyn FnMut(&[u64]) -> bool) {
        let count = self.lookups.load(Ordering::Relaxed);
        if count == self.told.load(Ordering::Relaxed) {
            return;
        }
        let head = Head::new::<Lookup>();
        let lookup = Lookup { head, count, function, reserved: 0, reserved2: [0; 5] };
        if push(lookup.as_words()) {
            self.told.store(count, Ordering::Relaxed);
        }
    }
}

/// Poller: tells what is new.
pub fn tell_new(ring: &mut Ring) {
    if let Some(unknown) = existing() {
        unknown.tell(&mut |words| ring.push(words));
    }
}

/// At the process's end, by the thread that ends it: tells what the poller has not.
pub fn tell_last(session: Session) {
    if let Some(unknown) = existing() {
        unknown.tell(&mut |words| {
            thread::aside(session, ticks(), words);
            true
        });
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

    /// Numbers and what they stand for.
    type By<T> = Vec<(u32, T)>;

    /// What is told: names, and counts.
    fn told(unknown: &Unknown) -> (By<String>, By<u64>) {
        let (mut names, mut counts) = (Vec::new(), Vec::new());
        unknown.tell(&mut |words| {
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
    fn a_name_is_told_once_and_its_count_when_it_has_changed() {
        let unknown = unknown();
        for name in ["cuNew", "cuNewer", "cuNew"] {
            look_up(&unknown, name);
        }
        let names = vec![(1, "cuNew".to_owned()), (2, "cuNewer".to_owned())];
        assert_eq!(told(&unknown), (names, vec![(1, 2), (2, 1)]));
        look_up(&unknown, "cuNewer");
        assert_eq!(told(&unknown), (vec![], vec![(2, 2)]));
        assert_eq!(told(&unknown), (vec![], vec![]));
    }

    #[test]
    fn what_finds_no_room_is_told_again() {
        let unknown = unknown();
        look_up(&unknown, "cuNew");
        unknown.tell(&mut |_| false);
        assert_eq!(told(&unknown), (vec![(1, "cuNew".to_owned())], vec![(1, 1)]));
    }

    #[test]
    fn names_beyond_the_last_place_are_counted_together() {
        let unknown = unknown();
        for n in 0..PLACES + 3 {
            look_up(&unknown, &format!("cuNew{n}"));
        }
        look_up(&unknown, &"cuLong".repeat(NAME_BYTES));
        let (names, counts) = told(&unknown);
        assert_eq!((names.len(), counts.last()), (PLACES, Some(&(0, 4))));
    }

    #[test]
    fn known_are_the_table_and_what_passes_and_other_libraries_functions_are_not_cudas() {
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
