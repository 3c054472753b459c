//! `gpuspy export --to collapsed` and `--to speedscope`: the stacks are the program's own, and their weights sum to what the
//! report says.

use gpuspy_tests::{Done, Run, gpuspy, report, root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output};

const WEIGHTS: [&str; 4] = ["gpu", "idle", "wait", "bytes"];

fn export(done: &Done, arguments: &[&str]) -> Output {
    Command::new(gpuspy()).arg("export").arg(done.trace()).args(arguments).output().unwrap()
}

/// Returns the stacks of a run, the outermost frame first, with what each weighs.
fn collapsed(done: &Done, weight: &str) -> BTreeMap<Vec<String>, u64> {
    let output = export(done, &["--to", "collapsed", "--weight", weight]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let stack = |line: &str| {
        let (frames, amount) = line.rsplit_once(' ').unwrap();
        (frames.split(';').map(str::to_owned).collect(), amount.parse().unwrap())
    };
    text.lines().map(stack).collect()
}

/// Returns the same from the profiles of a speedscope file, by their names.
fn profiles(done: &Done) -> BTreeMap<String, BTreeMap<Vec<String>, u64>> {
    let output = export(done, &["--to", "speedscope"]);
    let file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        list(&file["shared"]["frames"]).iter().map(|f| f["name"].as_str().unwrap()).collect();
    let stack = |sample: &Value| {
        list(sample).iter().map(|frame| names[frame.as_u64().unwrap() as usize].to_owned()).collect()
    };
    let stacks = |profile: &Value| {
        let (samples, weights) = (list(&profile["samples"]), list(&profile["weights"]));
        assert_eq!(samples.len(), weights.len());
        assert_eq!(profile["endValue"], weights.iter().filter_map(Value::as_u64).sum::<u64>());
        samples.iter().map(stack).zip(weights.iter().map(|weight| weight.as_u64().unwrap())).collect()
    };
    let profiles = list(&file["profiles"]).iter();
    profiles.map(|profile| (profile["name"].as_str().unwrap().to_owned(), stacks(profile))).collect()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn sum(rows: &Value, key: &str) -> u64 {
    list(rows).iter().filter_map(|row| row[key].as_u64().or(row[key]["value"].as_u64())).sum()
}

fn python(name: &str) -> Done {
    Run::command("python3").arg(root().join("tests/programs").join(name)).observed().succeeded()
}

#[test]
fn the_weights_of_all_stacks_sum_to_what_the_report_says() {
    let done = python("python_lines.py");
    let (report, all) = (report(&done.trace()), WEIGHTS.map(|weight| collapsed(&done, weight)));
    let [gpu, idle, wait, bytes] = all.each_ref().map(|stacks| stacks.values().sum::<u64>());
    let (kernels, copies) = (sum(&report["kernels"], "total_ns"), sum(&report["transfers"], "total_ns"));
    let graphs = report["graphs"]["total_ns"]["value"].as_u64().unwrap();
    let all_work = kernels + copies + graphs;
    assert!(gpu.abs_diff(all_work) <= 3, "{gpu} of {kernels}, {copies} and {graphs}");
    assert_eq!(idle, report["gaps"]["total_ns"]["value"], "{:?}", all[1]);
    assert_eq!(wait, sum(&report["lines"], "wait_ns"));
    assert_eq!(bytes, 7 << 16, "{:?}", all[3]);
    let profiles = profiles(&done);
    assert_eq!(profiles["GPU time"], all[0]);
    assert_eq!(profiles["waits for the GPU"], all[2]);
    assert_eq!(profiles["bytes moved"], all[3]);
}

#[test]
fn a_stack_leads_from_the_module_to_what_the_call_did() {
    let done = python("python_lines.py");
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let at = |function: &str| format!("{function} (python_lines.py:{})", said[function]);
    let gpu = collapsed(&done, "gpu");
    let launches = gpu.keys().find(|stack| stack.last().unwrap() == "work_300us").unwrap();
    assert!(launches[0].starts_with("<module> (python_lines.py:"), "{launches:?}");
    assert!(launches[1].starts_with("main (python_lines.py:"), "{launches:?}");
    let nested = launches.iter().filter(|frame| frame.starts_with("nested (")).count();
    assert_eq!((nested, &launches[launches.len() - 2]), (21, &at("launches")));
    let bytes = collapsed(&done, "bytes");
    let [(copies, amount)] = &bytes.iter().collect::<Vec<_>>()[..] else { panic!("{bytes:?}") };
    let end: Vec<&str> = copies.iter().rev().take(2).map(String::as_str).collect();
    assert_eq!((end, **amount), (vec!["HtoD (pageable)", &at("copies")], 7 << 16));
    let waits = collapsed(&done, "wait");
    let waited =
        |stack: &[String]| stack[stack.len() - 2..] == [at("waits"), "cudaDeviceSynchronize".to_owned()];
    assert!(waits.keys().any(|stack| waited(stack)), "{waits:?}");
    // The launches came after a pause of 100 ms.
    let idle = collapsed(&done, "idle");
    let (longest, ns) = idle.iter().max_by_key(|(_, ns)| **ns).unwrap();
    assert_eq!((longest.last(), *ns > 90_000_000), (Some(&at("launches")), true), "{idle:?}");
}

#[test]
fn each_process_of_a_run_is_the_outermost_frame_of_its_stacks() {
    let run = Run::command("bash").arg("-c").arg("python3 \"$0\" & python3 \"$0\" & wait");
    let done = run.arg(root().join("tests/programs/python_lines.py")).observed().succeeded();
    let report = report(&done.trace());
    let pids = |report: &Value| -> Vec<String> {
        let launched = list(&report["processes"]).iter().filter(|one| one["calls"] != 0);
        launched.map(|one| format!("pid {}", one["pid"])).collect()
    };
    let bytes = collapsed(&done, "bytes");
    let mut roots: Vec<String> = bytes.keys().map(|stack| stack[0].clone()).collect();
    roots.dedup();
    assert_eq!((roots.len(), bytes.values().sum::<u64>()), (2, 2 * (7 << 16)), "{bytes:?}");
    assert!(roots.iter().all(|root| pids(&report).contains(root)), "{roots:?}: {:?}", pids(&report));
}

#[test]
fn what_cannot_be_written_is_refused_and_loses_nothing() {
    let done = python("python_lines.py");
    let file = done.folder().join("stacks.txt");
    let path = file.to_str().unwrap();
    let write = |arguments: &[&str]| export(&done, &[&["-o", path], arguments].concat());
    let refused = |output: Output, why: &str| {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.contains(why)), (Some(2), true), "{said}");
    };
    // An earlier export of any format is replaced, but of collapsed stacks only by such; another file is not.
    for to in ["speedscope", "perfetto", "chrome", "perfetto", "speedscope", "collapsed", "collapsed"] {
        let output = write(&["--to", to]);
        assert!(output.status.success(), "{to}: {}", String::from_utf8_lossy(&output.stderr));
    }
    refused(write(&["--to", "speedscope"]), "exists and is not an export");
    std::fs::write(&file, "my notes\n").unwrap();
    refused(write(&["--to", "collapsed"]), "exists and is not an export");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "my notes\n");
    refused(export(&done, &["--to", "chrome", "--weight", "gpu"]), "--weight is for --to collapsed");
    refused(export(&done, &["--to", "perfetto", "--weight", "gpu"]), "--weight is for --to collapsed");
    refused(
        export(&done, &["-o", "x.pftrace.gz"]),
        "x.pftrace.gz is not written by --to chrome: .pftrace is for --to perfetto",
    );
    refused(export(&done, &["--to", "perfetto", "-o", "x.json"]), "x.json is not written by --to perfetto");
    refused(
        export(&done, &["--to", "collapsed", "--weight", "cost"]),
        "the weights are gpu, idle, wait, bytes",
    );
    refused(export(&done, &["--to", "collapsed", "-o", "/tmp/"]), "is not empty");
    let directory = format!("{}/new/", done.folder().display());
    refused(export(&done, &["--to", "collapsed", "-o", &directory]), "stacks are written to one file");
}

/// A program of C has no stacks of Python. What its calls cause has the native function that made them.
#[test]
fn a_native_program_has_its_functions() {
    let done = Run::of("work_runtime").observed().succeeded();
    let report = report(&done.trace());
    let gpu = collapsed(&done, "gpu");
    let all = sum(&report["kernels"], "total_ns") + sum(&report["transfers"], "total_ns");
    let stacks = gpu.values().sum::<u64>();
    assert!(stacks.abs_diff(all) <= gpu.len() as u64, "{stacks} of {all}: {gpu:?}");
    assert!(gpu.keys().any(|stack| stack[0].ends_with(" in work_runtime")), "{gpu:?}");
}
