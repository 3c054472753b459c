//! Compares implicit waits for the GPU, and the time until the first kernel runs, with the simulator's truth.

use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run, until_one_is_good};
use gpuspy_wire::record::{Namespace, flag};
use serde_json::Value;
use std::collections::BTreeMap;

/// An outermost API call of the trace.
struct Called {
    tid: u64,
    api: String,
    begin: u64,
    end: u64,
}

fn calls(done: &Done) -> Vec<Called> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let (names, status) = (reader.names().clone(), reader.status().unwrap().clone());
    let called = |thread: u32, body: &Body| {
        let call = body.call().filter(|call| call.api != 0 && call.flags & flag::MORE == 0)?;
        let api = names.get(Namespace::Api, call.api.into())?.split('_').next()?.to_owned();
        let tid = status.threads[&thread].into();
        (!matches!(body, Body::Free(_))).then_some(Called { tid, api, begin: call.begin, end: call.end })
    };
    reader.records().filter_map(|record| called(record.thread, &record.body)).collect()
}

/// How long calls of one API waited, ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waited {
    pub count: u64,
    /// Calls for which the work was unfinished when the app made them. A thread that loses its processor before it
    /// reaches the simulator may not have to wait there any more.
    pub at_most: u64,
    /// Counted from the entry into the simulator, without the time before that in hooks and runtime.
    pub least: u64,
    /// Counted from when the app made the call.
    pub most: u64,
}

/// Returns the calls that waited, by the outermost API.
pub fn truth(done: &Done) -> BTreeMap<String, Waited> {
    let calls = calls(done);
    let mut waited: BTreeMap<String, Waited> = BTreeMap::new();
    for line in done.truth().of("waited") {
        let number = |key: &str| line[key].as_u64().unwrap();
        let (tid, begin, until) = (number("tid"), number("begin"), number("until"));
        // Compares two clocks: the collector's ns, converted from ticks, and the simulator's own.
        let off = |call: &&Called| call.begin.saturating_sub(begin).max(begin.saturating_sub(call.end));
        let call =
            calls.iter().filter(|call| call.tid == tid).min_by_key(off).filter(|call| off(call) < 20_000);
        assert!(call.is_some() || until <= begin, "no call contains {line}");
        let Some(call) = call else { continue };
        let sum = waited.entry(call.api.clone()).or_default();
        sum.count += u64::from(until > begin);
        sum.at_most += u64::from(until > call.begin);
        sum.least += until.saturating_sub(begin);
        sum.most += until.saturating_sub(call.begin);
    }
    waited.retain(|_, waited| waited.at_most > 0);
    waited
}

/// Returns what is wrong with a row's interval.
pub fn misses(row: &Value, truth: Waited) -> Option<String> {
    let waited = |key: &str| row["waited"][key].as_u64().unwrap();
    let Waited { least, most, .. } = truth;
    // Allows for whole ns, and for a GPU clock that is not the host's.
    let slack = 2 * row["count"].as_u64().unwrap() + most / 20_000;
    // What undecided calls waited is in the truth, and not in the row's interval.
    let undecided = row["undecided"]["host_ns"].as_u64().unwrap();
    let holds = waited("lo") <= most + slack && least <= waited("hi") + undecided + slack;
    let is_in_call = waited("hi") <= row["host_ns"].as_u64().unwrap() && waited("lo") <= waited("value");
    (!holds || !is_in_call).then(|| format!("{row}, in truth {least} to {most}"))
}

#[test]
fn implicit_waits_are_counted_and_timed() {
    let done = Run::of("implicit_waits").observed().succeeded();
    let (said, report, truth) = (done.said(), done.report(), truth(&done));
    let mut expected = said["waits"].as_object().unwrap().clone();
    for row in report["implicit_syncs"].as_array().unwrap() {
        let api = row["api"].as_str().unwrap();
        let waits = expected.remove(api).unwrap_or(Value::from(0));
        // The agent drains its poller before a context ends, so the driver has nothing left to wait for.
        if row["cause"] == "context_end" {
            assert_eq!(row["count"], waits, "{row}");
            continue;
        }
        let truth = truth.get(api).copied().unwrap_or_default();
        let [found, undecided] =
            [&row["count"], &row["undecided"]["count"]].map(|count| count.as_u64().unwrap());
        assert!(found <= truth.at_most && truth.count <= found + undecided, "{row}, in truth {truth:?}");
        // Fewer than the program says, where it waited for a processor before the call until its kernel was over.
        assert!(found <= waits.as_u64().unwrap(), "{row}, not {waits}");
        assert_eq!(misses(row, truth), None);
        let [lo, hi] = ["lo", "hi"].map(|bound| row["waited"][bound].as_u64().unwrap());
        // A load may compile first.
        let is_narrow = if row["cause"] == "load" { lo == 0 } else { hi - lo < hi / 5 };
        assert!(found == 0 || is_narrow, "{row}");
    }
    assert!(expected.is_empty(), "not in the report: {expected:?}");
    let causes: Vec<&str> =
        report["implicit_syncs"].as_array().unwrap().iter().filter_map(|row| row["cause"].as_str()).collect();
    for cause in ["free", "host_free", "pageable_copy", "blocking_copy", "load", "unload", "context_end"] {
        assert!(causes.contains(&cause), "{causes:?}");
    }
}

#[test]
fn calls_that_do_not_wait_on_this_driver_are_not_reported() {
    let assume = "free=returns,load_waits=no,pageable_async=asynchronous";
    until_one_is_good(|| {
        let done = Run::of("implicit_waits").env("SIMCUDA_ASSUME", assume).observed().succeeded();
        let (report, truth) = (done.report(), truth(&done));
        assert!(!truth.contains_key("cuMemFree") && truth.contains_key("cuMemFreeHost"), "{truth:?}");
        let returns = ["cuMemFree", "cudaFree", "cuModuleLoadData", "cuMemcpyHtoDAsync"];
        let rows = report["implicit_syncs"].as_array().unwrap();
        let is_wrong = |row: &&Value| row["count"] != 0 && returns.iter().any(|api| row["api"] == *api);
        // A call in which the program waits for a processor until its kernel is over looks as if it had waited for that.
        rows.iter().find(is_wrong).map_or(Ok(()), |row| Err(row.to_string()))
    });
}

#[test]
fn without_gpu_times_no_call_is_reported_to_have_waited() {
    let done = Run::of("implicit_waits").env("GPUSPY_TIMING", "off").observed().succeeded();
    let report = done.report();
    let rows = report["implicit_syncs"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["count"] == 0), "{rows:?}");
    let free = rows.iter().find(|row| row["api"] == "cuMemFree").unwrap();
    assert_eq!(free["undecided"]["count"], done.said()["waits"]["cuMemFree"]);
}

/// Such a program was said to be bound by the host outside CUDA.
#[test]
fn a_gpu_that_idles_after_loads_of_code_that_wait_for_it_has_them_as_its_verdict() {
    until_one_is_good(|| {
        let report = Run::of("load_per_step").observed().succeeded().report();
        let verdict = &report["verdict"];
        let text = verdict["text"][0].as_str().unwrap();
        let is_it = verdict["bound"] == "syncs" && text.contains("the GPU idles after cuModuleLoadData");
        is_it.then_some(()).ok_or_else(|| format!("{verdict}"))
    });
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn the_parts_of_startup_are_reported() {
    const COST: &str = "context=30000000,load=12000000,module=20000000";
    let done = Run::of("implicit_waits").env("SIMCUDA_HOST_COST", COST).observed().succeeded();
    let (report, operations) = (done.report(), done.truth().operations());
    let startup = &report["startup"];
    let first = calls(&done).iter().map(|call| call.begin).min().unwrap();
    let kernel = operations.iter().find(|operation| operation.kind == "kernel").unwrap();
    let (whole, truth) = (&startup["first_kernel_ns"], kernel.interval.0 - first);
    let slack = 2 + truth / 20_000;
    assert!(
        number(whole, "lo") <= truth + slack && truth <= number(whole, "hi") + slack,
        "{truth}: {startup}"
    );
    let parts = &startup["until_first_kernel_ns"];
    assert_eq!(crate::report_tables::sum(parts), number(whole, "value"));
    for (part, least) in [("context", 30_000_000), ("load", 12_000_000), ("launch", 20_000_000)] {
        assert!(number(parts, part) >= least, "{part}: {startup}");
    }
    assert_eq!([&startup["processes"], &startup["untimed"], &startup["steady"]], [1, 0, 0]);
    // One module for the kernel, and one for each round.
    let [loads] = startup["loads"].as_array().unwrap().as_slice() else { panic!("{startup}") };
    assert_eq!(loads["count"], 4);
    assert!(loads["library"].as_str().unwrap().ends_with("/implicit_waits"), "{loads}");
    assert!(number(loads, "host_ns") >= 4 * 12_000_000, "{loads}");
    let launches = &startup["first_launches"];
    assert_eq!([&launches["count"], &launches["compared"]], [1, 1]);
    assert!((15_000_000..number(launches, "host_ns")).contains(&number(launches, "excess_ns")), "{launches}");
}

#[test]
fn a_process_that_only_repeats_launches_is_reported_steady() {
    let done = Run::of("steady").observed().succeeded();
    let startup = &done.report()["startup"];
    assert_eq!(startup["steady"], 1, "{startup}");
    assert_eq!(crate::report_tables::sum(&startup["until_steady_ns"]), number(startup, "warm_up_ns"));
    // The module's first launch, 5 ms on this driver, is over when the first kernel runs.
    assert!(number(&startup["until_first_kernel_ns"], "launch") >= 5_000_000, "{startup}");
}
