mod functions;
mod operators;
mod steps;

use super::*;
use crate::export::timeline::given::*;
use crate::export::timeline::{Export, Source, lay_out};
use crate::model::filter::Filter;
use crate::model::run;
use crate::trace::record::{
    Alloc, Api, Body, Call, Device, Free, KernelFacts, Names, Record, Status, Synchronize, What,
};
use gpuspy_wire::record::{Fact, Memory, Namespace, NvtxChange, SyncScope, Untimed, flag};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn bytes(processes: &[Given]) -> Vec<u8> {
    filtered(processes, &Filter::default())
}

fn filtered(processes: &[Given], filter: &Filter) -> Vec<u8> {
    written(processes, filter, Chrome::new(Vec::new())).0
}

fn exported(processes: &[Given]) -> Value {
    from_the_first_call(&bytes(processes))
}

/// An export whose times count from its first call, like those of its records.
fn from_the_first_call(bytes: &[u8]) -> Value {
    let mut trace: Value = serde_json::from_slice(bytes).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let is_host = |event: &&mut Value| event["ph"] != "M" && event["ts"].is_number();
    let first = events.iter_mut().filter(is_host).map(|event| ns(&event["ts"])).min().unwrap_or(0);
    for event in events.iter_mut().filter(is_host) {
        event["ts"] = json!((ns(&event["ts"]) - first) as f64 / 1000.0);
    }
    trace
}

fn events(trace: &Value) -> &[Value] {
    trace["traceEvents"].as_array().unwrap()
}

fn of_category<'t>(trace: &'t Value, category: &str) -> Vec<&'t Value> {
    events(trace).iter().filter(|event| event["cat"] == category).collect()
}

fn ns(value: &Value) -> i64 {
    (value.as_f64().unwrap() * 1000.0).round() as i64
}

fn span(event: &Value) -> (i64, i64) {
    (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"]))
}

#[test]
fn every_operation_and_every_call_is_an_event_where_the_model_places_it() {
    let given = generated(3, 3, 20_000);
    let trace = exported(std::slice::from_ref(&given));
    let calls: Vec<&Call> = given.2.iter().filter_map(|record| record.body.call()).collect();
    let zero = calls.iter().map(|call| call.begin).min().unwrap() as i64;

    let mut theirs: BTreeMap<u64, Vec<(i64, i64)>> = BTreeMap::new();
    for (stream, start, end) in placed(&given) {
        theirs.entry(stream).or_default().push((start - zero, end - zero));
    }
    let mut ours: BTreeMap<u64, Vec<(i64, i64)>> = BTreeMap::new();
    let is_work = |event: &&Value| event["args"]["stream"] != Value::Null && event["cat"] != "cuda_sync";
    for row in events(&trace).iter().filter(is_work) {
        ours.entry(row["tid"].as_u64().unwrap()).or_default().push(span(row));
    }
    // The generator's streams are 7 and up; none is a default stream.
    assert_eq!(theirs.keys().copied().collect::<Vec<_>>(), [7, 8, 9]);
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.into_values().collect(), theirs.into_values().collect());
    let sorted = |mut streams: Vec<Vec<(i64, i64)>>| {
        streams.iter_mut().for_each(|stream| stream.sort_unstable());
        streams.sort();
        streams
    };
    assert_eq!(sorted(ours), sorted(theirs));

    let rows = of_category(&trace, "cuda_runtime");
    // A free has two records; its call is counted by the second.
    let counted = given.2.iter().filter(|r| r.body.call().is_some() && !matches!(r.body, Body::Free(_)));
    let mut expected: Vec<(i64, i64)> = counted
        .filter_map(|record| record.body.call())
        .map(|call| (call.begin as i64 - zero, call.end as i64 - zero))
        .collect();
    let mut spans: Vec<(i64, i64)> = rows.iter().map(|row| span(row)).collect();
    expected.sort_unstable();
    spans.sort_unstable();
    assert_eq!(spans, expected);
    assert_eq!(trace["gpuspy"]["calls"], spans.len());
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let given = [generated(5, 2, 3_000), generated(6, 1, 3_000)];
    assert_eq!(bytes(&given), bytes(&given));
}

#[test]
fn nothing_overlaps_and_every_arrow_has_both_ends() {
    let trace = exported(&[generated(3, 3, 20_000)]);
    let mut rows: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
    for event in events(&trace).iter().filter(|event| event["ph"] == "X" && event["cat"] != "cuda_sync") {
        let row = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        rows.entry(row).or_default().push(span(event));
    }
    assert_eq!(rows.len(), 3 + 3 + 1, "threads, streams, and the steps that are found");
    for row in rows.values_mut() {
        row.sort_unstable();
        assert!(row.windows(2).all(|w| w[0].1 <= w[1].0));
    }
    let ends = |phase: &str| -> BTreeMap<u64, (u64, u64, i64)> {
        let ends = events(&trace).iter().filter(|event| event["ph"] == phase);
        let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
        ends.map(|e| (number(e, "id"), (number(e, "pid"), number(e, "tid"), ns(&e["ts"])))).collect()
    };
    let (begins, ends) = (ends("s"), ends("f"));
    assert!(begins.len() > 10_000);
    assert_eq!(begins.keys().collect::<Vec<_>>(), ends.keys().collect::<Vec<_>>());
    let begin_of: BTreeSet<(u64, u64, i64)> = rows
        .iter()
        .flat_map(|((pid, tid), spans)| spans.iter().map(|(begin, _)| (*pid, *tid, *begin)))
        .collect();
    assert!(
        begins.values().chain(ends.values()).all(|end| begin_of.contains(end)),
        "each at an event's start"
    );
}

#[test]
fn metadata_comes_first_and_no_call_has_a_stream() {
    let records = vec![context(1, 0), record(1, Body::Work(launch(10_000, 5_000, 9_000)))];
    let trace = exported(&[(Some(status(77)), names(), records)]);
    let phases: Vec<&str> = events(&trace).iter().map(|event| event["ph"].as_str().unwrap()).collect();
    let metadata = phases.iter().take_while(|phase| **phase == "M").count();
    assert!(metadata >= 8 && phases[metadata..] == ["X", "s", "X", "f"], "{phases:?}");
    assert_eq!(events(&trace)[0]["args"]["name"], "a \"quoted\" name");
    let call = of_category(&trace, "cuda_driver")[0];
    assert_eq!(
        (&call["name"], &call["args"]),
        (&json!("cuLaunchKernel"), &json!({"cbid": 0, "correlation": 1}))
    );
    assert_eq!((&call["pid"], &call["tid"]), (&json!(77), &json!(77)));
    let kernel = of_category(&trace, "kernel")[0];
    assert_eq!(kernel["name"], "vecadd(float const*, float const*, float*, int)");
    for (key, value) in [
        ("device", json!(0)),
        ("stream", json!(9)),
        ("correlation", json!(1)),
        ("grid", json!([264, 1, 1])),
        ("block", json!([33, 1, 1])),
        ("shared memory", json!(48)),
    ] {
        assert_eq!(kernel["args"][key], value, "{key}");
    }
}

/// Each of two ranks' files once had its own first call at 0; so the second rank, which was 1.5 ms earlier, seemed
/// 287 ms late.
#[test]
fn all_files_of_a_run_have_one_base_rounded_as_in_kineto() {
    // 2026-11-22 09:51:00 UTC.
    let now = 1_795_341_060_000_000_000;
    let rank = |began: u64, first_call: u64| {
        // Each process reads its clocks by itself, and the real time may have been set meanwhile.
        let status = Status { began, began_realtime: now + began + began % 7, boot: Some(3), ..status(77) };
        (Some(status), names(), vec![context(1, 0), record(1, Body::Work(launch(first_call, 5_000, 9_000)))])
    };
    let run = [rank(1_000, 300_000_000), rank(286_000_000, 298_500_000)];
    let mut sources: Vec<Source> = run.iter().map(source).collect();
    lay_out(&mut sources.iter_mut().collect::<Vec<_>>(), &Filter::default());
    let files: Vec<(Value, i64)> = sources
        .iter()
        .zip(&run)
        .map(|(source, (_, _, records))| {
            let mut export = Export::begin(Chrome::new(Vec::new()), std::slice::from_ref(source)).unwrap();
            export.process(0, source, records.iter().cloned()).unwrap();
            let trace: Value = serde_json::from_slice(&export.finish().unwrap().0).unwrap();
            (trace["baseTimeNanoseconds"].clone(), ns(&of_category(&trace, "cuda_driver")[0]["ts"]))
        })
        .collect();
    let base = 227 * 7_889_238 * 1_000_000_000_i64;
    assert_eq!((&files[0].0, &files[1].0), (&json!(base), &json!(base)));
    assert_eq!(files[0].1 - files[1].1, 1_500_000);
    // Exported separately, the files differ by no more than the clocks that each process read.
    let apart = |given: &Given| {
        let trace: Value = serde_json::from_slice(&bytes(std::slice::from_ref(given))).unwrap();
        ns(&of_category(&trace, "cuda_driver")[0]["ts"])
    };
    assert!((apart(&run[0]) - apart(&run[1]) - 1_500_000).abs() < 10);
}

#[test]
fn a_kernels_attributes_are_exported_as_in_kineto() {
    let device = Device {
        ordinal: 0,
        uuid: [0; 16],
        memory_bytes: 0,
        multiprocessors: 132,
        capability: 90,
        warps_per_multiprocessor: 64,
    };
    let said = |held| KernelFacts {
        kernel: 1,
        context: 1,
        threads: 33,
        shared_bytes: 48,
        static_shared_bytes: 1000,
        registers: 40,
        blocks_per_multiprocessor: held,
        ..KernelFacts::default()
    };
    // 264 blocks are two per multiprocessor, of 33 threads each: 3.2 % of 2048. With one of them at a time, it is 1.6
    // %. All that fit would be 32 blocks of two warps, for 64 warps; one block is 3.1 %.
    for (held, theoretical, percent) in
        [(32, json!(100), json!(3)), (1, json!(3), json!(2)), (0, Value::Null, Value::Null)]
    {
        let records = vec![
            record(1, Body::Device(device.clone())),
            context(1, 0),
            record(1, Body::Work(launch(10_000, 5_000, 9_000))),
            record(1, Body::KernelFacts(said(held))),
        ];
        let trace = exported(&[(Some(status(77)), names(), records)]);
        let kernel = of_category(&trace, "kernel")[0];
        let args = &kernel["args"];
        assert_eq!((&args["registers per thread"], &args["shared memory"]), (&json!(40), &json!(1048)));
        assert_eq!((&args["blocks per SM"], &args["warps per SM"]), (&json!(2.0), &json!(4.0)));
        assert_eq!(args["theoretical occupancy %"], theoretical);
        assert_eq!(args["est. achieved occupancy %"], percent);
    }
}

#[test]
fn an_operation_without_a_time_is_a_call_and_nothing_on_the_gpu() {
    let without = |begin, untimed| {
        let mut work = launch(begin, 0, 0);
        (work.gpu, work.untimed) = (None, untimed);
        record(1, Body::Work(work))
    };
    let records = vec![
        without(10_000, Untimed::DeepQueue),
        without(20_000, Untimed::Captured),
        without(30_000, Untimed::Timed),
        record(1, Body::Work(launch(40_000, 5_000, 9_000))),
    ];
    let trace = exported(&[(None, names(), records)]);
    assert_eq!(of_category(&trace, "cuda_driver").len(), 4);
    assert_eq!(of_category(&trace, "kernel").len(), 1);
    assert_eq!(of_category(&trace, "ac2g").len(), 2);
    let reported = &trace["gpuspy"];
    assert_eq!(reported["untimed"], json!({"deep_queue": 1, "gpu_time_pending": 1}));
    assert_eq!((&reported["captured"], &reported["operations"]), (&json!(1), &json!(1)));
}

#[test]
fn queries_in_a_row_are_one_slice_and_each_counts() {
    let call = Call { api: WAIT, begin: 10_000, end: 90_000, ..Call::default() };
    let requested =
        |calls, inside| record(1, Body::Api(Api { call, result: 0, subject: 9, calls, inside, entered: 0 }));
    let names = names();
    let trace = exported(&[(None, names.clone(), vec![requested(100, 7_000)])]);
    let [row] = of_category(&trace, "cuda_runtime")[..] else { panic!("{trace}") };
    assert_eq!(row["name"], "cudaStreamSynchronize (100 in a row)");
    assert_eq!((&row["args"]["calls"], &row["args"]["ns inside"]), (&json!(100), &json!(7_000)));
    assert_eq!(trace["gpuspy"]["calls"], 100);
    let single = exported(&[(None, names, vec![requested(1, 0)])]);
    let [row] = of_category(&single, "cuda_runtime")[..] else { panic!("{single}") };
    assert_eq!((&row["name"], &row["args"]["calls"]), (&json!("cudaStreamSynchronize"), &Value::Null));
}

#[test]
fn a_call_has_its_line_and_its_stack() {
    let mut names = names();
    names.0.extend([
        ((Namespace::Frame, 1), "item\n/x/lib/python3.11/site-packages/torch/a.py\n5".to_owned()),
        ((Namespace::Frame, 2), "step\ntrain \"1\".py\n10".to_owned()),
        ((Namespace::Stack, 3), "1 2".to_owned()),
    ]);
    let waits = |stack| {
        let call = Call { api: WAIT, begin: 10_000, end: 90_000, stack, ..Call::default() };
        record(1, Body::Api(Api { call, result: 0, subject: 9, calls: 1, inside: 0, entered: 0 }))
    };
    let trace = exported(&[(None, names, vec![waits(3), waits(0)])]);
    let [with, without] = of_category(&trace, "cuda_runtime")[..] else { panic!("{trace}") };
    assert_eq!(with["args"]["line"], "train \"1\".py:10");
    assert_eq!(with["args"]["stack"][1], "step (train \"1\".py:10)");
    assert_eq!((&without["args"]["line"], &without["args"]["stack"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_export_of_annotations_or_of_memory_alone_is_not_empty() {
    let summary = |records: Vec<Record>, filter: &Filter| {
        let mut source = [Source::of(names(), Some(status(7)), |observe| records.iter().for_each(observe))];
        lay_out(&mut [&mut source[0]], filter);
        let mut export = Export::begin(Chrome::new(Vec::new()), &source).unwrap();
        export.process(0, &source[0], records.into_iter()).unwrap();
        export.finish().unwrap().1
    };
    let everything = Filter::default();
    assert!(summary(vec![context(1, 0)], &everything).is_empty());
    let ranges = vec![range(1, 2_000, NvtxChange::Push, 0, 0, 1), range(1, 9_000, NvtxChange::Pop, 0, 0, 0)];
    assert_eq!(summary(ranges, &everything).annotations, 1);
    let mark = summary(vec![range(1, 2_000, NvtxChange::Mark, 0, 0, 1)], &everything);
    assert!(mark.annotations == 1 && !mark.is_empty());
    let call = Call { api: WAIT, begin: 2_000, end: 3_000, context: 1, ..Call::default() };
    let (memory, address, bytes, stream, pool) = (Memory::Device, 64, 8, 0, 0);
    let alloc = record(1, Body::Alloc(Alloc { call, memory, address, bytes, stream, pool }));
    // Its call is over when the selected time begins, and its memory counts from then.
    let memory = summary(vec![alloc], &Filter { since: Some(2_000), ..everything });
    assert_eq!((memory.calls, memory.memory_events), (0, 1));
}

#[test]
fn operations_whose_estimates_overlap_are_laid_end_to_end() {
    // The second one's call returned first; on the GPU it came later, and by its events began 100 ns before the first
    // one's end.
    let first = launch(10_000, 5_000, 30_000);
    let mut second = launch(12_000, 32_900, 20_000);
    second.call.end = first.call.end - 1;
    let records = vec![record(2, Body::Work(second)), record(1, Body::Work(first))];
    let given = (Some(status(5)), names(), records);
    let (_, raw_start, raw_end) = placed(&given)[0];
    let (_, _, end) = placed(&given)[1];
    assert!(raw_start < end && end < raw_end, "they do overlap: {raw_start} {end} {raw_end}");
    let trace = exported(&[given]);
    let spans: Vec<(i64, i64)> = of_category(&trace, "kernel").into_iter().map(span).collect();
    let [earlier, later] = spans[..] else { panic!("{spans:?}") };
    assert_eq!((earlier.1, later), (end - 10_000, (end - 9_999, raw_end - 10_000)));
}

#[test]
fn records_of_one_call_share_a_number_and_one_arrow() {
    let mut first = launch(10_000, 5_000, 9_000);
    first.call.flags |= flag::MORE;
    let mut second = launch(10_000, 20_000, 9_000);
    (second.call.end, second.call.begin) = (first.call.end + 500, first.call.begin);
    let mut burst = launch(10_000, 40_000, 9_000);
    (burst.call.api, burst.call.flags, burst.what) =
        (0, flag::MORE, What::Burst { launches: 3, ordinary: 0, closing: 0 });
    let next = launch(90_000, 5_000, 9_000);
    let records = [first, second, burst, next].map(|work| record(1, Body::Work(work))).to_vec();
    let trace = exported(&[(Some(status(5)), names(), records)]);
    let numbers = |category| -> Vec<u64> {
        let events = of_category(&trace, category).into_iter();
        events.map(|event| event["args"]["correlation"].as_u64().unwrap()).collect()
    };
    assert_eq!((numbers("cuda_driver"), numbers("kernel")), (vec![1, 3], vec![1, 1, 2, 3]));
    let arrows: Vec<&Value> = of_category(&trace, "ac2g").into_iter().map(|event| &event["id"]).collect();
    assert_eq!(arrows, [1, 3, 1, 3]);
}

#[test]
fn several_processes_devices_and_contexts_keep_apart() {
    let on = |context: u32, stream: u64, flags: u16, begin: u64| {
        let mut work = launch(begin, 5_000, 9_000);
        (work.call.context, work.stream) = (context, stream);
        work.call.flags |= flags;
        record(1, Body::Work(work))
    };
    let legacy = flag::LEGACY_STREAM;
    let records = vec![
        context(1, 0),
        context(2, 1),
        on(1, 7, 0, 10_000),
        on(1, 0, legacy, 30_000),
        on(2, 0, legacy, 50_000),
        on(1, 1 << 40, 0, 70_000),
        on(1, 20, 0, 90_000),
        on(3, 20, 0, 110_000),
    ];
    let process = |pid| (Some(status(pid)), names(), records.clone());
    // A program in a container can have pid 1.
    let trace = exported(&[process(1), process(300)]);
    let rows: Vec<(u64, u64)> = of_category(&trace, "kernel")
        .into_iter()
        .map(|row| (row["pid"].as_u64().unwrap(), row["args"]["stream"].as_u64().unwrap()))
        .collect();
    let (first, second) = rows.split_at(6);
    assert_eq!(first, [(0, 8), (0, 7), (2, 9), (0, 10), (0, 20), (3, 11)]);
    let streams: BTreeSet<u64> = rows.iter().map(|(_, stream)| *stream).collect();
    assert_eq!(streams.len(), 12, "{rows:?}");
    let gpus: BTreeSet<u64> = second.iter().map(|(gpu, _)| *gpu).collect();
    assert!(gpus.is_disjoint(&BTreeSet::from([0, 1, 2, 3, 300])) && gpus.len() == 3, "{rows:?}");
    let calls = of_category(&trace, "cuda_driver");
    let numbers: BTreeSet<u64> = calls.iter().map(|c| c["args"]["correlation"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), 12);
}

/// A default stream was once 7 in the export but had the driver's number in `--operations` and for `--stream`.
#[test]
fn a_stream_has_one_number_in_exports_operations_and_filters() {
    let on = |context: u32, stream: u64, flags: u16, begin: u64| {
        let mut work = launch(begin, 5_000, 9_000);
        (work.call.context, work.stream) = (context, stream);
        work.call.flags |= flags;
        record(1, Body::Work(work))
    };
    let records = vec![
        context(1, 0),
        context(2, 1),
        on(1, 14, 0, 10_000),
        on(1, 1, flag::LEGACY_STREAM, 30_000),
        on(2, 7, 0, 50_000),
        on(1, 1 << 40, 0, 70_000),
    ];
    let (names, status) = (names(), status(5));
    let source = Source::of(names.clone(), Some(status.clone()), |observe| records.iter().for_each(observe));
    let given = (Some(status), names, records);
    let listed = |requested: &Filter| -> Vec<u64> {
        let filter = &run::filters(&[source.surveyed()], requested)[0];
        let (names, status, clocks, _) = source.contents();
        let mut operations = crate::report::Operations::new(names, clocks, status, filter);
        let lines = given.2.iter().filter_map(|record| operations.observe(record));
        lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()["stream"].as_u64().unwrap()).collect()
    };
    let drawn = |requested: &Filter| -> Vec<u64> {
        let trace: Value =
            serde_json::from_slice(&filtered(std::slice::from_ref(&given), requested)).unwrap();
        let rows = of_category(&trace, "kernel").into_iter();
        rows.map(|row| row["args"]["stream"].as_u64().unwrap()).collect()
    };
    let all = listed(&Filter::default());
    assert_eq!(all, [14, 7, 8, 9]);
    assert_eq!(drawn(&Filter::default()), all);
    for stream in all {
        let one = Filter { streams: vec![stream], ..Filter::default() };
        assert_eq!((listed(&one), drawn(&one)), (vec![stream], vec![stream]));
    }
}

#[test]
fn a_synchronization_is_inside_its_call_and_is_not_gpu_work() {
    let call = Call { api: WAIT, begin: 10_000, end: 60_000, context: 1, ..Call::default() };
    let sync = Synchronize { call, scope: SyncScope::Stream, stream: 9, event: 0 };
    let trace = exported(&[(Some(status(5)), names(), vec![record(1, Body::Synchronize(sync))])]);
    let (call, sync) = (of_category(&trace, "cuda_runtime")[0], of_category(&trace, "cuda_sync")[0]);
    assert_eq!(span(call), span(sync));
    assert_eq!((&call["tid"], &sync["name"]), (&sync["tid"], &json!("Stream Sync")));
    let number = &call["args"]["correlation"];
    let args = json!({"cuda_sync_kind": "Stream Sync", "stream": 9, "correlation": number, "device": -1, "context": 1});
    assert_eq!(sync["args"], args, "the context's device is unknown");
    let call = Call { api: WAIT, begin: 10_000, end: 60_000, context: 1, ..Call::default() };
    let all = Synchronize { call, scope: SyncScope::Context, stream: 0, event: 0 };
    let records = vec![context(1, 0), record(1, Body::Synchronize(all))];
    let trace = exported(&[(Some(status(5)), names(), records)]);
    let args = &of_category(&trace, "cuda_sync")[0]["args"];
    assert_eq!((&args["stream"], &args["device"]), (&json!(-1), &json!(0)), "as in Kineto");
}

#[test]
fn changes_of_memory_come_with_the_amount_held_afterwards() {
    let trace = exported(&[memory_taken()]);
    let reported: Vec<(i64, i64)> = of_category(&trace, "cpu_instant_event")
        .into_iter()
        .map(|e| (e["args"]["Bytes"].as_i64().unwrap(), e["args"]["Total Allocated"].as_i64().unwrap()))
        .collect();
    assert_eq!(reported, [(4_096, 4_096), (1_000, 5_096), (-4_096, 1_000), (-1_000, 0)]);
    let drawn = |name: &str| {
        let counters = events(&trace).iter().filter(|event| event["ph"] == "C" && event["name"] == name);
        counters.map(|event| event["args"]["bytes"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(drawn("device memory"), [4_096, 5_096, 1_000, 0]);
    assert_eq!((drawn("pinned memory"), drawn("managed memory")), (vec![512, 0], vec![1_000, 0]));
}

/// A window in which nothing was allocated or freed had no counter at all, while 71 MiB were held throughout.
#[test]
fn a_part_of_the_run_begins_with_what_is_held() {
    let levels = |since, until| {
        let filter = Filter { since: Some(since), until: Some(until), ..Filter::default() };
        let trace: Value = serde_json::from_slice(&filtered(&[memory_taken()], &filter)).unwrap();
        let counters = events(&trace).iter().filter(|event| event["ph"] == "C");
        let level =
            |event: &Value| (event["name"].as_str().unwrap().to_owned(), event["args"]["bytes"].as_i64());
        counters.map(level).collect::<Vec<_>>()
    };
    let level = |name: &str, bytes| (format!("{name} memory"), Some(bytes));
    let held = [level("device", 5_096), level("managed", 1_000), level("pinned", 512)];
    assert_eq!(levels(33_000, 45_000), held, "nothing changes");
    assert_eq!(levels(33_000, 60_000)[..3], held, "it is freed");
    assert_eq!(levels(1_000, 5_000), [], "nothing is held");
}

/// What was said to be held on a GPU was held on all of them, and a free was one on the GPU that was current.
#[test]
fn changes_of_memory_come_with_the_amount_held_on_their_gpu() {
    let device = |ordinal: u32| {
        let (memory_bytes, multiprocessors, capability, warps_per_multiprocessor) = (0, 132, 90, 64);
        let uuid = [ordinal as u8; 16];
        let device =
            Device { ordinal, uuid, memory_bytes, multiprocessors, capability, warps_per_multiprocessor };
        record(1, Body::Device(device))
    };
    let call = |begin, context| Call { api: LAUNCH, begin, end: begin + 500, context, ..Call::default() };
    let alloc = |address, bytes, call| {
        record(1, Body::Alloc(Alloc { call, memory: Memory::Device, address, bytes, stream: 0, pool: 0 }))
    };
    let free = Free { call: call(30_000, 2), memory: Memory::Device, address: 1 << 30, stream: 0, bytes: 0 };
    let records = vec![
        device(0),
        device(1),
        context(1, 0),
        context(2, 1),
        alloc(1 << 30, 4_096, call(10_000, 1)),
        alloc(2 << 30, 1_000, call(20_000, 2)),
        record(1, Body::Free(free)),
    ];
    let trace = exported(&[(Some(status(5)), names(), records)]);
    let number = |event: &Value, key: &str| event["args"][key].as_i64().unwrap();
    let reported: Vec<[i64; 3]> = of_category(&trace, "cpu_instant_event")
        .into_iter()
        .map(|event| ["Device Id", "Bytes", "Total Allocated"].map(|key| number(event, key)))
        .collect();
    assert_eq!(reported, [[0, 4_096, 4_096], [1, 1_000, 1_000], [0, -4_096, 0]]);
    let counters = events(&trace).iter().filter(|event| event["name"] == "device memory");
    let drawn: Vec<i64> = counters.map(|event| number(event, "bytes")).collect();
    assert_eq!(drawn, [4_096, 5_096, 1_000], "the counter is that of the process");
}

#[test]
fn calls_that_would_cross_are_laid_end_to_end() {
    let records = vec![failed(10_000, 20_000), failed(15_000, 30_000), failed(40_000, 50_000)];
    let trace = exported(&[(Some(status(5)), names(), records)]);
    let calls = of_category(&trace, "cuda_driver");
    let spans: Vec<(i64, i64)> = calls.iter().map(|call| span(call)).collect();
    assert_eq!(spans, [(0, 10_000), (10_001, 20_000), (30_000, 40_000)]);
    assert!(calls.iter().all(|call| call["args"]["result"] == 719));
}

#[test]
fn absurd_numbers_are_still_json() {
    let trace = exported(&absurd());
    assert_eq!(of_category(&trace, "kernel").len(), 4);
    assert_eq!(of_category(&trace, "gpu_memset").len(), 2);
}

#[test]
fn a_file_contains_the_rank_that_all_its_processes_share() {
    let process = |variables: &str, kernel: &str| -> Given {
        let texts = [
            ((Namespace::Fact, Fact::Environment as u32), variables.to_owned()),
            ((Namespace::Kernel, 1), kernel.to_owned()),
        ];
        (Some(status(5)), Names(texts.into()), Vec::new())
    };
    let line = |processes: &[Given]| -> Option<String> {
        let text = String::from_utf8(bytes(processes)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap();
        text.lines().find(|line| line.contains("distributedInfo")).map(str::to_owned)
    };
    let third = process("RANK=3\0WORLD_SIZE=4\0", "ncclDevKernel_AllReduce");
    let reported = r#""distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4},"#;
    assert_eq!(line(std::slice::from_ref(&third)).as_deref(), Some(reported));
    assert_eq!(
        line(&[third.clone(), third.clone()]).as_deref(),
        Some(reported),
        "a worker has its parent's rank"
    );
    assert_eq!(line(&[third, process("RANK=2\0WORLD_SIZE=4\0", "")]), None, "there is no single rank");
    let without = r#""distributedInfo": {"rank": 0},"#;
    assert_eq!(line(&[process("SLURM_PROCID=0\0", "my_nccl_like")]).as_deref(), Some(without));
    assert_eq!(line(&[process("CUDA_VISIBLE_DEVICES=3\0", "")]), None);
    assert_eq!(line(&[]), None);
}

/// Rows of two ranks were not told apart.
#[test]
fn in_a_file_of_several_ranks_each_process_and_each_gpu_has_its_rank() {
    let of_rank = |rank: u32| -> Given {
        let environment = ((Namespace::Fact, Fact::Environment as u32), format!("RANK={rank}\0"));
        (
            Some(status(5 + rank)),
            Names([environment].into()),
            vec![context(1, 0), record(1, Body::Work(launch(10_000, 20_000, 5_000)))],
        )
    };
    let trace = exported(&[of_rank(2), of_rank(7)]);
    let labels = events(&trace).iter().filter(|event| event["name"] == "process_labels");
    let labels: Vec<&str> = labels.map(|event| event["args"]["labels"].as_str().unwrap()).collect();
    assert_eq!(labels, ["CPU, rank 2", "GPU 0, rank 2", "CPU, rank 7", "GPU 0, rank 7"]);
}

/// What a filter leaves of calls and of work: (start, end).
type Left = (Vec<(i64, i64)>, Vec<(i64, i64)>);

fn left(given: &Given, filter: &Filter) -> Left {
    let trace: Value = serde_json::from_slice(&filtered(std::slice::from_ref(given), filter)).unwrap();
    let ends = |phase: &str| -> Vec<u64> {
        let ends = events(&trace).iter().filter(|event| event["ph"] == phase);
        let mut ids: Vec<u64> = ends.map(|event| event["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ends("s"), ends("f"), "an arrow with one end");
    let spans = |is_work: bool| -> Vec<(i64, i64)> {
        let rows = events(&trace).iter().filter(|event| event["ph"] == "X" && event["cat"] != "cuda_sync");
        let mut spans: Vec<_> =
            rows.filter(|row| (row["args"]["stream"] != Value::Null) == is_work).map(span).collect();
        spans.sort_unstable();
        spans
    };
    (spans(false), spans(true))
}

#[test]
fn a_time_window_keeps_events_that_lie_partly_in_it_whole_and_in_place() {
    let given = generated(3, 3, 20_000);
    let (calls, work) = left(&given, &Filter::default());
    // The collection began at 5 000 000 ns of the real time, which is 5 000 000 in the file.
    let since_begin = |moment: i64| (moment - 5_000_000) as u64;
    let (from, to) = (work[work.len() / 3].0 + 1, work[work.len() / 2].0);
    let filter = Filter { since: Some(since_begin(from)), until: Some(since_begin(to)), ..Filter::default() };
    let meets = |spans: &[(i64, i64)]| -> Vec<(i64, i64)> {
        spans.iter().copied().filter(|(begin, end)| *begin < to && *end > from).collect()
    };
    let (calls_left, work_left) = left(&given, &filter);
    assert!(work_left.len() > 1_000 && work_left.len() < work.len() / 2);
    assert!(work_left[0].0 < from && work_left.contains(&work[work.len() / 3]), "it began 1 ns before");
    assert_eq!((calls_left, work_left), (meets(&calls), meets(&work)));
}

#[test]
fn a_stream_or_a_device_is_shown_alone() {
    let given = generated(3, 3, 20_000);
    let trace = |filter: &Filter| -> Value {
        serde_json::from_slice(&filtered(std::slice::from_ref(&given), filter)).unwrap()
    };
    let streams = |trace: &Value| -> BTreeSet<u64> {
        events(trace).iter().filter_map(|event| event["args"]["stream"].as_u64()).collect()
    };
    assert_eq!(streams(&trace(&Filter::default())), BTreeSet::from([8, 9, 10]), "none is a default stream");
    let all = trace(&Filter::default());
    let one = trace(&Filter { streams: vec![8], ..Filter::default() });
    assert_eq!(streams(&one).len(), 1);
    let of_row = |trace: &Value, row: u64| {
        let rows = events(trace).iter().filter(move |event| event["args"]["stream"] == row);
        rows.cloned().collect::<Vec<Value>>()
    };
    let row = *streams(&one).first().unwrap();
    assert_eq!(of_row(&one, row), of_row(&all, row), "as in the whole export, including numbers");
    let named =
        |trace: &Value| events(trace).iter().filter(|event| event["name"] == "thread_sort_index").count();
    assert_eq!((named(&all), named(&one)), (3, 1), "no empty row is named");
    let none = trace(&Filter { devices: vec![5], ..Filter::default() });
    assert_eq!(streams(&none), BTreeSet::new());
    assert_eq!(none["gpuspy"]["operations"], 0);
}

/// A name, a row and a span.
type Annotation = (String, (u64, u64), (i64, i64));

/// The annotations of a category in an export.
fn annotations(trace: &Value, category: &str) -> Vec<Annotation> {
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
    let events = of_category(trace, category).into_iter().filter(|event| event["ph"] == "X");
    let shown =
        |e: &Value| (e["name"].as_str().unwrap().to_owned(), (number(e, "pid"), number(e, "tid")), span(e));
    events.map(shown).collect()
}

#[test]
fn pushed_ranges_lie_on_their_threads_row_and_started_ones_on_their_own() {
    let trace = exported(&[annotated()]);
    let name = |name: &str| name.to_owned();
    let (thread, own) = ((77, 77), (77, 1 << 23));
    assert_eq!(
        annotations(&trace, "user_annotation"),
        [
            (name("step"), thread, (3_000, 15_000)),
            (name("loader:forward"), thread, (15_001, 35_000)),
            (name("forward"), own, (0, 45_000)),
            (name("forward"), thread, (56_000, 65_000)),
            (name("step"), thread, (55_000, 65_001)),
        ],
        "a range that crosses begins after the other; an open one lasts until the end"
    );
    let marks = of_category(&trace, "user_annotation").into_iter().filter(|event| event["ph"] == "i");
    let marks: Vec<_> = marks.map(|mark| (mark["name"].as_str().unwrap(), ns(&mark["ts"]))).collect();
    assert_eq!(marks, [("forward", 37_000), ("loader:step", 65_000)]);
}

#[test]
fn a_projection_spans_the_operations_of_its_range_on_a_row_beside_their_stream() {
    let trace = exported(&[annotated()]);
    let kernels: Vec<(i64, i64)> = of_category(&trace, "kernel").into_iter().map(span).collect();
    let both = (kernels[0].0, kernels[1].1);
    let shown = annotations(&trace, "gpu_user_annotation");
    let spans: Vec<_> = shown.iter().map(|(name, _, span)| (name.as_str(), *span)).collect();
    assert_eq!(spans, [("step", kernels[0]), ("loader:forward", both), ("forward", both)]);
    let rows: BTreeSet<(u64, u64)> = shown.iter().map(|(_, row, _)| *row).collect();
    assert!(rows.len() == 3 && rows.iter().all(|(gpu, row)| *gpu == 0 && *row != 9), "{rows:?}");
    let named = events(&trace).iter().filter(|event| event["name"] == "thread_name" && event["pid"] == 0);
    assert_eq!(named.count(), 1 + 3);
}

#[test]
fn projections_of_operations_whose_estimates_overlap_are_laid_end_to_end() {
    use NvtxChange::{Pop, Push};
    let records = vec![
        range(1, 9_000, Push, 0, 0, 1),
        record(1, Body::Work(launch(10_000, 5_000, 30_000))),
        range(1, 17_000, Pop, 0, 0, 0),
        range(1, 18_000, Push, 0, 0, 2),
        record(1, Body::Work(launch(20_000, 24_900, 20_000))),
        range(1, 30_000, Pop, 0, 0, 0),
    ];
    let given = (Some(status(5)), with_ranges(), records);
    let placed = placed(&given);
    assert!(placed[1].1 < placed[0].2, "they do overlap: {placed:?}");
    let trace = exported(&[given]);
    let spans: Vec<(i64, i64)> =
        annotations(&trace, "gpu_user_annotation").into_iter().map(|(.., span)| span).collect();
    let zero = 9_000;
    let behind = placed[0].2 + 1;
    assert_eq!(spans, [(placed[0].1 - zero, placed[0].2 - zero), (behind - zero, placed[1].2 - zero)]);
}

#[test]
fn a_filter_keeps_the_ranges_that_it_selects() {
    let trace =
        |filter: Filter| -> Value { serde_json::from_slice(&filtered(&[annotated()], &filter)).unwrap() };
    let names = |trace: &Value| -> Vec<String> {
        annotations(trace, "user_annotation").into_iter().map(|(name, ..)| name).collect()
    };
    // The collection began at 1 000 of the host's clock.
    let early = trace(Filter { until: Some(6_000), ..Filter::default() });
    assert_eq!(names(&early), ["forward"]);
    let of_second = trace(Filter { threads: vec![78], ..Filter::default() });
    assert_eq!(names(&of_second), ["forward"]);
    assert_eq!(annotations(&of_second, "gpu_user_annotation"), []);
}

#[test]
fn no_two_ranges_ever_cross_on_a_row() {
    let (status, mut names, records) = generated(11, 3, 6_000);
    names.0.extend(with_ranges().0.into_iter().filter(|((space, _), _)| *space != Namespace::Kernel));
    let mut random = crate::trace::generator::Random(5);
    let mut all = Vec::new();
    for record in records {
        let (thread, at) = (record.thread, record.at);
        all.push(record);
        let (domain, text, id) = (random.below(2) as u32, 1 + random.below(2) as u32, 1 + random.below(5));
        match random.below(8) {
            0 => all.push(range(thread, at, NvtxChange::Push, 0, domain, text)),
            1 => all.push(range(thread, at, NvtxChange::Pop, 0, domain, 0)),
            2 => all.push(range(thread, at, NvtxChange::Start, id, domain, text)),
            3 => all.push(range(thread, at, NvtxChange::End, id, domain, 0)),
            _ => {}
        }
    }
    let trace = exported(&[(status, names, all)]);
    let mut rows: BTreeMap<(u64, u64), Vec<(i64, i64)>> = BTreeMap::new();
    for event in events(&trace).iter().filter(|event| event["ph"] == "X" && event["cat"] != "cuda_sync") {
        let row = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        rows.entry(row).or_default().push(span(event));
    }
    assert!(of_category(&trace, "gpu_user_annotation").len() > 500);
    for (row, mut spans) in rows {
        spans.sort_by_key(|(begin, end)| (*begin, std::cmp::Reverse(*end)));
        let mut around: Vec<i64> = Vec::new();
        for (begin, end) in spans {
            while around.last().is_some_and(|outer| *outer <= begin) {
                around.pop();
            }
            assert!(around.last().is_none_or(|outer| end <= *outer), "{row:?} at {begin}");
            around.push(end);
        }
    }
}
