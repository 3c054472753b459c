//! Green contexts: parts of a device that work at the same time, reported under one context.

use crate::compare::{Compared, by_name, compare, intervals_contain_the_truth, known_calls, pair};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::SyncScope;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn run(settings: &[(&str, &str)]) -> Done {
    let run = Run::of("green_contexts");
    settings.iter().fold(run, |run, (name, value)| run.env(name, value)).observed().succeeded()
}

/// Checks that counts and names are the program's.
fn counted(done: &Done) -> Value {
    let (said, report) = (done.said(), done.report());
    let coverage = report["coverage"].clone();
    assert_eq!(coverage["launches"], said["launches"], "{coverage}");
    done.dropped_nothing(&report);
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in known_calls(&said).iter().filter(|(name, _)| *name != "cuLaunchKernel") {
        assert_eq!(calls.get(name), Some(count), "{name}");
    }
    coverage
}

/// Checks the same, that each launch has its stream, and that intervals contain the truth.
fn holds(done: &Done) -> Vec<Compared> {
    let coverage = counted(done);
    assert_eq!(coverage["unattributed"], 0, "{coverage}");
    let compared = compare(done);
    intervals_contain_the_truth(&compared);
    compared
}

/// Counts the contexts that the trace records.
fn contexts(done: &Done) -> usize {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let handles = reader.records().filter_map(|record| match record.body {
        Body::Context(context) => Some(context.handle),
        _ => None,
    });
    handles.collect::<BTreeSet<_>>().len()
}

fn failures(done: &Done) -> Vec<String> {
    done.truth().of("failed").map(ToString::to_string).collect()
}

#[test]
fn two_green_contexts_are_counted_and_timed_as_streams_of_one_context() {
    for version in ["12090", "13000"] {
        let done = run(&[("SIMCUDA_DRIVER_VERSION", version)]);
        let compared = holds(&done);
        // The program makes no invalid call; neither may the agent.
        assert_eq!(failures(&done), Vec::<String>::new());
        let timed = compared.iter().filter(|c| c.timed().is_some()).count();
        println!("{version}: {timed} of {} timed, {}", compared.len(), done.report()["coverage"]["untimed"]);
        assert!(done.is_share(timed, compared.len(), 0.95), "{timed} of {}", compared.len());
        let of_work: BTreeSet<u32> = compared.iter().map(|c| c.work.call.context).collect();
        assert_eq!((of_work.len(), contexts(&done)), (1, 1), "{of_work:?}");
        // They did run at the same time.
        let left: Vec<_> = compared.iter().filter(|c| c.truth.name == "left_40us").collect();
        let overlaps = compared.iter().filter(|c| c.truth.name == "right_60us").filter(|right| {
            let (begin, end) = right.truth.interval;
            left.iter().any(|left| left.truth.interval.0 < end && begin < left.truth.interval.1)
        });
        assert!(overlaps.count() > 100);
    }
}

/// A wait for one half counted as one for the whole device: the GPU was said to be busy for 108 ms at most, of 200, and its clock to be
/// known to 10 ms.
#[test]
fn a_wait_for_a_green_context_says_nothing_of_another_one() {
    let done = Run::of("green_waits").observed().succeeded();
    intervals_contain_the_truth(&compare(&done));
    let report = done.report();
    let long = done.truth().operations().into_iter().filter(|kernel| kernel.name == "long_20ms");
    let busy: u64 = long.map(|kernel| kernel.interval.1 - kernel.interval.0).sum();
    let device = &report["devices"][0];
    assert!(device["compute_ns"]["hi"].as_u64().unwrap() >= busy, "busy for {busy} at least, said {device}");
    let uncertainty = report["clock"]["uncertainty_ns"].as_u64().unwrap();
    assert!(uncertainty < 5_000_000, "{}", report["clock"]);
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let waits = reader.records().filter(
        |record| matches!(&record.body, Body::Synchronize(sync) if sync.scope == SyncScope::GreenContext),
    );
    assert_eq!(waits.count(), 10);
}

#[test]
fn launches_are_counted_exactly_if_the_driver_does_not_say_whose_a_green_context_is() {
    let done = run(&[("SIMCUDA_FAIL", "cuStreamGetCtx:801:*")]);
    let coverage = counted(&done);
    // Only what is launched inside them is affected. From outside, their streams count as the current context's.
    assert_eq!(coverage["untimed"]["no_stream"], coverage["unattributed"]);
    assert!(coverage["unattributed"].as_u64() > Some(0), "{coverage}");
    intervals_contain_the_truth(&pair(&done));
}

#[test]
fn launches_are_counted_exactly_if_green_contexts_refuse_the_primary_contexts_events() {
    let done = run(&[("SIMCUDA_ASSUME", "green_events=own")]);
    holds(&done);
    println!("{}", done.report()["coverage"]["untimed"]);
    // Each failed call is an event record of the agent's that the driver refused.
    let refused = done
        .truth()
        .of("failed")
        .map(|line| line["api"].as_str().unwrap().to_owned())
        .collect::<BTreeSet<_>>();
    assert_eq!(refused, BTreeSet::from(["cuEventRecord".to_owned()]));
}

/// An event went onto the primary context's default stream, which has the same handle, and the launches seemed to last shorter than they did.
#[test]
fn the_default_stream_of_a_green_context_is_not_taken_for_that_of_its_primary_context() {
    let done = Run::of("green_default_stream").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    intervals_contain_the_truth(&compare(&done));
}
