//! Three clients do the same known work, each by its own route into CUDA. The report is compared with what they did,
//! and each operation's interval with the simulator's truth.

use crate::compare::{Compared, by_name, compare, known_calls, median, slack, transfers};
use gpuspy_collector::model::When;
use gpuspy_tests::{Done, Run, until_one_is_good};
use serde_json::json;
use std::collections::BTreeMap;

pub fn counts_are_exact(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let coverage = &report["coverage"];
    assert_eq!(coverage["launches"], said["launches"]);
    assert_eq!(coverage["captured"], 0);
    done.dropped_nothing(&report);
    assert_eq!(coverage["unattributed"], 0);
    assert_eq!(coverage["driver_hooked"], true);
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(
        coverage["timed"].as_u64().unwrap() + coverage["runs"]["launches"].as_u64().unwrap() + untimed,
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

fn intervals_and_corrections_match_the_truth(done: &Done, compared: &[Compared]) {
    let mut corrected = Vec::new();
    let mut raw = Vec::new();
    let mut raw_when_drained = Vec::new();
    for c in compared {
        let Some((interval, truth)) = c.timed() else { continue };
        assert_eq!(c.violation(), None);
        corrected.push(interval.value().abs_diff(truth));
        raw.push(interval.raw.abs_diff(truth));
        if c.truth.queue == 0 {
            raw_when_drained.push(interval.raw.abs_diff(truth));
        }
    }
    let (timed, drained) = (corrected.len(), raw_when_drained.len());
    let (corrected, raw, raw_when_drained) = (median(corrected), median(raw), median(raw_when_drained));
    println!("{timed} timed: median error corrected {corrected} ns, raw {raw} ns");
    println!("{drained} of them on a drained stream: raw {raw_when_drained} ns");
    // A thread that loses its processor between the launch and its event leaves a wider interval.
    let most = 1_000.0 * (1.0 + done.pressure);
    assert!(corrected as f64 <= most, "the corrected median error is {corrected} ns");
    // Otherwise the correction would have nothing to correct, and the line above would prove nothing.
    assert!(drained >= 500, "only {drained} operations met a drained stream");
    assert!(
        raw_when_drained > 1_000,
        "raw pairs are off by {raw_when_drained} ns: this work shows no over-read"
    );
}

/// Counts, on streams used by one thread only, the timed operations and all of them.
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

fn the_known_work_is_counted_and_timed(program: &str) {
    let done = Run::of(program).observed().succeeded();
    counts_are_exact(&done);
    let compared = compare(&done);
    intervals_and_corrections_match_the_truth(&done, &compared);
    let (timed, all) = timed_where_alone(&compared);
    println!("{program}: {timed} of {all} launches timed on streams of one thread");
    assert!(all >= 5_000, "{all}");
    assert!(done.is_share(timed, all, 0.99), "{timed} of {all} are timed: {}", done.report()["coverage"]);
}

#[test]
fn work_through_a_dynamic_runtime_is_counted_exactly() {
    the_known_work_is_counted_and_timed("work_runtime");
}

#[test]
fn work_through_the_linked_driver_is_counted_exactly() {
    the_known_work_is_counted_and_timed("work_driver");
}

#[test]
fn work_through_getproc_is_counted_exactly() {
    the_known_work_is_counted_and_timed("work_getproc");
}

#[test]
fn without_timing_everything_is_counted_and_nothing_timed() {
    let done = Run::of("work_driver").observed_with(&["--timing", "off"]).succeeded();
    counts_are_exact(&done);
    assert_eq!(done.report()["coverage"]["timed"], 0);
    assert_eq!(done.report()["coverage"]["untimed"]["off"], 10_000);
}

#[test]
fn a_deep_queue_behind_a_wait_that_only_the_program_can_end_never_hangs() {
    for gate in ["value", "host-function"] {
        let done = Run::of("deep_queue").arg(gate).observed().succeeded();
        let coverage = done.report()["coverage"].clone();
        assert_eq!(coverage["launches"], done.said()["launches"], "{gate}");
        // After the gate, half of the first 128 entries are events, and one in 33 from there on.
        let runs = coverage["runs"]["launches"].as_u64().unwrap();
        assert!((480..=560).contains(&runs), "{gate}: {coverage}");
    }
}

#[test]
fn a_stream_that_was_deep_is_timed_again_after_any_kind_of_wait() {
    for (how, least) in [("context", 380), ("poll", 300)] {
        until_one_is_good(|| {
            let done = Run::of("deep_then_empty").arg(how).observed().succeeded();
            // Where the program has to wait for a processor, the GPU keeps up with it.
            if done.report()["coverage"]["runs"]["launches"].as_u64().unwrap() <= 400 {
                return Err(format!("{how}: the stream was never deep"));
            }
            let kernels = done.report()["kernels"].clone();
            let shallow = by_name(&kernels, "name", "timed")["shallow_5us"];
            assert!(
                shallow >= least,
                "{how}: only {shallow} of 400 launches on the shallow stream are timed"
            );
            Ok(())
        });
    }
}

#[test]
fn captured_launches_are_marked_and_each_graph_launch_is_one_operation() {
    let done = Run::of("capture_graph").observed().succeeded();
    let (said, coverage) = (done.said(), done.report()["coverage"].clone());
    assert_eq!(coverage["captured"], said["captured"]);
    assert_eq!(coverage["in_graphs"], said["in_graphs"]);
    assert_eq!(coverage["launches"], said["launches"]);
    assert_eq!(coverage["unattributed"], 0);
    // The agent's calls invalidated no capture: the program would have exited with 99.
    let graphs = done.truth().operations().iter().filter(|o| o.kind == "graph").count();
    let ours = compare(&done);
    let timed = ours.iter().filter(|c| c.truth.kind == "graph" && matches!(c.when, When::Timed(_))).count();
    assert_eq!(graphs, ours.iter().filter(|c| c.truth.kind == "graph").count());
    assert!(timed * 10 >= graphs * 9, "{timed} of {graphs} graph launches are timed");
    for c in ours {
        let When::Timed(interval) = c.when else { continue };
        let truth = c.truth.interval.1 - c.truth.interval.0;
        assert!(
            interval.lo() <= truth + slack(truth) && truth <= interval.hi() + slack(truth),
            "{:?}",
            c.truth
        );
    }
}
