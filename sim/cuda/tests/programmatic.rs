//! Programmatic launches: which kernels may overlap, and their lines in the truth file.

mod common;

use common::{Gate, begin, event, kernel, launch, number, of_kind, stream, synchronize, with_truth};
use serde_json::Value;

const SERIALIZATION: u32 = 6;
const PROGRAMMATIC_EVENT: u32 = 7;
const COMPLETION_EVENT: u32 = 12;
const DISABLE_TIMING: u32 = 2;

/// `CUlaunchAttribute`: an id and 64 bytes.
#[repr(C)]
struct Attribute {
    id: u32,
    pad: u32,
    value: [u64; 8],
}

fn attribute(id: u32, first: u64, second: u64) -> Attribute {
    Attribute { id, pad: 0, value: [first, second, 0, 0, 0, 0, 0, 0] }
}

/// `CUlaunchConfig`.
#[repr(C)]
struct Config {
    dimensions: [u32; 6],
    shared_bytes: u32,
    stream: u64,
    attributes: *const Attribute,
    count: u32,
}

fn launch_with(function: u64, stream: u64, attributes: &[Attribute]) -> i32 {
    let argument = 0u64;
    let arguments = [&argument as *const u64];
    let config = Config {
        dimensions: [1; 6],
        shared_bytes: 0,
        stream,
        attributes: attributes.as_ptr(),
        count: attributes.len() as u32,
    };
    cu!(cuLaunchKernelEx(
        &config => *const Config, function => u64, arguments.as_ptr() => *const *const u64, std::ptr::null() => *const u64
    ))
}

fn follow(function: u64, stream: u64) {
    assert_eq!(launch_with(function, stream, &[attribute(SERIALIZATION, 1, 0)]), 0);
}

fn record(event: u64, stream: u64) {
    ok!(cuEventRecord(event => u64, stream => u64));
}

/// The kernels in the order of their launches.
fn kernels(truth: &[Value]) -> Vec<&Value> {
    let mut kernels = of_kind(truth, "kernel");
    kernels.sort_by_key(|kernel| number(kernel, "seq"));
    kernels
}

/// Start and end of each kernel, ns after the first one's start.
fn times(truth: &[Value]) -> Vec<(i64, i64)> {
    let kernels = kernels(truth);
    let first = number(kernels[0], "start");
    kernels.iter().map(|k| (number(k, "start") - first, number(k, "end") - first)).collect()
}

fn flags(truth: &[Value], name: &str) -> Vec<bool> {
    kernels(truth).iter().map(|kernel| kernel[name].as_bool().unwrap()).collect()
}

#[test]
fn a_programmatic_kernel_starts_at_the_trigger_and_ends_no_earlier_than_its_primary() {
    with_truth(
        "a_programmatic_kernel_starts_at_the_trigger_and_ends_no_earlier_than_its_primary",
        &[],
        || {
            begin();
            let stream = stream(1);
            let (primary, short, quiet) =
                (kernel("p_trigger25_100us"), kernel("s_trigger50_20us"), kernel("q_30us"));
            let gate = Gate::close(&[stream]);
            launch(primary, stream, 0);
            follow(short, stream); // from 25 to 45, but over with its primary at 100
            follow(quiet, stream); // from the trigger at 35, over with the one before at 100
            follow(short, stream); // no trigger in the one before: its end
            launch(quiet, stream, 0); // an ordinary kernel waits for the end
            gate.open();
            synchronize(stream);
        },
        |truth| {
            let us = |start: i64, end: i64| (start * 1_000, end * 1_000);
            assert_eq!(times(&truth), [us(0, 100), us(25, 100), us(35, 100), us(100, 120), us(120, 150)]);
            assert_eq!(flags(&truth, "programmatic"), [false, true, true, true, false]);
            assert_eq!(flags(&truth, "overlaps"), [false, true, true, false, false]);
            assert_eq!(flags(&truth, "cut"), [false; 5]);
            let heads = kernels(&truth).into_iter().map(|k| number(k, "start") - number(k, "head"));
            assert!(heads.into_iter().all(|wait| wait == 0), "its occupancy begins where it starts");
        },
    );
}

#[test]
fn the_assumption_decides_when_a_kernel_without_a_trigger_in_its_name_triggers() {
    with_truth(
        "the_assumption_decides_when_a_kernel_without_a_trigger_in_its_name_triggers",
        &[("SIMCUDA_ASSUME", "programmatic_trigger=10")],
        || {
            begin();
            let stream = stream(1);
            let work = kernel("k_50us");
            let gate = Gate::close(&[stream]);
            launch(work, stream, 0);
            follow(work, stream);
            follow(work, stream);
            gate.open();
            synchronize(stream);
        },
        |truth| assert_eq!(times(&truth), [(0, 50_000), (5_000, 55_000), (10_000, 60_000)]),
    );
}

#[test]
fn anything_between_two_programmatic_launches_serializes_them_and_a_record_marks_them_cut() {
    with_truth(
        "anything_between_two_programmatic_launches_serializes_them_and_a_record_marks_them_cut",
        &[],
        || {
            begin();
            let (stream, other) = (stream(1), stream(1));
            let work = kernel("k_trigger0_50us");
            let (mark, away) = (event(0), event(0));
            let gate = Gate::close(&[stream]);
            record(away, other);
            launch(work, stream, 0);
            record(mark, stream);
            follow(work, stream); // cut
            record(mark, stream);
            record(mark, stream);
            follow(work, stream); // cut
            ok!(cuStreamWaitEvent(stream => u64, away => u64, 0 => u32));
            follow(work, stream); // serialised by the application's own wait
            gate.open();
            synchronize(stream);
            record(mark, stream);
            follow(work, stream); // the one before had ended: nothing to cut
            synchronize(stream);
        },
        |truth| {
            assert_eq!(times(&truth)[..4], [0, 50, 100, 150].map(|us| (us * 1_000, (us + 50) * 1_000)));
            assert_eq!(flags(&truth, "overlaps"), [false; 5]);
            assert_eq!(flags(&truth, "cut"), [false, true, true, false, false]);
        },
    );
}

fn launch_events_fire(test: &str, setting: &str, us: [i64; 3]) {
    with_truth(
        test,
        &[("SIMCUDA_ASSUME", setting)],
        || {
            begin();
            let (stream, waiter) = (stream(1), stream(1));
            let (long, short) = (kernel("k_trigger40_100us"), kernel("w_1us"));
            let gate = Gate::close(&[stream]);
            for (id, second) in
                [(PROGRAMMATIC_EVENT, 0), (PROGRAMMATIC_EVENT, 1 << 32), (COMPLETION_EVENT, 0)]
            {
                let event = event(DISABLE_TIMING);
                assert_eq!(launch_with(long, stream, &[attribute(id, event, second)]), 0);
                ok!(cuStreamWaitEvent(waiter => u64, event => u64, 0 => u32));
                launch(short, waiter, 0);
            }
            gate.open();
            synchronize(stream);
            synchronize(waiter);
        },
        |truth| {
            let starts: Vec<i64> = times(&truth).into_iter().skip(1).step_by(2).map(|time| time.0).collect();
            assert_eq!(starts, us.map(|us| us * 1_000));
        },
    );
}

#[test]
fn launch_events_fire_at_the_trigger_or_the_start() {
    let test = "launch_events_fire_at_the_trigger_or_the_start";
    launch_events_fire(test, "launch_events=nominal", [40, 100, 200]);
}

#[test]
fn launch_events_can_be_assumed_to_fire_at_the_kernels_end() {
    launch_events_fire(
        "launch_events_can_be_assumed_to_fire_at_the_kernels_end",
        "launch_events=late",
        [100, 200, 300],
    );
}

#[test]
fn launch_events_have_rules() {
    begin();
    let stream = stream(1);
    let work = kernel("k_1us");
    let (timed, plain) = (event(0), event(DISABLE_TIMING));
    for id in [PROGRAMMATIC_EVENT, COMPLETION_EVENT] {
        assert_eq!(launch_with(work, stream, &[attribute(id, timed, 0)]), 1, "it must disable timing");
        assert_eq!(launch_with(work, stream, &[attribute(id, plain, 1)]), 1, "CU_EVENT_RECORD_EXTERNAL");
        assert_eq!(launch_with(work, stream, &[attribute(id, 77, 0)]), 400, "no event");
        assert_eq!(launch_with(work, stream, &[attribute(id, plain, 0)]), 0);
    }
    // In a capture the events represent the node.
    ok!(cuStreamBeginCapture_v2(stream => u64, 0 => u32));
    assert_eq!(launch_with(work, stream, &[attribute(PROGRAMMATIC_EVENT, plain, 0)]), 0);
    assert_eq!(cu!(cuEventSynchronize(plain => u64)), 907, "CUDA_ERROR_CAPTURED_EVENT");
    let mut graph = 0;
    cu!(cuStreamEndCapture(stream => u64, &mut graph => &mut u64));
}
