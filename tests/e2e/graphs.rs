//! Compares what graph launches run, by name and count, with the simulator's truth and the program's own counts.

use crate::compare::{Compared, by_name, compare, median, slack};
use gpuspy_collector::model::gpu_interval::GpuInterval;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::model::{Model, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, What};
use gpuspy_tests::{Done, Run, until_one_is_good};
use gpuspy_wire::record::Namespace;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Versions of the driver that differ in what they say about graphs: 12.2 returns no functions, 12.3 has edges with
/// data.
const DRIVERS: &[&str] = &["12020", "12090", "13050"];

/// Options with which nodes of graphs are timed.
const NODES: &[&str] = &["--graph", "nodes"];

/// Returns kernels inside graphs by name, as the simulator ran them.
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

/// Checks that the report's counts are the truth's and the program's.
fn counts_are_exact(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let ours = in_graphs(&report);
    assert_eq!(ours, truth(done));
    let mut theirs = said["in_graphs"].as_object().unwrap().clone();
    theirs.retain(|_, count| *count != 0);
    assert_eq!(json!(ours), json!(theirs));
    assert_eq!(report["coverage"]["in_graphs"], ours.values().sum::<u64>());
    done.dropped_nothing(&report);
    let graphs = &report["graphs"];
    assert_eq!(graphs["launches"], said["graph_launches"]);
    assert_eq!(graphs["kernels"], ours.values().sum::<u64>());
    assert_eq!((&graphs["copies"], &graphs["memsets"]), (&said["copies"], &said["memsets"]));
    let moved = report["transfers"].as_array().unwrap();
    assert!(
        moved.iter().all(|row| row["kind"] == "DtoH"),
        "copies and memsets of a graph are not counted as transfers: {moved:?}"
    );
}

fn launch_intervals_contain_the_truth(done: &Done) {
    let compared = compare(done);
    let graphs = || compared.iter().filter(|c| c.truth.kind == "graph");
    let timed = graphs().filter_map(Compared::timed).count();
    assert_eq!(graphs().find_map(Compared::violation), None);
    assert!(
        done.is_share(timed, graphs().count(), 0.9),
        "{timed} of {} graph launches are timed",
        graphs().count()
    );
}

fn check(run: Run, options: &[&str]) -> Done {
    let done = run.observed_with(options).succeeded();
    counts_are_exact(&done);
    launch_intervals_contain_the_truth(&done);
    done
}

#[test]
fn graphs_built_and_changed_in_every_way_report_the_kernels_they_ran() {
    for driver in DRIVERS {
        println!("driver {driver}");
        check(Run::of("graphs").env("SIMCUDA_DRIVER_VERSION", driver), &[]);
    }
}

#[test]
fn runtime_graphs_report_the_kernels_they_ran() {
    for driver in DRIVERS {
        let run = || Run::of("graphs_runtime").env("SIMCUDA_DRIVER_VERSION", driver);
        let done = check(run(), &[]);
        let calls = by_name(&done.report()["apis"], "name", "count");
        assert_eq!(
            calls["cudaGraphInstantiateWithFlags"], 1,
            "the record has the name of the function that the app called"
        );
        assert_eq!(calls["cudaGraphExecKernelNodeSetParams"], 2);
        assert_eq!(calls["cudaGraphExecMemcpyNodeSetParams"], 1);
        assert_eq!(calls["cudaGraphExecMemcpyNodeSetParams1D"], 1);
        assert_eq!(
            (calls["cudaGraphExecMemsetNodeSetParams"], calls["cudaGraphExecChildGraphNodeSetParams"]),
            (1, 1)
        );
        timed_nodes(|| check(run(), NODES), |read, _| read > 0);
    }
}

#[test]
fn graphs_built_node_by_node_with_either_runtime_report_the_kernels_they_ran() {
    for (program, driver) in
        [("graph_nodes_12", "12090"), ("graph_nodes_13", "12090"), ("graph_nodes_13", "13050")]
    {
        println!("{program} on driver {driver}");
        let run = || Run::of(program).env("SIMCUDA_DRIVER_VERSION", driver);
        let done = check(run(), &[]);
        let report = done.report();
        // Six times two host functions, an empty node, an event record and a wait; three times a memory allocation and
        // a free.
        assert_eq!(report["graphs"]["others"], 6 * 5 + 3 * 2);
        let taken = &report["memory"]["by_kind"]["graph"];
        assert_eq!((&taken["allocations"], &taken["live_bytes"]), (&json!(3), &json!(0)), "{taken}");
        check(run(), NODES);
        let conditional = run().arg("conditional").observed().succeeded();
        assert_eq!(truth(&conditional)["nodes_b_9us"], 9);
        assert_eq!(
            in_graphs(&conditional.report())["nodes_b_9us"],
            3,
            "counts that only the GPU knows are not claimed"
        );
    }
}

#[test]
fn a_graph_of_ten_thousand_nodes_reports_the_kernels_it_ran() {
    check(Run::of("graphs").arg("large"), &[]);
}

/// Returns the times of kernels inside graph launches, by the launch's number in the truth file: names and intervals.
fn node_times(done: &Done) -> BTreeMap<u64, Vec<(String, GpuInterval)>> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let clocks = Survey::of(reader.records());
    let mut model = Model::new(&names, &clocks);
    let (mut launches, mut nodes) = (BTreeMap::new(), Vec::new());
    for record in reader.records() {
        let event = model.observe(&record);
        match (&record.body, event.operation, event.node) {
            (Body::Work(work), Some(operation), _)
                if matches!(work.what, What::Graph { .. }) && operation.when != When::Captured =>
            {
                launches.insert(operation.correlation, operation.when);
            }
            (Body::NodeTime(node), _, Some(interval)) => {
                nodes.push((
                    node.correlation,
                    names.get(Namespace::Kernel, node.kernel).unwrap().to_owned(),
                    interval,
                ));
            }
            _ => {}
        }
    }
    // The program has one thread, so its correlations are in the order of its calls.
    let operations = done.truth().operations();
    let truth: Vec<u64> = operations.iter().filter(|o| o.kind == "graph").map(|o| o.seq).collect();
    assert_eq!(launches.len(), truth.len());
    let numbers: BTreeMap<u64, u64> = launches.keys().copied().zip(truth).collect();
    let mut by_launch: BTreeMap<u64, Vec<(String, GpuInterval)>> = BTreeMap::new();
    for (correlation, name, node) in nodes {
        let When::Timed(launch) = launches[&correlation] else {
            panic!("a kernel has a GPU time, but its graph launch has none")
        };
        assert!(
            launch.earliest_start <= node.earliest_start && node.end <= launch.latest_end,
            "{node:?} of {launch:?}"
        );
        assert_eq!(node.clock(), launch.clock(), "{node:?} of {launch:?}");
        by_launch.entry(numbers[&correlation]).or_default().push((name, node));
    }
    by_launch
}

/// Returns the kernels of each launch with their true lengths, ns: each one's interval contains that of a kernel of its name
/// in that very launch, one for one, and so do the bounds of its start and its end.
fn kernels_with_their_truth(done: &Done) -> Vec<Vec<(GpuInterval, u64)>> {
    let truth = done.truth();
    let mut inside: BTreeMap<u64, Vec<(String, [i64; 2])>> = BTreeMap::new();
    for line in truth.of("kernel").filter(|line| line["in_graph"] != 0) {
        let launch = inside.entry(line["in_graph"].as_u64().unwrap()).or_default();
        let ran = ["head", "end"].map(|key| line[key].as_i64().unwrap());
        launch.push((line["name"].as_str().unwrap().to_owned(), ran));
    }
    let mut sampled = Vec::new();
    for (launch, nodes) in node_times(done) {
        let mut ran = inside[&launch].clone();
        let mut kernels = Vec::new();
        for (name, node) in nodes {
            let holds = |(theirs, [from, to]): &(String, [i64; 2])| {
                let (ns, [start, end]) = (to.abs_diff(*from), node.bounds());
                let lasted = node.lo() <= ns + slack(ns) && ns <= node.hi() + slack(ns);
                let off = slack(ns) as i64;
                let within = |moment: i64, (least, most)| least - off <= moment && moment <= most + off;
                *theirs == name && lasted && within(*from, start) && within(*to, end)
            };
            let found = ran.iter().position(holds);
            let found =
                found.unwrap_or_else(|| panic!("launch {launch}: {name} {node:?} is none of {ran:?}"));
            let [from, to] = ran.swap_remove(found).1;
            kernels.push((node, to.abs_diff(from)));
        }
        sampled.push(kernels);
    }
    sampled
}

/// Checks that each kernel's time contains its truth, and returns how many launches have such times.
fn kernel_intervals_contain_the_truth(done: &Done) -> usize {
    kernels_with_their_truth(done).len()
}

/// Compares the times of nodes with the truth. The poller reads a launch's events before the graph changes or is launched again, or
/// not at all: the program is run again until enough launches were read. Returns that run, and how many they were.
fn timed_nodes(run: impl Fn() -> Done, is_enough: impl Fn(usize, &Done) -> bool) -> (Done, usize) {
    let mut last = None;
    until_one_is_good(|| {
        let done = run();
        let read = kernel_intervals_contain_the_truth(&done);
        let is_enough = is_enough(read, &done);
        last = Some((done, read));
        is_enough.then_some(()).ok_or_else(|| format!("{read} launches were read"))
    });
    last.expect("the program has run")
}

fn launched(done: &Done) -> usize {
    done.said()["graph_launches"].as_u64().unwrap() as usize
}

#[test]
fn graph_kernels_are_timed_and_the_app_finds_its_graphs_unchanged() {
    for driver in DRIVERS {
        println!("driver {driver}");
        let run = || check(Run::of("graphs").env("SIMCUDA_DRIVER_VERSION", driver), NODES);
        let (done, sampled) = timed_nodes(run, |read, done| read * 5 >= launched(done));
        let graphs = &done.report()["graphs"];
        assert_eq!(graphs["sampled"], sampled);
        assert!(!graphs["nodes"].as_array().unwrap().is_empty());
        assert!(done.report()["processes"][0]["notes"].to_string().contains("--graph nodes changed graphs"));
    }
}

#[test]
fn events_of_a_replay_are_not_read_after_the_next_replay_began() {
    let (done, sampled) = timed_nodes(|| check(Run::of("graphs").arg("queued"), NODES), |read, _| read > 0);
    assert!(sampled * 2 <= launched(&done), "{sampled} of {}", launched(&done));
}

#[test]
fn intervals_of_graph_kernels_allow_for_the_cost_of_events() {
    for (event, resolution) in [("300", "1"), ("0", "500"), ("2000", "32")] {
        let run = || {
            let run = Run::of("graphs").env("SIMCUDA_EVENT_NS", event);
            run.env("SIMCUDA_EVENT_RESOLUTION_NS", resolution).observed_with(NODES).succeeded()
        };
        timed_nodes(run, |read, _| read > 0);
    }
}

/// Each kernel was as much too long as an event costs, 1.25 µs on an H200.
#[test]
fn the_best_value_of_a_graphs_kernel_leaves_out_what_an_event_costs() {
    // Without shared events, each launch shows what one costs.
    let run = || {
        let run = Run::of("graphs").arg("queued").env("GPUSPY_EVENTS", "pairs");
        let run = run.env("SIMCUDA_EVENT_NS", "1250").env("SIMCUDA_EVENT_RESOLUTION_NS", "32");
        run.observed_with(NODES).succeeded()
    };
    let (done, _) = timed_nodes(run, |read, _| read > 0);
    let kernels = kernels_with_their_truth(&done);
    let errors = kernels.iter().flatten().map(|(node, truth)| node.value().abs_diff(*truth));
    assert!(median(errors.collect()) <= 100, "{kernels:?}");
}

#[test]
fn by_default_no_graph_is_changed() {
    let done = check(Run::of("graphs"), &[]);
    assert_eq!(node_times(&done).len(), 0);
    assert_eq!(done.report()["processes"][0]["notes"], json!([]));
}

#[test]
fn a_graph_that_events_cannot_be_added_to_is_left_unchanged() {
    // This is the third edge that the agent adds; the app adds none this way.
    let run = || check(Run::of("graphs").env("SIMCUDA_FAIL", "cuGraphAddDependencies:999:3"), NODES);
    let (done, _) = timed_nodes(run, |read, _| read > 0);
    assert!(done.report()["processes"][0]["notes"].to_string().contains("left some graphs alone"));
}

#[test]
fn no_event_cuts_a_programmatic_edge() {
    let done = check(Run::of("graphs").arg("programmatic"), NODES);
    assert!(done.report()["processes"][0]["notes"].to_string().contains("left some graphs alone"));
    assert_eq!(node_times(&done).len(), 0);
}

#[test]
fn kernels_of_conditional_nodes_are_not_counted() {
    for options in [&[], NODES] {
        let done = Run::of("graphs").arg("conditional").observed_with(options).succeeded();
        let report = done.report();
        let (ours, ran) = (in_graphs(&report), truth(&done));
        assert_eq!(ours, BTreeMap::from([("graph_a_3us".into(), 4), ("graph_d_2us".into(), 4)]));
        assert_eq!(
            (ran["graph_b_5us"], ran["graph_c_8us"]),
            (4, 12),
            "the simulator ran the conditional nodes"
        );
        assert_eq!(report["graphs"]["others"], 8);
        let notes = report["processes"][0]["notes"].to_string();
        assert!(notes.contains("graphs with conditional nodes"), "{notes}");
        assert_eq!(notes.contains("left some graphs alone"), !options.is_empty(), "{notes}");
        launch_intervals_contain_the_truth(&done);
    }
}

#[test]
fn an_instantiation_that_fails_with_the_agents_events_is_repeated_without_them() {
    let run = Run::of("graphs").env("SIMCUDA_FAIL", "cuGraphInstantiateWithFlags:801:1");
    kernel_intervals_contain_the_truth(&check(run, NODES));
}

/// With the events, an update succeeds only if the other graph has them too. They were not inserted where another context was
/// current, or where the thread had no slot, and the program's update failed.
#[test]
fn a_graph_with_events_is_updated_by_any_thread() {
    timed_nodes(|| check(Run::of("graph_updates").arg("context"), NODES), |read, _| read > 0);
    // What an update on a thread without a slot changes is not known.
    let run = || Run::of("graph_updates").arg("thread").observed_with(NODES).succeeded();
    let (_, sampled) = timed_nodes(run, |read, _| read > 0);
    assert!(sampled <= 5, "{sampled} of the launches before the update");
}

/// Each update published the whole graph again, a record for each kernel.
#[test]
fn updates_that_change_nothing_are_not_published() {
    let done = check(Run::of("graph_updates").arg("same"), &[]);
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let graphs = reader.records().filter(|record| matches!(record.body, Body::Graph(_))).count();
    assert_eq!(graphs, 2, "the instantiation, and the update that changed something");
}
