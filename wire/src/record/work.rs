//! Work for a GPU.

use super::{CELL_BYTES, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// What every operation on a GPU stream has in common: the first 72 bytes of [`Launch`], [`Memcpy`],
/// [`Memset`] and [`GraphLaunch`].
///
/// On the host's clock: `begin` ≤ (start event recorded) ≤ `submitted` ≤ (end event recorded) ≤ `end`, with
/// `lead` = begin of the start event's record → `submitted`, and `tail` = `submitted` → the end event's record returned.
/// A raw event pair contains at most `lead + tail` more than the operation's stream occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Work {
    /// The head.
    pub head: Head,
    /// Unique in the process: the thread's claim number << 40 | a count.
    pub correlation: u64,
    /// The outermost API call was entered (ticks).
    pub begin: u64,
    /// The outermost API call returned (ticks); with [`flag::MORE`](super::flag::MORE), the driver call.
    pub end: u64,
    /// The driver call that enqueues the work returned (ticks).
    pub submitted: u64,
    /// Ticks from the begin of the start event's record to `submitted`; `u32::MAX` = that or more; 0 when untimed.
    pub lead: u32,
    /// Ticks from `submitted` to the return of the end event's record; `u32::MAX` = that or more; 0 when untimed.
    pub tail: u32,
    /// Return address of the outermost API call: which library asked for the work.
    pub caller: u64,
    /// The context, as numbered by [`Context`](super::Context) records; 0 = unknown.
    pub context: u32,
    /// An [`Untimed`](super::Untimed).
    pub untimed: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The stream's id: `cuStreamGetId` where the driver has it, else a number of the agent's own with the top bit set.
    pub stream: u64,
}

/// A kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Launch {
    /// The common part.
    pub work: Work,
    /// The kernel's name, in [`Namespace::Kernel`](super::Namespace::Kernel); 0 = unknown.
    pub kernel: u32,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// The handle launched: a CUfunction, or a CUkernel with [`flag::KERNEL_HANDLE`](super::flag::KERNEL_HANDLE).
    pub function: u64,
    /// Bits `1 << CUlaunchAttributeID` of the attributes given (ids below 32).
    pub attributes: u32,
    /// Blocks of a cluster in x, y, z; 0 = no cluster.
    pub cluster: [u8; 3],
    /// Zero.
    pub reserved: u8,
    /// Zero.
    pub reserved2: u64,
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Memcpy {
    /// The common part.
    pub work: Work,
    /// Bytes moved.
    pub bytes: u64,
    /// Destination address.
    pub dst: u64,
    /// Source address.
    pub src: u64,
    /// Rows of a 2D or 3D copy, copies of a [`BATCH`](super::flag::BATCH); 1 for a linear one.
    pub rows: u32,
    /// Context of the other device in a peer copy; 0 = none.
    pub peer_context: u32,
    /// A [`Direction`](super::Direction).
    pub direction: u8,
    /// Non-zero: the API is one of the asynchronous ones.
    pub asynchronous: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// Ticks from `begin` until CUDA's own function was called, which may have waited from there on; `u32::MAX` = that or
    /// more; 0 = unknown.
    pub entered: u32,
    /// Zero.
    pub reserved2: [u64; 2],
}

/// A memory set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Memset {
    /// The common part.
    pub work: Work,
    /// Bytes written.
    pub bytes: u64,
    /// First address.
    pub dst: u64,
    /// The value repeated.
    pub value: u32,
    /// Rows of a 2D set; 1 for a linear one.
    pub rows: u32,
    /// Bytes of one element: 1, 2 or 4.
    pub element: u8,
    /// Non-zero: the API is one of the asynchronous ones.
    pub asynchronous: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// As in [`Memcpy`].
    pub entered: u32,
    /// Zero.
    pub reserved2: [u64; 3],
}

/// A graph launch: one timed operation that knows its nodes by its [`Graph`](super::Graph).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GraphLaunch {
    /// The common part.
    pub work: Work,
    /// The executable graph, as numbered by [`Graph`](super::Graph) records; 0 = never seen instantiated.
    pub graph: u32,
    /// Kernels in it; 0 when unknown.
    pub kernels: u32,
    /// Copies in it.
    pub copies: u32,
    /// Sets in it.
    pub memsets: u32,
    /// The CUgraphExec handle.
    pub handle: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Launches on one stream that are timed as one: a *burst*, which no event may cut (programmatic launches, and the one before
/// them), or a *run* of launches on a deep stream. They carry [`flag::BURST`](super::flag::BURST) and
/// [`Untimed::Programmatic`](super::Untimed::Programmatic) or [`Untimed::Run`](super::Untimed::Run), and stand before it on its stream.
/// `submitted` and `lead` are the first launch's; `tail` reaches from there to the end event's record, and so does `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Burst {
    /// The common part.
    pub work: Work,
    /// Launches in it.
    pub launches: u32,
    /// Those of them that may overlap what is ahead of them, or signal in their middle; 0: it is a run.
    pub programmatic: u32,
    /// When the driver call of the last one returned (ticks).
    pub last: u64,
    /// Zero.
    pub reserved: [u64; 5],
}

records! {
    Launch = Launch, 128;
    Memcpy = Memcpy, 128;
    Memset = Memset, 128;
    GraphLaunch = GraphLaunch, 128;
    Burst = Burst, 128;
}

const _: () = {
    assert!(size_of::<Work>() == 72);
    assert!(offset_of!(Work, correlation) == 8);
    assert!(offset_of!(Work, begin) == 16);
    assert!(offset_of!(Work, end) == 24);
    assert!(offset_of!(Work, submitted) == 32);
    assert!(offset_of!(Work, lead) == 40);
    assert!(offset_of!(Work, tail) == 44);
    assert!(offset_of!(Work, caller) == 48);
    assert!(offset_of!(Work, context) == 56);
    assert!(offset_of!(Work, untimed) == 60);
    assert!(offset_of!(Work, stream) == 64);
    assert!(offset_of!(Launch, kernel) == 72);
    assert!(offset_of!(Launch, grid) == 80);
    assert!(offset_of!(Launch, block) == 92);
    assert!(offset_of!(Launch, function) == 104);
    assert!(offset_of!(Launch, attributes) == 112);
    assert!(offset_of!(Launch, cluster) == 116);
    assert!(offset_of!(Memcpy, bytes) == 72);
    assert!(offset_of!(Memcpy, direction) == 104 && offset_of!(Memcpy, entered) == 108);
    assert!(offset_of!(Memset, bytes) == 72);
    assert!(offset_of!(Memset, element) == 96 && offset_of!(Memset, entered) == 100);
    assert!(offset_of!(GraphLaunch, graph) == 72);
    assert!(offset_of!(GraphLaunch, handle) == 88);
    assert!(offset_of!(Burst, launches) == 72);
    assert!(offset_of!(Burst, last) == 80);
};
