//! `collect --metrics`: the counters are the sums of what the reports of the windows say.

use crate::windows::{collected, collected_by, listed};
use gpuspy_tests::{Done, Run, gpuspy, report};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The values of a file, by metric and labels, and which are counters.
struct Metrics {
    values: BTreeMap<(String, BTreeMap<String, String>), String>,
    text: String,
}

impl Metrics {
    fn read(path: &Path) -> Metrics {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let values = lines.map(|line| {
            let (of, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = of.split_once('{').unwrap_or((of, "}"));
            let labels = labels.strip_suffix('}').unwrap().split("\",").filter(|label| !label.is_empty());
            let labels = labels.map(|label| label.trim_end_matches('"').split_once("=\"").unwrap());
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            ((name.to_owned(), labels), value.to_owned())
        });
        Metrics { values: values.collect(), text: text.clone() }
    }

    /// The sum of a metric's values by one of its labels; times are ns.
    fn by(&self, metric: &str, label: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for ((_, labels), value) in self.values.iter().filter(|((name, _), _)| name == metric) {
            // Nine decimals.
            let value: u64 = value.replace('.', "").parse().unwrap();
            *sums.entry(labels.get(label).cloned().unwrap_or_default()).or_default() += value;
        }
        sums
    }

    fn sum(&self, metric: &str) -> u64 {
        self.by(metric, "").values().sum()
    }
}

/// Adds the values at a pointer in rows of each report, by the name of the row; rows that are 0 in all are absent.
fn rows(reports: &[Value], list: &str, name: &str, value: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::<String, u64>::new();
    for row in reports.iter().flat_map(|report| report.pointer(list).unwrap().as_array().unwrap()) {
        *sums.entry(row[name].as_str().unwrap().to_owned()).or_default() +=
            row.pointer(value).unwrap().as_u64().unwrap();
    }
    sums
}

fn sum(reports: &[Value], pointer: &str) -> u64 {
    reports.iter().map(|report| report.pointer(pointer).and_then(Value::as_u64).unwrap()).sum()
}

fn traces(folder: &Path) -> Vec<PathBuf> {
    listed(folder, |name| name.ends_with(".gspy"))
}

#[test]
fn counters_are_the_sums_of_what_the_reports_of_all_windows_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gpuspy.prom");
    let options = ["--every", "1s", "--metrics", file.to_str().unwrap()];
    let (done, said) = collected(folder.path(), &options, "2.5");
    let traces = traces(folder.path());
    assert!(traces.len() > 2, "{said}");
    let reports: Vec<Value> = traces.iter().map(|trace| report(trace)).collect();
    let metrics = Metrics::read(&file);

    let (truth, account) = (done.truth(), done.said());
    assert_eq!(metrics.sum("gpuspy_launches_total"), account["launches"].as_u64().unwrap());
    let steps = account["steps"].as_u64().unwrap();
    assert_eq!(metrics.by("gpuspy_copies_total", "kind"), [("HtoD".to_owned(), steps)].into());
    assert_eq!(
        metrics.by("gpuspy_copied_bytes_total", "host_memory"),
        [("pageable".to_owned(), steps * 4096)].into()
    );
    assert_eq!(metrics.sum("gpuspy_allocations_total"), truth.of("alloc").count() as u64);
    assert_eq!(metrics.sum("gpuspy_unread_traces_total"), 0, "{said}");

    let states = metrics.by("gpuspy_gpu_seconds_total", "state");
    for (state, pointer) in [
        ("compute", "/devices/0/compute_ns/value"),
        ("exposed_copy", "/devices/0/exposed_copy_ns/value"),
        ("idle", "/devices/0/idle_ns/value"),
    ] {
        assert_eq!(states[state], sum(&reports, pointer), "{state}");
    }
    assert_eq!(states.values().sum::<u64>(), sum(&reports, "/wall_ns"), "all of the time has a state");
    assert_eq!(
        metrics.by("gpuspy_idle_seconds_total", "cause"),
        rows(&reports, "/idle/by_cause", "cause", "/total_ns/value")
    );
    assert_eq!(
        metrics.by("gpuspy_finding_seconds_total", "finding"),
        rows(&reports, "/findings", "id", "/saves_ns/value")
    );
    let found = reports.iter().map(|report| report["findings"].as_array().unwrap().len() as u64).sum::<u64>();
    assert_eq!(metrics.sum("gpuspy_finding_windows_total"), found);
    let mut waits = rows(&reports, "/syncs", "api", "/host_ns");
    for (api, ns) in rows(&reports, "/implicit_syncs", "api", "/waited/value") {
        *waits.entry(api).or_default() += ns;
    }
    assert_eq!(metrics.by("gpuspy_wait_seconds_total", "api"), waits);
    assert_eq!(metrics.sum("gpuspy_steps_total"), sum(&reports, "/steps/count"));
    // The program has ended.
    assert!(!metrics.text.contains("\ngpuspy_memory_bytes{"), "{}", metrics.text);
    let programs = metrics.by("gpuspy_launches_total", "program");
    assert_eq!(programs.keys().collect::<Vec<_>>(), ["windows"]);
}

/// Collects from a client, and reads the file again and again meanwhile, as Prometheus does.
fn watched(folder: &Path, options: &[&str], client: Run) -> (Vec<Metrics>, Done, String) {
    let file = folder.join("gpuspy.prom");
    let options = [&["--every", "1s", "--metrics", file.to_str().unwrap()], options].concat();
    let (over, is_over) = channel::<()>();
    std::thread::scope(|threads| {
        let read = || file.exists().then(|| Metrics::read(&file));
        let watching = threads.spawn(move || {
            let mut seen = Vec::new();
            while is_over.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                seen.extend(read());
            }
            seen
        });
        let (done, said) = collected_by(Command::new(gpuspy()), folder, &options, client);
        drop(over);
        (watching.join().unwrap(), done, said)
    })
}

#[test]
fn the_file_is_written_after_each_window_and_old_traces_go() {
    let folder = tempfile::tempdir().unwrap();
    let (seen, done, said) = watched(folder.path(), &["--keep", "1s"], Run::of("windows").arg("5.5"));
    let launches: Vec<u64> = seen.iter().map(|metrics| metrics.sum("gpuspy_launches_total")).collect();
    assert!(launches.is_sorted(), "{launches:?}");
    let file = folder.path().join("gpuspy.prom");
    let whole = Metrics::read(&file).sum("gpuspy_launches_total");
    assert_eq!(whole, done.said()["launches"].as_u64().unwrap(), "{said}");
    let between = seen.iter().find(|metrics| (1..whole).contains(&metrics.sum("gpuspy_launches_total")));
    let between = between.unwrap_or_else(|| panic!("no window was counted before the end: {launches:?}"));
    let held = between.by("gpuspy_memory_bytes", "kind");
    let ended = between.sum("gpuspy_window_end_timestamp_seconds");
    assert!(held["device"] > 0 && ended > 1_700_000_000, "{}", between.text);
    assert_eq!(between.sum("gpuspy_hanging"), 0, "{}", between.text);
    // Of the latest window; a program that gets no processor has none for some time.
    assert_eq!(traces(folder.path()).len(), 1, "{said}");
    let others = listed(folder.path(), |name| !name.ends_with(".gspy"));
    assert_eq!(others, [file], "nothing else is left");
}

#[test]
fn a_program_that_hangs_is_said_to_while_it_does() {
    let folder = tempfile::tempdir().unwrap();
    // Its kernel runs for some windows.
    let (seen, _, said) = watched(folder.path(), &["--hang-after", "1"], Run::of("hang").arg("slow"));
    assert!(seen.iter().any(|metrics| metrics.sum("gpuspy_hanging") == 1), "{said}");
    let last = Metrics::read(&folder.path().join("gpuspy.prom"));
    assert_eq!(last.by("gpuspy_hanging", "pid"), BTreeMap::new(), "it has ended");
}

/// The first window would have been over before somebody had learned that there is no such folder.
#[test]
fn a_collector_that_cannot_write_its_metrics_does_not_begin() {
    let folder = tempfile::tempdir().unwrap();
    let collect = |options: &[&str]| {
        let mut command = Command::new(gpuspy());
        let done = command.args(["collect", "--dir"]).arg(folder.path()).args(options).output().unwrap();
        let left = listed(folder.path(), |_| true);
        assert_eq!(left, [] as [PathBuf; 0], "its socket is gone");
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let nowhere = folder.path().join("nowhere/gpuspy.prom");
    let (code, said) = collect(&["--metrics", nowhere.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.starts_with("gpuspy: cannot write ") && said.contains("nowhere/gpuspy.prom"), "{said}");
    let (code, said) = collect(&["--keep", "1h"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--every 10m"), "{said}");
}

/// Each rank of a job is a process of its own.
#[test]
fn processes_have_values_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gpuspy.prom");
    let options = ["--every", "1h", "--metrics", file.to_str().unwrap()];
    let client = Run::of("job_of_three");
    let (_, said) = collected_by(Command::new(gpuspy()), folder.path(), &options, client);
    let metrics = Metrics::read(&file);
    let reports: Vec<Value> = traces(folder.path()).iter().map(|trace| report(trace)).collect();
    let mut launches = BTreeMap::<String, u64>::new();
    for report in &reports {
        let pid = report["processes"][0]["pid"].to_string();
        *launches.entry(pid).or_default() += report["coverage"]["launches"].as_u64().unwrap();
    }
    assert!(launches.len() > 1, "{said}");
    assert_eq!(metrics.by("gpuspy_launches_total", "pid"), launches);
}
