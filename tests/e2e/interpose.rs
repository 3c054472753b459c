//! The routes into CUDA: who is answered with our functions, who with the driver's own, and that every route is counted
//! once.

mod deepbind;
mod dlsym;
mod getproc;
mod neighbours;
mod scopes;
mod wrapper;

use gpuspy_tests::Done;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The intercepted symbols of a layer (`driver`, `runtime`), from the table in the documentation, which the agent's own
/// tests keep equal to its code.
fn table(layer: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(gpuspy_tests::root().join("docs/hooks.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let of_layer = rows.filter_map(|row| {
        let (symbol, rest) = row.split_once("` | ").unwrap();
        rest.starts_with(layer).then(|| symbol.to_owned())
    });
    let symbols: BTreeSet<String> = of_layer.collect();
    assert!(symbols.len() > 40, "docs/hooks.md: {} rows of {layer}", symbols.len());
    symbols
}

/// What the simulator says was enqueued, what the program says and what the report says must be one number.
fn assert_every_launch_counted_once(done: &Done) {
    let said = done.said()["launches"].as_u64().unwrap();
    assert_eq!(done.truth().enqueued("kernel") as u64, said, "launches that reached the driver");
    let coverage = &done.report()["coverage"];
    assert_eq!(coverage["launches"], said, "{coverage:#}");
    assert_eq!(coverage["dropped"], 0, "{coverage:#}");
}

/// The report's API calls: name → (calls, failed ones).
fn apis(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let number = |api: &Value, key: &str| api[key].as_u64().unwrap();
    let list = report["apis"].as_array().unwrap().iter();
    list.map(|api| (api["name"].as_str().unwrap().to_owned(), (number(api, "count"), number(api, "failed"))))
        .collect()
}

/// No file but the simulator's truth, and not a word.
fn assert_silent(done: &Done) {
    let files: Vec<_> = std::fs::read_dir(done.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "truth.jsonl")
        .collect();
    assert_eq!(files, Vec::<String>::new());
    assert_eq!(done.stderr, "");
}
