//! Traces of many launches: reading them takes no more memory, and the report matches what was generated.

use gpuspy_tests::{root, scale_program};
use serde_json::Value;
use std::process::Command;

/// Returns what `scale` prints for this number of launches.
fn measured(launches: u64) -> Value {
    let output = Command::new(scale_program()).arg(launches.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap()
}

/// `scripts/bench.sh` does the same with 1 and 10 million.
#[test]
fn a_tenfold_trace_takes_no_more_memory_and_its_report_is_right() {
    let (small, large) = (measured(100_000), measured(1_000_000));
    for measured in [&small, &large] {
        assert_eq!(measured["wrong"], Value::Array(Vec::new()));
    }
    for command in ["report", "export"] {
        let peak = |measured: &Value| measured[command][0]["peak_kib"].as_u64().unwrap();
        let (small, large) = (peak(&small), peak(&large));
        println!("{command}: {small} KiB, {large} KiB");
        // How full the queues between the threads are depends on what else the machine does.
        assert!(
            large <= small + small / 8,
            "{command}: the small trace takes {small} KiB, the large one {large} KiB"
        );
    }
}

#[test]
fn the_benchmarks_run_and_print_their_figures() {
    let output = Command::new(root().join("scripts/bench.sh")).arg("--quick").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for row in [
        "--timing off",
        "--timing exact",
        "--timing auto",
        "drained",
        "on disk",
        "report",
        "export --to chrome",
        "export --to parquet",
    ] {
        let line = said.lines().find(|line| line.trim_start().starts_with(row));
        let figures = line.is_some_and(|line| line.contains(|c: char| c.is_ascii_digit()));
        assert!(figures, "{row}: {line:?} in\n{said}");
    }
}
