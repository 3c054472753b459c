//! Three clients do the same known work, each by its own road into CUDA: what the report says is compared with what they
//! did, and each operation's interval with the stand-in's truth.

use gpuspy_collector::model::{Model, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, What};
use gpuspy_tests::{Done, Run, truth};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The program's own counts of calls, as far as the table knows the functions.
fn known_calls(said: &Value) -> BTreeMap<String, u64> {
    // Not intercepted yet: they enqueue nothing and take no memory.
    let unknown = ["cuDeviceGet", "cuCtxSetCurrent", "cudaSetDevice"];
    let calls = said["apis"].as_object().unwrap().iter().map(|(n, c)| (n.clone(), c.as_u64().unwrap()));
    calls.filter(|(name, _)| !unknown.contains(&name.as_str())).collect()
}

fn by_name(list: &Value, name: &str, count: &str) -> BTreeMap<String, u64> {
    let entry = |e: &Value| (e[name].as_str().unwrap().to_owned(), e[count].as_u64().unwrap());
    list.as_array().unwrap().iter().map(entry).collect()
}

/// Copies and sets by kind and host memory: count and bytes.
fn transfers(list: &Value) -> BTreeMap<(String, String), (u64, u64)> {
    let mut sums = BTreeMap::new();
    for e in list.as_array().unwrap() {
        let key = (e["kind"].as_str().unwrap().to_owned(), e["host_memory"].as_str().unwrap().to_owned());
        let sum: &mut (u64, u64) = sums.entry(key).or_default();
        sum.0 += e["count"].as_u64().unwrap();
        sum.1 += e["bytes"].as_u64().unwrap();
    }
    sums
}

fn counts_are_exact(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let coverage = &report["coverage"];
    assert_eq!(coverage["launches"], said["launches"]);
    assert_eq!(coverage["captured"], 0);
    assert_eq!(coverage["dropped"], 0, "{coverage}");
    assert_eq!(coverage["unattributed"], 0);
    assert_eq!(coverage["driver_hooked"], true);
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(
        coverage["timed"].as_u64().unwrap() + untimed,
        said["launches"].as_u64().unwrap(),
        "{coverage}"
    );

    let kernels = by_name(&report["kernels"], "name", "count");
    assert_eq!(json!(kernels), said["kernels"]);

    let mut expected = transfers(&said["copies"]);
    let sets = (said["memsets"]["count"].as_u64().unwrap(), said["memsets"]["bytes"].as_u64().unwrap());
    expected.insert(("memset".into(), "none".into()), sets);
    assert_eq!(transfers(&report["transfers"]), expected);

    let said_memory = said["memory"].as_object().unwrap();
    for (kind, theirs) in [("device", "device"), ("managed", "managed"), ("pool", "pool"), ("pinned", "host")]
    {
        let ours = &report["memory"]["by_kind"][kind];
        assert_eq!(ours["allocations"], said_memory[theirs]["allocations"], "{kind}");
        assert_eq!(ours["frees"], said_memory[theirs]["frees"], "{kind}");
        assert_eq!(ours["live_bytes"], 0, "{kind}");
    }
    assert_eq!(report["memory"]["allocations"], 1000);
    assert_eq!(report["memory"]["frees"], 1000);

    let syncs = by_name(&report["syncs"], "api", "count");
    assert_eq!(json!(syncs), said["syncs"]);
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in known_calls(&said) {
        assert_eq!(calls.get(&name), Some(&count), "{name}");
    }
}

/// An operation as the trace has it, beside its truth.
struct Compared {
    truth: truth::Operation,
    when: When,
}

/// Pairs each operation of the trace with the stand-in's: thread by thread, in the order of their calls.
fn compare(done: &Done) -> Vec<Compared> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let status = reader.status().unwrap().clone();
    let names = reader.names().clone();
    let mut model = Model::new(&names);
    let mut ours: BTreeMap<u64, Vec<(u64, &'static str, When)>> = BTreeMap::new();
    for record in reader.records() {
        let Some(operation) = model.observe(&record).operation else { continue };
        let Body::Work(work) = &record.body else { panic!("{record:?}") };
        let kind = match work.what {
            What::Kernel { .. } => "kernel",
            What::Memcpy { .. } => "copy",
            What::Memset { .. } => "memset",
            What::Graph { .. } => "graph",
        };
        if operation.when != When::Captured {
            let tid = u64::from(status.threads[&record.thread]);
            ours.entry(tid).or_default().push((operation.correlation, kind, operation.when));
        }
    }
    let mut theirs: BTreeMap<u64, Vec<truth::Operation>> = BTreeMap::new();
    for operation in done.truth().operations() {
        theirs.entry(operation.tid).or_default().push(operation);
    }
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut compared = Vec::new();
    for (tid, mut ours) in ours {
        ours.sort_by_key(|(correlation, ..)| *correlation);
        let theirs = &theirs[&tid];
        assert_eq!(ours.len(), theirs.len(), "thread {tid}");
        for ((_, kind, when), truth) in ours.into_iter().zip(theirs) {
            assert_eq!(kind, truth.kind, "thread {tid}");
            compared.push(Compared { truth: truth.clone(), when });
        }
    }
    compared
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The GPU clock runs up to 50 ppm apart from the host's, in which the truth is told; and ns are rounded.
fn slack(duration: u64) -> u64 {
    2 + duration / 20_000
}

fn intervals_hold_the_truth(compared: &[Compared]) {
    let mut corrected = Vec::new();
    let mut raw = Vec::new();
    let mut raw_when_drained = Vec::new();
    for c in compared {
        let When::Timed(occupancy) = c.when else { continue };
        let truth = c.truth.occupancy.1 - c.truth.occupancy.0;
        let within = (occupancy.lo().saturating_sub(slack(truth)), occupancy.hi() + slack(truth));
        assert!(
            within.0 <= truth && truth <= within.1,
            "{:?} lasted {truth}, not in {within:?}: {occupancy:?}",
            c.truth
        );
        corrected.push(occupancy.value().abs_diff(truth));
        raw.push(occupancy.raw.abs_diff(truth));
        if c.truth.queue == 0 {
            raw_when_drained.push(occupancy.raw.abs_diff(truth));
        }
    }
    let (timed, drained) = (corrected.len(), raw_when_drained.len());
    let (corrected, raw, raw_when_drained) = (median(corrected), median(raw), median(raw_when_drained));
    println!("{timed} timed: median error corrected {corrected} ns, raw {raw} ns");
    println!("{drained} of them on a drained stream: raw {raw_when_drained} ns");
    assert!(corrected <= 1_000, "the corrected median error is {corrected} ns");
    // Else the correction would have nothing to correct, and the line above would say nothing.
    assert!(drained >= 500, "only {drained} operations met a drained stream");
    assert!(
        raw_when_drained > 1_000,
        "raw pairs are off by {raw_when_drained} ns: this work shows no over-read"
    );
}

/// Streams of one thread: what is timed on them, of all.
fn timed_where_alone(compared: &[Compared]) -> (usize, usize) {
    let mut users: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for c in compared {
        let tids = users.entry(c.truth.stream).or_default();
        if !tids.contains(&c.truth.tid) {
            tids.push(c.truth.tid);
        }
    }
    let alone = |c: &&Compared| c.truth.kind == "kernel" && users[&c.truth.stream].len() == 1;
    let timed = compared.iter().filter(alone).filter(|c| matches!(c.when, When::Timed(_))).count();
    (timed, compared.iter().filter(alone).count())
}

fn the_work(program: &str) {
    let done = Run::of(program).observed().succeeded();
    counts_are_exact(&done);
    let compared = compare(&done);
    intervals_hold_the_truth(&compared);
    let (timed, all) = timed_where_alone(&compared);
    println!("{program}: {timed} of {all} launches timed on streams of one thread");
    assert!(all >= 5_000, "{all}");
    assert!(timed * 100 >= all * 99, "{timed} of {all} are timed: {}", done.report()["coverage"]);
}

#[test]
fn work_through_a_dynamic_runtime_is_counted_exactly() {
    the_work("work_runtime");
}

#[test]
fn work_through_the_linked_driver_is_counted_exactly() {
    the_work("work_driver");
}

#[test]
fn work_through_chained_getproc_is_counted_exactly() {
    the_work("work_getproc");
}

#[test]
fn without_timing_everything_is_counted_and_nothing_timed() {
    let done = Run::of("work_driver").observed_with(&["--timing", "off"]).succeeded();
    counts_are_exact(&done);
    assert_eq!(done.report()["coverage"]["timed"], 0);
    assert_eq!(done.report()["coverage"]["untimed"]["off"], 10_000);
}

#[test]
fn a_deep_queue_behind_the_apps_own_gate_never_hangs() {
    for gate in ["value", "host-function"] {
        let done = Run::of("deep_queue").arg(gate).observed().succeeded();
        let coverage = done.report()["coverage"].clone();
        assert_eq!(coverage["launches"], done.said()["launches"], "{gate}");
        let deep = coverage["untimed"]["deep_queue"].as_u64().unwrap();
        // 256 entries are 85 launches with their two events each.
        assert!((400..=600 - 80).contains(&deep), "{gate}: {coverage}");
    }
}

#[test]
fn captured_launches_are_marked_and_a_graph_launch_is_one_operation() {
    let done = Run::of("capture_graph").observed().succeeded();
    let (said, coverage) = (done.said(), done.report()["coverage"].clone());
    assert_eq!(coverage["captured"], said["captured"]);
    assert_eq!(coverage["in_graphs"], said["in_graphs"]);
    assert_eq!(coverage["launches"], said["launches"]);
    assert_eq!(coverage["unattributed"], 0);
    // None of our calls invalidated a capture: the program would have ended with 99.
    let graphs = done.truth().operations().iter().filter(|o| o.kind == "graph").count();
    let ours = compare(&done);
    let timed = ours.iter().filter(|c| c.truth.kind == "graph" && matches!(c.when, When::Timed(_))).count();
    assert_eq!(graphs, ours.iter().filter(|c| c.truth.kind == "graph").count());
    assert!(timed * 10 >= graphs * 9, "{timed} of {graphs} graph launches are timed");
    for c in ours {
        let When::Timed(occupancy) = c.when else { continue };
        let truth = c.truth.occupancy.1 - c.truth.occupancy.0;
        assert!(
            occupancy.lo() <= truth + slack(truth) && truth <= occupancy.hi() + slack(truth),
            "{:?}",
            c.truth
        );
    }
}
