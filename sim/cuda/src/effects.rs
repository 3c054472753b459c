//! The effects of copies and memsets on memory. They take place in the order in which the schedule computed their
//! times, which respects every dependency: small ones at once, large ones on a thread of their own, so that an
//! asynchronous copy of a gigabyte does not block its caller. Code that reports work as done to the application calls
//! [`drain`] first.

use crate::transfer::{Copy, Set};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// One.
#[derive(Debug)]
pub enum Effect {
    /// Bytes are copied.
    Copy(Copy),
    /// Bytes are set.
    Set(Set),
    /// An address range is returned to the system.
    Release(crate::memory::Range),
}

/// Effects up to this many bytes take place at once if no other effect waits.
const AT_ONCE: u64 = 64 * 1024;

static QUEUE: Mutex<VecDeque<Effect>> = Mutex::new(VecDeque::new());
/// An effect was queued.
static QUEUED: Condvar = Condvar::new();
/// The queue ran empty.
static EMPTY: Condvar = Condvar::new();
/// The number of effects that are queued and not done. Incremented under the queue's lock; the decrement (release)
/// pairs with the acquire load in [`drain`] and [`push`].
static PENDING: AtomicU64 = AtomicU64::new(0);

impl Effect {
    fn bytes(&self) -> u64 {
        match self {
            Self::Copy(copy) => copy.bytes(),
            Self::Set(set) => set.bytes(),
            Self::Release(_) => 0,
        }
    }

    fn take_place(self) {
        match self {
            Self::Copy(copy) => copy.take_place(),
            Self::Set(set) => set.take_place(),
            Self::Release(range) => range.release(),
        }
    }
}

/// Applies an effect after all those before it. The caller holds the state's lock.
pub fn push(effect: Effect) {
    if PENDING.load(Ordering::Acquire) == 0 && effect.bytes() <= AT_ONCE {
        return effect.take_place();
    }
    static START: Once = Once::new();
    START.call_once(|| crate::worker::spawn("simcuda-copy", work));
    let mut queue = QUEUE.lock();
    PENDING.fetch_add(1, Ordering::Relaxed);
    queue.push_back(effect);
    QUEUED.notify_one();
}

/// Blocks until every earlier effect has taken place.
pub fn drain() {
    if PENDING.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut queue = QUEUE.lock();
    while PENDING.load(Ordering::Acquire) != 0 {
        EMPTY.wait(&mut queue);
    }
}

fn work() {
    let mut queue = QUEUE.lock();
    loop {
        let Some(effect) = queue.pop_front() else {
            QUEUED.wait(&mut queue);
            continue;
        };
        drop(queue);
        effect.take_place();
        queue = QUEUE.lock();
        if PENDING.fetch_sub(1, Ordering::Release) == 1 {
            EMPTY.notify_all();
        }
    }
}
