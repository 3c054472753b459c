//! The poller: what it costs, how soon it runs, and what it records about the GPU's clock.

use crate::compare::median;
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, ClockSample};
use gpuspy_tests::{Done, Run, until_one_is_good};
use serde_json::Value;

/// Prepares `paced`: this many launches a second for some seconds, then nothing for `idle_ms`, repeated `rounds` times.
fn paced(kernel: &str, rate: u32, seconds: f64, idle_ms: u32, rounds: u32) -> Run {
    let arguments = [rate.to_string(), seconds.to_string(), idle_ms.to_string(), rounds.to_string()];
    arguments.iter().fold(Run::of("paced").arg(kernel), Run::arg)
}

fn poller_ns(done: &Done) -> u64 {
    done.report()["overhead"]["poller_ns"].as_u64().unwrap()
}

fn wall_ns(done: &Done) -> u64 {
    done.said()["wall_ns"].as_u64().unwrap()
}

#[test]
fn at_10_000_launches_a_second_the_poller_takes_under_3_percent_of_a_core() {
    // Sharing the processor and its caches with other programs makes the same work take longer, and never shorter. It takes under
    // 2 % where the machine is quiet; machines of one kind differ by a fifth from day to day.
    until_one_is_good(|| {
        let done = paced("steady_20us", 10_000, 3.0, 0, 1).observed().succeeded();
        let (own, wall) = (poller_ns(&done), wall_ns(&done));
        println!("{} launches in {wall} ns: the poller's own {own} ns", done.said()["launches"]);
        let coverage = done.report()["coverage"].clone();
        // The poller must not be cheap because it polls too rarely.
        let number = |key: &str| coverage[key].as_u64().unwrap() as usize;
        assert!(done.is_share(number("timed"), number("launches"), 0.9), "{coverage}");
        let is_cheap = own > 0 && (own as f64) < 0.03 * wall as f64;
        is_cheap.then_some(()).ok_or_else(|| format!("{own} ns of {wall}, {}", done.pressure))
    });
}

/// A stream that is created while work runs may wait for that work, and shifts the hardware queues of the app's next
/// streams.
#[test]
fn the_stream_for_clock_samples_is_created_with_the_context() {
    let done = paced("steady_20us", 1_000, 0.2, 0, 1).observed().succeeded();
    let truth = done.truth();
    let number = |line: &Value, key: &str| line[key].as_u64().unwrap();
    let made = truth.of("stream").filter(|line| line["default"] == false && line["destroyed"] == false);
    let made: Vec<u64> = made.map(|line| number(line, "stream")).collect();
    let first = truth.of("kernel").map(|line| number(line, "seq")).min().unwrap();
    assert_eq!(made.len(), 2, "one stream is the app's and one the agent's: {made:?}");
    assert!(made.iter().all(|stream| *stream < first), "{made:?}, and the first kernel {first}");
}

#[test]
fn while_idle_the_poller_takes_under_a_thousandth_of_a_core() {
    // The cost of the start and of the burst is in both runs.
    until_one_is_good(|| {
        let runs = [500, 5_500].map(|idle| paced("burst_5us", 10_000, 0.01, idle, 1).observed().succeeded());
        let [(short, short_wall), (long, long_wall)] = runs.each_ref().map(|d| (poller_ns(d), wall_ns(d)));
        let (own, wall) = (long.saturating_sub(short), long_wall - short_wall);
        println!("idle for {wall} ns more: {own} ns more (the rest {short} ns)");
        assert!(short < 1_000_000_000, "the counter is in ns: {short}, {long}");
        let is_cheap = (own as f64) < 0.001 * wall as f64;
        is_cheap.then_some(()).ok_or_else(|| format!("{own} ns of {wall}"))
    });
}

/// Compares with the processor time that the Linux kernel counted for the poller's thread. That includes all of the
/// poller's calls into the simulator, except the time that those take on purpose.
#[test]
fn the_pollers_reported_cost_matches_the_linux_kernels_count() {
    until_one_is_good(|| {
        let run = paced("steady_20us", 10_000, 3.0, 0, 1);
        let done = run.env("SIMCUDA_HOST_COST", "query=0,elapsed=0,record=0,other=0").observed().succeeded();
        let (own, wall) = (poller_ns(&done), wall_ns(&done));
        let counted = done.said()["tracer_cpu_ns"].as_u64().unwrap();
        println!("in {wall} ns: the poller's own {own} ns, all that the kernel counts {counted} ns");
        // Allows for the time between the two readings, and for the thread's start and end.
        let apart = 20_000_000;
        assert!(counted > 0 && own < counted + apart && counted < 3 * own + apart, "{own} ns of {counted}");
        // Each poll costs more on a busy machine, whose caches and processors are others' as well.
        let limit = 0.03 * (1.0 + done.pressure) * wall as f64 + apart as f64;
        ((counted as f64) < limit).then_some(()).ok_or_else(|| format!("{counted} ns of {wall}"))
    });
}

/// Returns the ns from each operation's end until its time was read, in order of correlation.
fn delays(done: &Done) -> Vec<u64> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let seen: Vec<u64> = reader
        .records()
        .filter_map(|r| match r.body {
            Body::Work(work) => work.gpu.map(|gpu| gpu.seen),
            _ => None,
        })
        .collect();
    let ends = done.truth().operations().into_iter().map(|o| o.interval.1);
    assert_eq!(seen.len(), ends.len());
    ends.zip(seen).map(|(end, seen)| seen.saturating_sub(end)).collect()
}

#[test]
fn the_first_launch_after_idleness_wakes_the_poller() {
    // 300 ms without work is ten times as long as the poller keeps polling.
    until_one_is_good(|| {
        let done = paced("lone_5us", 10, 0.1, 300, 12).observed().succeeded();
        let delays = delays(&done);
        println!("read after {delays:?} ns");
        // Asleep, it would poll within 250 ms; once woken, it polls as soon as it gets a processor.
        let is_soon = median(delays.clone()) < 30_000_000;
        is_soon.then_some(()).ok_or_else(|| format!("{delays:?}"))
    });
}

fn samples(done: &Done) -> Vec<ClockSample> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let sample = |body| if let Body::ClockSample(sample) = body { Some(sample) } else { None };
    reader.records().filter_map(|r| sample(r.body)).collect()
}

/// Returns the events recorded by threads other than the program's only one: (host ns, GPU ns) at which each fired.
fn recorded_by_the_poller(done: &Done) -> Vec<(u64, i64)> {
    let pid = &done.said()["pid"];
    let number = |line: &Value, key: &str| line[key].as_i64().unwrap_or_else(|| panic!("no {key} in {line}"));
    let truth = done.truth();
    let lines = truth.of("event_record").filter(|l| l["tid"] != *pid);
    let mut fired: Vec<(u64, i64)> = lines.map(|l| (number(l, "end") as u64, number(l, "gpu_end"))).collect();
    fired.sort_unstable();
    fired
}

#[test]
fn a_gpu_bound_program_that_never_waits_has_a_clock_sample_a_second() {
    until_one_is_good(|| {
        let done = paced("bound_95us", 10_000, 3.5, 0, 1)
            .env("SIMCUDA_CLOCK_OFFSET_NS", "18000000000000")
            .env("SIMCUDA_CLOCK_DRIFT_PPB", "50000")
            .observed()
            .succeeded();
        let samples = samples(&done);
        samples_are_true(&samples, &recorded_by_the_poller(&done));
        // On a busy machine, the poller may be interrupted in each of them.
        let widths: Vec<u64> = samples.iter().map(|s| s.before - s.after).collect();
        if median(widths.clone()) >= 20_000 {
            return Err(format!("samples that are {widths:?} ns wide"));
        }
        // The clock's uncertainty from these samples: twice the bound on either side.
        let uncertainty = done.report()["clock"]["uncertainty_ns"].as_u64().unwrap();
        assert!(uncertainty > 0);
        if uncertainty <= 30_000 { Ok(()) } else { Err(format!("a clock that is known to {uncertainty} ns")) }
    });
}

/// Checks that there is a sample each second, and that each is of an event that fired in it.
fn samples_are_true(samples: &[ClockSample], fired: &[(u64, i64)]) {
    assert!((3..=5).contains(&samples.len()), "{samples:?}");
    // Ticks are converted to host ns by anchors; the uncertainty of that conversion belongs to the collector, and is
    // small.
    let uncertain = 1_000;
    // Finds the event of each sample: the poller may have given up on some events.
    let matched: Vec<(&ClockSample, i64)> = samples
        .iter()
        .map(|s| {
            let between = s.after - uncertain..=s.before + uncertain;
            let event = fired.iter().find(|(host, _)| between.contains(host));
            (s, event.unwrap_or_else(|| panic!("{s:?} is none of {fired:?}")).1)
        })
        .collect();
    for pair in matched.windows(2) {
        let [(first, first_gpu), (second, second_gpu)] = pair else { unreachable!() };
        assert_eq!(first.time_base, second.time_base);
        let (ours, true_one) = (second.gpu - first.gpu, second_gpu - first_gpu);
        assert!(
            ours.abs_diff(true_one) <= u64::from(first.error + second.error),
            "{ours} is {true_one}: {pair:?}"
        );
        assert!(second.after - first.before > 900_000_000, "{pair:?}");
    }
}

#[test]
fn with_one_hardware_queue_the_poller_records_no_events() {
    let run = || paced("bound_95us", 10_000, 0.5, 0, 1);
    let done = run().env("CUDA_DEVICE_MAX_CONNECTIONS", "1").observed().succeeded();
    assert_eq!((samples(&done).len(), recorded_by_the_poller(&done).len()), (0, 0));
    let done = run().env("CUDA_DEVICE_MAX_CONNECTIONS", "8").observed().succeeded();
    assert_ne!((samples(&done).len(), recorded_by_the_poller(&done).len()), (0, 0));
}
