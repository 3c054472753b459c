//! The lines of the program, by what they cause: calls, launches, the time of the GPU, idle time, waits, bytes.
//!
//! A line is the user's frame of a call ([`line_of`](crate::model::stacks::Stacks::line_of)), of Python or native. Calls
//! without one are a row of their own, so that the rows sum to the whole. Idle time counts for the line whose operation
//! ended the gap, as in the table of libraries. Untimed operations are assumed to take as long as the timed ones of their
//! line and kernel (per byte, if they are transfers): [`shares`]. The lines of a kernel, or of a kind of transfers, have
//! together the time that its own table says ([`SourceLines::fit`]).

mod shares;

use super::analysis::{Analysis, End, Start};
use super::calls::api_name;
use super::estimate::Sum;
use super::gaps::Part;
use super::kernels::{Kernel, UNKNOWN};
use super::merge::Merge;
use super::scope::Scope;
use super::source;
use super::waits::ImplicitSyncs;
use crate::hash::{HashMap, HashSet};
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::model::stacks::Frame;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, Operation, When, members};
use crate::trace::record::{Body, Names, What};
use gpuspy_wire::record::{Namespace, flag};
pub use shares::Shares;
use shares::{Fit, Share};
use std::collections::BTreeMap;

/// The most graphs whose launches have rows of their own.
const MOST_GRAPHS: usize = 1024;
/// The row of the launches of all other graphs, and of those whose number is not known.
pub const OTHER_GRAPHS: u32 = 0;

/// What one line causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineUse {
    /// Its calls, by the API.
    pub calls: BTreeMap<String, u64>,
    /// Its kernel launches outside stream captures.
    pub launches: u64,
    /// Its operations: launches, graph launches, copies, memsets.
    pub operations: u64,
    /// Of those, the ones that were timed, alone or together with others.
    pub timed: u64,
    /// Of those, the ones that were timed alone.
    pub alone: u64,
    /// The GPU time of all of them, estimated where not all were timed, ns. It is without those of which none like them was
    /// timed.
    pub gpu: Sum,
    /// The idle gaps that its operations ended, ns.
    pub idle_ns: u64,
    /// The host's waits for the GPU in its calls: in synchronize calls, and in others by
    /// [the clocks](super::waits), ns.
    pub wait_ns: u64,
    /// The bytes that its copies and memsets move.
    pub bytes: u64,
    /// The bytes of device memory that it allocates.
    pub allocated_bytes: u64,
}

impl Merge for LineUse {
    fn merge(&mut self, other: &LineUse) {
        for (api, calls) in &other.calls {
            *self.calls.entry(api.clone()).or_default() += calls;
        }
        self.launches += other.launches;
        self.operations += other.operations;
        self.timed += other.timed;
        self.alone += other.alone;
        self.gpu.add(other.gpu);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
    }
}

/// What a line has a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row<Name> {
    /// An API: its calls, by their time on the host, ns.
    Api(Name),
    /// An API: the waits for the GPU in its calls, ns.
    Wait(Name),
    /// A kernel: its launches.
    Kernel(Name),
    /// A kernel: its launches inside stream captures, which run when the graph does.
    Captured(Name),
    /// Transfers of a kind: by their bytes.
    Transfer(TransferKind, HostMemory),
    /// A graph, by its number: its launches. 0 = those whose number is not known, and those beyond the first thousand.
    Graph(u32),
}

/// The table: lines, and `None` for calls without one. Empty if the trace has no stacks.
#[derive(Clone, Debug, Default)]
pub struct SourceLines {
    /// The rows.
    pub rows: BTreeMap<Option<Frame>, LineUse>,
    /// The lines that the rows of other tables come from.
    of: BTreeMap<Row<String>, Shares>,
}

impl SourceLines {
    /// Gives the lines the time of their operations, as much in all as the tables of those say, and none more than that may be, ns.
    /// `total` returns what a table says of a row; all graphs are one row, with the number 0.
    pub fn fit(&mut self, total: impl Fn(&Row<String>) -> Option<Sum>) {
        let all_graphs =
            |row: &Row<String>| if let Row::Graph(_) = row { Row::Graph(0) } else { row.clone() };
        let mut own: BTreeMap<Row<String>, u64> = BTreeMap::new();
        for (row, shares) in self.of.iter_mut().filter(|(row, _)| row.runs()) {
            shares.fit(None);
            let sum = own.entry(all_graphs(row)).or_default();
            shares.times().for_each(|(_, time)| *sum = sum.saturating_add(time.value));
        }
        self.rows.values_mut().for_each(|line| line.gpu = Sum::default());
        for (row, shares) in self.of.iter_mut().filter(|(row, _)| row.runs()) {
            let row = all_graphs(row);
            let of_lines = own.get(&row).copied().filter(|own| *own > 0);
            let known = of_lines.zip(total(&row));
            shares.fit(
                known.map(|(own, total)| Fit { multiple: total.value as f64 / own as f64, most: total.hi }),
            );
            for (line, time) in shares.times() {
                self.rows.entry(line.cloned()).or_default().gpu.add(time);
            }
        }
    }

    /// Adds what other analyses found by line: the gaps by the line whose operation ended them, the idle time of pauses, and the
    /// waits that are not those of synchronize calls.
    pub fn relate(
        &mut self,
        gaps: &BTreeMap<Option<Frame>, Part>,
        paused: &BTreeMap<Option<Frame>, u64>,
        waits: &ImplicitSyncs,
    ) {
        if self.rows.is_empty() {
            return;
        }
        for (line, part) in gaps {
            self.rows.entry(line.clone()).or_default().idle_ns += part.total;
        }
        for (line, ns) in paused {
            self.rows.entry(line.clone()).or_default().idle_ns += ns;
        }
        for ((api, _), lines) in &waits.lines {
            for (line, ns) in lines.iter() {
                self.of.entry(Row::Wait(api.clone())).or_default().add(line.cloned(), &Share::of(ns));
                self.rows.entry(line.cloned()).or_default().wait_ns += ns;
            }
        }
    }

    /// Returns the line that most of the host's time in calls of an API is in, and its share of that time.
    pub fn of_api(&self, api: &str) -> Option<(&Frame, f64)> {
        self.of.get(&Row::Api(api.to_owned()))?.main()
    }

    /// Returns the line that most launches of a kernel come from, and its share of them.
    pub fn of_kernel(&self, symbol: &str) -> Option<(&Frame, f64)> {
        self.of.get(&Row::Kernel(symbol.to_owned()))?.main()
    }

    /// Returns the line that most captured launches of a kernel come from, and its share of them.
    pub fn of_captured(&self, symbol: &str) -> Option<(&Frame, f64)> {
        self.of.get(&Row::Captured(symbol.to_owned()))?.main()
    }

    /// Returns the line that most runs of a kernel come from, and its share of them: its launches, and its runs in graphs, which
    /// have the lines that captured it.
    pub fn of_runs(&self, kernel: &Kernel) -> Option<(&Frame, f64)> {
        let weights = |row: Row<String>| self.of.get(&row).map(Shares::weights).into_iter().flatten();
        let captured = || weights(Row::Captured(kernel.symbol.clone()));
        let all: u64 = captured().map(|(_, launches)| launches).sum();
        let mut runs: BTreeMap<Option<&Frame>, u64> = weights(Row::Kernel(kernel.symbol.clone())).collect();
        for (line, launches) in captured() {
            let part = u128::from(kernel.in_graphs) * u128::from(launches) / u128::from(all.max(1));
            *runs.entry(line).or_default() += u64::try_from(part).unwrap_or(u64::MAX);
        }
        if all == 0 {
            *runs.entry(None).or_default() += kernel.in_graphs;
        }
        source::main(runs.iter().map(|(line, launches)| (*line, *launches)))
    }

    /// Returns the line that most bytes of a kind of transfers come from, and its share of them.
    pub fn of_transfer(&self, kind: TransferKind, host_memory: HostMemory) -> Option<(&Frame, f64)> {
        self.of.get(&Row::Transfer(kind, host_memory))?.main()
    }

    /// Returns what the lines have shares of.
    pub fn shares(&self) -> impl Iterator<Item = (&Row<String>, &Shares)> {
        self.of.iter()
    }
}

impl Merge for SourceLines {
    fn merge(&mut self, other: &SourceLines) {
        Merge::merge(&mut self.of, &other.of);
        for (frame, line) in &other.rows {
            self.rows.entry(frame.clone()).or_default().merge(line);
        }
    }
}

/// What one line was found to cause so far, with the API's number for its name.
#[derive(Debug, Default)]
struct Line {
    calls: HashMap<u16, u64>,
    sums: LineUse,
}

/// A row of another table and the number of a line.
type OfLine = (Row<u32>, u32);

/// The launches of an open burst or run.
type Members = HashMap<OfLine, u64>;

/// The analysis. Its size grows with the lines of the program that call CUDA.
#[derive(Debug)]
pub struct LineFold<'a> {
    names: &'a Names,
    /// By the number of the line; 0 = calls without one.
    lines: HashMap<u32, Line>,
    /// The launches of open bursts and runs, by context and stream.
    members: HashMap<(u32, u64), Members>,
    /// What each line has a share of.
    rows: HashMap<OfLine, Share>,
    /// The graphs that have rows of their own.
    graphs: HashSet<u32>,
}

impl LineFold<'_> {
    fn line(&mut self, number: u32) -> &mut Line {
        self.lines.entry(number).or_default()
    }

    fn row(&mut self, row: Row<u32>, number: u32) -> &mut Share {
        self.rows.entry((row, number)).or_default()
    }

    /// Returns the row of a graph's launches. An update gives a graph another number, so that a program can have any number of
    /// them: beyond the first ones they have one row.
    fn graph(&mut self, number: u32) -> Row<u32> {
        if self.graphs.len() < MOST_GRAPHS {
            self.graphs.insert(number);
        }
        Row::Graph(if self.graphs.contains(&number) { number } else { OTHER_GRAPHS })
    }

    fn operation(&mut self, number: u32, event: &Event<'_>, operation: &Operation) {
        let time = match operation.when {
            When::Captured => {
                if let Action::Kernel { name, .. } = operation.what {
                    self.row(Row::Captured(name), number).count(1, None);
                }
                return;
            }
            When::Timed(ran) => Some(Sum { value: ran.value(), lo: ran.lo(), hi: ran.hi() }),
            When::Untimed { .. } => None,
        };
        let (row, weight) = match operation.what {
            Action::Burst { .. } => return self.together((operation.context, operation.stream), time),
            Action::Kernel { name, .. } => (Row::Kernel(name), 1),
            Action::Transfer { kind, host_memory, bytes } => (Row::Transfer(kind, host_memory), bytes),
            Action::Graph { .. } => (self.graph(graph_of(event)), 1),
        };
        self.row(row, number).count(weight, time);
        if matches!(&event.record.body, Body::Work(work) if members::is_member(work)) {
            let open = self.members.entry((operation.context, operation.stream)).or_default();
            *open.entry((row, number)).or_default() += 1;
        }
        let sums = &mut self.line(number).sums;
        sums.operations += 1;
        sums.launches += u64::from(matches!(operation.what, Action::Kernel { .. }));
        sums.bytes = sums.bytes.saturating_add(operation.what.moved().map_or(0, |(_, _, bytes)| bytes));
        sums.timed += u64::from(time.is_some());
        sums.alone += u64::from(time.is_some());
    }

    /// Divides the time of launches that were timed together among them by their number. If they are of several lines or
    /// kernels, each took between nothing and all of it.
    fn together(&mut self, stream: (u32, u64), time: Option<Sum>) {
        let (Some(open), Some(time)) = (self.members.remove(&stream), time) else { return };
        let all: u64 = open.values().sum();
        let is_one = open.len() == 1;
        for ((row, number), launches) in open {
            let value = (u128::from(time.value) * u128::from(launches) / u128::from(all.max(1))) as u64;
            let part = Sum { value, lo: if is_one { time.lo } else { 0 }, hi: time.hi };
            self.row(row, number).count_together(launches, part);
            self.line(number).sums.timed += launches;
        }
    }
}

/// Returns the number of the graph that a record launches.
fn graph_of(event: &Event<'_>) -> u32 {
    match &event.record.body {
        Body::Work(work) => match work.what {
            What::Graph { graph, .. } => graph,
            _ => 0,
        },
        _ => 0,
    }
}

impl<'a> Analysis<'a> for LineFold<'a> {
    type Rows = SourceLines;

    fn new(start: &Start<'a>) -> Self {
        LineFold {
            names: start.names,
            lines: HashMap::default(),
            members: HashMap::default(),
            rows: HashMap::default(),
            graphs: HashSet::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Some(of) = event.record.body.call() else { return };
        let number = event.caller.line;
        if let Some(call) = event.call.filter(|_| scope.call()) {
            self.row(Row::Api(call.api.into()), number).count(call.host_ns, None);
            let line = self.line(number);
            *line.calls.entry(call.api).or_default() += u64::from(call.calls);
            if matches!(event.record.body, Body::Synchronize(_)) && of.flags & flag::FAILED == 0 {
                line.sums.wait_ns += call.host_ns;
                self.row(Row::Wait(call.api.into()), number).count(call.host_ns, None);
            }
        }
        if let Some(operation) = scope.operation() {
            self.operation(number, event, operation);
        }
        if scope.call() {
            let allocated = scope.memory().iter().filter_map(|change| match change {
                MemoryChange::Allocated { memory, bytes, .. }
                | MemoryChange::Passed { memory, bytes, .. }
                    if is_device_memory(*memory) =>
                {
                    Some(*bytes)
                }
                _ => None,
            });
            let bytes = allocated.fold(0u64, u64::saturating_add);
            let sums = &mut self.line(number).sums;
            sums.allocated_bytes = sums.allocated_bytes.saturating_add(bytes);
        }
    }

    fn finish(self, end: &End<'_>) -> SourceLines {
        let LineFold { names, lines, .. } = self;
        if lines.keys().all(|number| *number == 0) {
            return SourceLines::default();
        }
        let mut rows: BTreeMap<Option<Frame>, LineUse> = BTreeMap::new();
        for (number, Line { calls, mut sums }) in lines {
            for (api, count) in calls {
                *sums.calls.entry(api_name(names, api)).or_default() += count;
            }
            if sums != LineUse::default() {
                rows.entry(end.line_of(number)).or_default().merge(&sums);
            }
        }
        let mut of: BTreeMap<Row<String>, Shares> = BTreeMap::new();
        for ((row, number), share) in self.rows {
            of.entry(row.named(names)).or_default().add(end.line_of(number), &share);
        }
        let mut lines = SourceLines { rows, of };
        lines.fit(|_| None);
        lines
    }
}

impl<Name> Row<Name> {
    /// Whether it is about operations.
    pub fn runs(&self) -> bool {
        matches!(self, Row::Kernel(_) | Row::Transfer(..) | Row::Graph(_))
    }
}

impl Row<u32> {
    fn named(self, names: &Names) -> Row<String> {
        let kernel = |name| names.get(Namespace::Kernel, name).unwrap_or(UNKNOWN).to_owned();
        match self {
            Row::Api(api) => Row::Api(api_name(names, api as u16)),
            Row::Wait(api) => Row::Wait(api_name(names, api as u16)),
            Row::Kernel(name) => Row::Kernel(kernel(name)),
            Row::Captured(name) => Row::Captured(kernel(name)),
            Row::Transfer(kind, host_memory) => Row::Transfer(kind, host_memory),
            Row::Graph(graph) => Row::Graph(graph),
        }
    }
}

#[cfg(test)]
impl SourceLines {
    /// Adds launches of a kernel at a line.
    pub fn launches(&mut self, symbol: String, line: Option<Frame>, launches: u64) {
        self.of.entry(Row::Kernel(symbol)).or_default().add(line, &Share::of(launches));
    }
}

#[cfg(test)]
mod tests;
