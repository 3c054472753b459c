//! Is an NVTX range with the requested name open anywhere in the process (`--capture-range nvtx:NAME`)?
//!
//! A thread is inside a range from its first push of the name to the pop that ends it, whatever it pushes in
//! between. A range that was started is open until it is ended, on any thread. The capture range is open
//! while there is any of those. They are counted from the first one on, even before there is a session: a
//! program may push its range and then make its first CUDA call.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::capture_range::{CaptureRange, Domain};
use gpuspy_wire::record::{MAX_NVTX_TEXT, NvtxChange};

use crate::nvtx::texts::DOMAINS;
use crate::sys::Errno;

/// The number of domains in which a thread can be inside a range at once, if all domains are requested.
/// Ranges in further domains do not count.
const MOST_DOMAINS: usize = 8;
/// The number of started ranges that can be open at once. Further ranges do not count.
const MOST_STARTED: usize = 64;

/// The requested range.
struct Request {
    /// The requested name, cut to the length that a message can have.
    name: Box<[u8]>,
    domain: Option<Box<[u8]>>,
    is_any_domain: bool,
}

/// The requested range, or null. Release on the store, acquire on the loads: publishes the pointee, which is
/// never freed.
static REQUEST: AtomicPtr<Request> = AtomicPtr::new(core::ptr::null_mut());
/// The number of threads inside (once for each domain) plus the started ranges. SeqCst: a thread that leaves
/// sees which threads have entered meanwhile.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// The ids of the started ranges; 0 = none. Relaxed: the thread that ends a range removes its id, and the app
/// orders that after the start.
static STARTED: [AtomicU64; MOST_STARTED] = [const { AtomicU64::new(0) }; MOST_STARTED];
/// The process to which `OPEN` belongs. Relaxed: it changes only while a forked child has a single thread.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The domains in which this thread is inside, each with the number of ranges open there from the first
    /// one with the name on; 0 = none.
    static INSIDE: Cell<[(u32, u32); MOST_DOMAINS]> = const { Cell::new([(0, 0); MOST_DOMAINS]) };
}

/// Sets the requested range, once, when a copy of NVTX has found us.
pub fn set_request(requested: Option<&CStr>) {
    if !REQUEST.load(Ordering::Acquire).is_null() {
        return;
    }
    let text = requested.and_then(|requested| requested.to_str().ok()).and_then(CaptureRange::parse);
    let Some(CaptureRange::Nvtx { name, domain }) = text else { return };
    let name = name.as_bytes();
    let errno = Errno::save();
    let request = Request {
        name: name.get(..MAX_NVTX_TEXT).unwrap_or(name).into(),
        domain: if let Domain::Named(domain) = domain { Some(domain.as_bytes().into()) } else { None },
        is_any_domain: domain == Domain::Any,
    };
    // Two copies that come at the same time read the same request; the box that is overwritten is never freed
    // either.
    REQUEST.store(Box::into_raw(Box::new(request)), Ordering::Release);
    errno.restore();
}

/// Recounts the open ranges when a process starts its session. In a forked child, only the thread that forked
/// remains of the parent's threads, together with its open ranges; the calling thread is that one, except in
/// programs that start threads before their first CUDA call.
pub fn owned_by(pid: u32) {
    let owner = OWNER.swap(pid, Ordering::Relaxed);
    if owner != 0 && owner != pid {
        let inside = INSIDE.get().iter().filter(|(_, depth)| *depth > 0).count();
        let started = STARTED.iter().filter(|id| id.load(Ordering::Relaxed) != 0).count();
        OPEN.store((inside + started) as u64, Ordering::SeqCst);
    }
}

/// Whether a range with the name is open.
pub fn is_open() -> bool {
    OPEN.load(Ordering::SeqCst) != 0
}

/// Takes in an NVTX call. Returns true if it may have changed whether the range is open.
pub fn observe(change: NvtxChange, domain: u32, id: u64, text: &[u8]) -> bool {
    // SAFETY: null or a box that is never freed.
    let Some(request) = (unsafe { REQUEST.load(Ordering::Acquire).as_ref() }) else { return false };
    if !request.is_in(domain) {
        return false;
    }
    match change {
        NvtxChange::Push => pushed(domain, text == &*request.name),
        NvtxChange::Pop => popped(domain),
        NvtxChange::Start => text == &*request.name && started(id),
        NvtxChange::End => ended(id),
        NvtxChange::Mark => false,
    }
}

/// Closes the calling thread's ranges when the thread ends. Returns true if that may have changed whether the
/// range is open.
pub fn thread_ended() -> bool {
    let inside = INSIDE.replace([(0, 0); MOST_DOMAINS]);
    inside.iter().filter(|(_, depth)| *depth > 0).fold(false, |left, _| leave() || left)
}

impl Request {
    fn is_in(&self, domain: u32) -> bool {
        match &self.domain {
            _ if self.is_any_domain => true,
            Some(named) => DOMAINS.get(domain as usize).is_some_and(|name| name == &**named),
            None => domain == 0,
        }
    }
}

fn pushed(domain: u32, is_it: bool) -> bool {
    let mut inside = INSIDE.get();
    let there = inside.iter().position(|(d, depth)| *d == domain && *depth > 0);
    let place = there.or_else(|| inside.iter().position(|(_, depth)| is_it && *depth == 0));
    let Some(place) = place.and_then(|place| inside.get_mut(place)) else { return false };
    let enters = place.1 == 0;
    *place = (domain, place.1 + 1);
    INSIDE.set(inside);
    if enters {
        OPEN.fetch_add(1, Ordering::SeqCst);
    }
    enters
}

fn popped(domain: u32) -> bool {
    let mut inside = INSIDE.get();
    let Some((_, depth)) = inside.iter_mut().find(|(d, depth)| *d == domain && *depth > 0) else {
        return false;
    };
    *depth -= 1;
    let leaves = *depth == 0;
    INSIDE.set(inside);
    leaves && leave()
}

fn started(id: u64) -> bool {
    let free =
        |place: &&AtomicU64| place.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let kept = STARTED.iter().find(free).is_some();
    if kept {
        OPEN.fetch_add(1, Ordering::SeqCst);
    }
    kept
}

fn ended(id: u64) -> bool {
    let taken =
        |place: &&AtomicU64| place.compare_exchange(id, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    id != 0 && STARTED.iter().find(taken).is_some() && leave()
}

fn leave() -> bool {
    // The count never goes below zero, whatever a child inherits or the app pops too often.
    let less = |open: u64| open.checked_sub(1);
    OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use NvtxChange::{End, Pop, Push, Start};

    /// One test for all, since the requested range belongs to the process.
    #[test]
    fn the_range_is_open_while_any_matching_nvtx_range_is() {
        assert!(!observe(Push, 0, 0, b"step"), "no range is requested");
        set_request(Some(c"nvtx:step@*"));
        set_request(Some(c"nvtx:other"));
        let check = |what: &[(NvtxChange, u32, u64, &str)], expected: bool| {
            for (change, domain, id, text) in what {
                observe(*change, *domain, *id, text.as_bytes());
            }
            assert_eq!(is_open(), expected, "{what:?}");
        };
        check(&[(Push, 0, 0, "other"), (Pop, 0, 0, ""), (Pop, 0, 0, "")], false);
        check(&[(Push, 0, 0, "epoch"), (Push, 0, 0, "step")], true);
        check(&[(Push, 0, 0, "step"), (Pop, 0, 0, ""), (Push, 0, 0, "inner"), (Pop, 0, 0, "")], true);
        check(&[(Push, 3, 0, "step"), (Pop, 0, 0, "")], true);
        check(&[(Pop, 0, 0, ""), (Pop, 3, 0, "")], false);
        check(&[(Start, 0, 7, "step"), (Start, 0, 8, "step"), (Start, 0, 9, "other"), (End, 0, 7, "")], true);
        check(&[(End, 0, 7, ""), (End, 0, 9, "")], true);
        check(&[(End, 0, 8, "")], false);
        // A thread's open ranges end with it.
        let ending = std::thread::spawn(|| {
            observe(Push, 0, 0, b"step");
            let was_open = is_open();
            was_open && thread_ended() && !thread_ended()
        });
        assert!(ending.join().unwrap());
        check(&[], false);
        // A forked child has only the forking thread's open ranges.
        check(&[(Push, 0, 0, "step")], true);
        OPEN.fetch_add(5, Ordering::SeqCst);
        owned_by(1);
        owned_by(2);
        assert_eq!(OPEN.load(Ordering::SeqCst), 1);
        check(&[(Pop, 0, 0, ""), (Pop, 0, 0, "")], false);
    }
}
