//! A thread's own state, which a signal handler may find half changed.
//!
//! A handler runs on the thread that it interrupts, and may call CUDA: then a hook is entered while another one,
//! further up the same stack, holds the state. The flag that says whether the state is free lies beside the state and
//! not in it, so that reading the flag needs no reference to a state that may be held: two references in use at once,
//! one of them mutable, would be undefined behavior whatever they are used for.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// A value that one frame of its thread uses at a time.
pub struct Guarded<T> {
    /// Whether some frame uses the value. Everything that is read and written under it belongs to one thread, so it
    /// orders nothing between threads: it is atomic because a handler may read it between any two instructions. It is
    /// its own partner.
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

impl<T> Guarded<T> {
    /// Makes a value that no frame uses.
    pub const fn new(value: T) -> Self {
        Guarded { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether a frame of this thread uses the value.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// Marks the value as used by the caller's frame. Call it only when the value is not busy, or when the frame that
    /// made it busy is gone.
    ///
    /// Compiler fences suffice, because the handler runs on this same thread: they keep every use of the value between
    /// this and [`release`](Self::release).
    #[inline(always)]
    pub fn hold(&self) {
        self.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Marks the value as free.
    #[inline(always)]
    pub fn release(&self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// Returns the value.
    ///
    /// # Safety
    /// The caller's frame holds the value, on the value's own thread, and uses no reference again that an earlier call
    /// returned. A reference ends before the frame releases the value.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one frame of one thread holds it")]
    pub unsafe fn get(&self) -> &mut T {
        // SAFETY: as the caller promises: no other frame has a reference, since that frame would have to hold the
        // value.
        unsafe { &mut *self.value.get() }
    }
}

// Plain code that Miri runs too (scripts/deep-check.sh): a handler's call is a call at that place.
#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct State {
        taken: u32,
        words: [u64; 4],
    }

    /// What a hook does: passes through where the state is held, else changes it with a call of the app's in the
    /// middle.
    fn enter(state: &Guarded<State>, passed: &AtomicBool, inside: &dyn Fn(), real: &dyn Fn()) {
        if state.is_busy() {
            passed.store(true, Ordering::Relaxed);
            return;
        }
        state.hold();
        // SAFETY: held; used up to the release only.
        let own = unsafe { state.get() };
        own.taken += 1;
        let word = &mut own.words[0];
        *word += 1;
        inside();
        *word += 1;
        state.release();
        real();
        state.hold();
        // SAFETY: held anew.
        unsafe { state.get() }.words[1] += 1;
        state.release();
    }

    #[test]
    fn an_entry_inside_our_own_code_passes_and_touches_nothing() {
        let (state, passed) = (Guarded::new(State::default()), AtomicBool::new(false));
        let nothing = || ();
        enter(&state, &passed, &|| enter(&state, &passed, &nothing, &nothing), &nothing);
        assert!(passed.load(Ordering::Relaxed) && !state.is_busy());
        state.hold();
        // SAFETY: held.
        let own = unsafe { state.get() };
        assert_eq!((own.taken, own.words), (1, [2, 1, 0, 0]));
    }

    #[test]
    fn an_entry_inside_the_real_call_has_the_state_to_itself() {
        let (state, passed) = (Guarded::new(State::default()), AtomicBool::new(false));
        let nothing = || ();
        enter(&state, &passed, &nothing, &|| enter(&state, &passed, &nothing, &nothing));
        assert!(!passed.load(Ordering::Relaxed));
        state.hold();
        // SAFETY: held.
        let own = unsafe { state.get() };
        assert_eq!((own.taken, own.words), (2, [4, 2, 0, 0]));
    }
}
