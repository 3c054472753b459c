//! Calls that are no work: memory, waiting, all others.

use super::{CELL_BYTES, CELL_WORDS, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// Memory allocated. Written after the real call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Alloc {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// First address; the handle of what has no address (`Reserved`, `Array`).
    pub address: u64,
    /// Bytes asked for; of rows with a pitch, the bytes that they take. With `Reserved`, 0: one more reference to memory
    /// that was reserved before.
    pub bytes: u64,
    /// As in [`Work`](super::Work); 0 for host memory without a context.
    pub context: u32,
    /// A [`Memory`](super::Memory).
    pub memory: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Stream of a stream-ordered allocation; 0 = none.
    pub stream: u64,
    /// Where it comes from: the pool that the call named, the handle that is mapped (`Mapped`); 0 = none.
    pub pool: u64,
    /// Zero.
    pub reserved2: [u64; 6],
}

/// Memory given back. Published **before** the real call, so that no later allocation of the same address can overtake
/// it; an [`Api`] record with the same correlation follows with the call's end and result, and one with
/// [`flag::FAILED`](super::flag::FAILED) takes the free back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Free {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// First address, or handle, as [`Alloc`] has it.
    pub address: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// A [`Memory`](super::Memory) as far as the API tells: `Device` for `cuMemFree`, `Pool` for `cuMemFreeAsync`, `Pinned` for hosts.
    pub memory: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Stream of a stream-ordered free; 0 = none.
    pub stream: u64,
    /// Bytes, where all blocks of a range go (`cuMemUnmap`); 0: the block at `address`.
    pub bytes: u64,
}

/// The host waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Synchronize {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// A [`SyncScope`](super::SyncScope).
    pub scope: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The stream waited for, with scope `Stream`.
    pub stream: u64,
    /// The event waited for, with scope `Event`.
    pub event: u64,
}

/// The app recorded an event, or made a stream wait for one ([`Kind::EventRecord`](super::Kind::EventRecord), [`Kind::EventWait`](super::Kind::EventWait)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct EventOp {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// The API's flags argument.
    pub event_flags: u32,
    /// The stream that records or waits.
    pub stream: u64,
    /// The CUevent handle.
    pub event: u64,
}

/// An intercepted call that is none of the others, or one that failed; or several questions in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Api {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work); equal to a [`Free`]'s for the end of that call.
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// What it returned (CUresult or cudaError_t).
    pub result: i32,
    /// The handle it was about, or 0.
    pub subject: u64,
    /// Further calls that it stands for: a thread's questions in a row (`cuEventQuery` and its like) are one record, from
    /// the first one's entry to the last one's return, with the last one's result. 0 in all other records.
    pub more: u32,
    /// With `more`: ticks inside those calls, all of them together. Else as `entered` in [`Memcpy`](super::Memcpy).
    pub inside: u32,
}

impl EventOp {
    /// Reads either kind of event operation.
    pub fn of(words: &[u64]) -> Option<EventOp> {
        let head = Head::of(words)?;
        if head.kind == Kind::EventWait as u8 {
            let mut copy: [u64; CELL_WORDS] = words.get(..CELL_WORDS)?.try_into().ok()?;
            copy[0] = (copy[0] & !0xff) | Kind::EventRecord as u64;
            return EventOp::from_words(&copy).map(|op| EventOp { head, ..op });
        }
        EventOp::from_words(words)
    }
}

records! {
    Alloc = Alloc, 128;
    Free = Free, 64;
    Synchronize = Synchronize, 64;
    EventOp = EventRecord, 64;
    Api = Api, 64;
}

const _: () = {
    assert!(offset_of!(Alloc, address) == 40);
    assert!(offset_of!(Alloc, context) == 56);
    assert!(offset_of!(Alloc, stream) == 64);
    assert!(offset_of!(Free, address) == 32);
    assert!(offset_of!(Free, stream) == 48);
    assert!(offset_of!(Free, bytes) == 56);
    assert!(offset_of!(Synchronize, context) == 40);
    assert!(offset_of!(Synchronize, stream) == 48);
    assert!(offset_of!(EventOp, event) == 56);
    assert!(offset_of!(Api, result) == 44 && offset_of!(Api, more) == 56);
};
