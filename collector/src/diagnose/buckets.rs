//! The parts of the wall time, which do not overlap and sum to it.

use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::Sum;
use crate::analyze::identity::{Class, Part};
use crate::analyze::idle::Cause;
use crate::analyze::idle::by_step::BeforeSteps;
use crate::analyze::{ProcessReport, Tables, lines};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A part of the wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// Before the GPU's first operation.
    StartUp,
    /// A kernel ran.
    Compute,
    /// A communication kernel ran, and no other.
    ExposedCommunication,
    /// A copy or a memset ran, and no kernel.
    ExposedCopies,
    /// A graph launch ran.
    Graphs,
    /// The GPU was idle, for this cause.
    Idle(Cause),
    /// Neither certainly busy nor certainly idle.
    Undecided,
    /// After the GPU's last operation.
    Tail,
}

impl Bucket {
    /// Whether it tells about what is selected also where other work of the GPU is not: the GPU may have done that.
    pub fn is_of_selected(self) -> bool {
        matches!(self, Bucket::Compute | Bucket::Graphs)
    }
}

/// The wall time of the GPU that was used most, by [`Bucket`]: that which was busy for the longest time, or had work for the longest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// The wall time, ns: the values of the parts sum to it.
    pub wall: u64,
    /// The parts, ns.
    pub parts: BTreeMap<Bucket, Sum>,
    /// That GPU's place in the tables; `None` if no GPU had work.
    pub device: Option<usize>,
    /// Of a program with steps the time of starting up and ending, ns, which is not judged: before the GPU's first operation and after
    /// its last, what sets up or loads code in between, and all that is before the first step. 0 if there are too few steps, or it is
    /// short.
    pub around: u64,
    /// Of other parts than start-up, set-up and the tail, what comes once, ns: it is a part of [`around`](Self::around) if that is not 0,
    /// and only loads code otherwise.
    pub once: BTreeMap<Bucket, u64>,
}

/// The fewest steps that are judged without the time around them.
const STEPS: u64 = 10;
/// The least share of the wall time that is left out.
const AROUND: f64 = 0.1;

impl Buckets {
    /// Divides the wall time of a run.
    pub fn of(reports: &[ProcessReport], all: &Tables) -> Buckets {
        let used = all.devices.iter().enumerate().filter(|(_, device)| device.timelines > 0);
        let use_of = |(at, device): &(usize, &DeviceReport)| {
            let whole = device.whole();
            let busy = whole.busy.iter().fold(0u64, |sum, part| sum.saturating_add(part.value));
            (busy, whole.span, Reverse(*at))
        };
        let Some((at, device)) = used.max_by_key(use_of) else {
            let wall = lines(reports).map(|line| line.looked_ns).max().unwrap_or(0);
            let parts = BTreeMap::from([(Bucket::StartUp, Sum { value: wall, lo: wall, hi: wall })]);
            return Buckets { wall, parts, ..Buckets::default() };
        };
        let buckets = Buckets::of_device(device);
        let loading = Bucket::Idle(Cause::Loading);
        let loaded_once = buckets.get(loading).value.saturating_sub(in_steps(all, Cause::Loading));
        let mut once = buckets.before_steps(&device.before_steps);
        once.insert(loading, loaded_once);
        let around = [Bucket::StartUp, Bucket::Idle(Cause::SetUp), Bucket::Tail];
        let around = around.into_iter().map(|bucket| buckets.get(bucket).value).chain(once.values().copied());
        // The steady steps are judged, whatever they do.
        let around = around.sum::<u64>().min(buckets.wall.saturating_sub(steady(all)));
        let is_left_out = all.steps.count >= STEPS && around as f64 > buckets.wall as f64 * AROUND;
        if !is_left_out {
            once.retain(|bucket, _| *bucket == loading);
        }
        Buckets { device: Some(at), around: if is_left_out { around } else { 0 }, once, ..buckets }
    }

    /// Returns of each part what was before the first step, ns, beside set-up and loading code, which have causes of their own.
    fn before_steps(&self, before: &BeforeSteps) -> BTreeMap<Bucket, u64> {
        let busy = [
            (Bucket::Compute, Class::Compute),
            (Bucket::ExposedCommunication, Class::Communication),
            (Bucket::ExposedCopies, Class::Copy),
            (Bucket::Graphs, Class::Graph),
        ];
        let busy = busy.map(|(bucket, class)| (bucket, before.parts[Part::Busy(class).index()]));
        let causes = Cause::ALL
            .into_iter()
            .filter(|cause| !matches!(cause, Cause::SetUp | Cause::Loading | Cause::Undecided));
        let idle = causes.map(|cause| (Bucket::Idle(cause), before.idle[cause as usize]));
        let all = busy.into_iter().chain(idle).map(|(bucket, ns)| (bucket, ns.min(self.get(bucket).value)));
        all.filter(|(_, ns)| *ns > 0).collect()
    }

    /// Returns what of a part comes once, ns.
    pub fn once(&self, bucket: Bucket) -> u64 {
        self.once.get(&bucket).copied().unwrap_or(0)
    }

    /// Returns the time that is judged, ns: of a program with steps, without what comes once. A profile of a hundred steps is taken
    /// to learn about the thousands that will follow, and not about the imports before them.
    pub fn judged(&self) -> u64 {
        self.wall.saturating_sub(self.around)
    }

    fn of_device(device: &DeviceReport) -> Buckets {
        let whole = device.whole();
        let wall = device.line.looked_ns.max(whole.span);
        let outside = wall - whole.span;
        let first = device.line.period_ns.0;
        let start_up = match device.began_ns {
            // It has no work in the selected period.
            _ if whole.span == 0 => outside,
            Some(began) => began.saturating_sub(first).min(outside),
            None => 0,
        };
        let exactly = |value| Sum { value, lo: value, hi: value };
        let mut parts = BTreeMap::from([
            (Bucket::StartUp, exactly(start_up)),
            (Bucket::Compute, whole.busy[Class::Compute as usize]),
            (Bucket::ExposedCommunication, whole.busy[Class::Communication as usize]),
            (Bucket::ExposedCopies, whole.busy[Class::Copy as usize]),
            (Bucket::Graphs, whole.busy[Class::Graph as usize]),
            (Bucket::Tail, exactly(outside - start_up)),
        ]);
        let mut undecided = whole.undecided;
        undecided.add(whole.unobserved);
        parts.insert(Bucket::Undecided, undecided);
        let by_cause = &device.idle.by_cause;
        let known = by_cause.values().fold(0u64, |sum, part| sum.saturating_add(part.total.value));
        let mut left = whole.idle.value;
        for (cause, part) in by_cause.iter().filter(|(cause, _)| **cause != Cause::Undecided) {
            let share =
                |ns: u64| (u128::from(ns) * u128::from(whole.idle.value) / u128::from(known.max(1))) as u64;
            let value = share(part.total.value).min(left);
            left -= value;
            let idle =
                Sum { value, lo: share(part.total.lo).min(value), hi: share(part.total.hi).max(value) };
            parts.insert(Bucket::Idle(*cause), idle);
        }
        parts.insert(Bucket::Idle(Cause::Undecided), exactly(left));
        Buckets { wall, parts, ..Buckets::default() }
    }

    /// Returns a part, ns; 0 if it is absent.
    pub fn get(&self, bucket: Bucket) -> Sum {
        self.parts.get(&bucket).copied().unwrap_or_default()
    }

    /// Returns the time from the GPU's first operation to its last, ns.
    pub fn span(&self) -> u64 {
        let outside = [Bucket::StartUp, Bucket::Tail].map(|bucket| self.get(bucket).value);
        outside.into_iter().fold(self.wall, u64::saturating_sub)
    }

    /// Returns the idle time of all causes, ns.
    pub fn idle(&self) -> Sum {
        let idle = self.parts.iter().filter(|(bucket, _)| matches!(bucket, Bucket::Idle(_)));
        idle.fold(Sum::default(), |mut all, (_, part)| {
            all.add(*part);
            all
        })
    }
}

/// The time of all steps but the warm-up, ns.
fn steady(all: &Tables) -> u64 {
    in_steady_steps(all, all.steps.time.map_or(0.0, |time| time.mean))
}

/// The idle time of a cause in those steps, ns.
fn in_steps(all: &Tables, cause: Cause) -> u64 {
    in_steady_steps(all, all.steps.contents.idle_by_cause.get(&cause).copied().unwrap_or(0.0))
}

/// Returns so many times what is in each, ns.
fn in_steady_steps(all: &Tables, ns: f64) -> u64 {
    let steady = &all.steps.steady;
    (ns * steady.end.saturating_sub(steady.start) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::identity::{self, CLASSES, Identity};
    use crate::analyze::idle::{IdleReport, Part};
    use crate::analyze::steps::{StepTimes, Steps};
    use crate::analyze::{Line, ProcessInfo};
    use proptest::prelude::*;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    fn device(line: Line, began: Option<u64>, parts: [u64; CLASSES + 3]) -> DeviceReport {
        let [a, b, c, d, idle, undecided, unobserved] = parts.map(exactly);
        let span = parts.iter().sum();
        let identity =
            Identity { span, busy: [a, b, c, d], idle, undecided, unobserved, ..Identity::default() };
        DeviceReport { line, began_ns: began, identity, timelines: 1, ..DeviceReport::default() }
    }

    fn process(line: Line) -> ProcessReport {
        let process = ProcessInfo { line, ..ProcessInfo::default() };
        ProcessReport { process, tables: Tables::default(), together: None, findings: None }
    }

    #[test]
    fn time_around_the_span_is_start_up_and_tail() {
        let line = Line { wall_ns: 1_000, period_ns: (100, 900), looked_ns: 800, ..Line::default() };
        let all =
            Tables { devices: vec![device(line, Some(150), [1, 2, 3, 4, 5, 6, 7])], ..Tables::default() };
        let buckets = Buckets::of(&[process(line)], &all);
        let of = |bucket| buckets.get(bucket).value;
        assert_eq!((of(Bucket::StartUp), buckets.span(), of(Bucket::Tail)), (50, 28, 722));
        assert_eq!((of(Bucket::Undecided), buckets.idle().value, buckets.wall), (13, 5, 800));
    }

    #[test]
    fn a_gpu_without_work_in_the_selected_time_is_starting_up() {
        let line = Line { wall_ns: 1_000, period_ns: (0, 1_000), looked_ns: 1_000, ..Line::default() };
        let all = Tables { devices: vec![device(line, None, [0; 7])], ..Tables::default() };
        for all in [all, Tables::default()] {
            let buckets = Buckets::of(&[process(line)], &all);
            assert_eq!((buckets.get(Bucket::StartUp).value, buckets.wall), (1_000, 1_000));
        }
    }

    /// A GPU with a copy at either end of the run was taken for the one that was used most, and of equal ones the last.
    #[test]
    fn the_gpu_that_was_used_most_is_the_one_that_was_busy_longest() {
        let line = Line { wall_ns: 20_000, period_ns: (0, 20_000), looked_ns: 20_000, ..Line::default() };
        let (busy, two_copies) = ([8_600, 0, 0, 0, 500, 0, 0], [0, 0, 0, 2, 9_598, 0, 0]);
        let of = |parts: &[[u64; 7]]| {
            let devices = parts.iter().map(|parts| device(line, Some(500), *parts)).collect();
            Buckets::of(&[process(line)], &Tables { devices, ..Tables::default() }).device
        };
        assert_eq!((of(&[busy, two_copies]), of(&[two_copies, busy])), (Some(0), Some(1)));
        assert_eq!(of(&[busy, busy, two_copies]), Some(0));
        let (short, long) = ([0, 0, 0, 0, 0, 0, 10], [0, 0, 0, 0, 0, 0, 20]);
        assert_eq!(of(&[short, long]), Some(1), "nothing was timed");
    }

    /// A sleep that the other GPU's work hid was "outside CUDA" of the GPU that was used most, and promised time that it cannot save.
    #[test]
    fn the_causes_of_a_gpus_idle_time_are_its_own() {
        let line = Line { wall_ns: 1_000, period_ns: (0, 1_000), looked_ns: 1_000, ..Line::default() };
        let of = |busy, cause| {
            let mut device = device(line, Some(0), [busy, 0, 0, 0, 100, 0, 0]);
            device.idle.by_cause = [(cause, Part { count: 1, total: exactly(100) })].into();
            device
        };
        let devices = vec![of(500, Cause::ExplicitSync), of(5, Cause::OutsideCuda)];
        let idle = crate::analyze::devices::idle(&devices);
        let buckets = Buckets::of(&[process(line)], &Tables { devices, idle, ..Tables::default() });
        let idle = [Cause::ExplicitSync, Cause::OutsideCuda].map(|cause| buckets.get(Bucket::Idle(cause)));
        assert_eq!(idle, [exactly(100), exactly(0)]);
    }

    const MS: u64 = 1_000_000;

    /// A hundred steps of `step` ms each in a run of 1 s, in which each part of the GPU's time has so many ms.
    fn with_steps(
        step: u64,
        parts: [u64; CLASSES + 3],
        before: BeforeSteps,
        causes: &[(Cause, u64, u64)],
    ) -> Buckets {
        let line = Line {
            wall_ns: 1_000 * MS,
            period_ns: (0, 1_000 * MS),
            looked_ns: 1_000 * MS,
            ..Line::default()
        };
        let mut device = device(line, Some(0), parts.map(|part| part * MS));
        device.before_steps = before;
        let part = |ms: u64| Part { count: 1, total: exactly(ms * MS) };
        let by_cause = causes.iter().map(|(cause, ms, _)| (*cause, part(*ms))).collect();
        let mut steps = Steps { count: 100, steady: 0..100, ..Steps::default() };
        steps.time = Some(StepTimes { mean: (step * MS) as f64, ..StepTimes::default() });
        steps.contents.idle_by_cause =
            causes.iter().map(|(cause, _, in_steps)| (*cause, (*in_steps * MS) as f64 / 100.0)).collect();
        device.idle = IdleReport { by_cause, ..IdleReport::default() };
        let all = Tables { devices: vec![device], steps, ..Tables::default() };
        Buckets::of(&[process(line)], &all)
    }

    /// A model's weights were copied once, before a hundred steps that were all kernels, and the verdict was that copies bound the program
    /// for 57 % of the time.
    #[test]
    fn copies_before_the_first_step_are_not_judged() {
        let mut before = BeforeSteps::default();
        before.parts[identity::Part::Busy(Class::Copy).index()] = 300 * MS;
        before.idle[Cause::Copying as usize] = 200 * MS;
        let buckets = with_steps(5, [490, 0, 0, 305, 205, 0, 0], before, &[(Cause::Copying, 205, 5)]);
        assert_eq!((buckets.around, buckets.judged()), (500 * MS, 500 * MS));
        assert_eq!(buckets.once(Bucket::ExposedCopies), 300 * MS);
        assert_eq!(
            (buckets.once(Bucket::Compute), buckets.once(Bucket::Idle(Cause::Copying))),
            (0, 200 * MS)
        );
    }

    /// A program that reset the GPU in each of a hundred steps was called GPU-bound, where the GPU was idle for 40 % of each: what sets up
    /// and loads code was left out, however often it came.
    #[test]
    fn what_each_step_loads_is_judged() {
        let parts = [600, 0, 0, 0, 400, 0, 0];
        let buckets = with_steps(9, parts, BeforeSteps::default(), &[(Cause::Loading, 400, 390)]);
        assert_eq!((buckets.around, buckets.judged()), (0, 1_000 * MS));
        assert_eq!(buckets.once(Bucket::Idle(Cause::Loading)), 10 * MS);
        // Also where the causes in the steps are not known.
        let buckets = with_steps(9, parts, BeforeSteps::default(), &[(Cause::Loading, 400, 0)]);
        assert_eq!(buckets.judged(), 1_000 * MS);
        // Loaded before the steps, it is not.
        let buckets = with_steps(
            6,
            parts,
            BeforeSteps::default(),
            &[(Cause::Loading, 390, 0), (Cause::Launching, 10, 10)],
        );
        assert_eq!((buckets.around, buckets.judged()), (390 * MS, 610 * MS));
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_wall_time_to_the_nanosecond(
            devices in prop::collection::vec(
                (prop::array::uniform7(0u64..1_000_000_000_000), prop::option::of(0u64..1_000_000)), 0..4),
            causes in prop::collection::vec((0..Cause::ALL.len(), 0u64..u64::MAX / 64), 0..13),
            (wall, since) in (0u64..4_000_000_000_000, 0u64..1_000_000),
        ) {
            let line = Line { wall_ns: wall, period_ns: (since, wall), looked_ns: wall, ..Line::default() };
            let idle = causes.into_iter().map(|(cause, ns)| {
                (Cause::ALL[cause], Part { count: 1, total: Sum { value: ns, lo: ns / 2, hi: ns * 2 } })
            });
            let idle = IdleReport { by_cause: idle.collect(), ..IdleReport::default() };
            let of = |(parts, began)| DeviceReport { idle: idle.clone(), ..device(line, began, parts) };
            let devices: Vec<_> = devices.into_iter().map(of).collect();
            let most = |device: &&DeviceReport| {
                let busy: u64 = device.identity.busy.iter().map(|part| part.value).sum();
                (busy, device.identity.span)
            };
            let most = devices.iter().max_by_key(most).map_or(0, |device| device.identity.span);
            let all = Tables { devices, ..Tables::default() };
            let buckets = Buckets::of(&[process(line)], &all);
            prop_assert_eq!(buckets.wall, wall.max(most));
            prop_assert_eq!(buckets.parts.values().map(|part| part.value).sum::<u64>(), buckets.wall);
            prop_assert_eq!(buckets.span(), most);
            prop_assert!(buckets.parts.values().all(|part| part.lo <= part.value && part.value <= part.hi));
        }
    }
}
