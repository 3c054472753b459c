//! What does a format have to be able to write?

use super::Summary;
use crate::trace::record::Device;
use std::io;

/// A format in which a timeline is written.
pub trait Sink: Sized {
    /// A name of an event, ready to be written again and again.
    type Name: Clone;
    /// Arguments of an event, ready to be written again and again.
    type Args: Clone;
    /// What is left when all is written.
    type Out;

    /// Prepares a name.
    fn name(&mut self, text: &str) -> Self::Name;

    /// Prepares arguments that several events share.
    fn args(&mut self, args: &[Arg<'_>]) -> Self::Args;

    /// Writes what comes before everything else.
    ///
    /// # Errors
    /// Fails if writing does; so do the others.
    fn begin(&mut self, header: &Header<'_>) -> io::Result<()>;

    /// Names a group of rows. It comes before its rows.
    fn group(&mut self, group: &Group<'_>) -> io::Result<()>;

    /// Names a row. It comes before the row's events.
    fn row(&mut self, row: &NamedRow<'_>) -> io::Result<()>;

    /// Writes an event with a beginning and an end. On a row they come in no order; each lies inside any other or beside it.
    fn slice(&mut self, slice: &Slice<'_, Self>) -> io::Result<()>;

    /// Writes an event that has one moment.
    fn instant(&mut self, instant: &Instant<'_, Self>) -> io::Result<()>;

    /// Writes the value of a counter.
    fn counter(&mut self, counter: &Counter<'_>) -> io::Result<()>;

    /// Writes the end.
    fn finish(self, summary: &Summary) -> io::Result<Self::Out>;
}

/// What is known of a file before its rows.
#[derive(Debug)]
pub struct Header<'a> {
    /// The real-time clock at time 0 of the file, ns.
    pub base: i128,
    /// CLOCK_REALTIME at which the collection of its first process began, ns; 0 if that is unknown.
    pub began: u64,
    /// Its place in a job, if it has one.
    pub job: Option<JobOfFile>,
    /// All GPUs, whichever are selected.
    pub gpus: Vec<NamedGpu<'a>>,
}

/// The place of a file in a job.
#[derive(Clone, Copy, Debug)]
pub struct JobOfFile {
    /// The rank of all its processes.
    pub rank: u32,
    /// How many ranks there are, if the job says so.
    pub world_size: Option<u32>,
    /// Whether an NCCL kernel was launched.
    pub uses_nccl: bool,
}

/// A GPU of a process.
#[derive(Clone, Copy, Debug)]
pub struct NamedGpu<'a> {
    /// Its number in the file, and the pid of its rows.
    pub number: u32,
    /// Its number in the process; `None` for contexts with an unknown device.
    pub ordinal: Option<u32>,
    /// Its product name.
    pub name: Option<&'a str>,
    /// What the driver reports of it.
    pub device: Option<&'a Device>,
}

impl NamedGpu<'_> {
    /// What its rows are labelled with.
    pub fn label(&self) -> String {
        self.ordinal.map_or_else(|| "GPU ?".to_owned(), |ordinal| format!("GPU {ordinal}"))
    }
}

/// Rows that belong together.
#[derive(Clone, Copy, Debug)]
pub enum Group<'a> {
    /// The threads of a process, and the rows of its ranges.
    Process {
        /// The pid of its rows.
        pid: u32,
        /// The program's name.
        program: &'a str,
        /// Its rank.
        rank: Option<u32>,
        /// What it is in the system, if its rows have another pid.
        known_as: Option<&'a str>,
    },
    /// The streams of a process on a GPU.
    Gpu {
        /// The pid of the process.
        pid: u32,
        /// The program's name.
        program: &'a str,
        /// The rank of the process.
        rank: Option<u32>,
        /// The GPU. Its number is the pid of the rows.
        gpu: NamedGpu<'a>,
    },
}

/// A line on which events are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The process that it is shown under: one of the host, or a GPU.
    pub pid: u32,
    /// The thread that it is shown as.
    pub tid: u32,
}

/// A row and what is on it.
#[derive(Clone, Copy, Debug)]
pub struct NamedRow<'a> {
    /// The row.
    pub row: Row,
    /// Its name.
    pub name: &'a str,
    /// What is on it.
    pub kind: RowKind,
}

/// What is on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// The calls of a thread, and the ranges that it pushed.
    Thread,
    /// Started ranges of the process, or steps of the program that gpuspy found.
    Ranges,
    /// The operations of a stream.
    Stream,
    /// Ranges around operations of the stream on this row.
    Projections {
        /// The stream's row.
        stream: u32,
    },
}

/// An event with a beginning and an end.
pub struct Slice<'a, S: Sink> {
    /// What kind of event it is.
    pub category: Category,
    /// Its name.
    pub name: &'a S::Name,
    /// Where it is drawn.
    pub row: Row,
    /// Its beginning and end, ns since the file's base.
    pub span: (i64, i64),
    /// Its arguments.
    pub args: &'a [Arg<'a>],
    /// Further arguments, which it shares with other events.
    pub more: Option<&'a S::Args>,
    /// The arrow at its beginning.
    pub arrow: Option<Arrow>,
    /// An event with the same span that lies inside.
    pub inside: Option<&'a Slice<'a, S>>,
}

/// An event that has one moment.
pub struct Instant<'a, S: Sink> {
    /// What kind of event it is.
    pub category: Category,
    /// Its name.
    pub name: &'a S::Name,
    /// Where it is drawn.
    pub row: Row,
    /// Its moment, ns since the file's base.
    pub at: i64,
    /// Its arguments.
    pub args: &'a [Arg<'a>],
}

/// A counter's value from a moment on.
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    /// The counter's name.
    pub name: &'a str,
    /// The process whose it is.
    pub pid: u32,
    /// The moment, ns since the file's base.
    pub at: i64,
    /// The value.
    pub bytes: i64,
}

/// One end of the arrow that leads from a call to the operation that it launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// It begins here; its number.
    Call(u64),
    /// It ends here; its number.
    Operation(u64),
}

/// Lists constants and the texts that stand for them.
macro_rules! named {
    ($(#[$meta:meta])* $type:ident { $($name:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $type { $(#[doc = concat!("`", $text, "`")] $name,)+ }

        impl $type {
            /// All of them, in the order of their numbers.
            pub const ALL: &[$type] = &[$($type::$name,)+];

            /// The text that stands for it in a file.
            pub const fn name(self) -> &'static str {
                match self { $($type::$name => $text,)+ }
            }
        }
    };
}

named! {
    /// What kind of event it is, in Kineto's words.
    Category {
        Operator = "cpu_op",
        Python = "python_function",
        Driver = "cuda_driver",
        Runtime = "cuda_runtime",
        Sync = "cuda_sync",
        Kernel = "kernel",
        Copy = "gpu_memcpy",
        Set = "gpu_memset",
        Annotation = "user_annotation",
        GpuAnnotation = "gpu_user_annotation",
        Memory = "cpu_instant_event",
    }
}

named! {
    /// The name of an argument. Those that Kineto has are called as there.
    Key {
        Addr = "Addr",
        Block = "block",
        BlocksPerSm = "blocks per SM",
        Bytes = "bytes",
        Calls = "calls",
        Cbid = "cbid",
        Changed = "Bytes",
        Context = "context",
        Correlation = "correlation",
        Device = "device",
        DeviceId = "Device Id",
        DeviceType = "Device Type",
        Duration = "gpu duration ns",
        EstimatedOccupancy = "est. achieved occupancy %",
        EvIdx = "Ev Idx",
        External = "External id",
        File = "file",
        FoundBy = "found by gpuspy",
        Function = "function",
        Grid = "grid",
        InputDims = "Input Dims",
        InputIds = "Input op ids",
        Inside = "ns inside",
        Kernels = "kernels",
        Launches = "launches",
        Line = "line",
        PythonId = "Python id",
        Queued = "queued",
        Rate = "memory bandwidth (GB/s)",
        RecordFunction = "Record function id",
        Registers = "registers per thread",
        Result = "result",
        Sequence = "Sequence number",
        SharedMemory = "shared memory",
        Stack = "stack",
        Stream = "stream",
        SyncKind = "cuda_sync_kind",
        TheoreticalOccupancy = "theoretical occupancy %",
        TotalAllocated = "Total Allocated",
        TotalReserved = "Total Reserved",
        Until = "until",
        WarpsPerSm = "warps per SM",
    }
}

/// An argument of an event.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a>(pub Key, pub Value<'a>);

/// An argument's value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// A fraction of six decimals, so that formats that write it as a text and those that do not have the same.
    Fraction(f64),
    /// A list of three numbers.
    Three([u64; 3]),
    /// A text.
    Text(&'a str),
    /// A list of texts.
    Texts(&'a [String]),
    /// A list of lists of numbers.
    Lists(&'a [Vec<i64>]),
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Unsigned(number.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Unsigned(number)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Signed(number)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Fraction((number * 1e6).round() / 1e6)
    }
}

impl From<[u64; 3]> for Value<'_> {
    fn from(numbers: [u64; 3]) -> Self {
        Value::Three(numbers)
    }
}

impl From<[u32; 3]> for Value<'_> {
    fn from(numbers: [u32; 3]) -> Self {
        Value::Three(numbers.map(u64::from))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a> Arg<'a> {
    /// Returns an argument.
    pub fn of(key: Key, value: impl Into<Value<'a>>) -> Arg<'a> {
        Arg(key, value.into())
    }
}
