//! The routes into CUDA: which callers get the agent's hooks, which get the driver's own functions, and that calls by
//! every route are counted once.

mod call_attribution;
mod deepbind;
mod dlsym;
mod getproc;
mod other_preloads;
mod simulator_coverage;

use gpuspy_tests::Done;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the intercepted symbols of a layer (`driver`, `runtime`) from the table in docs/hooks.md, which the agent's
/// own tests keep equal to its code.
fn table(layer: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(gpuspy_tests::root().join("docs/hooks.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let of_layer = rows.filter_map(|row| {
        let (symbol, rest) = row.split_once("` | ").unwrap();
        rest.starts_with(layer).then(|| symbol.to_owned())
    });
    let symbols: BTreeSet<String> = of_layer.collect();
    assert!(symbols.len() > 40, "docs/hooks.md has only {} rows of the {layer}", symbols.len());
    symbols
}

/// Checks that the simulator's count of launches, the program's and the report's are equal.
fn assert_each_launch_is_counted_once(done: &Done) {
    let said = done.said()["launches"].as_u64().unwrap();
    assert_eq!(done.truth().enqueued("kernel") as u64, said, "launches that reached the driver");
    let report = done.report();
    assert_eq!(report["coverage"]["launches"], said, "{:#}", report["coverage"]);
    done.dropped_nothing(&report);
}

/// Returns the report's API calls: name → (calls, failed ones).
fn apis(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let number = |api: &Value, key: &str| api[key].as_u64().unwrap();
    let list = report["apis"].as_array().unwrap().iter();
    list.map(|api| (api["name"].as_str().unwrap().to_owned(), (number(api, "count"), number(api, "failed"))))
        .collect()
}

/// Checks that the run wrote no file but the simulator's truth, and printed nothing.
fn assert_silent(done: &Done) {
    let files: Vec<_> = std::fs::read_dir(done.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "truth.jsonl")
        .collect();
    assert_eq!(files, Vec::<String>::new());
    assert_eq!(done.stderr, "");
}
