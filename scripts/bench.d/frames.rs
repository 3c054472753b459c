//! How long does it take to read the frames of a thread of CPython? The agent's own files for that, compiled by themselves into a library
//! that scripts/bench-frames loads into interpreters.

#![allow(dead_code, reason = "the agent uses the rest of its files")]

extern crate self as gpuspy_wire;

/// What the agent's files use of others.
pub mod record {
    pub const MAX_FRAMES: usize = 126;
}

mod memory {
    /// Reads a value where it lies.
    ///
    /// # Safety
    /// It can be read.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(address: u64) -> T {
        // SAFETY: as the caller promises.
        unsafe { (address as *const T).read_unaligned() }
    }
}

#[path = "../../agent/src/numbers.rs"]
mod numbers;

#[path = "../../agent/src/python/frames.rs"]
mod frames;
#[path = "../../agent/src/python/layout.rs"]
mod layout;

mod interpreter {
    pub struct Interpreter {
        pub version: u16,
        pub layout: crate::layout::Layout,
    }
}

/// Where the agent's files look for each other.
mod python {
    pub(crate) use crate::{interpreter, layout};
}

use frames::{Frames, Hashed};
use interpreter::Interpreter;
use layout::{C_STACK, DEBUG_WORDS, Instruction, Layout, PYTHON_3_9, PYTHON_3_10, PYTHON_3_11};
use memory::read;
use std::hint::black_box;

/// Returns the interpreter of this version (`major << 8 | minor`), or null where its frames are not read.
///
/// # Safety
/// `debug` is null, or points to what `_PyRuntime` begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interpreter_of(version: u16, debug: *const [u64; DEBUG_WORDS]) -> *mut Interpreter {
    // SAFETY: as the caller promises.
    match Layout::of(version, unsafe { debug.as_ref() }) {
        Ok(layout) => Box::into_raw(Box::new(Interpreter { version, layout })),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Hashes the frames of the calling thread so many times, each after the other.
///
/// # Safety
/// `interpreter` is one that [`interpreter_of`] has returned, and `thread` the calling thread's state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hash(interpreter: *const Interpreter, thread: u64, times: u64) -> u64 {
    // SAFETY: as the caller promises.
    let interpreter = unsafe { &*interpreter };
    repeat(thread, times, |thread| hash_once(interpreter, thread))
}

/// A function of its own, as it is one in the agent.
#[inline(never)]
fn hash_once(interpreter: &Interpreter, thread: u64) -> u64 {
    // SAFETY: as `hash` is promised.
    let Hashed { hash, count } = frames::hash(unsafe { Frames::of(interpreter, thread) }, |_, _| false);
    hash ^ count as u64
}

/// Only reads of each frame where the next one is, its code object, its instruction and its owner, and adds them up: what
/// a way to tell stacks apart takes at least.
///
/// # Safety
/// As for [`hash`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read_only(interpreter: *const Interpreter, thread: u64, times: u64) -> u64 {
    // SAFETY: as the caller promises.
    let interpreter = unsafe { &*interpreter };
    repeat(thread, times, |thread| read_once(interpreter, thread))
}

#[inline(never)]
fn read_once(interpreter: &Interpreter, thread: u64) -> u64 {
    // SAFETY: as `read_only` is promised.
    unsafe {
        match interpreter.version {
            0x0309 => read_each(&PYTHON_3_9, thread),
            0x030a => read_each(&PYTHON_3_10, thread),
            0x030b => read_each(&PYTHON_3_11, thread),
            _ => read_each(&interpreter.layout, thread),
        }
    }
}

#[inline(always)]
unsafe fn read_each(layout: &Layout, thread: u64) -> u64 {
    let at = &layout.frame;
    // SAFETY: as the caller promises.
    unsafe {
        let mut frame: u64 = read(thread + u64::from(layout.thread.frame));
        if let Some(in_cframe) = layout.thread.in_cframe {
            frame = read(frame + u64::from(in_cframe));
        }
        let mut sum = 0u64;
        while frame != 0 {
            let next = read(frame + u64::from(at.previous));
            if !at.owner.is_some_and(|owner| read::<u8>(frame + u64::from(owner)) >= C_STACK) {
                let code: u64 = read(frame + u64::from(at.code));
                let instruction = match at.instruction {
                    Instruction::Index { at, .. } => u64::from(read::<u32>(frame + u64::from(at))),
                    Instruction::Pointer { at, .. } => read(frame + u64::from(at)),
                };
                sum = (sum ^ code).wrapping_add(instruction);
            }
            frame = next;
        }
        sum
    }
}

/// Calls `once` so many times, each with a thread that depends on the outcome of the call before.
fn repeat(thread: u64, times: u64, once: impl Fn(u64) -> u64) -> u64 {
    (0..times).fold(0, |before, _| once(thread + (black_box(before) & black_box(0))))
}
