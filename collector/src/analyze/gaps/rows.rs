//! The rows about idle gaps, with the names of what is beside them.

use super::super::estimate::{Estimate, Sum};
use super::super::idle::rows::{Resolve, site};
use super::super::idle::split::{Divided, Main};
use super::super::idle::{Cause, Site};
use super::super::merge::Merge;
use super::super::source::Source;
use super::{BANDS, Found, Gap, KEPT, Neighbour, Part};
use crate::model::modules::CallSite;
use crate::model::named::named;
use crate::model::stacks::{Caller, Frame};
use crate::model::{Action, Process};
use crate::trace::record::Names;
use gpuspy_wire::record::Namespace;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The gaps of one or several devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapReport {
    /// The number of gaps.
    pub count: u64,
    /// Their total length, ns.
    pub total: Sum,
    /// The same by length, see [`BANDS`]; the bands sum to the whole.
    pub bands: [Part; BANDS.len() + 1],
    /// The same by the library whose operation ended the gap, the largest total first; they sum to the whole.
    pub by_library: Vec<LibraryGaps>,
    /// The same by the line of the program whose operation ended the gap; `None` if it is not known.
    pub by_line: BTreeMap<Option<Frame>, Part>,
    /// The largest gaps, longest first.
    pub largest: Vec<GapRow>,
}

/// The gaps that were ended by operations of one library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryGaps {
    /// Its path; `None` if the caller is unknown.
    pub library: Option<String>,
    /// The number of gaps.
    pub count: u64,
    /// Their total by the best values, ns.
    pub total: u64,
}

/// One gap.
#[derive(Clone, Debug, PartialEq)]
pub struct GapRow {
    /// The process id.
    pub pid: Option<u32>,
    /// The rank of the process.
    pub rank: Option<u32>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// Host ns from the start of its process's collection to the start of the timeline's span; `None` for several
    /// timelines that were added.
    pub began_ns: Option<u64>,
    /// ns from the start of the timeline's span.
    pub start: u64,
    /// Its length, ns.
    pub duration: Estimate<u64>,
    /// The operation before it.
    pub before: Side,
    /// The operation after it.
    pub after: Side,
    /// Its main causes.
    pub causes: Main,
    /// The cause and the site of its largest part, if that is known.
    pub largest: Option<(Cause, Site)>,
    /// The step that it lies in, if what the host did outside CUDA in it is set-up in case that turns out to be warm-up.
    pub may_warm_up: Option<u64>,
    /// The id of the thread that led it in the system, if known.
    pub tid: Option<u32>,
}

named! {
    /// What launched work is beside a gap.
    pub enum LaunchKind {
        /// A kernel.
        Kernel = "kernel",
        /// A graph.
        Graph = "graph",
        /// Launches that are timed together.
        Run = "run",
        /// Programmatic launches that are timed together.
        Burst = "burst",
    }
}

/// An operation beside a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The name of a [`LaunchKind`] or of a transfer's kind.
    pub kind: &'static str,
    /// A kernel's name as the program's binary has it, if known.
    pub symbol: Option<String>,
    /// The bytes that a transfer moved.
    pub bytes: Option<u64>,
    /// The number of a graph's kernels.
    pub kernels: Option<u32>,
    /// Its correlation.
    pub correlation: u64,
    /// The library that called for it, if known.
    pub caller: Option<CallSite>,
    /// The line of the program that called for it, if known.
    pub line: Option<Frame>,
}

/// The rows of libraries, the largest total first.
fn by_library(parts: impl Iterator<Item = (Option<String>, Part)>) -> Vec<LibraryGaps> {
    let mut libraries: BTreeMap<Option<String>, Part> = BTreeMap::new();
    parts.for_each(|(library, part)| libraries.entry(library).or_default().add(part));
    let row = |(library, Part { count, total })| LibraryGaps { library, count, total };
    let mut rows: Vec<LibraryGaps> = libraries.into_iter().map(row).collect();
    rows.sort_by_key(|gaps| Reverse(gaps.total));
    rows
}

impl GapReport {
    /// Names the gaps of a device. `beside` names a neighbor and has the id and the rank of its process, `source` where a call was made, and `resolve` the
    /// threads.
    pub fn of(
        found: Found,
        (device, began_ns): (Option<u32>, Option<u64>),
        beside: impl Fn(&Neighbour) -> Option<([Option<u32>; 2], Side)>,
        source: impl Fn(Caller) -> Source,
        resolve: &impl Resolve,
    ) -> GapReport {
        let row = |gap: &Gap| {
            let ((_, before), ([pid, rank], after)) = (beside(&gap.before)?, beside(&gap.after)?);
            let Gap { start, duration, host: Divided { causes, largest, may_warm_up }, leader, .. } = *gap;
            let tid = leader.and_then(|(process, thread)| resolve.tid(process, thread));
            let largest = largest.map(|(cause, place)| (cause, site(cause, &place, resolve)));
            Some(GapRow {
                pid,
                rank,
                device,
                began_ns,
                start,
                duration,
                before,
                after,
                causes,
                largest,
                may_warm_up,
                tid,
            })
        };
        let Found { count, total, bands, callers, largest } = found;
        let mut by_line: BTreeMap<Option<Frame>, Part> = BTreeMap::new();
        let mut libraries = Vec::with_capacity(callers.len());
        for (caller, part) in callers {
            let Source { library, line } = source(caller);
            by_line.entry(line).or_default().add(part);
            libraries.push((library, part));
        }
        let largest = largest.iter().filter_map(row).collect();
        GapReport { count, total, bands, by_library: by_library(libraries.into_iter()), by_line, largest }
    }
}

impl GapReport {
    /// The steps before `warm_up` are warm-up: what the host did outside CUDA in their long gaps is [set-up](Cause::SetUp).
    pub fn set_warm_up(&mut self, warm_up: u64) {
        let is_early = |row: &&mut GapRow| row.may_warm_up.is_some_and(|step| step < warm_up);
        self.largest.iter_mut().filter(is_early).for_each(GapRow::is_set_up);
    }

    /// Does the same to the gaps of a line, on which several processes are, by those of one of them.
    pub fn set_warm_up_of(&mut self, process: &GapReport) {
        let ends = |row: &GapRow| (row.pid, row.after.correlation);
        let is_in = |row: &GapRow, cause| row.causes.iter().flatten().any(|(of, _)| *of == cause);
        let early = process.largest.iter().filter(|row| is_in(row, Cause::SetUp));
        let early: BTreeSet<_> = early.map(ends).collect();
        self.largest.iter_mut().filter(|row| early.contains(&ends(row))).for_each(GapRow::is_set_up);
    }
}

impl GapRow {
    /// What the host did outside CUDA in it is set-up.
    fn is_set_up(&mut self) {
        let causes = self.causes.iter_mut().flatten().map(|(cause, _)| cause);
        let all = causes.chain(self.largest.as_mut().map(|(cause, _)| cause));
        all.filter(|cause| **cause == Cause::OutsideCuda).for_each(|cause| *cause = Cause::SetUp);
    }
}

impl Merge for GapReport {
    fn merge(&mut self, other: &GapReport) {
        self.count += other.count;
        self.total.add(other.total);
        for (mine, theirs) in self.bands.iter_mut().zip(other.bands) {
            mine.add(theirs);
        }
        for (line, part) in &other.by_line {
            self.by_line.entry(line.clone()).or_default().add(*part);
        }
        let both = self.by_library.drain(..).chain(other.by_library.clone());
        self.by_library =
            by_library(both.map(|LibraryGaps { library, count, total }| (library, Part { count, total })));
        self.largest.extend(other.largest.iter().cloned());
        self.largest.sort_by_key(|gap| (Reverse(gap.duration.value), gap.pid, gap.device, gap.start));
        self.largest.truncate(KEPT);
    }
}

/// Names an operation beside a gap, which was called at `caller`.
pub fn side(neighbour: &Neighbour, caller: Caller, known: &Process, names: &Names) -> Side {
    let (kind, symbol, bytes, kernels) = match neighbour.what {
        Action::Kernel { name, .. } => {
            (LaunchKind::Kernel.name(), names.get(Namespace::Kernel, name), None, None)
        }
        Action::Graph { kernels } => (LaunchKind::Graph.name(), None, None, Some(kernels)),
        Action::Burst { .. } if neighbour.what.is_run() => (LaunchKind::Run.name(), None, None, None),
        Action::Burst { .. } => (LaunchKind::Burst.name(), None, None, None),
        Action::Transfer { kind, bytes, .. } => (kind.name(), None, Some(bytes), None),
    };
    let symbol = symbol.map(str::to_owned);
    let line = known.stacks.line(caller.line).cloned();
    let caller = known.modules.resolve(caller.address, names);
    Side { kind, symbol, bytes, kernels, correlation: neighbour.correlation, caller, line }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps of the warm-up were set-up among the causes of idle time, and "outside CUDA" among the gaps.
    #[test]
    fn long_gaps_of_the_warm_up_are_set_up() {
        let side = |correlation| Side {
            kind: LaunchKind::Kernel.name(),
            symbol: None,
            bytes: None,
            kernels: None,
            correlation,
            caller: None,
            line: None,
        };
        let row = |number: u64| GapRow {
            pid: Some(7),
            rank: None,
            device: None,
            began_ns: None,
            start: 0,
            duration: Estimate::exactly(30),
            before: side(2 * number),
            after: side(2 * number + 1),
            causes: [Some((Cause::OutsideCuda, 20)), Some((Cause::Loading, 10)), None],
            largest: Some((Cause::OutsideCuda, Site::default())),
            may_warm_up: (number < 3).then_some(number),
            tid: None,
        };
        let report = || GapReport { largest: (0..4).map(row).collect(), ..GapReport::default() };
        let causes = |gaps: &GapReport| -> Vec<[Cause; 3]> {
            let of = |row: &GapRow| {
                [row.causes[0].unwrap().0, row.causes[1].unwrap().0, row.largest.as_ref().unwrap().0]
            };
            gaps.largest.iter().map(of).collect()
        };
        let (set_up, outside) = (Cause::SetUp, Cause::OutsideCuda);
        let expected = [set_up, set_up, outside, outside].map(|cause| [cause, Cause::Loading, cause]);
        let mut of_process = report();
        of_process.set_warm_up(2);
        assert_eq!(causes(&of_process), expected);
        let mut of_line = report();
        of_line.set_warm_up_of(&of_process);
        assert_eq!(causes(&of_line), expected, "on a line with other processes");
    }
}
