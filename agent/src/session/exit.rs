//! What the agent says, and what it does at the process's normal end.
//!
//! It prints at most one line in a process's life, to stderr, and only under bare `LD_PRELOAD` (under `gpuspy run` or
//! `collect`, those speak): either where the trace is, at exit, or why nothing is observed, at once. `GPUSPY_QUIET=1`
//! silences it. Nothing here is needed for what the rings already hold.

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::interpose::unknown;
use crate::session;
use crate::sys;
use crate::thread;

/// The session's last words. Valid when zero.
pub struct Shared {
    /// The line to print at exit, or null. Release by the poller, acquire by the handler that takes it.
    line: AtomicPtr<String>,
    /// `GPUSPY_QUIET`, as it was at the session's beginning. Relaxed: set before the session is published.
    quiet: AtomicBool,
}

impl Shared {
    /// Says nothing, at the end either.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Whether nothing is to be said.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Sets the line to print at exit.
    pub fn set_line(&self, line: String) {
        let old = self.line.swap(Box::into_raw(Box::new(line)), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: made by us, and ours alone since the swap.
            drop(unsafe { Box::from_raw(old) });
        }
    }
}

/// Says, once, that the app runs unobserved, and why. Nothing when there is no reason to give (`GPUSPY=0`).
pub fn say_unobserved(why: &str, quiet: bool) {
    if !why.is_empty() && !quiet {
        sys::say(&format!("gpuspy: this process runs unobserved: {why}\n"));
    }
}

/// Registers our exit handler.
pub fn register() {
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Registers it once more, now that there is a context: exit handlers run last-in-first-out, and the driver's own, behind
/// which it answers nothing, was registered when it was initialised.
pub fn register_drain() {
    static DONE: AtomicBool = AtomicBool::new(false); // relaxed: once is enough, twice does no harm
    if !DONE.swap(true, Ordering::Relaxed) {
        register();
    }
}

extern "C" fn at_exit() {
    let Some(session) = session::existing() else { return };
    session.poller.wait_until_introduced();
    // There may have been nobody to be introduced to.
    let Some(session) = session::existing() else { return };
    thread::exiting();
    unknown::publish_last(session);
    session.poller.drain(|| session.streams.iter().all(|s| s.oldest().is_none()));
    // The driver's own exit handlers run after ours: from here on nothing of ours calls it. What static destructors still
    // do is recorded without events. A thread that is just making a pair completes it.
    session.timing.stop();
    session.poller.stop();
    session.poller.let_finish();
    // Relaxed: read by the collector after the process's end.
    session.segment.header().live.0.exiting.store(1, Ordering::Relaxed);
    let line = session.exit.line.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !line.is_null() {
        // SAFETY: made by `set_line`, and ours alone since the swap.
        let line = unsafe { Box::from_raw(line) };
        if !session.exit.is_quiet() {
            sys::say(&line);
        }
    }
}
