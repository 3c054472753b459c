//! Which calls are recorded that put no work on a GPU? Memory, waits, and all others.

use super::{CELL_BYTES, CELL_WORDS, Head, Kind, Record, StackNumber};
use core::mem::{align_of, offset_of, size_of};

/// An allocation. Written after the real call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Alloc {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// When the API was entered (ticks).
    pub begin: u64,
    /// When the API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// The first address; the handle where there is no address (`Reserved`, `Array`).
    pub address: u64,
    /// The number of bytes requested; for rows with a pitch, the bytes that they take. 0 with `Reserved`:
    /// another reference to memory that was reserved before.
    pub bytes: u64,
    /// As in [`Work`](super::Work); 0 for host memory without a context.
    pub context: u32,
    /// A [`Memory`](super::Memory).
    pub memory: u8,
    /// As in [`Work`](super::Work).
    pub stack: StackNumber,
    /// The stream of a stream-ordered allocation; 0 = none.
    pub stream: u64,
    /// The source of the memory: the pool that the call named, or the handle that is mapped (`Mapped`); 0 =
    /// none.
    pub pool: u64,
    /// Zero.
    pub reserved2: [u64; 6],
}

/// A free. Published **before** the real call, so that no later allocation of the same address can overtake
/// it. An [`Api`] record with the same correlation follows with the call's end and result; if it has
/// [`flag::FAILED`](super::flag::FAILED), the free did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Free {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// When the API was entered (ticks).
    pub begin: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// The first address or the handle, as in [`Alloc`].
    pub address: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// A [`Memory`](super::Memory), as far as the API determines it: `Device` for `cuMemFree`, `Pool` for
    /// `cuMemFreeAsync`, `Pinned` for host memory.
    pub memory: u8,
    /// As in [`Work`](super::Work).
    pub stack: StackNumber,
    /// The stream of a stream-ordered free; 0 = none.
    pub stream: u64,
    /// The number of bytes if all blocks in a range are freed (`cuMemUnmap`); 0: only the block at `address`.
    pub bytes: u64,
}

/// A wait of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Synchronize {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// When the API was entered (ticks).
    pub begin: u64,
    /// When the API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// A [`SyncScope`](super::SyncScope).
    pub scope: u8,
    /// As in [`Work`](super::Work).
    pub stack: StackNumber,
    /// The stream waited for, with scope `Stream`.
    pub stream: u64,
    /// The event waited for, with scope `Event`.
    pub event: u64,
}

/// An event record by the app, or a stream's wait for an event
/// ([`super::Kind::EventRecord`], [`super::Kind::EventWait`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct EventOp {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work).
    pub correlation: u64,
    /// When the API was entered (ticks).
    pub begin: u64,
    /// When the API returned (ticks).
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

/// Any other intercepted call, or a failed one; or several consecutive queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Api {
    /// The head.
    pub head: Head,
    /// As in [`Work`](super::Work); equal to a [`Free`]'s for the end of that call.
    pub correlation: u64,
    /// When the API was entered (ticks).
    pub begin: u64,
    /// When the API returned (ticks).
    pub end: u64,
    /// As in [`Work`](super::Work).
    pub caller: u64,
    /// As in [`Work`](super::Work).
    pub context: u32,
    /// The call's result (CUresult or cudaError_t).
    pub result: i32,
    /// The handle that the call is about, or 0. Of an allocation that failed, the bytes that it asked for; 0 = unknown.
    pub subject: u64,
    /// The number of further calls in this record: a thread's consecutive queries (`cuEventQuery` and
    /// similar) become one record, from the first one's entry to the last one's return, with the last one's
    /// result. 0 in all other records.
    pub more: u32,
    /// With `more`: ticks inside all those calls together. Otherwise as `entered` in
    /// [`Memcpy`](super::Memcpy).
    pub inside: u32,
}

/// An [`Api`] with the stack that made the call: the kind with its second cell, which is left out where no stack is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ApiOnStack {
    /// The first cell; its head is of two cells.
    pub api: Api,
    /// Zero.
    pub reserved: [u8; 5],
    /// As in [`Work`](super::Work).
    pub stack: StackNumber,
    /// Zero.
    pub reserved2: [u64; 7],
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
    ApiOnStack = Api, 128;
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
