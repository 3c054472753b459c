//! Compares intervals and best values with a simulated GPU, and with pairs whose bounds are worked out by hand.

use super::super::clocks::Clocks;
use super::super::simulation::{Load, Simulation, exactly, survey, work};
use super::*;
use crate::hash::HashMap;
use crate::trace::record::What;
use std::collections::BTreeMap;

fn median(mut errors: Vec<u64>) -> u64 {
    errors.sort_unstable();
    errors[errors.len() / 2]
}

/// Checks that the truth is inside [lo, hi] for all operations; returns the median errors (corrected, raw), ns.
fn judge(load: Load, drift_ppm: i64, offset: i64, kernels: std::ops::Range<i64>) -> (u64, u64) {
    let mut simulation = Simulation::new(offset, drift_ppm);
    let (mut corrected, mut raw) = (Vec::new(), Vec::new());
    let truths = simulation.run(load, 3_000, kernels);
    let clocks = survey(&truths);
    let clock = clocks.of(1, 1).unwrap();
    for truth in truths {
        let o = derive(&truth.work, &truth.gpu, false, None, clock);
        assert!(!breaks_causality(&truth.work, &truth.gpu, clock));
        let (lo, hi) = (o.lo(), o.hi());
        assert!(
            lo <= truth.duration && truth.duration <= hi,
            "{load:?} {drift_ppm} ppm: {} not in [{lo}, {hi}]",
            truth.duration
        );
        let off_by = o.off_by.unwrap() as i64 + 1;
        assert!(o.earliest_start - off_by <= truth.began && truth.began <= o.latest_start + off_by);
        assert!(lo <= o.value() && o.value() <= hi);
        corrected.push(o.value().abs_diff(truth.duration));
        raw.push(o.raw.abs_diff(truth.duration));
    }
    (median(corrected), median(raw))
}

#[test]
fn drained_streams_are_corrected() {
    for drift_ppm in [-50, 0, 50] {
        for offset in [-7_200_000_000_000, 0, 36_000_000_000_000] {
            let (corrected, raw) = judge(Load::Drained, drift_ppm, offset, 2_000..20_000);
            assert!(corrected <= 1_000, "{corrected} ns at {drift_ppm} ppm");
            assert!(raw > 1_000, "raw is only {raw} ns off: the test proves nothing");
        }
    }
}

#[test]
fn queued_streams_need_no_correction() {
    for drift_ppm in [-50, 0, 50] {
        let (corrected, _) = judge(Load::Queued, drift_ppm, 3_600_000_000_000, 6_000..20_000);
        assert_eq!(corrected, 0);
    }
}

#[test]
fn a_mixture_with_jitter_is_bounded_and_corrected() {
    let (corrected, _) = judge(Load::Mixed, 50, -3_600_000_000_000, 2_000..20_000);
    assert!(corrected <= 1_000, "{corrected} ns");
}

#[test]
fn kernels_shorter_than_a_record_call_are_bounded_and_estimated_in_the_middle() {
    let (corrected, raw) = judge(Load::Drained, 0, 0, 100..900);
    assert!(corrected <= 500, "{corrected} ns");
    assert!(raw > 3_000);
}

#[test]
fn most_of_a_queued_stream_is_proven() {
    let mut simulation = Simulation::new(0, 20);
    let truths = simulation.run(Load::Queued, 1_000, 8_000..9_000);
    let clocks = survey(&truths);
    let proven = truths
        .iter()
        .map(|t| derive(&t.work, &t.gpu, false, None, clocks.of(1, 1).unwrap()))
        .filter(|o| o.basis == Basis::Proven && o.hi() - o.lo() <= 2)
        .count();
    assert!(proven > 950, "{proven} of 1000");
}

/// The interval of one operation by itself, with exact stamps and events that cost nothing. `known` holds bounds
/// from elsewhere.
fn alone(work: &Work, gpu: &GpuTime, blocking: bool, known: &[(i64, i64)]) -> GpuInterval {
    derive(work, gpu, blocking, None, clocks_of(work, gpu, known).of(1, 1).unwrap())
}

/// The same among operations that usually take as long as `usual` says.
fn alone_among(work: &Work, gpu: &GpuTime, usual: Option<Usual>, known: &[(i64, i64)]) -> GpuInterval {
    derive(work, gpu, false, usual, clocks_of(work, gpu, known).of(1, 1).unwrap())
}

fn clocks_of(work: &Work, gpu: &GpuTime, known: &[(i64, i64)]) -> Clocks {
    clocks_with(exact(), work, gpu, known)
}

fn clocks_with(stamps: Stamps, work: &Work, gpu: &GpuTime, known: &[(i64, i64)]) -> Clocks {
    let mut bounds = Bounds::default();
    known.iter().for_each(|&(host, gpu)| bounds.recorded(host, gpu, 0));
    bounds.stamps = stamps;
    teach(work, gpu, None, &mut bounds);
    Clocks::fit(BTreeMap::from([((1, 1), bounds)]), HashMap::default())
}

/// Stamps to the ns, of events that cost nothing.
fn exact() -> Stamps {
    let mut stamps = Stamps::default();
    stamps.distance(1);
    stamps.gap(0, 0);
    stamps
}

/// What an event costs on an H200, ns.
const COST: i64 = 1_248;

/// Stamps that are multiples of 32 ns, as an H200's, of events that cost so much.
fn costing(cost: i64) -> Stamps {
    let mut stamps = Stamps::default();
    stamps.distance(32);
    (0..8).for_each(|_| stamps.gap(cost, 0));
    stamps
}

fn gpu(start: i64, duration: u64) -> GpuTime {
    GpuTime { time_base: 1, start, duration, ..GpuTime::default() }
}

#[test]
fn what_an_event_and_a_launch_cost_is_taken_off_the_best_estimate() {
    let of = |stamps: Stamps, work: &Work, gpu: &GpuTime| {
        let known = [(10_000, 10_000)];
        derive(work, gpu, false, None, clocks_with(stamps, work, gpu, &known).of(1, 1).unwrap())
    };
    // Queued behind its start event: the end event's cost, and half as much for the launch.
    let queued = of(costing(COST), &work(10_000, 4_000, 1_000), &gpu(51_200, 9_888));
    assert_eq!((queued.lo(), queued.value(), queued.hi()), (4_522, 8_016, 9_919));
    assert_eq!(queued.basis, Basis::Proven);
    // On a stream that was empty when it was launched: the same, and three halves of it.
    let (launch, time) = (work(14_000, 4_000, 1_000), gpu(11_008, 20_000));
    let [late, for_free] = [COST, 0].map(|cost| of(costing(cost), &launch, &time));
    assert_eq!(for_free.value() - late.value(), 1_248 + 1_872);
    assert!(late.lo() < late.value(), "{late:?}");
}

/// Each kernel was as much too long as an event costs.
#[test]
fn what_an_event_costs_is_taken_off_the_kernels_of_graphs() {
    let (launch, time) = (work(10_000, 4_000, 1_000), gpu(51_200, 3_232));
    let clocks = clocks_with(costing(COST), &launch, &time, &[(10_000, 10_000)]);
    let clock = clocks.of(1, 1).unwrap();
    let node = of_node(&time, clock);
    assert_eq!((node.lo(), node.value(), node.hi()), (201, 1_984, 3_263));
    assert!((node.end - node.start).abs_diff(1_984) <= 1, "{node:?}");
    assert_eq!(of_node(&gpu(51_200, 640), clock).value(), 0, "shorter than an event");
}

/// The clock of a graph's kernels was called untied, and none of their bounds had its error: the truth was outside all of them.
#[test]
fn the_kernels_of_graphs_are_as_uncertain_in_time_as_their_graph() {
    let launch = work(10_000, 4_000, 1_000);
    let known = [(10_000, 10_000)];
    let whole = GpuTime { seen: 60_000, ..gpu(51_200, 3_232) };
    let clocks = clocks_with(exact(), &launch, &whole, &known);
    let clock = clocks.of(1, 1).unwrap();
    let graph = derive(&launch, &whole, false, None, clock);
    let node = of_node(&GpuTime { start_error: 7, duration_error: 4, ..whole }, clock);
    assert_eq!(node.clock(), "host");
    // The errors of its own stamps are in it, too.
    let [node_off, graph_off] = [node, graph].map(|ran| ran.off_by.unwrap());
    assert!(node_off.abs_diff(graph_off + 11) <= 5, "{node_off} and {graph_off}");
    let [start, end] = node.bounds();
    let [of_graph, _] = graph.bounds();
    assert!(start.0 < of_graph.0 && start.1 > node.latest_start && end.1 > node.latest_end);
    // Nothing bounds the clock from above.
    let untied = clocks_with(exact(), &launch, &gpu(51_200, 3_232), &[]);
    let node = of_node(&gpu(51_200, 3_232), untied.of(1, 1).unwrap());
    assert_eq!((node.off_by, node.clock()), (None, "gpu 1".into()));
}

#[test]
fn a_shared_interval_has_no_lower_bound() {
    let mut o = work(10_000, 4_000, 1_000);
    let at_head = alone(&o, &gpu(50_000, 90_000), false, &[]);
    assert_eq!((at_head.lo(), at_head.hi()), (86_000, 90_000));
    o.call.flags |= flag::SHARED_INTERVAL;
    let shared = alone(&o, &gpu(50_000, 90_000), false, &[]);
    assert_eq!((shared.lo(), shared.hi(), shared.basis), (0, 90_000, Basis::BoundsOnly));
}

#[test]
fn an_unbounded_lead_is_bounded_by_the_call_and_an_unbounded_tail_leaves_no_proof() {
    let mut o = work(10_000, u64::MAX, 1_000);
    o.call.begin = 4_000;
    assert_eq!(
        alone(&o, &gpu(0, 90_000), false, &[]).lo(),
        83_999,
        "6 µs, and the clocks' drift in that time"
    );
    let mut o = work(10_000, 4_000, u64::MAX);
    o.call.flags |= flag::SCOPE_LOST;
    assert_eq!(alone(&o, &gpu(0, 90_000), false, &[]).lo(), 0);
}

#[test]
fn an_unbounded_lead_is_proven_harmless_by_the_clock() {
    let known = [(1_000, 1_000)];
    let mut o = work(10_000, u64::MAX, 1_000);
    o.call.flags |= flag::SHARED_START;
    let late = alone(&o, &gpu(20_000, 5_000), false, &known);
    assert_eq!((late.lo(), late.hi()), (5_000, 5_000), "it fired 10 µs after the launch returned");
    let early = alone(&o, &gpu(9_000, 5_000), false, &known);
    assert!(early.lo() < 5_000);
}

/// A run of 300 µs that took 8 ms because the host paused within it; its last launch was submitted 100 µs before its
/// end.
#[test]
fn a_run_in_which_the_host_paused_starved_before_its_last_launch() {
    let run = || GpuInterval { busy_from: 7_900_000, ..exactly(0, 8_000_000) };
    let mut starved = run();
    starved.expect(300_000);
    assert_eq!(starved.starved, 7_700_000);
    assert_eq!(starved.ran(), [(0, 200_000), (7_900_000, 8_000_000)]);
    let mut longer = run();
    longer.expect(7_000_000);
    assert_eq!(longer.ran()[0], (0, 8_000_000), "launches differ in length");
    let mut at_the_end = run();
    at_the_end.expect(50_000);
    assert_eq!(at_the_end.ran(), [(0, 0), (7_900_000, 8_000_000)], "all of it was busy from then on");
}

/// Two streams that a memset on the default stream ties together were undecided for 67 % of the time, though each was busy.
#[test]
fn a_run_whose_launches_need_all_of_its_time_contains_nothing_else() {
    let run = |expected: u64| {
        let mut run =
            GpuInterval { basis: Basis::BoundsOnly, busy_from: 2_000, earliest_end: 0, ..exactly(0, 2_000) };
        run.expect(expected);
        (run.basis, run.end)
    };
    assert_eq!(run(1_950), (Basis::Corrected, 1_950));
    assert_eq!(run(1_400), (Basis::Typical, 1_400));
}

/// An operation that the clock put before its call started and ended at nearly the same moment, though it was said to take
/// 18 µs.
#[test]
fn an_operation_that_was_later_than_the_clock_says_ended_later_too() {
    let called = |best, latest_end| between(best, (0, i64::MAX), (0, latest_end));
    assert_eq!(called((-13_754, 4_527), 44_400), (0, 18_281));
    assert_eq!(called((-13_754, 4_527), 10_000), (0, 10_000), "it ended no later than its end event");
    assert_eq!(called((100, 900), 44_400), (100, 900));
    assert_eq!(between((500, 1_500), (0, 1_200), (0, 1_200)), (200, 1_200), "it was seen to be over");
    assert_eq!(between((500, 1_500), (400, 1_200), (400, 1_200)), (400, 1_200));
}

/// On a drained stream, launched at 10 µs, submitted 4 µs after its start event was recorded, and over before its
/// end event.
#[test]
fn a_pair_that_says_little_takes_the_usual_length_within_its_bounds() {
    let usually = |value| Some(Usual { from: value, value, to: value, beyond: 0, is_agreed: true });
    let of = |gpu: GpuTime, usual| {
        let known = [(10_000, 10_000)];
        alone_among(&work(14_000, 4_000, 1_000), &gpu, usual, &known)
    };
    let drained = gpu(11_000, 4_000);
    let [without, with] = [None, usually(900)].map(|usual| of(drained, usual));
    assert_eq!((with.lo(), with.value(), with.hi()), (0, 900, 4_000));
    assert_eq!((with.start, with.end - with.start), (without.start, 900));
    assert_eq!(of(drained, usually(4_001)), without, "it cannot have taken so long");
    // A queued one needs no guess.
    let queued = gpu(40_000, 5_000);
    assert_eq!(of(queued, usually(4_999)), of(queued, None));
    // Its end event was queued and its start event was not: it ended with its end event.
    let ended = of(gpu(11_000, 9_000), usually(6_500));
    assert_eq!(ended.value(), 6_500);
    assert!((ended.end - ended.start).abs_diff(6_500) <= 1, "{ended:?}: host ns are a little longer");
    assert_eq!(ended.end, ended.latest_end);
}

#[test]
fn a_blocking_copy_lies_inside_its_call() {
    // Start event at 1 µs, the copy runs from 2 to 98 µs, the call returns at 100 µs, the end event fires at 101.
    let o = alone(&work(100_000, 100_000, 1_000), &gpu(1_000, 100_000), true, &[]);
    assert!(o.lo() <= 96_000 && 96_000 <= o.hi());
    assert!(o.value().abs_diff(96_000) <= 4_000, "{}", o.value());
}

/// Its start event is the end event of an operation that was over 19 µs before its call began. It had lasted 38 µs
/// between positions that were 15 µs apart, and 21 µs at most.
#[test]
fn an_operation_lasts_no_longer_than_from_its_call_to_its_end() {
    for blocking in [false, true] {
        let mut o = work(24_000, u64::MAX, 1_000);
        o.call.begin = 20_000;
        o.call.flags |= flag::SHARED_START;
        let time = GpuTime { seen: 33_000, ..gpu(1_000, 30_000) };
        let o = alone(&o, &time, blocking, &[(10_000, 10_000)]);
        let [start, finish] = o.bounds();
        assert_eq!(o.earliest_start, 20_000);
        assert!(o.hi() >= 11_000, "{o:?}: it may have taken as long as from its call to its end event");
        assert!(o.hi() as i64 <= finish.1 - start.0, "{o:?}");
        assert!((o.end - o.start).abs_diff(o.value() as i64) <= 5, "{o:?}");
    }
}

/// Its end event was recorded 400 µs late, and the host had seen it complete 2 µs after its start event. It was taken to
/// have lasted as long as others of its kind, which was all the time that it was left.
#[test]
fn an_operation_that_was_soon_seen_to_be_over_is_not_guessed_to_be_like_the_others() {
    let o = work(14_000, 4_000, 400_000);
    let guess = Usual { from: 0, value: 50_000, to: u64::MAX, beyond: 200_000, is_agreed: false };
    let of = |seen, usual| {
        let mut bounds = Bounds::default();
        bounds.stamps = exact();
        bounds.recorded(10_000, 10_000, 0);
        bounds.completed(10_100, 10_000, 0);
        let clocks = Clocks::fit(BTreeMap::from([((1, 1), bounds)]), HashMap::default());
        derive(&o, &GpuTime { seen, ..gpu(11_000, 400_000) }, false, usual, clocks.of(1, 1).unwrap())
    };
    assert_eq!(of(0, Some(guess)).value(), 50_000, "nothing shows that it lasted longer than others");
    let seen = of(20_000, Some(guess));
    assert!(seen.hi() < 10_000 && seen.value() < seen.hi(), "{seen:?}");
    assert_eq!(seen, of(20_000, None), "its own estimate is as good");
}

/// Three launches of 3 µs each, the first submitted at 10 µs, in one record of the last call, whose end event
/// followed.
#[test]
fn a_bursts_lead_and_tail_span_all_of_its_calls() {
    let mut o = work(10_000, 4_000, 9_000);
    (o.call.begin, o.call.end) = (14_000, 19_000);
    o.what = What::Burst { launches: 3, ordinary: 0, closing: 3_000 };
    let burst = alone(&o, &gpu(50_000, 12_000), false, &[]);
    assert_eq!((burst.lo(), burst.hi()), (0, 12_000), "it may have been over before its end event arrived");
    assert!(
        (6_000..14_000).contains(&burst.earliest_start),
        "{burst:?}: its first call began before its last"
    );
    let long = alone(&o, &gpu(50_000, 90_000), false, &[]);
    assert_eq!((long.lo(), long.hi()), (86_000, 90_000));
}

#[test]
fn errors_of_the_time_base_widen_the_interval() {
    let time = GpuTime { duration_error: 30, ..gpu(50_000, 90_000) };
    let o = alone(&work(10_000, 4_000, 1_000), &time, false, &[]);
    assert_eq!((o.lo(), o.hi()), (85_970, 90_030));
}

#[test]
fn no_numbers_overflow() {
    for extreme in [0, 1, u64::MAX] {
        let mut o = work(extreme, extreme, extreme);
        (o.call.begin, o.call.end) = (u64::MAX, 0);
        for start in [i64::MIN, -1, i64::MAX] {
            let time = GpuTime {
                start,
                duration: extreme,
                start_error: u32::MAX,
                duration_error: u32::MAX,
                seen: extreme,
                ..GpuTime::default()
            };
            let o = alone(&o, &time, false, &[]);
            assert!(o.lo() <= o.hi());
        }
    }
}
