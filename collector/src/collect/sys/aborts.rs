//! What becomes of a process that watches a command when abort(3) ends it? The standard library calls that where an allocation
//! fails, a stack is full, or a panic meets another one. [`watch_over`] has the process end as its command does all the same.

use super::{children, end_by};
use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// The command's pid. Relaxed: set before the handler is.
static COMMAND: AtomicU32 = AtomicU32::new(0);
/// How it ended, as wait(2) tells it, or [`RUNS`]. Relaxed: a number that stands alone.
static ENDED: AtomicI32 = AtomicI32::new(RUNS);
/// No status of wait(2).
const RUNS: c_int = -1;
/// What is printed then, or null. Release by [`last_words`], acquire by the handler.
static WORDS: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());

/// Has this process, if abort(3) ends it from here on, wait for the command with this pid, which is a child, and end as it does.
pub(crate) fn watch_over(pid: u32) {
    COMMAND.store(pid, Ordering::Relaxed);
    // SAFETY: a plain struct for which zeros are a value; the handler has the signature that SA_SIGINFO asks for, and makes only
    // calls that are async-signal-safe. SA_ONSTACK: the stack may be what has no room left.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = aborted as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGABRT, &raw const action, ptr::null_mut());
    }
}

/// Notes how the command has ended, before it is waited for.
pub(crate) fn watched_ended(status: ExitStatus) {
    ENDED.store(status.into_raw(), Ordering::Relaxed);
}

/// Sets the line that is printed if abort(3) ends this process.
pub(crate) fn last_words(line: String) {
    // The line before stays where it is: the handler may be printing it.
    WORDS.store(Box::into_raw(Box::new(line)), Ordering::Release);
}

/// The handler of SIGABRT. It returns only where there is no command to wait for: then abort(3) ends the process.
extern "C" fn aborted(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's struct, of a signal that a process has sent; getpid takes nothing.
    let is_own = unsafe { (*info).si_pid() == libc::getpid() };
    if !is_own {
        return end_by(libc::SIGABRT);
    }
    // SAFETY: null, or a string that `last_words` has made and nobody frees.
    if let Some(words) = unsafe { WORDS.load(Ordering::Acquire).as_ref() } {
        // SAFETY: the string's bytes. What stderr does not take is not said.
        unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
    }
    let known = || Some(ENDED.load(Ordering::Relaxed)).filter(|status| *status != RUNS);
    let waited = || children::wait_for_end(COMMAND.load(Ordering::Relaxed));
    // Another thread may have waited for it in between, and has noted it before.
    if let Some(status) = known().or_else(waited).or_else(known) {
        let code = end_as(ExitStatus::from_raw(status));
        // SAFETY: takes a number, and runs nothing that was registered for the exit.
        unsafe { libc::_exit(code) };
    }
}

/// Ends as a command did that has ended so: by the same signal, if one ended it. Where that is not possible, returns the exit code
/// that a shell has for it.
pub(crate) fn end_as(status: ExitStatus) -> c_int {
    if let Some(signal) = status.signal() {
        end_by(signal);
    }
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
