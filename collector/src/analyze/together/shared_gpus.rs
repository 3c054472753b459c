//! What is known of a GPU that several processes use?

use super::super::devices::{DeviceReport, both};
use super::super::extrapolate::Extent;
use super::super::gaps::Found;
use super::super::identity::{CLASSES, Identity};
use super::super::memory::{MemoryUse, Use};
use super::super::owners::Holding;
use super::super::timeline::DeviceTime;
use crate::model::gpu_interval::host;
use std::ops::Range;

/// What the report of a process knows of the time of a GPU that the process used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub identity: Identity,
    /// The time that it knows nothing of, because the process was not recorded, ns.
    pub blind_ns: u64,
}

/// Fills what was found of a device into its row. `own`: the rows of the processes, and for how long each was not recorded.
pub(super) fn placed(device: &mut DeviceReport, time: DeviceTime, own: &[(&DeviceReport, u64)]) -> Found {
    let origin = host(device.line.began);
    device.began_ns = time.began.map(|at| at.saturating_sub(origin).max(0) as u64);
    (device.identity, device.timelines) = (time.identity, time.timelines);
    (device.timed, device.late) = (time.timed, time.late);
    device.streams = time.streams;
    device.bins = time.bins;
    device.work.observed = time.work;
    device.work.most_compute = own.iter().map(|(row, _)| row.work.most_compute).sum();
    device.work.selected = own.iter().map(|(row, _)| row.work.selected).reduce(both).flatten();
    for (row, _) in own {
        let add = |all: &mut [Extent; CLASSES], theirs: [Extent; CLASSES]| {
            all.iter_mut().zip(theirs).for_each(|(all, theirs)| *all = all.plus(theirs));
        };
        add(&mut device.work.paused, row.work.paused);
        add(&mut device.work.unseen, row.work.unseen);
    }
    let used = own.iter().filter(|(row, _)| row.timelines > 0);
    let own: Vec<Own> =
        used.map(|(row, blind_ns)| Own { identity: row.identity, blind_ns: *blind_ns }).collect();
    narrow(&mut device.identity, &own);
    time.gaps.finish(device.identity.idle.hi)
}

/// Narrows the bounds that the clocks of several processes leave, by what each one's own clock proves about its own
/// work. All of them together did a thing for at least as long as any one of them, less what the others can have done
/// that takes precedence, and at most for the sum of their times.
pub(super) fn narrow(all: &mut Identity, own: &[Own]) {
    let maybe = all.maybe;
    for class in 0..CLASSES {
        let least = own.iter().enumerate().map(|(at, one)| {
            let others = own.iter().enumerate().filter(move |(place, _)| *place != at).map(|(_, one)| one);
            one.identity.busy[class].lo.saturating_sub(possible(others, &maybe, 0..class))
        });
        let (least, most) = (least.max().unwrap_or(0), possible(own.iter(), &maybe, class..class + 1));
        let part = &mut all.busy[class];
        part.lo = part.lo.max(least).min(part.value);
        part.hi = part.hi.min(most).max(part.value);
    }
    let busy = own.iter().map(|one| one.identity.busy.iter().map(|part| part.lo).sum()).max().unwrap_or(0);
    let most = possible(own.iter(), &maybe, 0..CLASSES);
    let idle = &mut all.idle;
    idle.lo = idle.lo.max(all.span.saturating_sub(most)).min(idle.value);
    idle.hi = idle.hi.min(all.span.saturating_sub(busy)).max(idle.value);
}

/// Returns for how long processes can have run work of some classes, ns. `maybe` is the time of the line in which work of
/// each class can have run unobserved; of all processes, the result is no less. Their own reports have nothing of the time
/// in which they were not recorded, nor of a pause that goes on after the last operation that they timed.
pub(super) fn possible<'o>(
    own: impl Iterator<Item = &'o Own> + Clone,
    maybe: &[u64; CLASSES],
    classes: Range<usize>,
) -> u64 {
    if own.clone().next().is_none() || classes.is_empty() {
        return 0;
    }
    let sum = |of: &dyn Fn(&Own) -> u64| own.clone().map(of).fold(0, u64::saturating_add);
    let of_class = |class: usize| {
        let unobserved = sum(&|one| one.identity.maybe[class]);
        sum(&|one| one.identity.busy[class].hi).saturating_add(maybe[class].saturating_sub(unobserved))
    };
    classes.map(of_class).fold(sum(&|one| one.blind_ns), u64::saturating_add)
}

/// Returns the memory held on the line with the counts of all processes, which do not depend on the time.
pub(super) fn counted(mut line: MemoryUse, sum: MemoryUse) -> MemoryUse {
    let with = |held: &mut Use, counts: Use| {
        let Use { allocations, allocated_bytes, frees, .. } = counts;
        *held = Use { allocations, allocated_bytes, frees, ..*held };
    };
    with(&mut line.device, sum.device);
    for (kind, counts) in sum.by_kind {
        with(line.by_kind.entry(kind).or_default(), counts);
    }
    let held = std::mem::replace(&mut line.by_library, sum.by_library);
    for (library, counts) in &mut line.by_library {
        let Holding { at_peak_bytes, live_bytes, .. } = held.get(library).copied().unwrap_or_default();
        *counts = Holding { at_peak_bytes, live_bytes, ..*counts };
    }
    MemoryUse { out_of_memory: sum.out_of_memory, holders: sum.holders, ..line }
}

#[cfg(test)]
mod tests {
    use super::super::super::estimate::Sum;
    use super::super::super::extrapolate;
    use super::super::super::identity::Class;
    use super::super::super::whole::{Work, whole};
    use super::*;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    /// A process ran work of a class for `busy` ns of `span`, by its own clock.
    fn own(class: Class, busy: u64, span: u64, blind_ns: u64) -> Own {
        let mut identity = Identity { span, idle: exactly(span - busy), ..Identity::default() };
        identity.busy[class as usize] = exactly(busy);
        Own { identity, blind_ns }
    }

    /// The GPU was said to have run kernels for no longer than those that were recorded.
    #[test]
    fn a_process_may_use_a_gpu_while_it_is_not_recorded() {
        // Capture ranges of 100 and of 250 ns, which have 50 ns in common.
        let processes = [own(Class::Compute, 10, 100, 200), own(Class::Compute, 10, 250, 50)];
        let mut all = Identity { span: 300, undecided: exactly(240), ..Identity::default() };
        all.busy[Class::Compute as usize] = Sum { value: 20, lo: 20, hi: 260 };
        all.idle = Sum { value: 40, lo: 0, hi: 280 };
        narrow(&mut all, &processes);
        assert_eq!(all.busy[Class::Compute as usize], Sum { value: 20, lo: 20, hi: 260 });
        assert_eq!(all.idle.lo, 300 - (10 + 10 + 200 + 50));
    }

    /// The upper bound became less than the part of it that was not observed, and subtracting that was an error.
    #[test]
    fn a_pause_that_goes_on_after_the_last_timed_operation_of_a_process_is_not_forgotten() {
        let processes = [own(Class::Compute, 10, 10, 0), own(Class::Copy, 500, 1_000, 0)];
        let mut all = Identity { span: 1_000, ..Identity::default() };
        all.busy[Class::Compute as usize] = Sum { value: 10, lo: 10, hi: 910 };
        all.busy[Class::Copy as usize] = Sum { value: 500, lo: 0, hi: 990 };
        all.unobserved = Sum { value: 400, lo: 400, hi: 490 };
        all.idle = Sum { value: 90, lo: 0, hi: 490 };
        all.maybe[Class::Compute as usize] = 900;
        narrow(&mut all, &processes);
        assert_eq!(all.busy[Class::Compute as usize].hi, 910);
        assert_eq!(all.busy[Class::Copy as usize].hi, 500, "the copies were all recorded");
        let mut work = Work { observed: [10, 0, 0, 500], ..Work::default() };
        let time = extrapolate::Range { lo: 50.0, value: 50.0, hi: 50.0 };
        work.paused[Class::Compute as usize] = Extent { known: 5, time, ..Extent::default() };
        assert_eq!(whole(&all, &work, 1).busy[Class::Compute as usize], exactly(60));
    }

    #[test]
    fn of_the_only_process_of_a_gpu_its_own_bounds_count() {
        let mut process = own(Class::Copy, 500, 1_000, 0);
        process.identity.maybe[Class::Compute as usize] = 100;
        process.identity.busy[Class::Compute as usize].hi = 100;
        let mut all = process.identity;
        all.busy[Class::Copy as usize] = Sum { value: 500, lo: 400, hi: 600 };
        narrow(&mut all, &[process]);
        assert_eq!(all.busy[Class::Copy as usize], exactly(500));
        assert_eq!(all.busy[Class::Compute as usize].hi, 100);
    }
}
