//! Programs that meet more handles than the agent's tables have places: a driver need not reuse the handles of what was
//! destroyed.

use gpuspy_tests::{Done, Run};
use serde_json::{Value, json};

/// Returns the report's coverage after checking that every launch is in it, with its stream.
fn coverage(done: &Done) -> Value {
    let coverage = done.report()["coverage"].clone();
    assert_eq!(coverage["launches"], done.said()["launches"], "{coverage}");
    let lost = (&coverage["dropped"], &coverage["unattributed"], &coverage["untimed"]["no_stream"]);
    assert_eq!(lost, (&json!(0), &json!(0), &json!(0)), "{coverage}");
    coverage
}

/// The table of contexts had 64 places and never freed one. For every call in a context without a place, the agent created
/// 1024 events and a stream that nothing used.
#[test]
fn contexts_beyond_the_64th_are_observed() {
    for (alive, others, handles) in [("70", "0", "reused"), ("0", "400", "fresh")] {
        let run = Run::of("many_contexts").arg(alive).arg(others).env("SIMCUDA_HANDLES", handles);
        let coverage = coverage(&run.observed().succeeded());
        println!("{alive} contexts at a time and {others} others: {coverage}");
    }
}

/// The table of streams has 4096 places. Handles of streams that were destroyed kept theirs.
#[test]
fn streams_beyond_the_4096th_are_observed_where_handles_are_not_reused() {
    let run = Run::of("many_streams").arg("6000").env("SIMCUDA_HANDLES", "fresh");
    println!("{}", coverage(&run.observed().succeeded()));
}

/// The table of executable graphs has 4096 places. Handles of graphs that were destroyed kept theirs.
#[test]
fn graphs_beyond_the_4096th_are_described_where_handles_are_not_reused() {
    let done = Run::of("many_graphs").arg("6000").env("SIMCUDA_HANDLES", "fresh").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    done.dropped_nothing(&report);
    assert_eq!(report["graphs"]["launches"], said["graph_launches"], "{:#}", report["graphs"]);
    assert_eq!(report["coverage"]["in_graphs"], json!(2 * 6000), "{:#}", report["coverage"]);
}
