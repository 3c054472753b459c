//! A simulated agent: a real sealed memfd, the writers of the wire crate, and a real socket.

pub mod place;
mod sending;

use gpuspy_wire::handshake::{Hello, WRITTEN, is_settled};
use gpuspy_wire::record::{Head, Intern, Launch, Namespace, Record as _, Work};
use gpuspy_wire::ring::{LEVELS, Writer};
use gpuspy_wire::segment::{
    ENDIANNESS, Header, HostClock, Layout, MAGIC, ProgramName, Segment, Slot, VERSION,
};
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[allow(unused_imports, reason = "each test uses its part")]
pub use sending::{SEALS, memfd, send, try_send};

/// The segment of a process, as its agent uses it.
pub struct FakeAgent {
    pub memfd: OwnedFd,
    pub base: *mut u8,
    pub segment: Segment<'static>,
    socket: Option<UnixStream>,
}

// SAFETY: `base` is used only for plain writes, by tests that are the only owner of the segment.
unsafe impl Sync for FakeAgent {}

/// The body of the test `the_simulated_agent_launches`, which is what [`place::run_script`]'s `$AGENT` and
/// [`place::sample_program`] run: it sends ten launches to the collector.
pub fn launch_for_a_collector() {
    let Some(socket) = std::env::var_os("GPUSPY_SOCKET") else {
        // In an ordinary test run there is no socket. A process that cannot connect must then fail.
        let mut alone = place::sample_program();
        assert!(!alone.env("GPUSPY_SOCKET", "/no/socket").output().unwrap().status.success());
        return;
    };
    let agent = FakeAgent::connect(Path::new(&socket));
    if std::env::var_os("FAKE_HURRIES").is_none() {
        agent.wait_attached();
    }
    let mut thread = agent.thread();
    thread.name(Namespace::Kernel, 1, "saxpy");
    for _ in 0..10 {
        thread.launch(1);
    }
    agent.exiting();
    if std::env::var_os("FAKE_LINGERS").is_some() {
        println!("lingering");
        std::thread::sleep(Duration::from_secs(600));
    }
}

/// Reads CLOCK_MONOTONIC_RAW or CLOCK_REALTIME, in ns.
fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime fills the struct.
    unsafe { libc::clock_gettime(id, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Returns the current time in the ticks of a segment whose clock is `MonotonicRaw`.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC_RAW)
}

fn start_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap()
}

fn program() -> ProgramName {
    let first = std::env::args_os().next().unwrap();
    ProgramName::new(Path::new(&first).file_name().unwrap().as_encoded_bytes())
}

/// Returns a header of this process for a layout.
pub fn header(layout: Layout) -> Header {
    Header {
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
        pid: std::process::id(),
        host_clock: HostClock::MonotonicRaw as u32,
        start_time: start_time(),
        anchor_ticks: now(),
        anchor_monotonic_raw: now(),
        anchor_realtime: clock(libc::CLOCK_REALTIME),
        program: program(),
        ..Header::default()
    }
}

impl FakeAgent {
    /// Creates the segment without connecting to a collector.
    pub fn new(layout: Layout) -> FakeAgent {
        let memfd = memfd(layout.segment_bytes, SEALS);
        // SAFETY: this is a new shared mapping of the whole object, which is never unmapped.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                layout.segment_bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                memfd.as_raw_fd(),
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            base.cast::<Header>().write(header(layout));
            base.cast::<u8>()
        };
        // SAFETY: the mapping is never unmapped and is page-aligned, and there is no `&mut` to it.
        let segment = unsafe { Segment::attach(base, layout.segment_bytes) }.unwrap();
        FakeAgent { memfd, base, segment, socket: None }
    }

    /// Creates a segment with the ticks of the CPU counter, and `anchor` as its first clock anchor.
    pub fn on_counter(anchor: &gpuspy_collector::collect::Pair) -> FakeAgent {
        let agent = FakeAgent::new(Layout::OURS);
        let mut header = header(Layout::OURS);
        header.host_clock = HostClock::Counter as u32;
        (header.anchor_ticks, header.anchor_monotonic_raw) = (anchor.ticks, anchor.ns);
        // SAFETY: this is the first page of the segment, which no other process has yet.
        unsafe { agent.base.cast::<Header>().write(header) };
        agent
    }

    /// Creates the segment and hands it over.
    pub fn connect(socket: &Path) -> FakeAgent {
        let mut agent = FakeAgent::new(Layout::OURS);
        let stream = UnixStream::connect(socket).unwrap();
        agent.greet(&stream);
        agent.socket = Some(stream);
        agent
    }

    /// Sends the Hello and the segment.
    pub fn greet(&self, stream: &UnixStream) {
        let hello = Hello::new(std::process::id(), start_time(), Layout::OURS.segment_bytes);
        send(stream, &hello.to_bytes(), &[self.memfd.as_raw_fd()]);
    }

    /// How often a collector has come or gone.
    pub fn attached(&self) -> u64 {
        self.segment.header().live.0.attached.load(Ordering::Relaxed)
    }

    /// Waits until a collector drains it, at most for some seconds: a collector that cannot write may end before that.
    pub fn wait_attached(&self) {
        let waited = Instant::now();
        while self.attached() == 0 && waited.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Claims a slot for a thread.
    pub fn thread(&self) -> FakeThread {
        let live = &self.segment.header().live.0;
        let claim = live.claims.fetch_add(1, Ordering::Relaxed) + 1;
        loop {
            for n in 1..self.segment.layout().slots as usize {
                let slot = self.segment.slot(n).unwrap();
                let Some(generation) = slot.state.claim() else { continue };
                let buffers = self.segment.buffers(n).unwrap();
                let writer = Writer::claim(&slot.cursors, buffers[0]).unwrap();
                slot.tid.store(1000 + claim, Ordering::Relaxed);
                slot.claim.store(claim, Ordering::Relaxed);
                slot.state.open(generation);
                return FakeThread { slot, number: n, generation, writer, buffers, claim, count: 0 };
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Does what the exit handler of an agent does last.
    pub fn exiting(&self) {
        self.segment.header().live.0.exiting.store(1, Ordering::Release);
    }

    /// Does what that handler does where it has started the collector: waits until the trace is written.
    pub fn waits_at_exit(&self) {
        self.exiting();
        let mut socket = self.socket.as_ref().unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        while !is_settled(&said) {
            let mut part = [0; 64];
            let count = socket.read(&mut part).unwrap();
            assert_ne!(count, 0, "the collector has left: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&part[..count]);
        }
        assert!(said.ends_with(WRITTEN.as_bytes()), "{}", String::from_utf8_lossy(&said));
    }
}

/// The writing end of a thread.
pub struct FakeThread {
    slot: &'static Slot,
    pub number: usize,
    generation: u64,
    writer: Writer<'static, AtomicU64>,
    buffers: [&'static [AtomicU64]; LEVELS],
    pub claim: u64,
    count: u64,
}

impl FakeThread {
    /// Writes a record and grows the ring as an agent does. Unlike an agent, it waits for room.
    pub fn push(&mut self, words: &[u64]) {
        while self.writer.push(words).is_err() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let counters = &self.slot.counters.0;
        counters.records.fetch_add(1, Ordering::Relaxed);
        if self.writer.is_half_full() {
            self.grow();
        }
    }

    /// Moves to the next buffer, if there is one.
    pub fn grow(&mut self) {
        if let Some(buffer) = self.buffers.get(self.writer.level() + 1) {
            self.writer.grow(buffer);
        }
    }

    /// Writes a launch of kernel `kernel` with the next correlation of the thread.
    pub fn launch(&mut self, kernel: u32) {
        self.launch_at(kernel, now());
    }

    /// Writes a launch that starts at a given tick.
    pub fn launch_at(&mut self, kernel: u32, begin: u64) {
        self.count += 1;
        let mut launch =
            Launch { kernel, grid: [self.count as u32, 1, 1], block: [32, 1, 1], ..Launch::default() };
        launch.work = Work {
            head: Head { api: 1, via: 1, ..Head::new::<Launch>() },
            correlation: self.claim << 40 | self.count,
            begin,
            submitted: begin + 1,
            end: begin + 2,
            untimed: 6,
            ..Work::default()
        };
        self.slot.counters.0.calls.fetch_add(1, Ordering::Relaxed);
        self.push(launch.as_words());
    }

    /// Writes the text of an ID.
    pub fn name(&mut self, namespace: Namespace, id: u32, text: &str) {
        let cells = Intern::cells(text.len());
        let mut bytes = vec![0u8; cells * 64];
        bytes[0] = 12;
        bytes[1] = cells as u8;
        bytes[2] = 1;
        bytes[8..12].copy_from_slice(&id.to_ne_bytes());
        bytes[12..14].copy_from_slice(&(text.len() as u16).to_ne_bytes());
        bytes[14] = namespace as u8;
        bytes[16..16 + text.len()].copy_from_slice(text.as_bytes());
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap())).collect();
        self.push(&words);
    }

    /// Counts a loss in the slot, outside the ring, as an agent does.
    pub fn lose(&self, cause: gpuspy_wire::record::LossCause, count: u64) {
        self.slot.counters.0.lost[cause as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Waits until a collector has taken everything.
    pub fn wait_until_read(&self) {
        let is_read = |slot: &Slot| {
            slot.cursors.head.0.load(Ordering::Acquire) == slot.cursors.tail.0.load(Ordering::Relaxed)
        };
        while !is_read(self.slot) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the thread.
    pub fn close(self) {
        self.slot.state.close(self.generation);
    }
}
