//! Memory that a forked child finds zeroed.
//!
//! Linux zeroes it itself (MADV_WIPEONFORK, since 4.14), in whatever way the child came to be. gVisor, which cloud sandboxes
//! with GPUs run, refuses that advice (its `mm.MemoryManager` knows no such flag, and answers EINVAL). There a handler that
//! `fork` calls in the child gives the pages back, after which they read as zeros; a child that was made without handlers
//! (`clone`, `_Fork`) is known by its pid, which each thread asks for when it has not done so for a millisecond.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::sys;

/// A mapping that the kernel does not wipe.
struct Unwiped {
    /// Where it is, or null. Release by who maps it, acquire by who wipes it: its length.
    memory: AtomicPtr<c_void>,
    /// Its length, which also takes the place; 0 = free. Relaxed: published by `memory`.
    bytes: AtomicUsize,
}

/// The process's: its session and the names of unknown functions. A child that has found them zeroed makes its own.
static UNWIPED: [Unwiped; 4] =
    [const { Unwiped { memory: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0) } }; 4];
/// Whose they are: a pid, or 0. Relaxed: a process that has mapped them reads its own.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The handler is in place, here or in a parent, from which it is inherited. Relaxed: a second one would find nothing to do.
static HANDLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When the calling thread last asked for its pid (ticks).
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Memory that came, and who wipes it.
pub struct Wiped {
    /// Zeroed, page-aligned, private.
    pub memory: *mut c_void,
    /// The kernel does it. Else whoever uses it asks [`is_childs`] first.
    pub by_kernel: bool,
}

/// Maps memory that a child finds zeroed; `None` where there is none to be had. It is not to be unmapped where the kernel
/// does not wipe it.
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
    // SAFETY: our own mapping, which nobody knows.
    unsafe { libc::munmap(memory, bytes) };
    None
}

/// Has a child wipe this mapping. False: it cannot be.
fn remember(memory: *mut c_void, bytes: usize) -> bool {
    // SAFETY: the handler is a function of this library, which is never unloaded.
    if !HANDLED.load(Ordering::Relaxed) && unsafe { libc::pthread_atfork(None, None, Some(wipe)) } != 0 {
        return false;
    }
    HANDLED.store(true, Ordering::Relaxed);
    OWNER.store(sys::pid(), Ordering::Relaxed);
    let takes = |place: &&Unwiped| {
        place.bytes.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let Some(place) = UNWIPED.iter().find(takes) else { return false };
    place.memory.store(memory, Ordering::Release);
    true
}

/// In a child: what its parent mapped reads as zeros from here on. What a thread of the parent was just mapping may be missing
/// here; nobody had begun to use it.
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

/// Whether what the kernel does not wipe is a parent's after all: this is a child that `fork`'s handlers were not called in.
/// Then it is wiped now. What such a child calls in the first millisecond may still be taken for its parent's.
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
        // SAFETY: a mapping of our own, written and read in its bounds; the child does nothing that is not allowed after fork.
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
