//! Memory that a forked child finds zeroed.
//!
//! Linux zeroes it (MADV_WIPEONFORK, since 4.14), however the child was made. gVisor, which cloud sandboxes with GPUs
//! run, refuses that advice (its `mm.MemoryManager` has no such flag and returns EINVAL). There a handler that `fork`
//! calls in the child gives the pages back, after which they read as zeros; a child that was made without handlers
//! (`clone`, `_Fork`) is recognized by its pid, which each thread reads again when it has not done so for a
//! millisecond.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::sys;

/// A mapping that the kernel does not wipe.
struct Unwiped {
    /// Its address, or null. Release by the thread that maps it, acquire by the thread that wipes it: its length.
    memory: AtomicPtr<c_void>,
    /// Its length in bytes, which also marks the place as taken; 0 = free. Relaxed: published by `memory`.
    bytes: AtomicUsize,
}

/// The process's mappings: its session and the names of unknown functions. A child that finds them zeroed makes its
/// own.
static UNWIPED: [Unwiped; 4] =
    [const { Unwiped { memory: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0) } }; 4];
/// The pid of the process that mapped them, or 0. Relaxed: a process that has mapped them reads its own pid.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The handler is registered, here or in a parent, from which it is inherited.
static HANDLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When the calling thread last read its pid (ticks).
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Mapped memory, and what wipes it.
pub struct Wiped {
    /// Zeroed, page-aligned, private.
    pub memory: *mut c_void,
    /// The kernel wipes it. Where this is false, each use has to check [`is_childs`] first.
    pub by_kernel: bool,
}

/// Maps memory that a child finds zeroed; `None` where that is not possible. Where the kernel does not wipe it, it must
/// never be unmapped.
pub fn map(bytes: usize) -> Option<Wiped> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh private mapping of zeros.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: our own mapping.
    let by_kernel = unsafe { libc::madvise(memory, bytes, libc::MADV_WIPEONFORK) } == 0;
    if by_kernel || remember(memory, bytes) {
        return Some(Wiped { memory, by_kernel });
    }
    // SAFETY: our own mapping, which nothing else refers to.
    unsafe { libc::munmap(memory, bytes) };
    None
}

/// Arranges for a child to wipe this mapping. False: that is not possible.
fn remember(memory: *mut c_void, bytes: usize) -> bool {
    if !sys::handle_children(&HANDLED, wipe) {
        return false;
    }
    OWNER.store(sys::pid(), Ordering::Relaxed);
    let takes = |place: &&Unwiped| {
        place.bytes.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let Some(place) = UNWIPED.iter().find(takes) else { return false };
    place.memory.store(memory, Ordering::Release);
    true
}

/// Zeroes, in a child, what its parent mapped. A mapping that a thread of the parent was just making may be missing
/// here; it was not in use yet.
extern "C" fn wipe() {
    for place in &UNWIPED {
        // Acquire, with the release in `remember`.
        let memory = place.memory.swap(ptr::null_mut(), Ordering::Acquire);
        let bytes = place.bytes.swap(0, Ordering::Relaxed);
        if !memory.is_null() {
            // SAFETY: our own mapping, inherited; private pages without a file behind them come back as zeros.
            unsafe { libc::madvise(memory, bytes, libc::MADV_DONTNEED) };
        }
    }
    OWNER.store(0, Ordering::Relaxed);
}

/// Returns whether memory that the kernel does not wipe is a parent's: this is a child in which `fork`'s handlers did
/// not run. Then it is wiped now. Calls that such a child makes in its first millisecond may still be recorded as its
/// parent's.
#[cold]
pub fn is_childs() -> bool {
    let now = sys::ticks();
    if now.wrapping_sub(ASKED.get()) < sys::tenth_of_a_second() / 128 {
        return false;
    }
    ASKED.set(now);
    let is_childs = OWNER.load(Ordering::Relaxed) != sys::pid();
    if is_childs {
        wipe();
    }
    is_childs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_finds_zeros_though_the_kernel_does_not_wipe() {
        const BYTES: usize = 3 << 12;
        // SAFETY: a mapping of our own, written and read in its bounds; the child does nothing that is not allowed
        // after fork.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0);
            assert!(memory != libc::MAP_FAILED && remember(memory, BYTES));
            let bytes = memory.cast::<u8>();
            bytes.write_bytes(7, BYTES);
            let child = libc::fork();
            if child == 0 {
                let is_zero = (0..BYTES).all(|at| bytes.add(at).read_volatile() == 0);
                libc::_exit(i32::from(!is_zero));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
            assert!((0..BYTES).all(|at| bytes.add(at).read_volatile() == 7), "the parent's are its own");
            assert!(!is_childs());
        }
    }
}
