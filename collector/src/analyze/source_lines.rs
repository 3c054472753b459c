//! The lines of the program, by what they cause: calls, launches, the time of the GPU, idle time, waits, bytes.
//!
//! A line is the user's frame of a call ([`Stacks::user`]). Calls without one are a row of their own, so that the rows
//! sum to the whole. Idle time counts for the line whose operation ended the gap, as in the table of libraries.

use super::analysis::{Analysis, End, Start};
use super::calls::base_name;
use super::estimate::Sum;
use super::gaps::Part;
use super::merge::Merge;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::model::stacks::{Frame, Stacks};
use crate::model::{Action, Event, Operation, When, members};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::{Namespace, flag};
use std::collections::BTreeMap;

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
    /// The GPU time of those, ns.
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
        self.gpu.add(other.gpu);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
    }
}

/// The table: lines, and `None` for calls without one. Empty if the trace has no stacks.
#[derive(Clone, Debug, Default)]
pub struct SourceLines {
    /// The rows.
    pub rows: BTreeMap<Option<Frame>, LineUse>,
    /// The user's frame of each stack; of several processes together, empty.
    users: HashMap<u32, Frame>,
}

impl SourceLines {
    /// Adds what other analyses found by stack: the gaps by the stack whose operation ended them, and the waits that are
    /// not those of synchronize calls, ns.
    pub fn relate(&mut self, gaps: &HashMap<u32, Part>, waits: &HashMap<u32, u64>) {
        if self.rows.is_empty() {
            return;
        }
        for (stack, part) in gaps {
            self.row(*stack).idle_ns += part.total;
        }
        for (stack, ns) in waits {
            self.row(*stack).wait_ns += ns;
        }
    }

    fn row(&mut self, stack: u32) -> &mut LineUse {
        self.rows.entry(self.users.get(&stack).cloned()).or_default()
    }
}

impl Merge for SourceLines {
    fn merge(&mut self, other: &SourceLines) {
        self.users.clear();
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

/// The analysis. Its size grows with the lines of the program that call CUDA.
#[derive(Debug)]
pub struct LineFold<'a> {
    names: &'a Names,
    stacks: Stacks,
    /// By the number of the user's frame; `None` = calls without one.
    lines: HashMap<Option<u32>, Line>,
    /// The launches of open bursts and runs, by context and stream, and by line.
    members: HashMap<(u32, u64), HashMap<Option<u32>, u64>>,
}

impl LineFold<'_> {
    fn line(&mut self, number: Option<u32>) -> &mut Line {
        self.lines.entry(number).or_default()
    }

    fn operation(&mut self, number: Option<u32>, event: &Event<'_>, operation: &Operation) {
        let time = match operation.when {
            When::Captured => return,
            When::Timed(ran) => Some(Sum { value: ran.value(), lo: ran.lo(), hi: ran.hi() }),
            When::Untimed { .. } => None,
        };
        if let Action::Burst { .. } = operation.what {
            return self.together((operation.context, operation.stream), time);
        }
        if matches!(&event.record.body, Body::Work(work) if members::is_member(work)) {
            let open = self.members.entry((operation.context, operation.stream)).or_default();
            *open.entry(number).or_default() += 1;
        }
        let sums = &mut self.line(number).sums;
        sums.operations += 1;
        sums.launches += u64::from(matches!(operation.what, Action::Kernel { .. }));
        sums.bytes = sums.bytes.saturating_add(operation.what.moved().map_or(0, |(_, _, bytes)| bytes));
        if let Some(time) = time {
            sums.timed += 1;
            sums.gpu.add(time);
        }
    }

    /// Divides the time of launches that were timed together among their lines by their number. If they are of several
    /// lines, each took between nothing and all of it.
    fn together(&mut self, stream: (u32, u64), time: Option<Sum>) {
        let (Some(open), Some(time)) = (self.members.remove(&stream), time) else { return };
        let all: u64 = open.values().sum();
        let is_one = open.len() == 1;
        for (number, launches) in open {
            let value = (u128::from(time.value) * u128::from(launches) / u128::from(all.max(1))) as u64;
            let sums = &mut self.line(number).sums;
            sums.timed += launches;
            sums.gpu.add(Sum { value, lo: if is_one { time.lo } else { 0 }, hi: time.hi });
        }
    }
}

impl<'a> Analysis<'a> for LineFold<'a> {
    type Rows = SourceLines;

    fn new(start: &Start<'a>) -> Self {
        LineFold {
            names: start.names,
            stacks: Stacks::of(start.names),
            lines: HashMap::default(),
            members: HashMap::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Some(of) = event.record.body.call().filter(|_| !self.stacks.is_empty()) else { return };
        let number = self.stacks.user_number(of.stack);
        if let Some(call) = event.call.filter(|_| scope.call()) {
            let line = self.line(number);
            *line.calls.entry(call.api).or_default() += u64::from(call.calls);
            let is_sync = matches!(event.record.body, Body::Synchronize(_)) && of.flags & flag::FAILED == 0;
            line.sums.wait_ns += if is_sync { call.host_ns } else { 0 };
        }
        if let Some(operation) = scope.operation() {
            self.operation(number, event, operation);
        }
        if scope.call() {
            let allocated = scope.memory().iter().filter_map(|change| match change {
                MemoryChange::Allocated { memory, bytes, .. } if is_device_memory(*memory) => Some(*bytes),
                _ => None,
            });
            let bytes = allocated.fold(0u64, u64::saturating_add);
            let sums = &mut self.line(number).sums;
            sums.allocated_bytes = sums.allocated_bytes.saturating_add(bytes);
        }
    }

    fn finish(self, _: &End<'_>) -> SourceLines {
        let LineFold { names, stacks, lines, .. } = self;
        let mut rows: BTreeMap<Option<Frame>, LineUse> = BTreeMap::new();
        for (number, Line { calls, mut sums }) in lines {
            for (api, count) in calls {
                let name = names.get(Namespace::Api, u32::from(api));
                let name = name.map_or_else(|| format!("(api {api})"), |name| base_name(name).to_owned());
                *sums.calls.entry(name).or_default() += count;
            }
            if sums != LineUse::default() {
                rows.entry(number.and_then(|number| stacks.frame(number)).cloned()).or_default().merge(&sums);
            }
        }
        SourceLines { rows, users: stacks.users() }
    }
}

#[cfg(test)]
mod tests;
