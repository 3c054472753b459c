//! What do other records refer to? Texts, contexts, streams, graphs, modules and devices; and losses.

use super::{CELL_BYTES, Head, Kind, Record};
use core::mem::{align_of, offset_of, size_of};

/// A text and its number; the text's bytes follow in the record's remaining space. Sent again until it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Intern {
    /// The head; `cells` includes the text.
    pub head: Head,
    /// The number, unique in its namespace, never 0.
    pub id: u32,
    /// The number of bytes of text that follow this struct, at most [`MAX_TEXT`](super::MAX_TEXT).
    pub length: u16,
    /// A [`Namespace`](super::Namespace).
    pub namespace: u8,
    /// Non-zero: the text was cut at [`MAX_TEXT`](super::MAX_TEXT).
    pub cut: u8,
}

impl Intern {
    /// The number of cells of an intern record with `length` bytes of text.
    pub const fn cells(length: usize) -> usize {
        (size_of::<Intern>() + length).div_ceil(CELL_BYTES)
    }

    /// Reads the record and its text from the words of a record; the text cannot exceed the record.
    pub fn text(words: &[u64]) -> Option<(Intern, &[u8])> {
        let head = Head::of(words)?;
        if head.kind != Kind::Intern as u8 || words.len() < 2 {
            return None;
        }
        // SAFETY: there are two words, aligned to 8; any bytes are an Intern.
        let intern = unsafe { words.as_ptr().cast::<Intern>().read() };
        // SAFETY: the slice's own memory, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
        let text = bytes.get(size_of::<Intern>()..size_of::<Intern>() + intern.length as usize)?;
        Some((intern, text))
    }
}

/// A loss, recorded in the thread's ring where the loss ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Loss {
    /// The head.
    pub head: Head,
    /// When this was written (ticks).
    pub at: u64,
    /// The number of records (or times) that were lost since this thread's last record with the same cause.
    pub count: u64,
    /// A [`LossCause`](super::LossCause).
    pub cause: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// Zero.
    pub reserved2: [u64; 4],
}

/// The creation, adoption or end of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Context {
    /// The head.
    pub head: Head,
    /// The time (ticks).
    pub at: u64,
    /// The CUcontext handle.
    pub handle: u64,
    /// Its number in all other records, which is never reused.
    pub context: u32,
    /// The device's ordinal.
    pub device: u32,
    /// 1 = created or adopted, 2 = destroyed or reset.
    pub change: u8,
    /// Zero.
    pub reserved: [u8; 31],
}

/// The first use or the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Stream {
    /// The head.
    pub head: Head,
    /// The time (ticks).
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

/// The instantiation of a graph: what its launches will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Graph {
    /// The head.
    pub head: Head,
    /// The time (ticks).
    pub at: u64,
    /// The CUgraphExec handle.
    pub handle: u64,
    /// Its number in [`GraphLaunch`](super::GraphLaunch), which is never reused.
    pub graph: u32,
    /// The number of kernel nodes, including those of child graphs.
    pub kernels: u32,
    /// The number of copy nodes.
    pub copies: u32,
    /// The number of memset nodes.
    pub memsets: u32,
    /// The number of nodes of other kinds.
    pub others: u32,
    /// Zero.
    pub reserved: [u32; 5],
}

/// An executable mapping of the process, to resolve [`Work::caller`](super::Work::caller).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Module {
    /// The head.
    pub head: Head,
    /// When it was observed (ticks).
    pub at: u64,
    /// The first address of the loaded object's code. (Before, of the object.)
    pub start: u64,
    /// The first address after its code. (Before, after the object.)
    pub end: u64,
    /// The load bias: address − offset in the file's own numbering.
    pub bias: u64,
    /// Its path, in [`Namespace::Path`](super::Namespace::Path).
    pub path: u32,
    /// The first bytes of its build id (`NT_GNU_BUILD_ID`), with zeros after it; all zero = it has none, or not known.
    pub build_id: [u8; 20],
}

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Device {
    /// The head.
    pub head: Head,
    /// The number of bytes of memory.
    pub memory_bytes: u64,
    /// The sixteen bytes of the UUID.
    pub uuid: [u8; 16],
    /// Its ordinal in this process; its name is this id plus one in
    /// [`Namespace::Device`](super::Namespace::Device).
    pub ordinal: u32,
    /// The number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability: major * 10 + minor.
    pub capability: u32,
    /// The largest number of warps on a multiprocessor.
    pub warps_per_multiprocessor: u32,
    /// Zero.
    pub reserved: [u64; 2],
}

/// The nodes of one kind in a graph. There is one record for each kernel, and one each for copies, memsets
/// and others, right after the [`Graph`]; and one for each node that allocates or frees memory.
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
    /// The number of nodes, including those of child graphs.
    pub count: u32,
    /// The number of bytes that the copies or memsets move in one launch altogether, or that the node
    /// allocates.
    pub bytes: u64,
    /// The first address of what the node allocates or frees; otherwise 0.
    pub address: u64,
    /// Zero.
    pub reserved2: [u64; 3],
}

/// What the driver says about a kernel that is launched with blocks of one size. Recorded when the first
/// launch with that size was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct KernelFacts {
    /// The head.
    pub head: Head,
    /// The handle that was launched.
    pub function: u64,
    /// The module or library that contains it; 0 = unknown.
    pub module: u64,
    /// An address inside the file that the kernel comes from: the host's stub of it, or the call that loaded
    /// its module; 0 = unknown. Resolved by [`Module`].
    pub origin: u64,
    /// Its name, in [`Namespace::Kernel`](super::Namespace::Kernel).
    pub kernel: u32,
    /// The context in which it was launched.
    pub context: u32,
    /// Threads of a block.
    pub threads: u32,
    /// The dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// The static shared memory of a block, bytes.
    pub static_shared_bytes: u32,
    /// The local memory of a thread, bytes: what did not fit into registers.
    pub local_bytes: u32,
    /// Registers of a thread.
    pub registers: u16,
    /// The number of blocks that a multiprocessor can run at a time; 0 = unknown.
    pub blocks_per_multiprocessor: u16,
    /// The number of threads of the largest block with which it can be launched.
    pub max_threads: u16,
    /// Zero.
    pub reserved: u16,
}

/// Lookups of a CUDA function that the agent does not know: it passes through, and its effect is not
/// observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Lookup {
    /// The head.
    pub head: Head,
    /// The number of lookups until now in the whole session.
    pub count: u64,
    /// Its name, in [`Namespace::Function`](super::Namespace::Function); 0 = all functions whose names found
    /// no place.
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
