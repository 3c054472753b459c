//! Which calls copy, and of what kind are their copies? One row for each API, place in the program, and kind.

use super::analysis::{Analysis, End, Start};
use super::calls::api_name;
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use super::source::Source;
use super::transfers::SizeClass;
use crate::hash::HashMap;
use crate::model::stacks::Caller;
use crate::model::transfer::{HostMemory, TransferKind, blocks_host};
use crate::model::{Action, Event, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// The most places in the program that are kept apart; the copies of others are in no row.
const MOST: usize = 1024;

/// A kind of copies or memsets, and who makes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopySite {
    /// The API, by its [`base_name`](super::calls::base_name).
    pub api: String,
    /// Where it is called.
    pub source: Source,
    /// The direction, or memset.
    pub kind: TransferKind,
    /// The host's side.
    pub host_memory: HostMemory,
    /// Whether the call returns only when the copy is done.
    pub blocks: bool,
    /// The size of one.
    pub size: SizeClass,
    /// Whether they are of the [set-up](Event::is_setting_up) before the steps.
    pub sets_up: bool,
    /// Whether each follows a kernel that [selects](is_selection) elements: it reads how many there are.
    pub of_selection: bool,
}

/// The copies of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many.
    pub count: u64,
    /// The bytes that they moved.
    pub bytes: u64,
    /// How many were timed.
    pub timed: u64,
    /// The time of the timed ones, ns.
    pub time: Sum,
    /// The host's time in their calls, ns.
    pub host_ns: u64,
    /// ns from the start of the collection to the first call.
    pub first: u64,
    /// The system's id of the thread that made the first call, if known.
    pub tid: Option<u32>,
}

impl Merge for Copied {
    fn merge(&mut self, other: &Copied) {
        if self.count == 0 || other.first < self.first {
            (self.first, self.tid) = (other.first, other.tid);
        }
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.timed += other.timed;
        self.time.add(other.time);
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
    }
}

/// Copies and memsets by site.
pub type CopySites = BTreeMap<CopySite, Copied>;

/// A site, as the records name it: the API's number, where it is called, and the rest of [`CopySite`].
type Key = (u16, Caller, TransferKind, HostMemory, bool, SizeClass, [bool; 2]);

/// Whether a kernel, by its symbol, counts the elements that a mask selects, or gathers them, with CUB: the program has to know their
/// number before it can go on (`aten/src/ATen/native/cuda/Nonzero.cu`). PyTorch's own sums are other kernels.
fn is_selection(symbol: &str) -> bool {
    ["DeviceReduce", "DeviceSelect", "DeviceCompactInit"].iter().any(|part| symbol.contains(part))
}

/// The analysis.
#[derive(Debug)]
pub struct CopyCalls<'a> {
    names: &'a Names,
    threads: Option<&'a BTreeMap<u32, u32>>,
    began: u64,
    sites: HashMap<Key, Copied>,
    /// The last kernel of each thread, by its number among the names.
    kernels: HashMap<u32, u32>,
    /// Kernels of which it is known whether they select.
    selections: HashMap<u32, bool>,
}

impl CopyCalls<'_> {
    /// Whether the last kernel of a thread selects.
    fn follows_selection(&mut self, thread: u32) -> bool {
        let Some(&kernel) = self.kernels.get(&thread) else { return false };
        let symbol = || self.names.get(Namespace::Kernel, kernel);
        *self.selections.entry(kernel).or_insert_with(|| symbol().is_some_and(is_selection))
    }
}

impl<'a> Analysis<'a> for CopyCalls<'a> {
    type Rows = CopySites;

    fn new(start: &Start<'a>) -> Self {
        let threads = start.status.map(|status| &status.threads);
        CopyCalls {
            names: start.names,
            threads,
            began: start.began,
            sites: HashMap::default(),
            kernels: HashMap::default(),
            selections: HashMap::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let (Some(operation), Body::Work(work)) = (scope.operation(), &event.record.body) else { return };
        let thread = event.record.thread;
        if let Action::Kernel { name, .. } = operation.what {
            self.kernels.insert(thread, name);
        }
        let Action::Transfer { kind, host_memory, bytes } = operation.what else { return };
        if operation.when == When::Captured {
            return;
        }
        let blocks = blocks_host(work.call.flags, operation.what.moved());
        let of_selection = kind == TransferKind::DtoH && self.follows_selection(thread);
        let key = (
            work.call.api,
            operation.caller,
            kind,
            host_memory,
            blocks,
            SizeClass::of(bytes),
            [event.is_setting_up && event.step.is_none(), of_selection],
        );
        if self.sites.len() >= MOST && !self.sites.contains_key(&key) {
            return;
        }
        let time = match operation.when {
            When::Timed(interval) => {
                Some(Sum { value: interval.value(), lo: interval.lo(), hi: interval.hi() })
            }
            _ => None,
        };
        self.sites.entry(key).or_default().merge(&Copied {
            count: 1,
            bytes,
            timed: u64::from(time.is_some()),
            time: time.unwrap_or_default(),
            host_ns: event.call.map_or(0, |call| call.host_ns),
            first: operation.called.saturating_sub(self.began),
            tid: self.threads.and_then(|threads| threads.get(&event.record.thread).copied()),
        });
    }

    fn finish(self, end: &End<'_>) -> CopySites {
        let mut rows = CopySites::new();
        for ((api, caller, kind, host_memory, blocks, size, [sets_up, of_selection]), copied) in self.sites {
            let (api, source) = (api_name(self.names, api), end.source(caller));
            let site = CopySite { api, source, kind, host_memory, blocks, size, sets_up, of_selection };
            rows.entry(site).or_default().merge(&copied);
        }
        rows
    }
}
