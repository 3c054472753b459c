//! Memory of other processes and other APIs. Addresses and sizes are shared, and counted; the bytes are not: each process
//! of the simulator has memory of its own behind them.

use crate::error::{INVALID_CONTEXT, INVALID_VALUE, Outcome};
use crate::handle::{Handle, Kind, Table};
use std::collections::{BTreeMap, HashMap};

/// What a `CUipcMemHandle` or a `CUmemPoolPtrExportData` says, in its 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exported {
    mark: [u8; 8],
    /// The exporting process.
    process: u64,
    /// The allocation's number there, and its size.
    id: u64,
    /// Its size.
    pub bytes: u64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<Exported>() == 64);

impl Exported {
    /// An allocation of this process.
    pub fn new(id: u64, bytes: u64) -> Self {
        Self { mark: *b"simcuda\n", process: std::process::id().into(), id, bytes, rest: [0; 4] }
    }

    /// Whether it is anything that a process exported.
    pub fn check(&self) -> Outcome {
        if self.mark == *b"simcuda\n" { Ok(()) } else { Err(INVALID_VALUE) }
    }

    /// The same, by another process than this.
    pub fn check_foreign(&self) -> Outcome {
        self.check()?;
        // cuIpcOpenMemHandle is for another process's memory; in the exporting one it fails (programming guide, "Interprocess
        // Communication"), with what is an assumption.
        if self.process == u64::from(std::process::id()) { Err(INVALID_CONTEXT) } else { Ok(()) }
    }
}

/// Memory of another API.
#[derive(Debug)]
pub struct External {
    /// Its size.
    pub bytes: u64,
    /// The context that it was imported in.
    pub context: Handle,
}

/// A semaphore of another API: its value, which outlives it, since work may be waiting.
#[derive(Clone, Copy, Debug)]
pub struct Semaphore {
    /// The address of its value.
    pub value: u64,
    /// It only rises, and is waited for by value; else it is set and taken.
    pub timeline: bool,
    /// The context that it was imported in.
    pub context: Handle,
}

/// What is open.
#[derive(Debug)]
pub struct Imports {
    /// Where each handle is open in each context, and how often.
    open: HashMap<(Handle, Exported), u64>,
    counts: BTreeMap<u64, (Handle, Exported, u32)>,
    /// `cuImportExternalMemory`'s.
    pub external: Table<External>,
    /// `cuImportExternalSemaphore`'s.
    pub semaphores: Table<Semaphore>,
}

impl Default for Imports {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            counts: BTreeMap::new(),
            external: Table::new(Kind::External),
            semaphores: Table::new(Kind::Semaphore),
        }
    }
}

impl Imports {
    /// Opens again what is open: its address.
    pub fn again(&mut self, context: Handle, exported: &Exported) -> Option<u64> {
        let address = *self.open.get(&(context, *exported))?;
        self.counts.get_mut(&address)?.2 += 1;
        Some(address)
    }

    /// Opens at an address.
    pub fn opened(&mut self, context: Handle, exported: Exported, address: u64) {
        self.open.insert((context, exported), address);
        self.counts.insert(address, (context, exported, 1));
    }

    /// Closes once. True: for good.
    pub fn closed(&mut self, address: u64) -> Outcome<bool> {
        let (context, exported, count) = self.counts.get_mut(&address).ok_or(INVALID_VALUE)?;
        *count -= 1;
        if *count > 0 {
            return Ok(false);
        }
        self.open.remove(&(*context, *exported));
        self.counts.remove(&address);
        Ok(true)
    }

    /// Whether memory opened with `cuIpcOpenMemHandle` begins at an address.
    pub fn is_open(&self, address: u64) -> bool {
        self.counts.contains_key(&address)
    }

    /// A context goes.
    pub fn forget(&mut self, context: Handle) {
        self.open.retain(|(of, _), _| *of != context);
        self.counts.retain(|_, (of, ..)| *of != context);
        self.external.remove_where(|external| external.context == context);
        self.semaphores.remove_where(|semaphore| semaphore.context == context);
    }
}
