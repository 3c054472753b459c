//! `--capture-range nvtx:NAME`: whether a range of that name is open anywhere in the process.
//!
//! A thread is inside from its first push of the name to the pop that ends it, whatever it pushes in between; a range that
//! was started is open until it is ended, on whichever thread. What is asked for is open while there is any of those. It is
//! counted from the first range on, before there is a session: a program may push its range and then make its first CUDA
//! call.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::capture::{CaptureRange, Domain};
use gpuspy_wire::record::{MAX_NVTX_TEXT, NvtxChange};

use crate::nvtx::texts::DOMAINS;
use crate::sys::Errno;

/// Domains in which a thread can be inside at once, where all are asked for; what is beyond does not count.
const MOST_DOMAINS: usize = 8;
/// Started ranges that can be open at once; what is beyond does not count.
const MOST_STARTED: usize = 64;

/// What is asked for.
struct Watched {
    /// As much of it as a message can have.
    name: Box<[u8]>,
    domain: Option<Box<[u8]>>,
    is_any_domain: bool,
}

/// Null: nothing. Release on the store, acquire on the loads: what it points to, which is never freed.
static WATCHED: AtomicPtr<Watched> = AtomicPtr::new(core::ptr::null_mut());
/// Threads inside, once for each domain, and started ranges. SeqCst: who leaves sees who has entered meanwhile.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// Ids of the started ones; 0 = none. Relaxed: an id is taken out by who ends it, which the app orders behind its start.
static STARTED: [AtomicU64; MOST_STARTED] = [const { AtomicU64::new(0) }; MOST_STARTED];
/// The process that `OPEN` is counted in. Relaxed: it changes where a child has but one thread.
static OWNER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Where this thread is inside: the domain, and how many ranges it has open there from the first of the name on; 0 = none.
    static INSIDE: Cell<[(u32, u32); MOST_DOMAINS]> = const { Cell::new([(0, 0); MOST_DOMAINS]) };
}

/// Reads what is asked for, once: a copy of NVTX has found us.
pub fn begin(asked: Option<&CStr>) {
    if !WATCHED.load(Ordering::Acquire).is_null() {
        return;
    }
    let text = asked.and_then(|asked| asked.to_str().ok()).and_then(CaptureRange::parse);
    let Some(CaptureRange::Nvtx { name, domain }) = text else { return };
    let name = name.as_bytes();
    let errno = Errno::save();
    let watched = Watched {
        name: name.get(..MAX_NVTX_TEXT).unwrap_or(name).into(),
        domain: if let Domain::Named(domain) = domain { Some(domain.as_bytes().into()) } else { None },
        is_any_domain: domain == Domain::Any,
    };
    // Two copies that come at once read the same: the one that is left over is never freed either.
    WATCHED.store(Box::into_raw(Box::new(watched)), Ordering::Release);
    errno.restore();
}

/// A process begins its session. In a child that was forked only the thread that forked is left of its parent's, and with it
/// what that is inside of; it is this one, but for programs that start threads before their first CUDA call.
pub fn owned_by(pid: u32) {
    let owner = OWNER.swap(pid, Ordering::Relaxed);
    if owner != 0 && owner != pid {
        let inside = INSIDE.get().iter().filter(|(_, depth)| *depth > 0).count();
        let started = STARTED.iter().filter(|id| id.load(Ordering::Relaxed) != 0).count();
        OPEN.store((inside + started) as u64, Ordering::SeqCst);
    }
}

/// Whether a range of the name is open.
pub fn is_open() -> bool {
    OPEN.load(Ordering::SeqCst) != 0
}

/// The app says something. True: it may have changed what is open.
pub fn said(change: NvtxChange, domain: u32, id: u64, text: &[u8]) -> bool {
    // SAFETY: null or a box that is never freed.
    let Some(watched) = (unsafe { WATCHED.load(Ordering::Acquire).as_ref() }) else { return false };
    if !watched.is_in(domain) {
        return false;
    }
    match change {
        NvtxChange::Push => pushed(domain, text == &*watched.name),
        NvtxChange::Pop => popped(domain),
        NvtxChange::Start => text == &*watched.name && started(id),
        NvtxChange::End => ended(id),
        NvtxChange::Mark => false,
    }
}

/// The calling thread ends, and what it was inside of. True: it may have changed what is open.
pub fn thread_ended() -> bool {
    let inside = INSIDE.replace([(0, 0); MOST_DOMAINS]);
    inside.iter().filter(|(_, depth)| *depth > 0).fold(false, |left, _| leave() || left)
}

impl Watched {
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
    // Never below zero, whatever a child inherits. It is the app's affair whether there was one more.
    let less = |open: u64| open.checked_sub(1);
    OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use NvtxChange::{End, Pop, Push, Start};

    /// One test: what is asked for is the process's.
    #[test]
    fn what_is_asked_for_is_open_while_any_range_of_it_is() {
        assert!(!said(Push, 0, 0, b"step"), "nothing is asked for");
        begin(Some(c"nvtx:step@*"));
        begin(Some(c"nvtx:other"));
        let check = |what: &[(NvtxChange, u32, u64, &str)], expected: bool| {
            for (change, domain, id, text) in what {
                said(*change, *domain, *id, text.as_bytes());
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
        // A thread takes with it what it leaves open.
        let ending = std::thread::spawn(|| {
            said(Push, 0, 0, b"step");
            let was_open = is_open();
            was_open && thread_ended() && !thread_ended()
        });
        assert!(ending.join().unwrap());
        check(&[], false);
        // What is open in a forked child is what the thread that forked has open.
        check(&[(Push, 0, 0, "step")], true);
        OPEN.fetch_add(5, Ordering::SeqCst);
        owned_by(1);
        owned_by(2);
        assert_eq!(OPEN.load(Ordering::SeqCst), 1);
        check(&[(Pop, 0, 0, ""), (Pop, 0, 0, "")], false);
    }
}
