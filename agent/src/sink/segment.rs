//! The agent's side of the segment: one sealed memfd. Its header and slots are mapped at once, its rings one by one.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use gpuspy_wire::record::{Anchor, Head};
use gpuspy_wire::ring::{LEVELS, Phase, Writer};
use gpuspy_wire::segment::{
    ENDIANNESS, Header, Layout, MAGIC, POLLER_SLOT, ProgramName, SLOTS, Slot, VERSION,
};

use crate::sink::descriptors::identity;
use crate::sys;

/// Where a slot's buffers are mapped in this process; null = not yet, [`REFUSED`] = it cannot be had. Kept when a slot changes
/// hands.
struct Mapped([AtomicPtr<AtomicU64>; LEVELS]);

/// The place of a buffer that is not asked for again: a full ring would do so with each record.
const REFUSED: *mut AtomicU64 = core::ptr::dangling_mut();

/// The segment of this process. All zero until [`Segment::create`]: it lies in the session's zeroed memory.
pub struct Segment {
    fd: i32,
    /// Where everything is in it; written before the session is published.
    layout: Layout,
    /// Device and inode of the memfd: the app may have put a file of its own at the descriptor's number.
    identity: (u64, u64),
    base: *const u8,
    /// The number of bytes from its start for which [`reserve`] has found memory. Relaxed: a thread that reads it late calls `reserve` once more.
    reserved: AtomicU64,
    mapped: [Mapped; SLOTS],
}

// SAFETY: the base pointer is to a mapping that is never unmapped; all shared state behind it is atomic.
unsafe impl Sync for Segment {}
// SAFETY: as above.
unsafe impl Send for Segment {}

/// A slot that this process's thread owns.
pub struct Claim {
    pub index: usize,
    pub generation: u64,
    /// The number of this claim. Its lower 24 bits are the upper ones of the thread's correlations.
    pub number: u64,
    pub slot: &'static Slot,
    pub writer: Writer<'static, AtomicU64>,
}

/// A collector maps the whole segment and inherits our limits: of a limit on address space, this part is for it.
const SHARE_OF_LIMIT: u64 = 8;

/// Returns the layout for a process with this limit on address space. Where memory is tight, rings are short, and threads
/// beyond the slots are counted as lost.
fn layout_within(limit: u64, is_tight: bool) -> Layout {
    if is_tight || limit / SHARE_OF_LIMIT < Layout::OURS.segment_bytes {
        Layout::small(limit / SHARE_OF_LIMIT)
    } else {
        Layout::OURS
    }
}

impl Segment {
    /// Makes and maps the segment; a small one where memory is tight. `Err` says why that is not possible, as a text for
    /// users.
    pub fn create(&mut self, is_tight: bool) -> Result<(), &'static str> {
        let layout = layout_within(sys::limit(libc::RLIMIT_AS).unwrap_or(u64::MAX), is_tight);
        // Beyond the limit ftruncate does not fail: it kills the process with SIGXFSZ.
        match sys::limit(libc::RLIMIT_FSIZE) {
            Some(limit) if limit >= layout.segment_bytes => {}
            Some(_) => return Err("the file size limit (ulimit -f) leaves no room for its shared memory"),
            None => {
                return Err(
                    "this system does not tell the file size limit (getrlimit), and shared memory beyond it \
                     would end the process",
                );
            }
        }
        // By number, because glibc has a function for it only from 2.27 on, and a library with a reference that nobody
        // satisfies is not loaded. SAFETY: a terminated name.
        let fd = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            libc::syscall(libc::SYS_memfd_create, c"gpuspy".as_ptr(), flags) as c_int
        };
        if fd < 0 {
            return Err("this system refuses shared memory (memfd_create)");
        }
        let fd = sys::out_of_the_way(fd);
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        let front = layout.rings_at as usize;
        // SAFETY: our own descriptor; with the seals, no page of the mapping can go away.
        let base = unsafe {
            if libc::ftruncate(fd, layout.segment_bytes as libc::off_t) != 0
                || libc::fcntl(fd, libc::F_ADD_SEALS, seals) != 0
            {
                libc::MAP_FAILED
            } else {
                map(fd, 0, front)
            }
        };
        if base == libc::MAP_FAILED {
            // SAFETY: our own descriptor.
            unsafe { libc::close(fd) };
            return Err("this system refuses shared memory of the size needed");
        }
        self.fd = fd;
        self.layout = layout;
        self.identity = identity(fd).unwrap_or_default();
        self.base = base.cast();
        if !self.reserve_front(POLLER_SLOT) {
            // SAFETY: our own descriptor and mapping, which nothing else refers to yet.
            unsafe {
                libc::munmap(base, front);
                libc::close(fd);
            }
            return Err("there is no memory for it");
        }
        // SAFETY: nothing else refers to the mapping yet.
        describe(unsafe { &mut *base.cast::<Header>() }, &layout);
        Ok(())
    }

    /// Returns the descriptor, to be sent to the collector. `None`: the app has closed it.
    pub fn fd(&self) -> Option<i32> {
        (identity(self.fd) == Some(self.identity)).then_some(self.fd)
    }

    /// Returns the bytes of the whole segment.
    pub fn bytes(&self) -> u64 {
        self.layout.segment_bytes
    }

    /// Returns the header.
    pub fn header(&self) -> &'static Header {
        // SAFETY: mapped for good, initialised by `create`.
        unsafe { &*self.base.cast::<Header>() }
    }

    fn slot(&self, index: usize) -> Option<&'static Slot> {
        // SAFETY: mapped for good; zeroed memory is a slot; the layout is our own.
        (index < self.layout.slots as usize)
            .then(|| unsafe { &*self.base.add(self.layout.slot_at(index) as usize).cast::<Slot>() })
    }

    /// Returns a slot for which there is memory; no other was ever taken.
    fn slot_with_memory(&self, index: usize) -> Option<&'static Slot> {
        let reserved = self.reserved.load(Ordering::Relaxed);
        self.slot(index).filter(|_| self.layout.slot_at(index + 1) <= reserved)
    }

    /// Returns the ticks that hooks took so far, over all threads that ever had a slot.
    pub fn hook_ticks(&self) -> u64 {
        // Relaxed, here and below: these are figures. Slots are taken from the front, so no slot beyond the number of
        // claims was ever taken.
        let claims = self.header().live.0.claims.load(Ordering::Relaxed) as usize;
        let slots = (0..=claims).map_while(|index| self.slot_with_memory(index));
        slots.fold(0, |sum, s| sum.wrapping_add(s.counters.0.agent_ticks.load(Ordering::Relaxed)))
    }

    /// Whether a thread of the app has a slot now.
    pub fn has_writers(&self) -> bool {
        // Relaxed, without a partner: slots are taken from the front, so no slot beyond the number of claims was ever taken,
        // and a claim that is not seen yet is seen the next time.
        let claims = self.header().live.0.claims.load(Ordering::Relaxed) as usize;
        let mut slots = (POLLER_SLOT + 1..=claims).map_while(|index| self.slot_with_memory(index));
        slots.any(|slot| matches!(slot.state.get().0, Phase::Claiming | Phase::Open))
    }

    /// Claims a free slot for the calling thread, maps its first buffer and opens it.
    pub fn claim(&self, indices: core::ops::Range<usize>) -> Option<Claim> {
        let mut has_descriptor = None;
        for index in indices {
            let slot = self.slot(index).filter(|_| self.reserve_front(index))?;
            let Some(generation) = slot.state.claim() else { continue };
            let buffer = self.buffer(index, 0);
            let Some(writer) = buffer.and_then(|buffer| Writer::claim(&slot.cursors, buffer)) else {
                slot.state.free(generation);
                if buffer.is_none() && *has_descriptor.get_or_insert_with(|| self.fd().is_some()) {
                    return None; // there is no memory for it, and the next one takes as much
                }
                continue;
            };
            // Relaxed: a counter.
            let number = self.header().live.0.claims.fetch_add(1, Ordering::Relaxed) + 1;
            // Relaxed: published by `open`.
            slot.tid.store(u64::from(sys::tid()), Ordering::Relaxed);
            slot.claim.store(number, Ordering::Relaxed);
            // The thread that had the slot before may have ended inside a call.
            slot.counters.0.in_progress.leave();
            slot.state.open(generation);
            return Some(Claim { index, generation, number, slot, writer });
        }
        None
    }

    /// Finds memory for the front up to the end of this slot. Returns false if there is none. All of the front are 64 pages, most
    /// of which most processes never touch.
    fn reserve_front(&self, index: usize) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        let until = self.layout.slot_at(index + 1).next_multiple_of(4096);
        if until <= reserved {
            return true;
        }
        // A segment whose descriptor the app has closed is used as far as it goes.
        let is_found = self.fd().is_none_or(|fd| reserve(fd, reserved, until - reserved));
        if is_found {
            self.reserved.fetch_max(until, Ordering::Relaxed);
        }
        is_found
    }

    /// Returns a slot's buffer of a level. It is mapped on first use and populated, so that the writer has no page
    /// faults.
    pub fn buffer(&self, index: usize, level: usize) -> Option<&'static [AtomicU64]> {
        self.mapped_buffer(index, level, true)
    }

    /// As [`Segment::buffer`], for a writer that cannot wait until the pages are populated: it has a page fault on
    /// each.
    pub fn buffer_at_once(&self, index: usize, level: usize) -> Option<&'static [AtomicU64]> {
        self.mapped_buffer(index, level, false)
    }

    fn mapped_buffer(&self, index: usize, level: usize, populate: bool) -> Option<&'static [AtomicU64]> {
        if index >= self.layout.slots as usize || level >= LEVELS {
            return None;
        }
        let place = self.mapped.get(index)?.0.get(level)?;
        let (at, bytes) = self.layout.buffer_at(index, level);
        // Acquire, with the release below.
        let mut start = place.load(Ordering::Acquire);
        if start == REFUSED {
            return None;
        }
        if start.is_null() {
            let Some(new) = self.map_buffer(at, bytes, populate) else {
                // The first one may be had later, unless the descriptor is gone: a thread asks for it once in many calls.
                if level != 0 || self.fd().is_none() {
                    // Relaxed: nothing is behind it. The other of the two below may have mapped it meanwhile.
                    let _ = place.compare_exchange(start, REFUSED, Ordering::Relaxed, Ordering::Relaxed);
                }
                return None;
            };
            start = new;
            // Only a slot's owner maps its buffers, or the poller for it. If both do so at once, a second mapping of
            // the same pages is left, which does no harm.
            place.store(start, Ordering::Release);
        }
        // SAFETY: mapped for good, that long, atomics hold any bytes.
        Some(unsafe { core::slice::from_raw_parts(start, bytes as usize / 8) })
    }

    /// Maps a buffer for which there is memory.
    fn map_buffer(&self, at: u64, bytes: u64, populate: bool) -> Option<*mut AtomicU64> {
        // SAFETY: our own descriptor; offset and length are multiples of the page size.
        let new = unsafe { map(self.fd()?, at as libc::off_t, bytes as usize) };
        if new == libc::MAP_FAILED {
            return None;
        }
        // The app may have closed the descriptor in between: then this may be a mapping of another file, which must
        // not be touched.
        if !self.fd().is_some_and(|fd| reserve(fd, at, bytes)) {
            // SAFETY: our own mapping, which nothing else refers to.
            unsafe { libc::munmap(new, bytes as usize) };
            return None;
        }
        const MADV_POPULATE_WRITE: i32 = 23; // Linux 5.14; older kernels refuse it and fault pages in later
        if populate {
            // SAFETY: our own mapping.
            unsafe { libc::madvise(new, bytes as usize, MADV_POPULATE_WRITE) };
        }
        Some(new.cast())
    }

    /// Gives the pages of all buffers back to the system, but for those of threads that are in a call, which write into them
    /// when it returns. For a session that has ended: nobody else writes, and nobody reads. Returns whether none was left out.
    ///
    /// (A thread that lost its processor right after its call may still write: then the page comes back.)
    pub fn give_back(&self) -> bool {
        let mut is_all = true;
        for (index, mapped) in self.mapped.iter().enumerate() {
            let slot = self.slot_with_memory(index);
            let is_in_call = slot.is_some_and(|slot| slot.counters.0.in_progress.get().is_some());
            for (level, place) in mapped.0.iter().enumerate() {
                // Acquire, with the release in `mapped_buffer`.
                let start = place.load(Ordering::Acquire);
                if start.is_null() || start == REFUSED {
                    continue;
                }
                is_all &= !is_in_call;
                if !is_in_call {
                    let (_, bytes) = self.layout.buffer_at(index, level);
                    // SAFETY: our own shared mapping, whose words may become zero.
                    unsafe { libc::madvise(start.cast(), bytes as usize, libc::MADV_REMOVE) };
                }
            }
        }
        is_all
    }
}

/// Finds memory for a part of a memfd, which would be found at its first touch otherwise: where the system promises no more memory
/// than it has (vm.overcommit_memory=2) and has no more, that touch would end the app with SIGBUS. Returns false if there is none.
/// Where the call itself is refused, the first touch finds it.
fn reserve(fd: c_int, at: u64, bytes: u64) -> bool {
    // A signal of the app's interrupts the call, which has done nothing then.
    const TRIES: u32 = 4;
    for _ in 0..TRIES {
        // By number, because glibc's function is a cancellation point. SAFETY: takes numbers; a file's size and what is in it stay
        // as they are, whatever file it is.
        let result = unsafe { libc::syscall(libc::SYS_fallocate, fd, libc::FALLOC_FL_KEEP_SIZE, at, bytes) };
        match (result, std::io::Error::last_os_error().raw_os_error()) {
            (0, _) => return true,
            (_, Some(libc::EINTR)) => {}
            (_, error) => return !matches!(error, Some(libc::ENOSPC | libc::ENOMEM)),
        }
    }
    true
}

fn describe(header: &mut Header, layout: &Layout) {
    let (ticks, monotonic_raw, realtime, _) = anchor();
    header.magic = MAGIC;
    header.version = VERSION;
    header.endianness = ENDIANNESS;
    header.segment_bytes = layout.segment_bytes;
    header.slots_at = layout.slots_at;
    header.slot_bytes = layout.slot_bytes;
    header.slots = layout.slots;
    header.rings_at = layout.rings_at;
    header.region_bytes = layout.region_bytes;
    header.level_cells = layout.level_cells;
    header.pid = sys::pid();
    header.host_clock = sys::host_clock() as u32;
    header.start_time = start_time();
    header.anchor_ticks = ticks;
    header.anchor_monotonic_raw = monotonic_raw;
    header.anchor_realtime = realtime;
    header.program = program();
}

/// Maps a part of the segment, shared, and keeps it out of core dumps.
///
/// # Safety
/// `fd` is the sealed segment and the range lies in it.
unsafe fn map(fd: i32, at: libc::off_t, bytes: usize) -> *mut c_void {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    unsafe {
        let start = libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            at,
        );
        if start != libc::MAP_FAILED {
            libc::madvise(start, bytes, libc::MADV_DONTDUMP);
        }
        start
    }
}

/// Returns a record of what the clocks say now.
pub fn anchor_now() -> Anchor {
    let (ticks, monotonic_raw, realtime, uncertainty) = anchor();
    let head = Head::new::<Anchor>();
    Anchor { head, ticks, monotonic_raw, realtime, uncertainty, reserved: [0; 3] }
}

/// Returns host ticks, CLOCK_MONOTONIC_RAW (ns) and CLOCK_REALTIME (ns) of one moment, and the ticks that reading them
/// took: the best of four tries.
fn anchor() -> (u64, u64, u64, u64) {
    let mut best = (0, 0, 0, u64::MAX);
    for _ in 0..4 {
        let before = sys::ticks();
        let monotonic_raw = sys::clock_ns(libc::CLOCK_MONOTONIC_RAW);
        let after = sys::ticks();
        let took = after.wrapping_sub(before);
        if took < best.3 {
            best = (before.wrapping_add(took / 2), monotonic_raw, sys::clock_ns(libc::CLOCK_REALTIME), took);
        }
    }
    best
}

/// Reads field 22 of /proc/self/stat: when the process started, in clock ticks since boot (proc(5)).
pub fn start_time() -> u64 {
    let mut buffer = [0u8; 1024];
    let text = sys::read_file(c"/proc/self/stat", &mut buffer).unwrap_or(&[]);
    // The command name is in parentheses and may contain anything, so fields are counted from the last ')'.
    let rest = text.rsplit(|b| *b == b')').next().unwrap_or(&[]);
    rest.split(|b| *b == b' ').filter(|f| !f.is_empty()).nth(19).map_or(0, sys::decimal)
}

/// Reads the name of the program from /proc/self.
fn program() -> ProgramName {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let line = sys::read_file(c"/proc/self/cmdline", &mut buffer).unwrap_or(&[]);
    let path = line.split(|b| *b == 0).next().unwrap_or(&[]);
    let name = path.rsplit(|b| *b == b'/').find(|part| !part.is_empty());
    if let Some(name) = name {
        return ProgramName::new(name);
    }
    // An exec may pass no arguments at all.
    let comm = sys::read_file(c"/proc/self/comm", &mut buffer).unwrap_or(&[]);
    ProgramName::new(comm.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_last_part_of_the_first_argument() {
        let first = std::env::args_os().next().unwrap();
        let name = std::path::Path::new(&first).file_name().unwrap().as_encoded_bytes();
        assert_eq!(program().bytes(), &name[..name.len().min(64)]);
    }

    #[test]
    fn the_layout_is_a_small_part_of_a_limit_on_address_space() {
        assert_eq!(layout_within(u64::MAX, false), Layout::OURS);
        assert_eq!(layout_within(u64::MAX, true).slots, SLOTS as u64);
        for limit in [45_000 << 10, 200 << 20, 4 << 30] {
            assert!(layout_within(limit, false).segment_bytes <= limit / SHARE_OF_LIMIT);
        }
    }

    /// A full ring asked for its next buffer with each record, by two system calls, for as long as the process lived.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create(2)")]
    fn a_buffer_is_not_asked_for_again_once_the_descriptor_is_gone() {
        // SAFETY: a segment is all zero until it is made.
        let mut segment = unsafe { Box::<Segment>::new_zeroed().assume_init() };
        segment.create(false).unwrap();
        assert!(segment.claim(POLLER_SLOT..POLLER_SLOT + 1).is_some());
        // SAFETY: our own descriptor.
        unsafe { libc::close(segment.fd().unwrap()) };
        assert!(segment.fd().is_none() && segment.buffer_at_once(POLLER_SLOT, 1).is_none());
        assert!(segment.claim(1..3).is_none());
        let is_refused =
            |slot: usize, level: usize| segment.mapped[slot].0[level].load(Ordering::Relaxed) == REFUSED;
        assert!(is_refused(POLLER_SLOT, 1) && is_refused(1, 0) && is_refused(2, 0));
        assert!(segment.buffer(POLLER_SLOT, 0).is_some(), "what was mapped before is used on");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create(2)")]
    fn what_nobody_reads_any_more_is_given_back_when_its_thread_is_in_no_call() {
        // SAFETY: a segment is all zero until it is made.
        let mut segment = unsafe { Box::<Segment>::new_zeroed().assume_init() };
        segment.create(false).unwrap();
        let claim = segment.claim(1..2).unwrap();
        let [first, second] = [0, 1].map(|level| segment.buffer(1, level).unwrap());
        let is_gone = || [first, second].iter().all(|buffer| buffer[0].load(Ordering::Relaxed) == 0);
        [first, second].iter().for_each(|buffer| buffer[0].store(7, Ordering::Relaxed));
        let call = gpuspy_wire::in_progress::Call { api: 1, caller: 2, since: 3 };
        claim.slot.counters.0.in_progress.enter(call);
        assert!(!segment.give_back() && !is_gone());
        claim.slot.counters.0.in_progress.leave();
        assert!(segment.give_back() && is_gone());
        first[0].store(7, Ordering::Relaxed);
        assert!(!is_gone(), "the pages come back where a thread writes all the same");
    }

    /// The first touch of such memory ended the app with SIGBUS.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fallocate(2)")]
    fn memory_that_the_system_does_not_have_is_refused_before_it_is_touched() {
        // SAFETY: a terminated name.
        let fd = unsafe { libc::memfd_create(c"ordinary".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: our own descriptor.
        assert_eq!(unsafe { libc::ftruncate(fd, 512 << 10) }, 0);
        // Two pages of the largest kind that Linux has.
        assert!(reserve(fd, 0, 128 << 10));
        // SAFETY: all-zero is a stat; fills the struct.
        let stat = unsafe {
            let mut stat: libc::stat = core::mem::zeroed();
            libc::fstat(fd, &mut stat);
            stat
        };
        assert_eq!((stat.st_blocks * 512, stat.st_size), (128 << 10, 512 << 10), "its size stays");
        // SAFETY: our own descriptor.
        unsafe { libc::close(fd) };
        assert!(reserve(fd, 0, 8192), "a refusal of the call itself is none of memory");

        // Memory of which there is none: most machines have no huge pages.
        // SAFETY: a terminated name.
        let fd = unsafe { libc::memfd_create(c"huge".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_HUGETLB) };
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let has_none =
            meminfo.lines().any(|line| line.strip_prefix("HugePages_Total:").map(str::trim) == Some("0"));
        if fd < 0 || !has_none {
            return eprintln!("skipped: this system knows no huge pages, or has some");
        }
        assert!(!reserve(fd, 0, 2 << 20));
        // SAFETY: our own descriptor.
        unsafe { libc::close(fd) };
    }
}
