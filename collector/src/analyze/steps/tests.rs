//! Times and contents of steps that are known.

use super::super::analysis::{self, finish_at};
use super::*;
use crate::analyze::estimate::Sum;
use crate::analyze::identity::Identity;
use crate::analyze::idle::by_step::StepIdle;
use crate::analyze::idle::{IdleReport, Part};
use crate::model::{Action, Operation, Reason, When, simulation};
use crate::trace::record::{Call, Names, Record, Synchronize};
use gpuspy_wire::record::{LossCause, SyncScope};

const KERNEL: Action = Action::Kernel { name: 1, communication: false };

/// From step 10 on, of which the first two were long, "warm-up 12" was reported.
#[test]
fn the_warm_up_of_a_part_of_the_time_is_a_number_of_steps() {
    let (names, period) = (Names::default(), Period::between(1_000, 100_000));
    let mut fold = StepFold::new(&analysis::Start { period, ..analysis::Start::of(&names) });
    let mut at = 0;
    for step in 0..40 {
        let record = Record { thread: 1, at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let event = Event { step: Some(step), ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
        at += if step == 10 || step == 11 { 300 } else { 100 };
    }
    let steps = finish_at(fold, at);
    assert_eq!((steps.count, steps.warm_up, steps.steady.clone()), (30, 2, 12..39));
    assert_eq!(steps.first_steady(), 12, "the idle time of the warm-up is told by the numbers of its steps");
}

/// The step in which a collector had been stopped for 0.6 s, and lost what it was to record, was the 99th percentile of all.
#[test]
fn a_step_in_which_records_were_lost_has_no_time() {
    let (names, lost) = (Names::default(), [(1_350, 1_850)].into_iter().collect());
    let mut fold = StepFold::new(&analysis::Start { lost, ..analysis::Start::of(&names) });
    let mut at = 0;
    for step in 0..40 {
        let record = Record { thread: 1, at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let start = at as i64 + 10;
        let launches = if step == 13 { 1 } else { 3 };
        for _ in 0..launches {
            let when = When::Timed(simulation::exactly(start, start + 60));
            let operation = Operation { when, ..simulation::operation(KERNEL, (at, at)) };
            let event = Event { step: Some(step), operation: Some(operation), ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
        at += if step == 13 { 900 } else { 100 };
    }
    let steps = finish_at(fold, at);
    let time = steps.time.unwrap();
    assert_eq!((steps.count, time.max, time.measured, steps.outliers.len()), (40, 100, 38, 0));
    assert_eq!((steps.contents.busy, steps.contents.idle, steps.launches), (60.0, 40.0, 3));
}

/// A thread with a GPU of its own launched 600 kernels in steps of which it launched 6 of 12.
#[test]
fn the_steps_of_a_thread_contain_what_it_does() {
    let names = Names::default();
    let mut fold = StepFold::new(&analysis::Start { steps_of: Some(1), ..analysis::Start::of(&names) });
    for step in 0..40 {
        let at = 1_000 + 100 * step;
        for (thread, length) in [(2, 70), (1, 30), (2, 70)] {
            let record = Record { thread, at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
            let start = at as i64 + if thread == 1 { 10 } else { 0 };
            let when = When::Timed(simulation::exactly(start, start + length));
            let operation = Operation { when, ..simulation::operation(KERNEL, (at, at)) };
            let event = Event { step: Some(step), operation: Some(operation), ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
        }
    }
    let steps = finish_at(fold, 10_000);
    assert_eq!((steps.launches, steps.contents.busy, steps.all_launches), (1, 30.0, 120));
    assert_eq!(steps.time.map(|time| (time.min, time.max)), Some((100, 100)));
}

/// 150 steps that the host issued at once, and then one wait for all of them: "17.1 µs per step on average instead of 15.9 µs",
/// of steps that took 2.4 ms instead of 1.6 ms.
#[test]
fn the_mean_of_steps_that_are_issued_ahead_has_the_wait_after_them() {
    let names = Names::default();
    let mut fold = StepFold::new(&analysis::Start::of(&names));
    let mut observe = |step, thread, at, body| {
        let record = Record { thread, at, body };
        let event = Event { step: Some(step), ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
    };
    let wait = |begin, end| {
        let call = Call { begin, end, ..Call::default() };
        Body::Synchronize(Synchronize { call, scope: SyncScope::Device, stream: 0, event: 0 })
    };
    for step in 0..10 {
        observe(step, 1, 1_000 + 10 * step, Body::Loss { cause: LossCause::RingFull, count: 0 });
    }
    // Another thread waits for something else, and what comes later is after the steps.
    observe(9, 2, 1_200, wait(1_100, 1_200));
    observe(9, 1, 2_000, wait(1_100, 2_000));
    observe(9, 1, 9_000, wait(8_000, 9_000));
    let steps = finish_at(fold, 10_000);
    assert_eq!(steps.timed_on, Some(TimedOn::HostAhead));
    let on_host = steps.on_host.map(|times| (times.mean, times.count));
    assert_eq!(on_host, Some((100.0, 10)), "ten steps from 1 000 to 2 000");
    assert_eq!(steps.time.map(|time| (time.mean, time.median)), Some((100.0, 10)));
}

/// Takes steps of 100 ns on the GPU, after each ten of which the host waits for it, so that it issues nine of them at once.
/// The GPU starts of one in `known` are known.
fn ahead_of_the_gpu(known: u64) -> Steps {
    let names = Names::default();
    let mut fold = StepFold::new(&analysis::Start::of(&names));
    for step in 0..401 {
        let (at, start) = (1_000 + step / 10 * 1_000 + step % 10, 1_000 + 100 * step as i64);
        let record = Record { thread: 1, at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let when = if step % known == 0 {
            When::Timed(simulation::exactly(start, start + 90))
        } else {
            When::Untimed { reason: Reason::Lost, after: Some(start) }
        };
        let operation = Operation { when, ..simulation::operation(KERNEL, (at, at)) };
        let event = Event { step: Some(step), operation: Some(operation), ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
    }
    finish_at(fold, 100_000)
}

/// Most steps of a GPU-bound loop were said to take as long as it takes to issue one, so that a program that had become
/// slower was said to have become faster.
#[test]
fn steps_that_the_host_issues_ahead_take_as_long_as_on_the_gpu() {
    for known in [1, 3, 7] {
        let steps = ahead_of_the_gpu(known);
        let time = steps.time.unwrap();
        assert_eq!((steps.timed_on, time.median), (Some(TimedOn::Gpu), 100), "one in {known}");
        assert!(time.measured <= 400 / known + 1 && (time.mean - 100.0).abs() < 1e-6, "{time:?}");
        assert!((steps.on_host.unwrap().mean - 100.0).abs() < 5.0, "{:?}", steps.on_host);
    }
    let unknown = ahead_of_the_gpu(1_000);
    assert_eq!((unknown.timed_on, unknown.time.unwrap().median), (Some(TimedOn::HostAhead), 1));
}

/// On an H100, the steps of a sampled run were said to be busy for 42 % of their time where kernels ran for 70 % of it: the
/// seconds of the imports counted as idle time of the steps.
#[test]
fn imports_are_no_idle_time_of_the_steps() {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let identity = Identity {
        span: 1_000,
        busy: [exactly(70), exactly(0), exactly(0), exactly(0)],
        idle: exactly(930),
        ..Identity::default()
    };
    let part = |ns| Part { count: 1, total: exactly(ns) };
    let by_cause =
        [(Cause::SetUp, part(850)), (Cause::Loading, part(50)), (Cause::Launching, part(30))].into();
    let idle = IdleReport { by_cause, ..IdleReport::default() };
    let mut contents = Contents::default();
    contents.share(&[DeviceReport { identity, idle, ..DeviceReport::default() }], 50.0, 1);
    assert_eq!((contents.busy.round(), contents.idle.round(), contents.undecided), (35.0, 15.0, 0.0));
}

/// A program that loaded a module in each step was said to be busy for 96 % of a step in which the GPU was idle for 39 %.
#[test]
fn code_that_each_step_loads_is_idle_time_of_the_steps() {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let identity = Identity {
        span: 1_100,
        busy: [exactly(600), exactly(0), exactly(0), exactly(0)],
        idle: exactly(500),
        ..Identity::default()
    };
    let by_cause = [(Cause::Loading, Part { count: 10, total: exactly(500) })].into();
    let idle = IdleReport { by_cause, ..IdleReport::default() };
    let mut seen = StepIdle::default();
    for (step, ns) in
        [(0, 140), (1, 40), (2, 40), (3, 40), (4, 40), (5, 40), (6, 40), (7, 40), (8, 40), (9, 40)]
    {
        seen.reach(step);
        seen.add(Cause::Loading, ns);
    }
    let device = DeviceReport { identity, idle, idle_by_step: vec![seen], ..DeviceReport::default() };
    let mut contents = Contents::default();
    contents.share(&[device], 96.0, 1);
    assert_eq!((contents.busy.round(), contents.idle.round()), (60.0, 36.0));
    assert_eq!(contents.idle_by_cause[&Cause::Loading].round(), 36.0);
}

/// With `--timing off`, and by default with CUDA_DEVICE_MAX_CONNECTIONS=1, steps were said to be idle for 100 % of their
/// time.
#[test]
fn a_step_is_not_idle_where_nothing_is_known() {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let device = |undecided, idle| {
        let identity = Identity { span: 1_000, undecided, idle, ..Identity::default() };
        let mut device = DeviceReport { identity, ..DeviceReport::default() };
        device.complete_idle();
        device
    };
    let shared = |devices: &[DeviceReport]| {
        let mut contents = Contents::default();
        contents.share(devices, 50.0, 1);
        (contents.busy, contents.idle, contents.undecided)
    };
    assert_eq!(shared(&[device(exactly(1_000), exactly(0))]), (0.0, 0.0, 50.0));
    assert_eq!(shared(&[device(exactly(900), exactly(100))]), (0.0, 5.0, 45.0));
    assert_eq!(shared(&[DeviceReport::default()]), (0.0, 0.0, 50.0), "nothing was seen on the GPU");
}

/// Under `--timing auto` a step was said to wait most for the host outside CUDA, by the gaps in the first second, and the
/// same report said that the GPU waited as long for launches.
#[test]
fn the_causes_of_idle_time_in_steps_are_those_of_all_idle_time() {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let part = |ns| Part { count: 1, total: exactly(ns) };
    let by_cause =
        [(Cause::SetUp, part(110)), (Cause::OutsideCuda, part(480)), (Cause::Launching, part(410))];
    let idle = IdleReport { by_cause: by_cause.into(), ..IdleReport::default() };
    let mut seen = StepIdle::default();
    (0..100).for_each(|step| {
        seen.reach(step);
        seen.add(Cause::OutsideCuda, 9);
        seen.add(Cause::Launching, 1);
    });
    let identity = Identity { span: 1_000, idle: exactly(1_000), ..Identity::default() };
    let device = DeviceReport { identity, idle, idle_by_step: vec![seen], ..DeviceReport::default() };
    let time = Some(StepTimes { mean: 89.0, ..StepTimes::default() });
    let mut steps = Steps { count: 100, steady: 0..99, time, ..Steps::default() };
    steps.relate(&[device]);
    let each: Vec<_> = steps.contents.idle_by_cause.iter().map(|(cause, ns)| (*cause, ns.round())).collect();
    assert_eq!(each, [(Cause::Launching, 41.0), (Cause::OutsideCuda, 48.0)]);
}

/// The steps of the second process of a run, which began 5 ms after the first, were said to start 5 ms too early.
#[test]
fn long_steps_start_at_a_time_of_the_run() {
    let names = Names::default();
    let mut fold =
        StepFold::new(&analysis::Start { began: 6_000, origin: 1_000, ..analysis::Start::of(&names) });
    let mut at = 6_000;
    for step in 0..40 {
        let record = Record { thread: 1, at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let event = Event { step: Some(step), ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
        at += if step == 20 { 900 } else { 100 };
    }
    let steps = finish_at(fold, at);
    assert_eq!(steps.outliers.iter().map(|one| (one.step, one.start)).collect::<Vec<_>>(), [(20, 7_000)]);
}
