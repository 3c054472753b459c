//! Where is everything in shared memory? A process has one segment: a shared memory object of fixed size and
//! sparse (pages exist once they are touched).
//!
//! ```text
//! 0            Header         which process, which clock, where everything is
//! slots_at     Slot × n       a thread's state, cursors and counters
//! rings_at     region × n     a slot's buffers, level after level
//! ```
//!
//! A reader takes every offset from the header, after [`Layout::check`] has checked it against the object's
//! real size. So the same code can read the segment of a dead process, or of another version.

use crate::in_progress::InProgress;
use crate::record::{CELL_BYTES, CELL_WORDS, LossCause};
use crate::ring::{Cursors, LEVELS, Line, State};
use core::mem::{offset_of, size_of};
use core::sync::atomic::AtomicU64;

/// The first word of a segment: "GPUSPYSG".
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUSPYSG");
/// The version of the layout below.
pub const VERSION: u32 = 4;
/// Has another value when read on a machine of the other endianness.
pub const ENDIANNESS: u32 = 0x0102_0304;
/// The number of slots of a segment: threads that call CUDA at the same time, and the poller.
pub const SLOTS: usize = 512;
/// The slot that the agent's poller thread owns.
pub const POLLER_SLOT: usize = 0;
/// The number of cells of each level's buffer: 64 KiB, 512 KiB, 4 MiB.
pub const LEVEL_CELLS: [usize; LEVELS] = [1 << 10, 1 << 13, 1 << 16];
/// The same where memory is scarce: 64 KiB, 128 KiB, 256 KiB.
pub const SMALL_LEVEL_CELLS: [usize; LEVELS] = [1 << 10, 1 << 11, 1 << 12];
/// The number of bytes that the header takes in the segment.
pub const HEADER_BYTES: usize = 4096;
/// The number of loss counters of a slot, indexed by [`LossCause`].
pub const LOSS_COUNTERS: usize = 16;

/// The clock that the host's ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HostClock {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    MonotonicRaw = 1,
    /// The invariant time stamp counter (x86-64), or CNTVCT (aarch64).
    Counter = 2,
}

/// The segment's first page. Plain fields are written before the segment is handed over and never again.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`ENDIANNESS`].
    pub endianness: u32,
    /// The number of bytes of the whole object.
    pub segment_bytes: u64,
    /// Offset of slot 0.
    pub slots_at: u64,
    /// The distance between slots in bytes.
    pub slot_bytes: u64,
    /// The number of slots.
    pub slots: u64,
    /// Offset of slot 0's level 0.
    pub rings_at: u64,
    /// The distance between slots' regions in bytes.
    pub region_bytes: u64,
    /// The number of cells of each level; within a region, level L + 1 follows level L.
    pub level_cells: [u64; LEVELS],
    /// The process id, in the process's own namespace.
    pub pid: u32,
    /// A [`HostClock`].
    pub host_clock: u32,
    /// Field 22 of `/proc/self/stat`: together with the pid, it identifies the process on this boot.
    pub start_time: u64,
    /// Host ticks of the first anchor.
    pub anchor_ticks: u64,
    /// CLOCK_MONOTONIC_RAW at that moment, ns.
    pub anchor_monotonic_raw: u64,
    /// CLOCK_REALTIME at that moment, ns.
    pub anchor_realtime: u64,
    /// The name of the program. It is here because the process may be gone before anybody looks at it.
    pub program: ProgramName,
    /// The fields that change while the process runs.
    pub live: Line<Live>,
}

/// The last part of a process's first argument, else its `comm` (proc(5)); zeros behind it. What does not fit is cut off.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ProgramName([u8; 64]);

impl ProgramName {
    /// Copies a name.
    pub fn new(name: &[u8]) -> ProgramName {
        let mut program = ProgramName::default();
        program.0.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        program
    }

    /// Its bytes, which another process wrote: any but zero may be among them.
    pub fn bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&self.0)
    }
}

impl Default for ProgramName {
    fn default() -> ProgramName {
        ProgramName([0; 64])
    }
}

impl core::fmt::Debug for ProgramName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// The changing fields of the header. All but `polled` and `exiting` are relaxed: each is independent, and what
/// they announce is published elsewhere.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Live {
    /// Agent: the number of threads' claims so far; the lower 24 bits of a claim's number are the top ones of the
    /// thread's correlations.
    pub claims: AtomicU64,
    /// Agent: 1 when our exit handler has run. Release by the agent, acquire by the collector: what was recorded before
    /// is in the rings.
    pub exiting: AtomicU64,
    /// Agent: the number of lookups that cuGetProcAddress or one of our hooks has answered.
    pub lookups: AtomicU64,
    /// Agent: the number of those that returned a hook.
    pub lookups_hooked: AtomicU64,
    /// Agent: 1 when a cuLaunchKernel of the driver was replaced or is called through a hook.
    pub driver_hooked: AtomicU64,
    /// Agent: the CPU time of the poller thread outside driver calls, ns.
    pub poller_ns: AtomicU64,
    /// Agent: the number of operations whose events are recorded and not read yet.
    pub pending: AtomicU64,
    /// Collector: how often one has come or gone: odd while one drains this segment. When another one has come than the
    /// first, the agent sends again what it sends once. Each but the first holds a lock on the segment's file as long as it drains it
    /// (F_OFD_SETLK with F_RDLCK, fcntl(2)): it has no connection whose end would tell the agent that it was killed.
    pub attached: AtomicU64,
    /// Agent: host ticks when the last polling pass began; 0 = none has ended. The GPU times of all operations that
    /// it found complete are in the poller's ring. Release by the poller, acquire by the collector.
    pub polled: AtomicU64,
    /// Agent: the number of losses before a thread had a slot, by [`LossCause`].
    pub lost: [AtomicU64; LOSS_COUNTERS],
}

/// A thread's part of the segment, apart from its buffers.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    /// Phase and generation.
    pub state: State<AtomicU64>,
    /// The Linux thread id of the owner. Written between claim and open.
    pub tid: AtomicU64,
    /// The owner's claim number. Written between claim and open.
    pub claim: AtomicU64,
    /// Zero.
    pub reserved: [u64; 5],
    /// The ring's cursors.
    pub cursors: Cursors<AtomicU64>,
    /// The counters. Written by the owner, relaxed; they can be read at any time and are exact once the slot
    /// is closed.
    pub counters: Line<Counters>,
}

/// A slot's counters, which only grow, over all owners; and the call that its owner is in.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Ticks spent in hooks outside the real calls, at most about 10 ms of each call.
    pub agent_ticks: AtomicU64,
    /// The number of records published.
    pub records: AtomicU64,
    /// The number of calls entered.
    pub calls: AtomicU64,
    /// The call that the owner is in.
    pub in_progress: InProgress<AtomicU64>,
    /// Zero.
    pub reserved: [u64; 3],
    /// The number of losses, by [`LossCause`].
    pub lost: [AtomicU64; LOSS_COUNTERS],
}

impl Counters {
    /// Counters at zero.
    pub const fn zero() -> Counters {
        Counters {
            agent_ticks: AtomicU64::new(0),
            records: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            in_progress: InProgress { since: AtomicU64::new(0), call: AtomicU64::new(0) },
            reserved: [0; 3],
            lost: [const { AtomicU64::new(0) }; LOSS_COUNTERS],
        }
    }
}

/// The checked offsets and sizes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of bytes of the whole object.
    pub segment_bytes: u64,
    /// Offset of slot 0.
    pub slots_at: u64,
    /// The distance between slots in bytes.
    pub slot_bytes: u64,
    /// The number of slots.
    pub slots: u64,
    /// Offset of slot 0's level 0.
    pub rings_at: u64,
    /// The distance between slots' regions in bytes.
    pub region_bytes: u64,
    /// The number of cells of each level.
    pub level_cells: [u64; LEVELS],
}

/// Why a segment cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// It does not start with [`MAGIC`].
    Magic,
    /// It was written by a machine of the other endianness.
    Endianness,
    /// It has this other [`VERSION`].
    Version(u32),
    /// An offset or a count leads outside the object, or is not aligned.
    Bounds,
    /// It claims more than [`Layout::OURS`], the largest that an agent makes.
    TooLarge,
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LayoutError::Magic => f.write_str("it is no gpuspy segment"),
            LayoutError::Endianness => f.write_str("it was written on a machine of the other endianness"),
            LayoutError::Version(v) => {
                write!(f, "it has layout version {v}, and this release reads {VERSION}")
            }
            LayoutError::Bounds => f.write_str("its header points outside of it"),
            LayoutError::TooLarge => f.write_str("it is larger than any that an agent of this release makes"),
        }
    }
}

/// What is mapped by itself begins at a multiple of the largest page that the system may have: on Arm, Linux is built for pages of 4, 16
/// or 64 KiB.
const LARGEST_PAGE: u64 = if cfg!(target_arch = "aarch64") { 64 << 10 } else { 4 << 10 };

const fn page_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(LARGEST_PAGE)
}

impl Layout {
    /// The layout that this version writes where memory is ample, and the largest that it writes.
    pub const OURS: Layout = Layout::of(SLOTS, LEVEL_CELLS);

    /// The layout of a process that may have little memory: as many slots as fit, between 8 and all, with short buffers.
    pub const fn small(bytes: u64) -> Layout {
        let mut slots = SLOTS;
        while slots > 8 && Layout::of(slots, SMALL_LEVEL_CELLS).segment_bytes > bytes {
            slots -= 1;
        }
        Layout::of(slots, SMALL_LEVEL_CELLS)
    }

    const fn of(slots: usize, level_cells: [usize; LEVELS]) -> Layout {
        let slots_at = HEADER_BYTES as u64;
        let slot_bytes = size_of::<Slot>() as u64;
        let rings_at = page_up(slots_at + slot_bytes * slots as u64);
        let cells = level_cells[0] + level_cells[1] + level_cells[2];
        let region_bytes = page_up((cells * CELL_BYTES) as u64);
        Layout {
            segment_bytes: rings_at + region_bytes * slots as u64,
            slots_at,
            slot_bytes,
            slots: slots as u64,
            rings_at,
            region_bytes,
            level_cells: [level_cells[0] as u64, level_cells[1] as u64, level_cells[2] as u64],
        }
    }

    /// The offset of a slot.
    pub const fn slot_at(&self, slot: usize) -> u64 {
        self.slots_at + self.slot_bytes * slot as u64
    }

    /// The offset of a level's buffer, and its size in bytes.
    pub const fn buffer_at(&self, slot: usize, level: usize) -> (u64, u64) {
        let mut at = self.rings_at + self.region_bytes * slot as u64;
        let mut l = 0;
        while l < level {
            at += self.level_cells[l] * CELL_BYTES as u64;
            l += 1;
        }
        (at, self.level_cells[level] * CELL_BYTES as u64)
    }

    /// Reads a header that may contain anything, and returns a layout whose offsets are all inside `bytes`.
    ///
    /// # Errors
    /// Returns what is wrong with the header.
    pub fn check(header: &Header, bytes: u64) -> Result<Layout, LayoutError> {
        if header.magic != MAGIC {
            return Err(LayoutError::Magic);
        }
        if header.endianness != ENDIANNESS {
            return Err(LayoutError::Endianness);
        }
        if header.version != VERSION {
            return Err(LayoutError::Version(header.version));
        }
        let layout = Layout {
            segment_bytes: header.segment_bytes,
            slots_at: header.slots_at,
            slot_bytes: header.slot_bytes,
            slots: header.slots,
            rings_at: header.rings_at,
            region_bytes: header.region_bytes,
            level_cells: header.level_cells,
        };
        if !layout.is_inside(bytes) {
            return Err(LayoutError::Bounds);
        }
        // A reader maps all of it and reads every slot, so a peer's numbers must not decide how much that is.
        let is_ours = layout.segment_bytes <= Layout::OURS.segment_bytes && layout.slots <= SLOTS as u64;
        is_ours.then_some(layout).ok_or(LayoutError::TooLarge)
    }

    fn is_inside(&self, bytes: u64) -> bool {
        let levels = self.level_cells.iter().try_fold(0u64, |sum, &cells| {
            // Powers of two, so that a mask can address them; limited, so that no sum overflows.
            (cells.is_power_of_two() && cells <= 1 << 32).then(|| sum + cells * CELL_BYTES as u64)
        });
        let end = |at: u64, each: u64, count: u64| each.checked_mul(count).and_then(|n| n.checked_add(at));
        self.segment_bytes <= bytes
            && (1..=1 << 20).contains(&self.slots)
            && self.slots_at >= HEADER_BYTES as u64
            && self.slots_at.is_multiple_of(64)
            && self.slot_bytes >= size_of::<Slot>() as u64
            && self.slot_bytes.is_multiple_of(64)
            && self.rings_at.is_multiple_of(64)
            && self.region_bytes.is_multiple_of(64)
            && levels.is_some_and(|l| l <= self.region_bytes)
            && end(self.slots_at, self.slot_bytes, self.slots).is_some_and(|e| e <= self.rings_at)
            && end(self.rings_at, self.region_bytes, self.slots).is_some_and(|e| e <= self.segment_bytes)
    }
}

/// A whole segment mapped into this process, for the reading side.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    base: *const u8,
    layout: Layout,
    life: core::marker::PhantomData<&'a AtomicU64>,
}

// SAFETY: all access goes through atomics, or reads the header's plain fields, which are never written after
// the hand-over. (They are integers: a peer that breaks this rule changes numbers, not memory safety.)
unsafe impl Send for Segment<'_> {}
// SAFETY: as above.
unsafe impl Sync for Segment<'_> {}

impl<'a> Segment<'a> {
    /// Checks a mapped segment.
    ///
    /// # Safety
    /// `base` must be aligned to 64, and `bytes` bytes from there must stay mapped, readable and writable for
    /// `'a`; nothing in this process may have a `&mut` into them.
    ///
    /// # Errors
    /// Returns why the segment cannot be read.
    pub unsafe fn attach(base: *const u8, bytes: u64) -> Result<Segment<'a>, LayoutError> {
        if bytes < HEADER_BYTES as u64 || !(base as usize).is_multiple_of(64) {
            return Err(LayoutError::Bounds);
        }
        // SAFETY: the header is inside and aligned; any bytes are valid integers and atomics.
        let layout = Layout::check(unsafe { &*base.cast::<Header>() }, bytes)?;
        Ok(Segment { base, layout, life: core::marker::PhantomData })
    }

    /// The checked layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The header.
    pub fn header(&self) -> &'a Header {
        // SAFETY: `attach` has checked it.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// A slot, or `None` after the last.
    pub fn slot(&self, slot: usize) -> Option<&'a Slot> {
        if slot as u64 >= self.layout.slots {
            return None;
        }
        // SAFETY: `check` has verified the bounds and the alignment of every slot.
        Some(unsafe { &*self.base.add(self.layout.slot_at(slot) as usize).cast::<Slot>() })
    }

    /// A slot's buffers, or `None` after the last slot.
    pub fn buffers(&self, slot: usize) -> Option<[&'a [AtomicU64]; LEVELS]> {
        if slot as u64 >= self.layout.slots {
            return None;
        }
        let mut out: [&[AtomicU64]; LEVELS] = [&[]; LEVELS];
        for (level, buffer) in out.iter_mut().enumerate() {
            let (at, bytes) = self.layout.buffer_at(slot, level);
            // SAFETY: `check` has verified the bounds and the alignment of every buffer; any bytes are valid
            // atomics.
            *buffer =
                unsafe { core::slice::from_raw_parts(self.base.add(at as usize).cast(), bytes as usize / 8) };
        }
        Some(out)
    }
}

const _: () = {
    assert!(size_of::<Header>() <= HEADER_BYTES);
    assert!(offset_of!(Header, slots_at) == 24);
    assert!(offset_of!(Header, level_cells) == 64);
    assert!(offset_of!(Header, pid) == 88);
    assert!(offset_of!(Header, anchor_ticks) == 104);
    assert!(offset_of!(Header, program) == 128);
    assert!(offset_of!(Header, live) == 192);
    assert!(size_of::<Slot>() == 448);
    assert!(offset_of!(Slot, cursors) == 64);
    assert!(offset_of!(Slot, counters) == 256);
    assert!(offset_of!(Counters, in_progress) == 24 && offset_of!(Counters, lost) == 64);
    assert!(offset_of!(Cursors<AtomicU64>, head) == 64);
    assert!(offset_of!(Cursors<AtomicU64>, moved) == 128);
    assert!((LossCause::NameLost as usize) < LOSS_COUNTERS);
    assert!(CELL_WORDS * 8 == CELL_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Header {
        let l = Layout::OURS;
        Header {
            magic: MAGIC,
            version: VERSION,
            endianness: ENDIANNESS,
            segment_bytes: l.segment_bytes,
            slots_at: l.slots_at,
            slot_bytes: l.slot_bytes,
            slots: l.slots,
            rings_at: l.rings_at,
            region_bytes: l.region_bytes,
            level_cells: l.level_cells,
            ..Header::default()
        }
    }

    #[test]
    fn our_own_layout_passes_the_check() {
        assert_eq!(Layout::check(&ours(), Layout::OURS.segment_bytes), Ok(Layout::OURS));
        assert_eq!(Layout::check(&ours(), Layout::OURS.segment_bytes - 1), Err(LayoutError::Bounds));
    }

    #[test]
    fn each_buffer_can_be_mapped_by_itself() {
        for layout in [Layout::OURS, Layout::small(0), Layout::small(100 << 20)] {
            for slot in 0..layout.slots as usize {
                for (at, bytes) in (0..LEVELS).map(|level| layout.buffer_at(slot, level)) {
                    assert_eq!((at % LARGEST_PAGE, bytes % LARGEST_PAGE), (0, 0), "slot {slot}");
                }
            }
        }
    }

    #[test]
    fn a_small_layout_fits_where_it_can() {
        for (bytes, slots) in [(0, 8), (6 << 20, 13), (64 << 20, 146), (1 << 40, SLOTS as u64)] {
            let layout = Layout::small(bytes);
            assert_eq!(layout.slots, slots);
            assert!(layout.segment_bytes <= bytes.max(4 << 20));
            let l = layout;
            let header = Header {
                segment_bytes: l.segment_bytes,
                slots: l.slots,
                rings_at: l.rings_at,
                region_bytes: l.region_bytes,
                level_cells: l.level_cells,
                ..ours()
            };
            assert_eq!(Layout::check(&header, l.segment_bytes), Ok(layout));
        }
    }

    #[test]
    fn hostile_headers_are_refused() {
        for spoil in [
            |h: &mut Header| h.slots = u64::MAX,
            |h: &mut Header| h.slots = 0,
            |h: &mut Header| h.slot_bytes = 64,
            |h: &mut Header| h.slots_at = 1,
            |h: &mut Header| h.rings_at = u64::MAX - 63,
            |h: &mut Header| h.level_cells[1] = 3,
            |h: &mut Header| h.level_cells[2] = 1 << 40,
            |h: &mut Header| h.region_bytes = 64,
        ] {
            let mut header = ours();
            spoil(&mut header);
            assert_eq!(Layout::check(&header, u64::MAX), Err(LayoutError::Bounds));
        }
        // Everything in it is in bounds, and it is sparse: it would cost its reader gigabytes.
        let mut many = Header { slots: 1 << 20, slot_bytes: 4096, region_bytes: 3 * 65536, ..ours() };
        many.level_cells = [1 << 10; LEVELS];
        many.rings_at = many.slots_at + many.slots * many.slot_bytes;
        many.segment_bytes = many.rings_at + many.slots * many.region_bytes;
        assert_eq!(Layout::check(&many, many.segment_bytes), Err(LayoutError::TooLarge));
        let foreign = Header { endianness: ENDIANNESS.swap_bytes(), ..ours() };
        assert_eq!(Layout::check(&foreign, u64::MAX), Err(LayoutError::Endianness));
        assert_eq!(Layout::check(&Header { version: 9, ..ours() }, u64::MAX), Err(LayoutError::Version(9)));
        assert_eq!(Layout::check(&Header::default(), u64::MAX), Err(LayoutError::Magic));
    }
}
