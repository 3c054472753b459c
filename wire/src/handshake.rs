//! How does a collector get a process's segment? The agent sends one message over the collector's Unix stream
//! socket, with the segment's descriptor attached (SCM_RIGHTS). The connection stays open until the process
//! ends or calls exec: its end is the end of the session. The collector answers with lines of text, which an agent may
//! leave unread. An agent that has started its collector shuts down its sending side when the process exits, and waits
//! for the line that says that all of the trace is written.

use core::mem::size_of;

/// The first word of a [`Hello`]: "GPUSPYHI".
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUSPYHI");
/// The version of the message.
pub const VERSION: u32 = 1;

/// The collector's line when the trace has its first bytes.
pub const BEGUN: &str = "begun\n";
/// The start of the collector's line when something of the trace could not be written, or there will be none; a sentence
/// without its full stop, and a line end, follow.
pub const FAILED: &str = "failed: ";

/// The collector's line when all that an exiting process has recorded is in the trace.
pub const WRITTEN: &str = "written\n";

/// Whether the collector's lines say what has become of the whole trace of an exiting process.
pub fn is_settled(said: &[u8]) -> bool {
    let is_last = |line: &[u8]| {
        line == WRITTEN.as_bytes() || line.starts_with(FAILED.as_bytes()) && line.ends_with(b"\n")
    };
    said.split_inclusive(|byte| *byte == b'\n').any(is_last)
}

/// Returns the reason among the collector's lines why something is missing in the trace, if it has given one.
pub fn failure(said: &[u8]) -> Option<&[u8]> {
    said.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(FAILED.as_bytes()))
}

/// The message. The collector takes the sender's identity from the socket (SO_PEERCRED) rather than from
/// here: the pid below is in the sender's own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// The process id in the sender's namespace.
    pub pid: u32,
    /// As in the segment's header.
    pub start_time: u64,
    /// The number of bytes of the segment.
    pub segment_bytes: u64,
}

/// The number of bytes of a [`Hello`].
pub const BYTES: usize = size_of::<Hello>();
const _: () = assert!(BYTES == 32);

impl Hello {
    /// Creates the message for this process and segment.
    pub fn new(pid: u32, start_time: u64, segment_bytes: u64) -> Hello {
        Hello { magic: MAGIC, version: VERSION, pid, start_time, segment_bytes }
    }

    /// Returns the message as bytes.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        // SAFETY: repr(C), integers only, and no padding (asserted by the size).
        unsafe { core::mem::transmute(*self) }
    }

    /// Reads the message from bytes. Returns `None` if it is no message of this version.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Hello> {
        // SAFETY: integers only, so any bytes are a value.
        let hello: Hello = unsafe { core::mem::transmute(*bytes) };
        (hello.magic == MAGIC && hello.version == VERSION).then_some(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_settled_when_a_whole_line_says_so() {
        for unsettled in ["", BEGUN, "begun\nwritten", "begun\nfailed: No space", "unwritten\n"] {
            assert!(!is_settled(unsettled.as_bytes()), "{unsettled:?}");
        }
        for settled in [WRITTEN, "begun\nwritten\n", "failed: it is one too many\n"] {
            assert!(is_settled(settled.as_bytes()), "{settled:?}");
        }
    }
}
