//! Events that several processes share (`CU_EVENT_INTERPROCESS`): what each was recorded behind last stands in memory that
//! all of them see. All simulators of a machine tell time by one clock, so an end is the same number to everybody.

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

/// Bytes from one cell to the next in a file: what can be mapped by itself.
pub const PAGE: u64 = 4096;
/// Records whose ends are kept: who waits for one is not led astray by so many later ones.
const KEPT: usize = 256;
/// The end of a record that stands behind a gate.
const OPEN: Ns = Ns::MAX;

/// What all processes know of an event.
#[repr(C)]
struct Cell {
    /// The number of records begun, in all processes.
    begun: AtomicU64,
    /// The number of the last record that can be read; 0 = never recorded. Its release partners with the acquire in `last`.
    last: AtomicU64,
    /// Host ns at which each of the last records is done. Their release partners with the acquire in `end`.
    ends: [AtomicU64; KEPT],
}

const _: () = assert!(size_of::<Cell>() <= PAGE as usize);

/// What a `CUipcEventHandle` says, in its 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExportedEvent {
    mark: [u8; 8],
    /// The process that made the event, the descriptor of its file there, and the event's cell in it.
    process: u64,
    file: u64,
    cell: u64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<ExportedEvent>() == 64);

/// A shared event's cell, mapped here.
#[derive(Debug)]
pub struct Mapped(*mut Cell);

// SAFETY: a cell is atomics only, in memory that stays mapped as long as this lives.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: a page that `map` mapped, and nobody has any more.
        unsafe { libc::munmap(self.0.cast(), PAGE as usize) };
    }
}

impl Mapped {
    fn map(file: &File, cell: u64) -> Outcome<Self> {
        Ok(Self(shared_page(file, cell * PAGE)? as *mut Cell))
    }

    fn cell(&self) -> &Cell {
        // SAFETY: mapped, zeroed by the system, of atomics only.
        unsafe { &*self.0 }
    }

    /// Tells of a record: its number.
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

    /// When a record is done, where that is known.
    pub fn end(&self, number: u64) -> Option<Ns> {
        Some(self.cell().ends[number as usize % KEPT].load(Ordering::Acquire)).filter(|&end| end != OPEN)
    }
}

/// An event's share in what all know of it.
#[derive(Clone, Debug)]
pub struct Shared {
    cell: Arc<Mapped>,
    /// Where it can be opened, if it was made here.
    exported: Option<ExportedEvent>,
    /// The number of the last record that this process knows of.
    known: u64,
}

/// The events that this process made to be shared, and its records of shared ones.
#[derive(Debug, Default)]
pub struct SharedEvents {
    file: Option<File>,
    cells: u64,
    /// Records of this process that stand behind a gate.
    pending: Vec<(Done, Arc<Mapped>, u64)>,
}

impl SharedEvents {
    /// A new event's share.
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

    /// Tells the others of records whose gate has opened.
    pub fn tell_ended(&mut self) {
        self.pending
            .retain(|(done, cell, number)| done.end().inspect(|&end| cell.ended(*number, end)).is_none());
    }
}

impl Shared {
    /// What other processes open the event with. An event of another process is not ours to export (an assumption).
    pub fn export(&self) -> Outcome<ExportedEvent> {
        self.exported.ok_or(INVALID_HANDLE)
    }

    /// Opens another process's event.
    pub fn open(exported: &ExportedEvent) -> Outcome<Self> {
        if &exported.mark != b"simevent" {
            return Err(INVALID_HANDLE);
        }
        // cuda.h, cuIpcOpenEventHandle: "exported from another process"; what its own gets is an assumption.
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
    /// Tells the other processes of an event's record, if they share it.
    pub fn share(&mut self, event: Handle, done: &Done) {
        let Some(shared) = self.events.get_mut(event).and_then(|event| event.shared.as_mut()) else { return };
        shared.known = shared.cell.record(done.end());
        if done.end().is_none() {
            self.shared_events.pending.push((done.clone(), shared.cell.clone(), shared.known));
        }
    }

    /// Learns of another process's last record of an event, if there was one.
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
