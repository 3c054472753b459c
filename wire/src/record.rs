//! What does one record say, byte by byte?
//!
//! A record is a whole number of 64-byte *cells* and starts with a [`Head`]. A reader takes a record's length
//! from `head.cells` and skips kinds that it does not know. A kind may grow by appending cells, so a reader
//! takes the prefix that it knows. Every field is an integer, so any bytes are a value of the type; the
//! meaning of a value is checked where it is used.

macro_rules! records {
    ($($name:ident = $kind:ident, $bytes:literal;)*) => { $(
        // SAFETY: repr(C), integers only, and the assertions below check that the size is as written (padding
        // would move the field offsets) and that the alignment is 8.
        unsafe impl Record for $name { const KIND: Kind = Kind::$kind; }
        const _: () = assert!(size_of::<$name>() == $bytes && $bytes % CELL_BYTES == 0 && align_of::<$name>() == 8);
    )* };
}

mod calls;
mod clock_records;
mod ranges;
mod stacks;
mod things;
mod work;

pub use calls::*;
pub use clock_records::*;
pub use ranges::*;
pub use stacks::*;
pub use things::*;
pub use work::*;

use core::mem::size_of;

/// The number of bytes in a cell, the unit of ring space.
pub const CELL_BYTES: usize = 64;
/// The number of 64-bit words in a cell.
pub const CELL_WORDS: usize = CELL_BYTES / 8;
/// The number of cells of the longest record: `head.cells` is one byte.
pub const MAX_CELLS: usize = 255;
/// The largest number of bytes of text in an [`Intern`] record; longer texts are cut there (and marked as
/// cut).
pub const MAX_TEXT: usize = MAX_CELLS * CELL_BYTES - size_of::<Intern>();
/// The version written into every head. A reader rejects nothing because of it: it says which fields are
/// meant.
pub const RECORD_VERSION: u8 = 1;

/// A plain record: `repr(C)`, integers only, no padding, and a whole number of cells (except [`Head`],
/// [`Intern`], [`NvtxRange`], [`CodePart`] and [`Stack`], which are prefixes of a record).
///
/// # Safety
/// Implementors have no padding and no invalid bit patterns, start with a [`Head`], and are aligned to 8.
pub unsafe trait Record: Copy {
    /// The value of `head.kind` for this type.
    const KIND: Kind;

    /// Returns the record as words, to be copied into a ring.
    fn as_words(&self) -> &[u64] {
        // SAFETY: the trait promises no padding and alignment 8; the length is the type's own, in whole
        // words.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>() / 8) }
    }

    /// Reads a record from its words. Returns `None` if the kind is another or the record is too short.
    fn from_words(words: &[u64]) -> Option<Self> {
        let head = Head::of(words)?;
        if head.kind != Self::KIND as u8 || size_of_val(words) < size_of::<Self>() {
            return None;
        }
        // SAFETY: long enough, aligned to 8, and the trait promises that any bytes are a value.
        Some(unsafe { words.as_ptr().cast::<Self>().read() })
    }
}

/// Declares an enum whose values travel as bytes, with the checked conversion back.
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
        /// [`Burst`]
        Burst = 20 "burst",
        /// [`GraphNode`]
        GraphNode = 21 "graph_node",
        /// [`ClockSample`]
        ClockSample = 22 "clock_sample",
        /// [`Window`]
        Window = 23 "window",
        /// [`NodeTime`]
        NodeTime = 24 "node_time",
        /// [`NvtxRange`]
        NvtxRange = 25 "range",
        /// [`KernelFacts`]
        KernelFacts = 26 "kernel_facts",
        /// [`Lookup`]
        Lookup = 27 "lookup",
        /// [`CaptureEdge`]
        CaptureEdge = 28 "capture",
        /// The processor time of a thread. It is in traces only: the collector makes it.
        ThreadTime = 29 "thread_time",
        /// [`Code`]
        Code = 30 "code",
        /// [`CodePart`]
        CodePart = 31 "code_part",
        /// [`Stack`]
        Stack = 32 "stack",
    }
}

wire_enum! {
    /// The layers that a call passed through to its record.
    Via {
        /// The app called the driver.
        Driver = 1 "driver",
        /// The app called the runtime; the driver call inside made the record.
        RuntimeDriver = 2 "runtime+driver",
        /// The app called the runtime and no driver call was observed inside: the runtime hook made the
        /// record.
        Runtime = 3 "runtime",
    }
}

wire_enum! {
    /// The reason why an operation has no GPU time. `Timed` if it has one, or will have one.
    Untimed {
        /// An event pair was recorded; a [`GpuTime`] follows.
        Timed = 0 "timed",
        /// More entries than the depth limit are queued on the stream.
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
        /// The driver call was not observed, so there is no stream to record on.
        NotHooked = 7 "not_hooked",
        /// The driver refused an event record.
        EventFailed = 8 "event_failed",
        /// Part of a sequence that events must not cut (programmatic launches).
        Programmatic = 9 "programmatic",
        /// The context was being torn down.
        Teardown = 10 "teardown",
        /// Work that the host itself did, or that never enters a stream of its own.
        NoStream = 11 "no_stream",
        /// Outside the requested part of the run (`--capture-range`).
        OutsideRange = 12 "outside_range",
        /// Launched on a deep stream and timed together with its neighbors: one [`Burst`] describes them all.
        Run = 13 "run",
    }
}

wire_enum! {
    /// The direction that a copy call requested. The collector resolves `Default` by what it knows of both
    /// addresses.
    Direction {
        /// Not given (`cudaMemcpyDefault`, `cuMemcpy`).
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
    /// The kind of memory of an allocation.
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
        /// Physical memory of a device (`cuMemCreate`), by handle; the mappings of it are [`Memory::Mapped`].
        Reserved = 7 "reserved",
        /// A CUDA array, mipmapped or not, by handle.
        Array = 8 "array",
        /// Imported from elsewhere (IPC, external memory).
        Imported = 9 "imported",
        /// Allocated by a graph while it runs (by its memory nodes, or `cudaMallocAsync` inside a capture).
        Graph = 10 "graph",
    }
}

wire_enum! {
    /// What a synchronization waits for.
    SyncScope {
        /// Everything on the current device.
        Device = 1 "device",
        /// Everything in the current context.
        Context = 2 "context",
        /// One stream.
        Stream = 3 "stream",
        /// One event.
        Event = 4 "event",
        /// Everything in a green context, which is current. Which streams of the primary context, the record's, these are is not kept.
        GreenContext = 5 "green_context",
    }
}

wire_enum! {
    /// What an interned text names. Ids are separate for each namespace.
    Namespace {
        /// A kernel; mangled as in the app's binary.
        Kernel = 1 "kernel",
        /// An intercepted function: the id is the `api` field of records.
        Api = 2 "api",
        /// A mapped file, for [`Module`].
        Path = 3 "path",
        /// A fact about the process; the id is a [`Fact`].
        Fact = 4 "fact",
        /// A device's name, by ordinal.
        Device = 5 "device",
        /// A thread's name, by the number of the thread in the trace (written by the collector).
        Thread = 6 "thread",
        /// An NVTX domain.
        Domain = 7 "domain",
        /// The text of an NVTX range or marker (numbered by the collector: the records contain their text).
        NvtxRange = 8 "range",
        /// A CUDA function that the agent does not know, for [`Lookup`].
        Function = 9 "function",
        /// A frame of the program's own language: its function, its file and its line, a line each (numbered and written
        /// by the collector).
        Frame = 10 "frame",
        /// A stack, for the field `stack` of calls: the numbers of its [`Frame`](Namespace::Frame)s, decimal, the
        /// innermost first, with spaces between them, and `…` at the end of one that was cut (written by the collector).
        Stack = 11 "stack",
        /// A native stack, for the field `stack` of calls: the number of the Python stack that the call has besides, decimal, and
        /// return addresses, hexadecimal, the innermost first, with spaces between them (written by the collector).
        NativeStack = 12 "native_stack",
        /// How often a kernel was launched before the window of time that the trace is about, decimal, by the kernel's number
        /// (written by the collector).
        Launched = 13 "launched",
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
        /// How operations are timed: `off`, `exact`, or `auto` and the budget in percent (`auto 5`).
        Timing = 7 "timing",
        /// Why the timing is not the requested one.
        TimingNote = 8 "timing_note",
        /// Variables from a short list, each as `NAME=value`, separated by NUL: the place in a job that a
        /// launcher gave the process, and CUDA's settings, as they were at the process's first CUDA call.
        Environment = 9 "environment",
        /// The parent's pid and the process's own, decimal, both in the process's namespace; 0 = in another
        /// namespace.
        Parent = 10 "parent",
        /// The part of the run that is recorded: the text of `--capture-range`, or the window of time that the trace is about
        /// (then written by the collector).
        CaptureRange = 11 "capture_range",
        /// What `gpuspy run` was called with, without the place of the trace: each word ends with NUL (written by the
        /// collector).
        Launch = 12 "launch",
        /// How many frames of a call are read: `auto`, `full` or `off`.
        Stacks = 13 "stacks",
        /// Why no frames are read, although there is an interpreter; or why the setting is not the requested one.
        StacksNote = 14 "stacks_note",
        /// Why the agent has stopped before its process.
        EndNote = 15 "end_note",
        /// How many windows of time of the same process came before the one that the trace is about, decimal (written by the
        /// collector).
        Window = 16 "window",
        /// Why a setting of the collector's is not the requested one (written by the collector).
        CollectorNote = 17 "collector_note",
    }
}

wire_enum! {
    /// The reason of a loss.
    LossCause {
        /// The thread's ring was full.
        RingFull = 1 "ring_full",
        /// There were more threads than slots.
        NoSlot = 2 "no_slot",
        /// Another thread was setting up the session.
        Starting = 3 "starting",
        /// The call was made while our own code ran on the thread (by a signal handler, for example).
        Reentered = 4 "reentered",
        /// GPU times that were pending when their context or the process ended.
        GpuTimePending = 5 "gpu_time_pending",
        /// Bytes in a ring that are no record (written by the collector).
        Corrupt = 6 "corrupt",
        /// The outcome is unknown: the call never returned (longjmp, thread exit).
        ScopeLost = 7 "scope_lost",
        /// A stream or context table was full.
        TableFull = 8 "table_full",
        /// A name did not fit the agent's tables.
        NameLost = 9 "name_lost",
    }
}

wire_enum! {
    /// What a node of a graph does.
    NodeKind {
        /// Runs a kernel.
        Kernel = 1 "kernel",
        /// Copies data.
        Copy = 2 "copy",
        /// Sets memory.
        Set = 3 "memset",
        /// Anything else.
        Other = 4 "other",
        /// Allocates memory.
        Alloc = 5 "alloc",
        /// Frees memory.
        Free = 6 "free",
    }
}

wire_enum! {
    /// How timing changes at a [`Window`]'s edge.
    WindowChange {
        /// From here on everything is timed.
        Opens = 1 "opens",
        /// From here on everything is only counted.
        Closes = 2 "closes",
    }
}

wire_enum! {
    /// What belongs to a code object.
    CodeText {
        /// The name of its file, as the interpreter has it.
        File = 1 "file",
        /// Its qualified name; the name where the interpreter has no qualified one (before 3.11).
        Name = 2 "name",
        /// The table from which a line is found.
        LineTable = 3 "line_table",
    }
}

wire_enum! {
    /// What happens to an NVTX range at a [`NvtxRange`] record.
    NvtxChange {
        /// A range starts on the thread, inside the one before it.
        Push = 1 "push",
        /// The thread's last range in the domain ends.
        Pop = 2 "pop",
        /// A range starts that any thread may end.
        Start = 3 "start",
        /// A started range ends.
        End = 4 "end",
        /// A marker.
        Mark = 5 "mark",
    }
}

/// Bits of `head.flags`.
pub mod flag {
    /// Enqueued into a capture: not executed now. For memory: it is allocated, or freed, when the graph runs.
    pub const CAPTURED: u16 = 1 << 0;
    /// Not the last record of its API call: `end` is its own driver call's, and the call is counted with the
    /// last one.
    pub const MORE: u16 = 1 << 1;
    /// The API blocks the host by definition (`cudaMemcpy`, a synchronization).
    pub const BLOCKING: u16 = 1 << 2;
    /// The call failed; only [`Api`](super::Api) records carry it.
    pub const FAILED: u16 = 1 << 3;
    /// Another thread's operation may be between our two events: the pair's time is an upper bound.
    pub const SHARED_INTERVAL: u16 = 1 << 4;
    /// The start event is also the previous operation's end event.
    pub const SHARED_START: u16 = 1 << 5;
    /// A launch that is part of a [`Burst`](super::Burst).
    pub const BURST: u16 = 1 << 6;
    /// The scope was discarded (longjmp over the hook); `end` is the last known time.
    pub const SCOPE_LOST: u16 = 1 << 7;
    /// On the legacy default stream.
    pub const LEGACY_STREAM: u16 = 1 << 8;
    /// On the calling thread's default stream.
    pub const PER_THREAD_STREAM: u16 = 1 << 9;
    /// The launch handle was a `CUkernel`, not a `CUfunction`.
    pub const KERNEL_HANDLE: u16 = 1 << 10;
    /// A [`Memcpy`](super::Memcpy) that moves managed memory to a requested place (`cuMemPrefetchAsync`):
    /// both addresses are that memory's, and the direction is its destination's. Pages that are there already
    /// do not move.
    pub const PREFETCH: u16 = 1 << 11;
    /// A [`Memcpy`](super::Memcpy) that is a batch of copies, which the stream orders as one operation: bytes
    /// are their sum, `rows` is their number, and addresses and direction are the first one's.
    pub const BATCH: u16 = 1 << 12;
    /// Timed alone among the launches of runs ([`Untimed::Run`](super::Untimed::Run)) and drawn at random: it
    /// represents its kernel's launches in them.
    pub const SAMPLED: u16 = 1 << 13;
    /// An [`Api`](super::Api) of queries in a row, of which the last one at most found that the work was done: a loop that waits.
    pub const UNTIL_DONE: u16 = 1 << 14;
}

/// The first eight bytes of every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Head {
    /// A [`Kind`].
    pub kind: u8,
    /// The record's length in cells, including this one; never 0.
    pub cells: u8,
    /// The [`RECORD_VERSION`] of the writer.
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

    /// Returns it as the first word of a record.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        let Head { kind, cells, version, via, api, flags } = self;
        u64::from_le_bytes([kind, cells, version, via, 0, 0, 0, 0])
            | (api as u64) << 32
            | (flags as u64) << 48
    }
}

const _: () = assert!(size_of::<Head>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_converted_to_words_and_back_is_unchanged() {
        let mut launch = Launch { kernel: 7, grid: [1, 2, 3], ..Launch::default() };
        launch.work.head = Head { api: 3, flags: flag::CAPTURED, ..Head::new::<Launch>() };
        launch.work.correlation = u64::MAX;
        assert_eq!(Launch::from_words(launch.as_words()), Some(launch));
        assert_eq!(Head::of(launch.as_words()).unwrap().cells, 2);
    }

    #[test]
    fn another_kind_or_a_short_record_is_rejected() {
        let launch =
            Launch { work: Work { head: Head::new::<Launch>(), ..Work::default() }, ..Launch::default() };
        assert!(Memcpy::from_words(launch.as_words()).is_none());
        assert!(Launch::from_words(&launch.as_words()[..8]).is_none());
        assert!(Launch::from_words(&[]).is_none());
        assert!(EventOp::of(&[u64::from(Kind::EventWait as u8)]).is_none());
    }

    #[test]
    fn an_interned_text_cannot_exceed_its_record() {
        let mut words = [0u64; 8];
        let head = Head { kind: Kind::Intern as u8, cells: 1, ..Head::default() };
        words[0] = u64::from_ne_bytes([head.kind, head.cells, 0, 0, 0, 0, 0, 0]);
        words[1] = u64::from(9u32) | (48 << 32);
        assert_eq!(Intern::text(&words).unwrap().1.len(), 48);
        words[1] = u64::from(9u32) | (49 << 32);
        assert!(Intern::text(&words).is_none(), "a length beyond the record must be refused");
    }

    #[test]
    fn every_enum_value_converts_to_a_byte_and_back() {
        for k in Kind::ALL {
            assert_eq!(Kind::from_wire(*k as u8), Some(*k));
        }
        assert_eq!(Kind::from_wire(0), None);
        assert_eq!(Untimed::from_wire(200), None);
    }
}
