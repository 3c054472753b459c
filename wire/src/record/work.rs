//! Which calls are recorded that put work on a GPU?

use super::{CELL_BYTES, CELL_WORDS, Head, Kind, Record, StackNumber};
use core::mem::{align_of, offset_of, size_of};

/// The common part of every operation on a GPU stream: the first 72 bytes of [`Launch`], [`Memcpy`],
/// [`Memset`] and [`GraphLaunch`].
///
/// On the host's clock: `begin` ≤ (start event recorded) ≤ `submitted` ≤ (end event recorded) ≤ `end`. `lead`
/// reaches from the start of the start event's record to `submitted`, and `tail` from `submitted` to the
/// return of the end event's record. The time of a raw event pair exceeds the operation's GPU interval by at
/// most `lead + tail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Work {
    /// The head.
    pub head: Head,
    /// Unique in the process: the thread's claim number << 40 | a count.
    pub correlation: u64,
    /// When the outermost API call was entered (ticks).
    pub begin: u64,
    /// When the outermost API call returned (ticks); with [`flag::MORE`](super::flag::MORE), when the driver
    /// call returned.
    pub end: u64,
    /// When the driver call that enqueues the work returned (ticks).
    pub submitted: u64,
    /// Ticks from the start of the start event's record to `submitted`; `u32::MAX` = that or more; 0 when
    /// untimed.
    pub lead: u32,
    /// Ticks from `submitted` to the return of the end event's record; `u32::MAX` = that or more; 0 when untimed.
    pub tail: u32,
    /// The return address of the outermost API call, which shows the library that requested the work.
    pub caller: u64,
    /// The context, as numbered by [`Context`](super::Context) records; 0 = unknown.
    pub context: u32,
    /// An [`Untimed`](super::Untimed).
    pub untimed: u8,
    /// The [`Stack`](super::Stack) that made the call.
    pub stack: StackNumber,
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
    /// Bits `1 << CUlaunchAttributeID` of the given attributes (ids below 32).
    pub attributes: u32,
    /// Blocks of a cluster in x, y, z; 0 = no cluster.
    pub cluster: [u8; 3],
    /// Zero.
    pub reserved: u8,
    /// Zero.
    pub reserved2: u64,
}

impl Launch {
    /// Returns the record's words as cells for a ring. A compiler keeps them in registers, which it does not for the bytes of a
    /// struct.
    #[inline(always)]
    pub fn to_cells(self) -> [[u64; CELL_WORDS]; 2] {
        let Launch { work, kernel, shared_bytes, grid, block, function, attributes, cluster, .. } = self;
        let [grid_x, grid_y, grid_z] = grid;
        let [block_x, block_y, block_z] = block;
        let [cluster_x, cluster_y, cluster_z] = cluster.map(u64::from);
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let place = two(work.context, 0) | u64::from(work.untimed) << 32 | u64::from(work.stack.get()) << 40;
        let shape = two(attributes, 0) | cluster_x << 32 | cluster_y << 40 | cluster_z << 48;
        [
            [
                work.head.to_word(),
                work.correlation,
                work.begin,
                work.end,
                work.submitted,
                two(work.lead, work.tail),
                work.caller,
                place,
            ],
            [
                work.stream,
                two(kernel, shared_bytes),
                two(grid_x, grid_y),
                two(grid_z, block_x),
                two(block_y, block_z),
                function,
                shape,
                0,
            ],
        ]
    }
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Memcpy {
    /// The common part.
    pub work: Work,
    /// The number of bytes moved.
    pub bytes: u64,
    /// Destination address.
    pub dst: u64,
    /// Source address.
    pub src: u64,
    /// Rows of a 2D or 3D copy, or copies of a [`BATCH`](super::flag::BATCH); 1 for a linear copy.
    pub rows: u32,
    /// The context of the other device in a peer copy; 0 = none.
    pub peer_context: u32,
    /// A [`Direction`](super::Direction).
    pub direction: u8,
    /// Non-zero: the API is one of the asynchronous ones.
    pub asynchronous: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// Ticks from `begin` to the call of CUDA's own function, which may have waited from then on; `u32::MAX`
    /// = that or more; 0 = unknown.
    pub entered: u32,
    /// Zero.
    pub reserved2: [u64; 2],
}

/// A memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Memset {
    /// The common part.
    pub work: Work,
    /// The number of bytes written.
    pub bytes: u64,
    /// First address.
    pub dst: u64,
    /// The repeated value.
    pub value: u32,
    /// Rows of a 2D memset; 1 for a linear one.
    pub rows: u32,
    /// The size of one element in bytes: 1, 2 or 4.
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

/// A graph launch: one timed operation. Its nodes are described by its [`Graph`](super::Graph).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct GraphLaunch {
    /// The common part.
    pub work: Work,
    /// The executable graph, as numbered by [`Graph`](super::Graph) records; 0 = its instantiation was not
    /// observed.
    pub graph: u32,
    /// The number of its kernels; 0 when unknown.
    pub kernels: u32,
    /// The number of its copies.
    pub copies: u32,
    /// The number of its memsets.
    pub memsets: u32,
    /// The CUgraphExec handle.
    pub handle: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Launches on one stream that are timed as one: a *burst*, which no event may cut (programmatic launches,
/// and the one before them), or a *run* of launches on a deep stream. Their records have
/// [`flag::BURST`](super::flag::BURST) and [`Untimed::Programmatic`](super::Untimed::Programmatic) or
/// [`Untimed::Run`](super::Untimed::Run), and come before this one on its stream. `submitted` and `lead` are
/// the first launch's; `tail` reaches from there to the end event's record, and so does `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Burst {
    /// The common part.
    pub work: Work,
    /// The number of launches.
    pub launches: u32,
    /// The number of those that may overlap the launch ahead of them, or signal in their middle; 0: it is a
    /// run.
    pub programmatic: u32,
    /// When the driver call of the last launch returned (ticks).
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

#[cfg(test)]
mod tests {
    use super::{Head, Launch, Record, StackNumber, Work};

    #[test]
    fn a_launchs_cells_are_its_words() {
        let launch = Launch {
            work: Work {
                head: Head { via: 3, api: 0x1234, flags: 0x5678, ..Head::new::<Launch>() },
                correlation: u64::MAX - 1,
                begin: 2,
                end: 3,
                submitted: 4,
                lead: 5,
                tail: 6,
                caller: 7,
                context: 8,
                untimed: 9,
                stack: StackNumber::new(0x12_3456),
                stream: 10,
            },
            kernel: 11,
            shared_bytes: 12,
            grid: [13, 14, 15],
            block: [16, 17, u32::MAX],
            function: 18,
            attributes: 19,
            cluster: [20, 21, 255],
            reserved: 0,
            reserved2: 0,
        };
        assert_eq!(launch.to_cells().as_flattened(), launch.as_words());
    }
}
