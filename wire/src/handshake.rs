//! The one message of a session: sent by the agent over the collector's Unix stream socket, with the segment's
//! descriptor attached (SCM_RIGHTS). The connection stays open until the process ends or execs: its end is the end of
//! the session. Nothing is ever sent back.

use core::mem::size_of;

/// First word of a [`Hello`]: "GPUSPYHI".
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUSPYHI");
/// Version of the message.
pub const VERSION: u32 = 1;

/// The message. Its sender's identity is taken from the socket (SO_PEERCRED), not from here: the pid below is in the
/// sender's own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Process id in the sender's namespace.
    pub pid: u32,
    /// As in the segment's header.
    pub start_time: u64,
    /// Bytes of the segment.
    pub segment_bytes: u64,
}

/// Bytes of a [`Hello`].
pub const BYTES: usize = size_of::<Hello>();
const _: () = assert!(BYTES == 32);

impl Hello {
    /// A message about this process and segment.
    pub fn new(pid: u32, start_time: u64, segment_bytes: u64) -> Hello {
        Hello { magic: MAGIC, version: VERSION, pid, start_time, segment_bytes }
    }

    /// As bytes.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        // SAFETY: repr(C), integers only, no padding (asserted by size).
        unsafe { core::mem::transmute(*self) }
    }

    /// From bytes; `None` when it is no message of this version.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Option<Hello> {
        // SAFETY: integers only: any bytes are a value.
        let hello: Hello = unsafe { core::mem::transmute(*bytes) };
        (hello.magic == MAGIC && hello.version == VERSION).then_some(hello)
    }
}
