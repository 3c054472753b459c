//! Kernels: how often each was launched, and how long it ran.

use super::analysis::{Analysis, End, Start};
use super::calls::HostTimes;
use super::durations::Durations;
use super::estimate::Estimate;
use super::extrapolate::{Extent, Strata, Windows};
use super::merge::Merge;
use super::scope::Scope;
use super::shapes::{ShapeCounts, Shapes};
use super::unsteady::{ByGpu, Unsteady};
use crate::hash::HashMap;
use crate::model::gpu_interval::{GpuInterval, Length, MOST_TIME, host};
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::{Body, Names, What, Work};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;

/// The name of kernels whose name is unknown.
pub const UNKNOWN: &str = "(unknown kernel)";

/// The analysis. Its size grows with the number of different kernels.
#[derive(Debug)]
pub struct KernelTimes<'a> {
    names: &'a Names,
    by_name: HashMap<u32, Kernel>,
    shapes: ShapeCounts,
    windows: Windows,
}

/// The shape of a launch, as far as its time depends on it: the grid, the block, and the dynamic shared memory in
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shaped([u32; 3], [u32; 3], u32);

impl Shaped {
    /// Returns that of a launch.
    pub fn of(body: &Body) -> Shaped {
        match body {
            Body::Work(Work { what: What::Kernel { grid, block, shared_bytes, .. }, .. }) => {
                Shaped(*grid, *block, *shared_bytes)
            }
            _ => Shaped::default(),
        }
    }
}

/// One kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its name as the program's binary has it.
    pub symbol: String,
    /// Launch calls that succeeded outside stream captures.
    pub count: u64,
    /// How often it ran in graphs: the launches of each graph, times the number of its nodes with this name.
    pub in_graphs: u64,
    /// The durations of the timed launches.
    pub durations: Durations,
    /// The sample from which the time of the other launches is estimated, by the shape of the launch.
    pub strata: Strata<Shaped>,
    /// Whether it moves data between GPUs (NCCL).
    pub communication: bool,
    /// The host's time in the calls of the timed launches. A call that launched several kernels counts with its last
    /// one.
    pub api: HostTimes,
    /// How long the timed launches waited after other work: from the return of the call to the start on the GPU; 0 if
    /// the kernel started before its call returned.
    pub queue: Durations,
    /// The shapes that it was launched in.
    pub shapes: Shapes,
    /// How its timed launches differ on the same GPU of the same process.
    pub unsteady: Unsteady,
    /// The durations by GPU, until they are judged.
    pub by_gpu: ByGpu,
}

impl Kernel {
    /// Returns the time of all launches, ns, extrapolated if not all are timed; `None` if none is.
    pub fn total(&self) -> Option<Estimate<u64>> {
        self.strata.total()
    }

    /// Returns the mean time of all launches that ran, ns, extrapolated if not all are timed; `None` if none is.
    pub fn mean(&self) -> Option<Estimate<f64>> {
        let Estimate { value, lo, hi, kind } = self.total().filter(|_| self.count > 0)?;
        let all = self.count as f64;
        // At least nothing of those ran that may not have, and at most all.
        let (doubtful, missing) = self.strata.doubtful();
        let each = |ns: u64, launches: f64| ns as f64 / launches.max(1.0);
        let value = each(value, all - missing);
        Some(Estimate {
            value,
            lo: each(lo, all - doubtful as f64).min(value),
            hi: each(hi, all).max(value),
            kind,
        })
    }

    /// Adds the duration of a timed launch.
    pub(super) fn time(&mut self, gpu: Option<u32>, length: Length) {
        if let Some(own) = self.by_gpu.next(gpu, &self.durations) {
            own.add(length);
        }
        self.durations.add(length);
    }

    /// Judges how its launches differ, when all of them in a process are known.
    pub(crate) fn judge(&mut self) {
        self.unsteady = std::mem::take(&mut self.by_gpu).judge(&self.durations);
    }

    /// The order of the table: the most time first, then the most launches, then the most runs in graphs, then the
    /// name.
    pub fn rank(&self) -> impl Ord + use<> {
        let total = self.total().map_or(0, |total| total.value);
        (std::cmp::Reverse((total, self.count, self.in_graphs)), self.symbol.clone())
    }
}

#[cfg(test)]
impl Kernel {
    /// A kernel each of whose launches took `ns`.
    pub fn of_launches(symbol: &str, launches: u64, ns: u64) -> Kernel {
        let mut kernel = Kernel { symbol: symbol.to_owned(), count: launches, ..Kernel::default() };
        for _ in 0..launches {
            kernel.durations.add(Length { lo: ns, value: ns, hi: ns });
            kernel.strata.add(Shaped::default(), 1, Some(ns));
        }
        kernel
    }
}

impl Merge for Kernel {
    fn merge(&mut self, other: &Kernel) {
        self.count += other.count;
        self.in_graphs = self.in_graphs.saturating_add(other.in_graphs);
        self.by_gpu.merge(&self.durations, &other.by_gpu, &other.durations);
        self.unsteady.merge(&other.unsteady);
        self.durations.merge(&other.durations);
        self.strata.merge(&other.strata);
        self.api.merge(&other.api);
        self.queue.merge(&other.queue);
        self.shapes.merge(&other.shapes);
    }
}

/// Returns a kernel's name as the program's binary has it.
pub fn symbol(names: &Names, id: u32) -> &str {
    names.get(Namespace::Kernel, id).unwrap_or(UNKNOWN)
}

/// Returns the launches of kernels none of which was timed: their time is unknown, and is in no total.
pub fn never_timed(kernels: &[Kernel]) -> u64 {
    kernels.iter().filter(|kernel| kernel.durations.count() == 0).map(|kernel| kernel.count).sum()
}

/// Returns the estimated time of untimed launches on a device, which `extent` selects: of ordinary kernels, and of
/// those that move data between GPUs.
pub fn untimed(kernels: &[Kernel], extent: impl Fn(&Strata<Shaped>) -> Extent) -> [Extent; 2] {
    let of = |communication| {
        let those = kernels.iter().filter(|kernel| kernel.communication == communication);
        those.map(|kernel| extent(&kernel.strata)).fold(Extent::default(), Extent::plus)
    };
    [of(false), of(true)]
}

/// Returns how long an operation waited after its call had returned. The return is in host ns, and the GPU's clock is
/// placed in those to within [`GpuInterval::off_by`]. Where that is not known, the poll that found the operation
/// completed bounds its start.
fn queued(operation: &Operation, interval: &GpuInterval, body: &Body) -> Length {
    let returned = host(operation.returned);
    let after = |moment: i64| moment.saturating_sub(returned).max(0) as u64;
    let (value, hi) = (after(interval.start), after(interval.latest_start));
    let seen = match body {
        Body::Work(Work { gpu: Some(gpu), .. }) if gpu.seen != 0 => after(host(gpu.seen)),
        _ => MOST_TIME,
    };
    let off_by = interval.off_by.unwrap_or(MOST_TIME);
    let lo = after(interval.earliest_start).saturating_sub(off_by);
    let hi = hi.saturating_add(off_by).min(seen);
    Length { lo: lo.min(value), value, hi: hi.max(value) }
}

/// Kernels of several processes with the same name are one.
impl Merge for Vec<Kernel> {
    fn merge(&mut self, other: &Vec<Kernel>) {
        let by_symbol = |kernel: Kernel| (kernel.symbol.clone(), kernel);
        let mut kernels: BTreeMap<String, Kernel> = self.drain(..).map(by_symbol).collect();
        for theirs in other {
            kernels
                .entry(theirs.symbol.clone())
                .and_modify(|mine| mine.merge(theirs))
                .or_insert_with(|| theirs.clone());
        }
        self.extend(kernels.into_values());
        self.sort_by_cached_key(Kernel::rank);
    }
}

impl<'a> Analysis<'a> for KernelTimes<'a> {
    /// Sorted by [`Kernel::rank`]. Several numbers with the same name are one kernel.
    type Rows = Vec<Kernel>;

    fn new(start: &Start<'a>) -> Self {
        KernelTimes {
            names: start.names,
            by_name: HashMap::default(),
            shapes: ShapeCounts::default(),
            windows: Windows::default(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        self.windows.observe(event.record);
        let Some(operation) = scope.operation() else { return };
        self.shapes.observe(event.record, operation);
        match (operation.what, operation.when) {
            (_, When::Captured) | (Action::Transfer { .. } | Action::Burst { .. }, _) => {}
            (Action::Graph { .. }, _) => {
                let Some(ran) = scope.graph() else { return };
                let unnamed = Some((0, ran.unnamed())).filter(|(_, count)| *count > 0);
                for (name, count) in ran.kernels.iter().copied().chain(unnamed) {
                    let kernel = self.by_name.entry(name).or_default();
                    kernel.in_graphs = kernel.in_graphs.saturating_add(count);
                }
            }
            (Action::Kernel { name, communication }, when) => {
                let kernel = self.by_name.entry(name).or_default();
                kernel.count += 1;
                kernel.communication = communication;
                kernel.strata.observe(Shaped::of(&event.record.body), &self.windows, operation, event);
                if let When::Timed(interval) = when {
                    kernel.time(operation.device, interval.length);
                    event.call.into_iter().for_each(|call| kernel.api.add(call));
                    kernel.queue.add(queued(operation, &interval, &event.record.body));
                }
            }
        }
    }

    fn finish(self, end: &End<'_>) -> Vec<Kernel> {
        let names = self.names;
        let symbol = |id: u32| symbol(names, id);
        let mut by_symbol: HashMap<&str, Kernel> = HashMap::default();
        for (id, kernel) in self.by_name {
            match by_symbol.entry(symbol(id)) {
                Entry::Occupied(mut known) => known.get_mut().merge(&kernel),
                Entry::Vacant(new) => {
                    let symbol = (*new.key()).to_owned();
                    new.insert(Kernel { symbol, ..kernel });
                }
            }
        }
        let mut kernels: Vec<Kernel> = by_symbol.into_values().collect();
        kernels.sort_by_cached_key(Kernel::rank);
        let mut shapes = self.shapes.by_symbol(symbol, end.known, names);
        for kernel in &mut kernels {
            kernel.shapes = shapes.remove(kernel.symbol.as_str()).unwrap_or_default();
            kernel.shapes.settle(kernel.in_graphs > 0);
            kernel.judge();
        }
        kernels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gpu_interval::Basis;
    use crate::model::simulation::work;
    use crate::model::stacks::Caller;
    use crate::trace::record::GpuTime;

    /// An operation whose call returned at 1000, that was found completed at 5000, and that started in `[earliest,
    /// latest]`.
    fn queue([earliest, start, latest]: [i64; 3], off_by: Option<u64>) -> Length {
        let mut body = work(1_000, 500, 0);
        body.gpu = Some(GpuTime { seen: 5_000, ..GpuTime::default() });
        let interval = GpuInterval {
            time_base: 1,
            earliest_start: earliest,
            latest_start: latest,
            earliest_end: 4_000,
            latest_end: 4_000,
            busy_from: latest,
            starved: 0,
            start,
            end: 4_000,
            length: Length::default(),
            basis: Basis::Corrected,
            raw: 0,
            clock_half_width: None,
            off_by,
        };
        let operation = Operation {
            correlation: 1,
            context: 1,
            device: None,
            stream: 7,
            caller: Caller::default(),
            called: body.call.begin,
            returned: body.call.end,
            what: Action::Burst { launches: 1, ordinary: 0, communication: false },
            when: When::Timed(interval),
        };
        queued(&operation, &interval, &Body::Work(body))
    }

    #[test]
    fn a_launch_queues_from_the_return_of_its_call_to_its_start() {
        assert_eq!(queue([2_900, 3_000, 3_100], Some(50)), Length { lo: 1_850, value: 2_000, hi: 2_150 });
        assert_eq!(
            queue([700, 800, 900], Some(50)),
            Length { lo: 0, value: 0, hi: 50 },
            "before it returned"
        );
        assert_eq!(queue([2_900, 3_000, 4_990], Some(50)).hi, 4_000, "it was seen to be over");
        assert_eq!(queue([2_900, 3_000, 3_100], None), Length { lo: 0, value: 2_000, hi: 4_000 }, "no clock");
    }
}
