//! Divides gaps whose truth is known.

use super::super::history::{Spent, Waited};
use super::*;
use crate::analyze::estimate::Estimate;
use proptest::prelude::*;

fn place(address: u64) -> Caller {
    Caller { address, line: 0 }
}

fn call(from: i64, to: i64, cause: Cause) -> Spent {
    Spent { from, to, cause, api: cause as u16, caller: place(7) }
}

fn lead(calls: &[Spent], called: i64, returned: i64) -> Lead {
    Lead {
        process: 0,
        thread: 1,
        api: 99,
        caller: place(8),
        called,
        returned,
        in_call: Cause::Launching,
        enqueued: Cause::Starting,
        calls: calls.into(),
        known_from: i64::MIN,
        before: i64::MIN,
        range: 0,
        waited: None,
        is_behind_load: false,
        launches: 1,
        step: None,
        is_preparing: false,
        is_setting_up: false,
        is_paused: None,
        next: Next::Other,
    }
}

fn gap(from: i64, to: i64, off_by: u64) -> Closed {
    let duration = Estimate::exactly((to - from) as u64);
    Closed { from, to, widest: (from, to), duration, off_by, is_gap: true }
}

fn split(gap: Closed, lead: &Lead) -> Tally {
    let mut tally = Tally::default();
    tally.split(gap, Some(lead), &Period::default());
    tally
}

/// The causes that have time: value, lo and hi.
fn causes(tally: &Tally) -> Vec<(Cause, [u64; 3])> {
    let sum = |cause: Cause| tally.by_cause[cause as usize].total;
    let row = |cause: Cause| (cause, [sum(cause).value, sum(cause).lo, sum(cause).hi]);
    Cause::ALL.into_iter().filter(|cause| sum(*cause).value > 0).map(row).collect()
}

/// A wait from host ns `from` to `to`, the first of its process.
fn wait(from: i64, to: i64) -> Waited {
    let (place, ns) = ((3, 0), (to - from) as u64);
    Waited { thread: 1, place, from, to, ns, longest: (place, ns), total: ns }
}

/// The time in places that are owed to a wait, and in others.
fn owed(tally: &Tally) -> [u64; 2] {
    [true, false].map(|is_owed| {
        let places = tally.places.iter().filter(|((_, place), _)| place.waited.is_some() == is_owed);
        places.map(|(_, part)| part.total.value).sum()
    })
}

#[test]
fn a_gap_is_divided_by_the_calls_of_the_thread_that_ended_it() {
    let calls = [call(0, 130, Cause::ExplicitSync), call(500, 600, Cause::Allocating)];
    let tally = split(gap(100, 1_000, 0), &lead(&calls, 900, 950));
    let exactly = |ns| [ns, ns, ns];
    let expected = [
        (Cause::ExplicitSync, exactly(30)),
        (Cause::Allocating, exactly(100)),
        (Cause::Launching, exactly(50)),
        (Cause::Starting, exactly(50)),
        (Cause::OutsideCuda, exactly(370 + 300)),
    ];
    assert_eq!(causes(&tally), expected);
    let outside = tally.places.keys().find(|(cause, _)| *cause == Cause::OutsideCuda).unwrap().1;
    assert_eq!((outside.api, outside.caller), (None, place(8)), "the call that ended the gap");
    assert_eq!((tally.led[&(0, 1)], owed(&tally)), (900, [0, 900]));
    let divided =
        Tally::default().split(gap(100, 1_000, 0), Some(&lead(&calls, 900, 950)), &Period::default());
    assert_eq!(divided.causes[0], Some((Cause::OutsideCuda, 670)));
    assert_eq!(divided.largest, Some((Cause::OutsideCuda, outside)));
}

/// What is loaded was compiled before.
#[test]
fn time_before_code_is_loaded_is_apart_from_time_before_a_launch() {
    let calls = [call(500, 600, Cause::Loading)];
    let input = Lead { next: Next::Input, ..lead(&calls, 900, 950) };
    let tally = split(gap(100, 1_000, 0), &input);
    let outside = tally.places.iter().filter(|((cause, _), _)| *cause == Cause::OutsideCuda);
    let mut found: Vec<_> =
        outside.map(|((_, to), part)| (to.next, to.caller, part.count, part.total.value)).collect();
    found.sort();
    assert_eq!(found, [(Next::Input, place(8), 1, 300), (Next::Code, place(7), 1, 400)]);
}

/// Inductor waits for an idle GPU between what it compiles and what it loads: the seconds before that wait were a stall of another kind.
#[test]
fn a_wait_between_what_is_compiled_and_what_is_loaded_is_passed_over() {
    let before_code = |between: Cause| -> u64 {
        let calls = [call(500, 510, between), call(560, 600, Cause::Loading)];
        let tally = split(gap(100, 1_000, 0), &lead(&calls, 900, 950));
        let to_code = tally.places.iter().filter(|((_, place), _)| place.next == Next::Code);
        to_code.map(|(_, part)| part.total.value).sum()
    };
    for passed_over in [Cause::ExplicitSync, Cause::OtherCall, Cause::Allocating] {
        assert_eq!(before_code(passed_over), 400 + 50, "{passed_over:?}");
    }
    for work in [Cause::Launching, Cause::Copying, Cause::ImplicitSync] {
        assert_eq!(before_code(work), 50, "what comes before {work:?} was for that");
    }
}

/// Numba initializes a linker, and loads what that made: each compilation counted twice.
#[test]
fn what_is_compiled_before_several_loads_in_a_gap_is_one_part() {
    let load = |from, address| Spent { caller: place(address), ..call(from, from + 40, Cause::Loading) };
    let tally = split(gap(100, 1_000, 0), &lead(&[load(500, 5), load(640, 6)], 900, 950));
    let outside = tally.places.iter().filter(|((cause, _), _)| *cause == Cause::OutsideCuda);
    let mut found: Vec<_> =
        outside.map(|((_, to), part)| (to.next, to.caller, part.count, part.total.value)).collect();
    found.sort();
    assert_eq!(found, [(Next::Other, place(8), 1, 220), (Next::Code, place(6), 1, 400 + 100)]);
}

#[test]
fn a_gap_is_owed_to_the_waits_as_far_as_these_were_long_enough() {
    let divided = |gap: Closed, lead: Lead| {
        let mut tally = Tally::default();
        tally.without_waits.start(&Lead { launches: 0, ..lead.clone() }, -10_000);
        tally.split(gap, Some(&lead), &Period::default());
        let waits = tally.waits.iter().map(|(at, (emptied, _))| (*at, emptied.count));
        (owed(&tally), waits.collect::<HashMap<_, _>>())
    };
    let waited = |from, to| Lead { waited: Some(wait(from, to)), ..lead(&[], 900, 950) };
    let once: HashMap<(u32, u16, u32), u64> = [((0, 3, 0), 1)].into_iter().collect();
    assert_eq!(divided(gap(100, 1_000, 0), waited(-5_000, 130)), ([900, 0], once.clone()));
    assert_eq!(divided(gap(100, 1_000, 0), waited(0, 130)), ([129, 771], once), "no more than that");
    let ahead = Lead { called: 50, returned: 60, enqueued: Cause::StreamWait, ..waited(-5_000, 40) };
    assert_eq!(divided(gap(100, 1_000, 5), ahead), ([0, 900], HashMap::default()), "the host was ahead");
}

/// The thread of PyTorch's backward pass sleeps until the main thread has read the loss, which is no stall of its own.
#[test]
fn a_thread_that_another_one_holds_up_is_not_off_the_cpu_for_its_own_reasons() {
    let long = |thread| {
        let waited = Some(Waited { thread, ..wait(-500_000, 1_000) });
        let tally = split(gap(0, 300_000, 0), &Lead { waited, ..lead(&[], 300_000, 300_100) });
        let running = tally.running.finish();
        [Outside::Any, Outside::Long].map(|kind| running.get(&kind).map_or(0, |of| of.outside.value))
    };
    assert_eq!(long(1), [300_000, 300_000]);
    assert_eq!(long(2), [300_000, 0]);
}

/// Beside untimed work, all the time of every place after the 64th was taken to be certain.
#[test]
fn a_gap_that_may_be_shorter_is_so_in_each_of_many_places() {
    let one = |number: i64| call(number * 10, number * 10 + 10, Cause::Copying);
    let calls: Vec<Spent> =
        (0..100).map(|number| Spent { caller: place(number as u64), ..one(number) }).collect();
    let shorter = Closed { duration: Estimate::new(1_000, 900, 1_000), ..gap(0, 1_000, 0) };
    let tally = split(shorter, &lead(&calls, 1_000, 1_000));
    let least: Vec<u64> = tally.places.values().map(|part| part.total.lo).collect();
    assert_eq!(least, [0; 100]);
}

/// With more than 64 call sites, all of a gap was undecided, however good the clock was.
#[test]
fn a_gap_of_many_call_sites_is_as_certain_as_the_clock() {
    let one = |number: i64| call(number * 10, number * 10 + 10, Cause::Copying);
    let calls: Vec<Spent> =
        (0..100).map(|number| Spent { caller: place(number as u64), ..one(number) }).collect();
    let tally = split(gap(100, 900, 1), &lead(&calls, 1_000, 1_000));
    assert_eq!(causes(&tally), [(Cause::Copying, [800; 3])]);
    assert_eq!(tally.places.len(), 80);
}

#[test]
fn a_launch_that_was_ahead_of_the_gap_was_only_waiting() {
    let ahead = Lead { enqueued: Cause::StreamWait, ..lead(&[], 50, 60) };
    let tally = split(gap(100, 1_000, 5), &ahead);
    assert_eq!(causes(&tally), [(Cause::StreamWait, [900; 3])]);
}

#[test]
fn what_is_not_known_of_a_thread_is_undecided() {
    let forgotten = Lead { known_from: 400, ..lead(&[], 900, 1_000) };
    let tally = split(gap(100, 1_000, 0), &forgotten);
    let value = |cause: Cause| tally.by_cause[cause as usize].total.value;
    assert_eq!(
        (value(Cause::Undecided), value(Cause::OutsideCuda), value(Cause::Launching)),
        (300, 500, 100)
    );
    let mut nobody = Tally::default();
    nobody.split(gap(0, 70, 0), None, &Period::default());
    assert_eq!(nobody.by_cause[Cause::Undecided as usize].total.value, 70);
}

/// The calls of a loop with gaps of 4 µs: launches of 3 µs, 1 µs apart.
fn launch_bound(off_by: u64) -> Tally {
    let calls: Vec<Spent> = (0..100).map(|n| call(n * 4_000, n * 4_000 + 3_000, Cause::Launching)).collect();
    let (called, returned) = (400_000, 403_000);
    split(gap(returned - 3_600, returned + 400, off_by), &lead(&calls, called, returned))
}

#[test]
fn a_loop_that_only_launches_stays_one_with_a_clock_that_is_off_by_a_part_of_a_gap() {
    let tally = launch_bound(1_200);
    let launching = tally.by_cause[Cause::Launching as usize].total;
    assert!(launching.value >= 3_000 && launching.lo >= 1_500, "{:?}", causes(&tally));
    assert!(tally.by_cause[Cause::Undecided as usize].total.value <= 1_000, "{:?}", causes(&tally));
}

#[test]
fn a_gap_that_may_lie_in_any_of_several_calls_is_undecided() {
    let calls = [call(-9_000, -100, Cause::Allocating), call(-50, 100, Cause::ExplicitSync)];
    let tally = split(gap(10, 90, 5_000), &lead(&calls, 6_000, 6_010));
    assert_eq!(causes(&tally), [(Cause::Undecided, [80, 0, 80])]);
}

/// The same loop with launches of 3 µs, and a pause of `pause` before the last.
fn open_launch(pause: i64, off_by: u64) -> Vec<(Cause, [u64; 3])> {
    let calls: Vec<Spent> =
        (0..100).map(|n| call(n * 20_000, n * 20_000 + 3_000, Cause::Launching)).collect();
    let called = 99 * 20_000 + 3_000 + pause;
    causes(&split(gap(called - 2_000, called + 1_000, off_by), &lead(&calls, called, called + 3_000)))
}

#[test]
fn a_gap_of_a_loop_that_only_launches_is_one_of_launching_wherever_the_clock_allows_it() {
    let open = open_launch(17_000, 15_000);
    assert_eq!(open, [(Cause::BetweenLaunches, [3_000; 3])]);
    let exact = open_launch(17_000, 0);
    let expected = [(Cause::Launching, [1_000; 3]), (Cause::OutsideCuda, [2_000; 3])];
    assert_eq!(exact, expected, "a good clock says which");
}

#[test]
fn a_gap_that_may_lie_in_a_pause_of_a_loop_is_undecided() {
    assert_eq!(open_launch(LONG as i64, 15_000), [(Cause::Undecided, [3_000, 0, 3_000])]);
}

#[test]
fn only_the_selected_part_of_a_gap_counts() {
    let mut tally = Tally::default();
    let calls = [call(0, 500, Cause::Freeing)];
    let clipped = Closed { duration: Estimate::exactly(300), ..gap(100, 1_000, 0) };
    tally.split(clipped, Some(&lead(&calls, 900, 1_000)), &Period::between(400, 700));
    let expected = [(Cause::Freeing, 100), (Cause::OutsideCuda, 200)];
    assert_eq!(
        causes(&tally).iter().map(|(cause, [value, ..])| (*cause, *value)).collect::<Vec<_>>(),
        expected
    );
}

prop_compose! {
    /// Calls one after another, and a gap near the last of them.
    fn world()(
        lengths in prop::collection::vec((0i64..300, 1i64..300, 0usize..6), 1..12),
        from in -200i64..1_500,
        length in 1i64..2_000,
        launch in (0i64..50, 1i64..80),
        off_by in 0u64..400,
        shift in -1.0f64..1.0,
    ) -> (Vec<Spent>, Lead, Closed, i64) {
        let mut now = 0;
        let mut calls = Vec::new();
        for (pause, length, cause) in lengths {
            now += pause;
            calls.push(call(now, now + length, Cause::ALL[cause]));
            now += length;
        }
        let lead = lead(&calls, now + launch.0, now + launch.0 + launch.1);
        // An operation does not start before its call is entered, by any place that the clock allows.
        let to = (from + length).max(lead.called + off_by as i64);
        (calls, lead, gap(from, to, off_by), (off_by as f64 * shift) as i64)
    }
}

#[test]
fn a_long_pause_before_the_second_step_is_set_up() {
    let gap = gap(0, ONE_OFF as i64, 0);
    let of = |is_preparing| {
        let lead = Lead { is_preparing, ..lead(&[], ONE_OFF as i64, ONE_OFF as i64 + 10) };
        causes(&split(gap, &lead))[0].0
    };
    assert_eq!((of(true), of(false)), (Cause::SetUp, Cause::OutsideCuda));
}

/// It was taken out of what is learned of pauses as idle time, and not as time of the host.
#[test]
fn set_up_is_known_as_time_of_the_host() {
    let of = |is_paused| {
        let lead = Lead { is_preparing: true, is_paused, ..lead(&[], ONE_OFF as i64, ONE_OFF as i64 + 10) };
        split(gap(0, ONE_OFF as i64, 0), &lead).set_up
    };
    let (mut timed, mut paused) = (HostTimes::default(), HostTimes::default());
    timed.timed.outside_of(true, ONE_OFF);
    paused.paused.outside_of(true, ONE_OFF);
    assert_eq!([of(Some(false)), of(Some(true))], [timed, paused]);
    assert_eq!(of(None), HostTimes::default(), "the time before a thread's first call does not count");
}

#[test]
fn what_may_be_warm_up_is_kept_with_what_the_thread_did_in_it() {
    let mut tally = Tally::default();
    tally.by_step.reach(2);
    let end = 2 * ONE_OFF as i64;
    let lead = Lead { waited: Some(wait(-100, 1)), is_paused: Some(true), ..lead(&[], end, end + 10) };
    let divided = tally.split(gap(0, end, 0), Some(&lead), &Period::default());
    assert_eq!(divided.may_warm_up, Some(2));
    let early: Vec<Early> = tally.early.iter().copied().collect();
    assert_eq!(early.len(), 2, "what is owed to the wait is apart");
    for Early { step, part, running, is_paused, .. } in &early {
        assert_eq!((*step, *is_paused, running.outside.value), (2, Some(true), part.total.value));
    }
    assert_eq!(early.iter().map(|early| early.part.total.value).sum::<u64>(), 2 * ONE_OFF);
}

#[test]
fn pauses_and_the_time_between_launches_are_different_places() {
    let mut tally = Tally::default();
    for length in [LONG as i64, LONG as i64 - 1] {
        tally.split(gap(0, length, 0), Some(&lead(&[], length, length + 10)), &Period::default());
    }
    let mut long: Vec<bool> = tally.places.keys().map(|(_, place)| place.is_long).collect();
    long.sort_unstable();
    assert_eq!(long, [false, true]);
}

proptest! {
    #[test]
    fn the_causes_of_a_gap_sum_to_it((_, lead, gap, _) in world()) {
        let tally = split(gap, &lead);
        let sum: u64 = tally.by_cause.iter().map(|part| part.total.value).sum();
        let places: u64 = tally.places.values().map(|part| part.total.value).sum();
        prop_assert_eq!((sum, places), (gap.duration.value, gap.duration.value));
        for part in &tally.by_cause {
            prop_assert!(part.total.lo <= part.total.value && part.total.value <= part.total.hi, "{:?}", part);
        }
    }

    #[test]
    fn the_truth_is_between_the_bounds_wherever_the_clock_allows_the_gap((_, lead, placed, shift) in world()) {
        let tally = split(placed, &lead);
        let truth = split(gap(placed.from + shift, placed.to + shift, 0), &lead);
        let open = [Cause::BetweenLaunches, Cause::Undecided];
        for cause in Cause::ALL.into_iter().filter(|cause| !open.contains(cause)) {
            let (true_value, claimed) = (truth.by_cause[cause as usize].total.value, tally.by_cause[cause as usize].total);
            prop_assert!(claimed.lo <= true_value && true_value <= claimed.hi, "{:?}: {} in {:?}", cause, true_value, claimed);
        }
    }
}

/// 300 weights that were read and copied before the steps, in gaps of 8 ms each, were judged as the steps, and their waits counted for each
/// step.
#[test]
fn what_the_host_does_before_the_first_step_is_set_up_however_short() {
    let of = |is_setting_up| {
        let waited = Some(wait(-5_000, 130));
        let lead = Lead { is_setting_up, waited, ..lead(&[], 900, 950) };
        let mut tally = Tally::default();
        tally.without_waits.start(&Lead { launches: 0, ..lead.clone() }, -10_000);
        tally.split(gap(100, 1_000, 0), Some(&lead), &Period::default());
        let is_outside = causes(&tally).iter().any(|(cause, _)| *cause == Cause::OutsideCuda);
        (is_outside, owed(&tally)[0], tally.waits.len())
    };
    assert_eq!((of(true), of(false)), ((false, 0, 0), (true, 900, 1)));
}

/// A wait after every 100 steps was one of each step if it waited often there.
#[test]
fn waits_are_counted_by_the_steps_that_they_are_in() {
    let mut tally = Tally::default();
    tally.without_waits.start(&Lead { launches: 0, ..lead(&[], 0, 0) }, -10_000);
    for (number, step) in (1..).zip([3, 3, 3, 4, 9, 9]) {
        let to = number * 2_000;
        let waited = Some(Waited { total: to as u64, ..wait(to - 1_900, to - 900) });
        let lead = Lead { waited, step: Some(step), launches: number as u64, ..lead(&[], to - 100, to - 50) };
        tally.split(gap(to - 1_000, to, 0), Some(&lead), &Period::default());
    }
    let emptied: Vec<Emptied> = tally.waits.values().map(|(emptied, _)| *emptied).collect();
    assert_eq!(emptied, [Emptied { count: 6, steps: 3 }]);
}

/// The first launch of a kernel loads its code: three of these were "Code is compiled again and again".
#[test]
fn code_that_is_loaded_before_the_second_step_or_in_its_warm_up_is_set_up() {
    let calls = [call(500_000, 600_000, Cause::Loading)];
    let of = |is_preparing| {
        let mut tally = Tally::default();
        tally.by_step.reach(2);
        let lead = Lead { is_preparing, ..lead(&calls, 900_000, 950_000) };
        tally.split(gap(0, 1_000_000, 0), Some(&lead), &Period::default());
        let before_code: Vec<Cause> =
            tally.places.keys().filter(|(_, at)| at.next == Next::Code).map(|(cause, _)| *cause).collect();
        (before_code, tally.early.iter().map(|early| early.place.next).collect::<Vec<_>>())
    };
    assert_eq!(of(true).0, [Cause::SetUp]);
    assert_eq!(
        of(false),
        (vec![Cause::OutsideCuda], vec![Next::Code]),
        "it is known when the warm-up is over"
    );
}

/// The report of a program with two waits in each step knew of one of them.
#[test]
fn of_two_waits_in_a_row_both_are_counted_and_the_longer_one_has_the_gap() {
    let mut tally = Tally::default();
    tally.without_waits.start(&Lead { launches: 0, ..lead(&[], 0, 0) }, -20_000);
    let (free, sync) = ((4, 10), (3, 20));
    let waited = Waited { place: sync, ns: 20, longest: (free, 8_000), total: 8_020, ..wait(80, 100) };
    tally.split(
        gap(100, 1_000, 0),
        Some(&Lead { waited: Some(waited), ..lead(&[], 900, 950) }),
        &Period::default(),
    );
    let mut waits: Vec<_> = tally.waits.iter().map(|(at, (emptied, _))| (*at, emptied.count)).collect();
    waits.sort_unstable();
    assert_eq!(waits, [((0, 3, 20), 1), ((0, 4, 10), 1)]);
    let mut places = tally.places.keys().map(|(_, place)| (place.waited, place.then_waited));
    assert!(places.all(|waits| waits == (Some(free), Some(sync))));
}
