//! Reports of whole processes, from records with known answers.

use gpuspy_collector::analyze::devices::DeviceReport;
use gpuspy_collector::analyze::estimate::Sum;
use gpuspy_collector::analyze::extrapolate::{self, Extent};
use gpuspy_collector::analyze::{Damage, Input, Member, ProcessReport, process, together};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::report::{Section, Style, View, json, terminal};
use gpuspy_collector::trace::record::*;
use gpuspy_wire::record::{
    Direction, Fact, LossCause, Memory, Namespace, NodeKind, NvtxChange, SyncScope, Untimed, Via,
    WindowChange, flag,
};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;

const GEMM: u32 = 1;
const ADD: u32 = 2;
const NCCL: u32 = 3;

const LAUNCH: u16 = 1;
const COPY: u16 = 2;
const SYNC: u16 = 3;
const MALLOC: u16 = 4;
const FREE: u16 = 5;
const DRIVER_LAUNCH: u16 = 6;
const HOST_ALLOC: u16 = 7;
const GRAPH_LAUNCH: u16 = 8;
const EVENT_QUERY: u16 = 9;
const STREAM_QUERY: u16 = 10;

const STEP: u32 = 1;
const FORWARD: u32 = 2;
const EPOCH: u32 = 3;
const LOADER: u32 = 1;

/// Host time at the start of the collection, in ns.
const BEGAN: u64 = 5_000_000_000_000;
/// GPU ns − host ns.
const OFFSET: i64 = -4_000_000_000_000;

fn names() -> Names {
    let mut names = BTreeMap::new();
    let mut add = |space, id: u32, text: &str| names.insert((space, id), text.to_owned());
    add(Namespace::Kernel, GEMM, "_Z19sm90_gemm_bf16_128xILi4EfEvPKT0_Pf");
    add(Namespace::Kernel, ADD, "vector_add");
    add(Namespace::Function, 1, "cuFooBar");
    add(Namespace::Kernel, NCCL, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
    for (id, name) in [
        (LAUNCH, "cudaLaunchKernel"),
        (COPY, "cudaMemcpyAsync_ptsz"),
        (SYNC, "cudaStreamSynchronize"),
        (MALLOC, "cudaMalloc"),
        (FREE, "cudaFree"),
        (DRIVER_LAUNCH, "cuLaunchKernel_ptsz"),
        (HOST_ALLOC, "cudaMallocHost"),
        (GRAPH_LAUNCH, "cudaGraphLaunch"),
        (EVENT_QUERY, "cuEventQuery"),
        (STREAM_QUERY, "cuStreamQuery_ptsz"),
    ] {
        add(Namespace::Api, id.into(), name);
    }
    add(Namespace::Path, 1, "/opt/torch/lib/libtorch_cuda.so");
    for (text, name) in [(STEP, "step"), (FORWARD, "forward"), (EPOCH, "epoch")] {
        add(Namespace::NvtxRange, text, name);
    }
    add(Namespace::Domain, LOADER, "loader");
    add(Namespace::Device, 1, "NVIDIA H200");
    add(Namespace::Fact, Fact::CommandLine as u32, "python\0train.py\0");
    Names(names)
}

fn status() -> Status {
    Status {
        pid: 4242,
        start_time: 1,
        began: BEGAN,
        began_realtime: 1,
        ended: BEGAN + 2_000_000,
        ending: Ending::Exited,
        agent_ns: 30_000,
        poller_ns: 12_000,
        calls: 20,
        published: 40,
        collected: 40,
        driver_hooked: true,
        ..Status::default()
    }
}

/// Builds records on a host clock that moves on as calls are made.
#[derive(Clone)]
struct App {
    now: u64,
    correlation: u64,
    records: Vec<Record>,
}

impl App {
    fn new() -> Self {
        let mut app = App { now: BEGAN + 10_000, correlation: 0, records: Vec::new() };
        let (uuid, memory_bytes) = (*b"0123456789abcdef", 150_754_820_096);
        let (multiprocessors, capability, warps_per_multiprocessor) = (132, 90, 64);
        app.push(Body::Device(Device {
            ordinal: 0,
            uuid,
            memory_bytes,
            multiprocessors,
            capability,
            warps_per_multiprocessor,
        }));
        app.push(Body::Context(Context { context: 1, device: 0, handle: 0x10, destroyed: false }));
        app.push(Body::Module(Module {
            start: 0x1000,
            end: 0x9000,
            bias: 0x1000,
            path: 1,
            ..Module::default()
        }));
        app
    }

    fn push(&mut self, body: Body) {
        self.records.push(Record { thread: 1, at: self.now, body });
    }

    /// Returns a call that takes `ns`, from entry to return.
    fn call(&mut self, api: u16, ns: u64) -> Call {
        let begin = self.now;
        self.now += ns;
        self.correlation += 1;
        let (correlation, caller) = (self.correlation, 0x1234);
        Call {
            correlation,
            api,
            via: Some(Via::Driver),
            flags: 0,
            begin,
            end: self.now,
            caller,
            context: 1,
            stack: 0,
        }
    }

    fn idle(&mut self, ns: u64) {
        self.now += ns;
    }

    /// Returns work that is not timed.
    fn work(&mut self, api: u16, what: What, untimed: Untimed) -> Work {
        let call = self.call(api, 5_000);
        let submitted = call.end - 1_000;
        Work { call, submitted, entered: 0, lead: 0, tail: 0, untimed, stream: 7, gpu: None, what }
    }

    /// Pushes work that starts `wait` ns after it was submitted and takes `ns`. On a drained stream, `wait` is 0.
    fn timed(&mut self, api: u16, what: What, wait: i64, ns: i64) {
        let mut work = self.work(api, what, Untimed::Timed);
        (work.lead, work.tail) = (4_000, 1_000);
        let submitted = work.submitted as i64 + OFFSET;
        let start_event = if wait == 0 { submitted - 3_000 } else { submitted + wait };
        let end = submitted + wait + ns;
        work.gpu = Some(GpuTime {
            time_base: 1,
            start: start_event,
            duration: (end.max(submitted + 1_000) - start_event) as u64,
            seen: (end - OFFSET) as u64 + 20_000,
            ..GpuTime::default()
        });
        self.push(Body::Work(work));
    }

    fn untimed(&mut self, api: u16, what: What, untimed: Untimed, flags: u16) {
        let mut work = self.work(api, what, untimed);
        work.call.flags |= flags;
        self.push(Body::Work(work));
    }

    fn alloc(&mut self, api: u16, memory: Memory, address: u64, bytes: u64) {
        let call = self.call(api, 2_000);
        self.push(Body::Alloc(Alloc { call, memory, address, bytes, stream: 0, pool: 0 }));
    }

    fn free(&mut self, address: u64, fails: bool) {
        let mut call = self.call(FREE, 0);
        self.push(Body::Free(Free { call, memory: Memory::Device, address, stream: 0, bytes: 0 }));
        self.now += 3_000;
        call.end = self.now;
        call.flags = if fails { flag::FAILED } else { 0 };
        self.push(Body::Api(Api {
            call,
            result: i32::from(fails),
            subject: 0,
            calls: 1,
            inside: 0,
            entered: 0,
        }));
    }

    fn sync(&mut self, ns: u64) {
        let call = self.call(SYNC, ns);
        self.push(Body::Synchronize(Synchronize { call, scope: SyncScope::Stream, stream: 7, event: 0 }));
    }

    /// Pushes an NVTX event of a thread: a range is pushed, popped, started or ended, or a marker is set.
    fn range(&mut self, thread: u32, change: NvtxChange, id: u64, domain: u32, text: u32) {
        let range = NvtxRange { change, id, domain, text, category: 0, color: 0, payload: text == FORWARD };
        self.records.push(Record { thread, at: self.now, body: Body::NvtxRange(range) });
        self.now += 100;
    }

    fn push_range(&mut self, text: u32) {
        self.range(1, NvtxChange::Push, 0, 0, text);
    }

    fn pop_range(&mut self) {
        self.range(1, NvtxChange::Pop, 0, 0, 0);
    }

    fn report(self, status: Option<&Status>, damage: Damage) -> ProcessReport {
        self.report_of(&Filter::default(), status, damage)
    }

    fn report_of(self, filter: &Filter, status: Option<&Status>, damage: Damage) -> ProcessReport {
        let names = names();
        let path = "gpuspy-python-4242.gspy".to_owned();
        let clocks = Survey::of(self.records.iter().cloned());
        let records = self.records.into_iter();
        process(Input { path, names: &names, status, damage, clocks: &clocks, filter, records })
    }
}

/// Returns the reports of the processes of a run, each with its names and its status.
fn reports_of(apps: Vec<(App, Names, Status)>, filter: &Filter) -> Vec<ProcessReport> {
    let clocks: Vec<_> = apps.iter().map(|(app, ..)| Survey::of(app.records.iter().cloned())).collect();
    let origin = apps.iter().map(|(.., status)| status.began).min();
    let filter = &Filter { origin, ..filter.clone() };
    let mut reports: Vec<ProcessReport> = apps
        .iter()
        .zip(&clocks)
        .map(|((app, names, status), clocks)| {
            let (path, damage) = (format!("gpuspy-python-{}.gspy", status.pid), Damage::default());
            let records = app.records.iter().cloned();
            process(Input { path, names, status: Some(status), damage, clocks, filter, records })
        })
        .collect();
    let members = apps.iter().zip(&clocks).map(|((app, names, status), clocks)| {
        let records = app.records.iter().cloned();
        Member { names, status: Some(status), clocks, filter, records, not_before: 0 }
    });
    together(&mut reports, members.collect());
    reports
}

fn kernel(name: u32) -> What {
    What::Kernel {
        name,
        function: 0,
        grid: [1; 3],
        block: [128, 1, 1],
        shared_bytes: 0,
        attributes: 0,
        cluster: [0; 3],
    }
}

fn copy(direction: Direction, dst: u64, src: u64, bytes: u64) -> What {
    What::Memcpy { direction, asynchronous: true, bytes, dst, src, rows: 1, peer_context: 0 }
}

/// A small training run: allocations, a copy in, kernels, a gap, a copy out, a sync.
fn training() -> App {
    let mut app = App::new();
    app.alloc(MALLOC, Memory::Device, 0x10_0000, 4 << 20);
    app.alloc(MALLOC, Memory::Device, 0x80_0000, 1 << 20);
    app.alloc(HOST_ALLOC, Memory::Pinned, 0x7000_0000, 2 << 20);
    app.timed(COPY, copy(Direction::Default, 0x10_0000, 0x7000_0000, 1 << 20), 0, 40_000);
    app.timed(LAUNCH, kernel(GEMM), 36_000, 100_000);
    app.timed(LAUNCH, kernel(ADD), 131_000, 10_000);
    app.sync(150_000);
    app.idle(300_000);
    app.timed(LAUNCH, kernel(GEMM), 0, 120_000);
    app.timed(LAUNCH, kernel(NCCL), 116_000, 30_000);
    app.timed(COPY, copy(Direction::DtoH, 0x5000, 0x10_0000, 4), 141_000, 2_000);
    app.sync(200_000);
    app.free(0x80_0000, false);
    app
}

/// A program under `--timing auto`: a first phase of 50 launches, then 20 pauses of 100 launches and 20 windows of 60. A
/// launch takes 5 µs in pauses and 6 µs in windows; the hooks take 0.1 µs and 0.6 µs of that. One kernel runs only in pauses.
fn in_windows() -> (App, Names) {
    let mut names = names();
    names.0.insert((Namespace::Fact, Fact::Timing as u32), "auto 5".to_owned());
    let mut app = App::new();
    let (mut agent_ns, mut launches) = (0, 0);
    let mut stretch = |app: &mut App, change: WindowChange, count: u64| {
        app.push(Body::Window(Window { change, agent_ns, poller_ns: agent_ns / 10, launches }));
        for n in 0..count {
            if change == WindowChange::Opens {
                app.timed(LAUNCH, kernel(ADD), 0, 3_000);
                app.idle(1_000);
            } else {
                app.untimed(LAUNCH, kernel(if n == 50 { GEMM } else { ADD }), Untimed::Budget, 0);
            }
        }
        agent_ns += count * if change == WindowChange::Opens { 600 } else { 100 };
        launches += count;
    };
    stretch(&mut app, WindowChange::Opens, 50);
    for _ in 0..20 {
        stretch(&mut app, WindowChange::Closes, 100);
        stretch(&mut app, WindowChange::Opens, 60);
    }
    stretch(&mut app, WindowChange::Closes, 100);
    (app, names)
}

/// Returns the view of `--section all`.
fn everything() -> View {
    View { sections: vec![Section::All], ..View::default() }
}

/// Returns the style of a screen of `width` columns.
fn wide(width: usize) -> Style {
    Style { width, ..Style::default() }
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(include_str!("../schema/report.schema.json")).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

fn assert_valid(report: &Value) {
    let errors: Vec<String> =
        validator().iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let identity = report["identity"].as_object().unwrap();
    let parts = identity.iter().filter(|(key, _)| key.ends_with("_ns") && *key != "wall_ns");
    let sum: u128 = parts.map(|(_, ns)| u128::from(ns.as_u64().unwrap())).sum();
    assert_eq!(u64::try_from(sum).ok(), identity["wall_ns"].as_u64(), "{identity:#?}");
    for (part, estimate) in identity["estimates"].as_object().unwrap() {
        assert_eq!(estimate["value"], identity[part], "{part} of {identity:#?}");
    }
}

#[test]
fn counts_are_those_of_the_app() {
    let status = status();
    let report = json(&[training().report(Some(&status), Damage::default())]);
    assert_valid(&report);
    let coverage = &report["coverage"];
    assert_eq!((&coverage["launches"], &coverage["timed"]), (&value!(4), &value!(4)));
    assert_eq!((&coverage["dropped"], &coverage["unattributed"]), (&value!(0), &value!(0)));
    let memory = &report["memory"];
    assert_eq!(memory["peak_bytes"]["value"], value!(5 << 20));
    assert_eq!(memory["peak_ns"], value!(14_000));
    assert_eq!(memory["live_bytes"], value!(4 << 20));
    assert_eq!(memory["allocated_bytes"], value!(5 << 20));
    let line = &memory["timeline"];
    let peaks = line["peaks_bytes"].as_array().unwrap();
    assert_eq!((&line["from_ns"], &line["bucket_ns"], peaks.len()), (&value!(0), &value!(16_000), 125));
    assert_eq!((&peaks[0], &peaks[1], &peaks[124]), (&value!(5 << 20), &value!(5 << 20), &value!(4 << 20)));
    assert_eq!((&memory["allocations"], &memory["frees"]), (&value!(2), &value!(1)));
    assert_eq!(memory["by_kind"]["pinned"]["live_bytes"], value!(2 << 20));
    let api = |name: &str| report["apis"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(api("cudaLaunchKernel")["count"], 4);
    assert_eq!(api("cudaMemcpyAsync")["count"], 2);
    let times = |count: u64, total: u64, min: u64, max: u64, stddev: f64| {
        let median = (min + max) / 2;
        value!({
            "count": count,
            "host_ns": total,
            "avg_ns": total as f64 / count as f64,
            "median_ns": { "value": median, "lo": median, "hi": median, "kind": "exact" },
            "min_ns": min,
            "max_ns": max,
            "stddev_ns": stddev,
            "line": null,
            "line_share": null,
        })
    };
    let mut free = times(1, 3_000, 3_000, 3_000, 0.0);
    (free["name"], free["failed"]) = (value!("cudaFree"), value!(0));
    assert_eq!(api("cudaFree"), &free);
    let mut sync = times(2, 350_000, 150_000, 200_000, 25_000.0);
    sync["api"] = value!("cudaStreamSynchronize");
    assert_eq!(report["syncs"], value!([sync]));
    assert_eq!(report["processes"][0]["pid"], 4242);
    assert_eq!(report["processes"][0]["command"], "python train.py");
    assert_eq!(report["processes"][0]["ending"], "exited");
}

#[test]
fn transfers_have_their_kind_memory_and_time() {
    let report = json(&[training().report(None, Damage::default())]);
    let rows = report["transfers"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["kind"], &rows[0]["host_memory"]), (&value!("HtoD"), &value!("pinned")));
    assert_eq!((&rows[1]["kind"], &rows[1]["host_memory"]), (&value!("DtoH"), &value!("pageable")));
    let time = &rows[0]["total_ns"];
    assert!(time["lo"].as_u64() <= Some(40_000) && Some(40_000) <= time["hi"].as_u64(), "{time}");
    let gbps = rows[0]["gbps"]["value"].as_f64().unwrap();
    assert!((gbps - (1 << 20) as f64 / 40_000.0).abs() < 1.0, "{gbps}");
}

#[test]
fn the_parts_sum_to_the_span_and_their_bounds_contain_the_truth() {
    let report = json(&[training().report(None, Damage::default())]);
    let device = &report["devices"][0];
    let parts = [
        "compute_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "graph_ns",
        "idle_ns",
        "undecided_ns",
        "unobserved_ns",
    ];
    let sum: u64 = parts.iter().map(|part| device[part]["value"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), device["span_ns"].as_u64());
    for (part, truth) in [("compute_ns", 230_000), ("exposed_comm_ns", 30_000), ("exposed_copy_ns", 42_000)] {
        let (lo, hi) = (device[part]["lo"].as_u64().unwrap(), device[part]["hi"].as_u64().unwrap());
        assert!(lo <= truth && truth <= hi, "{part}: {truth} not in [{lo}, {hi}]");
        assert!(device[part]["value"].as_u64().unwrap().abs_diff(truth) <= 2_000, "{part}: {}", device[part]);
    }
    assert_eq!((&device["name"], &device["id"]), (&value!("NVIDIA H200"), &value!(0)));
    assert_eq!(device["uuid"], "GPU-30313233-3435-3637-3839-616263646566");
    assert!(report["clock"]["uncertainty_ns"].as_u64().is_some_and(|ns| ns < 30_000));
}

#[test]
fn the_largest_gap_names_its_neighbours_and_the_library_that_ended_it() {
    let report = json(&[training().report(None, Damage::default())]);
    let gap = &report["gaps"]["largest"][0];
    assert_eq!((&gap["before"]["kind"], &gap["before"]["name"]), (&value!("kernel"), &value!("vector_add")));
    assert_eq!(gap["after"]["name"], "void sm90_gemm_bf16_128x<4, float>(float const*, float*)");
    assert_eq!(gap["after"]["library"], "/opt/torch/lib/libtorch_cuda.so");
    assert_eq!(gap["after"]["library_offset"], 0x234);
    // The add ends 145 µs after its launch; the sync, the pause and the next launch take 455 µs.
    let (lo, hi) = (gap["duration_ns"]["lo"].as_u64().unwrap(), gap["duration_ns"]["hi"].as_u64().unwrap());
    let truth = 1_000 + 150_000 + 300_000 + 4_000 - 141_000;
    assert!(lo <= truth && truth <= hi, "{truth} not in {gap}");
}

#[test]
fn kernels_carry_their_statistics() {
    let report = json(&[training().report(None, Damage::default())]);
    let gemm = &report["kernels"][0];
    assert_eq!((&gemm["count"], &gemm["timed"], &gemm["in_graphs"]), (&value!(2), &value!(2), &value!(0)));
    let total = &gemm["total_ns"];
    assert!(total["lo"].as_u64() <= Some(220_000) && total["hi"].as_u64() >= Some(220_000), "{total}");
    assert!(total["value"].as_u64().unwrap().abs_diff(220_000) <= 1_000, "{total}");
    assert_eq!(gemm["min_ns"]["value"], 100_000);
}

#[test]
fn captures_graphs_failures_and_untimed_launches_are_distinguished() {
    let mut app = App::new();
    app.timed(LAUNCH, kernel(ADD), 0, 9_000);
    app.untimed(LAUNCH, kernel(ADD), Untimed::DeepQueue, 0);
    app.untimed(DRIVER_LAUNCH, kernel(99), Untimed::Contended, 0);
    app.untimed(LAUNCH, kernel(ADD), Untimed::Captured, flag::CAPTURED);
    app.untimed(COPY, copy(Direction::HtoD, 1, 2, 8), Untimed::Captured, flag::CAPTURED);
    let graph = What::Graph { graph: 1, handle: 5, kernels: 6, copies: 0, memsets: 0 };
    app.untimed(GRAPH_LAUNCH, graph, Untimed::Off, 0);
    app.untimed(GRAPH_LAUNCH, graph, Untimed::Off, flag::MORE);
    let lost = app.work(LAUNCH, kernel(ADD), Untimed::Timed);
    app.push(Body::Work(lost));
    let call = Call { flags: flag::FAILED, ..app.call(LAUNCH, 1_000) };
    app.push(Body::Api(Api { call, result: 700, subject: 0, calls: 1, inside: 0, entered: 0 }));
    app.push(Body::Loss { cause: LossCause::RingFull, count: 3 });
    let mut status = status();
    status.lost = BTreeMap::from([(LossCause::RingFull, 2), (LossCause::GpuTimePending, 1)]);
    let report = json(&[app.report(
        Some(&status),
        Damage { chunks_lost: 1, records_lost: 50, times_lost: 4, cut: true, ..Damage::default() },
    )]);
    assert_valid(&report);
    let coverage = &report["coverage"];
    assert_eq!((&coverage["launches"], &coverage["timed"]), (&value!(4), &value!(1)));
    assert_eq!((&coverage["captured"], &coverage["in_graphs"]), (&value!(1), &value!(12)));
    assert_eq!(coverage["unattributed"], 1, "kernel 99 has no name");
    let untimed = coverage["untimed"].as_object().unwrap();
    assert_eq!(untimed.values().filter_map(Value::as_u64).sum::<u64>(), 3);
    for reason in ["deep_queue", "contended", "gpu_time_pending"] {
        assert_eq!(untimed[reason], 1, "{reason}");
    }
    assert_eq!(untimed["budget"], 0, "every reason is listed");
    assert_eq!(
        coverage["dropped_by"],
        value!({ "ring_full": 3, "gpu_time_pending": 1, "damaged_trace": 50 })
    );
    assert_eq!(coverage["dropped"], 54);
    let api = |name: &str| report["apis"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(api("cudaGraphLaunch")["count"], 1, "one of the two records is not the last of its call");
    assert_eq!(api("cuLaunchKernel")["count"], 1);
    assert_eq!(
        (&api("cudaLaunchKernel")["count"], &api("cudaLaunchKernel")["failed"]),
        (&value!(5), &value!(1))
    );
    assert_eq!(report["transfers"], value!([]), "a captured copy did not happen");
    let unknown = report["kernels"].as_array().unwrap().iter().find(|row| row["name"] == "(unknown kernel)");
    assert_eq!(
        unknown.unwrap()["in_graphs"],
        12,
        "the trace has no record of the graph, so its kernels have no name"
    );
}

#[test]
fn a_failed_free_leaves_the_memory_live() {
    let mut app = App::new();
    app.alloc(MALLOC, Memory::Managed, 0x10_0000, 4096);
    app.free(0x10_0000, true);
    let memory = &json(&[app.report(None, Damage::default())])["memory"];
    assert_eq!((&memory["live_bytes"], &memory["frees"]), (&value!(4096), &value!(0)));
    assert_eq!(memory["by_kind"]["managed"]["allocations"], 1);
}

#[test]
fn out_of_memory_failures_are_counted_and_reported() {
    let mut app = App::new();
    for result in [2, 1, 2] {
        let call = Call { flags: flag::FAILED, ..app.call(MALLOC, 2_000) };
        app.push(Body::Api(Api { call, result, subject: 0, calls: 1, inside: 0, entered: 0 }));
    }
    let reports = [app.report(None, Damage::default())];
    let report = json(&reports);
    assert_eq!(report["memory"]["out_of_memory"], 2, "the third failed for another reason");
    let found = &report["findings"][0];
    assert_eq!(found["id"], "out-of-memory", "{}", report["findings"]);
    let times = [&found["evidence"]["first_ns"], &report["memory"]["failure"]["at_ns"]];
    let [first, last] = times.map(|time| time.as_u64().unwrap());
    assert_eq!(last - first, 4_000, "the last one failed two calls after the first");
    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(screen.contains("2 calls failed because memory ran out; --section calls shows"), "{screen}");
}

#[test]
fn an_empty_trace_is_reported_as_empty() {
    let empty = App { now: 0, correlation: 0, records: Vec::new() };
    let reports = [empty.report(None, Damage::default())];
    let report = json(&reports);
    assert_valid(&report);
    assert_eq!(report["clock"]["uncertainty_ns"], Value::Null);
    assert_eq!((&report["overhead"], &report["devices"]), (&Value::Null, &value!([])));
    let screen = terminal(&reports, &everything(), &wide(80));
    for said in
        ["0 launches", "profiling overhead unknown", "nothing was timed", "the trace contains no CUDA call"]
    {
        assert!(screen.contains(said), "{said} missing:\n{screen}");
    }
}

#[test]
fn text_of_a_trace_cannot_move_the_cursor() {
    let mut names = names();
    for text in names.0.values_mut() {
        *text = format!("\u{1b}[2J{text}\u{7}");
    }
    let records = training().records;
    let status = status();
    let (path, damage) = ("x\u{1b}[Ay.gspy".to_owned(), Damage::default());
    let clocks = Survey::of(records.iter().cloned());
    let (status, records) = (Some(&status), records.into_iter());
    let report = process(Input {
        path,
        names: &names,
        status,
        damage,
        clocks: &clocks,
        filter: &Filter::default(),
        records,
    });
    let screen = terminal(&[report], &everything(), &wide(100));
    assert!(screen.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn several_processes_add_up() {
    let first = status();
    let second = Status { pid: 4243, agent_ns: 10_000, ..status() };
    let reports =
        reports_of(vec![(training(), names(), first), (training(), names(), second)], &Filter::default());
    let report = json(&reports);
    assert_valid(&report);
    assert_eq!(report["coverage"]["launches"], 8);
    assert_eq!(report["overhead"]["agent_ns"], 40_000);
    assert_eq!(report["memory"]["peak_bytes"]["value"], 10 << 20, "both peaks were at the same time");
    assert_eq!(report["memory"]["live_bytes"], 8 << 20);
    assert_eq!(report["devices"].as_array().unwrap().len(), 1, "one GPU");
    assert_eq!(report["devices"][0]["processes"], 2);
    assert_eq!(report["kernels"][0]["count"], 4);
    let pids: Vec<&Value> = report["processes"].as_array().unwrap().iter().map(|p| &p["pid"]).collect();
    assert_eq!(pids, [4242, 4243]);
    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(screen.contains("2 processes") && screen.contains("4243"), "{screen}");
}

#[test]
fn unknown_functions_are_counted_once_and_summed_over_processes() {
    let process = |counts: &[(u32, u64)]| {
        let mut app = training();
        for &(function, count) in counts {
            app.push(Body::Lookup(Lookup { function, count }));
        }
        app.report(None, Damage::default())
    };
    // Each record has the sum up to then.
    let reports = [process(&[(1, 1), (1, 3), (0, 2)]), process(&[(1, 4)])];
    let report = json(&reports);
    assert_valid(&report);
    let unknown = value!([{ "name": null, "lookups": 2 }, { "name": "cuFooBar", "lookups": 7 }]);
    assert_eq!(report["coverage"]["unknown_functions"], unknown);
    let screen = terminal(&reports, &everything(), &wide(200));
    assert!(
        screen.contains("unknown to this version: others (2 lookups), cuFooBar (7 lookups); GPU work that"),
        "{screen}"
    );
    let known = [training().report(None, Damage::default())];
    assert_eq!(json(&known)["coverage"]["unknown_functions"], value!([]));
    assert!(!terminal(&known, &everything(), &wide(200)).contains("unknown to this version"));
}

#[test]
fn queries_are_listed_with_synchronization() {
    let mut app = App::new();
    for (api, calls, ns) in [(STREAM_QUERY, 20_000, 100_000), (EVENT_QUERY, 20_001, 300_000)] {
        let call = app.call(api, ns);
        app.push(Body::Api(Api { call, result: 0, subject: 0, calls, inside: ns, entered: 0 }));
    }
    let screen = |app: App, ended: u64| {
        let status = Status { ended, ..status() };
        terminal(&[app.report(Some(&status), Damage::default())], &everything(), &wide(160))
    };
    let queries = "40 001 queries whether work was done (cuEventQuery 20 001, cuStreamQuery 20 000): 80.0 % of wall in those";
    let alone = screen(app, BEGAN + 500_000);
    assert!(alone.contains("Syncs") && alone.contains(queries), "{alone}");
    assert!(!screen(training(), BEGAN + 2_000_000).contains("queries"));
}

#[test]
fn profiling_overhead_is_a_share_of_time_that_includes_the_first_call() {
    let mut app = App::new();
    app.now = BEGAN - 100_000;
    app.sync(200_000);
    let status = Status { ended: BEGAN + 100_000, agent_ns: 150_000, ..status() };
    let reports = [app.report(Some(&status), Damage::default())];
    assert_eq!(json(&reports)["overhead"]["wall_ns"], 200_000);
    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(
        screen.contains("profiling overhead 81.0 % of host time: hooks 75.0 %, poller 6.0 %"),
        "{screen}"
    );
}

#[test]
fn the_schema_requires_the_contracts_keys_and_rejects_others() {
    let status = status();
    let mut app = training();
    app.push_range(STEP);
    app.pop_range();
    app.range(1, NvtxChange::Mark, 0, 0, STEP);
    let report = json(&[app.report(Some(&status), Damage::default())]);
    let validator = validator();
    assert_valid(&report);
    let mut unknown = report.clone();
    unknown["surprise"] = value!(1);
    assert!(!validator.is_valid(&unknown));
    let contract = [
        ("verdict", "bound text share saves_ns unsafe"),
        (
            "identity",
            "wall_ns start_up_ns compute_ns exposed_comm_ns exposed_copy_ns graph_ns idle_ns undecided_ns tail_ns",
        ),
        ("idle", "by_cause sites hta"),
        (
            "steps",
            "count source launches_per_step warm_up mean_ns std_ns median_ns p95_ns p99_ns min_ns max_ns outliers",
        ),
        (
            "coverage",
            "launches timed captured in_graphs untimed unattributed dropped dropped_by unknown_functions",
        ),
        ("overhead", "agent_ns poller_ns"),
        ("clock", "uncertainty_ns"),
        (
            "devices",
            "id uuid name start_ns span_ns compute_ns exposed_comm_ns exposed_copy_ns graph_ns idle_ns undecided_ns unobserved_ns",
        ),
        ("gaps", "count total_ns bands by_library largest"),
        ("kernels", "name count timed in_graphs total_ns avg_ns median_ns min_ns max_ns stddev_ns api queue"),
        ("transfers", "kind host_memory count bytes total_ns gbps gbps_is_known sizes host"),
        (
            "memory",
            "peak_bytes peak_ns live_bytes allocations allocated_bytes frees by_kind timeline out_of_memory",
        ),
        ("apis", "name count host_ns avg_ns median_ns min_ns max_ns stddev_ns"),
        ("syncs", "api count host_ns avg_ns median_ns min_ns max_ns stddev_ns"),
        ("startup", "processes first_kernel_ns until_first_kernel_ns warm_up_ns loads first_launches"),
        ("ranges", "domain name count host_ns gpu_ns operations launches"),
        ("markers", "domain name count payloads"),
        ("processes", "pid command path ending filter"),
    ];
    let mut lacking = report.clone();
    assert!(lacking.as_object_mut().unwrap().remove("implicit_syncs").is_some());
    assert!(!validator.is_valid(&lacking), "the schema does not require implicit_syncs");
    for (table, keys) in contract {
        for key in keys.split(' ') {
            let mut lacking = report.clone();
            let row = match &mut lacking[table] {
                Value::Array(rows) => rows.first_mut().unwrap(),
                object => object,
            };
            assert!(row.as_object_mut().unwrap().remove(key).is_some(), "{table}.{key} is not in the report");
            assert!(!validator.is_valid(&lacking), "the schema does not require {table}.{key}");
        }
        let mut lacking = report.clone();
        lacking.as_object_mut().unwrap().remove(table);
        assert!(!validator.is_valid(&lacking), "the schema does not require {table}");
    }
}

#[path = "report_process/cold.rs"]
mod cold;
#[path = "report_process/comparisons.rs"]
mod comparisons;
#[path = "report_process/damage.rs"]
mod damage;
#[path = "report_process/event_waits.rs"]
mod event_waits;
#[path = "report_process/hostile.rs"]
mod hostile;
#[path = "report_process/limits.rs"]
mod limits;
#[path = "report_process/periods.rs"]
mod periods;
#[path = "report_process/processes.rs"]
mod processes;
#[path = "report_process/ranges.rs"]
mod ranges;
#[path = "report_process/ranks.rs"]
mod ranks;
#[path = "report_process/sampling.rs"]
mod sampling;
#[path = "report_process/screen.rs"]
mod screen;
#[path = "report_process/shapes.rs"]
mod shapes;
