//! Which line of a Python program made a call: compared with what Python itself says of its frames.

use crate::export::{exported, ns, number};
use gpuspy_collector::trace::TraceReader;
use gpuspy_tests::{Done, Run, report, root, until_one_is_good};
use gpuspy_wire::record::Namespace;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The most frames that a call has in a trace.
const MOST_FRAMES: usize = 126;

/// Returns the interpreters of this machine with their minor versions: the system's, those of pyenv, and what
/// `scripts/fetch-pythons` and `scripts/build-free-threaded` have made.
fn interpreters() -> Vec<(u32, PathBuf)> {
    let of_pyenv = std::env::var("HOME").map(|home| Path::new(&home).join(".pyenv/versions"));
    let made = ["pythons", "free-threaded"].map(|name| root().join("downloads").join(name));
    let folders = of_pyenv.into_iter().chain(made);
    let installed = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin/python3")).collect();
    found.push("/usr/bin/python3".into());
    let minor = |python: &Path| -> Option<u32> {
        let mut command = std::process::Command::new(python);
        let asked = command.args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
        String::from_utf8(asked.stdout).ok()?.trim().parse().ok()
    };
    found.into_iter().filter_map(|python| Some((minor(&python)?, python))).collect()
}

/// Returns those whose frames can be read.
pub fn readable() -> Vec<PathBuf> {
    let all = interpreters();
    let known: Vec<PathBuf> =
        all.into_iter().filter(|(minor, _)| (9..=15).contains(minor)).map(|(_, python)| python).collect();
    assert!(!known.is_empty(), "the tests need a CPython of 3.9 to 3.15");
    known
}

pub fn script(python: &Path, name: &str) -> Run {
    Run::command(python).arg(root().join("tests/programs").join(name))
}

/// Returns the lines of `report --operations` for a finished run.
fn operations(done: &Done) -> Vec<Value> {
    let mut command = std::process::Command::new(gpuspy_tests::gpuspy());
    let asked = command.arg("report").arg(done.trace()).arg("--operations").output().unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the lines of Python in a run's report: those of native code name their library.
fn lines_of_python(done: &Done) -> Vec<Value> {
    let report = report(&done.trace());
    let lines = report["lines"].as_array().unwrap().iter();
    lines.filter(|line| line["file"].is_string() && line["library"].is_null()).cloned().collect()
}

/// Returns what the program says of each call, by the size of its memset.
fn said(done: &Done, what: &str) -> HashMap<u64, Vec<String>> {
    let calls = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    calls
        .map(|call| (call["bytes"].as_u64().unwrap(), serde_json::from_value(call[what].clone()).unwrap()))
        .collect()
}

/// Compares each memset's stack with what the program says that Python said at that call. Returns their number.
fn check(done: &Done) -> usize {
    let said = said(done, "stack");
    let mut checked = 0;
    for operation in operations(done).iter().filter(|operation| operation["kind"] == "memset") {
        let mut expected = said[&operation["bytes"].as_u64().unwrap()].clone();
        if expected.len() > MOST_FRAMES {
            expected.truncate(MOST_FRAMES);
            expected.push("…".to_owned());
        }
        assert_eq!(operation["stack"], json!(expected), "{operation}");
        // Code that the program compiles from strings has the line that runs it.
        let own = expected.iter().find(|frame| !frame.contains("(<string>:")).unwrap();
        let line = own.rsplit_once(" (").unwrap().1.strip_suffix(')').unwrap();
        assert_eq!(operation["line"], json!(line));
        checked += 1;
    }
    assert_eq!(checked, said.len());
    checked
}

/// Compares the functions that an export draws around each memset with those that the program says that Python said at that
/// call. Returns how many calls were compared.
fn check_functions(done: &Done) -> usize {
    let said = said(done, "functions");
    let trace = exported(&done.trace());
    let events = || trace["traceEvents"].as_array().unwrap().iter();
    let sizes: HashMap<u64, u64> = events()
        .filter(|event| event["cat"] == "gpu_memset")
        .map(|set| (number(set, "/args/correlation"), number(set, "/args/bytes")))
        .collect();
    let mut functions: HashMap<u64, Vec<(i64, i64, &str)>> = HashMap::new();
    for event in events().filter(|event| event["cat"] == "python_function") {
        let (begin, end) = (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"]));
        let of_thread = functions.entry(number(event, "/tid")).or_default();
        of_thread.push((begin, end, event["name"].as_str().unwrap()));
    }
    functions.values_mut().for_each(|of_thread| of_thread.sort_by_key(|(begin, end, _)| (-begin, *end)));
    let mut checked = 0;
    for call in events().filter(|event| event["cat"] == "cuda_runtime") {
        let Some(bytes) = sizes.get(&number(call, "/args/correlation")) else { continue };
        let (begin, end) = (ns(&call["ts"]), ns(&call["ts"]) + ns(&call["dur"]));
        let of_thread = functions[&number(call, "/tid")].iter();
        let around = of_thread.filter(|function| function.0 < begin && end < function.1);
        let around: Vec<&str> = around.map(|(.., name)| *name).collect();
        // Of a stack that is deeper than what is read, those that were open before may stand for the others.
        let expected = &said[bytes][..said[bytes].len().min(MOST_FRAMES)];
        let is_cut = expected.len() < said[bytes].len();
        let compared = if is_cut { &around[..expected.len()] } else { &around[..] };
        assert_eq!(compared, expected, "{call}");
        checked += 1;
    }
    // A memset that was not timed is in no row, so nothing says which call it was.
    assert!(done.is_share(checked, said.len(), 0.9), "{checked} of {}", said.len());
    checked
}

#[test]
fn each_call_has_the_frames_and_the_functions_that_python_says_it_has() {
    for python in readable() {
        let done = script(&python, "python_calls.py").observed().succeeded();
        assert!(check(&done) > 1000, "{}", python.display());
        assert!(check_functions(&done) > 1000, "{}", python.display());
    }
}

#[test]
fn frames_are_read_where_every_freed_object_is_overwritten() {
    for python in readable() {
        let run = script(&python, "python_calls.py").env("PYTHONMALLOC", "debug");
        check(&run.auto("5").observed().succeeded());
    }
}

#[test]
fn calls_count_for_their_lines() {
    let python = readable().pop().unwrap();
    let done = script(&python, "python_lines.py").observed().succeeded();
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let report = report(&done.trace());
    let lines = report["lines"].as_array().unwrap();
    let line = |function: &str| {
        let mut found = lines.iter().filter(|line| line["function"] == function);
        let line = found.next().unwrap_or_else(|| panic!("{function} is missing: {lines:?}"));
        assert!(found.next().is_none(), "{function} has one line");
        assert_eq!(line["line"], said[function], "{function}");
        assert!(line["file"].as_str().unwrap().ends_with("python_lines.py"));
        line
    };
    assert_eq!(line("copies")["calls"], json!({"cudaMemcpy": 7}));
    assert_eq!((&line("copies")["bytes"], &line("copies")["timed"]), (&json!(7 << 16), &json!(7)));
    assert_eq!(line("allocates")["allocated_bytes"], 3 << 20);
    assert_eq!(line("launches")["launches"], 5);
    let gpu = &line("launches")["gpu_ns"];
    assert!(gpu["hi"].as_u64().unwrap() >= 5 * 300_000, "five kernels of 300 us: {gpu}");
    assert_eq!(line("waits")["calls"], json!({"cudaDeviceSynchronize": 2}));
    assert!(line("waits")["wait_ns"].as_u64().unwrap() > 0);
    assert!(line("launches")["idle_ns"].as_u64().unwrap() > 50_000_000, "it launched after a pause");
    let calls =
        |line: &Value| line["calls"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    let apis = report["apis"].as_array().unwrap().iter().map(|api| api["count"].as_u64().unwrap());
    assert_eq!(lines.iter().map(calls).sum::<u64>(), apis.sum::<u64>(), "the rows sum to the whole");
    assert!(done.section("lines").contains("launches"));
}

/// A replay launches all kernels of its graph from one line; what a user looks for is the line that captured each.
#[test]
fn a_replayed_graphs_kernels_have_the_line_that_captured_them() {
    let python = readable().pop().unwrap();
    let done = script(&python, "python_lines.py").observed().succeeded();
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let report = report(&done.trace());
    let kernels = report["kernels"].as_array().unwrap();
    let kernel = kernels.iter().find(|kernel| kernel["symbol"] == "work_200us").unwrap();
    assert_eq!((&kernel["count"], &kernel["in_graphs"]), (&json!(1), &json!(60)));
    let place = |function: &str| format!("python_lines.py:{}", said[function]);
    assert!(kernel["line"].as_str().unwrap().ends_with(&place("captures")), "{kernel}");
    assert_eq!(kernel["line_share"], json!(60.0 / 61.0));
    let lines = report["lines"].as_array().unwrap();
    let replays = lines.iter().find(|line| line["function"] == "replays").unwrap();
    assert_eq!((&replays["calls"], &replays["line"]), (&json!({"cuGraphLaunch": 20}), &said["replays"]));
    assert!(replays["gpu_ns"]["hi"].as_u64().unwrap() >= 60 * 200_000, "the graphs' time: {replays}");
    let section = done.section("graphs");
    assert!(section.contains(&place("captures")), "{section}");
}

/// A package that compiles functions from strings gives them the same name of a file.
#[test]
fn a_program_that_is_given_on_the_command_line_has_its_lines() {
    for python in readable() {
        let text = std::fs::read_to_string(root().join("tests/programs/python_lines.py")).unwrap();
        let done = Run::command(&python).arg("-c").arg(text).observed_with(&["--timing", "off"]).succeeded();
        let said: Value = serde_json::from_str(&done.stdout).unwrap();
        let lines = lines_of_python(&done);
        for function in ["copies", "launches", "allocates"] {
            let row = lines.iter().find(|row| row["function"] == function).unwrap();
            assert_eq!((&row["file"], &row["line"]), (&json!("<string>"), &said[function]), "{lines:#?}");
        }
    }
}

#[test]
fn launches_that_are_not_timed_have_their_frames_up_to_the_users() {
    let python = readable().pop().unwrap();
    // The launch, 21 calls of one function, and the module's two.
    for (options, frames) in [
        (&["--timing", "exact"][..], 24),
        (&["--timing", "off"], 1 + 1),
        (&["--timing", "off", "--stacks", "full"], 24),
    ] {
        let done = script(&python, "python_lines.py").observed_with(options).succeeded();
        let launches: Vec<Value> =
            operations(&done).into_iter().filter(|operation| operation["symbol"] == "work_300us").collect();
        assert_eq!(launches.len(), 5);
        for launch in launches {
            assert_eq!(launch["stack"].as_array().unwrap().len(), frames, "{options:?}: {launch}");
            assert!(launch["stack"][0].as_str().unwrap().starts_with("launches ("), "{launch}");
        }
    }
}

#[test]
fn a_launch_from_deep_inside_a_package_has_the_line_that_called_the_package() {
    for python in readable() {
        let done = script(&python, "python_packages.py").observed_with(&["--timing", "off"]).succeeded();
        let said: Vec<(String, usize)> = serde_json::from_str(&done.stdout).unwrap();
        let operations = operations(&done);
        let launches: Vec<&Value> =
            operations.iter().filter(|operation| operation["symbol"] == "work_5us").collect();
        assert_eq!((launches.len(), said.len()), (12, 12));
        for (launch, (line, frames)) in launches.iter().zip(said) {
            assert_eq!(launch["line"], json!(line), "{}: {launch}", python.display());
            let stack = launch["stack"].as_array().unwrap();
            assert_eq!((stack.len(), &stack[frames]), (frames + 1, &json!("…")), "the user's is the last");
        }
        let alone = operations.iter().find(|operation| operation["symbol"] == "work_6us").unwrap();
        assert_eq!(alone["stack"].as_array().unwrap().len(), 1, "the thread has no other frame: {alone}");
    }
}

#[test]
fn no_name_is_read_with_stacks_off() {
    let python = readable().pop().unwrap();
    let done = script(&python, "python_lines.py").observed_with(&["--stacks", "off"]).succeeded();
    assert_eq!(lines_of_python(&done), [Value::Null; 0]);
    let has_name = |operation: &Value| operation.to_string().contains("python_lines.py");
    assert!(!operations(&done).iter().any(has_name));
}

#[test]
fn an_interpreter_of_an_unknown_version_is_not_read_and_named() {
    let Some((_, python)) = interpreters().into_iter().find(|(minor, _)| *minor == 8) else { return };
    let done = script(&python, "python_lines.py").observed().succeeded();
    assert_eq!(lines_of_python(&done), [Value::Null; 0]);
    assert!(done.stderr.contains("not one whose frames are known"), "{}", done.stderr);
}

#[test]
fn what_only_looks_like_an_interpreter_is_not_believed() {
    for fake in ["small", "large", "garbage", "unmapped", "wrong_type"] {
        let done = Run::of("fake_python").env("FAKE", fake).observed().succeeded();
        assert_eq!(lines_of_python(&done), [Value::Null; 0], "{fake}");
        assert!(done.stderr.contains("not laid out as its version should be"), "{fake}: {}", done.stderr);
    }
}

#[test]
fn frames_in_a_circle_end() {
    let done = Run::of("fake_python").env("FAKE", "circle").observed().succeeded();
    let memsets: Vec<Value> =
        operations(&done).into_iter().filter(|operation| operation["kind"] == "memset").collect();
    assert_eq!(memsets.len(), 100);
    assert!(memsets.iter().all(|memset| memset["stack"].as_array().unwrap().len() == MOST_FRAMES + 1));
}

#[test]
fn a_program_without_an_interpreter_has_no_line_of_python_and_no_note() {
    let done = Run::of("work_runtime").observed().succeeded();
    assert_eq!(lines_of_python(&done), [Value::Null; 0]);
    assert!(!done.stderr.contains("Python"), "{}", done.stderr);
}

/// Times that other programs on the machine make irregular take more bytes, and none take fewer: the smallest traces are
/// compared.
#[test]
fn the_stack_of_a_launch_takes_less_than_half_a_byte_of_the_trace() {
    let python = readable().pop().unwrap();
    let run = |stacks: &str| {
        let run = script(&python, "python_layers.py").arg("1000");
        let done = run.observed_with(&["--timing", "off", "--stacks", stacks]).succeeded();
        let said: Value = serde_json::from_str(&done.stdout).unwrap();
        (std::fs::metadata(done.trace()).unwrap().len(), said["launches"].as_u64().unwrap())
    };
    for stacks in ["auto", "full"] {
        let (mut with, mut without) = (u64::MAX, u64::MAX);
        let is_little = (0..12).any(|_| {
            with = with.min(run(stacks).0);
            let (bytes, launches) = run("off");
            without = without.min(bytes);
            (with.saturating_sub(without) as f64) <= 0.5 * launches as f64
        });
        println!("--stacks {stacks}: {with} and {without} bytes");
        assert!(is_little, "--stacks {stacks}: {with} and {without} bytes");
    }
}

/// From CPython 3.12 on a thread that is in a sub-interpreter has that one's frames, before it those of the interpreter that it
/// came from. Either is where the call was made.
#[test]
fn a_call_in_a_sub_interpreter_has_its_frames_or_the_line_that_runs_it() {
    for python in readable() {
        let done = script(&python, "python_subinterpreters.py").observed().succeeded();
        let said: HashMap<u64, Value> = (done.stdout.lines())
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|call| (call["bytes"].as_u64().unwrap(), call))
            .collect();
        let operations = operations(&done);
        let memsets: Vec<&Value> = operations.iter().filter(|one| one["kind"] == "memset").collect();
        assert_eq!((memsets.len(), said.len()), (18, 18), "{}", python.display());
        for memset in memsets {
            let call = &said[&memset["bytes"].as_u64().unwrap()];
            let is_there = [&call["stack"], &call["main"]].contains(&&memset["stack"]);
            assert!(is_there, "{}: {memset} beside {call}", python.display());
        }
    }
}

/// A program of C that runs Python inside, ends the interpreter, and starts another one.
#[test]
fn a_program_that_embeds_an_interpreter_has_the_lines_of_its_scripts() {
    let mut checked = 0;
    for python in readable() {
        let asked = std::process::Command::new(&python)
            .args(["-c", "import sysconfig as s; print(s.get_path('include'), s.get_config_var('LIBDIR'), s.get_config_var('LDVERSION'), s.get_config_var('prefix'))"])
            .output()
            .unwrap();
        let asked = String::from_utf8(asked.stdout).unwrap();
        let [include, libraries, version, home] = asked.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{asked}")
        };
        if !Path::new(libraries).join(format!("libpython{version}.so")).exists() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("embeds");
        let compiled = std::process::Command::new("gcc")
            .arg(root().join("tests/programs/native/embeds_python.c"))
            .args([&format!("-I{include}"), &format!("-L{libraries}"), &format!("-Wl,-rpath,{libraries}")])
            .args([&format!("-lpython{version}"), "-o"])
            .arg(&program)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        // CPython 3.12.1 aborts in the second round, also without gpuspy.
        let rounds = if version == "3.12" { 1 } else { 2 };
        let run = Run::command(&program).arg(rounds.to_string()).env("PYTHONHOME", home);
        let done = run.observed().succeeded();
        let lines: Vec<Value> = operations(&done).iter().map(|one| one["line"].clone()).collect();
        // Each round of the script sets memory in a function on its line 8.
        assert_eq!(lines, vec![json!("/scripts/train.py:8"); 3 * rounds], "{}", python.display());
        checked += 1;
    }
    println!("{checked} interpreters can be embedded");
}

/// Runs a program with a thread of autograd's until the collector has seen the thread's name.
fn of_backward(argument: &str) -> Done {
    let python = readable().pop().unwrap();
    let programs = gpuspy_tests::program("libautograd.so");
    let mut named = None;
    until_one_is_good(|| {
        let run = script(&python, "python_backward.py").arg(argument);
        let done = run.env("PROGRAMS", programs.parent().unwrap()).observed_with(&["--timing", "exact"]);
        let reader = TraceReader::open(&done.trace()).unwrap();
        let mut names = reader.names().0.iter().filter(|((space, _), _)| *space == Namespace::Thread);
        let is_named = names.any(|(_, name)| name == "pt_autograd_0");
        named = Some(done.succeeded());
        is_named.then_some(()).ok_or_else(|| "the thread has no name".to_owned())
    });
    named.unwrap()
}

/// Autograd's threads have no frames of Python. Before, two thirds of a training step had the functions of a library.
#[test]
fn calls_of_autograds_threads_have_the_line_that_waits_for_the_backward_pass() {
    let done = of_backward("seen");
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let line = format!("python_backward.py:{}", said["line"]);
    let is_backward = |operation: &&Value| {
        let stack = operation["stack"].as_array().unwrap();
        operation["kind"] == "kernel"
            && stack.iter().any(|frame| frame.as_str().unwrap().contains("(backward)"))
    };
    let operations = operations(&done);
    let inferred: Vec<&Value> = operations.iter().filter(is_backward).collect();
    assert_eq!(inferred.len() as u64, said["launches"], "{operations:#?}");
    for launch in inferred {
        assert!(launch["line"].as_str().unwrap().ends_with(&line), "{launch}");
        let stack: Vec<&str> = launch["stack"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap().split(" (").next().unwrap())
            .collect();
        let [.., entry, method, own, main, module] = stack[..] else { panic!("{stack:?}") };
        assert_eq!((entry, own, main, module), ("backward", "step", "main", "<module>"), "{launch}");
        assert!(method.ends_with("backward") && stack[0].starts_with("autograd"), "{launch}");
    }
    let report = report(&done.trace());
    let lines = report["lines"].as_array().unwrap();
    let row = lines.iter().find(|row| row["function"] == "step (backward)").unwrap();
    assert_eq!((&row["line"], &row["launches"]), (&said["line"], &said["launches"]));
}

#[test]
fn calls_of_autograds_threads_that_nobody_is_known_to_wait_for_are_of_the_backward_pass() {
    let done = of_backward("unseen");
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    let report = report(&done.trace());
    let rows = report["lines"].as_array().unwrap();
    let row = rows.iter().find(|row| row["library"] == "autograd's thread").unwrap();
    assert_eq!((&row["function"], &row["launches"]), (&json!("backward"), &said["launches"]), "{rows:#?}");
}
