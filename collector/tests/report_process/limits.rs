//! Filters: only what matches counts, and what a report says of a part of a trace is true of that part.

use super::*;
use gpuspy_collector::export::chrome::Chrome;
use gpuspy_collector::export::timeline::{Export, Source, lay_out};
use gpuspy_collector::report::units::duration;
use gpuspy_collector::report::{Operations, Section};

/// Makes launches that are timed as one burst, and the record of their time.
fn burst(app: &mut App, kernels: &[u32]) {
    for name in kernels {
        app.untimed(LAUNCH, kernel(*name), Untimed::Programmatic, flag::BURST);
    }
    let launches = kernels.len() as u32;
    app.timed(0, What::Burst { launches, ordinary: 0, closing: 0 }, 0, 30_000);
}

fn only(pattern: &str) -> Filter {
    Filter { kernel: Some(regex::Regex::new(pattern).unwrap()), ..Filter::default() }
}

#[test]
fn a_burst_can_be_next_to_a_gap() {
    let mut app = App::new();
    burst(&mut app, &[GEMM, ADD]);
    app.sync(100_000);
    app.idle(2_000_000);
    app.timed(LAUNCH, kernel(GEMM), 0, 50_000);
    let report = json(&[app.report(None, Damage::default())]);
    assert_valid(&report);
    assert_eq!(report["gaps"]["largest"][0]["before"]["kind"], "burst");
}

#[test]
fn matching_kernels_of_bursts_and_graphs_are_counted() {
    let mut app = App::new();
    burst(&mut app, &[GEMM, ADD, ADD]);
    let (handle, copies, memsets) = (5, 1, 0);
    app.push(Body::Graph(Graph { graph: 1, handle, kernels: 5, copies, memsets, others: 1 }));
    for (name, count) in [(GEMM, 2), (ADD, 3)] {
        let kind = NodeKind::Kernel;
        app.push(Body::GraphNode(GraphNode { graph: 1, kind, kernel: name, count, bytes: 0, address: 0 }));
    }
    app.timed(GRAPH_LAUNCH, What::Graph { graph: 1, handle, kernels: 5, copies, memsets }, 0, 40_000);
    let reports = [app.report_of(&only("gemm"), None, Damage::default())];
    let report = json(&reports);
    assert_valid(&report);
    let (coverage, graphs) = (&report["coverage"], &report["graphs"]);
    assert_eq!((&coverage["launches"], &coverage["bursts"]["launches"]), (&value!(1), &value!(1)));
    assert_eq!((&coverage["in_graphs"], &graphs["kernels"]), (&value!(2), &value!(2)));
    assert_eq!(
        (&graphs["launches"], &graphs["copies"]["count"], &graphs["others"]),
        (&value!(1), &value!(0), &value!(0))
    );
    let names: Vec<&str> =
        report["kernels"].as_array().unwrap().iter().filter_map(|row| row["symbol"].as_str()).collect();
    assert_eq!(names, [names_of(GEMM)]);
}

fn names_of(kernel: u32) -> String {
    names().get(Namespace::Kernel, kernel).unwrap().to_owned()
}

#[test]
fn an_out_of_memory_failure_counts_for_its_thread_and_device() {
    let report = |filter: &Filter| {
        let mut app = App::new();
        let call = Call { flags: flag::FAILED, ..app.call(MALLOC, 2_000) };
        app.push(Body::Api(Api { call, result: 2, subject: 0, calls: 1, inside: 0, entered: 0 }));
        let status = Status { threads: BTreeMap::from([(1, 900)]), ..status() };
        app.report_of(filter, Some(&status), Damage::default()).tables.memory.out_of_memory
    };
    let everything = Filter::default();
    assert_eq!(report(&everything), 1);
    assert_eq!(report(&Filter { threads: vec![900], ..everything.clone() }), 1);
    assert_eq!(report(&Filter { threads: vec![901], ..everything.clone() }), 0);
    assert_eq!(report(&Filter { devices: vec![1], ..everything.clone() }), 0);
    assert_eq!(report(&Filter { devices: vec![0], ..everything.clone() }), 1);
    assert_eq!(report(&Filter { until: Some(1), ..everything }), 0);
    assert_eq!(report(&only("gemm")), 0);
}

/// Returns two launches, of which the call of the first starts first and returns last.
fn crossing() -> Vec<Record> {
    let mut app = App::new();
    let mut long = app.work(LAUNCH, kernel(GEMM), Untimed::DeepQueue);
    app.idle(60_000);
    app.untimed(LAUNCH, kernel(ADD), Untimed::DeepQueue, 0);
    app.idle(100_000);
    long.call.end = app.now;
    app.push(Body::Work(long));
    app.records.into_iter().filter(|record| matches!(record.body, Body::Work(_))).collect()
}

#[test]
fn without_a_status_time_counts_from_the_earliest_call() {
    let (names, records) = (names(), crossing());
    let clocks = Survey::of(records.iter().cloned());
    for (until, expected) in [(50_000, 1), (70_000, 2)] {
        let filter = Filter { until: Some(until), ..Filter::default() };
        let (path, damage) = (String::new(), Damage::default());
        let (clocks, filter, names) = (&clocks, &filter, &names);
        let records = || records.iter().cloned();
        let report = process(Input { path, names, status: None, damage, clocks, filter, records: records() });
        assert_eq!(report.tables.coverage.launches, expected, "report");
        let mut operations = Operations::new(names, clocks, None, filter);
        assert_eq!(records().filter_map(|record| operations.observe(&record)).count() as u64, expected);
        let mut source =
            [Source::of(names.clone(), None, |observe| records().for_each(|record| observe(&record)))];
        lay_out(&mut [&mut source[0]], filter);
        let mut export = Export::begin(Chrome::new(Vec::new()), &source).unwrap();
        export.process(0, &source[0], records()).unwrap();
        assert_eq!(export.finish().unwrap().1.calls, expected, "export");
    }
}

#[test]
fn time_after_the_last_status_counts_too() {
    let app = training();
    let last = app.now;
    let running = Status { ended: BEGAN + 50_000, ending: Ending::Running, ..status() };
    let report = app.report(Some(&running), Damage { cut: true, ..Damage::default() });
    assert_eq!(report.process.line.wall_ns, last - BEGAN);
    let mut app = App::new();
    app.timed(LAUNCH, kernel(GEMM), 0, 900_000);
    let seen = app.records.last().map(|record| match &record.body {
        Body::Work(work) => work.gpu.as_ref().unwrap().seen,
        other => panic!("{other:?}"),
    });
    let report = app.report(Some(&running), Damage::default());
    assert_eq!(
        Some(report.process.line.wall_ns + BEGAN),
        seen,
        "the kernel ran after its launch had returned"
    );
    let screen = terminal(&[report], &everything(), &wide(100));
    let wall = screen.lines().find(|line| line.contains("= wall")).unwrap();
    assert!(wall.contains(&duration(seen.unwrap() - BEGAN)), "{screen}");
}

/// A program with a long kernel, a pause, and another kernel.
fn long_and_short() -> App {
    let mut app = App::new();
    app.timed(LAUNCH, kernel(GEMM), 0, 10_000_000);
    app.sync(10_100_000);
    app.idle(5_000_000);
    app.timed(LAUNCH, kernel(ADD), 0, 50_000);
    app.sync(100_000);
    app
}

/// Returns the screen and the JSON of the period between two times, in ms.
fn part(app: App, from: u64, to: u64, sections: &[Section]) -> (String, Value) {
    let status = Status { ended: app.now, ..status() };
    let filter = Filter { since: Some(from * 1_000_000), until: Some(to * 1_000_000), ..Filter::default() };
    let reports = [app.report_of(&filter, Some(&status), Damage::default())];
    let view = View { sections: sections.to_vec(), ..View::default() };
    (terminal(&reports, &view, &wide(100)), json(&reports))
}

#[test]
fn a_period_inside_a_long_kernel_is_not_empty() {
    let (screen, json) = part(long_and_short(), 3, 5, &[Section::Gpu]);
    assert_eq!(json["devices"][0]["compute_ns"]["value"], 2_000_000);
    assert!(!screen.contains("Nothing") && screen.contains("busy 100.0 %"), "{screen}");
}

#[test]
fn a_trace_with_ranges_only_is_not_empty() {
    let mut app = App::new();
    app.push_range(STEP);
    app.idle(5_000);
    app.pop_range();
    let screen = terminal(&[app.report(None, Damage::default())], &everything(), &wide(100));
    assert!(screen.contains("1 range") && !screen.contains("Nothing"), "{screen}");
}

#[test]
fn between_timed_operations_a_gpu_is_known_to_be_idle() {
    let (screen, json) = part(long_and_short(), 11, 14, &[Section::Gpu]);
    assert_eq!(json["devices"][0]["idle_ns"]["value"], 3_000_000);
    assert!(screen.contains("busy 0.0 % and idle 100.0 %"), "{screen}");
    assert!(!screen.contains("no operation has a GPU time"), "{screen}");
}

#[test]
fn with_shared_intervals_only_the_busy_time_is_not_known() {
    let mut app = App::new();
    app.timed(LAUNCH, kernel(GEMM), 0, 900_000);
    app.sync(1_000_000);
    if let Some(Body::Work(Work { gpu: Some(gpu), .. })) =
        app.records.iter_mut().rev().map(|r| &mut r.body).find(|body| matches!(body, Body::Work(_)))
    {
        gpu.flags |= flag::SHARED_INTERVAL;
    }
    let report = app.report(None, Damage::default());
    let screen = terminal(&[report], &everything(), &wide(100));
    assert!(screen.contains("busy time not known"), "{screen}");
}

#[test]
fn an_empty_section_mentions_the_filters() {
    let sections = [Section::Gpu, Section::Gaps, Section::Kernels, Section::Transfers, Section::Memory];
    let (screen, _) = part(long_and_short(), 11, 14, &sections);
    for said in ["no kernel was launched", "no copy and no memset was made", "no memory was allocated"] {
        assert!(screen.contains(&format!("{said} with these filters")), "{said}: {screen}");
    }
    let mut app = long_and_short();
    app.idle(5_000_000);
    app.sync(1_000);
    let (screen, _) = part(app, 18, 30, &sections);
    assert!(screen.contains("no operation has a GPU time with these filters"), "{screen}");
}
