//! The tables of operations: kernels, copies, memsets, graph launches, and what was timed together.

use super::context::{Context, Site};
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::analyze::collectives::Launched;
use crate::hash::HashMap;
use crate::model::facts::Shape;
use crate::model::gpu_interval::{GpuInterval, clock_name};
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::{Body, What, Work};

/// The groups of an operation's columns.
const STATE: usize = 0;
const PLACE: usize = 1;
const CALLED: usize = 2;
const KIND: usize = 3;

/// The most columns of an operation with a number for each row.
const MOST_OWN: usize = 17;

/// Whether an operation has a time, the time base that its clock is if that is not the host's, and why it has none.
type State = (bool, Option<u32>, &'static str);

/// What is common to the tables of operations.
#[derive(Debug, Default)]
struct Common {
    states: Entries<State>,
    /// By context, stream and thread.
    places: Entries<(u32, u64, u32)>,
    sites: Entries<Site>,
}

/// A kernel's launch: its name, its context, grid and block, its dynamic shared memory, and whether it communicates.
type Launch = (u32, u32, [u32; 3], [u32; 3], u32, bool);

/// A copy: its kind, its host memory, whether its API is asynchronous, and its rows.
type Copy = (TransferKind, u8, bool, u32);

/// A memset: its value, whether its API is asynchronous, and its rows.
type Set = (u32, bool, u32);

/// The tables.
#[derive(Debug, Default)]
pub(super) struct Operations {
    kernel: (Common, Entries<Launch>),
    memcpy: (Common, Entries<Copy>),
    memset: (Common, Entries<Set>),
    /// By the number of kernels, copies and memsets.
    graph: (Common, Entries<(u32, u32, u32)>),
    /// By whether it is a run, and the number of launches and of ordinary ones.
    burst: (Common, Entries<(bool, u32, u32)>),
    bursts: Bursts,
    node_states: Entries<State>,
    node_places: Entries<u32>,
    node_kernels: Entries<u32>,
}

/// The numbers of runs and bursts, which their launches have, too. The record of one comes after those of its launches.
#[derive(Debug, Default)]
struct Bursts {
    /// By context and stream: that of the one whose launches are coming.
    open: HashMap<(u32, u64), i64>,
    /// How many there were.
    count: i64,
}

impl Bursts {
    /// Returns the number of the run or burst that an operation is, or is part of; each operation has to come here.
    fn of(&mut self, operation: &Operation) -> Option<i64> {
        let (key, next) = ((operation.context, operation.stream), self.count + 1);
        let number = match (operation.what, &operation.when) {
            (Action::Burst { .. }, _) => self.open.remove(&key).unwrap_or(next),
            (Action::Kernel { .. }, When::Untimed { after: None, .. }) => {
                *self.open.entry(key).or_insert(next)
            }
            _ => return None,
        };
        self.count = self.count.max(number);
        Some(number)
    }
}

impl Operations {
    /// Takes the next event. `operation` is what counts of its operation, without the parts of a graph or a burst that the filter
    /// leaves out; `launched` are its numbers if it is a communication kernel.
    pub fn observe(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        (operation, launched): (Option<&Operation>, Option<Launched>),
    ) {
        let burst = event.operation.as_ref().and_then(|operation| self.bursts.of(operation));
        if let Some(operation) = operation {
            self.add(of, rows, event, (operation, launched, burst));
        }
    }

    fn add(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        (operation, launched, in_burst): (&Operation, Option<Launched>, Option<i64>),
    ) {
        if operation.when == When::Captured {
            return;
        }
        let Body::Work(work) = &event.record.body else { return };
        match operation.what {
            Action::Kernel { name, communication } => {
                self.kernel(of, rows, (event, operation, work), (name, communication, launched, in_burst));
            }
            Action::Transfer { kind: TransferKind::Memset, bytes, .. } => {
                self.memset(of, rows, (event, operation, work), bytes);
            }
            Action::Transfer { kind, host_memory, bytes } => {
                self.memcpy(of, rows, (event, operation, work), (kind, host_memory, bytes));
            }
            Action::Graph { kernels } => self.graph(of, rows, (event, operation, work), kernels),
            Action::Burst { launches, ordinary, .. } => {
                let key = (operation.what.is_run(), launches, ordinary);
                let (common, kinds) = &mut self.burst;
                let kind = rows.entry((Table::Burst, KIND), kinds, key, || {
                    let name = if key.0 { "run" } else { "burst" };
                    vec![Cell::text(Some(name)), Cell::number(Some(launches)), Cell::number(Some(ordinary))]
                });
                common.add(of, rows, Table::Burst, (event, operation, work), &[in_burst], kind);
            }
        }
    }

    fn kernel(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        this: This<'_>,
        (name, talks, launched, in_burst): (u32, bool, Option<Launched>, Option<i64>),
    ) {
        let (grid, block, dynamic) = match this.2.what {
            What::Kernel { grid, block, shared_bytes, .. } => (grid, block, shared_bytes),
            _ => ([0; 3], [0; 3], 0),
        };
        let context = this.1.context;
        let (common, kinds) = &mut self.kernel;
        let key = (name, context, grid, block, dynamic, talks);
        let kind = rows.entry((Table::Kernel, KIND), kinds, key, || {
            let known = of.facts.of(&Shape::of(name, context, block, dynamic)).map(|known| &known.facts);
            let registers = known.map(|facts| facts.registers).filter(|registers| *registers > 0);
            let fixed = known.map(|facts| facts.static_shared_bytes);
            let local = known.map(|facts| facts.local_bytes);
            let [registers, fixed, local] = [registers.map(u32::from), fixed, local].map(Cell::number);
            let size = grid.into_iter().chain(block).map(|number| Cell::number(Some(number)));
            let mut cells: Vec<Cell> = of.kernel(name).into_iter().chain(size).collect();
            cells.extend([registers, fixed, Cell::number(Some(dynamic)), local, talks.into()]);
            cells
        });
        let launched = launched.map(|one| [one.number, one.place].map(fitted));
        let numbers = [launched.map(|[number, _]| number), launched.map(|[_, place]| place), in_burst];
        common.add(of, rows, Table::Kernel, this, &numbers, kind);
    }

    fn memcpy(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        this: This<'_>,
        (kind, host, bytes): (TransferKind, HostMemory, u64),
    ) {
        let (asynchronous, lines) = match this.2.what {
            What::Memcpy { asynchronous, rows, .. } => (asynchronous, rows),
            _ => (false, 1),
        };
        let (common, kinds) = &mut self.memcpy;
        let key = (kind, host as u8, asynchronous, lines);
        let entry = rows.entry((Table::Memcpy, KIND), kinds, key, || {
            let (number, from, to) = cupti(kind, host);
            let numbers = [number, from, to].map(Cell::Number);
            let texts = [kind.name(), host.name()].map(|name| Cell::text(Some(name)));
            let rest = [asynchronous.into(), Cell::number(Some(lines))];
            numbers.into_iter().chain(texts).chain(rest).collect()
        });
        common.add(of, rows, Table::Memcpy, this, &[Some(fitted(bytes))], entry);
    }

    fn memset(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, this: This<'_>, bytes: u64) {
        let (value, asynchronous, lines) = match this.2.what {
            What::Memset { value, asynchronous, rows, .. } => (value, asynchronous, rows),
            _ => (0, false, 1),
        };
        let (common, kinds) = &mut self.memset;
        let entry = rows.entry((Table::Memset, KIND), kinds, (value, asynchronous, lines), || {
            let texts = [TransferKind::Memset.name(), HostMemory::None.name()];
            let texts = texts.map(|name| Cell::text(Some(name)));
            let rest = [asynchronous.into(), Cell::number(Some(lines))];
            [Cell::number(Some(value))].into_iter().chain(texts).chain(rest).collect()
        });
        common.add(of, rows, Table::Memset, this, &[Some(fitted(bytes))], entry);
    }

    fn graph(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, this: This<'_>, kernels: u32) {
        let (graph, copies, memsets) = match this.2.what {
            What::Graph { graph, copies, memsets, .. } => (graph, copies, memsets),
            _ => (0, 0, 0),
        };
        let (common, kinds) = &mut self.graph;
        let entry = rows.entry((Table::Graph, KIND), kinds, (kernels, copies, memsets), || {
            [kernels, copies, memsets].map(|number| Cell::number(Some(number))).to_vec()
        });
        let graph = (graph != 0).then_some(i64::from(graph));
        common.add(of, rows, Table::Graph, this, &[graph], entry);
    }

    /// Adds when a node of a graph ran.
    pub fn node(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, event: &Event<'_>, ran: &GpuInterval) {
        let Body::NodeTime(node) = &event.record.body else { return };
        let table = Table::GraphNode;
        let state = rows.entry((table, STATE), &mut self.node_states, timed(ran), || state(timed(ran)));
        let place = rows.entry((table, PLACE), &mut self.node_places, node.context, || {
            let device = of.devices.get(&node.context).copied();
            let [process, pid] = of.whose();
            vec![Cell::number(device), Cell::number(Some(node.context)), of.global_pid(), process, pid]
        });
        let kernel =
            rows.entry((table, 2), &mut self.node_kernels, node.kernel, || of.kernel(node.kernel).to_vec());
        let mut own = times(Some(ran)).to_vec();
        own.extend([Some(fitted(node.correlation)), Some(i64::from(node.node))]);
        rows.add(table, &own, &[state, place, kernel]);
    }
}

/// An event, its operation as far as it passes the filter, and its record.
type This<'e> = (&'e Event<'e>, &'e Operation, &'e Work);

impl Common {
    /// Adds a row. `more` are numbers that only this kind of operation has.
    fn add(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        table: Table,
        (event, operation, work): This<'_>,
        more: &[Option<i64>],
        kind: u32,
    ) {
        let (ran, key) = match &operation.when {
            When::Timed(ran) => (Some(ran), timed(ran)),
            When::Untimed { reason, .. } => (None, (false, None, reason.name())),
            When::Captured => return,
        };
        let (thread, call) = (event.record.thread, &work.call);
        let Operation { context, stream, device, .. } = *operation;
        let state = rows.entry((table, STATE), &mut self.states, key, || state(key));
        let place = rows.entry((table, PLACE), &mut self.places, (context, stream, thread), || {
            let number = of.filter.number_of(context, stream);
            let context = Cell::number((context != 0).then_some(context));
            let (stream, [process, pid]) = (Cell::number(Some(number)), of.whose());
            vec![Cell::number(device), context, stream, of.global_pid(), process, pid, of.tid(thread)]
        });
        let site = of.site(call);
        let called = rows.entry((table, CALLED), &mut self.sites, site, || of.called(site));
        let [start, end, start_least, start_most, end_least, end_most, dur, dur_least, dur_most] = times(ran);
        let common = [
            start,
            end,
            start_least,
            start_most,
            end_least,
            end_most,
            dur,
            dur_least,
            dur_most,
            Some(of.correlation(thread, call)),
            Some(fitted(operation.correlation)),
            Some(fitted(call.begin)),
            Some(fitted(call.end)),
            event.step.map(fitted),
        ];
        let (mut own, count) = ([None; MOST_OWN], common.len() + more.len());
        own[..common.len()].copy_from_slice(&common);
        own[common.len()..count].copy_from_slice(more);
        rows.add(table, &own[..count], &[state, place, called, kind]);
    }
}

/// What is said of an operation that has a time.
fn timed(ran: &GpuInterval) -> State {
    (true, ran.off_by.is_none().then_some(ran.time_base), "")
}

fn state((timed, time_base, untimed): State) -> Vec<Cell> {
    let clock = timed.then(|| clock_name(time_base));
    vec![timed.into(), Cell::text((!timed).then_some(untimed)), Cell::text(clock)]
}

/// When an operation ran, with bounds, and how long.
fn times(ran: Option<&GpuInterval>) -> [Option<i64>; 9] {
    let Some(ran) = ran else { return [None; 9] };
    let [start, end] = ran.bounds();
    let [value, lo, hi] = [ran.value(), ran.lo(), ran.hi()].map(fitted);
    [ran.start, ran.end, start.0, start.1, end.0, end.1, value, lo, hi].map(Some)
}

/// CUPTI's kinds of memory.
const PAGEABLE: i64 = 1;
const PINNED: i64 = 2;
const DEVICE: i64 = 3;
const MANAGED: i64 = 5;

/// CUPTI's number of a copy's kind, and of the kinds of memory on both sides (cupti_activity.h: CUpti_ActivityMemcpyKind,
/// CUpti_ActivityMemoryKind).
fn cupti(kind: TransferKind, host: HostMemory) -> (i64, i64, i64) {
    let host = match host {
        HostMemory::Pageable => PAGEABLE,
        HostMemory::Pinned => PINNED,
        HostMemory::Managed => MANAGED,
        HostMemory::None => DEVICE,
    };
    match kind {
        TransferKind::HtoD => (1, host, DEVICE),
        TransferKind::DtoH => (2, DEVICE, host),
        TransferKind::DtoD | TransferKind::Memset => (8, DEVICE, DEVICE),
        TransferKind::HtoH => (9, host, host),
        TransferKind::PtoP => (10, DEVICE, DEVICE),
    }
}
