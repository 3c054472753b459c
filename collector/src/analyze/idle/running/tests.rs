//! Threads whose truth is known, moment by moment.

use super::super::super::estimate::Estimate;
use super::*;
use crate::model::thread_times::ThreadTimesFold;
use crate::trace::record::ThreadTime;
use proptest::prelude::*;

const THREAD: (u32, u32) = (0, 3);

/// What a thread did at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    runs: bool,
    waits: bool,
    is_outside: bool,
}

/// The samples at these moments, which are late by nothing.
fn sampled(truth: &[Moment], at: &[usize]) -> LineTimes {
    let mut fold = ThreadTimesFold::default();
    for at in at.iter().copied().filter(|at| *at <= truth.len()) {
        let count =
            |what: fn(&Moment) -> bool| truth[..at].iter().filter(|moment| what(moment)).count() as u64;
        let (ran, queued) = (count(|moment| moment.runs), count(|moment| moment.waits));
        fold.observe(THREAD.1, at as u64, &ThreadTime { ran, queued, late: 0 });
    }
    [Arc::new(fold.finish())].into()
}

/// The stretches of the moments outside CUDA.
fn stretches(truth: &[Moment]) -> Vec<(i64, i64)> {
    let outside = (0i64..).zip(truth).filter(|(_, moment)| moment.is_outside);
    outside.map(|(at, _)| (at, at + 1)).collect()
}

fn closed(from: i64, to: i64) -> Closed {
    let duration = Estimate::exactly((to - from) as u64);
    Closed { from, to, widest: (from, to), duration, off_by: 0, is_gap: true }
}

/// What is found of one gap over all of the truth, of which each stretch is outside CUDA.
fn found(times: LineTimes, stretches: &[(i64, i64)], length: i64) -> Running {
    let mut windows = Windows::of(times);
    let gap = closed(0, length);
    let outside =
        Stretches { thread: THREAD, step: None, stretches: stretches.iter().copied(), gap: &gap, doubt: 0 };
    windows.add(outside, &[Outside::Any], &Period::default());
    windows.finish().remove(&Outside::Any).unwrap_or_default()
}

/// Samples at these host ns, with the time on a processor until then.
fn times(samples: &[(u64, u64)]) -> LineTimes {
    let mut fold = ThreadTimesFold::default();
    for (at, ran) in samples {
        fold.observe(THREAD.1, *at, &ThreadTime { ran: *ran, queued: 0, late: 0 });
    }
    [Arc::new(fold.finish())].into()
}

fn bounds(sum: Sum) -> [u64; 3] {
    [sum.lo, sum.value, sum.hi]
}

#[test]
fn a_thread_that_sleeps_outside_cuda_was_off_the_processor() {
    let slept = found(times(&[(0, 0), (1_000, 50)]), &[(100, 900)], 1_000);
    assert_eq!(bounds(slept.runnable), [0, 25, 50], "it ran for 50 of the 1000, inside CUDA or not");
    assert_eq!((slept.outside.value, slept.sampled), (800, 800));
}

#[test]
fn a_thread_that_spins_outside_cuda_was_running() {
    let spun = found(times(&[(0, 0), (1_000, 990)]), &[(100, 900)], 1_000);
    assert_eq!(bounds(spun.runnable), [790, 795, 800], "it was off the processor for 10, inside CUDA or not");
}

#[test]
fn the_bounds_of_windows_are_added_and_time_in_no_window_is_unknown() {
    // It sleeps in the first window and runs in the second; the last sample comes before the end.
    let mixed = found(times(&[(0, 0), (500, 0), (1_000, 500)]), &[(0, 1_200)], 1_200);
    assert_eq!(bounds(mixed.runnable), [500, 600, 700]);
    assert_eq!((mixed.outside.value, mixed.sampled), (1_200, 1_000));
    let none = found(LineTimes::default(), &[(0, 1_200)], 1_200);
    assert_eq!((bounds(none.runnable), none.sampled), ([0, 600, 1_200], 0));
}

#[test]
fn the_error_of_the_clock_widens_the_bounds() {
    let mut windows = Windows::of(times(&[(0, 0), (1_000, 990)]));
    let gap = Closed { off_by: 20, widest: (80, 920), ..closed(100, 900) };
    let stretches = [(60, 300), (400, 940)].into_iter();
    let outside = Stretches { thread: THREAD, step: None, stretches, gap: &gap, doubt: 40 };
    windows.add(outside, &[Outside::Any, Outside::Long], &Period::default());
    let found = windows.finish();
    let Running { outside, runnable, .. } = found[&Outside::Long];
    assert_eq!(bounds(outside), [660, 700, 780], "the doubt counts once");
    assert_eq!([runnable.lo, runnable.hi], [650, 780]);
    assert_eq!(found[&Outside::Any], found[&Outside::Long]);
    assert!(!found.contains_key(&Outside::SetUp));
}

#[test]
fn of_time_in_pauses_the_value_is_assumed_and_nothing_is_certain() {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let (runnable, queued) = (Sum { value: 98, lo: 97, hi: 99 }, Sum { value: 1, lo: 0, hi: 2 });
    let shown = Running { outside: exactly(100), sampled: 100, runnable, ran: exactly(97), queued };
    assert_eq!(shown.in_all(exactly(100)), shown);
    let all = shown.in_all(Sum { value: 1_000, lo: 100, hi: 1_050 });
    assert_eq!((bounds(all.runnable), bounds(all.queued)), ([97, 980, 1_049], [0, 10, 952]));
    assert_eq!(bounds(all.ran), [97, 970, 1_047]);
    assert_eq!(bounds(all.outside), [100, 1_000, 1_050]);
}

prop_compose! {
    fn moment()(state in 0..6u8) -> Moment {
        Moment { runs: state % 3 == 0, waits: state % 3 == 1, is_outside: state < 3 }
    }
}

proptest! {
    #[test]
    fn the_bounds_contain_the_truth(
        truth in prop::collection::vec(moment(), 1..60),
        at in prop::collection::btree_set(0usize..60, 0..8),
    ) {
        let at: Vec<usize> = at.into_iter().collect();
        let running = found(sampled(&truth, &at), &stretches(&truth), truth.len() as i64);
        let count = |what: fn(&Moment) -> bool| {
            truth.iter().filter(|moment| moment.is_outside && what(moment)).count() as u64
        };
        prop_assert_eq!(running.outside.value, count(|_| true));
        for (found, truly) in [
            (running.runnable, count(|one| one.runs || one.waits)),
            (running.ran, count(|one| one.runs)),
            (running.queued, count(|one| one.waits)),
        ] {
            prop_assert!(found.lo <= truly && truly <= found.hi, "{:?} and truly {}", running, truly);
            prop_assert!(found.lo <= found.value && found.value <= found.hi);
        }
    }

    /// A part turns out to be set-up.
    #[test]
    fn the_bounds_of_a_part_and_of_the_rest_contain_the_truth(
        truth in prop::collection::vec(moment(), 1..60),
        at in prop::collection::btree_set(0usize..60, 0..8),
        until in 0usize..60,
    ) {
        let at: Vec<usize> = at.into_iter().collect();
        let (mut windows, gap) = (Windows::of(sampled(&truth, &at)), closed(0, truth.len() as i64));
        let of = |is_early: bool| -> Vec<(i64, i64)> {
            stretches(&truth).into_iter().filter(|(from, _)| (*from < until as i64) == is_early).collect()
        };
        let mut add = |stretches: Vec<(i64, i64)>| {
            let stretches = stretches.into_iter();
            let outside = Stretches { thread: THREAD, step: None, stretches, gap: &gap, doubt: 0 };
            windows.add(outside, &[Outside::Any], &Period::default())
        };
        let early = add(of(true));
        add(of(false));
        let rest = windows.finish().remove(&Outside::Any).unwrap_or_default().without(early);
        for (running, is_early) in [(early, true), (rest, false)] {
            let count = |what: fn(&Moment) -> bool| {
                let moments = truth.iter().enumerate().filter(|(at, _)| (*at < until) == is_early);
                moments.filter(|(_, moment)| moment.is_outside && what(moment)).count() as u64
            };
            prop_assert_eq!(running.outside.value, count(|_| true));
            for (found, truly) in [
                (running.runnable, count(|one| one.runs || one.waits)),
                (running.ran, count(|one| one.runs)),
                (running.queued, count(|one| one.waits)),
            ] {
                prop_assert!(found.lo <= truly && truly <= found.hi, "{:?} and truly {}", running, truly);
                prop_assert!(found.lo <= found.value && found.value <= found.hi);
            }
        }
    }
}
