use super::*;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

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

fn value(idle: &IdleReport, cause: Cause) -> u64 {
    idle.by_cause.get(&cause).map_or(0, |part| part.total.value)
}

/// On an H100, a program that the host holds up was timed for half of its time, and had no verdict: a third of its time was
/// idle for causes that were open.
#[test]
fn idle_time_in_pauses_has_the_causes_that_what_the_host_did_there_has_elsewhere() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::OutsideCuda, false, 10 * MS)]);
    idle.host = HostTimes { timed: host(60 * MS, 40 * MS, 0), paused: host(600 * MS, 400 * MS, 0) };
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

/// The thread slept for a second in a pause, which is a kind of gap that was seen, and not more of all kinds.
#[test]
fn a_pause_in_which_the_thread_slept_is_idle_because_of_that() {
    let parts = [(Cause::Launching, false, 30 * MS), (Cause::OutsideCuda, true, 10 * MS)];
    let mut idle = seen(&parts);
    idle.host = HostTimes { timed: host(60 * MS, 0, 10 * MS), paused: host(60 * MS, 0, 1_010 * MS) };
    idle.add_pauses(1_040 * MS);
    assert_eq!((value(&idle, Cause::Launching), value(&idle, Cause::OutsideCuda)), (60 * MS, 1_020 * MS));
    assert_eq!(idle.by_cause[&Cause::Launching].total.hi, 90 * MS, "it launched for 60 ms in pauses");
}

#[test]
fn a_cause_that_was_not_seen_has_a_bound_and_no_value() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS)]);
    let mut paused = host(60 * MS, 0, 0);
    paused.call(Cause::Allocating, 5 * MS);
    idle.host = HostTimes { timed: host(60 * MS, 0, 0), paused };
    idle.add_pauses(30 * MS);
    let part = idle.by_cause[&Cause::Allocating];
    assert_eq!(part, Part { count: 0, total: Sum { value: 0, lo: 0, hi: 5 * MS } });
}

/// An operation that is enqueued may wait while the host does anything.
#[test]
fn the_time_in_which_operations_start_is_bounded_by_all_that_the_host_did() {
    let mut idle = seen(&[(Cause::Launching, false, 30 * MS), (Cause::Starting, false, 10 * MS)]);
    idle.host = HostTimes { timed: host(60 * MS, 0, 0), paused: host(60 * MS, 200 * MS, 0) };
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
    idle.host = HostTimes { timed: host(60 * MS, 0, 0), paused: host(60 * MS, 0, 0) };
    let before = idle.clone();
    idle.add_pauses(30 * MS);
    assert_eq!(idle, before);
}
