use super::super::closed::Place;
use super::super::history::History;
use super::super::rows::{Found, Resolve, Used};
use super::*;
use crate::analyze::source::Source;
use crate::model::period::Period;
use crate::model::stacks::Caller;
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn site(is_long: bool) -> Site {
    Site { is_long, ..Site::default() }
}

fn seen(parts: &[(Cause, bool, u64)]) -> IdleReport {
    let mut idle = IdleReport::default();
    for (cause, is_long, ns) in parts {
        let part = Part { count: 100, total: Sum { value: *ns, lo: *ns, hi: *ns } };
        idle.by_cause.entry(*cause).or_default().merge(&part);
        idle.sites.insert((*cause, site(*is_long)), part);
    }
    idle
}

fn host(launching: u64, short: u64, long: u64) -> HostTime {
    let mut host = HostTime::default();
    host.call(Cause::Launching, launching);
    host.outside = [short, long];
    host
}

fn times(timed: HostTime, paused: HostTime) -> HostTimes {
    HostTimes { timed, paused, ..HostTimes::default() }
}

fn value(idle: &IdleReport, cause: Cause) -> u64 {
    idle.by_cause.get(&cause).map_or(0, |part| part.total.value)
}

/// On an H100, a program that the host holds up was timed for half of its time, and had no verdict: a third of its time was
/// idle for causes that were open.
#[test]
fn idle_time_in_pauses_has_the_causes_that_what_the_host_did_there_has_elsewhere() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::OutsideCuda, false, 10 * MS)]);
    idle.host = times(host(60 * MS, 40 * MS, 0), host(600 * MS, 400 * MS, 0));
    idle.add_pauses(400 * MS);
    assert_eq!((value(&idle, Cause::Launching), value(&idle, Cause::OutsideCuda)), (330 * MS, 110 * MS));
    let part = idle.by_cause[&Cause::Launching];
    assert_eq!((part.count, part.total.lo, part.total.hi), (1_100, 30 * MS, 430 * MS));
    assert_eq!(idle.by_cause[&Cause::OutsideCuda].total.hi, 410 * MS);
    assert_eq!(idle.sites[&(Cause::Launching, site(false))].total.value, 330 * MS);
    assert_eq!(idle.paused_by_line, BTreeMap::from([(None, 400 * MS)]));
    idle.complete(Sum { value: 440 * MS, lo: 40 * MS, hi: 440 * MS });
    assert_eq!(value(&idle, Cause::Undecided), 0);
}

/// Of 15 000 waits, of which 29 % were timed, it was said that there were 4 350, and all of the idle time was behind these.
#[test]
fn waits_in_pauses_are_as_many_as_their_idle_time_says() {
    let wait = Wait { api: "cudaStreamSynchronize".to_owned(), line: None };
    let mut idle = seen(&[(Cause::OutsideCuda, false, 10 * MS)]);
    let (key, part) = idle.sites.pop_first().unwrap();
    idle.sites.insert((key.0, Site { after_wait: Some(wait.clone()), ..key.1 }), part);
    idle.waits = [(wait.clone(), Emptied { count: 100, steps: 50 })].into();
    idle.host = times(host(0, 40 * MS, 0), host(0, 400 * MS, 0));
    idle.add_pauses(25 * MS);
    assert_eq!(idle.waits[&wait], Emptied { count: 350, steps: 175 });
    assert_eq!(idle.by_cause[&Cause::OutsideCuda].count, 350);
}

/// The thread slept for a second in a pause, which is a kind of gap that was seen, and not more of all kinds.
#[test]
fn a_pause_in_which_the_thread_slept_is_idle_because_of_that() {
    let parts = [(Cause::Launching, false, 30 * MS), (Cause::OutsideCuda, true, 10 * MS)];
    let mut idle = seen(&parts);
    idle.host = times(host(60 * MS, 0, 10 * MS), host(60 * MS, 0, 1_010 * MS));
    idle.add_pauses(1_040 * MS);
    assert_eq!((value(&idle, Cause::Launching), value(&idle, Cause::OutsideCuda)), (60 * MS, 1_020 * MS));
    assert_eq!(idle.by_cause[&Cause::Launching].total.hi, 90 * MS, "it launched for 60 ms in pauses");
}

#[test]
fn a_cause_that_was_not_seen_has_a_bound_and_no_value() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS)]);
    let mut paused = host(60 * MS, 0, 0);
    paused.call(Cause::Allocating, 5 * MS);
    idle.host = times(host(60 * MS, 0, 0), paused);
    idle.add_pauses(30 * MS);
    let part = idle.by_cause[&Cause::Allocating];
    assert_eq!(part, Part { count: 0, total: Sum { value: 0, lo: 0, hi: 5 * MS } });
}

/// An operation that is enqueued may wait while the host does anything.
#[test]
fn the_time_in_which_operations_start_is_bounded_by_all_that_the_host_did() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::Starting, false, 10 * MS)]);
    idle.host = times(host(60 * MS, 0, 0), host(60 * MS, 200 * MS, 0));
    idle.add_pauses(100 * MS);
    assert_eq!(idle.by_cause[&Cause::Starting].total, Sum { value: 35 * MS, lo: 10 * MS, hi: 110 * MS });
    assert_eq!(
        idle.by_cause[&Cause::Launching].total.hi,
        105 * MS,
        "75 ms of 60: the value is in its bounds"
    );
}

#[test]
fn a_few_gaps_are_no_sample() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::SetUp, true, 900 * MS)]);
    idle.by_cause.get_mut(&Cause::Launching).unwrap().count = 99;
    idle.host = times(host(60 * MS, 0, 0), host(60 * MS, 0, 0));
    let before = idle.clone();
    idle.add_pauses(30 * MS);
    assert_eq!(idle, before);
}

/// Nothing has a name.
struct Unnamed;

impl Resolve for Unnamed {
    fn tid(&self, _: u32, _: u32) -> Option<u32> {
        None
    }

    fn text(&self, _: u32, _: Namespace, _: u32) -> Option<&str> {
        None
    }

    fn source(&self, _: u32, _: Caller) -> Source {
        Source::default()
    }
}

/// A thread imports for 12 s, launches for the first time, sets up for 8 s, and then is outside CUDA for 4 s and launches for 6 s.
/// In pauses it is outside CUDA for 80 s and launches for 120 s.
fn after_start_up() -> History {
    let (mut history, period) = (History::default(), Period::default());
    let mut call = |cause: Cause, is_paused: bool, (from, to): (u64, u64)| {
        let (from, to) = ((from * S) as i64, (to * S) as i64);
        if cause == Cause::Launching {
            history.enqueued(to);
        }
        let (thread, _) = history.of(1);
        thread.reach(from, to, is_paused, &period);
        thread.count(cause, from, to, &period);
    };
    call(Cause::Loading, false, (0, 1));
    call(Cause::Launching, false, (12, 13));
    call(Cause::Launching, false, (21, 24));
    call(Cause::Launching, false, (28, 31));
    call(Cause::Launching, true, (31, 61));
    call(Cause::Launching, true, (141, 231));
    history
}

/// All of the leading thread's time since its first call counted as time in which operations were timed, so that being outside
/// CUDA seemed to leave the GPU idle for a sixth of the time, and launching had 115 of 140 s.
#[test]
fn start_up_and_set_up_say_nothing_of_pauses() {
    let history = after_start_up();
    let thread = history.get(1).unwrap();
    assert_eq!(thread.host.timed, host(6 * S, 0, 12 * S));
    assert_eq!(thread.host.paused, host(120 * S, 0, 80 * S));
    let mut found = Found::default();
    found.threads.insert((0, 1), Used::of(thread, 231 * S, 15 * S));
    for (cause, is_long, ns) in
        [(Cause::OutsideCuda, true, 4 * S), (Cause::Launching, false, 3 * S), (Cause::SetUp, true, 8 * S)]
    {
        let part = Part { count: 100, total: Sum { value: ns, lo: ns, hi: ns } };
        found.tally.by_cause[cause as usize] = part;
        found.tally.places.insert((cause, Place { is_long, ..Place::default() }), part);
    }
    found.tally.set_up.of(false).outside_of(true, 8 * S);
    let mut idle = found.report(&Unnamed);
    idle.add_pauses(140 * S);
    for (cause, ns) in [(Cause::OutsideCuda, 84 * S), (Cause::Launching, 63 * S), (Cause::SetUp, 8 * S)] {
        assert!(value(&idle, cause).abs_diff(ns) <= 2, "{cause:?}: {}", value(&idle, cause));
    }
    let calls = &idle.threads[0].calls;
    assert_eq!([calls[&Cause::Loading], calls[&Cause::Launching]], [S, 127 * S], "all calls count there");
}

/// What is left out as set-up can be time that was never counted as long.
#[test]
fn a_thread_was_outside_cuda_for_no_less_than_gaps_show() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::OutsideCuda, true, 10 * MS)]);
    idle.host = times(host(60 * MS, 0, MS), host(60 * MS, 0, 10 * MS));
    idle.add_pauses(40 * MS);
    assert_eq!((value(&idle, Cause::Launching), value(&idle, Cause::OutsideCuda)), (60 * MS, 20 * MS));
}
