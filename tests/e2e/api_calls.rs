//! API calls that are rare or very frequent: cooperative and legacy launches, queries in a row, and calls before the
//! first launch.

use crate::compare::{by_name, compare, intervals_contain_the_truth};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::Namespace;
use serde_json::{Value, json};

fn of(list: &Value, name: &str) -> Value {
    let entry = list.as_array().unwrap().iter().find(|entry| entry["name"] == name);
    entry.unwrap_or_else(|| panic!("no {name} in {list}")).clone()
}

/// Counts the records of queries, the calls that they represent, and the records that name no context.
fn queries(done: &Done) -> (usize, u64, usize) {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let is_question = |api: u16| names.get(Namespace::Api, api.into()).is_some_and(|n| n.contains("Query"));
    let told = reader.records().filter_map(|record| match record.body {
        Body::Api(api) if is_question(api.call.api) => Some((u64::from(api.calls), api.call.context == 0)),
        _ => None,
    });
    told.fold((0, 0, 0), |(records, calls, unknown), (more, is_unknown)| {
        (records + 1, calls + more, unknown + usize::from(is_unknown))
    })
}

#[test]
fn queries_in_a_row_share_a_record_and_each_is_counted() {
    for (how, names) in
        [("driver", ["cuEventQuery", "cuStreamQuery"]), ("runtime", ["cudaEventQuery", "cudaStreamQuery"])]
    {
        let done = Run::of("query_spins").arg(how).observed().succeeded();
        let (said, report) = (done.said(), done.report());
        for name in names {
            let api = of(&report["apis"], name);
            assert_eq!(api["count"], said["apis"][name], "{name}");
            let (host, spun) = (api["host_ns"].as_u64().unwrap(), said["spun_ns"].as_u64().unwrap());
            // One query of the simulator takes at least half a microsecond.
            assert!(host >= 500 * 20_000 && host < spun, "{name}: {host} of {spun}");
        }
        // Ten spins of 4,000 queries; each spin is reported at least about every tenth of a second.
        let (records, calls, unknown) = queries(&done);
        assert!((10..=100).contains(&records), "{how}: {records} records of queries");
        assert!(calls >= 40_000, "{how}: {calls} queries");
        let failed = u64::from(how == "driver");
        assert_eq!(unknown as u64, failed, "{how}: only the query of an invalid event has no context");
        assert_eq!(
            of(&report["apis"], names[0])["failed"],
            failed,
            "a query that fails counts as a failed call"
        );
    }
}

/// What it initializes made a record of the call, and the query another one.
#[test]
fn a_query_that_initializes_the_runtime_is_counted_once() {
    let done = Run::of("query_first").observed().succeeded();
    let query = of(&done.report()["apis"], "cudaStreamQuery");
    assert_eq!((&query["count"], &query["failed"]), (&done.said()["apis"]["cudaStreamQuery"], &json!(0)));
}

#[test]
fn cooperative_and_legacy_launches_are_counted_and_timed_like_others() {
    let done = Run::of("cooperative_and_legacy_launches").env("SIMCUDA_DEVICES", "2").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in said["apis"].as_object().unwrap() {
        assert_eq!(calls.get(name), count.as_u64().as_ref(), "{name}");
    }
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    let timed = compared.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, compared.len(), 0.9), "{timed} of {} are timed", compared.len());
    // When one call makes several launches, each record follows its own end event's.
    for work in compared.iter().map(|c| &c.work).filter(|work| work.tail != u64::MAX) {
        assert!(work.tail <= work.call.end - work.submitted + 2, "{work:?}");
    }
}

#[test]
fn driver_calls_before_the_first_launch_are_reported() {
    let done = Run::of("setup_calls_driver").env("SIMCUDA_DEVICES", "2").observed().succeeded();
    assert_eq!(json!(by_name(&done.report()["apis"], "name", "count")), done.said()["apis"]);
}

#[test]
fn runtime_calls_before_the_first_launch_are_reported_under_their_own_names() {
    let done = Run::of("setup_calls_runtime").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    let mut calls = by_name(&report["apis"], "name", "count");
    calls.retain(|name, _| said["apis"].get(name).is_some());
    assert_eq!(json!(calls), said["apis"]);
    let all = by_name(&report["apis"], "name", "count");
    for inside in ["cuLibraryLoadData", "cuLibraryLoadFromFile", "cuLibraryUnload", "cuDevicePrimaryCtxReset"]
    {
        assert_eq!(all.get(inside), None, "only the app's call around it is recorded");
    }
}
