//! What does the line at exit say of the trace? What the collector has answered: that it has begun the trace, that it could
//! not write it or a part of it, or nothing, because it has ended.

use core::ffi::{CStr, c_int};
use gpuspy_wire::handshake::{BEGUN, failure};
use std::ffi::CString;

use crate::sink::segment::identity;
use crate::sys;

/// A trace that a collector of our own writes.
pub struct Announcement {
    /// The connection to the collector.
    socket: c_int,
    /// Its device and inode: the app may have put a file of its own at the descriptor's number.
    identity: Option<(u64, u64)>,
    trace: CString,
    /// Whether we have made the file, so that an empty one is ours to remove.
    is_reserved: bool,
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

/// The longest wait for a collector that has just been started, ns: a shorter-lived program waits for it at its end.
const PATIENCE_NS: u64 = 100_000_000;
const PAUSE_NS: u64 = 1_000_000;

impl Announcement {
    /// Describes a trace, when its collector has been started.
    pub fn new(socket: c_int, trace: CString, is_reserved: bool, command: String) -> Announcement {
        Announcement { socket, identity: identity(socket), trace, is_reserved, command }
    }

    /// Returns the line to print at exit.
    pub fn line(&self) -> String {
        let answer = self.answer();
        let is_empty = answer != Answer::Writes && is_empty(&self.trace);
        if is_empty && self.is_reserved {
            // SAFETY: a terminated path, of the file that we have made and that nothing was written to.
            unsafe { libc::unlink(self.trace.as_ptr()) };
        }
        let (trace, command) = (self.trace.to_string_lossy(), &self.command);
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

    fn answer(&self) -> Answer {
        let mut said = Vec::new();
        for _ in 0..PATIENCE_NS / PAUSE_NS {
            // The app may have closed the descriptor; then the trace ends there, and the collector has written it.
            if self.identity.is_none() || identity(self.socket) != self.identity {
                return Answer::Writes;
            }
            let mut part = [0u8; 512];
            // SAFETY: our own socket, and a buffer of that length.
            let count =
                unsafe { libc::recv(self.socket, part.as_mut_ptr().cast(), part.len(), libc::MSG_DONTWAIT) };
            match count {
                1.. => said.extend_from_slice(part.get(..count as usize).unwrap_or(&[])),
                0 => return understood(&said).unwrap_or(Answer::Gone),
                _ if said.is_empty() => sys::sleep_ns(PAUSE_NS),
                _ => break,
            }
        }
        understood(&said).unwrap_or(Answer::Writes)
    }
}

/// Returns the reason among the collector's lines, if it has given one.
fn understood(said: &[u8]) -> Option<Answer> {
    let why = String::from_utf8_lossy(failure(said)?).into_owned();
    Some(if said.starts_with(BEGUN.as_bytes()) { Answer::Failed(why) } else { Answer::Refused(why) })
}

/// Whether there is no such file, or nothing in it (which is so of a device).
fn is_empty(path: &CStr) -> bool {
    // SAFETY: all-zero is a stat.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: a terminated path; writes the struct we own.
    unsafe { libc::stat(path.as_ptr(), &mut stat) != 0 || stat.st_size == 0 }
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
