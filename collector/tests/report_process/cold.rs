//! Start-up, and calls that synchronize implicitly.

use super::*;
use gpuspy_collector::report::Section;

const INIT: u16 = 20;
const RETAIN: u16 = 21;
const LOAD: u16 = 22;
const UNLOAD: u16 = 23;

fn texts() -> Names {
    let mut names = names();
    let mut add = |space, id: u32, text: &str| names.0.insert((space, id), text.to_owned());
    add(Namespace::Api, INIT.into(), "cuInit");
    add(Namespace::Api, RETAIN.into(), "cuDevicePrimaryCtxRetain");
    add(Namespace::Api, LOAD.into(), "cuModuleLoadData");
    add(Namespace::Api, UNLOAD.into(), "cuModuleUnload");
    add(Namespace::Fact, Fact::Environment as u32, "CUDA_MODULE_LOADING=EAGER\0");
    names
}

/// Makes any other call, which takes `ns`.
fn plain(app: &mut App, api: u16, ns: u64) {
    let call = app.call(api, ns);
    app.push(Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }));
}

/// Makes a launch whose call takes `ns` and whose kernel then runs for `runs` ns.
fn launch(app: &mut App, ns: u64, runs: i64) {
    app.timed(LAUNCH, kernel(GEMM), 10_000, runs);
    let Some(Record { body: Body::Work(work), .. }) = app.records.last_mut() else { unreachable!() };
    work.call.begin = work.call.begin.saturating_sub(ns - 5_000);
}

/// A program with half a millisecond of driver, context and modules, a first launch of 200 µs, later ones of 5 µs, and a free
/// while a kernel runs.
fn cold() -> App {
    let mut app = App::new();
    plain(&mut app, INIT, 100_000);
    plain(&mut app, RETAIN, 150_000);
    app.idle(30_000);
    plain(&mut app, LOAD, 300_000);
    app.alloc(MALLOC, Memory::Device, 0x10_0000, 4 << 20);
    app.idle(195_000);
    launch(&mut app, 200_000, 20_000);
    for _ in 0..4 {
        app.idle(100_000);
        launch(&mut app, 5_000, 20_000);
    }
    app.sync(60_000);
    launch(&mut app, 5_000, 400_000);
    let mut free = app.call(FREE, 0);
    let memory = Memory::Device;
    app.push(Body::Free(Free { call: free, memory, address: 0x10_0000, stream: 0, bytes: 0 }));
    app.idle(415_000);
    free.end = app.now;
    app.push(Body::Api(Api { call: free, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }));
    app.untimed(LAUNCH, kernel(ADD), Untimed::DeepQueue, 0);
    plain(&mut app, UNLOAD, 50_000);
    app
}

fn reported(app: App, filter: &Filter) -> ProcessReport {
    with_status(app, &texts(), filter, status())
}

fn with_status(app: App, names: &Names, filter: &Filter, status: Status) -> ProcessReport {
    let clocks = Survey::of(app.records.iter().cloned());
    let (path, status) = ("gpuspy-python-4242.gspy".to_owned(), Status { ended: app.now, ..status });
    let records = app.records.into_iter();
    let (status, damage) = (Some(&status), Damage::default());
    process(Input { path, names, status, damage, clocks: &clocks, filter, records })
}

#[test]
fn start_up_and_implicit_synchronization_are_reported() {
    let report = json(&[reported(cold(), &Filter::default())]);
    assert_valid(&report);
    let startup = &report["startup"];
    // The first kernel starts 9 µs after the return of its call, which returns 1 µs after the submission.
    let truth = 100_000 + 150_000 + 30_000 + 300_000 + 2_000 + 200_000 + 9_000;
    let first = |key: &str| startup["first_kernel_ns"][key].as_u64().unwrap();
    assert!(first("lo") <= truth && truth <= first("hi") && first("hi") - first("lo") < 50_000, "{startup}");
    let parts = startup["until_first_kernel_ns"].as_object().unwrap();
    let sum: u64 = parts.values().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!(startup["first_kernel_ns"]["value"], sum);
    let of = |part: &str| parts[part].as_u64().unwrap();
    assert_eq!([of("context"), of("load"), of("memory"), of("launch")], [250_000, 300_000, 2_000, 200_000]);
    assert_eq!(
        startup["loads"],
        value!([{ "library": "/opt/torch/lib/libtorch_cuda.so", "line": null, "count": 1, "host_ns": 300_000 }])
    );
    assert_eq!(startup["first_launches"]["excess_ns"], 195_000);
    assert_eq!(startup["module_loading"], "EAGER");

    let [unload, free] = report["implicit_syncs"].as_array().unwrap().as_slice() else {
        panic!("{}", report["implicit_syncs"])
    };
    assert_eq!([&free["api"], &free["cause"], &unload["api"]], ["cudaFree", "free", "cuModuleUnload"]);
    assert_eq!([&free["count"], &free["host_ns"]], [1, 415_000]);
    let waited = |key: &str| free["waited"][key].as_u64().unwrap();
    assert!(waited("lo") <= 409_000 && 409_000 <= waited("hi"), "{free}");
    assert!(waited("hi") <= 415_000 && waited("lo") > 380_000, "{free}");
    assert_eq!(unload["undecided"], value!({ "count": 1, "host_ns": 50_000 }));
    assert_eq!(unload["count"], 0);
}

/// Returns the row of frees; null if there is none.
fn free(report: &Value) -> &Value {
    let mut rows = report["implicit_syncs"].as_array().unwrap().iter();
    rows.find(|row| row["cause"] == "free").unwrap_or(&Value::Null)
}

#[test]
fn the_screen_shows_start_up_and_implicit_synchronization() {
    let sections = vec![Section::Startup, Section::Syncs];
    let view = View { sections, ..View::default() };
    insta::assert_snapshot!(terminal(&[reported(cold(), &Filter::default())], &view, &wide(100)));
}

#[test]
fn start_up_is_in_the_overview_where_it_matters() {
    let shows = |app: App| {
        terminal(&[reported(app, &Filter::default())], &everything(), &wide(100)).contains("\nStart-up")
    };
    assert!(shows(cold()));
    let mut long = cold();
    long.idle(60_000_000);
    assert!(!shows(long), "less than 5 % of wall time");
    let nothing = App::new();
    assert!(!shows(nothing));
}

#[test]
fn two_periods_add_up_to_the_whole() {
    let whole = json(&[reported(cold(), &Filter::default())]);
    let part = |since, until| json(&[reported(cold(), &Filter { since, until, ..Filter::default() })]);
    for cut in [200_000, 400_000, 700_000, 1_900_000] {
        let parts = [part(None, Some(cut)), part(Some(cut), None)];
        let sum = |of: fn(&Value) -> &Value| parts.iter().filter_map(|part| of(part).as_u64()).sum::<u64>();
        for of in [
            (|report| &report["startup"]["first_kernel_ns"]["value"]) as fn(&Value) -> &Value,
            |report| &report["startup"]["until_first_kernel_ns"]["load"],
            |report| &free(report)["count"],
        ] {
            assert_eq!(value!(sum(of)), *of(&whole), "{cut}");
        }
    }
}

/// Returns the sections of start-up and synchronization on one line.
fn said(report: ProcessReport) -> String {
    let sections = vec![Section::Startup, Section::Syncs];
    let screen = terminal(&[report], &View { sections, ..View::default() }, &wide(200));
    screen.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_period_after_start_up_is_reported_as_such() {
    let late = said(reported(cold(), &Filter { since: Some(1_000_000), ..Filter::default() }));
    assert!(late.contains("the start of the program is outside these filters"), "{late}");
    let none = said(reported(cold(), &Filter { until: Some(200_000), ..Filter::default() }));
    assert!(!none.contains("the start of the program is outside"), "{none}");

    let mut app = cold();
    let at = app.records.iter().position(|record| record.at > BEGAN + 1_000_000).unwrap();
    let begins = Record { thread: 1, at: app.records[at].at - 1, body: Body::CaptureEdge { begins: true } };
    app.records.insert(at, begins);
    let mut names = texts();
    names.0.insert((Namespace::Fact, Fact::CaptureRange as u32), "profiler-api".to_owned());
    let captured = said(with_status(app, &names, &Filter::default(), status()));
    assert!(captured.contains("the start of the program is outside the capture range"), "{captured}");
}

#[test]
fn start_up_is_the_same_for_every_filter_but_time() {
    let everything = Filter::default();
    let whole = reported(cold(), &everything).tables.startup;
    assert!(whole.is_some());
    let add = Some(regex::Regex::new("vector_add").unwrap());
    for filter in [
        Filter { kernel: add, ..everything.clone() },
        Filter { streams: vec![7], ..everything.clone() },
        Filter { threads: vec![1], ..everything.clone() },
        Filter { devices: vec![0], ..everything.clone() },
    ] {
        assert_eq!(reported(cold(), &filter).tables.startup, whole, "{filter:?}");
    }
    let limited = said(reported(cold(), &Filter { streams: vec![7], ..everything.clone() }));
    assert!(limited.contains("only those of time apply here"), "{limited}");
    assert!(!said(reported(cold(), &everything)).contains("only those of time apply here"));
}

/// A context takes half a millisecond; `agent_ns` of that may be profiling overhead.
#[test]
fn there_is_no_advice_about_a_context_that_profiling_slowed_down() {
    let screen = |agent_ns: u64| {
        let mut app = App::new();
        plain(&mut app, RETAIN, 500_000);
        launch(&mut app, 5_000, 20_000);
        said(with_status(app, &texts(), &Filter::default(), Status { agent_ns, ..status() }))
    };
    let (theirs, ours) = (screen(250_000), screen(250_001));
    assert!(theirs.contains("keep the process alive, so that it creates its context once"), "{theirs}");
    assert!(!ours.contains("keep the process alive"), "{ours}");
    assert!(ours.contains("at most 250 µs of the start-up is profiling overhead"), "{ours}");
    assert!(!screen(0).contains("of the start-up is profiling overhead"));
}

#[test]
fn calls_that_may_have_waited_are_counted_apart_from_those_that_did() {
    let mut app = App::new();
    app.untimed(LAUNCH, kernel(ADD), Untimed::DeepQueue, 0);
    plain(&mut app, UNLOAD, 50_000);
    let alone = said(reported(app, &Filter::default()));
    assert!(alone.contains("1 other call may have waited, for at most 50.0 µs of host time"), "{alone}");
    let beside = said(reported(cold(), &Filter::default()));
    assert!(beside.contains("1 more call may have waited too, for at most 50.0 µs"), "{beside}");
}
