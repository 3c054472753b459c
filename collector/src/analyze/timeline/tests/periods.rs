//! Selected parts of the time: they are clipped to the nanosecond, and two parts make the whole.

use super::*;
use crate::model::period::{CaptureRanges, Period};
use crate::trace::record::Names;

fn counted(operations: &[Operation], from: i64, to: i64) -> DeviceTime {
    counted_in(operations, Period::between(from, to))
}

/// Ranges that were captured.
fn ranges(edges: &[i64]) -> Period {
    let mut captures = CaptureRanges::default();
    for (n, at) in edges.iter().enumerate() {
        captures.observe(&Record {
            thread: 0,
            at: *at as u64,
            body: Body::CaptureEdge { begins: n % 2 == 0 },
        });
    }
    captures.period(&Names::default(), None, (i64::MIN, i64::MAX))
}

fn counted_in(operations: &[Operation], period: Period) -> DeviceTime {
    let record = record();
    let mut timelines = Timelines::over(period, []);
    for operation in operations {
        take(&mut timelines, &Event { operation: Some(*operation), ..Event::new(&record) });
    }
    timelines.by_device(1_000).remove(&Some(0)).unwrap_or_default()
}

/// The clocks are exact, so that a bound of the period leaves no doubt.
fn placed(operations: &[(Action, GpuInterval)]) -> Vec<Operation> {
    let placed = |((what, o), n): (&(Action, GpuInterval), u64)| {
        operation(n, n, *what, When::Timed(GpuInterval { off_by: Some(0), ..*o }))
    };
    operations.iter().zip(1..).map(placed).collect()
}

#[test]
fn span_parts_and_gaps_are_clipped() {
    let all = placed(&[(KERNEL, exactly(10, 40)), (COPY, exactly(60, 90)), (KERNEL, exactly(150, 160))]);
    let device = counted(&all, 20, 120);
    let identity = device.identity;
    assert_eq!((device.began, identity.span), (Some(20), 100));
    assert_eq!(identity.busy[Class::Compute as usize], exact(20));
    assert_eq!(identity.busy[Class::Copy as usize], exact(30));
    assert_eq!(identity.idle, exact(50));
    let gaps = device.gaps.finish(50);
    let found: Vec<(u64, u64)> = gaps.largest.iter().map(|gap| (gap.start, gap.duration.value)).collect();
    assert_eq!(found, [(70, 30), (20, 20)], "90 to 150 ends with the period");
    assert_eq!((gaps.count, gaps.total), (2, exact(50)));
}

#[test]
fn outside_of_all_work_there_is_no_span() {
    let all = placed(&[(KERNEL, exactly(10, 40)), (KERNEL, exactly(60, 70))]);
    for (from, to) in [(-20, 10), (70, 90), (30, 30)] {
        let device = counted(&all, from, to);
        assert_eq!((device.began, device.identity), (None, Identity::default()), "{from}..{to}");
        assert_eq!(device.gaps.finish(0).count, 0);
    }
    assert_eq!(counted(&all, 5, 15).began, Some(10), "its first operation, not the period's begin");
    let idle = counted(&all, 45, 55);
    assert_eq!((idle.began, idle.identity.span, idle.identity.idle), (Some(45), 10, exact(10)));
}

#[test]
fn untimed_work_from_before_is_undecided_inside() {
    let first = operation(1, 7, KERNEL, When::Timed(exactly(0, 10)));
    let last = operation(3, 7, KERNEL, When::Timed(exactly(90, 100)));
    let device = counted(&[first, operation(2, 7, KERNEL, untimed(5)), last], 40, 95);
    assert_eq!((device.identity.span, device.identity.undecided.value), (55, 50));
}

#[test]
fn captured_ranges_are_the_span_whatever_ran_in_them() {
    let all = placed(&[(KERNEL, exactly(110, 140)), (COPY, exactly(160, 250)), (KERNEL, exactly(330, 340))]);
    let device = counted_in(&all, ranges(&[100, 200, 300, 400]));
    let identity = device.identity;
    assert_eq!((device.began, identity.span), (Some(100), 200));
    assert_eq!(identity.busy[Class::Compute as usize], exact(40));
    assert_eq!(identity.busy[Class::Copy as usize], exact(40), "it is cut where the range ends");
    assert_eq!(identity.idle, exact(10 + 20 + 30 + 60));
    let gaps = device.gaps.finish(200);
    let found: Vec<(u64, u64)> = gaps.largest.iter().map(|gap| (gap.start, gap.duration.value)).collect();
    assert_eq!(found, [(40, 20)], "what is idle beside a bound is between no two operations");
    let idle = counted_in(&all, ranges(&[500, 600])).identity;
    assert_eq!((idle.span, idle.idle), (100, exact(100)));
    let early = counted_in(&all, ranges(&[10, 100])).identity;
    assert_eq!((early.span, early.idle), (90, exact(90)));
    assert_eq!(
        counted_in(&all, ranges(&[])).identity.span,
        150 + 80,
        "no ranges were requested: from first to last"
    );
}

#[test]
fn untimed_work_from_before_a_range_may_run_in_it() {
    let first = operation(1, 7, KERNEL, untimed(50));
    let behind = operation(2, 7, KERNEL, When::Timed(exactly(130, 150)));
    let identity = counted_in(&[first, behind], ranges(&[100, 200])).identity;
    assert_eq!((identity.span, identity.undecided.value, identity.idle.value), (100, 30, 50));
    // No timed operation and no wait comes after it: it may last to the end.
    let identity = counted_in(&[first], ranges(&[100, 200])).identity;
    assert_eq!((identity.span, identity.undecided.value), (100, 100));
}

#[test]
fn the_bounds_of_a_capture_range_do_not_move_with_a_clock() {
    let all = [operation(1, 7, KERNEL, When::Timed(exactly(120, 150)))];
    let identity = counted_in(&all, ranges(&[100, 200])).identity;
    assert_eq!(identity.idle, Sum { value: 70, lo: 64, hi: 76 }, "3 ns on either side");
}

#[test]
fn a_bound_of_the_period_adds_the_error_of_the_clock_beside_it() {
    let all = [
        operation(1, 7, KERNEL, When::Timed(exactly(0, 100))),
        operation(2, 7, KERNEL, When::Timed(exactly(150, 200))),
    ];
    assert_eq!(counted(&all, -50, 300).identity.idle, exact(50), "one clock, and nothing is cut");
    // Both edges around the bound can be off by 3 ns.
    let cut = counted(&all, 20, 300).identity;
    assert_eq!(cut.busy[Class::Compute as usize], Sum { value: 130, lo: 124, hi: 136 });
    assert_eq!(cut.idle, Sum { value: 50, lo: 44, hi: 56 });
    let gap = counted(&all, 120, 300).gaps.finish(100).largest[0].duration;
    assert_eq!(gap, Estimate::new(30, 24, 36));
}

fn place(address: u64) -> Caller {
    Caller { address, line: 0 }
}

#[test]
fn gaps_are_counted_by_length_and_by_the_caller_that_ended_them() {
    let lengths = [1, 9_999, 10_000, 99_999, 100_000, 1_000_000, 9_999_999, 10_000_000, 50_000_000];
    let mut now = 0;
    let all: Vec<Operation> = (0..=lengths.len())
        .map(|n| {
            let when = When::Timed(exactly(now, now + 5));
            now += 5 + lengths.get(n).copied().unwrap_or(0);
            Operation { caller: place(n as u64 % 2), ..operation(n as u64, 7, KERNEL, when) }
        })
        .collect();
    let gaps = sweep_all(&all, None).gaps.finish(0);
    let part = |count, total| Part { count, total };
    let bands =
        [part(2, 10_000), part(2, 109_999), part(1, 100_000), part(2, 10_999_999), part(2, 60_000_000)];
    assert_eq!(gaps.bands, bands);
    // Operation 0 ended no gap; every second one of the rest belongs to caller 1, from the first on.
    let odd: u64 = lengths.iter().step_by(2).map(|ns| *ns as u64).sum();
    assert_eq!(gaps.callers[&place(1)], part(5, odd));
    assert_eq!(gaps.callers[&place(0)], part(4, gaps.total.value - odd));
}

proptest! {
    #[test]
    fn two_parts_make_the_whole(
        operations in proptest::collection::vec(any_operation(), 1..14),
        cut in -70i64..160,
    ) {
        let all = placed(&operations);
        let whole = counted(&all, i64::MIN, i64::MAX);
        let (before, after) = (counted(&all, i64::MIN, cut), counted(&all, cut, i64::MAX));
        let mut sum = before.identity;
        sum.add(&after.identity);
        prop_assert_eq!(sum, whole.identity);
        let [whole, before, after] = [whole, before, after].map(|device| device.gaps.finish(0));
        prop_assert_eq!(before.total.value + after.total.value, whole.total.value);
        prop_assert_eq!(before.total.lo + after.total.lo, whole.total.lo);
        let count = before.count + after.count;
        prop_assert!(count == whole.count || count == whole.count + 1, "the cut may be in a gap");
        for found in [before, after] {
            prop_assert_eq!(found.bands.iter().map(|part| part.total).sum::<u64>(), found.total.value);
            prop_assert_eq!(found.bands.iter().map(|part| part.count).sum::<u64>(), found.count);
            prop_assert_eq!(found.callers.values().map(|part| part.total).sum::<u64>(), found.total.value);
        }
    }
}
