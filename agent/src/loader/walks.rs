//! When may the loader's list be walked?
//!
//! dl_iterate_phdr(3) holds the lock of the list during a walk. A fork(3) gives the child the loader's other locks unlocked, but
//! this one (`dl_load_write_lock` of glibc) as it was: a child that is made while another thread walks has the list locked for
//! ever, and hangs when it loads a library. Most walks are the poller's, of which the program does not know.
//!
//! So a fork waits until no walk is under way, and meanwhile none begins: the poller leaves its walk out, and a thread of the
//! app's waits until the fork is over. Both waits have an end, since a handler of the app's may keep the threads waiting for each
//! other. A walk by the forking thread itself is over before the child is made.

#[cfg(test)]
pub mod heap;

use crate::sys::{self, Errno};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

/// How often, and for how long at a time, a fork waits for the walks that are under way: 20 ms, since Linux wakes it 50 µs late. A
/// walk takes microseconds, but its thread may not have a processor.
const FORK_WAITS: u32 = 200;
const FORK_WAIT_NS: u64 = 50_000;
/// How often, and for how long at a time, a thread of the app's waits for a fork: 100 ms. That of a process with much memory takes
/// tens of milliseconds.
const WALK_WAITS: u32 = 500;
const WALK_WAIT_NS: u64 = 200_000;

/// The walks over the loader's list that are under way.
struct Walks {
    /// How many. Sequentially consistent, as is `forks`: a walk that begins and a fork that begins each count themselves before they
    /// look at the other, so that one of them sees the other.
    count: AtomicU32,
    /// How many of them did not wait for a fork to end. Relaxed: the child has a copy of what was before it.
    hasty: AtomicU32,
    /// How many forks are under way.
    forks: AtomicU32,
    /// The pid of the process whose the walks are. Relaxed, as above.
    process: AtomicU32,
}

static WALKS: Walks = Walks::new();

/// A fork by the calling thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fork {
    None,
    /// No walk was under way when it began.
    Alone,
    /// The walks under way did not end in time.
    AmongWalks,
}

thread_local! {
    static FORK: Cell<Fork> = const { Cell::new(Fork::None) };
    /// Whether the calling thread does without a walk while there is a fork.
    static CAN_SKIP: Cell<bool> = const { Cell::new(false) };
}

/// A walk of this process.
pub struct Walk<'a> {
    walks: &'a Walks,
    is_hasty: bool,
    #[cfg(test)]
    _heap: heap::InWalk,
}

/// Begins a walk. `None`: the list of this process is locked for ever, or there is a fork and the thread
/// [skips](skip_in_forks) walks.
pub fn begin() -> Option<Walk<'static>> {
    WALKS.begin(sys::pid())
}

/// From now on, the calling thread does without a walk while there is a fork.
pub fn skip_in_forks() {
    CAN_SKIP.set(true);
}

/// Has forks wait for walks from now on. A process does so when it starts: later, a handler of the app's may be running, during
/// which glibc 2.28 to 2.35 adds none.
pub fn watch_forks() {
    extern "C" fn prepare() {
        WALKS.fork_begins();
    }
    extern "C" fn parent() {
        WALKS.fork_ends();
    }
    extern "C" fn child() {
        WALKS.child_begins();
    }
    // Without memory for the handlers, forks do not wait.
    let _ = sys::handle_forks(Some(prepare), Some(parent), child);
}

impl Walks {
    const fn new() -> Walks {
        Walks {
            count: AtomicU32::new(0),
            hasty: AtomicU32::new(0),
            forks: AtomicU32::new(0),
            process: AtomicU32::new(0),
        }
    }

    fn begin(&self, process: u32) -> Option<Walk<'_>> {
        // A child that was made without handlers (clone(2), _Fork(3)), or among walks, has a copy of their number.
        if self.count.load(Ordering::Relaxed) != 0 && self.process.load(Ordering::Relaxed) != process {
            return None;
        }
        self.process.store(process, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.forks.load(Ordering::SeqCst) == 0 || FORK.get() != Fork::None {
            return Some(self.begun(false));
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.begin_after_forks()
    }

    #[cold]
    fn begin_after_forks(&self) -> Option<Walk<'_>> {
        if CAN_SKIP.get() {
            return None;
        }
        let errno = Errno::save();
        let mut waits = 0;
        let walk = loop {
            let forks = self.forks.load(Ordering::SeqCst);
            if forks == 0 {
                self.count.fetch_add(1, Ordering::SeqCst);
                if self.forks.load(Ordering::SeqCst) == 0 {
                    break self.begun(false);
                }
                self.count.fetch_sub(1, Ordering::SeqCst);
            } else if waits == WALK_WAITS {
                self.hasty.fetch_add(1, Ordering::Relaxed);
                self.count.fetch_add(1, Ordering::SeqCst);
                break self.begun(true);
            } else {
                waits += 1;
                sys::futex_wait(&self.forks, forks, WALK_WAIT_NS);
            }
        };
        errno.restore();
        Some(walk)
    }

    fn begun(&self, is_hasty: bool) -> Walk<'_> {
        Walk {
            walks: self,
            is_hasty,
            #[cfg(test)]
            _heap: heap::InWalk::begin(),
        }
    }

    /// Waits until no walk is under way, and lets no other begin.
    fn fork_begins(&self) {
        let errno = Errno::save();
        FORK.set(Fork::AmongWalks);
        self.forks.fetch_add(1, Ordering::SeqCst);
        for _ in 0..FORK_WAITS {
            let count = self.count.load(Ordering::SeqCst);
            if count == 0 {
                FORK.set(Fork::Alone);
                break;
            }
            if self.process.load(Ordering::Relaxed) != sys::pid() {
                break; // they never end in this process
            }
            sys::futex_wait(&self.count, count, FORK_WAIT_NS);
        }
        errno.restore();
    }

    fn fork_ends(&self) {
        // A fork that had begun when the handlers were registered has not begun here.
        if FORK.replace(Fork::None) != Fork::None {
            self.forks.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn child_begins(&self) {
        // What was counted is then of threads that waited for the fork, and that the child does not have.
        if FORK.replace(Fork::None) == Fork::Alone && self.hasty.load(Ordering::Relaxed) == 0 {
            self.count.store(0, Ordering::SeqCst);
        }
        self.forks.store(0, Ordering::SeqCst);
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.walks.count.fetch_sub(1, Ordering::SeqCst);
        if self.is_hasty {
            self.walks.hasty.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::libraries;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    /// A child that was made by clone(2) while the poller walked over the list waited for it for ever.
    #[test]
    fn a_list_that_a_thread_of_the_parents_has_locked_is_not_walked() {
        let walks = Walks::new();
        let first = walks.begin(7).unwrap();
        assert!(walks.begin(7).is_some(), "another thread of this process walks, too");
        assert!(walks.begin(8).is_none(), "a thread of the parent's does");
        drop(first);
        assert!(walks.begin(8).is_some(), "none did when the child was made");
    }

    #[test]
    fn a_fork_waits_for_a_walk_and_lets_none_begin() {
        let walks = &Walks::new();
        let pid = sys::pid();
        let first = walks.begin(pid).unwrap();
        let has_begun = &AtomicBool::new(false);
        thread::scope(|scope| {
            let fork = scope.spawn(|| {
                walks.fork_begins();
                let is_alone = FORK.get() == Fork::Alone;
                has_begun.store(true, Ordering::SeqCst);
                assert!(walks.begin(pid).is_some(), "the forking thread walks");
                thread::sleep(Duration::from_millis(5));
                walks.fork_ends();
                assert!(FORK.get() == Fork::None);
                is_alone
            });
            while walks.forks.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            let poller = scope.spawn(|| {
                skip_in_forks();
                walks.begin(pid).is_none()
            });
            assert!(poller.join().unwrap(), "the poller does without");
            let app = scope.spawn(|| {
                let walk = walks.begin(pid).unwrap();
                (has_begun.load(Ordering::SeqCst), walk.is_hasty)
            });
            drop(first);
            assert!(fork.join().unwrap(), "no walk was under way");
            assert_eq!(app.join().unwrap(), (true, false), "it waited for the fork");
        });
        assert_eq!(walks.count.load(Ordering::SeqCst), 0);
        assert_eq!(walks.forks.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_fork_and_a_walk_that_wait_for_each_other_both_go_on() {
        let walks = Walks::new();
        let walk = walks.begin(sys::pid()).unwrap();
        let since = Instant::now();
        walks.fork_begins();
        assert!(FORK.get() == Fork::AmongWalks);
        assert!(since.elapsed() >= Duration::from_millis(10));
        let hasty =
            thread::scope(|scope| scope.spawn(|| walks.begin(sys::pid()).unwrap().is_hasty).join().unwrap());
        assert!(hasty, "the fork does not end");
        walks.fork_ends();
        drop(walk);
        assert!(!walks.begin(sys::pid()).unwrap().is_hasty);
    }

    #[test]
    fn a_child_forgets_threads_that_waited_and_not_those_that_walked() {
        // A child has a copy of this.
        let child_of = |walks: &Walks| {
            walks.child_begins();
            assert_eq!(walks.forks.load(Ordering::SeqCst), 0);
            walks.begin(8).is_some()
        };
        let walks = Walks::new();
        walks.process.store(7, Ordering::SeqCst);
        walks.fork_begins();
        walks.count.store(1, Ordering::SeqCst); // a thread that is about to see the fork
        assert!(child_of(&walks));

        let walks = Walks::new();
        walks.process.store(7, Ordering::SeqCst);
        walks.fork_begins();
        walks.count.store(1, Ordering::SeqCst);
        walks.hasty.store(1, Ordering::SeqCst);
        assert!(!child_of(&walks), "it did not wait");

        let walks = Walks::new();
        std::mem::forget(walks.begin(7));
        walks.fork_begins();
        assert!(!child_of(&walks), "it is a walk from before");
    }

    /// A child that was forked while the poller walked over the list hung when it loaded a library.
    #[test]
    fn a_child_that_is_forked_during_walks_can_walk() {
        watch_forks();
        let is_over = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    libraries::search(|_| None::<()>);
                }
            });
            for n in 0..100 {
                // SAFETY: the child only walks, which takes no lock but the list's, and ends; it is ended if it hangs.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::alarm(10);
                        libc::_exit(i32::from(libraries::adds() == 0));
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &mut status, 0), child);
                    assert_eq!(status, 0, "child {n}");
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
    }
}
