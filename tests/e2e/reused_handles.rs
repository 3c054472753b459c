//! Handles that are reused: the names of functions and the ids of streams are those of the current owner of the handle.

use crate::compare::{Compared, by_name, compare, intervals_contain_the_truth, pair};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, What, Work};
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::{Namespace, flag};
use serde_json::json;
use std::collections::BTreeMap;

fn work(done: &Done) -> Vec<Work> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let work = |body| if let Body::Work(work) = body { Some(work) } else { None };
    reader.records().filter_map(|r| work(r.body)).collect()
}

#[test]
fn functions_with_reused_handles_keep_their_own_names() {
    let done = Run::of("reused_functions").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    intervals_contain_the_truth(&compare(&done));

    // The names match launch by launch, too: the program has one thread.
    let names = TraceReader::open(&done.trace()).unwrap().names().clone();
    let work = work(&done);
    let name = |work: &Work| match work.what {
        What::Kernel { name, .. } => names.get(Namespace::Kernel, name).map(str::to_owned),
        _ => panic!("the program only launches kernels: {work:?}"),
    };
    let truth: Vec<_> = done.truth().operations().into_iter().map(|o| Some(o.name)).collect();
    assert_eq!(work.iter().map(name).collect::<Vec<_>>(), truth);

    let by_kernel = |work: &&Work| matches!(work.what, What::Kernel { function, .. } if said["kernel_handle"] == function);
    let flagged = |work: &&Work| work.call.flags & flag::KERNEL_HANDLE != 0;
    assert_eq!(said["by_kernel_handle"], work.iter().filter(by_kernel).count());
    assert!(
        work.iter().all(|w| by_kernel(&w) == flagged(&w)),
        "the launches of CUkernels, and no others, have the flag"
    );
}

#[test]
fn streams_with_reused_handles_have_their_own_ids() {
    // Both with the driver's stream ids and, where it offers none, with the agent's.
    for failing in ["", "cuStreamGetId:801:*"] {
        let done = Run::of("reused_streams").env("SIMCUDA_FAIL", failing).observed().succeeded();
        let (said, coverage) = (done.said(), done.report()["coverage"].clone());
        assert_eq!(coverage["launches"], said["launches"], "{failing}: {coverage}");
        assert_eq!((&coverage["dropped"], &coverage["unattributed"]), (&json!(0), &json!(0)), "{coverage}");
        let compared = if failing.is_empty() { compare(&done) } else { pair(&done) };
        intervals_contain_the_truth(&compared);
        let timed = compared.iter().filter(|c| c.timed().is_some()).count();
        println!("{failing}: {timed} of {} timed", compared.len());
        assert!(done.is_share(timed, compared.len(), 0.9), "{failing}: {coverage}");
        let both = |c: &Compared| (c.truth.stream, c.stream());
        let mut ids: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        compared.iter().for_each(|c| *ids.entry(both(c)).or_default() += 1);
        assert_eq!(ids.values().copied().collect::<Vec<_>>(), [10, 20, 30, 40], "{failing}: {ids:?}");
        let ours: Vec<u64> = ids.keys().map(|(_, ours)| *ours).collect();
        assert!(ours.windows(2).all(|pair| pair[0] < pair[1]), "{failing}: {ours:?}");
    }
}

#[test]
fn a_reused_event_handle_does_not_make_a_deep_stream_look_empty() {
    let report = Run::of("reused_event").observed().succeeded().report();
    let timed = by_name(&report["kernels"], "name", "timed");
    assert!(timed["deep_5us"] > 0, "{timed:?}");
    assert_eq!(
        timed["late_5us"], 0,
        "no launch is timed alone while the stream is as deep as before: {}",
        report["coverage"]
    );
}
