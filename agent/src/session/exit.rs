//! What the agent prints, and what it does when the process ends normally.
//!
//! It prints at most one line in a process's life, to stderr: under bare `LD_PRELOAD`, where the trace is, at exit; and wherever
//! nothing is observed, why not, at once. (`gpuspy run` and `collect` print for themselves, unless they were killed.)
//! `GPUSPY_QUIET=1` turns it off. Records that are in the rings already need nothing of what happens here, unless the
//! collector ends with the process.

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::gpu::budget::Gate;
use crate::gpu::stream::Streams;
use crate::session::announcement::{Announcement, Moment};
use crate::sink::{self, Session};
use crate::sys;
use crate::thread;

/// What the session prints at exit. Valid when zero.
pub struct Shared {
    /// What the line at exit is about, or null. Release by the poller, acquire by the exit handler, which takes it.
    announcement: AtomicPtr<Announcement>,
    /// Whether there is or was such a line. Relaxed: the poller sets it, and asks.
    is_announced: AtomicBool,
    /// `GPUSPY_QUIET`, as it was when the session started. Relaxed: set before the session is published.
    quiet: AtomicBool,
}

impl Shared {
    /// Sets whether nothing is printed, at exit either.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// Returns whether nothing is printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Sets what the line at exit is about.
    pub fn announce(&self, announcement: Announcement) {
        self.is_announced.store(true, Ordering::Relaxed);
        let old = self.announcement.swap(Box::into_raw(Box::new(announcement)), Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: made by us, and ours alone since the swap.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Whether the line at exit says what has become of the trace, or has said it.
    fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// Prints where the trace is, once. At the exit it returns when the trace is written.
    pub fn say_line(&self, moment: Moment) {
        let announcement = self.announcement.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !announcement.is_null() {
            // SAFETY: made by `announce`, and ours alone since the swap.
            let announcement = unsafe { Box::from_raw(announcement) };
            let line = announcement.line(moment);
            if !self.is_quiet() {
                sys::say(&line);
            }
        }
    }
}

/// Prints that the app runs unobserved from here on since its collector was killed, if nobody else says so.
pub fn say_killed(session: Session) {
    let shared = session.get::<Shared>();
    if !shared.is_announced() && !shared.is_quiet() {
        sys::say("gpuspy: this process runs unobserved from here on: its collector was killed\n");
    }
}

/// Prints that the app runs unobserved, and why. Prints nothing when no reason is given (`GPUSPY=0`).
pub fn say_unobserved(why: &str, quiet: bool) {
    if !why.is_empty() && !quiet {
        sys::say(&format!("gpuspy: this process runs unobserved: {why}\n"));
    }
}

/// Returns the session at the process's end. If it has ended before, what is left to do is to say so.
fn session_at_exit() -> Option<Session> {
    let session = sink::existing();
    if session.is_none()
        && let Some(ended) = sink::ended()
    {
        ended.get::<Shared>().say_line(Moment::Exit);
    }
    session
}

/// The exit handler: drains the poller, then keeps the agent from calling the driver again.
pub extern "C" fn at_exit() {
    // The thread that called exit(3) may be cancelled: to be unwound through this function would abort the process.
    let _whole = sys::Uncancelled::new();
    let Some(session) = session_at_exit() else { return };
    session.poller.wait_until_introduced();
    // There may have been no collector to reach, which ends the session.
    let Some(session) = session_at_exit() else { return };
    thread::exiting();
    // What the program loaded since the poller last looked, and what it called then, has its names.
    session.poller.publish_last();
    session.poller.drain(|| session.get::<Streams>().iter().all(|s| s.oldest().is_none()));
    // The driver's own exit handlers run after ours, so from here on the agent does not call it. Calls that static
    // destructors still make are recorded without events. A thread that is recording an event pair now completes it.
    session.get::<Gate>().stop();
    session.poller.stop();
    session.poller.let_finish();
    // Release, with the collector's acquire: it finds in the rings what was recorded before.
    session.segment.header().live.0.exiting.store(1, Ordering::Release);
    session.get::<Shared>().say_line(Moment::Exit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::environment::Environment;
    use crate::session::place::Place;

    /// At an exit during which the poller saw that the collector had been killed, two lines were printed.
    #[test]
    fn nobody_else_says_what_has_become_of_a_trace_before_the_line_at_exit_or_after_it() {
        let shared = Shared {
            announcement: AtomicPtr::new(core::ptr::null_mut()),
            is_announced: AtomicBool::new(false),
            quiet: AtomicBool::new(true),
        };
        assert!(!shared.is_announced());
        let path = std::env::temp_dir().join(format!("gpuspy-agent-line-{}.gspy", std::process::id()));
        let environment = Environment::of(&[&format!("GPUSPY_OUTPUT={}", path.display())]);
        shared.announce(Announcement::new(Place::find(&environment).unwrap(), "gpuspy report".to_owned()));
        assert!(shared.is_announced());
        shared.say_line(Moment::Exit);
        assert!(shared.is_announced());
        std::fs::remove_file(path).unwrap();
    }
}
