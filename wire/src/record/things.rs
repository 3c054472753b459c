//! Things that records speak of: texts, contexts, streams, graphs, modules, devices; and what was lost.

use super::{CELL_BYTES, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// A text and its number; the text's bytes follow in the record's remaining space. Sent again until it fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Intern {
    /// The head; `cells` covers the text.
    pub head: Head,
    /// The number, unique in its namespace, never 0.
    pub id: u32,
    /// Bytes of text that follow this struct, at most [`MAX_TEXT`](super::MAX_TEXT).
    pub length: u16,
    /// A [`Namespace`](super::Namespace).
    pub namespace: u8,
    /// Non-zero: the text was cut at [`MAX_TEXT`](super::MAX_TEXT).
    pub cut: u8,
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
    /// A [`LossCause`](super::LossCause).
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
    /// Its number in [`GraphLaunch`](super::GraphLaunch), never reused.
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

/// An executable mapping of the process: resolves [`Work::caller`](super::Work::caller).
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
    /// Its path, in [`Namespace::Path`](super::Namespace::Path).
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
    /// Its ordinal in this process; its name is this id in [`Namespace::Device`](super::Namespace::Device), plus one.
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

/// What a graph holds of one kind: told once for each kernel, and for copies, sets and others, right after its [`Graph`]; and
/// once for each node that takes or gives memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GraphNode {
    /// The head.
    pub head: Head,
    /// The graph, as numbered by [`Graph`].
    pub graph: u32,
    /// A [`NodeKind`](super::NodeKind).
    pub kind: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// A kernel's name, in [`Namespace::Kernel`](super::Namespace::Kernel); 0 = unknown, or no kernel.
    pub kernel: u32,
    /// Nodes, child graphs' included.
    pub count: u32,
    /// Bytes that copies or sets move in one launch, all together, or that the node takes.
    pub bytes: u64,
    /// First address of what the node takes or gives back; else 0.
    pub address: u64,
    /// Zero.
    pub reserved2: [u64; 3],
}

/// What the driver says of a kernel, launched with blocks of one size: told when the first launch of that size was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct KernelFacts {
    /// The head.
    pub head: Head,
    /// The handle that was launched.
    pub function: u64,
    /// The module or library that it lies in; 0 = unknown.
    pub module: u64,
    /// An address inside the file that brought the kernel: the host's stub of it, or the call that loaded its module;
    /// 0 = unknown. Resolved by [`Module`].
    pub origin: u64,
    /// Its name, in [`Namespace::Kernel`](super::Namespace::Kernel).
    pub kernel: u32,
    /// The context that it was launched in.
    pub context: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Static shared memory of a block, bytes.
    pub static_shared_bytes: u32,
    /// Local memory of a thread, bytes: what did not fit into registers.
    pub local_bytes: u32,
    /// Registers of a thread.
    pub registers: u16,
    /// Blocks that a multiprocessor holds at a time; 0 = unknown.
    pub blocks_per_multiprocessor: u16,
    /// Threads of the largest block it can be launched with.
    pub max_threads: u16,
    /// Zero.
    pub reserved: u16,
}

/// A CUDA function that the agent does not know was looked up: it passes through, unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Lookup {
    /// The head.
    pub head: Head,
    /// Lookups until now, of the whole session.
    pub count: u64,
    /// Its name, in [`Namespace::Function`](super::Namespace::Function); 0 = of all functions whose names were too many.
    pub function: u32,
    /// Zero.
    pub reserved: u32,
    /// Zero.
    pub reserved2: [u64; 5],
}

records! {
    Loss = Loss, 64;
    Context = Context, 64;
    Stream = Stream, 64;
    Graph = Graph, 64;
    GraphNode = GraphNode, 64;
    Module = Module, 64;
    Device = Device, 64;
    KernelFacts = KernelFacts, 64;
    Lookup = Lookup, 64;
}

const _: () = {
    assert!(size_of::<Intern>() == 16 && align_of::<Intern>() == 4);
    assert!(offset_of!(GraphNode, bytes) == 24 && offset_of!(GraphNode, address) == 32);
    assert!(offset_of!(KernelFacts, kernel) == 32 && offset_of!(KernelFacts, registers) == 56);
};
