//! Every call that moves bytes: by rows and slices, in batches, to peers and symbols, and managed memory that is
//! prefetched. Each is one operation of the right kind and size, and its interval contains the truth.

use crate::compare::{by_name, compare, intervals_contain_the_truth, known_calls, transfers};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, What};
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::{Namespace, flag};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Runs a program on a driver version that has all of these functions.
fn observed(program: &str) -> Done {
    Run::of(program).env("SIMCUDA_DRIVER_VERSION", "13050").observed().succeeded()
}

fn is_exact(done: &Done) {
    let (said, report) = (done.said(), done.report());
    assert_eq!(transfers(&report["transfers"]), transfers(&said["transfers"]));
    done.dropped_nothing(&report);
    let compared = compare(done);
    intervals_contain_the_truth(&compared);
    let timed = compared.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, compared.len(), 0.9), "{timed} of {} are timed", compared.len());
}

/// Returns, for the copies of each API, the rows and the flags besides those that any record may have.
fn shapes(done: &Done) -> BTreeMap<String, BTreeSet<(u32, u16)>> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let mut shapes: BTreeMap<String, BTreeSet<(u32, u16)>> = BTreeMap::new();
    for record in reader.records() {
        let Body::Work(work) = record.body else { continue };
        let (What::Memcpy { rows, .. } | What::Memset { rows, .. }) = work.what else { continue };
        let name = names.get(Namespace::Api, u32::from(work.call.api)).unwrap();
        let kind = work.call.flags & (flag::PREFETCH | flag::BATCH);
        shapes.entry(name.split('_').next().unwrap().to_owned()).or_default().insert((rows, kind));
    }
    shapes
}

#[test]
fn every_driver_call_that_moves_bytes_is_one_operation() {
    let done = observed("copy_calls");
    is_exact(&done);
    let calls = by_name(&done.report()["apis"], "name", "count");
    assert_eq!(json!(calls), done.said()["apis"]);

    let (plain, batch, prefetch) = (0, flag::BATCH, flag::PREFETCH);
    let expected = [
        ("cuMemcpy2D", 16, plain),
        ("cuMemcpy2DUnaligned", 16, plain),
        ("cuMemcpy2DAsync", 16, plain),
        ("cuMemcpy3D", 48, plain),
        ("cuMemcpy3DAsync", 48, plain),
        ("cuMemcpy3DPeer", 48, plain),
        ("cuMemcpy3DPeerAsync", 48, plain),
        ("cuMemcpyBatchAsync", 3, batch),
        ("cuMemcpy3DBatchAsync", 3, batch),
        ("cuMemcpyWithAttributesAsync", 1, plain),
        ("cuMemcpy3DWithAttributesAsync", 10, plain),
        ("cuMemsetD2D8", 16, plain),
        ("cuMemsetD2D16", 16, plain),
        ("cuMemsetD2D32", 16, plain),
        ("cuMemsetD2D8Async", 16, plain),
        ("cuMemsetD2D16Async", 16, plain),
        ("cuMemsetD2D32Async", 16, plain),
        ("cuMemPrefetchAsync", 1, prefetch),
        ("cuMemPrefetchBatchAsync", 2, prefetch | batch),
        ("cuMemDiscardAndPrefetchBatchAsync", 2, prefetch | batch),
    ];
    let expected: BTreeMap<String, BTreeSet<(u32, u16)>> = expected
        .iter()
        .map(|(api, rows, flags)| ((*api).to_owned(), BTreeSet::from([(*rows, *flags)])))
        .collect();
    assert_eq!(shapes(&done), expected);
}

#[test]
fn every_runtime_call_that_moves_bytes_is_counted_under_its_own_name() {
    let done = observed("copy_calls_runtime");
    is_exact(&done);
    let report = done.report();
    assert_eq!(report["coverage"]["launches"], 1);
    let mut calls = by_name(&report["apis"], "name", "count");
    // The runtime's own initialization.
    calls.retain(|name, _| name.starts_with("cuda"));
    assert_eq!(json!(calls), done.said()["apis"]);
}

#[test]
fn calls_whose_arguments_differ_between_cuda_12_and_13_are_counted_under_their_common_name() {
    for program in ["changed_signatures_12", "changed_signatures_13"] {
        let done = observed(program);
        is_exact(&done);
        let mut calls = by_name(&done.report()["apis"], "name", "count");
        // The runtime's own initialization.
        calls.retain(|name, _| name.starts_with("cuda"));
        assert_eq!(json!(calls), done.said()["apis"], "{program}");
        let batch = BTreeSet::from([(3, flag::BATCH)]);
        let shapes = shapes(&done);
        assert_eq!(shapes["cudaMemcpyBatchAsync"], batch, "{program}");
        assert_eq!(shapes["cudaMemcpy3DBatchAsync"], batch, "{program}");
        assert_eq!(shapes["cudaMemPrefetchAsync"], BTreeSet::from([(1, flag::PREFETCH)]), "{program}");
    }
}

#[test]
fn every_driver_call_that_copies_an_array_is_one_operation() {
    let done = observed("array_copies");
    is_exact(&done);
    let calls = by_name(&done.report()["apis"], "name", "count");
    let said = known_calls(&done.said());
    assert_eq!(said.keys().filter(|name| name.starts_with("cuMemcpy")).count(), 12);
    for (name, count) in said {
        assert_eq!(calls.get(&name), Some(&count), "{name}");
    }
    let shapes = shapes(&done);
    assert_eq!(shapes["cuMemcpyAtoA"], BTreeSet::from([(1, 0)]));
    assert_eq!(shapes["cuMemcpy2DAsync"], BTreeSet::from([(8, 0)]));
    assert_eq!(shapes["cuMemcpy3D"], BTreeSet::from([(48, 0), (8, 0)]));
}

#[test]
fn every_runtime_call_that_copies_an_array_is_counted_under_its_own_name() {
    let done = observed("array_copies_runtime");
    is_exact(&done);
    let mut calls = by_name(&done.report()["apis"], "name", "count");
    // The runtime's own initialization.
    calls.retain(|name, _| name.starts_with("cuda"));
    assert_eq!(json!(calls), done.said()["apis"]);
}

#[test]
fn a_managed_variable_is_copied_by_its_symbol() {
    let done = observed("managed_variables");
    is_exact(&done);
    assert_eq!(done.report()["coverage"]["launches"], 1);
}
