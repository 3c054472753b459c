//! Traces of a former version still give the same report, apart from renamed keys and values.
//!
//! `former/` holds traces of programs of `tests/programs` on the simulated GPU, each with the `report --json` of the
//! version that wrote it. Both are kept unchanged; names that changed since then are listed here.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Renamed keys of the JSON: the former name and the current one.
const KEYS: &[(&str, &str)] = &[
    ("chain", "programmatic"),
    ("marks", "markers"),
    ("began_ns", "start_ns"),
    ("function", "kernel_lookup"),
];

/// Renamed values of the JSON: the former name and the current one.
const VALUES: &[(&str, &str)] = &[];

fn renamed<'a>(name: &'a str, names: &[(&str, &'a str)]) -> &'a str {
    names.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| *now)
}

/// Returns a former report with the current names.
fn with_current_names(report: Value) -> Value {
    match report {
        Value::Object(entries) => {
            let renamed =
                |(key, value): (String, Value)| (renamed(&key, KEYS).to_owned(), with_current_names(value));
            Value::Object(entries.into_iter().map(renamed).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(with_current_names).collect()),
        Value::String(text) => Value::String(renamed(&text, VALUES).to_owned()),
        other => other,
    }
}

fn report(trace: &Path) -> Value {
    let done =
        Command::new(env!("CARGO_BIN_EXE_gpuspy")).args(["report", "--json"]).arg(trace).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_trace_of_a_former_version_gives_the_same_report_apart_from_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "gspy")).collect();
    assert_eq!(traces.len(), 8);
    for trace in traces {
        let former = std::fs::read(trace.with_extension("json")).unwrap();
        let mut former = with_current_names(serde_json::from_slice(&former).unwrap());
        // The report has the path of the file, which is different now.
        former["processes"][0]["path"] = trace.to_str().unwrap().into();
        assert_same(&former, &report(&trace), &trace.display().to_string());
    }
}

/// Compares two reports, and names the first place at which they differ.
fn assert_same(former: &Value, now: &Value, place: &str) {
    match (former, now) {
        (Value::Object(former), Value::Object(now)) => {
            // Later versions have more to say of the same trace.
            let lacking: Vec<&String> = former.keys().filter(|key| !now.contains_key(*key)).collect();
            assert!(lacking.is_empty(), "{lacking:?} is missing at {place}");
            former.iter().for_each(|(key, value)| assert_same(value, &now[key], &format!("{place}.{key}")));
        }
        (Value::Array(former), Value::Array(now)) => {
            assert_eq!(former.len(), now.len(), "length at {place}");
            let pairs = former.iter().zip(now).enumerate();
            pairs.for_each(|(n, (former, now))| assert_same(former, now, &format!("{place}[{n}]")));
        }
        (former, now) => assert_eq!(former, now, "at {place}"),
    }
}
