//! NVTX ranges with the operations in them, and NVTX markers.

use super::*;

/// A program with a step that has a forward pass in it and a range of another domain across its end, inside a range of the
/// whole process.
fn steps() -> App {
    let mut app = App::new();
    app.range(2, NvtxChange::Start, 9, 0, EPOCH);
    app.push_range(STEP);
    app.timed(LAUNCH, kernel(GEMM), 0, 100_000);
    app.push_range(FORWARD);
    app.timed(LAUNCH, kernel(ADD), 95_000, 10_000);
    app.untimed(LAUNCH, kernel(ADD), Untimed::DeepQueue, 0);
    app.untimed(LAUNCH, kernel(ADD), Untimed::Captured, flag::CAPTURED);
    app.pop_range();
    app.range(1, NvtxChange::Push, 0, LOADER, FORWARD);
    app.timed(COPY, copy(Direction::DtoH, 0x5000, 0x10_0000, 4), 141_000, 2_000);
    app.pop_range();
    app.range(1, NvtxChange::Pop, 0, LOADER, 0);
    app.sync(200_000);
    app.pop_range();
    app.range(1, NvtxChange::End, 9, 0, 0);
    app.range(2, NvtxChange::End, 10, 0, 0);
    for text in [STEP, STEP, FORWARD] {
        app.range(1, NvtxChange::Mark, 0, LOADER, text);
    }
    app.push_range(STEP);
    app.idle(5_000);
    app
}

/// Returns the ranges by name, each with domain, name and the counts below.
fn rows(report: &Value) -> Vec<Value> {
    let keys = ["domain", "name", "count", "open", "projected", "operations", "timed", "launches"];
    let row = |row: &Value| keys.map(|key| row[key].clone()).into_iter().collect();
    report["ranges"].as_array().unwrap().iter().map(row).collect()
}

fn status_until(ended: u64) -> Status {
    Status { ended, threads: BTreeMap::from([(1, 11), (2, 12)]), ..status() }
}

fn reported(app: App, filter: &Filter) -> Value {
    let status = status_until(app.now);
    let report = json(&[app.report_of(filter, Some(&status), Damage::default())]);
    assert_valid(&report);
    report
}

#[test]
fn ranges_have_the_operations_whose_calls_start_in_them() {
    let report = reported(steps(), &Filter::default());
    let expected = [
        value!([null, "epoch", 1, 0, 1, 4, 3, 3]),
        value!([null, "forward", 1, 0, 1, 2, 1, 2]),
        value!([null, "step", 2, 1, 1, 4, 3, 3]),
        value!(["loader", "forward", 1, 0, 1, 1, 1, 0]),
    ];
    assert_eq!(rows(&report), expected);
    assert_eq!(report["coverage"]["stray_range_ends"], 2, "a pop and an end");
    let marker = |name: &str, count: u64, payloads: u64| value!({ "domain": "loader", "name": name, "count": count, "payloads": payloads });
    assert_eq!(report["markers"], value!([marker("forward", 1, 1), marker("step", 2, 0)]));
    let payloads = |name: &str| {
        let ranges = report["ranges"].as_array().unwrap().iter();
        ranges.filter(|row| row["name"] == name).map(|row| row["payloads"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((payloads("forward"), payloads("step")), (2, 0));
    let app = steps();
    let status = status_until(app.now);
    let screen = terminal(&[app.report(Some(&status), Damage::default())], &everything(), &wide(200));
    assert!(screen.contains("; 3 payloads not recorded"), "{screen}");
}

#[test]
fn a_range_ends_with_its_end_event_or_with_the_trace() {
    let report = reported(steps(), &Filter::default());
    let step = &report["ranges"][2];
    // Three launches and a copy of 5 µs each, a pause of 5 µs and 4 range events. The open step has 5 µs of idle time after its push.
    let first = 4 * 5_000 + 5_000 + 4 * 100;
    assert_eq!((&step["host_max_ns"], &step["host_min_ns"]), (&value!(first), &value!(5_100)));
    assert_eq!(step["host_ns"], first + 5_100);
}

#[test]
fn a_projection_spans_the_first_to_the_last_timed_operation() {
    let report = reported(steps(), &Filter::default());
    let gpu = |row: usize| report["ranges"][row]["gpu_ns"].clone();
    // The first kernel starts when its call submits it; the copy is submitted 20.3 µs later, waits 141 µs and takes 2 µs.
    let copy_over = 20_300 + 141_000 + 2_000;
    for (row, truth) in [(0, copy_over), (1, 10_000), (2, copy_over), (3, 2_000)] {
        let [lo, value, hi] = ["lo", "value", "hi"].map(|key| gpu(row)[key].as_i64().unwrap());
        assert!(lo <= truth && truth <= hi, "{truth} in [{lo}, {hi}]");
        assert!(value.abs_diff(truth) <= 1_000 && truth - lo <= 10_000, "{lo} {value} {hi} for {truth}");
        // In the others is a launch without a GPU time, which may have run last.
        assert_eq!(hi - truth <= 10_000, row == 3, "{hi} for {truth}");
    }
}

#[test]
fn a_period_has_the_complete_ranges_that_start_in_it() {
    let all = reported(steps(), &Filter::default());
    // Just after the push of the first step.
    let at =
        steps().records.iter().filter(|record| matches!(record.body, Body::NvtxRange(_))).nth(1).unwrap().at;
    let middle = Some(at - BEGAN + 1);
    let early = reported(steps(), &Filter { until: middle, ..Filter::default() });
    let late = reported(steps(), &Filter { since: middle, ..Filter::default() });
    assert_eq!(rows(&early), [all_but_the_open_step(&all, 0), all_but_the_open_step(&all, 2)]);
    let left = [rows(&all)[1].clone(), value!([null, "step", 1, 1, 0, 0, 0, 0]), rows(&all)[3].clone()];
    assert_eq!(rows(&late), left);
    assert_eq!(early["ranges"][1]["gpu_ns"], all["ranges"][2]["gpu_ns"]);
}

/// Returns a row of the whole report without the second step, which is empty.
fn all_but_the_open_step(all: &Value, row: usize) -> Value {
    let mut row = rows(all)[row].clone();
    (row[2], row[3]) = (value!(1), value!(0));
    row
}

#[test]
fn a_thread_filter_selects_ranges_and_a_kernel_filter_selects_operations() {
    let of_second = reported(steps(), &Filter { threads: vec![12], ..Filter::default() });
    assert_eq!(rows(&of_second), [value!([null, "epoch", 1, 0, 0, 0, 0, 0])], "it launched nothing itself");
    assert_eq!(of_second["coverage"]["stray_range_ends"], 1);
    let gemm = Filter { kernel: Some(regex::Regex::new("gemm").unwrap()), ..Filter::default() };
    let of_gemm = reported(steps(), &gemm);
    assert_eq!(rows(&of_gemm)[2], value!([null, "step", 2, 1, 1, 1, 1, 1]));
    assert_eq!(rows(&of_gemm)[1], value!([null, "forward", 1, 0, 0, 0, 0, 0]));
    assert_eq!(of_gemm["ranges"][1]["gpu_ns"], Value::Null);
}

#[test]
fn ranges_of_several_processes_add_up() {
    let status = status_until(steps().now);
    let reports = [(); 2].map(|()| steps().report(Some(&status), Damage::default()));
    let report = json(&reports);
    assert_valid(&report);
    assert_eq!(rows(&report)[2], value!([null, "step", 4, 2, 2, 8, 6, 6]));
    assert_eq!(
        (&report["markers"][1]["count"], &report["coverage"]["stray_range_ends"]),
        (&value!(4), &value!(4))
    );
}

#[test]
fn ranges_after_4096_names_share_one_row() {
    let mut app = App::new();
    for text in 0..5_000 {
        app.push_range(1_000 + text);
        app.pop_range();
    }
    // The texts are not in the trace: each number is a separate name to the analysis, and all print the same.
    let report = reported(app, &Filter::default());
    let counts: Vec<_> = rows(&report).iter().map(|row| (row[1].clone(), row[2].clone())).collect();
    assert_eq!(counts, [(value!("(no text)"), value!(4_096)), (value!("(others)"), value!(904))]);
}

#[test]
fn too_many_open_ranges_are_reported_and_their_ends_are_no_strays() {
    let mut app = App::new();
    (1..=300).for_each(|id| app.range(1, NvtxChange::Start, id, 0, STEP));
    (1..=300).for_each(|id| app.range(1, NvtxChange::End, id, 0, 0));
    let status = status_until(app.now);
    let reports = [app.report(Some(&status), Damage::default())];
    let report = json(&reports);
    assert_valid(&report);
    assert_eq!(rows(&report), [value!([null, "step", 256, 0, 0, 0, 0, 0])]);
    let coverage = &report["coverage"];
    assert_eq!((&coverage["stray_range_ends"], &coverage["ranges_not_followed"]), (&value!(0), &value!(44)));
    let screen = terminal(&reports, &everything(), &wide(100));
    assert!(screen.contains("256 ranges; 44 more are not listed"), "{screen}");
}

/// The first of such markers was said to be all of them, and the others had their own names.
#[test]
fn numbered_markers_are_one_row() {
    let (mut app, mut names) = (App::new(), names());
    for epoch in 1..=6 {
        names.0.insert((Namespace::NvtxRange, 10 + epoch), format!("epoch#{epoch}"));
        app.range(1, NvtxChange::Mark, 0, 0, 10 + epoch);
    }
    let status = status_until(app.now);
    let report = json(&reports_of(vec![(app, names, status)], &Filter::default()));
    let marker = value!({ "domain": null, "name": "epoch#*", "count": 6, "payloads": 0 });
    assert_eq!(report["markers"], value!([marker]));
}

/// `ProfilerStep#0`, `ProfilerStep#1` and so on had a row each, and hid all other ranges.
#[test]
fn numbered_ranges_are_one_row() {
    let (mut app, mut names) = (App::new(), names());
    for step in 0..20 {
        names.0.insert((Namespace::NvtxRange, 10 + step), format!("ProfilerStep#{step}"));
        app.push_range(10 + step);
        app.timed(LAUNCH, kernel(GEMM), 0, 100_000);
        app.sync(110_000);
        app.pop_range();
        app.push_range(FORWARD);
        app.pop_range();
    }
    let status = status_until(app.now);
    let report = json(&reports_of(vec![(app, names, status)], &Filter::default()));
    let expected = [
        value!([null, "ProfilerStep#*", 20, 0, 20, 20, 20, 20]),
        value!([null, "forward", 20, 0, 0, 0, 0, 0]),
    ];
    assert_eq!(rows(&report), expected);
}
