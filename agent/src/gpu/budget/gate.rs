//! May this launch be timed? Hooks query the gate before each launch.
//!
//! The answer is one atomic word, which packs a [`State`]: a hook loads it once, relaxed, and compares.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::capture_range::CaptureRange;
use gpuspy_wire::record::Untimed;

use crate::options::{Mode, Options};
use crate::sys::ticks;

/// The number of launches after which the first phase ends, unless its time ends it earlier.
pub const FIRST_LAUNCHES: u64 = 10_000;

/// What hooks may time at the moment.
///
/// While the capture range ([`crate::gpu::capture_range`]) is closed nothing is timed, but the rest of the state is
/// kept: the account goes on as it is, and a window waits for the range to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing is timed any more.
    Off,
    /// Every launch is timed.
    Always,
    /// No window is open.
    Paused,
    /// A window is open that may time this many more launches, at least one.
    Open(u64),
    /// The capture range is closed; every launch will be timed when it opens.
    AlwaysOutside,
    /// The capture range is closed; when it opens, the window may time this many launches (0 = no window is
    /// open).
    WindowOutside(u64),
}

impl State {
    const OFF: u64 = u64::MAX;
    const ALWAYS: u64 = u64::MAX - 1;
    const ALWAYS_OUTSIDE: u64 = u64::MAX - 2;
    /// Set in a window's number of launches while the capture range is closed. No number of launches reaches
    /// it.
    const OUTSIDE_BIT: u64 = 1 << 63;

    /// Returns the word that stands for this state. [`State::Paused`] is 0.
    const fn pack(self) -> u64 {
        match self {
            State::Off => State::OFF,
            State::Always => State::ALWAYS,
            State::Paused => 0,
            State::Open(left) => left,
            State::AlwaysOutside => State::ALWAYS_OUTSIDE,
            State::WindowOutside(left) => left | State::OUTSIDE_BIT,
        }
    }

    /// Returns the state that a word stands for.
    #[inline]
    const fn unpack(word: u64) -> State {
        match word {
            State::OFF => State::Off,
            State::ALWAYS => State::Always,
            State::ALWAYS_OUTSIDE => State::AlwaysOutside,
            0 => State::Paused,
            left if left & State::OUTSIDE_BIT == 0 => State::Open(left),
            left => State::WindowOutside(left & !State::OUTSIDE_BIT),
        }
    }

    /// The state of a window with this number of launches left, which may be 0.
    const fn window(left: u64, in_range: bool) -> State {
        match (left, in_range) {
            (0, true) => State::Paused,
            (left, true) => State::Open(left),
            (left, false) => State::WindowOutside(left),
        }
    }

    /// The number of launches that the window may still time, now or when the capture range opens.
    const fn left(self) -> u64 {
        match self {
            State::Open(left) | State::WindowOutside(left) => left,
            State::Off | State::Always | State::AlwaysOutside | State::Paused => 0,
        }
    }

    /// Returns the same state with the capture range open or closed.
    const fn with_range(self, in_range: bool) -> State {
        match self {
            State::Off => State::Off,
            State::Always | State::AlwaysOutside if in_range => State::Always,
            State::Always | State::AlwaysOutside => State::AlwaysOutside,
            State::Paused | State::Open(_) | State::WindowOutside(_) => State::window(self.left(), in_range),
        }
    }
}

/// Admits launches to timing. Valid when zero (timing is paused).
pub struct Gate {
    /// A packed [`State`]. Relaxed: a hook that sees a change late times or counts one launch more.
    state: AtomicU64,
    /// Ticks of the first launch, and ticks when a window's last launch was taken; 0 = not yet. Release by
    /// the hook that takes the launch, acquire by the poller.
    pub(super) first_taken: AtomicU64,
    pub(super) last_taken: AtomicU64,
    /// The number of the open window, or of the last one; each timed operation carries it. Relaxed: an
    /// operation that is timed at a window's edge may carry the next window's number.
    window: AtomicU32,
    pub(super) options: Options,
}

impl Gate {
    /// Creates the gate in the state that the options ask for.
    pub fn new(options: Options) -> Gate {
        let state = match options.mode {
            Mode::Off => State::Off,
            Mode::Exact => State::Always,
            Mode::Auto => State::Open(FIRST_LAUNCHES),
        };
        Gate {
            state: AtomicU64::new(state.with_range(options.range.is_none()).pack()),
            first_taken: AtomicU64::new(0),
            last_taken: AtomicU64::new(0),
            window: AtomicU32::new(0),
            options,
        }
    }

    /// Admits a launch to timing, or returns the reason why it is not timed.
    #[inline]
    pub fn admit(&self) -> Result<(), Untimed> {
        match (self.is_shut_for(), self.state()) {
            (Some(why), _) => Err(why),
            (None, State::Always) => Ok(()),
            (None, _) => self.take(),
        }
    }

    /// Whether nothing is timed at the moment.
    #[inline(always)]
    pub fn is_shut(&self) -> bool {
        self.is_shut_for().is_some()
    }

    /// Returns why nothing is timed at the moment; `None` if operations are.
    #[inline(always)]
    pub fn is_shut_for(&self) -> Option<Untimed> {
        match self.state() {
            State::Paused => Some(Untimed::Budget),
            State::Off => Some(Untimed::Off),
            State::AlwaysOutside | State::WindowOutside(_) => Some(Untimed::OutsideRange),
            State::Always | State::Open(_) => None,
        }
    }

    /// Whether nothing has been timed in this session, and nothing will be.
    #[inline(always)]
    pub fn is_never_open(&self) -> bool {
        self.options.mode == Mode::Off
    }

    #[inline(always)]
    fn state(&self) -> State {
        State::unpack(self.state.load(Ordering::Relaxed))
    }

    /// Replaces the state by what `to` returns for it, unless that is `None`. Returns the state before, or as
    /// an error the state for which `to` returned `None`. Relaxed: the state publishes nothing else.
    fn change(&self, to: impl Fn(State) -> Option<State>) -> Result<State, State> {
        let packed = |word| to(State::unpack(word)).map(State::pack);
        let changed = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, packed);
        changed.map(State::unpack).map_err(State::unpack)
    }

    /// Takes one of the window's launches.
    fn take(&self) -> Result<(), Untimed> {
        // Read before the launch is taken, so that a launch that finds the window closed has a later time.
        let now = ticks();
        let one_less = |state| match state {
            State::Open(left) => Some(State::window(left - 1, true)),
            _ => None,
        };
        match self.change(one_less) {
            Ok(before) => {
                if before == State::Open(FIRST_LAUNCHES) && self.first_taken.load(Ordering::Relaxed) == 0 {
                    self.first_taken.store(now, Ordering::Release);
                }
                if before == State::Open(1) {
                    self.last_taken.store(now, Ordering::Release);
                }
                Ok(())
            }
            Err(State::Off) => Err(Untimed::Off),
            Err(State::AlwaysOutside | State::WindowOutside(_)) => Err(Untimed::OutsideRange),
            Err(_) => Err(Untimed::Budget),
        }
    }

    /// Changes the number of launches of the open window, whether the capture range is open or not. Returns
    /// the previous number, or `None` if no window is open.
    pub(super) fn change_left(&self, to: impl Fn(u64) -> u64) -> Option<u64> {
        let changed = |state| match state {
            State::Open(left) => Some(State::window(to(left), true)),
            State::WindowOutside(left) if left > 0 => Some(State::window(to(left), false)),
            _ => None,
        };
        self.change(changed).ok().map(State::left)
    }

    /// Opens or closes the capture range.
    pub fn set_in_range(&self, in_range: bool) {
        let changed = |word| {
            let new = State::unpack(word).with_range(in_range).pack();
            (new != word).then_some(new)
        };
        // SeqCst, with `crate::gpu::capture_range`: a thread that changes the state sees a change of the range that
        // was made meanwhile. An error only means that there was nothing to change.
        let _ = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// The part of the run that is recorded; `None` = all of it.
    pub fn range(&self) -> Option<CaptureRange<'static>> {
        self.options.range()
    }

    /// The number of the open window, or of the last one.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window.load(Ordering::Relaxed)
    }

    /// Poller: the number of launches that the open window may still time; 0 if none is open.
    pub(super) fn left(&self) -> u64 {
        self.state().left()
    }

    /// Whether timing has not been switched off for good.
    pub fn is_on(&self) -> bool {
        self.state() != State::Off
    }

    /// Switches timing off for good.
    pub fn stop(&self) {
        self.state.store(State::Off.pack(), Ordering::Relaxed);
    }

    /// Poller: opens a window of `launches` launches, at least one. Returns false if timing has stopped or a
    /// window is open.
    pub(super) fn open(&self, launches: u64) -> bool {
        self.window.fetch_add(1, Ordering::Relaxed);
        let opened = |state| match state {
            State::Paused => Some(State::window(launches.max(1), true)),
            State::WindowOutside(0) => Some(State::window(launches.max(1), false)),
            _ => None,
        };
        self.change(opened).is_ok()
    }

    /// Poller: closes the window. Returns the number of launches that were left, or `None` if the hooks took
    /// the last one just now.
    pub(super) fn close(&self) -> Option<u64> {
        self.change_left(|_| 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [(State, u64); 9] = [
        (State::Off, u64::MAX),
        (State::Always, u64::MAX - 1),
        (State::AlwaysOutside, u64::MAX - 2),
        (State::Paused, 0),
        (State::Open(1), 1),
        (State::Open(1 << 62), 1 << 62),
        (State::WindowOutside(0), 1 << 63),
        (State::WindowOutside(FIRST_LAUNCHES), (1 << 63) + FIRST_LAUNCHES),
        (State::WindowOutside((1 << 62) + 5), (1 << 63) + (1 << 62) + 5),
    ];

    #[test]
    fn each_state_packs_into_its_own_word() {
        for (state, word) in STATES {
            assert_eq!(state.pack(), word, "{state:?}");
        }
    }

    #[test]
    fn each_word_unpacks_into_the_state_that_was_packed() {
        for (state, word) in STATES {
            assert_eq!(State::unpack(word), state, "{word:#x}");
        }
    }

    #[test]
    fn closing_and_opening_the_range_keeps_the_rest_of_the_state() {
        for (state, _) in STATES {
            let closed = State::unpack(state.with_range(false).pack());
            assert_eq!(closed.with_range(true), state.with_range(true), "{state:?}");
            assert_eq!(closed.with_range(true).with_range(false), closed, "{state:?}");
            assert_eq!(closed.left(), state.left(), "{state:?}");
        }
    }

    #[test]
    fn a_launch_that_is_not_admitted_gets_the_reason() {
        let gate = |mode| Gate::new(Options::of(mode));
        assert_eq!(gate(Mode::Off).admit(), Err(Untimed::Off));
        assert_eq!(gate(Mode::Exact).admit(), Ok(()));
        let auto = gate(Mode::Auto);
        for _ in 0..FIRST_LAUNCHES {
            assert_eq!(auto.admit(), Ok(()));
        }
        assert_eq!(auto.admit(), Err(Untimed::Budget));
        assert!(auto.open(1) && !auto.open(1));
        auto.stop();
        assert_eq!(auto.admit(), Err(Untimed::Off));
        assert!(!auto.open(5) && auto.close().is_none(), "timing that has stopped stays off");
    }

    #[test]
    fn nothing_is_timed_outside_the_range_and_a_window_waits_for_it_to_open() {
        let gate = |mode| Gate::new(Options { range: Some("profiler-api"), ..Options::of(mode) });
        let (exact, auto, off) = (gate(Mode::Exact), gate(Mode::Auto), gate(Mode::Off));
        for turn in 0..3 {
            assert_eq!(exact.admit(), Err(Untimed::OutsideRange));
            assert_eq!(auto.admit(), Err(Untimed::OutsideRange));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.set_in_range(true));
            assert_eq!(exact.admit(), Ok(()));
            for _ in 0..if turn == 0 { FIRST_LAUNCHES } else { 7 } {
                assert_eq!(auto.admit(), Ok(()), "turn {turn}");
            }
            assert_eq!(auto.admit(), Err(Untimed::Budget));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.set_in_range(false));
            assert!(auto.open(7) && !auto.open(7), "the account goes on while the range is closed");
            assert_eq!(auto.change_left(|left| left.max(5)), Some(7));
        }
        assert_eq!(auto.close(), Some(7));
        assert_eq!(off.admit(), Err(Untimed::Off));
        exact.stop();
        exact.set_in_range(true);
        assert_eq!(exact.admit(), Err(Untimed::Off), "timing that has stopped stays off");
    }
}
