//! Traces that a former version wrote give the report that it gave, apart from names.
//!
//! `former/` holds traces of programs of `tests/programs` on the simulated GPU, each with the `report --json` of the
//! version that wrote it. Both are kept as they were: what has another name since then is listed here.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Keys of the JSON, by the name that they had and the one that they have.
const KEYS: &[(&str, &str)] = &[
    ("chain", "programmatic"),
    ("marks", "markers"),
    ("began_ns", "start_ns"),
    ("function", "kernel_lookup"),
];

/// Values that name something, by the name that it had and the one that it has.
const VALUES: &[(&str, &str)] = &[];

fn renamed<'a>(name: &'a str, names: &[(&str, &'a str)]) -> &'a str {
    names.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| *now)
}

/// A former report in the words of today.
fn in_todays_words(report: Value) -> Value {
    match report {
        Value::Object(entries) => {
            let renamed =
                |(key, value): (String, Value)| (renamed(&key, KEYS).to_owned(), in_todays_words(value));
            Value::Object(entries.into_iter().map(renamed).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(in_todays_words).collect()),
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
fn a_trace_of_a_former_version_has_the_same_report_apart_from_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "gspy")).collect();
    assert_eq!(traces.len(), 8);
    for trace in traces {
        let former = std::fs::read(trace.with_extension("json")).unwrap();
        let mut former = in_todays_words(serde_json::from_slice(&former).unwrap());
        // The report names the file, which lies elsewhere now.
        former["processes"][0]["path"] = trace.to_str().unwrap().into();
        assert_same(&former, &report(&trace), &trace.display().to_string());
    }
}

/// The first place at which two reports differ is told, rather than both reports.
fn assert_same(former: &Value, now: &Value, place: &str) {
    match (former, now) {
        (Value::Object(former), Value::Object(now)) => {
            let names = |map: &serde_json::Map<_, _>| map.keys().cloned().collect::<Vec<String>>();
            assert_eq!(names(former), names(now), "keys at {place}");
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
