//! Traces of a former version still give the same report, apart from renamed keys and values.
//!
//! `former/` holds traces of programs of `tests/programs` on the simulated GPU, each with the `report --json` of the
//! version that wrote it, and with the operations and the export of a later one. All are kept unchanged; names that changed
//! since then are listed here. (But two copies of `moves` between GPUs, by calls that do not wait for them, have best values of a version
//! that knows this.)

use flate2::read::GzDecoder;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
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

/// Runs gpuspy, and returns what it prints.
fn gpuspy(arguments: &[&OsStr]) -> Vec<u8> {
    let done = Command::new(env!("CARGO_BIN_EXE_gpuspy")).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn report(trace: &Path) -> Vec<u8> {
    gpuspy(&["report".as_ref(), "--json".as_ref(), trace.as_ref()])
}

fn operations(trace: &Path) -> Vec<u8> {
    gpuspy(&["report".as_ref(), "--operations".as_ref(), trace.as_ref()])
}

fn chrome(trace: &Path) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chrome.json");
    gpuspy(&["export".as_ref(), trace.as_ref(), "-o".as_ref(), file.as_ref()]);
    fs::read(file).unwrap()
}

fn traces() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "gspy")).collect();
    assert_eq!(traces.len(), 8);
    traces
}

#[test]
fn a_trace_of_a_former_version_gives_the_same_report_apart_from_names() {
    for trace in traces() {
        let former = fs::read(trace.with_extension("json")).unwrap();
        let mut former = with_current_names(serde_json::from_slice(&former).unwrap());
        // The report has the path of the file, which is different now.
        former["processes"][0]["path"] = trace.to_str().unwrap().into();
        // What launched nothing and called no function of the runtime does not say whether the driver was hooked.
        if former["coverage"]["driver_hooked"] == false && former["coverage"]["launches"] == 0 {
            former["coverage"]["driver_hooked"] = Value::Null;
        }
        let mut now: Value = serde_json::from_slice(&report(&trace)).unwrap();
        // Former versions did not say that the program's files are not there.
        let is_of_files = |note: &Value| note.as_str().unwrap().contains(" not on this machine: calls from ");
        now["processes"][0]["notes"].as_array_mut().unwrap().retain(|note| !is_of_files(note));
        assert_same(&former, &now, &trace.display().to_string());
    }
}

#[test]
fn a_trace_of_a_former_version_gives_the_same_operations_and_export() {
    for trace in traces() {
        let former = |extension: &str| {
            let mut bytes = Vec::new();
            let file = File::open(trace.with_extension(extension)).unwrap();
            GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            bytes
        };
        let lines = |bytes: &[u8]| {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            Value::Array(lines.map(|line| serde_json::from_slice(line).unwrap()).collect())
        };
        let place = trace.display().to_string();
        assert_same(&lines(&former("operations.gz")), &lines(&operations(&trace)), &place);
        let mut kept: Value = serde_json::from_slice(&former("chrome.gz")).unwrap();
        kept["gpuspy"]["version"] = env!("CARGO_PKG_VERSION").into();
        let now = serde_json::from_slice(&chrome(&trace)).unwrap();
        let now = without_rates_of_shortened(without_found_steps(now));
        assert_same(&without_rates_of_shortened(kept), &now, &place);
    }
}

/// Leaves out the rates of copies that are drawn shorter than they took: former exports divided by what is drawn.
fn without_rates_of_shortened(mut export: Value) -> Value {
    for event in export["traceEvents"].as_array_mut().unwrap() {
        let drawn = event["dur"].as_f64().map(|us| (us * 1e3).round() as u64);
        let took = event["args"]["gpu duration ns"][1].as_u64();
        if drawn < took {
            event["args"].as_object_mut().unwrap().remove("memory bandwidth (GB/s)");
        }
    }
    export
}

/// Leaves out the steps that were found, which former exports did not have: they are on a row of their own.
fn without_found_steps(mut export: Value) -> Value {
    let events = export["traceEvents"].as_array_mut().unwrap();
    let is_found = |event: &Value| event["args"]["found by gpuspy"].is_string();
    let found = events.iter().filter(|event| is_found(event)).count();
    let row = events.iter().find(|event| is_found(event)).map(|event| event["tid"].clone());
    events.retain(|event| Some(&event["tid"]) != row.as_ref());
    let annotations = export["gpuspy"]["annotations"].as_u64().unwrap();
    export["gpuspy"]["annotations"] = (annotations - found as u64).into();
    export
}

/// Two rows of zeros ended the table.
#[test]
fn a_cause_that_had_no_time_is_in_json_and_no_row() {
    let trace = traces().into_iter().find(|trace| trace.ends_with("implicit_waits.gspy")).unwrap();
    let json: Value = serde_json::from_slice(&report(&trace)).unwrap();
    let screen = gpuspy(&["report".as_ref(), "--section".as_ref(), "idle".as_ref(), trace.as_ref()]);
    let screen = String::from_utf8(screen).unwrap();
    let causes = json["idle"]["by_cause"].as_array().unwrap();
    let had_time = |cause: &&Value| cause["count"] != 0 || cause["total_ns"]["value"] != 0;
    let (with, without): (Vec<&Value>, Vec<&Value>) = causes.iter().partition(had_time);
    assert!(!with.is_empty() && !without.is_empty(), "{causes:?}");
    let table = screen.lines().skip_while(|line| !line.contains("the host was")).skip(1);
    let rows = table.take_while(|line| !line.contains("where")).filter(|line| line.contains('%')).count();
    assert_eq!(rows, with.len(), "{screen}");
}

/// Maps are hashed with another seed in each process, and threads take turns in another way.
#[test]
fn a_trace_gives_the_same_bytes_each_time() {
    for trace in traces() {
        for answer in [report, operations, chrome] {
            let first = answer(&trace);
            for _ in 0..3 {
                assert!(answer(&trace) == first, "{}", trace.display());
            }
        }
    }
}

/// Compares two reports, and names the first place at which they differ.
fn assert_same(former: &Value, now: &Value, place: &str) {
    match (former, now) {
        (Value::Object(former), Value::Object(now)) => {
            // Later versions have more to say of the same trace.
            let lacking: Vec<&String> = former.keys().filter(|key| !now.contains_key(*key)).collect();
            assert!(lacking.is_empty(), "{lacking:?} is missing at {place}");
            // The mean of a kernel was that of its timed launches.
            let has_other_mean = |key: &str| key == "avg_ns" && now.get("timed") != now.get("count");
            let same = former.iter().filter(|(key, _)| !has_other_mean(key));
            same.for_each(|(key, value)| assert_same(value, &now[key], &format!("{place}.{key}")));
        }
        (Value::Array(former), Value::Array(now)) => {
            assert_eq!(former.len(), now.len(), "length at {place}");
            let pairs = former.iter().zip(now).enumerate();
            pairs.for_each(|(n, (former, now))| assert_same(former, now, &format!("{place}[{n}]")));
        }
        (former, now) => assert_eq!(former, now, "at {place}"),
    }
}
