//! A thread's own state, which a signal handler may find half changed.
//!
//! A handler runs on the thread that it interrupts, and may call CUDA: then a hook is entered while another one,
//! further up the same stack, holds the state. The flag that says whether the state is free lies beside the state and
//! not in it, so that reading the flag needs no reference to a state that may be held: two references in use at once,
//! one of them mutable, would be undefined behavior whatever they are used for.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// A value that one frame of its thread uses at a time.
pub struct Guarded<T> {
    /// [`HELD`] while some frame uses the value, else [`FREE`] or a [`Mark`]. Everything that is read and written under
    /// it belongs to one thread, so it orders nothing between threads: it is atomic because a handler may read it
    /// between any two instructions. It is its own partner.
    state: AtomicUsize,
    value: UnsafeCell<T>,
}

/// Some frame uses the value.
const HELD: usize = 1;
/// No frame uses the value, and nothing is known of it.
const FREE: usize = 2;

/// What a frame says of the value when it releases it. It stays true while the mark is there, because each frame that
/// changes the value holds it before, which removes the mark.
#[derive(Clone, Copy)]
pub struct Mark(usize);

impl Mark {
    /// The address of something as a mark. No value has the mark of a null pointer.
    #[inline(always)]
    pub fn at<S>(address: *const S) -> Mark {
        const { assert!(align_of::<S>() > 4, "no address is one of the other words") };
        Mark(address as usize)
    }

    /// Another mark for the same thing.
    #[inline(always)]
    pub fn other(self) -> Mark {
        Mark(self.0 | 4)
    }
}

impl<T> Guarded<T> {
    /// Makes a value that no frame uses.
    pub const fn new(value: T) -> Self {
        Guarded { state: AtomicUsize::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Whether a frame of this thread uses the value.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.state.load(Ordering::Relaxed) == HELD
    }

    /// Marks the value as used by the caller's frame. Call it only when the value is not busy, or when the frame that
    /// made it busy is gone.
    ///
    /// Compiler fences suffice, because the handler runs on this same thread: they keep every use of the value between
    /// this and [`release`](Self::release).
    #[inline(always)]
    pub fn hold(&self) {
        self.state.store(HELD, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Marks the value as free.
    #[inline(always)]
    pub fn release(&self) {
        self.release_with(Mark(FREE));
    }

    /// Marks the value as free, and says something of it.
    #[inline(always)]
    pub fn release_with(&self, mark: Mark) {
        compiler_fence(Ordering::SeqCst);
        self.state.store(mark.0, Ordering::Relaxed);
    }

    /// Whether the value is free, and what this mark says is true of it.
    #[inline(always)]
    pub fn has(&self, mark: Mark) -> bool {
        self.state.load(Ordering::Relaxed) == mark.0
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
    use core::sync::atomic::AtomicBool;

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

    #[test]
    fn a_mark_goes_when_the_value_is_held() {
        let state = Guarded::new(State::default());
        let mark = Mark::at(&raw const state);
        let nothing = Mark::at(core::ptr::null::<State>());
        assert!(![mark, mark.other(), nothing, nothing.other()].iter().any(|mark| state.has(*mark)));
        state.hold();
        assert!(state.is_busy() && !state.has(mark));
        state.release_with(mark);
        assert!(!state.is_busy() && state.has(mark) && !state.has(mark.other()));
        state.hold();
        state.release();
        assert!(!state.is_busy() && !state.has(mark));
    }
}
