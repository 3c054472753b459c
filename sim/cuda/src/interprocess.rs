//! Events that several processes share (`CU_EVENT_INTERPROCESS`): the last record of each is described in memory that
//! all of them map. All simulated processes of a machine use the same clock, so an end time means the same to each.

use crate::engine::Done;
use crate::error::{INVALID_CONTEXT, INVALID_HANDLE, OUT_OF_MEMORY, Outcome};
use crate::handle::Handle;
use crate::state::{Recorded, State};
use crate::virtual_memory::{memory_file, shared_page};
use crate::work::{Action, Job};
use crate::{clocks::Ns, engine::Length};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes from one cell to the next in a file: one page, so that each cell can be mapped alone.
pub const PAGE: u64 = 4096;
/// The number of records whose ends are kept, so that this many later records do not disturb a process that waits for
/// an earlier one.
const KEPT: usize = 256;
/// The end of a record that waits for a gate.
const OPEN: Ns = Ns::MAX;

/// The part of an event that all processes map.
#[repr(C)]
struct Cell {
    /// The number of records that were started in all processes.
    begun: AtomicU64,
    /// The number of the last readable record; 0 if it was never recorded. Its release pairs with the acquire in
    /// `last`.
    last: AtomicU64,
    /// Host ns at which each of the last records is done. Their release pairs with the acquire in `end`.
    ends: [AtomicU64; KEPT],
}

const _: () = assert!(size_of::<Cell>() <= PAGE as usize);

/// The contents of a `CUipcEventHandle`, which has 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExportedEvent {
    mark: [u8; 8],
    /// The process that created the event, the descriptor of its file there, and the event's cell in the file.
    process: u64,
    file: u64,
    cell: u64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<ExportedEvent>() == 64);

/// A shared event's cell, mapped into this process.
#[derive(Debug)]
pub struct Mapped(*mut Cell);

// SAFETY: a cell consists of atomics, in memory that stays mapped as long as this value lives.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: a page that `map` mapped and that nothing uses any more.
        unsafe { libc::munmap(self.0.cast(), PAGE as usize) };
    }
}

impl Mapped {
    fn map(file: &File, cell: u64) -> Outcome<Self> {
        Ok(Self(shared_page(file, cell * PAGE)? as *mut Cell))
    }

    fn cell(&self) -> &Cell {
        // SAFETY: the page is mapped, was zeroed by the system, and consists of atomics.
        unsafe { &*self.0 }
    }

    /// Publishes a record and returns its number.
    fn record(&self, end: Option<Ns>) -> u64 {
        let cell = self.cell();
        let number = cell.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.ended(number, end.unwrap_or(OPEN));
        cell.last.fetch_max(number, Ordering::Release);
        number
    }

    fn ended(&self, number: u64, end: Ns) {
        self.cell().ends[number as usize % KEPT].store(end, Ordering::Release);
    }

    fn last(&self) -> u64 {
        self.cell().last.load(Ordering::Acquire)
    }

    /// Returns when a record is done, if that is known.
    pub fn end(&self, number: u64) -> Option<Ns> {
        Some(self.cell().ends[number as usize % KEPT].load(Ordering::Acquire)).filter(|&end| end != OPEN)
    }
}

/// This process's view of a shared event.
#[derive(Clone, Debug)]
pub struct Shared {
    cell: Arc<Mapped>,
    /// What other processes open it with, if this process created it.
    exported: Option<ExportedEvent>,
    /// The number of the last record that this process has read.
    known: u64,
}

/// The shared events that this process created, and its records of shared events.
#[derive(Debug, Default)]
pub struct SharedEvents {
    file: Option<File>,
    cells: u64,
    /// Records of this process that wait for a gate.
    pending: Vec<(Done, Arc<Mapped>, u64)>,
}

impl SharedEvents {
    /// Creates a shared event.
    pub fn create(&mut self) -> Outcome<Shared> {
        if self.file.is_none() {
            self.file = Some(memory_file(0)?);
        }
        let file = self.file.as_ref().ok_or(OUT_OF_MEMORY)?;
        let cell = self.cells;
        file.set_len((cell + 1) * PAGE).map_err(|_| OUT_OF_MEMORY)?;
        let mapped = Arc::new(Mapped::map(file, cell)?);
        self.cells += 1;
        let (process, file) = (std::process::id().into(), file.as_raw_fd() as u64);
        let exported = ExportedEvent { mark: *b"simevent", process, file, cell, rest: [0; 4] };
        Ok(Shared { cell: mapped, exported: Some(exported), known: 0 })
    }

    /// Publishes the ends of records whose gate has opened.
    pub fn publish_ended(&mut self) {
        self.pending
            .retain(|(done, cell, number)| done.end().inspect(|&end| cell.ended(*number, end)).is_none());
    }
}

impl Shared {
    /// Returns what other processes open the event with. This process cannot export another process's event (an
    /// assumption).
    pub fn export(&self) -> Outcome<ExportedEvent> {
        self.exported.ok_or(INVALID_HANDLE)
    }

    /// Opens another process's event.
    pub fn open(exported: &ExportedEvent) -> Outcome<Self> {
        if &exported.mark != b"simevent" {
            return Err(INVALID_HANDLE);
        }
        // cuda.h, cuIpcOpenEventHandle: "exported from another process". The error for the exporting process is an
        // assumption.
        if exported.process == u64::from(std::process::id()) {
            return Err(INVALID_CONTEXT);
        }
        let path = format!("/proc/{}/fd/{}", exported.process, exported.file);
        let file = File::options().read(true).write(true).open(path).map_err(|_| INVALID_HANDLE)?;
        let known = 0;
        Ok(Self { cell: Arc::new(Mapped::map(&file, exported.cell)?), exported: None, known })
    }
}

impl State {
    /// Publishes an event's record, if other processes share the event.
    pub fn share(&mut self, event: Handle, done: &Done) {
        let Some(shared) = self.events.get_mut(event).and_then(|event| event.shared.as_mut()) else { return };
        shared.known = shared.cell.record(done.end());
        if done.end().is_none() {
            self.shared_events.pending.push((done.clone(), shared.cell.clone(), shared.known));
        }
    }

    /// Reads another process's last record of an event, if there is one.
    pub fn learn(&mut self, event: Handle) {
        let Some(shared) = self.events.get_mut(event).and_then(|event| event.shared.as_mut()) else { return };
        let last = shared.cell.last();
        if last == shared.known {
            return;
        }
        shared.known = last;
        let done = match shared.cell.end(last) {
            Some(end) => Done::At(end),
            None => {
                let action = Action::Elsewhere { cell: shared.cell.clone(), number: last };
                self.add(&[], Length::Gate, None, Job { action, truth: None })
            }
        };
        if let Some(event) = self.events.get_mut(event) {
            event.recorded = Recorded::Stream(done);
        }
    }
}
