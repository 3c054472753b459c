//! The return addresses on the calling thread's own stack, from a hook outwards. Nothing is called, locked or allocated.

use super::rule::Rule;
use crate::memory::read;
use crate::sys::Caller;

/// No frame is larger than this, bytes: a rule that says so is not believed.
const LARGEST: u64 = 1 << 20;
/// A hook is no further than this from what it has called, bytes.
#[cfg(target_arch = "aarch64")]
const LARGEST_BETWEEN: u64 = 1 << 16;
/// The frame of a hook is no larger than this, bytes.
#[cfg(target_arch = "aarch64")]
const LARGEST_HOOK: u64 = 1 << 10;
/// A stack is no larger than this, bytes.
const LARGEST_STACK: u64 = 1 << 30;

/// The return addresses, the innermost first. They end where a rule is missing.
#[derive(Clone)]
pub struct Frames<R> {
    rule: R,
    /// The return address that was found last, or where to start.
    address: u64,
    /// Whether that was given out.
    has_begun: bool,
    /// The stack pointer and the frame pointer that the function at that address has after the return.
    stack: u64,
    frame: u64,
    /// The end of the thread's stack: nothing is read from there on.
    end: u64,
}

impl<R: Fn(u64) -> Option<Rule>> Frames<R> {
    /// Starts at a hook that has not returned. `first_stack` is the end of the first thread's stack.
    #[inline(always)]
    pub fn from(caller: Caller, first_stack: u64, rule: R) -> Frames<R> {
        let (stack, frame) = registers_of(caller, &rule).unwrap_or((0, 0));
        let end = if stack == 0 { 0 } else { end_of(stack, first_stack) };
        Frames { rule, address: caller.address, has_begun: false, stack, frame, end }
    }

    /// Goes on to the caller of the function that is at `address`. `None`: nobody knows it.
    #[inline(always)]
    fn next_of(&mut self, address: u64) -> Option<u64> {
        let rule = (self.rule)(address)?;
        let base = if rule.is_by_frame { self.frame } else { self.stack };
        // Where it wraps around, so does the distance, which is then too large.
        let top = base.wrapping_add_signed(rule.top);
        let size = top.wrapping_sub(self.stack);
        let is_sound = (8..=LARGEST).contains(&size) && top <= self.end && top.is_multiple_of(8);
        let saved = rule.frame.map(|at| top.wrapping_add_signed(at));
        let back = top.wrapping_add_signed(rule.back);
        let is_inside = |at: u64, bytes: u64| {
            let below = at.wrapping_sub(self.stack);
            below < size && size - below >= bytes
        };
        // On x86-64, the return address is always just below the top.
        let is_back_inside = cfg!(target_arch = "x86_64") || is_inside(back, 8);
        if !is_sound || !is_back_inside || saved.is_some_and(|at| !is_inside(at, 16)) {
            return None;
        }
        // SAFETY: both words lie between the thread's stack pointer and the end of its stack, in the frame of a function that
        // has not returned: nothing changes them while this thread is here.
        unsafe {
            if let Some(at) = saved {
                self.frame = read(at);
            }
            self.stack = top;
            Some(unsigned(read(back)))
        }
    }
}

impl<R: Fn(u64) -> Option<Rule>> Iterator for Frames<R> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        // A frame is found when it is asked for: most are asked for a few, and the next one costs as much as each of them.
        if self.has_begun {
            self.address = self.next_of(self.address)?;
        }
        self.has_begun = true;
        (self.address != 0).then_some(self.address)
    }
}

/// Returns the stack pointer and the frame pointer of a hook's caller: the hook's frame record, its caller's frame pointer below the
/// return address, is at the top of its frame.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn registers_of(caller: Caller, _rule: impl Fn(u64) -> Option<Rule>) -> Option<(u64, u64)> {
    // SAFETY: the hook's frame record, in a frame of this thread's that has not returned.
    Some((caller.frame + 16, unsafe { read(caller.frame) }))
}

/// Returns the stack pointer and the frame pointer of a hook's caller. On Arm, a frame record may be anywhere in its frame, and a hook
/// that ended with a jump to another function has none any more, while that function has one in its place. So frame records are
/// followed from here to the one with the return address, and the rule of an address in its function says where the top is.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn registers_of(caller: Caller, rule: impl Fn(u64) -> Option<Rule>) -> Option<(u64, u64)> {
    let (here, mut address): (u64, u64);
    // SAFETY: reads a register, which has this function's frame record (build.rs), and the address behind these instructions.
    unsafe {
        core::arch::asm!("mov {}, x29", "adr {}, 4", out(reg) here, out(reg) address,
            options(nomem, nostack, preserves_flags));
    }
    let mut record = here;
    // What is between, our own code and NVIDIA's runtime, has small frames. So all reads are of one stack, and not above it.
    while record.wrapping_sub(here) <= LARGEST_BETWEEN
        && record <= caller.frame + LARGEST_HOOK
        && record.is_multiple_of(8)
    {
        // SAFETY: between this function's frame record and the frame of the hook's caller, or little above its lower end.
        let (outer, back) = unsafe { (read(record), read(record + 8)) };
        if back == caller.address {
            let rule = rule(address).filter(|rule| rule.is_by_frame)?;
            let top = record.wrapping_add_signed(rule.top);
            return (16..=LARGEST).contains(&top.wrapping_sub(record)).then_some((top, outer));
        }
        if outer <= record {
            return None;
        }
        (record, address) = (outer, unsigned(back));
    }
    None
}

/// Returns a return address as it is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn unsigned(address: u64) -> u64 {
    address
}

/// Takes the signature from a return address, which functions that are compiled with `-mbranch-protection` sign before they save it
/// (Arm ARM C6.2, "XPACLRI", which does nothing on processors that cannot sign).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn unsigned(mut address: u64) -> u64 {
    // SAFETY: XPACLRI, by its number, as assemblers for old processors have it; it changes the register that it is given.
    unsafe {
        core::arch::asm!("hint 7", inout("x30") address, options(pure, nomem, nostack, preserves_flags));
    }
    address
}

/// Returns the end of the stack that the calling thread is on: where the C library keeps what it knows of a thread, which is above
/// its stack, or what the kernel has put above the first thread's, which may be near another thread's, too. If neither is near, it is a
/// stack of the program's own, of which nothing is known.
#[inline(always)]
fn end_of(stack: u64, first_stack: u64) -> u64 {
    // SAFETY: no arguments, no failure.
    let this_thread = unsafe { libc::pthread_self() };
    // Where it is below the stack, the distance wraps around.
    let is_near = |end: u64| end.wrapping_sub(stack).wrapping_sub(1) < LARGEST_STACK;
    match (is_near(this_thread), is_near(first_stack)) {
        (true, _) => this_thread,
        (_, true) => first_stack,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// Starts at a hook that has this frame record at the top of its frame.
    fn frames<R: Fn(u64) -> Option<Rule>>(hook: &AtomicU64, end: u64, rule: R) -> Frames<R> {
        let stack = core::ptr::from_ref(hook) as u64 + 16;
        Frames { rule, address: 0x100, has_begun: false, stack, frame: hook.load(Ordering::Relaxed), end }
    }

    /// A stack as functions leave it: a frame by the stack pointer, one by the frame pointer, and one without a rule.
    #[test]
    fn frames_are_followed_by_their_rules_and_end_where_one_is_missing() {
        let words: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
        let at = |word: usize| words.as_ptr() as u64 + 8 * word as u64;
        let (third, end) = (at(20), at(32));
        for (word, value) in [
            (0, 77), // the frame pointer of the hook's caller, and its return address
            (1, 0x100),
            (9, 0x200), // above a frame of eight words, which has saved its caller's frame pointer
            (8, third - 16),
            (19, 0x300),
            (18, 88),
        ] {
            words[word].store(value, Ordering::Relaxed);
        }
        let rule = |address| match address {
            0x100 => Some(Rule { is_by_frame: false, top: 64, frame: Some(-16), back: -8 }),
            0x200 => Some(Rule { is_by_frame: true, top: 16, frame: Some(-16), back: -8 }),
            _ => None,
        };
        let frames = frames(&words[0], end, rule);
        assert_eq!(frames.clone().collect::<Vec<_>>(), [0x100, 0x200, 0x300]);
        let cut = Frames { end: at(19), ..frames };
        assert_eq!(cut.collect::<Vec<_>>(), [0x100, 0x200], "nothing is read behind the end of the stack");
    }

    /// The rule behind the last frame that is wanted was looked up with each launch.
    #[test]
    fn a_frame_is_looked_for_only_when_it_is_asked_for() {
        let stack = [0, 0x100, 0, 0x200, 0, 0].map(AtomicU64::new);
        let rule = |at| {
            assert_eq!(at, 0x100, "nobody wants what is behind the second frame");
            Some(Rule { is_by_frame: false, top: 16, frame: Some(-16), back: -8 })
        };
        let frames = frames(&stack[0], stack.as_ptr_range().end as u64, rule);
        assert_eq!(frames.take(2).collect::<Vec<_>>(), [0x100, 0x200]);
    }

    #[test]
    fn a_rule_that_leads_out_of_its_frame_is_not_believed() {
        let stack = [0, 0x100, 5, 0x200, 0, 0, 0, 0].map(AtomicU64::new);
        let end = stack.as_ptr_range().end as u64;
        let followed =
            |rule| frames(&stack[0], end, move |at| (at == 0x100).then_some(rule)).collect::<Vec<_>>();
        let right = Rule { is_by_frame: false, top: 16, frame: Some(-16), back: -8 };
        assert_eq!(followed(right), [0x100, 0x200]);
        for (top, frame) in [
            (0, None),
            (-8, None),
            (13, None),
            (1 << 30, None),
            (16, Some(-8)),
            (16, Some(-24)),
            (16, Some(8)),
        ] {
            assert_eq!(followed(Rule { top, frame, ..right }), [0x100], "{top} {frame:?}");
        }
        assert_eq!(followed(Rule { is_by_frame: true, ..right }), [0x100], "its frame pointer is none");
    }

    /// On Arm, nothing was read above a hook of which only that was known where its frame record is, and above one that ended with a
    /// jump, what lay there by then was taken for its frame record.
    #[test]
    fn the_registers_of_a_hooks_caller_are_known_also_if_the_hook_ended_with_a_jump() {
        type Registers = Option<(u64, u64)>;
        #[inline(never)]
        fn hook<const WORDS: usize>() -> Registers {
            let space = core::hint::black_box([0u64; WORDS]);
            let registers = registers_of(crate::sys::caller!(), super::super::rule::of);
            core::hint::black_box(space);
            registers
        }
        #[inline(never)]
        fn hook_that_calls() -> Registers {
            core::hint::black_box(called(crate::sys::caller!()))
        }
        #[inline(never)]
        fn hook_that_jumps() -> Registers {
            called(crate::sys::caller!())
        }
        #[inline(never)]
        fn called(caller: Caller) -> Registers {
            let space = core::hint::black_box([1u64; 8]);
            let registers = registers_of(caller, super::super::rule::of);
            core::hint::black_box(space);
            registers
        }
        let (stack, frame): (u64, u64);
        // SAFETY: reads two registers.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!("mov {}, rsp", "mov {}, rbp", out(reg) stack, out(reg) frame, options(nomem, nostack));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!("mov {}, sp", "mov {}, x29", out(reg) stack, out(reg) frame, options(nomem, nostack));
        }
        for registers in [hook::<1>(), hook::<100>(), hook_that_calls(), hook_that_jumps()] {
            assert_eq!(registers, Some((stack, frame)));
        }
    }

    #[test]
    fn a_threads_stack_ends_below_what_is_known_of_it() {
        let place = 0u64;
        let here = core::ptr::from_ref(&place) as u64;
        // SAFETY: no arguments, no failure.
        let first = unsafe { libc::getauxval(libc::AT_RANDOM) };
        assert!(end_of(here, first) > here, "a thread of the test runner's");
        assert_eq!(end_of(64, 0), 0);
    }
}
