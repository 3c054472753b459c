//! What belongs to a thread: its context stack, its capture mode. Constant-initialised and never dropped, so that calls
//! from destructors of other thread-locals still work.

use crate::error::{INVALID_CONTEXT, INVALID_VALUE, Outcome};
use crate::handle::Handle;
use std::cell::{Cell, RefCell};

/// Contexts that a thread's stack holds at most.
const DEPTH: usize = 64;

struct Stack {
    contexts: [Handle; DEPTH],
    depth: usize,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { contexts: [0; DEPTH], depth: 0 }) };
    static TID: Cell<u32> = const { Cell::new(0) };
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The Linux thread id.
pub fn tid() -> u32 {
    let known = TID.get();
    if known != 0 {
        return known;
    }
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    TID.set(tid);
    tid
}

/// The current context's handle; 0 = none.
pub fn current() -> Handle {
    STACK.with_borrow(|stack| if stack.depth == 0 { 0 } else { stack.contexts[stack.depth - 1] })
}

/// `cuCtxPushCurrent`.
pub fn push(context: Handle) -> Outcome {
    STACK.with_borrow_mut(|stack| {
        *stack.contexts.get_mut(stack.depth).ok_or(INVALID_VALUE)? = context;
        stack.depth += 1;
        Ok(())
    })
}

/// `cuCtxPopCurrent`: the context that was current.
pub fn pop() -> Outcome<Handle> {
    STACK.with_borrow_mut(|stack| {
        stack.depth = stack.depth.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(stack.contexts[stack.depth])
    })
}

/// `cuCtxSetCurrent`: replaces the top of the stack; NULL pops it (cuda.h).
pub fn set_current(context: Handle) -> Outcome {
    if current() != 0 || STACK.with_borrow(|stack| stack.depth > 0) {
        pop()?;
    }
    if context == 0 { Ok(()) } else { push(context) }
}

/// The thread's stream capture interaction mode (`CUstreamCaptureMode`).
pub fn capture_mode() -> u32 {
    CAPTURE_MODE.get()
}

/// Replaces the capture mode and returns the former.
pub fn exchange_capture_mode(mode: u32) -> u32 {
    CAPTURE_MODE.replace(mode)
}

/// Whether the thread runs a host function of the application.
pub fn in_callback() -> bool {
    IN_CALLBACK.get()
}

/// Runs `function` as a host function.
pub fn as_callback(function: impl FnOnce()) {
    IN_CALLBACK.set(true);
    function();
    IN_CALLBACK.set(false);
}
