//! What graph launches run, by name and count, against the stand-in's truth and the program's own.

use crate::compare::{Compared, compare};
use gpuspy_tests::{Done, Run};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Versions of the driver that differ in what they say of graphs: 12.2 names no functions, 12.3 has edges with data.
const DRIVERS: &[&str] = &["12020", "12090", "13050"];

/// Kernels inside graphs by name: as the stand-in ran them.
fn truth(done: &Done) -> BTreeMap<String, u64> {
    let mut ran = BTreeMap::new();
    for line in done.truth().of("kernel").filter(|line| line["in_graph"] != 0) {
        *ran.entry(line["name"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    ran
}

fn in_graphs(report: &Value) -> BTreeMap<String, u64> {
    let rows = report["kernels"].as_array().unwrap().iter();
    let ran = rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row["in_graphs"].as_u64().unwrap()));
    ran.filter(|(_, count)| *count > 0).collect()
}

/// The report's counts are the truth's, and the program's.
fn counts_are_exact(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let ours = in_graphs(&report);
    assert_eq!(ours, truth(done));
    let mut theirs = said["in_graphs"].as_object().unwrap().clone();
    theirs.retain(|_, count| *count != 0);
    assert_eq!(json!(ours), json!(theirs));
    assert_eq!(report["coverage"]["in_graphs"], ours.values().sum::<u64>());
    assert_eq!(report["coverage"]["dropped"], 0, "{}", report["coverage"]);
    let graphs = &report["graphs"];
    assert_eq!(graphs["launches"], said["graph_launches"]);
    assert_eq!(graphs["kernels"], ours.values().sum::<u64>());
    assert_eq!((&graphs["copies"], &graphs["memsets"]), (&said["copies"], &said["memsets"]));
    let moved = report["transfers"].as_array().unwrap();
    assert!(
        moved.iter().all(|row| row["kind"] == "DtoH"),
        "a graph's copies and sets are its own: {moved:?}"
    );
}

fn launches_hold_the_truth(done: &Done) {
    let compared = compare(done);
    let graphs = || compared.iter().filter(|c| c.truth.kind == "graph");
    let timed = graphs().filter_map(Compared::timed).count();
    assert_eq!(graphs().find_map(Compared::violation), None);
    assert!(timed * 10 >= graphs().count() * 9, "{timed} of {} graph launches are timed", graphs().count());
}

fn check(run: Run, options: &[&str]) -> Done {
    let done = run.observed_with(options).succeeded();
    counts_are_exact(&done);
    launches_hold_the_truth(&done);
    done
}

#[test]
fn graphs_made_and_changed_in_every_way_list_what_they_ran() {
    for driver in DRIVERS {
        println!("driver {driver}");
        check(Run::of("graphs").env("SIMCUDA_DRIVER_VERSION", driver), &[]);
    }
}

#[test]
fn a_graph_of_ten_thousand_nodes_lists_what_it_ran() {
    check(Run::of("graphs").arg("large"), &[]);
}
