//! Does the contract work between two processes with a real segment? Four threads write to a sealed memfd of
//! full size; they grow, end and start again. A reader in another process reads everything, also after the
//! writing process was killed.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use common::{head_word, word_of};
use gpuspy_wire::record::{CELL_WORDS, Kind, LossCause};
use gpuspy_wire::ring::{LEVELS, MAX_RECORD_WORDS, Phase, Reader, Writer};
use gpuspy_wire::segment::{ENDIANNESS, Header, Layout, MAGIC, Segment, Slot, VERSION};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
/// The slots in use: fewer than the segment has and more than the threads need, so that they change owners.
const SLOTS: usize = 6;
/// The number of records that a thread writes before it gives its slot back and claims one again.
const RECORDS_OF_A_LIFE: u64 = 40_000;

/// Creates a sealed segment, as the agent does.
fn create() -> OwnedFd {
    let layout = Layout::OURS;
    // SAFETY: a plain system call with a NUL-terminated name.
    let fd = unsafe { libc::memfd_create(c"segment".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: a descriptor that was just made and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system calls on our descriptor.
    let made = unsafe {
        (
            libc::ftruncate(fd.as_raw_fd(), layout.segment_bytes as i64),
            libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals),
        )
    };
    assert_eq!(made, (0, 0), "{}", std::io::Error::last_os_error());
    let header = Header {
        magic: MAGIC,
        version: VERSION,
        endianness: ENDIANNESS,
        segment_bytes: layout.segment_bytes,
        slots_at: layout.slots_at,
        slot_bytes: layout.slot_bytes,
        slots: layout.slots,
        rings_at: layout.rings_at,
        region_bytes: layout.region_bytes,
        level_cells: layout.level_cells,
        ..Header::default()
    };
    // SAFETY: a new mapping of the whole object, aligned to a page; nobody else has it yet.
    unsafe { map(&fd).cast_mut().cast::<Header>().write(header) };
    fd
}

/// Maps the whole segment; it stays mapped until the process ends.
fn map(fd: &OwnedFd) -> *const u8 {
    let (length, access) = (Layout::OURS.segment_bytes as usize, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at.cast()
}

fn attach(fd: &OwnedFd) -> Segment<'static> {
    // SAFETY: mapped until the process ends, aligned to a page, and of that length (it is sealed, so it stays
    // that long).
    unsafe { Segment::attach(map(fd), Layout::OURS.segment_bytes) }.expect("our own header")
}

/// Another process, which is killed when this value is dropped.
struct Child {
    pid: libc::pid_t,
    ended: bool,
}

impl Child {
    /// Runs `body` in another process, which never returns from here. Its exit status is 0 if `body` did not
    /// panic.
    fn fork(body: impl FnOnce()) -> Child {
        // SAFETY: the child uses only this thread and threads that it starts itself; glibc keeps its
        // allocator usable in a forked child.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", std::io::Error::last_os_error());
        if pid == 0 {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: ends the process at once; the test harness's own exit handling belongs to the parent.
            unsafe { libc::_exit(if outcome.is_ok() { 0 } else { 1 }) };
        }
        Child { pid, ended: false }
    }

    /// Returns the wait status if the process has ended; with no options, waits until it has.
    fn wait(&mut self, options: libc::c_int) -> Option<libc::c_int> {
        let mut status = 0;
        // SAFETY: waits for our own child.
        self.ended = unsafe { libc::waitpid(self.pid, &mut status, options) } == self.pid;
        self.ended.then_some(status)
    }

    fn kill(&self) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid, libc::SIGKILL) }, 0);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
            self.wait(0);
        }
    }
}

/// Record number `sequence` of a thread: one to four cells in which every word depends on the thread, the
/// number and its place.
fn record(thread: u64, sequence: u64) -> ([u64; 4 * CELL_WORDS], usize) {
    let cells = 1 + (sequence % 4) as usize;
    let identity = thread << 48 | sequence;
    let mut words = [0; 4 * CELL_WORDS];
    for (n, word) in words[..cells * CELL_WORDS].iter_mut().enumerate() {
        *word = word_of(identity, n);
    }
    words[0] = head_word(Kind::Launch as u8, cells as u8);
    words[1] = identity;
    (words, cells * CELL_WORDS)
}

/// Claims a slot, and waits for one if it must.
fn claim(segment: Segment<'static>) -> (&'static Slot, usize, u64) {
    loop {
        for index in 0..SLOTS {
            let slot = segment.slot(index).unwrap();
            if let Some(generation) = slot.state.claim() {
                return (slot, index, generation);
            }
        }
        std::thread::yield_now();
    }
}

/// One writing thread: writes `records` records over many lives of slots. The first life continues until the
/// ring is full in the largest level, so that this happens at least once.
fn write(segment: Segment<'static>, thread: u64, records: u64) {
    let full_rings = &segment.header().live.0.pending;
    let mut sequence = 0;
    let mut was_full = false;
    while sequence < records {
        let (slot, index, generation) = claim(segment);
        let buffers = segment.buffers(index).unwrap();
        let mut writer = Writer::claim(&slot.cursors, buffers[0]).unwrap();
        slot.state.open(generation);
        let counters = &slot.counters.0;
        let mut left = RECORDS_OF_A_LIFE;
        while sequence < records && (left > 0 || !was_full) {
            let (words, length) = record(thread, sequence);
            sequence += 1;
            left = left.saturating_sub(1);
            let (counter, full) = match writer.push(&words[..length]) {
                Ok(()) => (&counters.records, false),
                Err(_) => (&counters.lost[LossCause::RingFull as usize], true),
            };
            counter.store(counter.load(Relaxed) + 1, Relaxed);
            if writer.is_half_full() && writer.level() + 1 < LEVELS {
                assert!(writer.grow(buffers[writer.level() + 1]));
            }
            if full {
                if !was_full {
                    assert_eq!(writer.level(), LEVELS - 1);
                    was_full = true;
                    full_rings.fetch_add(1, Relaxed);
                }
                std::thread::yield_now();
            }
        }
        slot.state.close(generation);
    }
}

fn write_all(fd: &OwnedFd, records: u64) {
    let segment = attach(fd);
    let threads: Vec<_> =
        (0..THREADS).map(|thread| std::thread::spawn(move || write(segment, thread, records))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The reading side, as in the collector.
struct Collector {
    segment: Segment<'static>,
    readers: Vec<Reader<'static, AtomicU64>>,
    generations: [u64; SLOTS],
    /// The newest record of each slot's present owner. There is no order between slots: a thread's next slot
    /// may be read before the rest of its last one.
    last: [Option<(usize, u64)>; SLOTS],
    /// The records that have arrived from each thread, one bit each.
    came: [Vec<u64>; THREADS as usize],
    got_of_slot: [u64; SLOTS],
    reopened: u64,
}

impl Collector {
    fn new(fd: &OwnedFd) -> Collector {
        let segment = attach(fd);
        let reader = |n| Reader::new(&segment.slot(n).unwrap().cursors, segment.buffers(n).unwrap()).unwrap();
        Collector {
            segment,
            readers: (0..SLOTS).map(reader).collect(),
            generations: [0; SLOTS],
            last: [None; SLOTS],
            came: Default::default(),
            got_of_slot: [0; SLOTS],
            reopened: 0,
        }
    }

    /// Visits every slot once and reads what is there. Returns the number of records.
    fn round(&mut self) -> u64 {
        (0..SLOTS).map(|index| self.visit(index)).sum()
    }

    fn visit(&mut self, index: usize) -> u64 {
        let state = &self.segment.slot(index).unwrap().state;
        let (phase, generation) = state.get();
        if matches!(phase, Phase::Free | Phase::Claiming) {
            return 0;
        }
        if generation != self.generations[index] {
            assert_eq!(generation, self.generations[index] + 1, "no owner of a slot was missed");
            self.generations[index] = generation;
            self.readers[index].reopened();
            self.last[index] = None;
            self.reopened += 1;
        }
        let taken = self.drain(index);
        if phase == Phase::Closed {
            state.free(generation);
        }
        taken
    }

    fn drain(&mut self, index: usize) -> u64 {
        let mut out = [0; MAX_RECORD_WORDS];
        let mut taken = 0;
        while let Some(words) = self.readers[index].pop(&mut out).expect("the ring is not corrupt") {
            let (thread, sequence) = ((words[1] >> 48) as usize, words[1] & 0xffff_ffff_ffff);
            let (expected, length) = record(thread as u64, sequence);
            assert_eq!(words, &expected[..length], "the record is complete");
            let last = self.last[index].replace((thread, sequence));
            assert!(last.is_none_or(|(owner, before)| owner == thread && before < sequence), "in order");
            let (word, bit) = (sequence as usize / 64, 1 << (sequence % 64));
            let came = &mut self.came[thread];
            came.resize(came.len().max(word + 1), 0);
            assert_eq!(came[word] & bit, 0, "no record arrives twice");
            came[word] |= bit;
            taken += 1;
            if taken % 512 == 0 {
                self.readers[index].release();
            }
        }
        self.readers[index].release();
        self.got_of_slot[index] += taken;
        taken
    }

    /// Waits until every writing thread has met a full ring.
    fn wait_until_all_are_full(&self, child: &mut Child) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while self.segment.header().live.0.pending.load(Relaxed) < THREADS {
            assert!(
                child.wait(libc::WNOHANG).is_none() && Instant::now() < deadline,
                "the writers make no progress"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn every_record_of_four_threads_arrives_once_and_the_lost_are_counted() {
    const RECORDS: u64 = 1_000_000;
    let fd = create();
    let mut child = Child::fork(|| write_all(&fd, RECORDS));
    let mut collector = Collector::new(&fd);
    collector.wait_until_all_are_full(&mut child);
    let status = loop {
        let taken = collector.round();
        if let Some(status) = child.wait(libc::WNOHANG) {
            break status;
        }
        if taken == 0 {
            std::thread::yield_now();
        }
    };
    assert_eq!(status, 0, "the writers failed");
    collector.round();
    assert_eq!(collector.round(), 0, "everything was closed, drained and freed");

    let (mut published, mut lost) = (0, 0);
    for index in 0..SLOTS {
        let slot = collector.segment.slot(index).unwrap();
        assert_eq!(slot.state.get(), (Phase::Free, collector.generations[index]));
        assert_eq!(
            slot.counters.0.records.load(Relaxed),
            collector.got_of_slot[index],
            "all published records were read"
        );
        published += slot.counters.0.records.load(Relaxed);
        lost += slot.counters.0.lost[LossCause::RingFull as usize].load(Relaxed);
    }
    let got: u64 = collector.came.iter().flatten().map(|word| u64::from(word.count_ones())).sum();
    assert_eq!(got, published);
    assert_eq!(got + lost, THREADS * RECORDS, "every record that did not arrive was counted");
    assert!(lost >= THREADS && got > lost.min(100_000), "{got} read, {lost} lost");
    assert!(collector.reopened > 2 * SLOTS as u64, "slots changed hands: {}", collector.reopened);
}

#[test]
fn records_that_a_killed_process_has_published_are_readable() {
    let mut noise = std::process::id() as u64;
    for _ in 0..6 {
        let fd = create();
        let mut child = Child::fork(|| write_all(&fd, u64::MAX >> 16));
        let mut collector = Collector::new(&fd);
        collector.wait_until_all_are_full(&mut child);
        noise = word_of(noise, 0);
        let kill_at = Instant::now() + Duration::from_micros(noise % 60_000);
        while Instant::now() < kill_at {
            collector.round();
        }
        child.kill();
        let status = child.wait(0).unwrap();
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "{status:#x}");

        collector.round();
        collector.round(); // a slot that was closed just now has no further records
        for index in 0..SLOTS {
            let slot = collector.segment.slot(index).unwrap();
            let (head, tail) = (slot.cursors.head.0.load(Relaxed), slot.cursors.tail.0.load(Relaxed));
            assert_eq!(head, tail, "everything published was read");
            // The last record of a thread may have been published and not yet counted.
            let counted = slot.counters.0.records.load(Relaxed);
            let got = collector.got_of_slot[index];
            assert!(got == counted || got == counted + 1, "{got} read, {counted} counted");
        }
        assert!(collector.came.iter().all(|came| !came.is_empty()), "records of every thread arrived");
    }
}
