//! Which functions a call came from: launches behind a compiler's stub, and calls that take long.

use crate::native_lines::tool;
use gpuspy_tests::{Done, Run, gpuspy, root, sim_lib};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// Has returns checked by the processor.
const PROTECTED: &str =
    if cfg!(target_arch = "aarch64") { "-mbranch-protection=standard" } else { "-fcf-protection=full" };

/// A folder with `native/launches.c`, compiled.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    fn with(options: &[&str]) -> Built {
        let folder = tempfile::tempdir().unwrap();
        let source = root().join("tests/programs/native/launches.c").display().to_string();
        let cuda = format!("-L{}", sim_lib().display());
        let arguments = ["-pthread", "-o", "launches", &source, &cuda, "-l:libcudart.so.12"];
        tool("gcc", folder.path(), &[options, &arguments].concat());
        Built { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("launches")
    }

    fn run(&self, options: &[&str]) -> Done {
        Run::command(self.program()).observed_with(options).succeeded()
    }
}

/// Returns the lines of `report --operations` in the order of the calls.
fn operations(done: &Done) -> Vec<Value> {
    let asked = Command::new(gpuspy()).arg("report").arg(done.trace()).arg("--operations").output().unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let mut all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.sort_by_key(|operation| operation["call_start_ns"].as_u64());
    all
}

/// Pairs each launch with the line and the function that the program says it has.
fn launches(done: &Done) -> Vec<(Value, u64, String)> {
    let all = operations(done);
    let launches: Vec<Value> = all.into_iter().filter(|operation| operation["kind"] == "kernel").collect();
    let said = done.stdout.lines().map(|line| line.split_once(' ').unwrap());
    let said: Vec<(u64, String)> =
        said.map(|(line, name)| (line.parse().unwrap(), name.to_owned())).collect();
    assert_eq!((launches.len(), said.len()), (17, 17), "{}", done.stdout);
    launches.into_iter().zip(said).map(|(launch, (line, function))| (launch, line, function)).collect()
}

#[test]
fn a_launch_has_the_line_behind_the_compilers_stub() {
    let source = root().join("tests/programs/native/launches.c").display().to_string();
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O1"],
        &["-g", "-O2"],
        &["-g", "-O3", "-fomit-frame-pointer", "-fno-plt"],
        &["-g", "-O2", "-fno-omit-frame-pointer", "-no-pie"],
        &["-g", "-O2", PROTECTED, "-fstack-protector-all", "-fstack-clash-protection"],
    ] {
        println!("{options:?}");
        let built = Built::with(options);
        let done = built.run(&[]);
        let mut known = 0;
        for (launch, line, function) in launches(&done) {
            let expected = json!(format!("{source}:{line}"));
            // Where a coroutine's stack lies decides whether it is followed; what is told is never another line.
            let is_unknown =
                function == "of_coroutine" && launch["line"] == "launch of work_300us in launches";
            assert!(launch["line"] == expected || is_unknown, "{function} {line}: {launch}");
            known += u32::from(!is_unknown);
            let stack = launch["stack"].as_array().unwrap();
            assert!(
                is_unknown || stack[0].as_str().unwrap().starts_with(&format!("{function} (")),
                "{launch}"
            );
        }
        assert!(known >= 16, "{known}");
    }
}

#[test]
fn a_launch_behind_code_without_unwind_information_names_its_kernel() {
    let built = Built::with(&["-g", "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]);
    for (launch, ..) in launches(&built.run(&[])) {
        assert_eq!(launch["line"], "launch of work_300us in launches", "{launch}");
    }
}

#[test]
fn a_launch_of_a_program_without_debug_information_has_its_function() {
    let built = Built::with(&["-O2", "-fno-inline"]);
    for (launch, _, function) in launches(&built.run(&[])) {
        let line = launch["line"].as_str().unwrap();
        // The compiler may have made a copy of the function, with a suffix to its name.
        let is_right = line.starts_with(&function) && line.ends_with(" in launches");
        assert!(is_right || function == "of_coroutine", "{function}: {launch}");
    }
    tool("strip", built.folder.path(), &["launches"]);
    for (launch, ..) in launches(&built.run(&[])) {
        assert_eq!(launch["line"], Value::Null, "{launch}");
    }
}

#[test]
fn no_stack_of_a_launch_is_read_with_stacks_off() {
    let built = Built::with(&["-g", "-O2"]);
    for (launch, ..) in launches(&built.run(&["--stacks", "off"])) {
        assert_eq!(launch["line"], "launch of work_300us in launches", "{launch}");
    }
}

#[test]
fn a_long_call_has_all_of_its_native_frames() {
    for options in [&["-g", "-O0"][..], &["-g", "-O2", "-fno-optimize-sibling-calls", "-fno-ipa-cp"]] {
        let built = Built::with(options);
        let stack = |options: &[&str]| -> Vec<String> {
            // The launches before it may be over when it is made: on a busy machine, the thread waits for a processor.
            let run = Run::command(built.program()).env("SIMCUDA_HOST_COST", "other=200000");
            let done = run.observed_with(options).succeeded();
            let copy = operations(&done).into_iter().find(|operation| operation["kind"] == "DtoH").unwrap();
            copy["stack"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().to_owned()).collect()
        };
        let all = stack(&["--native"]);
        let deep = all.iter().filter(|frame| frame.starts_with("deep (")).count();
        assert_eq!(deep, 21, "{all:#?}");
        let place = all.iter().position(|frame| frame.starts_with("main (")).unwrap();
        assert_eq!(place, 21, "{all:#?}");
        assert_eq!(stack(&[]).len(), 1, "only with --native");
    }
}

#[test]
fn a_long_call_of_a_python_program_has_its_native_frames_and_those_of_python() {
    let script = root().join("tests/programs/python_lines.py");
    let run = |options: &[&str]| {
        let run = Run::command("python3");
        run.arg(&script).env("SIMCUDA_HOST_COST", "other=200000").observed_with(options).succeeded()
    };
    let of_copies = |done: &Done| -> Vec<Value> {
        operations(done).into_iter().filter(|operation| operation["kind"] == "HtoD").collect()
    };
    let (with, without) = (run(&["--native"]), run(&[]));
    let (with, without) = (of_copies(&with), of_copies(&without));
    assert_eq!((with.len(), without.len()), (7, 7));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with["line"], without["line"], "the line of Python is the user's");
        let (all, python) = (with["stack"].as_array().unwrap(), without["stack"].as_array().unwrap());
        assert!(all.len() > python.len() + 3, "ctypes and the interpreter: {with}");
        assert!(all.ends_with(python), "{with}");
    }
}
