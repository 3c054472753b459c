//! Parts of a run in time: what the tables say of a part agrees with what the GPU did in it.

use super::processes::value_of;
use super::*;

/// Launches in the run of [`deep`].
const RUN: u32 = 20;
/// How long each of its kernels takes, ns.
const EACH: i64 = 100_000;

/// Pushes work that starts when the work before it is over, at host ns `over`, and takes `ns`.
fn queued(app: &mut App, over: &mut i64, (api, what): (u16, What), ns: i64) {
    let submitted = app.now as i64 + 4_000;
    app.timed(api, what, *over - submitted, ns);
    *over += ns;
}

/// A program whose launches are far ahead of the GPU: some that are timed alone, a run, and some again. Then it waits. `launched` is called
/// before it waits. Returns when the run starts: host ns.
fn deep(app: &mut App, launched: impl FnOnce(&mut App)) -> i64 {
    // Before that it is not ahead, which shows how the clocks of host and GPU relate.
    app.timed(LAUNCH, kernel(ADD), 0, 20_000);
    app.sync(20_000);
    let mut over = app.now as i64 + 1_000_000;
    for _ in 0..10 {
        queued(app, &mut over, (LAUNCH, kernel(GEMM)), EACH);
    }
    let start = over;
    for _ in 0..RUN {
        app.untimed(LAUNCH, kernel(GEMM), Untimed::Run, flag::BURST);
    }
    let run = What::Burst { launches: RUN, ordinary: RUN, closing: 0 };
    queued(app, &mut over, (0, run), i64::from(RUN) * EACH);
    for _ in 0..10 {
        queued(app, &mut over, (LAUNCH, kernel(GEMM)), EACH);
    }
    launched(app);
    let wait = over as u64 - app.now + 5_000;
    app.sync(wait);
    start
}

/// With `--since`, launches of runs were placed by their calls and the runs by the GPU: in half of a program the GPU computed all
/// the time, and no kernel was launched.
#[test]
fn the_kernels_of_a_part_are_those_that_the_gpu_ran_in_it() {
    let report = |since, until| {
        let mut app = App::new();
        let start = deep(&mut app, |_| ());
        let status = Status { ended: app.now, ..status() };
        let report = json(&[app.report_of(
            &Filter { since, until, ..Filter::default() },
            Some(&status),
            Damage::default(),
        )]);
        assert_valid(&report);
        (report, start as u64 - BEGAN)
    };
    let (_, start) = report(None, None);
    // A quarter of the run has started.
    let cut = start + u64::from(RUN) / 4 * EACH as u64 - EACH as u64 / 2;
    let [early, late] = [report(None, Some(cut)).0, report(Some(cut), None).0];
    let launches = |report: &Value| report["coverage"]["launches"].as_u64().unwrap();
    let (before, after) = (u64::from(RUN) / 4, u64::from(RUN) * 3 / 4);
    assert_eq!((launches(&early), launches(&late)), (11 + before, after + 10));
    assert_eq!(late["kernels"][0]["count"], value!(after + 10));
    assert_eq!(late["coverage"]["runs"]["launches"], value!(after), "its launches, though it began before");
    let compute = value_of(&late["devices"][0], "compute_ns");
    let by_kernels = value_of(&late["kernels"][0], "total_ns");
    assert!(compute.abs_diff(by_kernels) <= EACH as u64, "{compute} and {by_kernels}");
}

/// Launches in a capture range that ran after it were in no table, and coverage said that all were recorded and timed; for a GPU
/// that idled in the range, the advice was a machine with idle processors.
#[test]
fn launches_in_a_capture_range_that_run_after_it_are_counted() {
    let mut names = names();
    names.0.insert((Namespace::Fact, Fact::CaptureRange as u32), "nvtx:step".to_owned());
    let report = |waits_inside: bool| {
        let mut app = App::new();
        app.push(Body::CaptureEdge { begins: true });
        app.push_range(STEP);
        let end = |app: &mut App| {
            app.pop_range();
            app.push(Body::CaptureEdge { begins: false });
        };
        deep(&mut app, |app| {
            if !waits_inside {
                end(app)
            }
        });
        if waits_inside {
            end(&mut app);
        }
        let status = Status { ended: app.now, ..status() };
        let reports = reports_of(vec![(app, names.clone(), status)], &Filter::default());
        let screen = terminal(&reports, &everything(), &wide(200));
        (json(&reports), screen.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let launches = u64::from(RUN) + 21;
    let (late, screen) = report(false);
    assert_valid(&late);
    assert_eq!(late["coverage"]["ran_after_range"], value!({ "launches": launches - 1, "others": 0 }));
    assert_eq!(late["coverage"]["launches"], value!(1), "the one that the program waited for");
    let text = value!([
        "No verdict: 97.6 % of the launches in the capture range ran after it.",
        "Synchronize before the end of the range, and run again.",
    ]);
    assert_eq!(late["verdict"]["text"], text);
    assert!(
        screen.contains("1 launch: 100 % recorded, 100.0 % timed; 40 more ran after the capture range"),
        "{screen}"
    );
    assert!(
        screen.contains("40 operations ran after the capture range and are in no other table"),
        "{screen}"
    );
    assert_eq!(late["ranges"][0]["operations"], value!(launches), "all that it called");

    let (whole, screen) = report(true);
    assert_eq!(whole["coverage"]["ran_after_range"], value!({ "launches": 0, "others": 0 }));
    assert_eq!(whole["coverage"]["launches"], value!(launches));
    assert!(!screen.contains("after the capture range"), "{screen}");
}

/// Pushes ten kernels, for each of which the program waits, and a pause of 200 ms.
fn works_and_sleeps(app: &mut App) {
    for _ in 0..10 {
        app.timed(LAUNCH, kernel(GEMM), 0, EACH);
        app.sync(EACH as u64);
    }
    app.now += 200_000_000;
}

/// The idle time behind the last wait of a range was undecided, whatever the host did: no verdict, and the advice could not help.
#[test]
fn idle_time_at_the_end_of_a_capture_range_is_outside_cuda_where_the_host_is() {
    let mut names = names();
    names.0.insert((Namespace::Fact, Fact::CaptureRange as u32), "profiler-api".to_owned());
    let mut app = App::new();
    for _ in 0..2 {
        app.push(Body::CaptureEdge { begins: true });
        works_and_sleeps(&mut app);
        app.push(Body::CaptureEdge { begins: false });
        app.now += 50_000_000;
    }
    let status = Status { ended: app.now, ..status() };
    let report = json(&reports_of(vec![(app, names, status)], &Filter::default()));
    assert_valid(&report);
    let causes = report["idle"]["by_cause"].as_array().unwrap();
    let outside = causes.iter().find(|part| part["cause"] == "outside_cuda").unwrap();
    let outside = value_of(outside, "total_ns");
    let idle = value_of(&report["devices"][0], "idle_ns");
    assert!(outside >= 2 * 199_000_000 && outside <= idle, "{outside} of {idle}");
    assert!(idle < 2 * 201_000_000, "{idle}: without the time between the ranges");
    let verdict = report["verdict"]["text"][0].as_str().unwrap();
    assert!(verdict.starts_with("Host-bound: "), "{verdict}");
}

/// All windows of time of a program were reported as a capture range: its last seconds, in which the GPU had nothing to do, were idle
/// time without a cause.
#[test]
fn all_windows_of_a_run_are_reported_as_the_run() {
    let report = |window: Option<u64>| {
        let mut names = names();
        let mut app = App::new();
        if let Some(before) = window {
            names.0.insert((Namespace::Fact, Fact::Window as u32), before.to_string());
            names.0.insert((Namespace::Fact, Fact::CaptureRange as u32), window_text(600));
            let edge = Body::CaptureEdge { begins: true };
            app.records.insert(0, Record { thread: 0, at: BEGAN, body: edge });
        }
        works_and_sleeps(&mut app);
        let status = Status { ended: app.now, ..status() };
        json(&reports_of(vec![(app, names, status)], &Filter::default()))
    };
    let [run, windows, rest] = [None, Some(0), Some(3)].map(report);
    assert_eq!(windows["verdict"], run["verdict"]);
    assert_eq!(windows["devices"], run["devices"]);
    assert_eq!(windows["idle"], run["idle"]);
    let span = |report: &Value| report["devices"][0]["span_ns"].as_u64().unwrap();
    assert!(span(&run) < 200_000_000 && span(&rest) > 200_000_000, "of a part, all of its time counts");
}
