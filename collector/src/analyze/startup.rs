//! Start-up: why it took so long until the GPU had something to do.
//!
//! **Start-up** is from the entry of a process's first CUDA call to the start of its first kernel on the GPU (or of
//! its first graph launch, if that came first); if that is not timed, to the return of its call. After it comes
//! warm-up, until the process is **steady**: [`STEADY`] launches in a row were of kernels that had been launched
//! before.
//!
//! Both are divided by what the process's threads were doing in CUDA, with every nanosecond counted once. Where
//! several threads are in calls at the same time, it counts for the [`Part`] that comes first in their order; where
//! none is, for the program itself. So the parts sum to the whole, to the nanosecond. A call belongs to one part, by
//! its outermost API: what a runtime call loads or compiles inside counts for that call, and a call in which a
//! context was created counts for the context.
//!
//! A kernel's first launch includes costs that later ones do not have: its code is brought to the GPU by then at the
//! latest. How much that cost is estimated from the next launches in the same context: it is what the first launch
//! took beyond their median.

use super::analysis::{Analysis, End, Start};
use super::call_class::{CallClass, CallClasses};
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use super::source::{Lines, Source};
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::period::Period;
use crate::model::stacks::{Caller, Frame};
use crate::model::{Action, CountedCall, Event, Operation, When};
use crate::trace::record::Names;
use gpuspy_wire::record::{Fact, Namespace};
use std::collections::BTreeMap;

/// The number of launches in a row, none of them a kernel's first, after which a process is steady.
pub const STEADY: u64 = 100;
/// The number of a kernel's next launches that its first is compared with.
const LATER: usize = 15;
/// The most calls that are kept in order to be divided. Of a call that lasts longer than this many others, only the
/// rest counts.
const KEPT: usize = 1 << 16;

/// What the time is spent on, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Initializing the driver and creating contexts.
    Context = 0,
    /// Loading modules and libraries of kernels.
    Load = 1,
    /// Just-in-time linking.
    Link = 2,
    /// Launching. A kernel's first launch may load its code.
    Launch = 3,
    /// Looking up kernels, setting and querying their attributes.
    Function = 4,
    /// Allocating, registering and freeing memory.
    Memory = 5,
    /// Copies and memsets.
    Copy = 6,
    /// Synchronizing.
    Wait = 7,
    /// Other calls.
    Other = 8,
    /// No CUDA call: the program itself.
    Own = 9,
}

/// The number of parts.
pub const PARTS: usize = 10;

impl Part {
    /// All, in order.
    pub const ALL: [Part; PARTS] = [
        Part::Context,
        Part::Load,
        Part::Link,
        Part::Launch,
        Part::Function,
        Part::Memory,
        Part::Copy,
        Part::Wait,
        Part::Other,
        Part::Own,
    ];

    /// The label on screen.
    pub fn label(self) -> &'static str {
        match self {
            Part::Context => "driver and context",
            Part::Load => "loading modules",
            Part::Link => "linking modules",
            Part::Launch => "launching",
            Part::Function => "kernel lookup and attributes",
            Part::Memory => "memory",
            Part::Copy => "copies and memsets",
            Part::Wait => "synchronization",
            Part::Other => "other calls",
            Part::Own => "outside CUDA",
        }
    }

    /// Returns the part that calls of a class belong to.
    fn of(class: CallClass) -> Part {
        match class {
            CallClass::Context => Part::Context,
            CallClass::Load => Part::Load,
            CallClass::Link => Part::Link,
            CallClass::Launch => Part::Launch,
            CallClass::Function => Part::Function,
            CallClass::Allocate | CallClass::Free | CallClass::Memory => Part::Memory,
            CallClass::Copy => Part::Copy,
            CallClass::Wait => Part::Wait,
            CallClass::Query | CallClass::HostFunction | CallClass::StreamWait | CallClass::Other => {
                Part::Other
            }
        }
    }
}

/// Time by [`Part`], ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// By part.
    pub parts: [u64; PARTS],
}

impl Division {
    /// Returns the sum of all parts, ns.
    pub fn whole(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Returns one part, ns.
    pub fn of(&self, part: Part) -> u64 {
        self.parts[part as usize]
    }

    fn add(&mut self, other: &Division) {
        self.parts.iter_mut().zip(other.parts).for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
    }
}

/// Calls, and the host's time in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// The number of calls.
    pub count: u64,
    /// Their host time, ns.
    pub host_ns: u64,
}

impl Calls {
    fn add(&mut self, other: Calls) {
        self.count += other.count;
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
    }
}

/// First launches of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstLaunches {
    /// All first launches.
    pub all: Calls,
    /// Those of kernels that were launched again.
    pub compared: Calls,
    /// What those took beyond the later launches of their kernels, ns.
    pub excess_ns: u64,
    /// The host time of all of them by the line of the program, ns.
    pub lines: Lines,
}

impl FirstLaunches {
    fn add(&mut self, other: &FirstLaunches) {
        self.all.add(other.all);
        self.compared.add(other.compared);
        self.excess_ns = self.excess_ns.saturating_add(other.excess_ns);
        self.lines.merge(&other.lines);
    }
}

/// The start-up of one process or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    /// Processes that ran a kernel.
    pub processes: u64,
    /// How many of those have a first kernel without a GPU time: their start-up ends when its call returned.
    pub untimed: u64,
    /// From the first call to the first kernel, ns. The value is the sum of the division; the bounds result from
    /// those of the kernel's start.
    pub first_kernel: Sum,
    /// The parts of that time.
    pub until_kernel: Division,
    /// Processes that became steady; the others have no warm-up.
    pub steady: u64,
    /// From the first kernel until the process was steady.
    pub until_steady: Division,
    /// Loads of modules and libraries at any time, by where they were called.
    pub loads: BTreeMap<Source, Calls>,
    /// First launches at any time.
    pub first_launches: FirstLaunches,
    /// The value of `CUDA_MODULE_LOADING`, if it was set; of several processes, if all have the same.
    pub module_loading: Option<String>,
}

impl Merge for Startup {
    fn merge(&mut self, other: &Startup) {
        self.module_loading = match (self.processes, other.processes) {
            (0, _) => other.module_loading.clone(),
            (_, 0) => self.module_loading.take(),
            _ => self.module_loading.take().filter(|mode| Some(mode) == other.module_loading.as_ref()),
        };
        self.processes += other.processes;
        self.untimed += other.untimed;
        self.first_kernel.add(other.first_kernel);
        self.until_kernel.add(&other.until_kernel);
        self.steady += other.steady;
        self.until_steady.add(&other.until_steady);
        for (source, calls) in &other.loads {
            self.loads.entry(source.clone()).or_default().add(*calls);
        }
        self.first_launches.add(&other.first_launches);
    }
}

/// The launches of a kernel.
#[derive(Debug)]
struct Launches {
    /// Whether the first is in the selected time.
    counts: bool,
    /// The line of the first.
    line: u32,
    /// Host time of the first, ns.
    first: u64,
    /// Host times of the next ones, ns.
    later: Vec<u64>,
}

impl Launches {
    /// Returns what the first took beyond the median of the next ones, ns; `None` without any.
    fn excess(&self) -> Option<u64> {
        let mut later = self.later.clone();
        later.sort_unstable();
        Some(self.first.saturating_sub(*later.get(later.len() / 2)?))
    }
}

/// The start of the first kernel on the GPU: host ns on the line.
#[derive(Clone, Copy, Debug)]
struct KernelStart {
    lo: i64,
    value: i64,
    hi: i64,
    is_timed: bool,
}

impl KernelStart {
    fn of(operation: &Operation) -> KernelStart {
        let When::Timed(interval) = operation.when else {
            let returned = host(operation.returned);
            return KernelStart { lo: returned, value: returned, hi: returned, is_timed: false };
        };
        let off_by = interval.off_by.map_or(i64::MAX, host);
        KernelStart {
            is_timed: true,
            lo: interval.earliest_start.saturating_sub(off_by),
            value: interval.start,
            hi: interval.latest_start.saturating_add(off_by),
        }
    }
}

/// The analysis. Its size grows with the number of different kernels, and is otherwise bounded.
#[derive(Debug)]
pub struct StartupFold<'a> {
    names: &'a Names,
    period: Period,
    classes: CallClasses,
    first_kernel: Option<KernelStart>,
    /// Kernels by context and name.
    kernels: HashMap<(u32, u32), Launches>,
    /// The current row of launches of which none is a kernel's first: host ns at the entry of the first of them, and
    /// their number.
    row: Option<(i64, u64)>,
    /// Loads by where they were called.
    loads: HashMap<Caller, Calls>,
    division: Dividing,
}

/// The division of time, and the calls that are not in it yet.
#[derive(Debug, Default)]
struct Dividing {
    /// The start, the end and the part of calls that are not divided yet.
    calls: Vec<(i64, i64, Part)>,
    /// The entry of the first call.
    began: Option<i64>,
    /// The time before this is divided.
    divided: Option<i64>,
    until_kernel: Division,
    /// From the first kernel to the current row of launches.
    until_row: Division,
    /// From there on.
    in_row: Division,
}

impl Dividing {
    fn keep(&mut self, begin: i64, end: i64, part: Part) {
        self.calls.push((begin, end, part));
        if self.divided.is_none() {
            self.began = Some(self.began.map_or(begin, |began| began.min(begin)));
        }
    }

    /// Ends the current row of launches: a kernel's first launch came.
    fn row_ended(&mut self) {
        self.until_row.add(&std::mem::take(&mut self.in_row));
    }

    /// Divides all calls, up to a moment or to the end of the last one. `kernel` and `row` are the starts of the
    /// first kernel and of the current row.
    fn divide(&mut self, to: Option<i64>, period: &Period, kernel: Option<i64>, row: Option<i64>) {
        let Some(from) = self.divided.or(self.began) else { return };
        let to =
            to.or_else(|| self.calls.iter().map(|(_, end, _)| *end).max()).map_or(from, |to| to.max(from));
        let mut edges: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * self.calls.len());
        for (begin, end, part) in self.calls.drain(..) {
            let (begin, end) = (begin.max(from), end.min(to));
            if begin < end {
                edges.extend([(begin, true, part as usize), (end, false, part as usize)]);
            }
        }
        edges.sort_unstable();
        let (mut now, mut running) = (from, [0u32; PARTS]);
        for (time, begins, part) in edges {
            self.pass((now, time), &running, period, (kernel, row));
            now = time;
            if begins { running[part] += 1 } else { running[part] -= 1 }
        }
        self.pass((now, to), &running, period, (kernel, row));
        self.divided = Some(to);
    }

    fn pass(
        &mut self,
        (from, to): (i64, i64),
        running: &[u32; PARTS],
        period: &Period,
        (kernel, row): (Option<i64>, Option<i64>),
    ) {
        let part = running.iter().position(|count| *count > 0).unwrap_or(Part::Own as usize);
        let kernel = kernel.unwrap_or(i64::MAX);
        let row = row.map_or(i64::MAX, |row| row.max(kernel));
        for (division, first, last) in [
            (&mut self.until_kernel, i64::MIN, kernel),
            (&mut self.until_row, kernel, row),
            (&mut self.in_row, row, i64::MAX),
        ] {
            division.parts[part] += period.length(from.max(first), to.min(last));
        }
    }
}

impl StartupFold<'_> {
    /// Returns the row; `None` if no kernel ran, or if all of the start-up is outside the period. `source` names where a call
    /// was made.
    fn rows(mut self, source: impl Fn(Caller) -> Source) -> Option<Startup> {
        let start = self.first_kernel?;
        let steady = self.is_steady();
        let row = self.row.map_or(i64::MIN, |(row, _)| row).max(start.value);
        self.divide(Some(if steady { row } else { start.value }));
        let Dividing { began, until_kernel, until_row, .. } = self.division;
        let within = |moment: i64| Some(self.period.length(began?, moment));
        let value = until_kernel.whole();
        if value == 0 {
            return None;
        }
        let (lo, hi) = (within(start.lo)?.min(value), within(start.hi)?.max(value));
        let mut loads: BTreeMap<Source, Calls> = BTreeMap::new();
        for (caller, calls) in &self.loads {
            loads.entry(source(*caller)).or_default().add(*calls);
        }
        Some(Startup {
            processes: 1,
            untimed: u64::from(!start.is_timed),
            first_kernel: Sum { value, lo, hi },
            until_kernel,
            steady: u64::from(steady),
            until_steady: if steady { until_row } else { Division::default() },
            loads,
            first_launches: first_launches(self.kernels.values(), |line| {
                source(Caller { address: 0, line }).line
            }),
            module_loading: module_loading(self.names),
        })
    }

    /// Takes a call that issued work.
    fn launched(&mut self, operation: &Operation, begin: i64, line: u32, call: CountedCall) {
        let is_first = match operation.what {
            _ if operation.when == When::Captured => return,
            Action::Transfer { .. } | Action::Burst { .. } | Action::Graph { kernels: 0 } => return,
            Action::Graph { .. } => false,
            Action::Kernel { name, .. } => {
                let counts = self.period.contains(begin);
                let new = || Launches { counts, line, first: call.host_ns, later: Vec::new() };
                let mut is_first = false;
                let launches = self.kernels.entry((operation.context, name)).or_insert_with(|| {
                    is_first = true;
                    new()
                });
                if !is_first && launches.later.len() < LATER {
                    launches.later.push(call.host_ns);
                }
                is_first
            }
        };
        let start = KernelStart::of(operation);
        if self.first_kernel.is_none_or(|first| start.value < first.value) {
            self.first_kernel = Some(start);
        }
        if self.is_steady() {
            return;
        }
        self.row = match self.row {
            _ if is_first => {
                self.division.row_ended();
                None
            }
            Some((row, launches)) => Some((row, launches + 1)),
            None => Some((begin, 1)),
        };
    }

    fn is_steady(&self) -> bool {
        self.row.is_some_and(|(_, launches)| launches >= STEADY)
    }

    /// Divides the calls so far, up to a moment or all of them.
    fn divide(&mut self, to: Option<i64>) {
        let (kernel, row) = (self.first_kernel.map(|start| start.value), self.row.map(|(row, _)| row));
        self.division.divide(to, &self.period, kernel, row);
    }
}

impl<'a> Analysis<'a> for StartupFold<'a> {
    type Rows = Option<Startup>;

    fn new(start: &Start<'a>) -> Self {
        StartupFold {
            names: start.names,
            period: start.period.clone(),
            classes: CallClasses::new(start.names),
            first_kernel: None,
            kernels: HashMap::default(),
            row: None,
            loads: HashMap::default(),
            division: Dividing::default(),
        }
    }

    /// Takes all calls: a process starts once, whatever the filter selects. Only the time in the period counts.
    fn observe(&mut self, event: &Event<'_>, _: &Scope<'_>) {
        self.classes.observe(event);
        let (Some(of), Some(call)) = (event.record.body.call(), event.call) else { return };
        let begin = host(of.begin);
        let part = Part::of(self.classes.of(event, call));
        if part == Part::Load && self.period.contains(begin) {
            self.loads.entry(event.caller).or_default().add(Calls { count: 1, host_ns: call.host_ns });
        }
        if !self.is_steady() || self.row.is_some_and(|(row, _)| begin < row) {
            self.division.keep(begin, begin.saturating_add(host(call.host_ns)), part);
            if self.division.calls.len() >= KEPT {
                self.divide(None);
            }
        }
        if let Some(operation) = &event.operation {
            self.launched(operation, begin, event.caller.line, call);
        }
    }

    fn finish(self, end: &End<'_>) -> Option<Startup> {
        self.rows(|caller| end.source(caller))
    }
}

fn first_launches<'l>(
    kernels: impl Iterator<Item = &'l Launches>,
    line: impl Fn(u32) -> Option<Frame>,
) -> FirstLaunches {
    let mut sum = FirstLaunches::default();
    for kernel in kernels.filter(|kernel| kernel.counts) {
        let one = Calls { count: 1, host_ns: kernel.first };
        sum.all.add(one);
        sum.lines.add(line(kernel.line), kernel.first);
        if let Some(excess) = kernel.excess() {
            sum.compared.add(one);
            sum.excess_ns = sum.excess_ns.saturating_add(excess);
        }
    }
    sum
}

/// Returns the value of `CUDA_MODULE_LOADING` at the first call.
fn module_loading(names: &Names) -> Option<String> {
    let variables = names.get(Namespace::Fact, Fact::Environment as u32)?;
    variables.split('\0').find_map(|line| line.strip_prefix("CUDA_MODULE_LOADING=")).map(str::to_owned)
}

#[cfg(test)]
mod tests;
