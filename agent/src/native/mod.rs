//! Which functions did a call come from, besides the one that made it?
//!
//! ```text
//! the hook's frame ─▸ rule of its return address ─▸ the caller's frame ─▸ …
//!                     (from .eh_frame, once)
//! ```
//!
//! `kernel<<<…>>>` returns into code that nvcc wrote, and what people want is the line behind it: so a launch of the runtime has
//! a few frames more. With `--native`, calls that take long have as many as there are.
//!
//! Frames are found as an exception would find them. The rule of a return address is read once, by checked reads, and kept
//! as one word; from then on a frame costs a look into a table and two reads of the thread's own stack. Where there is no
//! rule, the stack ends: nothing is guessed.

mod rule;
mod walk;

use core::hint::cold_path;
use core::sync::atomic::{AtomicU64, Ordering};
use gpuspy_wire::record::{CELL_WORDS, Head, MAX_FRAMES, MAX_STACK_CELLS, Stack, StackNumber};

use crate::keyed::Keyed;
use crate::loader::libraries;
use crate::numbers::{Numbers, mix};
use crate::sys;
use crate::thread::Call;
use rule::{Rule, Stored};
use walk::Frames;

/// Distinct return addresses whose rules are kept, and distinct stacks.
const RULES: usize = 1 << 11;
const STACKS: usize = 1 << 12;
/// The numbers of native stacks begin after those of Python's.
const FIRST: u32 = crate::python::STACKS as u32;

/// The frames of a launch. Optimized, nvcc's code has one or two of its own, and without frame pointers; compiled without
/// optimization, it has three or four.
const OF_LAUNCH: usize = 4;
const OF_UNOPTIMIZED_LAUNCH: usize = 5;
/// The frames of a call that took long: the rest of the record is for the number of Python's stack.
const OF_LONG: usize = MAX_FRAMES - 1;

/// How long a call takes at least that has all of its frames with `--native`, ns. (Nsight Systems has the same limit.)
const LONG_NS: u64 = 80_000;

/// The native stacks of a process. Valid when zero.
pub struct Native {
    /// Whether no stack is read (`GPUSPY_STACKS=off`). Written before the session is published.
    is_off: bool,
    /// Whether calls that take long have all of their frames (`GPUSPY_NATIVE`). Written as above.
    is_asked: bool,
    /// Below this address is the first thread's stack. Written as above.
    first_stack: u64,
    /// When the session began: ticks, and CLOCK_MONOTONIC, ns. Written as above.
    began: (u64, u64),
    /// [`LONG_NS`] in ticks; 0 = not known yet. Relaxed: a number.
    long: AtomicU64,
    /// The number of objects that were ever unloaded when the rules were last known to be right. Relaxed: only the poller
    /// uses it.
    unloaded: AtomicU64,
    /// By return address.
    rules: Keyed<Stored, RULES>,
    stacks: Numbers<STACKS>,
}

impl Native {
    /// Reads the settings, before the session is published.
    pub fn begin(&mut self, is_off: bool, is_asked: bool) {
        (self.is_off, self.is_asked) = (is_off, is_asked);
        self.began = (sys::ticks(), sys::clock_ns(libc::CLOCK_MONOTONIC));
        // SAFETY: no arguments that could fail. The kernel puts these bytes above the first thread's frames (getauxval(3)).
        self.first_stack = unsafe { libc::getauxval(libc::AT_RANDOM) };
    }

    /// Whether calls that take long have all of their frames.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Returns the number of the stack of a launch.
    #[inline(always)]
    pub fn of_launch(&self, call: &Call) -> StackNumber {
        if self.is_off { StackNumber::NONE } else { self.read_launch(call) }
    }

    #[inline(never)]
    fn read_launch(&self, call: &Call) -> StackNumber {
        let is_by_frame = self.rule(call.caller).is_some_and(|rule| rule.is_by_frame);
        let most = if is_by_frame { OF_UNOPTIMIZED_LAUNCH } else { OF_LAUNCH };
        self.number(call, most, StackNumber::NONE)
    }

    /// Returns the number of the stack of a call with this stack of Python, if it has taken long enough for that.
    #[inline(always)]
    pub fn of_long(&self, call: &Call, python: StackNumber) -> Option<StackNumber> {
        if self.is_asked { self.of_long_call(call, python) } else { None }
    }

    fn of_long_call(&self, call: &Call, python: StackNumber) -> Option<StackNumber> {
        if self.is_off {
            return None;
        }
        // Relaxed: see the field. Until it is known, somewhat shorter calls have their frames, too.
        let long = match self.long.load(Ordering::Relaxed) {
            0 => LONG_NS.min(sys::tenth_of_a_second() / 1250),
            ticks => ticks,
        };
        (sys::ticks().wrapping_sub(call.begin) >= long)
            .then(|| self.number(call, OF_LONG, python))
            .filter(|stack| *stack != StackNumber::NONE)
    }

    /// Returns the number of the frames around a call, up to `most`; none if they are not more than its caller.
    #[inline(always)]
    fn number(&self, call: &Call, most: usize, python: StackNumber) -> StackNumber {
        let frames =
            || Frames::from(call.outermost(), self.first_stack, |address| self.rule(address)).take(most);
        let (mut hash, mut count) = (u64::from(python.get()), 0);
        for address in frames() {
            hash = mix(hash, address);
            count += 1;
        }
        if count < 2 {
            return StackNumber::NONE;
        }
        let stack = self.stacks.known(hash).or_else(|| {
            cold_path();
            self.stacks.number(hash, |number| Self::send(call, FIRST + number, python, frames()))
        });
        match stack {
            Some(stack) if stack.number != 0 => StackNumber::new(FIRST + stack.number),
            _ => StackNumber::NONE,
        }
    }

    /// Returns the rule of a return address.
    #[inline(always)]
    fn rule(&self, address: u64) -> Option<Rule> {
        self.rules.first(address).and_then(Stored::rule).or_else(|| {
            cold_path();
            self.learn(address)
        })
    }

    /// Does so where it is not in its first place of the table, or is not known yet, or is known to be none.
    #[cold]
    #[inline(never)]
    fn learn(&self, address: u64) -> Option<Rule> {
        let stored = self.rules.get(address)?;
        let known = stored.rule();
        if known.is_some() || stored.is_none() {
            return known;
        }
        let errno = sys::Errno::save();
        let rule = rule::of(address);
        stored.put(rule);
        errno.restore();
        rule
    }

    /// Sends a stack that is new. Nothing is found of it; `None` when it did not fit into the ring.
    #[cold]
    fn send(
        call: &Call,
        number: u32,
        python: StackNumber,
        frames: impl Iterator<Item = u64>,
    ) -> Option<bool> {
        let stack = Stack { head: Head::new::<Stack>(), stack: number, native: 1, ..Stack::default() };
        let mut buffer = [0; MAX_STACK_CELLS * CELL_WORDS];
        let words = stack.with_addresses(python, frames, &mut buffer);
        call.push_words(words).then_some(false)
    }

    /// Poller: has stacks sent again when they come up again.
    pub fn forget_sent(&self) {
        self.stacks.forget_sent();
    }

    /// Poller: forgets the rules of libraries that were unloaded, and learns how fast the clock ticks.
    pub fn keep_up(&self) {
        let (ticks, ns) = self.began;
        let passed = sys::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(ns);
        let ticked = u128::from(sys::ticks().wrapping_sub(ticks));
        let long = u128::from(LONG_NS) * ticked / u128::from(passed.max(1));
        self.long.store(u64::try_from(long).unwrap_or(u64::MAX), Ordering::Relaxed);
        let unloaded = libraries::subs();
        if self.unloaded.swap(unloaded, Ordering::Relaxed) != unloaded {
            self.rules.values().for_each(Stored::forget);
        }
    }
}
