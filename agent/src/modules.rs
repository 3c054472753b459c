//! The objects that the process has loaded, by which the collector resolves a caller's address to a library. The poller
//! sends them when they change.

mod build_id;

use build_id::build_id;
use gpuspy_wire::build_id::BuildId;
use gpuspy_wire::record::{Head, Module, Namespace, Record};

use crate::loader::libraries::{self, Loaded};
use crate::loader::maps::Maps;
use crate::sink::Ring;
use crate::sink::text::publish;
use crate::sys::ticks;

/// The objects that have been sent.
#[derive(Default)]
pub struct Modules {
    /// The loader's count of objects ever added, when the poller last checked.
    adds: u64,
    /// When it last checked and found none added (ticks).
    unchanged: u64,
    /// Those that were sent, by their number − 1.
    published: Vec<Object>,
}

/// One loaded object.
struct Object {
    place: Place,
    /// As the loader has it.
    path: Box<[u8]>,
    /// When it was last sent (ticks).
    sent: u64,
    /// Whether none that was sent since lies where it lay.
    is_last: bool,
}

/// Where an object is, and which one it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    bias: u64,
    start: u64,
    end: u64,
    build_id: BuildId,
}

impl Place {
    fn overlaps(&self, other: &Place) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Returns the record that says that the object with this number is there.
    fn record(&self, number: usize, at: u64) -> Module {
        let &Place { bias, start, end, build_id } = self;
        Module { head: Head::new::<Module>(), at, start, end, bias, path: number as u32 + 1, build_id }
    }
}

impl Modules {
    /// Sends the objects that were not sent yet, and those that are back where another one was sent meanwhile. This takes no lock
    /// that a constructor of the app's could hold: glibc guards the list with a lock of its own, which dlopen holds only while it
    /// links an object in.
    pub fn publish_new(&mut self, ring: &mut Ring) {
        let now = ticks();
        let adds = libraries::adds();
        if adds == self.adds {
            self.unchanged = now;
            return;
        }
        let Some(copied) = Copied::of_all() else { return };
        if self.publish(&copied, ring) {
            self.adds = adds;
        }
    }

    /// Returns false if the ring is full: the rest is sent next time.
    fn publish(&mut self, copied: &Copied, ring: &mut Ring) -> bool {
        let mut buffer = [0; PATH_BYTES];
        // Read if a path is relative, once: the program may have gone elsewhere since it loaded the object.
        let mut maps = None;
        for (number, (place, path)) in copied.objects().enumerate() {
            // The program itself has no name in the loader's list.
            let path = if number == 0 && path.is_empty() { program(&mut buffer) } else { path };
            let is_it = |object: &Object| object.place == place && *object.path == *path;
            let known = self.published.iter().position(is_it);
            if known.and_then(|number| self.published.get(number)).is_some_and(|object| object.is_last) {
                continue;
            }
            if !self.replace(&place, ring) {
                return false;
            }
            let number = known.unwrap_or(self.published.len());
            let relative = (known.is_none() && is_relative(path)).then(|| maps.get_or_insert_with(Maps::now));
            let mapped = relative.and_then(|maps| maps.path_at(place.start)).map(of_file);
            let sent = ticks();
            let is_named =
                known.is_some() || publish(ring, Namespace::Path, number as u32 + 1, mapped.unwrap_or(path));
            if !(is_named && ring.push(place.record(number, sent).as_words())) {
                return false;
            }
            match self.published.get_mut(number) {
                Some(object) => (object.sent, object.is_last) = (sent, true),
                None => self.published.push(Object { place, path: path.into(), sent, is_last: true }),
            }
        }
        true
    }

    /// Sends again what lay until now where an object is: until the last check that found nothing added, it was still the one.
    fn replace(&mut self, place: &Place, ring: &mut Ring) -> bool {
        for (number, object) in self.published.iter_mut().enumerate() {
            if object.is_last && object.place.overlaps(place) {
                if object.sent < self.unchanged
                    && !ring.push(object.place.record(number, self.unchanged).as_words())
                {
                    return false;
                }
                object.is_last = false;
            }
        }
        true
    }
}

/// Whether a path means another file where the program is in another folder. A name without a folder is none of a file: that of the
/// code that the kernel maps into each process.
fn is_relative(path: &[u8]) -> bool {
    !path.starts_with(b"/") && path.contains(&b'/')
}

/// Returns the path that a mapped file had, of what the system says of it.
fn of_file(mapped: &[u8]) -> &[u8] {
    mapped.strip_suffix(b" (deleted)").unwrap_or(mapped)
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
        let Some(code) = loaded.code() else { return true };
        let path = loaded.path();
        let has_room = self.places.len() < self.places.capacity()
            && path.len() <= self.paths.capacity() - self.paths.len();
        if has_room {
            let place = Place {
                bias: loaded.base(),
                start: code.start,
                end: code.end,
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

    /// On Arm, generated code that lay between two segments of the loader was taken for the loader's.
    #[test]
    fn objects_have_only_the_addresses_of_their_code() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let code: Vec<_> = maps
            .lines()
            .filter_map(|line| {
                let (range, rest) = line.split_once(' ')?;
                let (start, end) = range.split_once('-')?;
                (rest.get(2..3) == Some("x")).then(|| number(start)..number(end))
            })
            .collect();
        for (place, path) in Copied::of_all().unwrap().objects() {
            let is_code = |address| code.iter().any(|range| range.contains(&address));
            assert!(is_code(place.start) && is_code(place.end - 1), "{}: {maps}", path.escape_ascii());
        }
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
