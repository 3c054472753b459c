//! Which call is a thread in, and since when?
//!
//! A call's record is published when the call returns, so a call that never returns has none. Each slot
//! therefore also says which call its thread is in. The words lie on the cache line of the thread's counters,
//! which it writes in each call anyway.
//!
//! The thread stores the call and then the time of its entry; at the call's end it stores 0 as the time. A
//! reader loads the time, the call, and the time again: if both times are the same and not 0, the call is the
//! one that was entered then (`tests/loom.rs`). It never makes the thread wait, and reads whatever a hostile
//! peer wrote.

use crate::ring::Word;
use core::sync::atomic::Ordering;

/// The bits of a return address that are published: user space of x86-64 and aarch64 ends at or below 2^48,
/// unless a program maps memory above it on purpose.
const ADDRESS_BITS: u32 = 48;

/// The call that a thread is in. Written by the slot's owner.
#[derive(Debug, Default)]
#[repr(C)]
pub struct InProgress<W> {
    /// Ticks when the outermost call was entered; 0 = the thread is in no call.
    pub since: W,
    /// Its API in the top 16 bits, its return address below.
    pub call: W,
}

/// A call that had not returned when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The outermost function: an interned id in [`Namespace::Api`](crate::record::Namespace::Api).
    pub api: u16,
    /// Its return address; 0 = it has more bits than are published.
    pub caller: u64,
    /// Ticks when it was entered.
    pub since: u64,
}

impl<W: Word> InProgress<W> {
    /// Publishes that the thread has entered a call.
    #[inline(always)]
    pub fn enter(&self, call: Call) {
        let address = if call.caller >> ADDRESS_BITS == 0 { call.caller } else { 0 };
        // Release pairs with the acquire load of `call` in `get`: who sees this call sees that the one before
        // it has ended.
        self.call.store(u64::from(call.api) << ADDRESS_BITS | address, Ordering::Release);
        // Release pairs with the acquire load of `since` in `get`: who sees this time sees this call or a
        // later one.
        self.since.store(call.since, Ordering::Release);
    }

    /// Publishes that the thread is in no call.
    #[inline(always)]
    pub fn leave(&self) {
        // Relaxed: the store of `call` in the next `enter` publishes it.
        self.since.store(0, Ordering::Relaxed);
    }

    /// Returns the call that the thread is in.
    pub fn get(&self) -> Option<Call> {
        // Acquire pairs with the release store of `since` in `enter`.
        let since = self.since.load(Ordering::Acquire);
        // Acquire pairs with the release store of `call` in `enter`: if that is a later call's, the load below
        // finds another time.
        let call = self.call.load(Ordering::Acquire);
        // Relaxed: ordered by the load before it.
        let is_same = since != 0 && self.since.load(Ordering::Relaxed) == since;
        is_same.then_some(Call {
            api: (call >> ADDRESS_BITS) as u16,
            caller: call & ((1 << ADDRESS_BITS) - 1),
            since,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn a_call_is_in_progress_from_its_entry_to_its_return() {
        let thread = InProgress::<AtomicU64>::default();
        assert_eq!(thread.get(), None);
        for call in [
            Call { api: 7, caller: 0x7fff_1234_5678, since: 40 },
            Call { api: u16::MAX, caller: 0, since: u64::MAX },
        ] {
            thread.enter(call);
            assert_eq!(thread.get(), Some(call));
            thread.leave();
            assert_eq!(thread.get(), None);
        }
    }

    #[test]
    fn an_address_with_too_many_bits_is_unknown_and_leaves_the_api_as_it_is() {
        let thread = InProgress::<AtomicU64>::default();
        thread.enter(Call { api: 7, caller: 1 << 50 | 5, since: 40 });
        assert_eq!(thread.get(), Some(Call { api: 7, caller: 0, since: 40 }));
    }
}
