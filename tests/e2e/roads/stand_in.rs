//! The stand-in has every function of the table, or is said not to have it.

use super::table;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Driver functions that the stand-in exports and that fail there, by what they begin with.
const DRIVER_LACKS: &[(&str, &str)] = &[
    ("cuGraphics", "what they map is registered by graphics APIs, of which there is none"),
    ("cuFabricCpyBatchAsync", "copies between the machines of a fabric"),
    ("cuStreamBeginCaptureToCig", "captures into a graphics API's list of commands"),
    ("cuStreamEndCaptureToCig", "the same"),
    ("cuStreamBeginRecaptureToGraph", "a capture that asks the program about each node that differs"),
    ("cuMemMapArrayAsync", "arrays whose tiles have memory each for itself"),
];

/// Runtime functions that the stand-in's does not have.
const RUNTIME_LACKS: &[(&str, &str)] = &[
    ("cudaLaunchCooperativeKernelMultiDevice", "gone in CUDA 13"),
    ("cudaGraphExecNodeSetParams", "one structure for nodes of every kind"),
    ("cudaGraphics", "as the driver's"),
    ("cudaLaunchHostFunc_v2", "a driver's call of CUDA 13.1, which differs from the one before"),
    ("cudaStreamBeginRecaptureToGraph", "as the driver's"),
    ("cudaSignalExternalSemaphoresAsync", "other APIs' semaphores, in structures that differ by version"),
    ("cudaWaitExternalSemaphoresAsync", "the same"),
    ("cudaGreenCtxCreate", "green contexts, which clients make by the driver's calls"),
    ("cudaExecutionCtx", "the same"),
];

fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split_whitespace().last().unwrap().split('@').next().unwrap().to_owned();
    text.lines().map(name).collect()
}

/// The driver's functions that do something: what its `exports!` tables name, as its build script reads them.
fn simulated() -> BTreeSet<String> {
    let folder = gpuspy_tests::root().join("tests/simcuda/src/api");
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let rows = text.lines().map(str::trim).filter(|line| line.starts_with("cu"));
        for (symbols, _) in rows.filter_map(|row| row.split_once("=>")) {
            names.extend(symbols.split('|').map(|name| name.trim().to_owned()));
        }
    }
    names
}

fn check(wanted: &BTreeSet<String>, has: &BTreeSet<String>, lacks: &[(&str, &str)]) {
    let is_excused = |name: &str| lacks.iter().any(|(start, _)| name.starts_with(start));
    let missing: Vec<_> = wanted.difference(has).filter(|name| !is_excused(name)).collect();
    assert!(missing.is_empty(), "hooked, and nothing to try it on: {missing:?}");
    for (start, why) in lacks {
        let still = wanted.difference(has).any(|name| name.starts_with(start));
        assert!(still, "{start} ({why}) is there by now: take it off the list");
    }
}

#[test]
fn the_stand_in_driver_has_every_function_of_the_table() {
    let wanted = table("driver");
    let exported = exports(&gpuspy_tests::sim_lib().join("libcuda.so.1"));
    assert_eq!(wanted.difference(&exported).collect::<Vec<_>>(), Vec::<&String>::new());
    check(&wanted, &simulated(), DRIVER_LACKS);
}

#[test]
fn the_stand_in_runtime_has_every_function_of_the_table() {
    let exported = exports(&gpuspy_tests::sim_lib().join("libcudart.so.12"));
    check(&table("runtime"), &exported, RUNTIME_LACKS);
}
