//! Time: the truth file agrees with CUDA's ordering rules, and events agree with the truth file.

mod common;

use common::{
    Gate, alone, begin, device, event, kernel, launch, now, number, of_kind, pinned, stream, symbol,
    synchronize, with_truth,
};
use serde_json::Value;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn named<'a>(truth: &'a [Value], name: &str) -> Vec<&'a Value> {
    truth.iter().filter(|line| line["kind"] == "kernel" && line["name"] == name).collect()
}

fn record(event: u64, stream: u64) {
    ok!(cuEventRecord(event => u64, stream => u64));
}

fn elapsed(start: u64, end: u64) -> f32 {
    let mut milliseconds = f32::NAN;
    ok!(cuEventElapsedTime(&mut milliseconds => &mut f32, start => u64, end => u64));
    milliseconds
}

#[test]
fn a_stream_runs_in_order_and_a_kernel_runs_for_the_time_in_its_name() {
    with_truth(
        "a_stream_runs_in_order_and_a_kernel_runs_for_the_time_in_its_name",
        &[],
        || {
            begin();
            let stream = stream(1);
            let (fixed, given) = (kernel("k_20us"), kernel("k_argns"));
            launch(fixed, stream, 0);
            launch(given, stream, 12_345);
            launch(fixed, stream, 0);
            synchronize(stream);
        },
        |truth| {
            let kernels = of_kind(&truth, "kernel");
            let lengths: Vec<_> =
                kernels.iter().map(|line| number(line, "end") - number(line, "start")).collect();
            assert_eq!(lengths, [20_000, 12_345, 20_000]);
            for pair in kernels.windows(2) {
                assert!(number(pair[1], "start") >= number(pair[0], "end"));
                assert_eq!(
                    number(pair[1], "head"),
                    number(pair[1], "start"),
                    "kernels wait for nothing else"
                );
            }
            for line in &kernels {
                assert!(
                    number(line, "call_begin") + 3_000 <= number(line, "call_end"),
                    "the call's host cost"
                );
                assert!(
                    number(line, "head") >= number(line, "call_begin") + 3_000,
                    "submitted at the end of it"
                );
            }
            // The first launch of each module costs 5 ms more.
            let first = kernels[0];
            assert!(number(first, "call_end") - number(first, "call_begin") >= 5_003_000);
            let sync = of_kind(&truth, "sync")[0];
            assert!(number(sync, "end") >= number(kernels[2], "end"));
        },
    );
}

#[test]
fn events_agree_with_the_truth_and_over_read_a_drained_stream() {
    with_truth(
        "events_agree_with_the_truth_and_over_read_a_drained_stream",
        &[("SIMCUDA_CLOCK_DRIFT_PPB", "-150000")],
        || {
            begin();
            let stream = stream(1);
            let work = kernel("k_20us");
            launch(work, stream, 0);
            synchronize(stream);
            let (start, end) = (event(0), event(0));
            record(start, stream);
            launch(work, stream, 0);
            record(end, stream);
            ok!(cuEventSynchronize(end => u64));
            println!("ELAPSED {}", elapsed(start, end));
            assert_eq!(elapsed(end, start), -elapsed(start, end));
            let over = elapsed(start, end) as f64 * 1e6;
            assert!(over >= 22_900.0, "the launch's own host time is in the pair: {over}");
        },
        |truth| {
            let records = of_kind(&truth, "event_record");
            let launches = named(&truth, "k_20us");
            let (start, end) = (records[0], records[1]);
            // Later if the host was late with the record.
            assert!(number(end, "end") >= number(launches[1], "end"));
            assert!(number(end, "gpu_end") >= number(launches[1], "gpu_end"));
            assert!(
                number(start, "end") >= number(start, "begin") + 1_000,
                "an idle stream: done at submission"
            );
            assert!(number(start, "end") < number(launches[1], "head"));
            // Slow by 150 ppm: 20 µs on the host are 19 997 ns on the GPU.
            let gpu = number(launches[1], "gpu_end") - number(launches[1], "gpu_start");
            assert!((19_996..=19_998).contains(&gpu), "{gpu}");
        },
    );
}

#[test]
fn elapsed_time_is_the_rounded_quotient_or_the_product() {
    for setting in ["elapsed=rounded", "elapsed=multiplied"] {
        let settings = [("SIMCUDA_ASSUME", setting), ("SIMCUDA_CLOCK_DRIFT_PPB", "0")];
        alone("elapsed_time_is_the_rounded_quotient_or_the_product", &settings, || {
            begin();
            let stream = stream(1);
            let work = kernel("k_argns");
            let mut exact = true;
            // Lengths that a multiplication by 1e-6f gets wrong by a nanosecond.
            let wrong = |ns: &u64| (f64::from(*ns as f32 * 1e-6f32) * 1e6).round() as u64 != *ns;
            for ns in (9_200_000u64..9_400_000).filter(wrong).take(5) {
                let (start, end) = (event(0), event(0));
                let gate = Gate::close(&[stream]);
                record(start, stream);
                launch(work, stream, ns);
                record(end, stream);
                gate.open();
                ok!(cuEventSynchronize(end => u64));
                exact &= (f64::from(elapsed(start, end)) * 1e6).round() as u64 == ns;
            }
            assert_eq!(exact, std::env::var("SIMCUDA_ASSUME").unwrap() == "elapsed=rounded");
        });
    }
}

#[test]
fn streams_overlap_events_order_them_and_the_legacy_stream_orders_all_blocking_ones() {
    with_truth(
        "streams_overlap_events_order_them_and_the_legacy_stream_orders_all_blocking_ones",
        &[("SIMCUDA_HOST_COST", "module=0")],
        || {
            begin();
            let (blocking, other, free) = (stream(0), stream(0), stream(1));
            let names = ["a_2ms", "b_2ms", "c_3ms", "legacy_1ms", "d_3ms", "e_1ms", "f_1ms"];
            let [a, b, c, legacy, d, e, f] = names.map(kernel);
            let gate = Gate::close(&[blocking, other, free]);
            launch(a, blocking, 0);
            launch(b, other, 0);
            launch(c, free, 0);
            launch(legacy, 0, 0);
            launch(d, blocking, 0);
            launch(e, free, 0);
            let done = event(2);
            record(done, blocking);
            ok!(cuStreamWaitEvent(free => u64, done => u64, 0 => u32));
            launch(f, free, 0);
            gate.open();
            ok!(cuCtxSynchronize());
        },
        |truth| {
            let at = |name: &str, field: &str| number(named(&truth, name)[0], field);
            assert!(at("b_2ms", "start") < at("a_2ms", "end"), "streams overlap");
            let before = at("a_2ms", "end").max(at("b_2ms", "end"));
            assert_eq!(at("legacy_1ms", "start"), before, "after all blocking streams");
            assert!(
                at("c_3ms", "end") != before && at("e_1ms", "start") == at("c_3ms", "end"),
                "not after that one"
            );
            assert_eq!(at("d_3ms", "start"), at("legacy_1ms", "end"), "before later blocking work");
            assert_eq!(at("f_1ms", "start"), at("d_3ms", "end"), "after the event");
        },
    );
}

#[test]
fn per_thread_default_streams_are_streams_of_their_own() {
    with_truth(
        "per_thread_default_streams_are_streams_of_their_own",
        &[("SIMCUDA_HOST_COST", "module=0")],
        || {
            let context = begin();
            let work = kernel("k_3ms");
            let run = move || {
                ok!(cuCtxSetCurrent(context => u64));
                ok!(cuLaunchKernel_ptsz(
                    work => u64, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 1 => u32, 0 => u32, 0 => u64,
                    std::ptr::null() => *const u64, std::ptr::null() => *const u64
                ));
                let mut id = 0;
                ok!(cuStreamGetId(2 => u64, &mut id => &mut u64));
                ok!(cuStreamSynchronize_ptsz(0 => u64));
                id
            };
            let ids = [std::thread::spawn(run), std::thread::spawn(run)].map(|thread| thread.join().unwrap());
            assert_ne!(ids[0], ids[1]);
        },
        |truth| {
            let kernels = named(&truth, "k_3ms");
            assert_ne!(kernels[0]["stream"], kernels[1]["stream"]);
            assert_ne!(kernels[0]["tid"], kernels[1]["tid"]);
        },
    );
}

#[test]
fn a_copy_engine_runs_one_copy_of_its_direction_at_a_time() {
    with_truth(
        "a_copy_engine_runs_one_copy_of_its_direction_at_a_time",
        &[],
        || {
            begin();
            let (one, two) = (stream(1), stream(1));
            let (bytes, host) = (4 << 20, pinned(4 << 20));
            let memory = device(bytes);
            let third = stream(1);
            let gate = Gate::close(&[one, two, third]);
            ok!(cuMemcpyHtoDAsync_v2(memory => u64, host => u64, bytes => usize, one => u64));
            ok!(cuMemcpyHtoDAsync_v2(memory => u64, host => u64, bytes => usize, two => u64));
            ok!(cuMemcpyDtoHAsync_v2(host => u64, memory => u64, 64 => usize, third => u64));
            gate.open();
            ok!(cuCtxSynchronize());
        },
        |truth| {
            let copies = of_kind(&truth, "copy");
            // 25 GB/s and 1.5 µs each.
            let length = 1_500 + (4i64 << 20) * 1000 / 25_000;
            assert_eq!(number(copies[0], "end") - number(copies[0], "start"), length);
            assert_eq!(number(copies[1], "start"), number(copies[0], "end"), "queued behind the first");
            assert!(number(copies[1], "head") < number(copies[1], "start"), "and its stream was free");
            assert!(
                number(copies[2], "start") < number(copies[0], "end"),
                "the other direction is another engine"
            );
            assert_eq!(
                (copies[0]["direction"].as_str(), copies[2]["direction"].as_str()),
                (Some("HtoD"), Some("DtoH"))
            );
            assert_eq!(copies[0]["host_memory"], "pinned");
        },
    );
}

#[test]
fn the_launch_queue_holds_1020_entries_and_then_blocks_the_caller() {
    with_truth(
        "the_launch_queue_holds_1020_entries_and_then_blocks_the_caller",
        &[("SIMCUDA_HOST_COST", "off")],
        || {
            begin();
            let stream = stream(1);
            let work = kernel("k_1us");
            // The gate is the first entry. If one of the others blocked already, the gate would never open.
            let gate = Gate::close(&[stream]);
            for _ in 0..1019 {
                launch(work, stream, 0);
            }
            let opener = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let opened = now();
                gate.open();
                opened
            });
            launch(work, stream, 0);
            let returned = now();
            assert!(returned >= opener.join().unwrap(), "the 1021st entry waits for the first to end");
            synchronize(stream);
        },
        |truth| {
            let queues: Vec<_> = of_kind(&truth, "kernel").iter().map(|line| number(line, "queue")).collect();
            assert_eq!(queues[..1019], (1..1020).collect::<Vec<_>>()[..]);
            assert!(queues[1019] < 1020);
        },
    );
}

extern "C" fn mark(data: u64) {
    // SAFETY: the test's flag, which outlives the call.
    unsafe { (data as *mut u64).write_volatile(now() as u64) };
    std::thread::sleep(std::time::Duration::from_millis(5));
    // CUDA calls are refused in here.
    assert_eq!(cu!(cuCtxSynchronize()), 800);
}

#[test]
fn a_host_function_runs_in_stream_order_and_delays_later_work() {
    with_truth(
        "a_host_function_runs_in_stream_order_and_delays_later_work",
        &[],
        || {
            begin();
            let stream = stream(1);
            let host = pinned(8);
            let memory = device(8);
            let work = kernel("k_2ms");
            let gate = Gate::close(&[stream]);
            launch(work, stream, 0);
            let function = mark as extern "C" fn(u64);
            ok!(cuLaunchHostFunc(stream => u64, function => extern "C" fn(u64), host => u64));
            // The copy must read what the host function wrote, although it was submitted before the function ran.
            ok!(cuMemcpyHtoDAsync_v2(memory => u64, host => u64, 8 => usize, stream => u64));
            let end = event(0);
            record(end, stream);
            assert_eq!(cu!(cuEventQuery(end => u64)), 600);
            gate.open();
            ok!(cuEventSynchronize(end => u64));
            let mut seen = 0u64;
            ok!(cuMemcpyDtoH_v2(&mut seen => &mut u64, memory => u64, 8 => usize));
            assert_ne!(seen, 0);
        },
        |truth| {
            let (work, host) = (of_kind(&truth, "kernel")[0], of_kind(&truth, "host")[0]);
            assert_eq!(number(host, "head"), number(work, "end"));
            assert!(number(host, "start") >= number(host, "head"));
            assert!(number(host, "end") - number(host, "start") >= 5_000_000);
            let copy = of_kind(&truth, "copy")[0];
            assert_eq!(number(copy, "head"), number(host, "end"));
        },
    );
}

#[test]
fn a_stream_waits_for_a_value_and_others_go_on() {
    with_truth(
        "a_stream_waits_for_a_value_and_others_go_on",
        &[],
        || {
            begin();
            let (gated, free) = (stream(1), stream(1));
            let flag = pinned(8);
            let work = kernel("k_10us");
            ok!(cuStreamWaitValue32(gated => u64, flag => u64, 7 => u32, 1 => u32));
            for _ in 0..600 {
                launch(work, gated, 0);
            }
            launch(work, free, 0);
            synchronize(free);
            assert_eq!(cu!(cuStreamQuery(gated => u64)), 600);
            // Written by another stream: in its order.
            ok!(cuStreamWriteValue32(free => u64, flag => u64, 7 => u32, 0 => u32));
            synchronize(gated);
            // SAFETY: our own memory.
            assert_eq!(unsafe { *(flag as *const u32) }, 7);
            let wrong = cu!(cuStreamWaitValue32(gated => u64, flag + 2 => u64, 7 => u32, 1 => u32));
            assert_eq!(wrong, 1, "not aligned");
        },
        |truth| {
            let values = of_kind(&truth, "value");
            assert_eq!(values.len(), 2);
            let (write, wait) = (
                values.iter().find(|v| v["api"] == "cuStreamWriteValue32").unwrap(),
                values.iter().find(|v| v["api"] == "cuStreamWaitValue32").unwrap(),
            );
            assert!(number(wait, "end") >= number(write, "head"));
            let first = named(&truth, "k_10us")[0].clone();
            let gated = number(wait, "stream");
            let behind: Vec<_> =
                named(&truth, "k_10us").into_iter().filter(|line| number(line, "stream") == gated).collect();
            assert_eq!(behind.len(), 600);
            assert!(behind.iter().all(|line| number(line, "start") >= number(wait, "end")));
            assert!(number(&first, "start") < number(wait, "end"), "the free stream's came before");
        },
    );
}

#[test]
fn calls_take_the_host_cost_that_was_set() {
    let settings = [("SIMCUDA_HOST_COST", "launch=20000,record=9000,query=7000,module=0")];
    alone("calls_take_the_host_cost_that_was_set", &settings, || {
        begin();
        let stream = stream(1);
        let (work, end) = (kernel("k_1us"), event(0));
        let cost = |call: &dyn Fn()| {
            let start = now();
            (0..50).for_each(|_| call());
            (now() - start) / 50
        };
        assert!(cost(&|| launch(work, stream, 0)) >= 20_000);
        assert!(cost(&|| record(end, stream)) >= 9_000);
        assert!(cost(&|| _ = cu!(cuEventQuery(end => u64))) >= 7_000);
        assert!(!symbol("simcudaTruthFlush").is_null());
    });
}

#[test]
fn threads_share_streams_without_losing_work_or_order() {
    with_truth(
        "threads_share_streams_without_losing_work_or_order",
        &[("SIMCUDA_HOST_COST", "off")],
        || {
            let context = begin();
            let streams = [stream(0), stream(1), 0];
            let work = kernel("k_100ns");
            let run = move || {
                ok!(cuCtxSetCurrent(context => u64));
                let mark = event(0);
                for round in 0..1500 {
                    let stream = streams[round % 3];
                    launch(work, stream, 0);
                    record(mark, stream);
                    if round % 100 == 0 {
                        ok!(cuEventSynchronize(mark => u64));
                    }
                }
            };
            let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(run)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            ok!(cuCtxSynchronize());
        },
        |truth| {
            let mut kernels = named(&truth, "k_100ns");
            assert_eq!(kernels.len(), 6000);
            kernels.sort_by_key(|line| (number(line, "stream"), number(line, "start")));
            for pair in kernels.windows(2).filter(|pair| pair[0]["stream"] == pair[1]["stream"]) {
                assert!(number(pair[1], "start") >= number(pair[0], "end"), "one at a time on a stream");
            }
            let mut seqs: Vec<_> = kernels.iter().map(|line| number(line, "seq")).collect();
            seqs.sort_unstable();
            seqs.dedup();
            assert_eq!(seqs.len(), 6000);
        },
    );
}

#[test]
fn work_that_never_ran_has_no_times_in_the_truth() {
    with_truth(
        "work_that_never_ran_has_no_times_in_the_truth",
        &[],
        || {
            begin();
            let stream = stream(1);
            let work = kernel("k_1us");
            let _closed = Gate::close(&[stream]);
            launch(work, stream, 0);
        },
        |truth| {
            assert_eq!(of_kind(&truth, "value").len(), 1);
            let kernels = named(&truth, "k_1us");
            assert!(kernels.len() == 1 && kernels[0]["start"].is_null() && kernels[0]["captured"] == false);
        },
    );
}

fn elapsed_time_backwards(test: &str, setting: &str, result: i32) {
    alone(test, &[("SIMCUDA_ASSUME", setting)], || {
        begin();
        let stream = stream(1);
        let (start, end, pending) = (event(0), event(0), event(0));
        record(start, stream);
        launch(kernel("k_20us"), stream, 0);
        record(end, stream);
        synchronize(stream);
        let mut milliseconds = 0.0;
        let mut between = |start: u64, end: u64| cu!(cuEventElapsedTime(&mut milliseconds => &mut f32, start => u64, end => u64));
        assert_eq!((between(end, start), between(start, end), between(end, end)), (result, 0, 0));
        let gate = Gate::close(&[stream]);
        record(pending, stream);
        assert_eq!((between(pending, start), between(start, pending)), (600, 600), "NOT_READY");
        gate.open();
        synchronize(stream);
    });
}

#[test]
fn elapsed_time_from_a_later_to_an_earlier_event_is_negative() {
    elapsed_time_backwards(
        "elapsed_time_from_a_later_to_an_earlier_event_is_negative",
        "negative_elapsed=signed",
        0,
    );
}

#[test]
fn elapsed_time_from_a_later_to_an_earlier_event_can_be_refused() {
    elapsed_time_backwards(
        "elapsed_time_from_a_later_to_an_earlier_event_can_be_refused",
        "negative_elapsed=refused",
        1,
    );
}

/// Launches two kernels on a stream, then one on another stream that has its first work this many streams later. Returns when
/// the last one was at the head of its stream and when it started, ns after the first one's start.
fn behind_another_stream(test: &str, settings: &[(&str, &str)], later: usize, expected: (i64, i64)) {
    behind_a_stream(test, settings, later, true, expected);
}

/// Does the same; with `all_have_work` false, the streams between the two are created and never used.
fn behind_a_stream(
    test: &str,
    settings: &[(&str, &str)],
    later: usize,
    all_have_work: bool,
    expected: (i64, i64),
) {
    with_truth(
        test,
        settings,
        move || {
            begin();
            let streams: Vec<u64> = (0..=later).map(|_| stream(1)).collect();
            let (first, second) = (streams[0], streams[later]);
            let (long, other, short) = (kernel("long_50us"), kernel("other_5us"), kernel("short_1us"));
            for used in streams.iter().filter(|s| all_have_work || [first, second].contains(*s)) {
                launch(short, *used, 0);
                synchronize(*used);
            }
            let gate = Gate::close(&[first, second]);
            launch(long, first, 0);
            launch(long, first, 0);
            launch(other, second, 0);
            gate.open();
            synchronize(first);
            synchronize(second);
        },
        |truth| {
            let start = number(named(&truth, "long_50us")[0], "start");
            let other = named(&truth, "other_5us")[0];
            assert_eq!((number(other, "head") - start, number(other, "start") - start), expected);
        },
    );
}

#[test]
fn streams_do_not_wait_for_each_other() {
    behind_another_stream("streams_do_not_wait_for_each_other", &[], 7, (0, 0));
}

#[test]
fn work_that_waits_in_one_stream_delays_the_other_streams_of_its_connection() {
    let test = "work_that_waits_in_one_stream_delays_the_other_streams_of_its_connection";
    behind_another_stream(test, &[("CUDA_DEVICE_MAX_CONNECTIONS", "1")], 1, (0, 50_000));
}

#[test]
fn streams_take_the_eight_connections_in_turn() {
    behind_another_stream("streams_take_the_eight_connections_in_turn", &[], 8, (0, 50_000));
}

/// cuBLAS of CUDA 13 creates 16 or 32 streams in each context, which never have work.
#[test]
fn streams_without_work_take_no_connection() {
    behind_a_stream("streams_without_work_take_no_connection", &[], 8, false, (0, 0));
}

#[test]
fn connections_can_be_assumed_to_have_no_effect() {
    let settings = [("CUDA_DEVICE_MAX_CONNECTIONS", "1"), ("SIMCUDA_ASSUME", "connections=streams")];
    behind_another_stream("connections_can_be_assumed_to_have_no_effect", &settings, 1, (0, 0));
}

#[test]
fn a_kernel_that_waits_for_others_runs_until_all_have_started() {
    let test = "a_kernel_that_waits_for_others_runs_until_all_have_started";
    with_truth(
        test,
        &[],
        || {
            begin();
            let counter = AtomicU32::new(0);
            let (reduce, first, second) = (kernel("reduce_meets"), stream(1), stream(1));
            meet(reduce, first, &counter, 2);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(cu!(cuStreamQuery(first => u64)), 600, "NOT_READY");
            meet(reduce, second, &counter, 2);
            synchronize(first);
            synchronize(second);
            assert_eq!(counter.into_inner(), 2);
        },
        |truth| {
            let both = named(&truth, "reduce_meets");
            let lasted = both.iter().map(|line| number(line, "end") - number(line, "start"));
            let (begun, ended) =
                (both.iter().map(|l| number(l, "start")), both.iter().map(|l| number(l, "end")));
            assert!(begun.max() <= ended.min() && lasted.max() >= Some(20_000_000), "{both:?}");
        },
    );
}

/// Launches a kernel that counts this counter up to `all`.
fn meet(function: u64, stream: u64, counter: &AtomicU32, all: u64) {
    let counter = counter.as_ptr() as u64;
    let arguments = [(&raw const counter).cast::<u8>(), (&raw const all).cast::<u8>()];
    ok!(cuLaunchKernel(
        function => u64, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32, stream => u64,
        arguments.as_ptr() => *const *const u8, std::ptr::null() => *const u64));
}
