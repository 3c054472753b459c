//! Why did it take so long until the GPU had something to do?
//!
//! **Start-up** is from the entry of a process's first CUDA call to the start of its first kernel on the GPU (of its first
//! graph launch, if that came first); where that is not timed, to the return of its call. What follows is warm-up, until the
//! process is **steady**: [`STEADY`] launches in a row were of kernels that had been launched before.
//!
//! Both are divided by what the process's threads were doing in CUDA, every nanosecond counted once: where several threads
//! are in calls at the same time, it is the [`Part`]'s that comes first in their order; where none is, it is the program's
//! own. So the parts sum to the whole, to the nanosecond. A call is one part, by its outermost API: what a runtime call
//! loads or compiles inside is in that call; one in which a context came to be is the context's.
//!
//! A kernel's first launch pays for what later ones do not: its code is brought to the GPU by then at the latest. How much,
//! is told by its next launches in the same context: what the first took beyond their median.

use super::calls::base_name;
use super::estimate::Sum;
use crate::model::gpu_interval::host;
use crate::model::period::Period;
use crate::model::{Action, CountedCall, Event, Operation, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::{Fact, Namespace};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Launches in a row without a kernel's first, after which a process is steady.
pub const STEADY: u64 = 100;
/// Launches of a kernel that its first is held against.
const LATER: usize = 15;
/// Calls that are kept in order to be divided; of one that lasts longer than so many others, only the rest counts.
const KEPT: usize = 1 << 16;

/// What the time is spent on, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Initialising the driver, making contexts.
    Context = 0,
    /// Loading modules and libraries of kernels.
    Load = 1,
    /// Linking them just in time.
    Link = 2,
    /// Launching; in a kernel's first launch its code may be loaded.
    Launch = 3,
    /// Finding kernels, setting and asking their attributes.
    Function = 4,
    /// Taking, registering and freeing memory.
    Memory = 5,
    /// Copies and sets.
    Copy = 6,
    /// Waiting.
    Wait = 7,
    /// Other calls.
    Other = 8,
    /// No call: the program itself.
    Own = 9,
}

/// How many parts there are.
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

    /// The word that the JSON report has for it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Context => "context",
            Part::Load => "load",
            Part::Link => "link",
            Part::Launch => "launch",
            Part::Function => "kernel_lookup",
            Part::Memory => "memory",
            Part::Copy => "copy",
            Part::Wait => "wait",
            Part::Other => "other",
            Part::Own => "own",
        }
    }

    /// What people read.
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

    /// Of a call that is neither work nor a synchronise, by its [`base_name`].
    fn of(api: &str) -> Part {
        let begins = |starts: &[&str]| starts.iter().any(|start| api.starts_with(start));
        match api {
            "cuInit" | "cuCtxCreate" | "cuDevicePrimaryCtxRetain" | "cudaInitDevice" => Part::Context,
            _ if begins(&["cuModuleLoad", "cuLibraryLoad", "cudaLibraryLoad", "cuFuncLoad"]) => Part::Load,
            _ if begins(&["cuLink"]) => Part::Link,
            _ if begins(&[
                "cuFunc",
                "cudaFunc",
                "cuKernel",
                "cudaKernel",
                "cuOccupancy",
                "cudaOccupancy",
            ]) || begins(&["cuModuleGet", "cuLibraryGet", "cudaLibraryGet"]) =>
            {
                Part::Function
            }
            _ if begins(&["cudaMalloc", "cuMemAlloc", "cudaFree", "cuMemFree", "cudaHost", "cuMemHost"])
                || begins(&["cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemAddress"])
                || begins(&["cuMemSetAccess", "cuMemPool", "cudaMemPool"]) =>
            {
                Part::Memory
            }
            _ => Part::Other,
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
    /// All of it, ns.
    pub fn whole(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Of a part, ns.
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
    /// How many.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstLaunches {
    /// All: how many, and how long.
    pub all: Calls,
    /// Those of kernels that were launched again.
    pub compared: Calls,
    /// What those took beyond their kernels' later launches, ns.
    pub excess_ns: u64,
}

impl FirstLaunches {
    fn add(&mut self, other: &FirstLaunches) {
        self.all.add(other.all);
        self.compared.add(other.compared);
        self.excess_ns = self.excess_ns.saturating_add(other.excess_ns);
    }
}

/// How a process, or several, came to work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    /// Processes that ran a kernel.
    pub processes: u64,
    /// Of those, the ones whose first kernel is not timed: their start-up ends when its call returned.
    pub untimed: u64,
    /// From the first call to the first kernel, ns: the division's whole, and what the kernel's start can be off.
    pub first_kernel: Sum,
    /// What that time went to.
    pub until_kernel: Division,
    /// Processes that became steady; the others have no warm-up.
    pub steady: u64,
    /// From the first kernel until steady.
    pub until_steady: Division,
    /// Loads of modules and libraries, whenever they were made, by the caller's library; `None` = not known who called.
    pub loads: BTreeMap<Option<String>, Calls>,
    /// First launches, whenever they were.
    pub first_launches: FirstLaunches,
    /// `CUDA_MODULE_LOADING`, where it was set; of several processes, where all say the same.
    pub module_loading: Option<String>,
}

impl Startup {
    /// Adds another process's.
    pub fn merge(&mut self, other: &Startup) {
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
        for (library, calls) in &other.loads {
            self.loads.entry(library.clone()).or_default().add(*calls);
        }
        self.first_launches.add(&other.first_launches);
    }

    /// All loads.
    pub fn all_loads(&self) -> Calls {
        self.loads.values().fold(Calls::default(), |mut sum, calls| {
            sum.add(*calls);
            sum
        })
    }
}

/// A kernel's launches.
#[derive(Debug)]
struct Launches {
    /// The first is asked for.
    counts: bool,
    /// Host time of the first, ns.
    first: u64,
    /// And of the next ones.
    later: Vec<u64>,
}

impl Launches {
    /// What the first took beyond the median of the next ones, ns; `None` without any.
    fn excess(&self) -> Option<u64> {
        let mut later = self.later.clone();
        later.sort_unstable();
        Some(self.first.saturating_sub(*later.get(later.len() / 2)?))
    }
}

/// The first kernel's start on the GPU: host ns on the line.
#[derive(Clone, Copy, Debug)]
struct Start {
    lo: i64,
    value: i64,
    hi: i64,
    is_timed: bool,
}

impl Start {
    fn of(operation: &Operation) -> Start {
        let When::Timed(interval) = operation.when else {
            let returned = host(operation.returned);
            return Start { lo: returned, value: returned, hi: returned, is_timed: false };
        };
        let off_by = interval.off_by.map_or(i64::MAX, host);
        Start {
            is_timed: true,
            lo: interval.earliest_start.saturating_sub(off_by),
            value: interval.start,
            hi: interval.latest_start.saturating_add(off_by),
        }
    }
}

/// The fold. Its size is that of the set of kernels, and bounded besides.
#[derive(Debug)]
pub struct StartupFold<'a> {
    names: &'a Names,
    period: Period,
    parts: HashMap<u16, Part>,
    /// Threads whose call made a context.
    made_context: HashSet<u32>,
    first_kernel: Option<Start>,
    /// Kernels by context and name.
    kernels: HashMap<(u32, u32), Launches>,
    /// The first of the launches in a row: host ns of its entry; and how many they are.
    row: Option<(i64, u64)>,
    /// Loads by the caller's address.
    loads: HashMap<u64, Calls>,
    division: Dividing,
}

/// Calls on their way into the division.
#[derive(Debug, Default)]
struct Dividing {
    /// Begin, end and part of calls that are not divided yet.
    calls: Vec<(i64, i64, Part)>,
    /// The first call's entry.
    began: Option<i64>,
    /// All before is divided.
    divided: Option<i64>,
    until_kernel: Division,
    /// From the first kernel to the present row of launches.
    until_row: Division,
    /// From there.
    in_row: Division,
}

impl Dividing {
    fn keep(&mut self, begin: i64, end: i64, part: Part) {
        self.calls.push((begin, end, part));
        if self.divided.is_none() {
            self.began = Some(self.began.map_or(begin, |began| began.min(begin)));
        }
    }

    /// A kernel's first launch came: the row was none.
    fn row_ended(&mut self) {
        self.until_row.add(&std::mem::take(&mut self.in_row));
    }

    /// Divides all calls, up to a moment or to the last one's end. `kernel` and `row` are where the first kernel and the
    /// present row began.
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

impl<'a> StartupFold<'a> {
    /// A fold that has seen nothing; the time in `period` counts.
    pub fn new(names: &'a Names, period: Period) -> Self {
        let apis = names.0.iter().filter(|((space, _), _)| *space == Namespace::Api);
        let part = |((_, id), name): (&(Namespace, u32), &String)| {
            Some((u16::try_from(*id).ok()?, Part::of(base_name(name))))
        };
        StartupFold {
            names,
            period,
            parts: apis.filter_map(part).collect(),
            made_context: HashSet::new(),
            first_kernel: None,
            kernels: HashMap::new(),
            row: None,
            loads: HashMap::new(),
            division: Dividing::default(),
        }
    }

    /// Takes the next event, whatever it concerns and whenever it was, in the trace's order.
    pub fn observe(&mut self, event: &Event<'_>) {
        if let Body::Context(context) = &event.record.body
            && !context.destroyed
        {
            self.made_context.insert(event.record.thread);
        }
        let (Some(of), Some(call)) = (event.record.body.call(), event.call) else { return };
        let begin = host(of.begin);
        let part = self.part(event, call);
        if part == Part::Load && self.period.contains(begin) {
            self.loads.entry(of.caller).or_default().add(Calls { count: 1, host_ns: call.host_ns });
        }
        if !self.is_steady() || self.row.is_some_and(|(row, _)| begin < row) {
            self.division.keep(begin, begin.saturating_add(host(call.host_ns)), part);
            if self.division.calls.len() >= KEPT {
                self.divide(None);
            }
        }
        if let Some(operation) = &event.operation {
            self.launched(operation, begin, call);
        }
    }

    /// The answer; `None` if no kernel ran, or all of it lies outside the period. `library` says whose an address is.
    pub fn finish(mut self, library: impl Fn(u64) -> Option<String>) -> Option<Startup> {
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
        let mut loads: BTreeMap<Option<String>, Calls> = BTreeMap::new();
        for (caller, calls) in &self.loads {
            loads.entry(library(*caller)).or_default().add(*calls);
        }
        Some(Startup {
            processes: 1,
            untimed: u64::from(!start.is_timed),
            first_kernel: Sum { value, lo, hi },
            until_kernel,
            steady: u64::from(steady),
            until_steady: if steady { until_row } else { Division::default() },
            loads,
            first_launches: first_launches(self.kernels.values()),
            module_loading: module_loading(self.names),
        })
    }

    /// What a call is about.
    fn part(&mut self, event: &Event<'_>, call: CountedCall) -> Part {
        if self.made_context.remove(&event.record.thread) {
            return Part::Context;
        }
        match (&event.record.body, event.operation.map(|operation| operation.what)) {
            (_, Some(Action::Transfer { .. })) => Part::Copy,
            (_, Some(_)) => Part::Launch,
            (Body::Synchronize(_), None) => Part::Wait,
            (Body::Alloc(_), None) => Part::Memory,
            _ => self.parts.get(&call.api).copied().unwrap_or(Part::Other),
        }
    }

    /// Work was issued.
    fn launched(&mut self, operation: &Operation, begin: i64, call: CountedCall) {
        let is_first = match operation.what {
            _ if operation.when == When::Captured => return,
            Action::Transfer { .. } | Action::Burst { .. } | Action::Graph { kernels: 0 } => return,
            Action::Graph { .. } => false,
            Action::Kernel { name, .. } => {
                let counts = self.period.contains(begin);
                let new = || Launches { counts, first: call.host_ns, later: Vec::new() };
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
        let start = Start::of(operation);
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

    /// Divides what is known, up to some moment or all of it.
    fn divide(&mut self, to: Option<i64>) {
        let (kernel, row) = (self.first_kernel.map(|start| start.value), self.row.map(|(row, _)| row));
        self.division.divide(to, &self.period, kernel, row);
    }
}

fn first_launches<'l>(kernels: impl Iterator<Item = &'l Launches>) -> FirstLaunches {
    let mut sum = FirstLaunches::default();
    for kernel in kernels.filter(|kernel| kernel.counts) {
        let one = Calls { count: 1, host_ns: kernel.first };
        sum.all.add(one);
        if let Some(excess) = kernel.excess() {
            sum.compared.add(one);
            sum.excess_ns = sum.excess_ns.saturating_add(excess);
        }
    }
    sum
}

/// What `CUDA_MODULE_LOADING` was set to at the first call.
fn module_loading(names: &Names) -> Option<String> {
    let variables = names.get(Namespace::Fact, Fact::Environment as u32)?;
    variables.split('\0').find_map(|line| line.strip_prefix("CUDA_MODULE_LOADING=")).map(str::to_owned)
}

#[cfg(test)]
mod tests;
