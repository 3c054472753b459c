use super::*;
use crate::analyze::coverage::Coverage;
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::Sum;
use crate::analyze::identity::Identity;
use crate::analyze::idle::{Cause, IdleReport, Part};
use crate::analyze::memory::{MemoryUse, Use};
use crate::analyze::{Damage, Line, ProcessInfo, Tables};

const MS: u64 = 1_000_000;

/// A window of 60 s in which a GPU computed for 20 s, idled for 30 s after that, and had nothing to do for 10 s.
fn window(outcome: Outcome) -> ProcessReport {
    let exactly = |value| Sum { value, lo: value, hi: value };
    let line = Line { wall_ns: 60_000 * MS, looked_ns: 60_000 * MS, ..Line::default() };
    let busy = [exactly(20_000 * MS), exactly(0), exactly(0), exactly(0)];
    let identity = Identity { span: 50_000 * MS, busy, idle: exactly(30_000 * MS), ..Identity::default() };
    let device = DeviceReport {
        id: Some(0),
        uuid: Some("GPU-7".to_owned()),
        name: Some("NVIDIA H200".to_owned()),
        timelines: 1,
        line,
        identity,
        ..DeviceReport::default()
    };
    let waited = Part { count: 9, total: exactly(30_000 * MS + 1) };
    let idle = IdleReport { by_cause: [(Cause::ExplicitSync, waited)].into(), ..IdleReport::default() };
    let held = Use { live_bytes: 5 << 30, peak_bytes: 7 << 30, allocations: 3, ..Use::default() };
    let memory = MemoryUse { by_kind: [("device", held)].into(), ..MemoryUse::default() };
    let coverage = Coverage { launches: 1_000, timed: 900, ..Coverage::default() };
    let tables = Tables { devices: vec![device], idle, memory, coverage, ..Tables::default() };
    let process = ProcessInfo { pid: Some(7), outcome: Some(outcome), line, ..ProcessInfo::default() };
    ProcessReport { process, tables, together: None, findings: None }
}

/// Returns the value of a line that begins so.
fn value(metrics: &Metrics, start: &str) -> Option<String> {
    let text = metrics.text();
    let mut found = text.lines().filter_map(|line| line.strip_prefix(start)?.strip_prefix(' '));
    let value = found.next().map(str::to_owned);
    assert!(found.next().is_none(), "two of {start}");
    value
}

#[test]
fn counters_add_up_over_windows_and_gauges_are_of_the_latest() {
    let mut metrics = Metrics::default();
    metrics.add("train.py", &window(Outcome::Detached), 60);
    metrics.add("train.py", &window(Outcome::Detached), 120);
    let of = |start: &str| value(&metrics, start);
    let gpu = |state: &str| {
        of(&format!(
            "gpuspy_gpu_seconds_total{{program=\"train.py\",pid=\"7\",UUID=\"GPU-7\",model=\"NVIDIA H200\",state=\"{state}\"}}"
        ))
        .unwrap()
    };
    assert_eq!(
        ["compute", "idle", "no_work", "undecided"].map(gpu),
        ["40.000000000", "60.000000000", "20.000000000", "0.000000000"]
    );
    let labelled =
        |name: &str, labels: &str| of(&format!("{name}{{program=\"train.py\",pid=\"7\"{labels}}}"));
    let idle = labelled("gpuspy_idle_seconds_total", ",cause=\"explicit_sync\"");
    assert_eq!(idle.as_deref(), Some("60.000000002"));
    assert_eq!(labelled("gpuspy_launches_total", "").as_deref(), Some("2000"));
    let memory = labelled("gpuspy_memory_bytes", ",kind=\"device\"");
    assert_eq!(memory, Some((5_u64 << 30).to_string()));
    assert_eq!(labelled("gpuspy_window_end_timestamp_seconds", "").as_deref(), Some("120"));
}

#[test]
fn a_process_that_has_ended_holds_nothing_and_its_counters_stay_until_it_is_forgotten() {
    let mut metrics = Metrics::default();
    metrics.add("train.py", &window(Outcome::Detached), 60);
    metrics.add("train.py", &window(Outcome::Exited(Some(0))), 120);
    let text = metrics.text();
    assert!(
        !text.contains("\ngpuspy_memory_bytes{") && !text.contains("\ngpuspy_window_end_timestamp_seconds{"),
        "{text}"
    );
    assert!(text.contains("\ngpuspy_launches_total{program=\"train.py\",pid=\"7\"} 2000\n"), "{text}");
    metrics.forget_before(120);
    assert_eq!(metrics.processes.len(), 1);
    metrics.forget_before(121);
    assert!(!metrics.text().contains("train.py"));
}

/// On a full disk, a trace lacks what nobody dropped.
#[test]
fn what_could_not_be_written_is_counted_as_lost() {
    let mut metrics = Metrics::default();
    let mut window = window(Outcome::Detached);
    window.tables.coverage.dropped_by = [("ring_full", 5)].into();
    window.process.damage = Damage { records_lost: 30, times_lost: 7, ..Damage::default() };
    metrics.add("train.py", &window, 60);
    let lost = value(&metrics, "gpuspy_dropped_records_total{program=\"train.py\",pid=\"7\"}");
    assert_eq!(lost.as_deref(), Some("42"));
}

/// Each name of a program is possible.
#[test]
fn the_values_of_labels_are_escaped() {
    let mut metrics = Metrics::default();
    metrics.add("a\"b\\c\nd", &window(Outcome::Detached), 60);
    let text = metrics.text();
    assert!(text.contains("\ngpuspy_launches_total{program=\"a\\\"b\\\\c\\nd\",pid=\"7\"} 1000\n"), "{text}");
}

/// Prometheus refuses a text in which a metric is declared twice, or has values that are apart.
#[test]
fn each_metric_is_declared_once_before_its_values() {
    let mut metrics = Metrics::default();
    for (pid, ended) in [(7, 60), (8, 60), (7, 120)] {
        let mut window = window(Outcome::Detached);
        window.process.pid = Some(pid);
        metrics.add("train.py", &window, ended);
    }
    let text = metrics.text();
    let (mut declared, mut values) = (Vec::new(), 0);
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(!declared.contains(&name), "{name}");
            declared.push(name);
        } else if !line.starts_with('#') {
            values += 1;
            assert_eq!(line.split(['{', ' ']).next(), declared.last().copied(), "{line}");
        }
    }
    assert!(values > 40, "{text}");
    assert_eq!(declared.len(), Family::ALL.len() + 1);
}

/// The page lists the metrics with what they are.
#[test]
fn the_documentation_has_each_metric() {
    let page = include_str!("../../../../docs/metrics.md");
    for (name, help) in Family::ALL.map(|family| (family.name(), family.help())).into_iter().chain([UNREAD]) {
        assert!(page.contains(&format!("| `{name}` | ")), "{name}");
        assert!(page.contains(&format!(" {help} |\n")), "{help}");
    }
}
