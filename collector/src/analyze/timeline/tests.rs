//! Compares the sweep with its definition, and with a simulated GPU.

use super::super::estimate::{Estimate, Sum};
use super::super::gaps::{Found, Part};
use super::super::identity::CLASSES;
use super::*;
use crate::model::gpu_interval::{Length, derive};
use crate::model::simulation::{Load, Simulation, survey};
use crate::model::stacks::Caller;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::trace::record::{Api, Blocked, Call, Hang, Record};
use gpuspy_wire::record::LossCause;
use proptest::prelude::*;

mod lost;
mod overlaps;
mod periods;

/// Every class, in the order of their numbers.
const ALL: [Class; CLASSES] = Class::ALL;

const KERNEL: Action = Action::Kernel { name: 1, communication: false };
const NCCL: Action = Action::Kernel { name: 2, communication: true };
const GRAPH: Action = Action::Graph { kernels: 3 };
const COPY: Action = Action::Transfer { kind: TransferKind::HtoD, host_memory: HostMemory::Pinned, bytes: 4 };

fn at(earliest: [i64; 2], best: [i64; 2], latest: [i64; 2], basis: Basis) -> GpuInterval {
    GpuInterval {
        time_base: 1,
        earliest_start: earliest[0],
        earliest_end: earliest[1],
        start: best[0],
        end: best[1],
        latest_start: latest[0],
        latest_end: latest[1],
        busy_from: latest[0],
        starved: 0,
        length: Length::default(),
        basis,
        raw: (latest[1] - earliest[0]) as u64,
        clock_half_width: None,
        off_by: Some(3),
    }
}

fn exactly(start: i64, end: i64) -> GpuInterval {
    at([start, end], [start, end], [start, end], Basis::Proven)
}

fn operation(correlation: u64, stream: u64, what: Action, when: When) -> Operation {
    Operation {
        correlation,
        context: 1,
        device: Some(0),
        stream,
        caller: Caller::default(),
        called: correlation,
        returned: correlation,
        what,
        when,
    }
}

fn untimed(after: i64) -> When {
    When::Untimed { reason: Reason::Untimed(Untimed::DeepQueue), after: Some(after) }
}

fn record() -> Record {
    Record { thread: 1, at: 0, body: Body::Loss { cause: LossCause::RingFull, count: 0 } }
}

fn take(timelines: &mut Timelines, event: &Event<'_>) {
    timelines.observe(event, &Scope::whole(event, true));
}

fn sweep_all(operations: &[Operation], drained: Option<Drained>) -> DeviceTime {
    let record = record();
    let mut timelines = Timelines::default();
    let event = Event::new(&record);
    for operation in operations {
        take(&mut timelines, &Event { operation: Some(*operation), ..event.clone() });
    }
    take(&mut timelines, &Event { drained: drained.into_iter().collect(), ..event });
    timelines.by_device(2_000).remove(&Some(0)).unwrap_or_default()
}

fn timed(operations: &[(Action, GpuInterval)]) -> DeviceTime {
    let numbered = operations.iter().zip(1..);
    let all: Vec<Operation> =
        numbered.map(|((what, o), n)| operation(n, n, *what, When::Timed(*o))).collect();
    sweep_all(&all, None)
}

fn exact(ns: u64) -> Sum {
    Sum { value: ns, lo: ns, hi: ns }
}

#[test]
fn overlapping_work_is_not_counted_twice() {
    let device = timed(&[
        (COPY, exactly(0, 100)),
        (KERNEL, exactly(20, 50)),
        (NCCL, exactly(40, 70)),
        (GRAPH, exactly(60, 65)),
        (KERNEL, exactly(150, 160)),
    ]);
    let identity = device.identity;
    assert_eq!(identity.span, 160);
    assert_eq!(identity.busy[Class::Compute as usize], exact(40));
    assert_eq!(identity.busy[Class::Graph as usize], exact(5));
    assert_eq!(identity.busy[Class::Communication as usize], exact(15));
    assert_eq!(identity.busy[Class::Copy as usize], exact(50));
    assert_eq!(identity.idle, exact(50));
    assert_eq!(identity.undecided, exact(0));
}

#[test]
fn a_gap_has_both_neighbours_and_an_interval() {
    let device = timed(&[
        (KERNEL, at([0, 90], [10, 95], [20, 100], Basis::Corrected)),
        (COPY, at([400, 700], [430, 700], [450, 700], Basis::Corrected)),
        (KERNEL, exactly(700, 800)),
    ]);
    let Found { count, total, largest, .. } = device.gaps.finish(device.identity.idle.hi);
    assert_eq!((count, total.value, total.lo), (1, 335, 300));
    let gap = largest[0];
    assert_eq!((gap.start, gap.duration.value, gap.duration.lo, gap.duration.hi), (95, 335, 300, 360));
    assert_eq!((gap.before.correlation, gap.after.correlation), (1, 2));
    assert_eq!(gap.after.what, COPY);
}

#[test]
fn touching_operations_leave_no_gap() {
    let device = timed(&[(KERNEL, exactly(0, 10)), (KERNEL, exactly(10, 20)), (COPY, exactly(20, 21))]);
    assert_eq!(device.gaps.finish(0).count, 0);
}

#[test]
fn only_the_largest_gaps_are_kept() {
    let starts = (0..100).map(|i| i * 1_000 + i * i);
    let device = timed(&starts.map(|s| (KERNEL, exactly(s, s + 100))).collect::<Vec<_>>());
    let Found { count, largest, .. } = device.gaps.finish(0);
    assert_eq!((count, largest.len()), (99, super::super::gaps::KEPT));
    let lengths: Vec<u64> = largest.iter().map(|gap| gap.duration.value).collect();
    assert_eq!(lengths, (35..99).rev().map(|i| 900 + 2 * i + 1).collect::<Vec<u64>>());
}

#[test]
fn untimed_work_makes_its_interval_undecided() {
    let first = operation(1, 7, KERNEL, When::Timed(exactly(0, 10)));
    let other = operation(3, 8, COPY, When::Timed(exactly(40, 50)));
    let last = operation(4, 7, KERNEL, When::Timed(exactly(90, 100)));
    let device = sweep_all(&[first, operation(2, 7, KERNEL, untimed(5)), other, last], None);
    let identity = device.identity;
    assert_eq!(identity.undecided, Sum { value: 70, lo: 70, hi: 80 });
    assert_eq!(identity.idle, Sum { value: 0, lo: 0, hi: 70 });
    assert_eq!(identity.busy[Class::Compute as usize], Sum { value: 20, lo: 20, hi: 100 });
    assert_eq!(identity.busy[Class::Copy as usize], Sum { value: 10, lo: 0, hi: 10 });
    assert_eq!(device.gaps.finish(70).count, 0);
}

#[test]
fn a_synchronization_ends_undecided_time() {
    let before = operation(1, 7, KERNEL, When::Timed(exactly(0, 10)));
    let hidden = operation(2, 7, KERNEL, untimed(5));
    let after = operation(9, 7, KERNEL, When::Timed(exactly(90, 100)));
    let drained = |issued_before| Drained { context: 1, stream: Some(7), issued_before, by: 30 };
    let record = record();
    for (issued_before, undecided) in [(2, 20), (1, 80)] {
        let mut timelines = Timelines::default();
        let event = Event::new(&record);
        for operation in [before, hidden] {
            take(&mut timelines, &Event { operation: Some(operation), ..event.clone() });
        }
        take(&mut timelines, &Event { drained: vec![drained(issued_before)], ..event.clone() });
        take(&mut timelines, &Event { operation: Some(after), ..event });
        let identity = timelines.by_device(i64::MIN)[&Some(0)].identity;
        assert_eq!((identity.span, identity.undecided.value), (100, undecided));
    }
}

/// "After its last operation the GPU has nothing to do for 7.00 s of 7.09 s", of a process that was killed while a kernel ran.
#[test]
fn the_gpu_is_not_idle_while_work_is_pending_at_the_end() {
    let over = |drained: Vec<Drained>| {
        let record = record();
        let mut timelines = Timelines::default();
        let event = Event::new(&record);
        let first = operation(1, 7, KERNEL, When::Timed(exactly(0, 10)));
        for pending in [first, operation(2, 7, KERNEL, untimed(20)), operation(3, 8, COPY, budget(30))] {
            take(&mut timelines, &Event { operation: Some(pending), ..event.clone() });
        }
        take(&mut timelines, &Event { drained, ..event.clone() });
        let identity = timelines.by_device(1_000)[&Some(0)].identity;
        (identity.span, identity.idle.value, identity.undecided.value, identity.unobserved.value)
    };
    assert_eq!(over(Vec::new()), (1_000, 10, 10, 970));
    let waited = |stream, by| Drained { context: 1, stream, issued_before: 9, by };
    assert_eq!(over(vec![waited(Some(8), 50)]), (1_000, 10, 960, 20), "for one of both streams");
    assert_eq!(over(vec![waited(None, 50)]), (50, 10, 10, 20), "for all: the rest is the tail");
}

/// A rank waited for 7 s for a collective that it had launched in a pause: that was said to be 52 165 gaps of 599 us.
#[test]
fn time_in_which_a_thread_waits_to_the_end_is_no_pause_like_others() {
    let parts = |is_over: bool| {
        let call = Blocked { since: 40, ..Blocked::default() };
        let hang = Hang { is_over, call: Some(call), ..Hang::default() };
        let status = Status { hangs: vec![hang], ..Status::default() };
        let (names, lost) = (Names::default(), Lost::default());
        let recorded = Recorded { names: &names, thread_times: Arc::default(), lost, status: Some(&status) };
        let mut timelines = Timelines::over(Period::default(), [recorded]);
        let record = record();
        for launched in
            [operation(1, 7, KERNEL, When::Timed(exactly(0, 10))), operation(2, 7, KERNEL, budget(20))]
        {
            take(&mut timelines, &Event { operation: Some(launched), ..Event::new(&record) });
        }
        let identity = timelines.by_device(1_000)[&Some(0)].identity;
        (identity.idle.value, identity.unobserved.value, identity.undecided.value)
    };
    assert_eq!(parts(false), (10, 20, 960));
    assert_eq!(parts(true), (10, 980, 0));
}

/// A stream that was destroyed with a kernel in it.
#[test]
fn the_work_of_a_destroyed_stream_may_run_until_the_end() {
    let nothing = record();
    let mut timelines = Timelines::default();
    let launched = Some(operation(1, 7, KERNEL, untimed(10)));
    take(&mut timelines, &Event { operation: launched, ..Event::new(&nothing) });
    let (handle, context, flags, priority, destroyed) = (0, 1, 0, 0, true);
    let stream = crate::trace::record::Stream { stream: 7, handle, context, flags, priority, destroyed };
    take(&mut timelines, &Event::new(&Record { at: 15, body: Body::Stream(stream), ..nothing.clone() }));
    let identity = timelines.by_device(100)[&Some(0)].identity;
    assert_eq!((identity.span, identity.undecided.value), (90, 90));
}

/// The time after the last cudaMemcpy of a run was not known in the pauses of the budget, although the host had its data.
#[test]
fn a_copy_to_the_host_ends_what_was_launched_before_it() {
    let what = Action::Transfer { kind: TransferKind::DtoH, host_memory: HostMemory::Pageable, bytes: 4 };
    let call = Call { begin: 40, end: 60, context: 1, flags: flag::BLOCKING, ..Call::default() };
    let returned = Record {
        at: 60,
        body: Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }),
        ..record()
    };
    let copy = Operation { called: 40, returned: 60, ..operation(3, 7, what, budget(40)) };
    let mut timelines = Timelines::default();
    for launched in
        [operation(1, 7, KERNEL, When::Timed(exactly(0, 10))), operation(2, 7, KERNEL, budget(20))]
    {
        take(&mut timelines, &Event { operation: Some(launched), ..Event::new(&record()) });
    }
    take(&mut timelines, &Event { operation: Some(copy), ..Event::new(&returned) });
    let identity = timelines.by_device(1_000)[&Some(0)].identity;
    assert_eq!((identity.span, identity.unobserved.value, identity.idle.value), (60, 40, 10));
}

/// A process that went on after an error of the GPU: the kernel that failed, whose time nobody reads, is over by then.
#[test]
fn an_error_of_the_gpu_ends_its_work() {
    let until = |result| {
        let call = Call { begin: 40, end: 60, context: 1, ..Call::default() };
        let body = Body::Api(Api { call, result, subject: 0, calls: 1, inside: 0, entered: 0 });
        let failed = Record { at: 60, body, ..record() };
        let mut timelines = Timelines::default();
        let launched = Some(operation(1, 7, KERNEL, untimed(10)));
        take(&mut timelines, &Event { operation: launched, ..Event::new(&record()) });
        take(&mut timelines, &Event::new(&failed));
        timelines.by_device(1_000)[&Some(0)].identity.undecided.value
    };
    let (illegal_address, not_found) = (700, 500);
    assert_eq!((until(illegal_address), until(not_found)), (50, 990));
}

#[test]
fn a_shared_interval_is_undecided_and_possible() {
    let device = timed(&[
        (KERNEL, exactly(0, 10)),
        (COPY, at([20, 20], [25, 40], [40, 40], Basis::BoundsOnly)),
        (KERNEL, exactly(60, 70)),
    ]);
    let identity = device.identity;
    assert_eq!(identity.undecided, Sum { value: 20, lo: 20, hi: 20 });
    assert_eq!(identity.busy[Class::Copy as usize], Sum { value: 0, lo: 0, hi: 20 });
    assert_eq!(identity.idle, Sum { value: 30, lo: 30, hi: 50 });
}

/// Two contexts of a device take turns: both are the device's time, and the doubt of their clocks widens the
/// intervals.
#[test]
fn contexts_of_a_device_share_its_time() {
    let one = operation(1, 7, KERNEL, When::Timed(exactly(0, 10)));
    let two = Operation { context: 2, ..operation(2, 7, COPY, When::Timed(exactly(5, 25))) };
    let three = operation(3, 7, KERNEL, When::Timed(exactly(65, 75)));
    let device = sweep_all(&[one, two, three], None);
    let identity = device.identity;
    assert_eq!((device.timelines, identity.span), (1, 75));
    // The edges 0 | 5 | 10 | 25 | 65 change from clock to clock four times, which adds ± 6 ns each.
    assert_eq!(identity.busy[Class::Compute as usize], Sum { value: 20, lo: 0, hi: 44 });
    assert_eq!(identity.busy[Class::Copy as usize], Sum { value: 15, lo: 0, hi: 39 });
    assert_eq!(identity.busy[Class::Graph as usize], exact(0));
    assert_eq!(identity.idle, Sum { value: 40, lo: 16, hi: 64 });
    let Found { largest, .. } = device.gaps.finish(identity.idle.hi);
    assert_eq!(largest[0].duration, Estimate::new(40, 34, 46), "both clocks can be off by 3 ns");
}

#[test]
fn contexts_of_unknown_devices_are_added_side_by_side() {
    let one = Operation { device: None, ..operation(1, 7, KERNEL, When::Timed(exactly(0, 10))) };
    let two = Operation { context: 2, ..one };
    let record = record();
    let event = Event::new(&record);
    let mut timelines = Timelines::default();
    for operation in [one, two] {
        take(&mut timelines, &Event { operation: Some(operation), ..event.clone() });
    }
    let device = &timelines.by_device(i64::MIN)[&None];
    assert_eq!((device.timelines, device.identity.span), (2, 20));
}

#[test]
fn successive_time_bases_are_one_timeline_with_its_gaps() {
    let chained = |time_base: u32| {
        let start = i64::from(time_base) * 100;
        let o = GpuInterval { time_base, ..exactly(start, start + 10) };
        operation(u64::from(time_base), 7, KERNEL, When::Timed(o))
    };
    let device = sweep_all(&(0..100).map(chained).collect::<Vec<_>>(), None);
    assert_eq!((device.timelines, device.identity.span), (1, 9_910));
    let Found { count, total, largest, .. } = device.gaps.finish(device.identity.idle.hi);
    assert_eq!((count, total.value), (99, 99 * 90));
    assert_eq!(largest[0].duration, Estimate::new(90, 84, 96));
}

#[test]
fn the_end_of_a_context_ends_its_untimed_work() {
    let mut timelines = Timelines::default();
    let record = record();
    let event = Event::new(&record);
    for operation in
        [operation(1, 7, KERNEL, When::Timed(exactly(0, 10))), operation(2, 7, KERNEL, untimed(5))]
    {
        take(&mut timelines, &Event { operation: Some(operation), ..event.clone() });
    }
    let gone = crate::trace::record::Context { context: 1, device: 0, handle: 0, destroyed: true };
    let gone = Record { at: 40, body: Body::Context(gone), ..record.clone() };
    take(&mut timelines, &Event { record: &gone, ..event.clone() });
    assert!(timelines.open[&Owner::Device(0)].streams.all().is_empty());
    let other = Operation { context: 2, ..operation(3, 7, KERNEL, When::Timed(exactly(90, 100))) };
    take(&mut timelines, &Event { operation: Some(other), ..event });
    let identity = timelines.by_device(i64::MIN)[&Some(0)].identity;
    assert_eq!((identity.undecided.value, identity.idle.value, identity.span), (30, 50, 100));
}

#[test]
fn a_burst_covers_its_launches_and_is_undecided_only_if_it_was_lost() {
    let time_base = When::Untimed { reason: Reason::Untimed(Untimed::Programmatic), after: None };
    let lost = When::Untimed { reason: Reason::Lost, after: Some(20) };
    for (when, undecided) in [(When::Timed(exactly(20, 50)), 0), (lost, 80)] {
        let device = sweep_all(
            &[
                operation(1, 7, KERNEL, When::Timed(exactly(0, 10))),
                operation(2, 7, KERNEL, time_base),
                operation(3, 7, KERNEL, time_base),
                operation(4, 7, Action::Burst { launches: 2, ordinary: 0, communication: false }, when),
                operation(5, 7, KERNEL, When::Timed(exactly(100, 110))),
            ],
            None,
        );
        assert_eq!((device.identity.undecided.value, device.identity.span), (undecided, 110));
    }
}

#[test]
fn a_burst_proves_that_the_gpu_was_busy_only_when_all_of_it_had_been_launched() {
    let busy_from = |launched: i64| {
        let burst = GpuInterval { busy_from: launched, ..exactly(0, 100) };
        timed(&[
            (Action::Burst { launches: 2, ordinary: 0, communication: false }, burst),
            (KERNEL, exactly(100, 110)),
        ])
        .identity
    };
    let slowly = busy_from(100);
    assert_eq!(slowly.busy[Class::Compute as usize], Sum { value: 110, lo: 10, hi: 110 });
    assert_eq!(slowly.idle, Sum { value: 0, lo: 0, hi: 100 });
    let ahead = busy_from(30);
    assert_eq!(ahead.busy[Class::Compute as usize], Sum { value: 110, lo: 80, hi: 110 });
    assert_eq!(ahead.idle, Sum { value: 0, lo: 0, hi: 30 });
}

/// A run counted whole as certain compute time of each kernel that had a launch in it.
#[test]
fn a_run_proves_nothing_of_a_part_of_its_launches() {
    let of = |is_part| {
        let run = Action::Burst { launches: 2, ordinary: 2, communication: false };
        let (record, mut timelines) = (record(), Timelines::default());
        let operation = operation(1, 7, run, When::Timed(exactly(0, 100)));
        timelines.operation(&Event::new(&record), &operation, is_part);
        let devices = timelines.by_device(1_000);
        devices[&Some(0)].identity.busy[Class::Compute as usize]
    };
    assert_eq!(of(false), Sum { value: 100, lo: 100, hi: 100 });
    assert_eq!(of(true), Sum { value: 100, lo: 0, hi: 100 });
}

#[test]
fn a_gap_lies_in_a_run_in_which_the_gpu_starved() {
    let starved = GpuInterval { busy_from: 80, starved: 50, ..exactly(0, 100) };
    let run = Action::Burst { launches: 2, ordinary: 2, communication: false };
    let device = timed(&[(run, starved), (KERNEL, exactly(100, 110))]);
    assert_eq!(device.identity.busy[Class::Compute as usize], Sum { value: 60, lo: 30, hi: 110 });
    assert_eq!(device.identity.idle, Sum { value: 50, lo: 0, hi: 80 });
    assert_eq!(device.work[Class::Compute as usize], 60);
    let Found { count, total, .. } = device.gaps.finish(device.identity.idle.hi);
    assert_eq!((count, total.lo, total.value, total.hi), (1, 0, 50, 80));
}

#[test]
fn work_left_untimed_for_the_budget_is_unobserved() {
    let device = sweep_all(
        &[
            operation(1, 7, KERNEL, When::Timed(exactly(0, 10))),
            operation(2, 7, KERNEL, When::Timed(exactly(30, 40))),
            operation(3, 8, KERNEL, budget(60)),
            operation(4, 9, KERNEL, untimed(50)),
            operation(5, 8, KERNEL, budget(80)),
            operation(6, 9, KERNEL, When::Timed(exactly(100, 110))),
            operation(7, 8, KERNEL, When::Timed(exactly(120, 130))),
            operation(8, 8, KERNEL, When::Timed(exactly(145, 150))),
        ],
        None,
    );
    let identity = device.identity;
    assert_eq!(identity.unobserved, Sum { value: 50, lo: 50, hi: 50 }, "60..100, 110..120");
    assert_eq!(identity.undecided.value, 10, "50..60");
    assert_eq!(identity.busy[Class::Compute as usize].value, 45);
    assert_eq!(identity.idle.value, 20 + 10 + 15);
    assert_eq!(identity.span, 150);
    let Found { count, total, .. } = device.gaps.finish(identity.idle.hi);
    assert_eq!((count, total.value), (3, 45));
}

fn budget(after: i64) -> When {
    When::Untimed { reason: Reason::Untimed(Untimed::Budget), after: Some(after) }
}

/// Two host stalls of 1.5 s in pauses of the budget: the largest gap was reported as 9 ms, and the rest as "more of
/// idle".
#[test]
fn a_pause_has_a_gap_between_a_synchronization_and_the_next_call() {
    let record = record();
    let mut timelines = Timelines::default();
    let event = Event::new(&record);
    let work = |n, when| Event { operation: Some(operation(n, 7, KERNEL, when)), ..event.clone() };
    let waited = |by| Drained { context: 1, stream: None, issued_before: 9, by };
    take(&mut timelines, &work(1, When::Timed(exactly(0, 10))));
    take(&mut timelines, &work(2, budget(30)));
    take(&mut timelines, &work(3, budget(40)));
    take(&mut timelines, &Event { drained: vec![waited(50)], ..event.clone() });
    take(&mut timelines, &work(4, budget(1_550)));
    take(&mut timelines, &work(5, When::Timed(exactly(1_600, 1_610))));
    let device = timelines.by_device(i64::MIN).remove(&Some(0)).unwrap();
    assert_eq!((device.identity.idle.value, device.identity.unobserved.value), (20 + 1_500, 20 + 50));
    let Found { count, total, largest, .. } = device.gaps.finish(device.identity.idle.hi);
    assert_eq!((count, total.value), (2, 1_520));
    let (stall, before) = (largest[0], largest[1]);
    assert_eq!(
        stall.duration,
        Estimate::new(1_500, 1_500, 1_520),
        "the last launch before it may be over at 30"
    );
    assert_eq!((stall.start, stall.before.correlation, stall.after.correlation), (50, 2, 4));
    assert_eq!((before.duration.value, before.start), (20, 10));
}

/// A launch-bound program: the host cannot keep the GPU busy, and raw event pairs indicate the opposite.
#[test]
fn idle_time_between_launches_is_found_where_raw_pairs_hide_it() {
    let truths = Simulation::new(-1_000_000_000_000, 50).run(Load::Drained, 2_000, 2_000..6_000);
    let clocks = survey(&truths);
    let operations: Vec<Operation> = truths
        .iter()
        .zip(1..)
        .map(|(truth, n)| {
            let interval = derive(&truth.work, &truth.gpu, false, None, clocks.of(1, 1).unwrap());
            operation(n, 7, KERNEL, When::Timed(interval))
        })
        .collect();
    let identity = sweep_all(&operations, None).identity;
    let busy: u64 = truths.iter().map(|truth| truth.duration).sum();
    let compute = identity.busy[Class::Compute as usize];
    assert!(compute.lo <= busy && busy <= compute.hi, "{busy} not in {compute:?}");
    assert!(compute.value.abs_diff(busy) * 50 <= busy, "{busy}: {compute:?} is off by more than 2 %");
    assert!(compute.hi > busy + busy / 2, "raw pairs would do");
    let idle = identity.span - busy;
    assert!(identity.idle.lo <= idle && idle <= identity.idle.hi, "{idle} not in {:?}", identity.idle);
}

#[test]
fn late_operations_are_counted_and_within_the_intervals() {
    let mut timeline = Timeline::new(Period::default(), 1, LineTimes::default());
    let op = |n, o| operation(n, n, KERNEL, When::Timed(o));
    for (n, start) in [(1, 0), (2, 100), (3, 200), (4, 300), (5, 40)] {
        let o = exactly(start, start + 20);
        timeline.timed(&op(n, o), &o, true, |_| None);
    }
    let Swept { identity, late, .. } = timeline.finish(i64::MIN, |_| None, |_| None);
    assert_eq!((late, identity.span), (1, 320));
    let compute = identity.busy[Class::Compute as usize];
    assert!(compute.lo <= 100 && 100 <= compute.hi, "{compute:?}");
    assert!(identity.idle.lo <= 220 && 220 <= identity.idle.hi, "{:?}", identity.idle);
    let values: u64 = identity.busy.iter().map(|part| part.value).sum();
    assert_eq!(
        values + identity.idle.value + identity.undecided.value + identity.unobserved.value,
        identity.span
    );
}

/// The order in which streams are found is another in each run of gpuspy, and so was the operation beside such a gap.
#[test]
fn work_that_a_wait_ends_at_once_ends_in_the_order_of_its_streams() {
    for _ in 0..20 {
        let launched = (1..=6).map(|n| operation(n, n, KERNEL, untimed(0)));
        let last = operation(200, 1, KERNEL, When::Timed(exactly(300, 400)));
        let record = record();
        let mut timelines = Timelines::default();
        let event = Event::new(&record);
        launched.for_each(|n| take(&mut timelines, &Event { operation: Some(n), ..event.clone() }));
        let drained = vec![Drained { context: 1, stream: None, issued_before: 9, by: 30 }];
        take(&mut timelines, &Event { drained, ..event.clone() });
        take(&mut timelines, &Event { operation: Some(last), ..event.clone() });
        let device = timelines.by_device(i64::MIN).into_values().next().unwrap();
        let largest = device.gaps.finish(400).largest;
        assert_eq!((largest.len(), largest[0].before.correlation), (1, 6));
    }
}

/// A server had a stream for each request: its timeline kept all of them, and each synchronization looked at all.
#[test]
fn untimed_work_of_destroyed_streams_is_kept_as_one() {
    let nothing = record();
    let mut timelines = Timelines::default();
    for n in 1..=1_000 {
        let launched = Some(operation(n, n, KERNEL, untimed(10 * n as i64)));
        take(&mut timelines, &Event { operation: launched, ..Event::new(&nothing) });
        let (handle, context, flags, priority, destroyed) = (0, 1, 0, 0, true);
        let stream = crate::trace::record::Stream { stream: n, handle, context, flags, priority, destroyed };
        let gone = Record { at: 10 * n + 5, body: Body::Stream(stream), ..nothing.clone() };
        take(&mut timelines, &Event::new(&gone));
    }
    let timeline = &timelines.open[&Owner::Device(0)];
    assert_eq!((timeline.streams.all().len(), timeline.of_destroyed[&1].len()), (0, 1));
    for (stream, by) in [(Some(9), 15_000), (None, 20_000)] {
        let drained = vec![Drained { context: 1, stream, issued_before: 1_000, by }];
        take(&mut timelines, &Event { drained, ..Event::new(&nothing) });
    }
    let last = Some(operation(2_000, 9, KERNEL, When::Timed(exactly(30_000, 30_010))));
    take(&mut timelines, &Event { operation: last, ..Event::new(&nothing) });
    let identity = timelines.by_device(i64::MIN)[&Some(0)].identity;
    assert_eq!((identity.span, identity.undecided.value, identity.idle.value), (30_000, 19_990, 10_000));
}

#[test]
fn the_memory_of_a_timeline_does_not_grow_with_the_trace() {
    let mut timeline = Timeline::new(Period::default(), 64, LineTimes::default());
    let mut most = 0;
    for n in 0..50_000 {
        let o = exactly(n * 10, n * 10 + 7);
        timeline.timed(&operation(n as u64, n as u64 % 4, KERNEL, When::Timed(o)), &o, true, |_| None);
        most = most.max(timeline.sweep.pending());
    }
    assert!(most <= 8, "{most} edges at once for operations that do not overlap");
    assert_eq!(timeline.streams.all().len(), 4);
    assert_eq!(
        timeline.finish(i64::MIN, |_| None, |_| None).identity.busy[Class::Compute as usize],
        exact(350_000)
    );
}

/// A random operation with nested intervals; every third has no certain one, and every seventh only bounds.
fn any_operation() -> impl Strategy<Value = (Action, GpuInterval)> {
    let what = prop_oneof![Just(KERNEL), Just(COPY), Just(NCCL), Just(GRAPH)];
    (what, -60i64..60, proptest::array::uniform5(0i64..12), 0..21u32).prop_map(|(what, t, d, kind)| {
        let start = t + d[0];
        let latest_start = start + d[1];
        let certain_end = latest_start + d[2];
        let end = certain_end + d[3];
        let latest_end = end + d[4];
        let earliest_end = if kind % 3 == 0 || kind % 7 == 0 { t } else { certain_end };
        let basis = match kind % 7 {
            0 => Basis::BoundsOnly,
            1 => Basis::Typical,
            _ => Basis::Corrected,
        };
        (what, at([t, earliest_end], [start, end], [latest_start, latest_end], basis))
    })
}

/// The definition, computed nanosecond by nanosecond.
fn by_the_book(operations: &[(Action, GpuInterval)]) -> Identity {
    let begin = operations.iter().map(|(_, o)| o.earliest_start).min().unwrap();
    let end = operations.iter().map(|(_, o)| o.latest_end).max().unwrap();
    let mut identity = Identity { span: (end - begin) as u64, ..Identity::default() };
    for t in begin..end {
        let first = |covers: &dyn Fn(&GpuInterval) -> bool| {
            operations.iter().filter(|(_, o)| covers(o)).map(|(what, _)| class(*what)).min()
        };
        let all = |covers: &dyn Fn(&GpuInterval) -> bool| -> Vec<Class> {
            operations.iter().filter(|(_, o)| covers(o)).map(|(what, _)| class(*what)).collect()
        };
        let only_bounds = |o: &GpuInterval| o.basis == Basis::BoundsOnly;
        let certain = |o: &GpuInterval| !only_bounds(o) && o.latest_start <= t && t < o.earliest_end;
        let estimated = |o: &GpuInterval| !only_bounds(o) && o.start <= t && t < o.end;
        let possible = |o: &GpuInterval| o.earliest_start <= t && t < o.latest_end;
        let rest = |o: &GpuInterval| o.basis == Basis::Typical && o.end <= t && t < o.latest_end;
        let doubtful = operations.iter().any(|(_, o)| only_bounds(o) && possible(o) || rest(o));
        match first(&estimated) {
            Some(class) => identity.busy[class as usize].value += 1,
            None if doubtful => {
                identity.undecided.value += 1;
                identity.undecided.lo += 1;
            }
            None => identity.idle.value += 1,
        }
        let (surely, maybe) = (all(&certain), all(&possible));
        let mut decided = maybe.is_empty();
        for class in ALL {
            let here = |classes: &[Class]| classes.contains(&class);
            let above = |classes: &[Class]| classes.iter().any(|other| *other < class);
            if here(&surely) && !above(&maybe) {
                identity.busy[class as usize].lo += 1;
                decided = true;
            }
            if here(&maybe) && !above(&surely) {
                identity.busy[class as usize].hi += 1;
            }
        }
        identity.idle.lo += u64::from(maybe.is_empty());
        identity.idle.hi += u64::from(surely.is_empty());
        identity.undecided.hi += u64::from(!decided);
    }
    identity
}

/// Two operations without a length, apart from each other: the span between them was lost, since neither had an edge.
#[test]
fn operations_of_no_length_are_the_ends_of_a_span() {
    let empty = |at: i64| (KERNEL, exactly(at, at));
    let device = timed(&[empty(0), empty(7)]);
    assert_eq!((device.identity.span, device.identity.idle), (7, exact(7)));
    assert_eq!(device.identity, by_the_book(&[empty(0), empty(7)]));
    let device = timed(&[empty(3), (COPY, exactly(10, 20)), empty(15), empty(40)]);
    assert_eq!((device.identity.span, device.identity.idle.value), (37, 27));
}

proptest! {
    #[test]
    fn the_sweep_is_the_definition(operations in proptest::collection::vec(any_operation(), 1..14)) {
        let device = timed(&operations);
        let identity = device.identity;
        // A span of zero length has no parts.
        let expected = by_the_book(&operations);
        prop_assert_eq!(identity, expected);
        let values: u64 = identity.busy.iter().map(|part| part.value).sum();
        prop_assert_eq!(values + identity.idle.value + identity.undecided.value, identity.span);
        for part in identity.busy.iter().chain([&identity.idle, &identity.undecided]) {
            prop_assert!(part.lo <= part.value && part.value <= part.hi);
        }
    }

    /// Gaps are the idle intervals with work on both sides.
    #[test]
    fn gaps_are_the_idle_runs_between(operations in proptest::collection::vec(any_operation(), 1..14)) {
        let device = timed(&operations);
        let covers = |t: i64| operations.iter().any(|(_, o)| match o.basis {
            Basis::BoundsOnly => o.earliest_start <= t && t < o.latest_end,
            Basis::Typical => o.start <= t && t < o.latest_end,
            _ => o.start <= t && t < o.end,
        });
        let busy: Vec<i64> = (-61..150).filter(|t| covers(*t)).collect();
        let runs: Vec<i64> = busy.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|run| *run > 0).collect();
        let Found { count, total, largest, .. } = device.gaps.finish(device.identity.idle.hi);
        prop_assert_eq!(count, runs.len() as u64);
        prop_assert_eq!(total.value as i64, runs.iter().sum::<i64>());
        prop_assert!(total.lo <= total.value && total.value <= total.hi);
        prop_assert_eq!(largest.first().map(|gap| gap.duration.value as i64), runs.iter().max().copied());
        for gap in largest {
            prop_assert!(gap.duration.lo <= gap.duration.value && gap.duration.value <= gap.duration.hi);
        }
    }
}
