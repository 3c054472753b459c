//! The simulator implements every function of the agent's table and of NVIDIA's runtime, or lists it with a reason as
//! missing.

#[path = "../../../sim/cudart/src/lacking.rs"]
mod lacking;

use super::table;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Driver functions that the simulator exports but that fail there, by how their names start, with the reason.
const DRIVER_LACKS: &[(&str, &str)] = &[
    ("cuGraphics", "what they map is registered by graphics APIs, of which there is none"),
    ("cuFabricCpyBatchAsync", "copies between the machines of a fabric"),
    ("cuStreamBeginCaptureToCig", "captures into a graphics API's list of commands"),
    ("cuStreamEndCaptureToCig", "the same"),
    ("cuStreamBeginRecaptureToGraph", "a capture that asks the program about each node that differs"),
    ("cuMemMapArrayAsync", "arrays whose tiles have memory each for itself"),
];

/// The runtimes: the version in their names, and the download that contains NVIDIA's.
const RUNTIMES: &[(&str, &str)] = &[("12", "cuda-12.9"), ("13", "cuda-13")];

fn exports(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split_whitespace().last().unwrap().split('@').next().unwrap().to_owned();
    text.lines().map(name).collect()
}

/// Returns the driver functions that are implemented: those named in the simulator's `exports!` tables, as its build
/// script reads them.
fn simulated() -> BTreeSet<String> {
    let folder = gpuspy_tests::root().join("sim/cuda/src/api");
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
    assert!(missing.is_empty(), "hooked, but the simulator lacks them: {missing:?}");
    for (start, why) in lacks {
        let still = wanted.difference(has).any(|name| name.starts_with(start));
        assert!(still, "{start} ({why}) is implemented: remove it from the list");
    }
}

#[test]
fn the_simulated_driver_has_every_function_of_the_table() {
    let wanted = table("driver");
    let exported = exports(&gpuspy_tests::sim_lib().join("libcuda.so.1"));
    assert_eq!(wanted.difference(&exported).collect::<Vec<_>>(), Vec::<&String>::new());
    check(&wanted, &simulated(), DRIVER_LACKS);
}

/// Returns the functions that a runtime exports, NVIDIA's or the simulator's; the version node among the exports is no
/// function.
fn of_runtime(library: &Path) -> BTreeSet<String> {
    let is_function = |name: &String| name.starts_with("cuda") || name.starts_with("__cuda");
    exports(library).into_iter().filter(is_function).collect()
}

fn of_simulator(version: &str) -> BTreeSet<String> {
    of_runtime(&gpuspy_tests::sim_lib().join(format!("libcudart.so.{version}")))
}

/// Reads the library that `scripts/fetch.sh` downloads; if it is missing, `nm` fails and the test with it.
fn of_nvidia(version: &str, download: &str) -> BTreeSet<String> {
    let folder = gpuspy_tests::root().join("downloads").join(download).join("lib");
    of_runtime(&folder.join(format!("libcudart.so.{version}")))
}

/// Returns the runtime functions that the simulator lists as missing.
fn listed() -> BTreeSet<String> {
    lacking::LACKING.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect()
}

#[test]
fn each_simulated_runtime_exports_what_nvidias_does_or_lists_why_not() {
    let mut missing_anywhere = BTreeSet::new();
    for (version, download) in RUNTIMES {
        let (theirs, ours) = (of_nvidia(version, download), of_simulator(version));
        assert!(theirs.len() > 400, "NVIDIA's runtime {version} exports only {} functions", theirs.len());
        let missing: BTreeSet<String> = theirs.difference(&ours).cloned().collect();
        let unsaid: Vec<_> = missing.difference(&listed()).cloned().collect();
        assert_eq!(
            unsaid,
            Vec::<String>::new(),
            "functions are missing from .so.{version}, but are not in lacking.rs"
        );
        let more: Vec<_> = ours.difference(&theirs).collect();
        assert_eq!(
            more,
            Vec::<&String>::new(),
            "NVIDIA's .so.{version} lacks functions that the simulator exports"
        );
        missing_anywhere.extend(missing);
    }
    let stale: Vec<_> = listed().difference(&missing_anywhere).cloned().collect();
    assert_eq!(stale, Vec::<String>::new(), "functions are in lacking.rs, but are not missing");
}

#[test]
fn the_simulated_runtimes_have_every_function_of_the_table() {
    let has: BTreeSet<String> = RUNTIMES.iter().flat_map(|(version, _)| of_simulator(version)).collect();
    let unsaid: Vec<_> =
        table("runtime").difference(&has).filter(|name| !listed().contains(*name)).cloned().collect();
    assert_eq!(unsaid, Vec::<String>::new(), "functions are hooked, but the simulator lacks them");
}
