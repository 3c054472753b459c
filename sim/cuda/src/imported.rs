//! Memory of other processes and other APIs. Addresses and sizes are shared and counted. The bytes are not: each
//! simulated process has memory of its own behind them.

use crate::error::{INVALID_CONTEXT, INVALID_VALUE, Outcome};
use crate::handle::{Handle, Kind, Table};
use std::collections::{BTreeMap, HashMap};

/// The contents of a `CUipcMemHandle` or `CUmemPoolPtrExportData`, which have 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exported {
    mark: [u8; 8],
    /// The exporting process.
    process: u64,
    /// The allocation's number in that process.
    id: u64,
    /// Its size.
    pub bytes: u64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<Exported>() == 64);

impl Exported {
    /// Describes an allocation of this process.
    pub fn new(id: u64, bytes: u64) -> Self {
        Self { mark: *b"simcuda\n", process: std::process::id().into(), id, bytes, rest: [0; 4] }
    }

    /// Fails unless a simulated process exported it.
    pub fn check(&self) -> Outcome {
        if self.mark == *b"simcuda\n" { Ok(()) } else { Err(INVALID_VALUE) }
    }

    /// Fails unless another process exported it.
    pub fn check_foreign(&self) -> Outcome {
        self.check()?;
        // cuIpcOpenMemHandle opens another process's memory and fails in the exporting process (programming guide,
        // "Interprocess Communication"). The error code is an assumption.
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

/// A semaphore of another API. Its value outlives it, because work may still wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Semaphore {
    /// The address of its value.
    pub value: u64,
    /// Whether it is a timeline, whose value only rises and is waited for by value; otherwise it is set and reset.
    pub timeline: bool,
    /// The context that it was imported in.
    pub context: Handle,
}

/// The imported objects.
#[derive(Debug)]
pub struct Imports {
    /// The address of each open handle in each context, and how often it is open.
    open: HashMap<(Handle, Exported), u64>,
    counts: BTreeMap<u64, (Handle, Exported, u32)>,
    /// Objects from `cuImportExternalMemory`.
    pub external: Table<External>,
    /// Objects from `cuImportExternalSemaphore`.
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
    /// Opens an open handle once more and returns its address.
    pub fn again(&mut self, context: Handle, exported: &Exported) -> Option<u64> {
        let address = *self.open.get(&(context, *exported))?;
        self.counts.get_mut(&address)?.2 += 1;
        Some(address)
    }

    /// Notes that a handle was opened at an address.
    pub fn opened(&mut self, context: Handle, exported: Exported, address: u64) {
        self.open.insert((context, exported), address);
        self.counts.insert(address, (context, exported, 1));
    }

    /// Closes a handle once. Returns whether it is no longer open at all.
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

    /// Returns whether memory opened with `cuIpcOpenMemHandle` starts at an address.
    pub fn is_open(&self, address: u64) -> bool {
        self.counts.contains_key(&address)
    }

    /// Forgets the objects of a context that ended.
    pub fn forget(&mut self, context: Handle) {
        self.open.retain(|(of, _), _| *of != context);
        self.counts.retain(|_, (of, ..)| *of != context);
        self.external.remove_where(|external| external.context == context);
        self.semaphores.remove_where(|semaphore| semaphore.context == context);
    }
}
