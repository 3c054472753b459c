//! The records: what the agent says, byte by byte.
//!
//! A record is a whole number of 64-byte *cells* and begins with a [`Head`]. A reader takes a record's length from
//! `head.cells` and skips kinds it does not know; a kind may grow by appending cells, so a reader takes the prefix it
//! knows. Every field is an integer, so any bytes are a value of the type: what they mean is checked where they are used.

use core::mem::{align_of, offset_of, size_of};

/// Bytes in a cell, the unit of ring space.
pub const CELL_BYTES: usize = 64;
/// 64-bit words in a cell.
pub const CELL_WORDS: usize = CELL_BYTES / 8;
/// The longest record: `head.cells` is one byte.
pub const MAX_CELLS: usize = 255;
/// The most bytes of text that one [`Intern`] record carries; longer names are cut there (and say so by their length).
pub const MAX_TEXT: usize = MAX_CELLS * CELL_BYTES - size_of::<Intern>();
/// The version written into every head. A reader refuses nothing on account of it: it tells which fields are meant.
pub const RECORD_VERSION: u8 = 1;

/// A plain record: `repr(C)`, integers only, no padding, a whole number of cells (except [`Head`] and [`Intern`],
/// which are prefixes of one).
///
/// # Safety
/// Implementors have no padding and no invalid bit patterns, start with a [`Head`], and are aligned to 8.
pub unsafe trait Record: Copy {
    /// The value of `head.kind` for this type.
    const KIND: Kind;

    /// The record as words, to be copied into a ring.
    fn as_words(&self) -> &[u64] {
        // SAFETY: the trait promises no padding and alignment 8; the length is the type's own, in whole words.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>() / 8) }
    }

    /// Reads the record from the words of one, or `None` when the kind is another or the record is too short.
    fn from_words(words: &[u64]) -> Option<Self> {
        let head = Head::of(words)?;
        if head.kind != Self::KIND as u8 || size_of_val(words) < size_of::<Self>() {
            return None;
        }
        // SAFETY: long enough, aligned to 8, and the trait promises that any bytes are a value.
        Some(unsafe { words.as_ptr().cast::<Self>().read() })
    }
}

/// Declares an enum whose values travel as bytes, with the checked way back.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)* }
        impl $name {
            /// Every value, in wire order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The value that a byte stands for, or `None` for one this version does not know.
            pub const fn from_wire(byte: u8) -> Option<Self> {
                match byte { $($value => Some($name::$variant),)* _ => None }
            }
            /// The name users see, in JSON and in text.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

wire_enum! {
    /// What a record is.
    Kind {
        /// [`Launch`]
        Launch = 1 "launch",
        /// [`Memcpy`]
        Memcpy = 2 "memcpy",
        /// [`Memset`]
        Memset = 3 "memset",
        /// [`GraphLaunch`]
        GraphLaunch = 4 "graph_launch",
        /// [`Alloc`]
        Alloc = 5 "alloc",
        /// [`Free`]
        Free = 6 "free",
        /// [`Synchronize`]
        Synchronize = 7 "sync",
        /// [`EventOp`], `cuEventRecord`
        EventRecord = 8 "event_record",
        /// [`EventOp`] of another kind: `cuStreamWaitEvent`
        EventWait = 9 "event_wait",
        /// [`Api`]
        Api = 10 "api",
        /// [`GpuTime`]
        GpuTime = 11 "gpu_time",
        /// [`Intern`]
        Intern = 12 "intern",
        /// [`Anchor`]
        Anchor = 13 "anchor",
        /// [`Loss`]
        Loss = 14 "loss",
        /// [`Context`]
        Context = 15 "context",
        /// [`Stream`]
        Stream = 16 "stream",
        /// [`Graph`]
        Graph = 17 "graph",
        /// [`Module`]
        Module = 18 "module",
        /// [`Device`]
        Device = 19 "device",
    }
}

wire_enum! {
    /// How a call reached the record.
    Via {
        /// The app called the driver.
        Driver = 1 "driver",
        /// The app called the runtime; the driver call inside made the record.
        RuntimeDriver = 2 "runtime+driver",
        /// The app called the runtime and no driver call was seen inside: the runtime hook made the record.
        Runtime = 3 "runtime",
    }
}

wire_enum! {
    /// Why an operation has no GPU time. `Timed` when it has one, or will have.
    Untimed {
        /// An event pair was recorded; a [`GpuTime`] follows.
        Timed = 0 "timed",
        /// More than the depth limit of entries are queued on the stream.
        DeepQueue = 1 "deep_queue",
        /// Another thread's pair was open on the same stream.
        Contended = 2 "contended",
        /// The budget left no room.
        Budget = 3 "budget",
        /// No event was free.
        NoEvent = 4 "no_event",
        /// Enqueued into a stream capture: it will run when its graph is launched.
        Captured = 5 "captured",
        /// Timing is off (`--timing off`).
        Off = 6 "off",
        /// The driver layer was not seen, so there is no stream to record on.
        NotHooked = 7 "not_hooked",
        /// The driver refused one of our records.
        EventFailed = 8 "event_failed",
        /// Part of a chain that events must not cut (programmatic launches).
        Chain = 9 "chain",
        /// The context was being torn down.
        Teardown = 10 "teardown",
        /// Work that the host itself did, or that never enters a stream of its own.
        NoStream = 11 "no_stream",
    }
}

wire_enum! {
    /// What a copy call asked for. The collector resolves `Default` by what it knows of both addresses.
    Direction {
        /// Not said (`cudaMemcpyDefault`, `cuMemcpy`).
        Default = 0 "Default",
        /// Host to device.
        HtoD = 1 "HtoD",
        /// Device to host.
        DtoH = 2 "DtoH",
        /// Device to device.
        DtoD = 3 "DtoD",
        /// Host to host.
        HtoH = 4 "HtoH",
        /// From one device to another.
        PtoP = 5 "PtoP",
    }
}

wire_enum! {
    /// What kind of memory an allocation is.
    Memory {
        /// `cudaMalloc`, `cuMemAlloc`.
        Device = 1 "device",
        /// `cudaMallocManaged`.
        Managed = 2 "managed",
        /// From a stream-ordered pool (`cudaMallocAsync`).
        Pool = 3 "pool",
        /// Page-locked host memory (`cudaMallocHost`, `cudaHostAlloc`).
        Pinned = 4 "pinned",
        /// Host memory of the app's own, page-locked later (`cudaHostRegister`).
        Registered = 5 "registered",
        /// Mapped by the virtual memory API (`cuMemMap`).
        Mapped = 6 "mapped",
        /// Physical memory reserved but not mapped (`cuMemCreate`).
        Reserved = 7 "reserved",
        /// A CUDA array.
        Array = 8 "array",
        /// Imported from elsewhere (IPC, external memory).
        Imported = 9 "imported",
    }
}

wire_enum! {
    /// What a synchronise waits for.
    SyncScope {
        /// Everything on the current device.
        Device = 1 "device",
        /// Everything in the current context.
        Context = 2 "context",
        /// One stream.
        Stream = 3 "stream",
        /// One event.
        Event = 4 "event",
    }
}

wire_enum! {
    /// What an interned text names. Ids are per namespace.
    Namespace {
        /// A kernel; mangled as the app's binary has it.
        Kernel = 1 "kernel",
        /// An intercepted function: the id is the `api` field of records.
        Api = 2 "api",
        /// A mapped file, for [`Module`].
        Path = 3 "path",
        /// A fact about the process; the id is a [`Fact`].
        Fact = 4 "fact",
        /// A device's name, by ordinal.
        Device = 5 "device",
        /// A thread's name, by thread id.
        Thread = 6 "thread",
    }
}

wire_enum! {
    /// Facts about the process that travel as interned text.
    Fact {
        /// The command line, arguments separated by NUL.
        CommandLine = 1 "command_line",
        /// The executable's path.
        Executable = 2 "executable",
        /// The agent's version.
        AgentVersion = 3 "agent_version",
        /// The host's name.
        Host = 4 "host",
        /// The CUDA driver's version, decimal (12090).
        DriverVersion = 5 "driver_version",
        /// An oddity of interception that the report must open with.
        Interception = 6 "interception",
    }
}

wire_enum! {
    /// Why something was lost.
    LossCause {
        /// The thread's ring was full.
        RingFull = 1 "ring_full",
        /// More threads than slots.
        NoSlot = 2 "no_slot",
        /// The session was being set up by another thread.
        Starting = 3 "starting",
        /// Entered while our own code ran on the thread (a signal handler, say).
        Reentered = 4 "reentered",
        /// GPU times that were pending when their context or the process went away.
        GpuTimePending = 5 "gpu_time_pending",
        /// Bytes in a ring that are no record (written by the collector).
        Corrupt = 6 "corrupt",
        /// Outcome unknown: the call never returned (longjmp, thread exit).
        ScopeLost = 7 "scope_lost",
        /// A stream or context table was full.
        TableFull = 8 "table_full",
        /// A name did not fit the agent's tables.
        NameLost = 9 "name_lost",
    }
}

/// Bits of `head.flags`.
pub mod flag {
    /// Enqueued into a capture: not executed now.
    pub const CAPTURED: u16 = 1 << 0;
    /// Not the last record of its API call: `end` is its own driver call's, and the call is counted at the last.
    pub const MORE: u16 = 1 << 1;
    /// The API blocks the host by definition (`cudaMemcpy`, a synchronise).
    pub const BLOCKING: u16 = 1 << 2;
    /// The call failed; only [`Api`](super::Api) records carry it.
    pub const FAILED: u16 = 1 << 3;
    /// Another thread's operation may lie between our two events: the pair is an upper bound.
    pub const SHARED_INTERVAL: u16 = 1 << 4;
    /// The start event is also the previous operation's end event.
    pub const SHARED_START: u16 = 1 << 5;
    /// Times a burst of launches that events must not cut.
    pub const BURST: u16 = 1 << 6;
    /// The scope was discarded (longjmp over the hook); `end` is the last time known.
    pub const SCOPE_LOST: u16 = 1 << 7;
    /// On the legacy default stream.
    pub const LEGACY_STREAM: u16 = 1 << 8;
    /// On the calling thread's default stream.
    pub const PER_THREAD_STREAM: u16 = 1 << 9;
    /// The launch handle was a `CUkernel`, not a `CUfunction`.
    pub const KERNEL_HANDLE: u16 = 1 << 10;
}

/// The first eight bytes of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Head {
    /// A [`Kind`].
    pub kind: u8,
    /// The record's length in cells, this one included; never 0.
    pub cells: u8,
    /// [`RECORD_VERSION`] of the writer.
    pub version: u8,
    /// A [`Via`], or 0 where it has no meaning.
    pub via: u8,
    /// The outermost intercepted function: an interned id in [`Namespace::Api`]; 0 = none.
    pub api: u16,
    /// Bits of [`flag`].
    pub flags: u16,
}

impl Head {
    /// The head of a record given as words.
    pub fn of(words: &[u64]) -> Option<Head> {
        Some(Head::from_word(*words.first()?))
    }

    /// The head in a record's first word.
    pub const fn from_word(word: u64) -> Head {
        let b = word.to_ne_bytes();
        Head {
            kind: b[0],
            cells: b[1],
            version: b[2],
            via: b[3],
            api: u16::from_ne_bytes([b[4], b[5]]),
            flags: u16::from_ne_bytes([b[6], b[7]]),
        }
    }

    /// The head of a new record of type `T`.
    pub const fn new<T: Record>() -> Head {
        Head {
            kind: T::KIND as u8,
            cells: (size_of::<T>() / CELL_BYTES) as u8,
            version: RECORD_VERSION,
            via: 0,
            api: 0,
            flags: 0,
        }
    }
}

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
    /// The outermost API call returned (ticks); with [`flag::MORE`], the driver call.
    pub end: u64,
    /// The driver call that enqueues the work returned (ticks).
    pub submitted: u64,
    /// Ticks from the begin of the start event's record to `submitted`; `u32::MAX` = that or more; 0 when untimed.
    pub lead: u32,
    /// Ticks from `submitted` to the return of the end event's record; `u32::MAX` = that or more; 0 when untimed.
    pub tail: u32,
    /// Return address of the outermost API call: which library asked for the work.
    pub caller: u64,
    /// The context, as numbered by [`Context`] records; 0 = unknown.
    pub context: u32,
    /// An [`Untimed`].
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
    /// The kernel's name, in [`Namespace::Kernel`]; 0 = unknown.
    pub kernel: u32,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// The handle launched: a CUfunction, or a CUkernel with [`flag::KERNEL_HANDLE`].
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
    /// Rows of a 2D or 3D copy; 1 for a linear one.
    pub rows: u32,
    /// Context of the other device in a peer copy; 0 = none.
    pub peer_context: u32,
    /// A [`Direction`].
    pub direction: u8,
    /// Non-zero: the API is one of the asynchronous ones.
    pub asynchronous: u8,
    /// Zero.
    pub reserved: [u8; 22],
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
    pub reserved: [u8; 30],
}

/// A graph launch: one timed operation that knows its nodes by its [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GraphLaunch {
    /// The common part.
    pub work: Work,
    /// The executable graph, as numbered by [`Graph`] records; 0 = never seen instantiated.
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

/// Memory allocated. Written after the real call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Alloc {
    /// The head.
    pub head: Head,
    /// As in [`Work`].
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`].
    pub caller: u64,
    /// First address.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// As in [`Work`]; 0 for host memory without a context.
    pub context: u32,
    /// A [`Memory`].
    pub memory: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Stream of a stream-ordered allocation; 0 = none.
    pub stream: u64,
    /// Pool of a pool allocation; 0 = none.
    pub pool: u64,
    /// Zero.
    pub reserved2: [u64; 6],
}

/// Memory given back. Published **before** the real call, so that no later allocation of the same address can overtake
/// it; an [`Api`] record with the same correlation follows with the call's end and result, and one with
/// [`flag::FAILED`] takes the free back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Free {
    /// The head.
    pub head: Head,
    /// As in [`Work`].
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// As in [`Work`].
    pub caller: u64,
    /// First address.
    pub address: u64,
    /// As in [`Work`].
    pub context: u32,
    /// A [`Memory`] as far as the API tells: `Device` for `cuMemFree`, `Pool` for `cuMemFreeAsync`, `Pinned` for hosts.
    pub memory: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Stream of a stream-ordered free; 0 = none.
    pub stream: u64,
    /// Zero.
    pub reserved2: u64,
}

/// The host waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Synchronize {
    /// The head.
    pub head: Head,
    /// As in [`Work`].
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`].
    pub caller: u64,
    /// As in [`Work`].
    pub context: u32,
    /// A [`SyncScope`].
    pub scope: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The stream waited for, with scope `Stream`.
    pub stream: u64,
    /// The event waited for, with scope `Event`.
    pub event: u64,
}

/// The app recorded an event, or made a stream wait for one ([`Kind::EventRecord`], [`Kind::EventWait`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct EventOp {
    /// The head.
    pub head: Head,
    /// As in [`Work`].
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`].
    pub caller: u64,
    /// As in [`Work`].
    pub context: u32,
    /// The API's flags argument.
    pub event_flags: u32,
    /// The stream that records or waits.
    pub stream: u64,
    /// The CUevent handle.
    pub event: u64,
}

/// An intercepted call that is none of the others, or one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Api {
    /// The head.
    pub head: Head,
    /// As in [`Work`]; equal to a [`Free`]'s for the end of that call.
    pub correlation: u64,
    /// The API was entered (ticks).
    pub begin: u64,
    /// The API returned (ticks).
    pub end: u64,
    /// As in [`Work`].
    pub caller: u64,
    /// As in [`Work`].
    pub context: u32,
    /// What it returned (CUresult or cudaError_t).
    pub result: i32,
    /// The handle it was about, or 0.
    pub subject: u64,
    /// Zero.
    pub reserved: u64,
}

/// When an operation ran, on its context's GPU clock. Written by the poller only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GpuTime {
    /// The head.
    pub head: Head,
    /// Of the operation.
    pub correlation: u64,
    /// Of the operation.
    pub context: u32,
    /// The chain of anchors that `start` is measured on; positions of two chains of a context do not compare.
    pub chain: u32,
    /// Of the operation.
    pub stream: u64,
    /// The start event, ns since the chain's origin.
    pub start: i64,
    /// End event − start event, ns: raw, over-read included.
    pub duration: u64,
    /// `start` is exact to ± this, ns, against the chain's origin.
    pub start_error: u32,
    /// `duration` is exact to ± this, ns.
    pub duration_error: u32,
    /// Host ticks when the end event was first seen complete: it completed before this.
    pub seen: u64,
}

/// A text and its number; the text's bytes follow in the record's remaining space. Sent again until it fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Intern {
    /// The head; `cells` covers the text.
    pub head: Head,
    /// The number, unique in its namespace, never 0.
    pub id: u32,
    /// Bytes of text that follow this struct, at most [`MAX_TEXT`].
    pub length: u16,
    /// A [`Namespace`].
    pub namespace: u8,
    /// Non-zero: the text was cut at [`MAX_TEXT`].
    pub cut: u8,
}

/// One moment on the host's three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Anchor {
    /// The head.
    pub head: Head,
    /// Host ticks, read between the two bounds of `uncertainty`.
    pub ticks: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub monotonic_raw: u64,
    /// CLOCK_REALTIME, ns.
    pub realtime: u64,
    /// Ticks between the two reads around the clocks: the anchor is no better than this.
    pub uncertainty: u64,
    /// Zero.
    pub reserved: [u64; 3],
}

/// Something was lost, told in the stream where the loss ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Loss {
    /// The head.
    pub head: Head,
    /// When this was written (ticks).
    pub at: u64,
    /// How many records (or times) were lost since the last word of this cause on this thread.
    pub count: u64,
    /// A [`LossCause`].
    pub cause: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 4],
}

/// A context was created, adopted, or destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Context {
    /// The head.
    pub head: Head,
    /// When (ticks).
    pub at: u64,
    /// The CUcontext handle.
    pub handle: u64,
    /// Its number in all other records, never reused.
    pub context: u32,
    /// The device's ordinal.
    pub device: u32,
    /// 1 = created or adopted, 2 = destroyed or reset.
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 31],
}

/// A stream became known, or was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Stream {
    /// The head.
    pub head: Head,
    /// When (ticks).
    pub at: u64,
    /// Its id in all other records.
    pub stream: u64,
    /// The CUstream handle (0, 1, 2 for the default streams).
    pub handle: u64,
    /// Its context.
    pub context: u32,
    /// CUstream_flags, where known.
    pub flags: u32,
    /// Its priority, where known.
    pub priority: i32,
    /// 1 = known, 2 = destroyed.
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 19],
}

/// A graph was instantiated: what its launches will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Graph {
    /// The head.
    pub head: Head,
    /// When (ticks).
    pub at: u64,
    /// The CUgraphExec handle.
    pub handle: u64,
    /// Its number in [`GraphLaunch`], never reused.
    pub graph: u32,
    /// Kernel nodes, child graphs' included.
    pub kernels: u32,
    /// Copy nodes.
    pub copies: u32,
    /// Set nodes.
    pub memsets: u32,
    /// Nodes of other kinds.
    pub others: u32,
    /// Zero.
    pub reserved: [u32; 5],
}

/// An executable mapping of the process: resolves [`Work::caller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Module {
    /// The head.
    pub head: Head,
    /// When it was seen (ticks).
    pub at: u64,
    /// First address of the loaded object.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Address − offset in the file's own numbering (the load bias).
    pub bias: u64,
    /// Its path, in [`Namespace::Path`].
    pub path: u32,
    /// Zero.
    pub reserved: [u32; 5],
}

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Device {
    /// The head.
    pub head: Head,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The UUID's sixteen bytes.
    pub uuid: [u8; 16],
    /// Its ordinal in this process; its name is this id in [`Namespace::Device`], plus one.
    pub ordinal: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability: major * 10 + minor.
    pub capability: u32,
    /// Warps a multiprocessor holds at most.
    pub warps_per_multiprocessor: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

macro_rules! records {
    ($($name:ident = $kind:ident, $bytes:literal;)*) => { $(
        // SAFETY: repr(C), integers only, and the assertions below: size as written (so no padding could hide without
        // the field offsets moving), alignment 8.
        unsafe impl Record for $name { const KIND: Kind = Kind::$kind; }
        const _: () = assert!(size_of::<$name>() == $bytes && $bytes % CELL_BYTES == 0 && align_of::<$name>() == 8);
    )* };
}
records! {
    Launch = Launch, 128;
    Memcpy = Memcpy, 128;
    Memset = Memset, 128;
    GraphLaunch = GraphLaunch, 128;
    Alloc = Alloc, 128;
    Free = Free, 64;
    Synchronize = Synchronize, 64;
    EventOp = EventRecord, 64;
    Api = Api, 64;
    GpuTime = GpuTime, 64;
    Anchor = Anchor, 64;
    Loss = Loss, 64;
    Context = Context, 64;
    Stream = Stream, 64;
    Graph = Graph, 64;
    Module = Module, 64;
    Device = Device, 64;
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

impl Intern {
    /// Cells that an intern record with `length` bytes of text takes.
    pub const fn cells(length: usize) -> usize {
        (size_of::<Intern>() + length).div_ceil(CELL_BYTES)
    }

    /// The text's bytes in an intern record's words, bounded by the record itself.
    pub fn text(words: &[u64]) -> Option<(Intern, &[u8])> {
        let head = Head::of(words)?;
        if head.kind != Kind::Intern as u8 || words.len() < 2 {
            return None;
        }
        // SAFETY: two words are there, aligned to 8; any bytes are an Intern.
        let intern = unsafe { words.as_ptr().cast::<Intern>().read() };
        // SAFETY: the slice's own memory, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let text = bytes.get(size_of::<Intern>()..size_of::<Intern>() + intern.length as usize)?;
        Some((intern, text))
    }
}

const _: () = {
    assert!(size_of::<Head>() == 8);
    assert!(size_of::<Intern>() == 16 && align_of::<Intern>() == 4);
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
    assert!(offset_of!(Memcpy, direction) == 104);
    assert!(offset_of!(Memset, bytes) == 72);
    assert!(offset_of!(Memset, element) == 96);
    assert!(offset_of!(GraphLaunch, graph) == 72);
    assert!(offset_of!(GraphLaunch, handle) == 88);
    assert!(offset_of!(Alloc, address) == 40);
    assert!(offset_of!(Alloc, context) == 56);
    assert!(offset_of!(Alloc, stream) == 64);
    assert!(offset_of!(Free, address) == 32);
    assert!(offset_of!(Free, stream) == 48);
    assert!(offset_of!(Synchronize, context) == 40);
    assert!(offset_of!(Synchronize, stream) == 48);
    assert!(offset_of!(EventOp, event) == 56);
    assert!(offset_of!(Api, result) == 44);
    assert!(offset_of!(GpuTime, start) == 32);
    assert!(offset_of!(GpuTime, duration) == 40);
    assert!(offset_of!(GpuTime, seen) == 56);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_words() {
        let mut launch = Launch { kernel: 7, grid: [1, 2, 3], ..Launch::default() };
        launch.work.head = Head { api: 3, flags: flag::CAPTURED, ..Head::new::<Launch>() };
        launch.work.correlation = u64::MAX;
        assert_eq!(Launch::from_words(launch.as_words()), Some(launch));
        assert_eq!(Head::of(launch.as_words()).unwrap().cells, 2);
    }

    #[test]
    fn another_kind_or_a_short_record_is_none() {
        let launch =
            Launch { work: Work { head: Head::new::<Launch>(), ..Work::default() }, ..Launch::default() };
        assert!(Memcpy::from_words(launch.as_words()).is_none());
        assert!(Launch::from_words(&launch.as_words()[..8]).is_none());
        assert!(Launch::from_words(&[]).is_none());
        assert!(EventOp::of(&[u64::from(Kind::EventWait as u8)]).is_none());
    }

    #[test]
    fn intern_text_is_bounded_by_the_record() {
        let mut words = [0u64; 8];
        let head = Head { kind: Kind::Intern as u8, cells: 1, ..Head::default() };
        words[0] = u64::from_ne_bytes([head.kind, head.cells, 0, 0, 0, 0, 0, 0]);
        words[1] = u64::from(9u32) | (48 << 32);
        assert_eq!(Intern::text(&words).unwrap().1.len(), 48);
        words[1] = u64::from(9u32) | (49 << 32);
        assert!(Intern::text(&words).is_none(), "a length beyond the record must be refused");
    }

    #[test]
    fn every_enum_value_comes_back() {
        for k in Kind::ALL {
            assert_eq!(Kind::from_wire(*k as u8), Some(*k));
        }
        assert_eq!(Kind::from_wire(0), None);
        assert_eq!(Untimed::from_wire(200), None);
    }
}
