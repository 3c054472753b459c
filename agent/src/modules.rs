//! The objects that the process has loaded, by which the collector resolves a caller's address to a library. The poller
//! sends them when they change.

mod build_id;

use build_id::build_id;
use gpuspy_wire::build_id::BuildId;
use gpuspy_wire::record::{Head, Module, Namespace, Record};

use crate::loader::libraries::{self, Loaded};
use crate::sink::Ring;
use crate::sink::text::publish;
use crate::sys::ticks;

/// The objects that have been sent.
#[derive(Default)]
pub struct Modules {
    /// The loader's count of objects ever added, when the poller last checked.
    adds: u64,
    /// Those that were sent, by their number − 1.
    published: Vec<Object>,
}

/// One loaded object.
struct Object {
    place: Place,
    path: Box<[u8]>,
}

/// Where an object is, and which one it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    bias: u64,
    start: u64,
    end: u64,
    build_id: BuildId,
}

impl Modules {
    /// Sends the objects that were not sent yet. This takes no lock that a constructor of the app's could hold: glibc
    /// guards the list with a lock of its own, which dlopen holds only while it links an object in.
    pub fn publish_new(&mut self, ring: &mut Ring) {
        let adds = libraries::adds();
        if adds == self.adds {
            return;
        }
        let Some(copied) = Copied::of_all() else { return };
        let mut buffer = [0; PATH_BYTES];
        for (number, (place, path)) in copied.objects().enumerate() {
            // The program itself has no name in the loader's list.
            let path = if number == 0 && path.is_empty() { program(&mut buffer) } else { path };
            if self.published.iter().any(|object| object.place == place && *object.path == *path) {
                continue;
            }
            let id = self.published.len() as u32 + 1;
            let record = Module {
                head: Head::new::<Module>(),
                at: ticks(),
                start: place.start,
                end: place.end,
                bias: place.bias,
                path: id,
                build_id: place.build_id,
            };
            if !(publish(ring, Namespace::Path, id, path) && ring.push(record.as_words())) {
                return; // the ring is full: the rest is sent next time
            }
            self.published.push(Object { place, path: path.into() });
        }
        self.adds = adds;
    }
}

/// How often the list is copied when it has grown meanwhile.
const TRIES: usize = 4;

/// A copy of the loader's list. The list is locked while it is copied, and an allocator may walk over it with locks of its
/// own held, to unwind. Thus nothing is allocated in a walk: the memory is reserved before.
struct Copied {
    /// Each object, and the length of its path.
    places: Vec<(Place, usize)>,
    /// The paths, one behind the other.
    paths: Vec<u8>,
}

impl Copied {
    /// Returns `None` where the list grows all the time, where it cannot be walked, and where there is no memory.
    fn of_all() -> Option<Copied> {
        (0..TRIES).find_map(|_| {
            let (mut objects, mut bytes) = (0, 0);
            libraries::search(|loaded| {
                objects += 1;
                bytes += loaded.path().len();
                None::<()>
            });
            let mut copied = Copied::with_room(objects, bytes)?;
            copied.fill().then_some(copied)
        })
    }

    fn with_room(objects: usize, bytes: usize) -> Option<Copied> {
        let mut copied = Copied { places: Vec::new(), paths: Vec::new() };
        copied.places.try_reserve_exact(objects).ok()?;
        copied.paths.try_reserve_exact(bytes).ok()?;
        Some(copied)
    }

    /// Copies the list. Returns false if that is not all of it.
    fn fill(&mut self) -> bool {
        let is_short = libraries::search(|loaded| (!self.add(loaded)).then_some(())).is_some();
        !is_short && !self.places.is_empty()
    }

    /// Copies an object, if there is room for it.
    fn add(&mut self, loaded: &Loaded<'_>) -> bool {
        let Some(addresses) = loaded.addresses() else { return true };
        let path = loaded.path();
        let has_room = self.places.len() < self.places.capacity()
            && path.len() <= self.paths.capacity() - self.paths.len();
        if has_room {
            let place = Place {
                bias: loaded.base(),
                start: addresses.start,
                end: addresses.end,
                // SAFETY: the object is loaded during the walk: its segments are mapped.
                build_id: unsafe { build_id(loaded.base(), loaded.headers()) },
            };
            self.places.push((place, path.len()));
            self.paths.extend_from_slice(path);
        }
        has_room
    }

    /// Returns each object with its path.
    fn objects(&self) -> impl Iterator<Item = (Place, &[u8])> {
        let mut rest = &self.paths[..];
        self.places.iter().map(move |&(place, length)| {
            let (path, others) = rest.split_at_checked(length).unwrap_or_default();
            rest = others;
            (place, path)
        })
    }
}

/// The most bytes of the program's path.
const PATH_BYTES: usize = 4096;

/// Returns the program's path.
fn program(buffer: &mut [u8; PATH_BYTES]) -> &[u8] {
    // SAFETY: a terminated path and a buffer of ours.
    let n = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).ok().and_then(|n| buffer.get(..n)).unwrap_or(b"?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::walks::heap;

    /// An allocator that unwinds with its own lock held waits for the loader's list, whose holder waited for the allocator.
    #[test]
    fn nothing_is_allocated_while_the_list_is_locked() {
        let before = heap::allocated();
        let copied = Copied::of_all().unwrap();
        assert_eq!(heap::allocated(), before);
        let libc = copied.objects().find(|(_, path)| path.ends_with(b"/libc.so.6")).unwrap();
        assert_eq!(Some(libc.0.bias), libraries::base_of(libc.0.start));
        assert_ne!(libc.0.build_id, BuildId::default());
        assert_eq!(copied.objects().next().unwrap().1, b"", "the program has no path");
    }

    #[test]
    fn a_list_that_has_grown_is_not_copied_in_part() {
        let before = heap::allocated();
        let whole = Copied::of_all().unwrap();
        let (objects, bytes) = (whole.places.len(), whole.paths.len());
        assert!(Copied::with_room(objects, bytes).unwrap().fill());
        assert!(!Copied::with_room(objects - 1, bytes).unwrap().fill());
        assert!(!Copied::with_room(objects, bytes - 1).unwrap().fill());
        assert_eq!(heap::allocated(), before);
    }
}
