//! Two runs compared: figures with known answers, what is not a change, and the screen.

use super::*;
use gpuspy_collector::analyze::gpu_errors::{GpuErrors, Stopped};
use gpuspy_collector::analyze::idle::{Cause, Part};
use gpuspy_collector::analyze::steps::{Contents, HostTimes, StepTimes, Steps, TimedOn};
use gpuspy_collector::analyze::together::Together;
use gpuspy_collector::model::outcome::Outcome;
use gpuspy_collector::model::steps::Source;
use gpuspy_collector::report::{Diff, DiffRun, DiffSection, DiffView, terminal_diff};
use std::sync::Arc;

/// A loop: each step copies, launches `gemm` ns of work and, if asked to, small kernels, and waits.
fn steps(count: u64, gemm: i64, adds: u32) -> App {
    let mut app = App::new();
    app.alloc(MALLOC, Memory::Device, 0x10_0000, 4 << 20);
    for _ in 0..count {
        app.timed(COPY, copy(Direction::HtoD, 0x10_0000, 0x9000, 1 << 20), 0, 40_000);
        app.timed(LAUNCH, kernel(GEMM), 36_000, gemm);
        for _ in 0..adds {
            app.timed(LAUNCH, kernel(ADD), gemm + 40_000, 5_000);
        }
        app.sync(gemm as u64 + 60_000);
        app.idle(30_000);
    }
    app
}

/// Reports a loop whose steps are known to take `median` ns.
fn stepped(count: u64, gemm: i64, adds: u32, median: u64) -> ProcessReport {
    let app = steps(count, gemm, adds);
    let status = Status { ended: app.now, ..status() };
    let mut report = app.report(Some(&status), Damage::default());
    let mean = median as f64;
    let time = StepTimes {
        mean,
        std: mean / 100.0,
        median,
        p95: median + median / 60,
        p99: median + median / 43,
        min: median - median / 50,
        max: median + median / 40,
        drift: 0.0,
        measured: count - 1,
    };
    report.tables.steps = Steps {
        count,
        source: Some(Source::Launches),
        launches: 1 + u64::from(adds),
        warm_up: 1,
        time: Some(time),
        timed_on: Some(TimedOn::Gpu),
        on_host: Some(HostTimes { mean, std: mean / 100.0, count }),
        contents: Contents {
            busy: mean * 0.7,
            idle: mean * 0.3,
            idle_by_cause: [
                (Cause::ExplicitSync, 20_000.0),
                (Cause::OutsideCuda, 30_000.0 * f64::from(adds)),
            ]
            .into(),
            syncs: 1.0,
            copies: 1.0,
            ..Contents::default()
        },
        ..Steps::default()
    };
    let part = |total| Part { count, total: Sum { value: total, lo: total / 2, hi: total * 2 } };
    report.tables.idle.by_cause.insert(Cause::ExplicitSync, part(count * 20_000));
    report.tables.idle.by_cause.insert(Cause::OutsideCuda, part(count * 30_000 * u64::from(adds)));
    report
}

/// Reports a loop of which no steps are known.
fn plain(count: u64, gemm: i64) -> ProcessReport {
    let app = steps(count, gemm, 0);
    let status = Status { ended: app.now, ..status() };
    let mut report = app.report(Some(&status), Damage::default());
    report.tables.steps = Steps::default();
    report
}

fn run<'a>(path: &'a str, reports: &'a [ProcessReport]) -> DiffRun<'a> {
    DiffRun { path, reports, sums: None, unread: &[], is_window: false, is_part: false }
}

fn compared(before: &[ProcessReport], after: &[ProcessReport]) -> (Diff, Value) {
    let diff = Diff::of(run("before.gspy", before), run("runs/after.gspy", after));
    let value: Value = serde_json::from_str(&diff.json()).unwrap();
    let schema: Value = serde_json::from_str(include_str!("../../schema/diff.schema.json")).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (diff, value)
}

fn drawn(diff: &Diff, width: usize) -> String {
    terminal_diff(diff, &DiffView::default(), &wide(width))
}

/// Returns every change in a value that is not 0, with its place.
fn changes(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            if key == "change" && value.as_f64().is_some_and(|change| change != 0.0) {
                found.push(format!("{place}: {value}"));
            }
            changes(value, &format!("{place}/{key}"), found);
        }),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(at, v)| changes(v, &format!("{place}/{at}"), found))
        }
        _ => {}
    }
}

#[test]
fn a_run_compared_with_itself_has_not_changed_at_all() {
    for report in [stepped(40, 200_000, 3, 300_000), plain(40, 200_000)] {
        let run = [report];
        let (diff, value) = compared(&run, &run);
        let mut found = Vec::new();
        changes(&value, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!((&value["change"]["verdict"], &value["change"]["share"]), (&value!("same"), &value!(0.0)));
        assert_eq!(value["warnings"], value!([]));
        let screen = drawn(&diff, 100);
        assert!(screen.starts_with("There is no change: "), "{screen}");
        assert!(screen.contains("Kernels    no change: "), "{screen}");
    }
}

#[test]
fn runs_of_different_length_are_compared_by_the_step() {
    let (before, after) = ([stepped(40, 200_000, 3, 300_000)], [stepped(80, 100_000, 3, 200_000)]);
    let (_, value) = compared(&before, &after);
    assert_eq!((&value["per"], &value["change"]["basis"]), (&value!("step"), &value!("step")));
    assert_eq!(value["change"]["speedup"], value!(1.5));
    assert_eq!(value["warnings"], value!([]), "twice as many steps are no other work");
    let kernels = value["kernels"].as_array().unwrap();
    let gemm = kernels.iter().find(|row| row["name"].as_str().unwrap().contains("gemm")).unwrap();
    let each =
        |row: &Value, key: &str| [row[key]["before"]["value"].clone(), row[key]["after"]["value"].clone()];
    assert_eq!(each(gemm, "count"), [value!(1.0), value!(1.0)]);
    assert_eq!(each(gemm, "total_ns"), [value!(200_000.0), value!(100_000.0)]);
    assert_eq!((&gemm["state"], &gemm["total_ns"]["is_certain"]), (&value!("both"), &value!(true)));
    let add = kernels.iter().find(|row| row["name"] == "vector_add").unwrap();
    assert_eq!(each(add, "count"), [value!(3.0), value!(3.0)]);
    assert_eq!(value["transfers"][0]["bytes"]["change"], value!(0.0));
    assert_eq!(value["syncs"][0]["waited_ns"]["change"], value!(-100_000.0));
    let wait = value["idle"].as_array().unwrap().iter().find(|row| row["cause"] == "explicit_sync").unwrap();
    assert_eq!(each(wait, "total_ns"), [value!(20_000.0), value!(20_000.0)]);
    // The gain of a step, times the steps before the change.
    assert_eq!(value["findings"]["gained_ns"], value!(40.0 * 100_000.0));
}

/// Figures per step were sums over the ranks, beside those of a step of one rank: with one rank more, kernels took 50 % more time.
#[test]
fn figures_of_a_step_are_of_one_rank_however_many_there_are() {
    let of = |ranks: u32| {
        let mut reports: Vec<ProcessReport> = (0..ranks).map(|_| stepped(40, 200_000, 3, 300_000)).collect();
        for (rank, report) in (0..).zip(&mut reports) {
            report.process.job.rank = Some(rank);
        }
        reports
    };
    let (diff, value) = compared(&of(2), &of(3));
    assert_eq!((&value["per"], &value["before"]["all_steps"]), (&value!("step"), &value!(80)));
    let gemm = value["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"].as_str().unwrap().contains("gemm"))
        .unwrap();
    assert_eq!((&gemm["count"]["before"]["value"], &gemm["count"]["change"]), (&value!(1.0), &value!(0.0)));
    assert_eq!(gemm["total_ns"]["change"], 0.0);
    let idle = value["idle"].as_array().unwrap().iter().find(|row| row["cause"] == "outside_cuda").unwrap();
    assert_eq!(idle["total_ns"]["change"], value!(0.0));
    let screen = drawn(&diff, 100);
    assert!(screen.contains("idle time per step of a process, by cause"), "{screen}");
}

/// Of runs without steps, --since 100ms --until 300ms selected 200 ms of both, which were "exactly as before".
#[test]
fn windows_of_time_without_steps_are_not_compared_by_their_length() {
    let (before, after) = ([plain(20, 200_000)], [plain(20, 400_000)]);
    let of = |before, after| {
        let window = |reports| DiffRun { is_window: true, ..run("x.gspy", reports) };
        Diff::of(window(before), window(after))
    };
    for diff in [of(&before, &after), of(&before, &before)] {
        let value: Value = serde_json::from_str(&diff.json()).unwrap();
        let change = &value["change"];
        assert_eq!((&change["verdict"], &change["share"]), (&value!("unknown"), &Value::Null), "{change}");
        assert!(change["text"].as_str().unwrap().starts_with("Nothing can be said of the change: "));
        assert_eq!((&value["findings"]["gained_ns"], &value["warnings"]), (&Value::Null, &value!([])));
        assert!(!diff.change.is_slower_than(0.0));
        assert!(drawn(&diff, 100).starts_with("Nothing can be said of the change: "));
    }
    let (steady, faster) = ([stepped(40, 200_000, 3, 300_000)], [stepped(40, 100_000, 3, 200_000)]);
    let change = of(&steady, &faster).change;
    assert_eq!(change.speedup, Some(1.5), "steps in a window are compared: {change:?}");
}

/// The median of the steps would be 50 times as long.
#[test]
fn runs_whose_steps_may_not_be_the_same_work_are_compared_whole() {
    let (before, after) = ([stepped(400, 20_000, 7, 100_000)], [stepped(34, 200_000, 92, 5_000_000)]);
    let (diff, value) = compared(&before, &after);
    let change = &value["change"];
    assert_eq!(
        (&value["per"], &change["basis"], &change["noise_ns"]),
        (&value!("run"), &value!("gpu"), &Value::Null)
    );
    assert!(!diff.change.is_slower_than(0.0), "{change}");
    let why = "a step may not be the same work in both (400 of 8 launches before, 34 of 93 after): whole runs are compared";
    assert_eq!(warnings(&value), [why]);
    let copies = &value["transfers"][0]["count"];
    assert_eq!((&copies["before"]["value"], &copies["after"]["value"]), (&value!(400.0), &value!(34.0)));
}

#[test]
fn set_up_is_compared_by_the_run() {
    let of = |count| {
        let mut report = stepped(count, 200_000, 3, 300_000);
        let total = Sum { value: 2_000_000_000, lo: 2_000_000_000, hi: 2_000_000_000 };
        report.tables.idle.by_cause.insert(Cause::SetUp, Part { count: 1, total });
        [report]
    };
    let (diff, value) = compared(&of(40), &of(80));
    let row = value["idle"].as_array().unwrap().iter().find(|row| row["cause"] == "set_up").unwrap();
    assert_eq!((&value["per"], &row["per"]), (&value!("step"), &value!("run")));
    assert_eq!(row["total_ns"]["change"], value!(0.0));
    let view = DiffView { sections: vec![DiffSection::Idle], top: None };
    let screen = terminal_diff(&diff, &view, &wide(100));
    assert!(screen.contains("set up (of the run)") && screen.contains("outside cuda  "), "{screen}");
}

#[test]
fn without_steps_whole_runs_are_compared_and_the_noise_is_unknown() {
    let (before, after) = ([plain(20, 200_000)], [plain(30, 200_000)]);
    let (diff, value) = compared(&before, &after);
    let change = &value["change"];
    assert_eq!(
        (&value["per"], &change["basis"], &change["noise_ns"]),
        (&value!("run"), &value!("gpu"), &Value::Null)
    );
    assert_eq!(change["verdict"], value!("slower"));
    let text = change["text"].as_str().unwrap();
    assert!(text.contains("the noise is not known"), "{text}");
    let warning = value["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("no steps were found, and the kernels launched differ by +50 %"),
        "{warning}"
    );
    assert!(diff.change.is_slower_than(40.0) && !diff.change.is_slower_than(60.0));
}

#[test]
fn a_difference_within_the_noise_is_no_change() {
    let (before, after) = ([stepped(40, 200_000, 3, 300_000)], [stepped(40, 201_000, 3, 302_000)]);
    let (diff, value) = compared(&before, &after);
    assert_eq!(value["change"]["verdict"], value!("noise"));
    assert!(drawn(&diff, 100).starts_with("There is no change beyond the noise: 302 µs per step"));
    assert!(!diff.change.is_slower_than(0.0), "noise never fails a comparison");
}

#[test]
fn kernels_appear_vanish_or_change() {
    let (before, after) = ([stepped(40, 200_000, 3, 300_000)], [stepped(40, 200_000, 0, 260_000)]);
    let (_, value) = compared(&before, &after);
    let add = &value["kernels"][0];
    assert_eq!((&add["name"], &add["state"]), (&value!("vector_add"), &value!("vanished")));
    assert_eq!((&add["total_ns"]["change"], &add["count"]["change"]), (&value!(-15_000.0), &value!(-3.0)));
    let (_, back) = compared(&after, &before);
    assert_eq!(back["kernels"][0]["state"], value!("appeared"));
    assert_eq!(back["kernels"][0]["total_ns"]["change_share"], Value::Null);
}

#[test]
fn an_uncertain_change_is_marked() {
    let (before, after) = ([stepped(40, 200_000, 1, 300_000)], [stepped(40, 200_000, 2, 300_000)]);
    let (diff, value) = compared(&before, &after);
    let row = value["idle"].as_array().unwrap().iter().find(|row| row["cause"] == "outside_cuda").unwrap();
    assert_eq!(row["total_ns"]["change"], value!(30_000.0));
    assert_eq!(row["total_ns"]["is_certain"], value!(false), "15 to 60 µs, and 30 to 120 µs");
    let screen = drawn(&diff, 100);
    assert!(screen.contains("+30.0 µs (?)") && screen.contains("(?) marks a change"), "{screen}");
}

fn warnings(value: &Value) -> Vec<&str> {
    value["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap()).collect()
}

#[test]
fn circumstances_that_differ_are_warned_about() {
    let before = [stepped(40, 200_000, 3, 300_000)];
    let mut other = stepped(40, 200_000, 3, 300_000);
    other.process.command = Some("python other.py".to_owned());
    other.process.driver_version = Some(13_010);
    other.process.filter = "device 0".to_owned();
    other.process.damage.cut = true;
    other.tables.devices[0].name = Some("NVIDIA A100".to_owned());
    other.tables.coverage.timed /= 4;
    other.tables.steps.count = 7;
    other.tables.steps.launches = 50;
    let (_, same) = compared(&before, &before);
    assert_eq!(same["warnings"], value!([]));
    let mut known = before.clone();
    known[0].process.driver_version = Some(12_090);
    let mut another = other.clone();
    is_of(&mut another, 4243);
    let (_, value) = compared(&known, &[other.clone(), another]);
    let said = warnings(&value);
    for expected in [
        "the command differs: python train.py before, python other.py after",
        "the number of processes differs: 1 before, 2 after",
        "the GPU differs: NVIDIA H200 before, NVIDIA A100 after",
        "the driver differs: 12.9 before, 13.1 after",
        "the filter differs: none before, device 0 after",
        "the share of launches that were timed differs: 100.0 % before, 25.0 % after",
        "AFTER is damaged: gpuspy-python-4242.gspy could not be read completely",
    ] {
        assert!(said.contains(&expected), "{expected} is not in {said:#?}");
    }
    let (_, value) = compared(&before, &[other]);
    let steps = "a step may not be the same work in both (40 of 4 launches before, 7 of 50 after): whole runs are compared";
    assert!(warnings(&value).contains(&steps), "{:#?}", value["warnings"]);
}

/// Of a run of which no record was lost, "2 records, which could not be kept" were missing.
#[test]
fn a_gpu_time_that_was_lost_is_no_record_that_was() {
    let before = [stepped(40, 200_000, 3, 300_000)];
    let lost = |causes: &[(&'static str, u64)]| {
        let mut after = before.clone();
        after[0].tables.coverage.dropped_by = causes.iter().copied().collect();
        let (_, value) = compared(&before, &after);
        warnings(&value).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let times = "AFTER lacks 2 GPU times, lost because a context or the process ended";
    assert_eq!(lost(&[("gpu_time_pending", 2)]), [times]);
    let records = "AFTER lacks 1 record, which could not be kept";
    assert_eq!(lost(&[("gpu_time_pending", 2), ("ring_full", 1)]), [records, times]);
}

/// A run that a GPU's error ended was called faster, without a warning.
#[test]
fn a_run_that_failed_is_warned_about() {
    let before = [stepped(40, 200_000, 3, 300_000)];
    let mut failed = before.clone();
    let first = Some(Stopped { result: 700, ..Stopped::default() });
    failed[0].tables.gpu_errors = GpuErrors { processes: 1, calls: 1, first };
    failed[0].process.outcome = Some(Outcome::Exited(Some(1)));
    let (_, value) = compared(&before, &failed);
    let how = ["the GPU stopped with an error (700)", "process 4242 exited with code 1"];
    assert_eq!(warnings(&value), how.map(|how| format!("AFTER: {how}")));
    assert_eq!((&value["before"]["failures"], &value["after"]["failures"]), (&value!([]), &value!(how)));
    for (outcome, how) in [
        (Outcome::Killed(9), Some("AFTER: process 4242 was killed")),
        (Outcome::Crashed(11), Some("AFTER: process 4242 crashed")),
        (Outcome::Left(3), Some("AFTER: process 4242 exited with code 3")),
        (Outcome::Left(0), None),
        (Outcome::Exited(Some(0)), None),
    ] {
        let mut ended = before.clone();
        ended[0].process.outcome = Some(outcome);
        let (_, value) = compared(&before, &ended);
        assert_eq!(warnings(&value), how.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn hostile_names_neither_move_the_cursor_nor_break_lines() {
    let mut hostile = stepped(40, 200_000, 3, 300_000);
    hostile.process.command = Some("\u{1b}]0;owned\u{7}python\n\u{202e}x".to_owned());
    let kernels = &mut hostile.tables.kernels;
    kernels.iter_mut().for_each(|kernel| kernel.symbol = format!("\u{1b}[2J{}\r\n\u{200b}", kernel.symbol));
    let (before, after) = ([stepped(40, 200_000, 3, 300_000)], [hostile]);
    let path = "\u{1b}[31mx\n.gspy";
    let diff = Diff::of(run(path, &before), run(path, &after));
    for view in [DiffView::default(), DiffView { sections: vec![DiffSection::Kernels], top: None }] {
        let screen = terminal_diff(&diff, &view, &wide(80));
        assert!(screen.chars().all(|c| c == '\n' || !c.is_control()), "{screen:?}");
        assert!(!screen.contains(['\u{202e}', '\u{200b}']), "{screen:?}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    }
}

#[test]
fn selected_sections_are_shown_alone_and_with_all_rows() {
    let (before, after) = ([stepped(40, 200_000, 3, 300_000)], [plain(40, 100_000)]);
    let (diff, _) = compared(&before, &after);
    let of = |sections: &[DiffSection], top| {
        terminal_diff(&diff, &DiffView { sections: sections.to_vec(), top }, &wide(100))
    };
    let kernels = of(&[DiffSection::Kernels], None);
    assert!(kernels.contains("\nKernels ") && !kernels.contains("\nMemory "), "{kernels}");
    assert!(kernels.contains("vector_add") && kernels.contains("gone"), "{kernels}");
    let one = of(&[DiffSection::Kernels], Some(1));
    assert!(one.contains("and 1 more\n"), "{one}");
    let nothing = Diff::of(run("x", &[]), run("x", &[]));
    let view = DiffView { sections: vec![DiffSection::Findings], top: None };
    assert!(terminal_diff(&nothing, &view, &wide(100)).contains("Findings   neither run has any"));
}

#[test]
fn the_command_that_verifies_a_finding_is_quoted_for_a_shell() {
    let mut report = plain(4, 100_000);
    assert_eq!(report.process.arguments, ["python", "train.py"]);
    assert_eq!(report.process.command.as_deref(), Some("python train.py"));
    report.process.arguments = vec!["./my app".to_owned(), "it's".to_owned(), String::new()];
    report.process.path = "-a b.gspy".to_owned();
    let command = gpuspy_collector::report::verify(std::slice::from_ref(&report));
    assert_eq!(
        command,
        r"gpuspy run -o after.gspy -- './my app' 'it'\''s' '' && gpuspy diff './-a b.gspy' after.gspy"
    );
    let of = |paths: &[&str]| {
        let line = Arc::new(Together::default());
        let named = |path: &&str| {
            let mut report = report.clone();
            report.process.path = (*path).to_owned();
            report.process.launch = ["--", "torchrun", "train.py"].map(str::to_owned).to_vec();
            report.together = Some(Arc::clone(&line));
            report
        };
        gpuspy_collector::report::verify(&paths.iter().map(named).collect::<Vec<_>>())
    };
    // A run is the deepest directory that has all of its traces.
    for (paths, run) in [
        (&["runs/first/x.gspy", "runs/first/y.gspy"][..], "runs/first"),
        (&["runs/rank0.gspy/a", "runs/rank0.gspy/b", "runs/rank1.gspy"], "runs"),
        (&["./rank0.gspy/a", "./rank1.gspy"], "."),
        (&["rank0.gspy/a", "rank1.gspy"], "."),
        (&["/rank0.gspy", "/rank1.gspy"], "/"),
    ] {
        let command = of(paths);
        assert!(command.ends_with(&format!(" && gpuspy diff {run} after.gspy")), "{command}");
    }
}

/// Makes a report that of another process.
fn is_of(report: &mut ProcessReport, pid: u32) {
    report.process.pid = Some(pid);
    report.process.id.iter_mut().for_each(|id| id.pid = pid);
}

/// Of a job whose tasks were each started by a gpuspy of their own, or none, one rank was to be run again and to be compared with all.
#[test]
fn a_job_that_no_single_command_started_is_to_be_run_again() {
    let line = Arc::new(Together::default());
    let of = |launch: &[&str], change: fn(&mut ProcessReport)| {
        let process = |pid| {
            let mut report = plain(4, 100_000);
            report.process.path = format!("job/rank{pid}.gspy");
            is_of(&mut report, pid);
            report.process.launch = launch.iter().map(|word| (*word).to_owned()).collect();
            report.together = Some(Arc::clone(&line));
            report
        };
        let mut reports = [process(1), process(2)];
        change(&mut reports[1]);
        gpuspy_collector::report::verify(&reports)
    };
    let again = "run the job again, then gpuspy diff job NEW";
    assert_eq!(of(&[], |_| ()), again, "gpuspy collect");
    assert_eq!(of(&["--", "python", "train.py"], |_| ()), again, "each process is what a gpuspy run started");
    let torchrun = &["--", "torchrun", "train.py"][..];
    assert_eq!(of(torchrun, |report| report.together = None), again, "on two machines");
    assert_eq!(of(torchrun, |report| report.process.launch.clear()), again);
    let one = "gpuspy run -o after.gspy -- torchrun train.py && gpuspy diff job after.gspy";
    assert_eq!(of(torchrun, |_| ()), one);
}

/// One rank's trace was to be compared with that of a whole new job.
#[test]
fn the_report_of_one_rank_is_compared_with_that_rank_of_a_new_job() {
    let of = |ranks: &[u32], world: u32, change: fn(&mut ProcessReport)| {
        let line = Arc::new(Together::default());
        let rank = |rank: &u32| {
            let mut report = plain(4, 100_000);
            is_of(&mut report, 100 + rank);
            report.process.path = format!("job/rank{rank}.gspy");
            report.process.launch = ["--", "torchrun", "train.py"].map(str::to_owned).to_vec();
            (report.process.job.rank, report.process.job.world_size) = (Some(*rank), Some(world));
            report.together = Some(Arc::clone(&line));
            change(&mut report);
            report
        };
        let reports: Vec<ProcessReport> = ranks.iter().map(rank).collect();
        gpuspy_collector::report::verify(&reports)
    };
    let again = "gpuspy run -o after.gspy -- torchrun train.py && gpuspy diff";
    assert_eq!(of(&[1], 4, |_| ()), format!("{again} job/rank1.gspy after.gspy --rank 1"));
    assert_eq!(of(&[0], 1, |_| ()), format!("{again} job/rank0.gspy after.gspy"), "a job of one");
    assert_eq!(of(&[0, 1], 2, |_| ()), format!("{again} job after.gspy"), "all ranks");
    let selected = of(&[1, 2], 4, |report| report.process.selects_ranks = true);
    assert_eq!(selected, format!("{again} job after.gspy --rank 1 --rank 2"));
    let apart = "run the job again, then gpuspy diff job/rank1.gspy NEW --rank 1";
    assert_eq!(of(&[1], 4, |report| report.process.launch.clear()), apart);
    let by_itself = |report: &mut ProcessReport| {
        report.process.launch = ["--", "python", "train.py"].map(str::to_owned).to_vec();
    };
    assert_eq!(of(&[1], 4, by_itself), apart, "each rank has a gpuspy of its own");
}

/// Of after.gspy the command was to overwrite that trace, and to compare it with itself.
#[test]
fn the_command_that_verifies_a_finding_keeps_the_trace_that_it_is_about() {
    for (path, next) in [
        ("before.gspy", "after.gspy"),
        ("afterwards.gspy", "after.gspy"),
        ("after.gspy", "after-2.gspy"),
        ("./after.gspy", "after-2.gspy"),
        ("runs/after.gspy", "after-2.gspy"),
        ("after.gspy/python-7.gspy", "after-2.gspy"),
        ("after-2.gspy", "after-3.gspy"),
    ] {
        let mut report = plain(4, 100_000);
        report.process.path = path.to_owned();
        assert_eq!(
            gpuspy_collector::report::verify(&[report]),
            format!("gpuspy run -o {next} -- python train.py && gpuspy diff {path} {next}")
        );
    }
}

#[test]
fn the_comparison_on_the_screen() {
    let (mut before, mut after) = ([stepped(40, 200_000, 6, 300_000)], [stepped(50, 120_000, 2, 200_000)]);
    // With a name of the program's, steps are the same work, however many launches they have.
    for report in before.iter_mut().chain(&mut after) {
        report.tables.steps.source = Some(Source::NvtxRange("step".to_owned()));
    }
    after[0].process.command = Some("python train.py --fast".to_owned());
    let (diff, _) = compared(&before, &after);
    insta::assert_snapshot!(drawn(&diff, 80));
    insta::assert_snapshot!("the_comparison_on_a_wide_screen_in_ascii", {
        terminal_diff(&diff, &DiffView::default(), &Style { ascii: true, ..wide(120) })
    });
}
