//! What does the line at exit say of the trace? What the collector has answered: that it has written the trace, that it could
//! not write it or a part of it, or nothing, because it has ended.

use core::ffi::{CStr, c_int};
use gpuspy_wire::TRACE_MAGIC;
use gpuspy_wire::handshake::{BEGUN, failure, is_settled};
use std::io::{Error, ErrorKind};

use crate::session::place::Place;
use crate::sink::descriptors::CONNECTION;
use crate::sys;

/// A trace that a collector of our own writes.
pub struct Announcement {
    trace: Place,
    /// The command that reads it.
    command: String,
}

/// What is known of the collector.
#[derive(Debug, PartialEq)]
enum Answer {
    /// It writes the trace, or will.
    Writes,
    /// It said why something is missing.
    Failed(String),
    /// It said why it has not begun.
    Refused(String),
    /// It has ended before us.
    Gone,
}

/// When the line is printed.
#[derive(Clone, Copy, PartialEq)]
pub enum Moment {
    /// While the program runs on.
    Early,
    /// At the process's end. What ends with it, as a container does, ends its collector too: so all of the trace is written
    /// before.
    Exit,
}

impl Moment {
    /// The longest wait for the collector's answer, ns. It may have been started just now.
    const fn patience(self) -> u64 {
        match self {
            Moment::Early => 100_000_000,
            Moment::Exit => 500_000_000,
        }
    }

    /// Whether the collector has said what is waited for.
    fn is_enough(self, said: &[u8]) -> bool {
        match self {
            Moment::Early => !said.is_empty(),
            Moment::Exit => is_settled(said),
        }
    }
}

impl Announcement {
    /// Describes a trace, when its collector has been started.
    pub fn new(trace: Place, command: String) -> Announcement {
        Announcement { trace, command }
    }

    /// Returns the line to print, when the collector has answered.
    pub fn line(&self, moment: Moment) -> String {
        let answer = answer(moment);
        let is_empty = answer != Answer::Writes && is_empty(&self.trace.path);
        if is_empty {
            self.trace.give_up();
        }
        let (trace, command) = (self.trace.path.to_string_lossy(), &self.command);
        match answer {
            Answer::Refused(why) => format!("gpuspy: no trace was written: {why}\n"),
            Answer::Failed(why) if is_empty => format!("gpuspy: no trace was written: {why}\n"),
            Answer::Gone if is_empty => {
                "gpuspy: no trace was written: its collector has ended early; `gpuspy doctor` says what is wrong\n"
                    .to_owned()
            }
            Answer::Failed(why) => {
                format!("gpuspy: the trace {trace} is incomplete: {why} · read it with: {command}\n")
            }
            Answer::Gone => format!(
                "gpuspy: the trace {trace} is cut off, because its collector has ended early · read it with: {command}\n"
            ),
            Answer::Writes => format!("gpuspy: the trace is {trace} · read it with: {command}\n"),
        }
    }
}

/// Whether a collector that is gone has not said why. All that it said is there, so that nothing is waited for.
pub fn was_killed() -> bool {
    answer(Moment::Exit) == Answer::Gone
}

/// Waits for the collector's answer.
fn answer(moment: Moment) -> Answer {
    if let Some(socket) = CONNECTION.number().filter(|_| moment == Moment::Exit) {
        // SAFETY: our own socket. The collector sees that nothing follows.
        unsafe { libc::shutdown(socket, libc::SHUT_WR) };
    }
    let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + moment.patience();
    let mut said: Vec<u8> = Vec::new();
    // The app may have closed the descriptor; then the trace ends there, and the collector has written it.
    while let Some(socket) = CONNECTION.number().filter(|_| !moment.is_enough(&said)) {
        let mut part = [0u8; 512];
        // SAFETY: our own socket, and a buffer of that length.
        let count = unsafe { libc::recv(socket, part.as_mut_ptr().cast(), part.len(), libc::MSG_DONTWAIT) };
        match count {
            1.. => said.extend_from_slice(part.get(..count as usize).unwrap_or(&[])),
            0 => return understood(&said).unwrap_or(Answer::Gone),
            _ => match Error::last_os_error().kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted if waits_for_more(socket, until) => {}
                // It has ended without a look at what was sent to it.
                ErrorKind::ConnectionReset => return understood(&said).unwrap_or(Answer::Gone),
                _ => break,
            },
        }
    }
    understood(&said).unwrap_or(Answer::Writes)
}

/// Waits until there is more to receive, or until then (CLOCK_MONOTONIC, ns). Returns false when it is too late.
fn waits_for_more(socket: c_int, until: u64) -> bool {
    let left = until.saturating_sub(sys::clock_ns(libc::CLOCK_MONOTONIC));
    if left == 0 {
        return false;
    }
    let mut polled = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct of ours.
    let result = unsafe { libc::poll(&mut polled, 1, left.div_ceil(1_000_000) as c_int) };
    if result < 0 {
        sys::sleep_ns(1_000_000); // a signal has ended the wait, or the system refuses the call
    }
    true
}

/// Returns the reason among the collector's lines, if it has given one.
fn understood(said: &[u8]) -> Option<Answer> {
    let why = String::from_utf8_lossy(failure(said)?).into_owned();
    Some(if said.starts_with(BEGUN.as_bytes()) { Answer::Failed(why) } else { Answer::Refused(why) })
}

/// Whether there is no such file, or nothing in it but our mark (which is so of a device).
fn is_empty(path: &CStr) -> bool {
    // SAFETY: all-zero is a stat.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a terminated path; writes the struct we own.
    unsafe { libc::stat(path.as_ptr(), &mut stat) != 0 || stat.st_size <= TRACE_MAGIC.len() as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collectors_reason_is_found_among_its_lines() {
        let failed = |why: &str| Some(Answer::Failed(why.to_owned()));
        let refused = |why: &str| Some(Answer::Refused(why.to_owned()));
        assert_eq!(understood(b""), None);
        assert_eq!(understood(BEGUN.as_bytes()), None);
        assert_eq!(
            understood(b"begun\nfailed: No space left on device\n"),
            failed("No space left on device")
        );
        assert_eq!(understood(b"failed: it is one too many\n"), refused("it is one too many"));
        assert_eq!(understood(b"\xff\nfailed: \xff"), refused("\u{fffd}"), "whatever it says");
    }
}
