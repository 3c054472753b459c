//! `collect --every`: each window of time has a trace that can be read alone, and all of them together say what happened.

use crate::compare::by_name;
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::units::utc;
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report};
use gpuspy_wire::record::Namespace;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Runs the client for some seconds under `collect` with these options, which ends when all is written.
pub fn collected(folder: &Path, options: &[&str], seconds: &str) -> (Done, String) {
    collected_by(Command::new(gpuspy()), folder, options, Run::of("windows").arg(seconds))
}

/// Does the same with another client, and with another command that is gpuspy.
pub fn collected_by(mut command: Command, folder: &Path, options: &[&str], client: Run) -> (Done, String) {
    command
        .arg("collect")
        .arg("--dir")
        .arg(folder)
        .args(options)
        .env_remove("GPUSPY_QUIET")
        .stderr(Stdio::piped());
    let collector = command.spawn().unwrap();
    let (socket, began) = (folder.join("gpuspy.sock"), Instant::now());
    while !socket.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the collector does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    let run = client.env("GPUSPY_SOCKET", &socket).env("NVTX_INJECTION64_PATH", agent());
    let program = run.preloaded_command();
    let done = run.finish(program).succeeded();
    // SAFETY: signals a process that we started and have not waited for.
    unsafe { libc::kill(collector.id() as i32, libc::SIGTERM) };
    let ended = collector.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    (done, said)
}

/// Returns the files and folders of a folder whose names begin or end so, in order.
pub fn listed(folder: &Path, is_one: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| is_one(path.file_name().unwrap().to_str().unwrap())).collect();
    paths.sort();
    paths
}

/// Adds what each of the reports counts, by name.
fn summed(reports: &[Value], list: &str, name: &str, count: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for report in reports {
        for (name, count) in by_name(&report[list], name, count) {
            *sums.entry(name).or_default() += count;
        }
    }
    sums
}

fn sum(reports: &[Value], pointer: &str) -> u64 {
    let of = |report: &Value| {
        report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"))
    };
    reports.iter().map(of).sum()
}

/// Returns how long at least one kernel ran.
fn busy(truth: &Truth) -> u64 {
    let mut kernels: Vec<(u64, u64)> =
        truth.operations().iter().filter(|op| op.kind == "kernel").map(|op| op.interval).collect();
    kernels.sort_unstable();
    let (mut busy, mut passed) = (0, 0);
    for (begin, end) in kernels {
        busy += end.saturating_sub(begin.max(passed));
        passed = passed.max(end);
    }
    busy
}

#[test]
fn the_windows_of_a_run_add_up_to_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let (done, said) = collected(folder.path(), &["--every", "1s"], "3.5");
    let traces = listed(folder.path(), |name| name.ends_with(".gspy"));
    assert!((4..=9).contains(&traces.len()), "{traces:?}");
    assert!(said.contains(traces.last().unwrap().to_str().unwrap()), "{said}");
    let reports: Vec<Value> = traces.iter().map(|trace| report(trace)).collect();
    let (truth, account) = (done.truth(), done.said());

    let launches = account["launches"].as_u64().unwrap();
    let kernels = summed(&reports, "kernels", "name", "count");
    let each = [("windows_20us".to_owned(), launches / 2), ("windows_50us".to_owned(), launches / 2)];
    assert_eq!(kernels, each.clone().into());
    let calls = summed(&reports, "apis", "name", "count");
    let steps = account["steps"].as_u64().unwrap();
    let waits = steps / 4 + 1;
    for (name, count) in [
        ("cuInit", 1),
        ("cuLaunchKernel", launches),
        ("cuMemcpyHtoDAsync", steps),
        ("cuMemFree", steps),
        ("cuMemAlloc", truth.of("alloc").count() as u64),
        ("cuCtxSynchronize", waits),
    ] {
        assert_eq!(calls[name], count, "{name}");
    }
    assert_eq!(sum(&reports, "/memory/frees"), steps);
    assert_eq!(sum(&reports, "/memory/allocations"), truth.of("alloc").count() as u64);
    assert_eq!(summed(&reports, "transfers", "kind", "bytes"), [("HtoD".to_owned(), steps * 4096)].into());
    assert_eq!(summed(&reports, "ranges", "name", "count")["step"], steps);

    let (compute, true_busy) =
        (|bound| sum(&reports, &format!("/devices/0/compute_ns/{bound}")), busy(&truth));
    let slack = true_busy / 500;
    assert!(
        compute("lo") <= true_busy + slack && true_busy <= compute("hi") + slack,
        "{true_busy} is not in {} to {}",
        compute("lo"),
        compute("hi")
    );
    assert!(compute("value").abs_diff(true_busy) < true_busy / 20, "{} for {true_busy}", compute("value"));

    for (at, report) in reports.iter().enumerate() {
        let process = &report["processes"][0];
        assert_eq!(
            (&process["dropped"], &process["captured"]["range"]),
            (&0.into(), &"window of 1 s".into())
        );
        let is_last = at + 1 == reports.len();
        assert_eq!(process["ending"], if is_last { "exited" } else { "detached" });
        let began = by_name(&report["ranges"], "name", "count").get("whole job").copied().unwrap_or(0);
        assert_eq!(began, u64::from(at == 0), "the range began once");
        let is_cold =
            report["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == "cold-start");
        assert!(!is_cold || at == 0, "window {at}: the program started in the first one");
    }
    // Ranks compare the k-th launch of the run, which each trace knows of the windows before.
    let mut before = 0;
    for (trace, report) in traces.iter().zip(&reports) {
        let names = TraceReader::open(trace).unwrap().names().clone();
        let launched = names.0.iter().filter(|((space, _), _)| *space == Namespace::Launched);
        let earlier: u64 = launched.map(|(_, count)| count.parse::<u64>().unwrap()).sum();
        assert_eq!(earlier, before, "{}", trace.display());
        // A program that gets no processor launches nothing in a window.
        before += by_name(&report["apis"], "name", "count").get("cuLaunchKernel").copied().unwrap_or(0);
    }
    let held: Vec<u64> =
        reports.iter().map(|report| report["memory"]["live_bytes"].as_u64().unwrap()).collect();
    // What comes and goes is 1 MiB.
    assert!(held.windows(2).all(|two| two[0] <= two[1] + (1 << 20)), "{held:?}");
    assert_eq!(held.last(), account["kept_bytes"].as_u64().as_ref());

    // All of them at once are the run.
    let whole = report(folder.path());
    let kernels = by_name(&whole["kernels"], "name", "count");
    assert_eq!(kernels, each.into());
    let memory = &whole["memory"];
    assert_eq!(memory["live_bytes"], account["kept_bytes"]);
    let peak = memory["peak_bytes"]["value"].as_u64().unwrap();
    let kept = account["kept_bytes"].as_u64().unwrap();
    assert!((kept..=kept + (1 << 20)).contains(&peak), "{peak} of {kept}: no window's memory is held twice");
    // Steps are those of the run, not of one window; each launch has its step.
    let (found, inside) = (
        whole["steps"]["count"].as_u64().unwrap(),
        reports.iter().map(|report| report["steps"]["count"].as_u64().unwrap_or(0)).max(),
    );
    assert!(Some(found) > inside && found <= steps, "{found} of {steps}, {inside:?} in one window");
    they_are_of_one_process(folder.path(), &traces, &reports, &whole);
    without_the_last_the_memory_stays(&traces, &reports);
    without_one_in_between_both_parts_are_there(&traces, &reports, &whole);
}

/// What is missing is that window, and nothing else.
fn without_one_in_between_both_parts_are_there(traces: &[PathBuf], reports: &[Value], whole: &Value) {
    let folder = tempfile::tempdir().unwrap();
    for trace in traces.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, trace)| trace) {
        fs::copy(trace, folder.path().join(trace.file_name().unwrap())).unwrap();
    }
    let parts = report(folder.path());
    let launches = |report: &Value| report["coverage"]["launches"].as_u64().unwrap();
    assert_eq!(launches(&parts), launches(whole) - launches(&reports[1]));
    let rows = parts["processes"].as_array().unwrap().iter().map(|row| (&row["window"], &row["windows"]));
    assert_eq!(rows.collect::<Vec<_>>(), [(&0.into(), &1.into()), (&2.into(), &(traces.len() - 2).into())]);
    assert_eq!(
        (&parts["devices"][0]["processes"], &parts["memory"]["live_bytes"]),
        (&1.into(), &whole["memory"]["live_bytes"])
    );
}

/// Of a process whose latest window is not there yet, nothing seemed to be held at the end.
fn without_the_last_the_memory_stays(traces: &[PathBuf], reports: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let [first @ .., _] = traces else { return };
    for trace in first {
        fs::copy(trace, folder.path().join(trace.file_name().unwrap())).unwrap();
    }
    let of_last = &reports[first.len() - 1]["memory"]["live_bytes"];
    assert_eq!(report(folder.path())["memory"]["live_bytes"], *of_last);
}

/// Each window was called a process that was still running when its trace ended.
fn they_are_of_one_process(folder: &Path, traces: &[PathBuf], reports: &[Value], whole: &Value) {
    let rows = whole["processes"].as_array().unwrap().iter().map(|row| (&row["window"], &row["windows"]));
    assert_eq!(rows.collect::<Vec<_>>(), [(&0.into(), &traces.len().into())]);
    assert_eq!(whole["devices"][0]["processes"], 1);
    let held = |report: &Value| -> Vec<u64> {
        let rows = report["memory"]["holders"].as_array().unwrap().iter();
        rows.map(|row| row["bytes"].as_u64().unwrap()).collect()
    };
    let highest =
        reports.iter().max_by_key(|report| report["memory"]["peak_bytes"]["value"].as_u64()).unwrap();
    assert_eq!(held(whole), held(highest), "who holds memory is named once, not for each window");
    let screen = Command::new(gpuspy()).arg("report").arg(folder).output().unwrap();
    let screen = String::from_utf8(screen.stdout).unwrap();
    let header = screen.lines().nth(1).unwrap();
    assert!(header.contains(&format!(", {} windows of time", traces.len())), "{screen}");
    assert!(header.contains(", exited, ") && !screen.contains("detached"), "{screen}");

    // The tables of each are a job, as those that the collector writes.
    let tables = folder.join("tables");
    let export = ["--to", "parquet", "--job", "lr", "-o"];
    let done = Command::new(gpuspy()).arg("export").arg(folder).args(export).arg(&tables).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains(", 1 process with "), "{said}");
    let stamp = |trace: &PathBuf| {
        let name = trace.file_stem().unwrap().to_str().unwrap();
        format!("job=lr.{}", &name[name.len() - "20261125-091000".len()..])
    };
    let jobs = listed(&tables, |_| true);
    let jobs: Vec<&str> = jobs.iter().map(|job| job.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(jobs, traces.iter().map(stamp).collect::<Vec<_>>());
}

#[test]
fn each_window_becomes_tables_and_its_trace_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (done, said) =
        collected(folder.path(), &["--every", "1s", "--to", "parquet", "--job", "lr 3"], "2.5");
    assert_eq!(listed(folder.path(), |name| name.ends_with(".gspy")), [] as [PathBuf; 0], "{said}");
    assert!(said.contains("has exited") && !said.contains("its trace is"), "{said}");
    let jobs = listed(folder.path(), |name| name.starts_with("job="));
    assert!((3..=8).contains(&jobs.len()), "{jobs:?}");
    let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
    for job in &jobs {
        let name = job.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("job=lr_3.20") && name.len() == "job=lr_3.20261125-091000".len(), "{name}");
        let host = listed(job, |_| true).remove(0);
        let rank = listed(&host, |_| true).remove(0);
        for table in ["kernel", "memcpy", "sync", "process"] {
            for file in listed(&rank.join(table), |name| name.ends_with(".parquet")) {
                let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
                *rows.entry(table).or_default() += reader.metadata().file_metadata().num_rows() as u64;
            }
        }
    }
    let (truth, account) = (done.truth(), done.said());
    assert_eq!(rows["kernel"], account["launches"].as_u64().unwrap());
    assert_eq!(rows["memcpy"], account["steps"].as_u64().unwrap());
    assert_eq!(rows["sync"], truth.of("sync").count() as u64);
    assert_eq!(rows["process"], jobs.len() as u64);
}

/// A file has the place of the job's folder.
#[test]
fn a_trace_whose_tables_cannot_be_written_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    // The test may run into the next hour.
    for hour in [now / 3600, now / 3600 + 1] {
        fs::write(folder.path().join(format!("job=x.{}", utc(hour * 3600))), "").unwrap();
    }
    let (done, said) = collected(folder.path(), &["--every", "1h", "--to", "parquet", "--job", "x"], "0.2");
    let traces = listed(folder.path(), |name| name.ends_with(".gspy"));
    assert!(said.contains("cannot write") && said.contains("was kept"), "{said}");
    assert!(traces.iter().all(|trace| said.contains(trace.to_str().unwrap())), "{said}");
    let reports: Vec<Value> = traces.iter().map(|trace| report(trace)).collect();
    assert_eq!(sum(&reports, "/coverage/launches"), done.said()["launches"].as_u64().unwrap());
}

/// It was removed while its tables were in memory only: both were lost if the machine failed then.
#[test]
fn a_trace_whose_tables_do_not_reach_the_disk_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("refused_system_call"));
    command.arg(libc::SYS_fsync.to_string()).arg(libc::EIO.to_string()).arg("").arg(gpuspy());
    let options = ["--every", "1h", "--to", "parquet", "--job", "x"];
    let (done, said) = collected_by(command, folder.path(), &options, Run::of("windows").arg("0.2"));
    let traces = listed(folder.path(), |name| name.ends_with(".gspy"));
    assert!(said.contains("cannot write") && said.contains("was kept"), "{said}");
    assert!(traces.iter().all(|trace| said.contains(trace.to_str().unwrap())), "{said}");
    let reports: Vec<Value> = traces.iter().map(|trace| report(trace)).collect();
    assert_eq!(sum(&reports, "/coverage/launches"), done.said()["launches"].as_u64().unwrap());
}

/// Only the window in which the program had written its list had the names.
#[test]
fn code_that_is_generated_has_its_names_in_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let client = Run::of("generated_code").arg("3");
    let (done, said) = collected_by(Command::new(gpuspy()), folder.path(), &["--every", "1s"], client);
    let traces = listed(folder.path(), |name| name.ends_with(".gspy"));
    let callers = |trace: &PathBuf| -> Vec<String> {
        let report = report(trace);
        let rows = report["lines"].as_array().unwrap().iter();
        let waiting = rows.filter(|row| row["calls"]["cudaDeviceSynchronize"].is_u64());
        waiting.map(|row| row["function"].to_string()).collect()
    };
    let callers: Vec<Vec<String>> = traces.iter().map(callers).collect();
    fs::remove_file(format!("/tmp/perf-{}.map", done.stdout.trim())).unwrap();
    // A program that gets no processor calls nothing in a window.
    let with_calls = callers.iter().filter(|names| !names.is_empty()).count();
    assert!(with_calls > 1, "{said}");
    assert!(callers.iter().flatten().all(|name| name.contains("Lapp/Train;::")), "{callers:?}");
}

/// The windows that a kernel reached into, launched some windows before, called the GPU idle, or had no work for it.
#[test]
fn a_kernel_that_runs_for_windows_keeps_the_gpu_busy_in_each() {
    let folder = tempfile::tempdir().unwrap();
    let client = Run::of("hang").arg("slow");
    let (done, said) = collected_by(Command::new(gpuspy()), folder.path(), &["--every", "1s"], client);
    let traces = listed(folder.path(), |name| name.ends_with(".gspy"));
    assert!(traces.len() >= 4, "{said}");
    let reports: Vec<Value> = traces.iter().map(|trace| report(trace)).collect();
    let (whole, true_busy) = (report(folder.path()), busy(&done.truth()));
    for reports in [&reports[..], &[whole]] {
        let compute = |bound| sum(reports, &format!("/devices/0/compute_ns/{bound}"));
        let (lo, hi, slack) = (compute("lo"), compute("hi"), true_busy / 500);
        assert!(lo <= true_busy + slack && true_busy <= hi + slack, "{true_busy} is not in {lo} to {hi}");
    }
}

#[test]
fn windows_are_whole_seconds_of_a_collection_into_a_folder() {
    for (arguments, reason) in [
        (&["--dir", "d", "--every", "0s"][..], "whole seconds"),
        (&["--dir", "d", "--every", "1500ms"], "whole seconds"),
        (&["--dir", "d", "--every", "10"], "a duration needs its unit"),
        (&["--pid", "1", "--every", "10s"], "cannot be used with"),
        (&["--pid", "1", "--to", "parquet"], "cannot be used with"),
        (&["--dir", "d", "--to", "csv"], "[possible values: parquet]"),
        (&["--dir", "d", "--job", "x"], "--to"),
    ] {
        let output = Command::new(gpuspy()).arg("collect").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}
