//! Every stream capture mode in every arrangement of threads and streams (`tests/programs/capture_matrix.c`). Each call
//! returns the same with gpuspy as without, whatever the simulator assumes to be unsafe, so gpuspy invalidates no
//! capture. Counts are exact, and whatever was not captured is either timed or untimed for a reason.

use crate::compare::{Compared, compare};
use gpuspy_collector::model::{Reason, When};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::{Untimed, flag};
use serde_json::{Value, json};

const MODES: &[&str] = &["global", "thread", "relaxed"];

/// The assumptions about what is unsafe beside a capture: everything allowed, everything forbidden, and a third in
/// which streams may be created but not queried.
fn assumed() -> [String; 3] {
    let names =
        ["event_query", "stream_query", "stream_questions", "event_create", "sync", "free", "module_load"];
    let [all, none] =
        ["unsafe", "safe"].map(|value| names.map(|name| format!("{name}_in_capture={value}")).join(","));
    let made = all.replace("event_create_in_capture=unsafe", "event_create_in_capture=safe");
    [all, none, made]
}

/// Returns the calls and their results.
fn calls(done: &Done) -> Value {
    done.said()["calls"].clone()
}

fn check(mode: &str, arrangement: &str, assume: &str) {
    let what = format!("capture_matrix {mode} {arrangement} with SIMCUDA_ASSUME={assume}");
    let run = || Run::of("capture_matrix").arg(mode).arg(arrangement).env("SIMCUDA_ASSUME", assume);
    let plain = run().plain();
    assert!(plain.status.success(), "{what}: {}", plain.stderr);
    let done = run().observed_with(&["--timing", "exact"]);
    assert!(done.status.success(), "{what}: {}", done.stderr);
    for thread in ["first", "second"] {
        let (theirs, ours) = (&calls(&plain)[thread], &calls(&done)[thread]);
        let both = theirs.as_array().unwrap().iter().zip(ours.as_array().unwrap());
        for (at, (theirs, ours)) in both.enumerate() {
            assert_eq!(
                theirs, ours,
                "{what}: call {at} of the {thread} thread returns something else with gpuspy"
            );
        }
        assert_eq!(theirs, ours, "{what}");
    }
    let (said, report) = (done.said(), done.report());
    let coverage = &report["coverage"];
    for key in ["launches", "captured", "in_graphs"] {
        assert_eq!(coverage[key], said[key], "{what}: {key}: {coverage}");
    }
    assert_eq!((&coverage["dropped"], &coverage["unattributed"]), (&json!(0), &json!(0)), "{what}");
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let timed = coverage["timed"].as_u64().unwrap() + coverage["runs"]["launches"].as_u64().unwrap();
    assert_eq!(timed + untimed, said["launches"].as_u64().unwrap(), "{what}: {coverage}");
    let compared = compare(&done);
    let refused = Reason::Untimed(Untimed::EventFailed);
    let ours =
        compared.iter().filter(|one| matches!(one.when, When::Untimed { reason, .. } if reason == refused));
    assert_eq!(ours.count(), 0, "{what}: the driver refused events of the agent");
    let violations: Vec<String> = compared.iter().filter_map(Compared::violation).collect();
    assert!(violations.is_empty(), "{what}: {}", violations.join("\n"));
}

/// Checks one arrangement in every mode, under every assumption.
fn arrangement(name: &str) {
    for mode in MODES {
        for assume in assumed() {
            check(mode, name, &assume);
        }
    }
}

/// They become nodes of a graph: without the mark they would show work to be over that nothing has waited for.
#[test]
fn events_of_a_stream_capture_are_marked() {
    let done = Run::of("capture_matrix").arg("global").arg("fork_and_join").observed().succeeded();
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let (mut records, mut waits) = (0, 0);
    for record in reader.records() {
        let (number, op) = match &record.body {
            Body::EventRecord(op) => (&mut records, op),
            Body::EventWait(op) => (&mut waits, op),
            _ => continue,
        };
        *number += 1;
        assert!(op.call.flags & flag::CAPTURED != 0, "{record:?}");
    }
    assert_eq!((records, waits), (2, 2));
}

macro_rules! arrangements {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            arrangement(stringify!($name));
        }
    )*};
}

arrangements! {
    alone per_thread_default fork_and_join unjoined to_graph legacy_use invalidated pending_work first_use
    made_meanwhile second_makes batch_refused
    second_enqueues second_waits second_waits_relaxed second_breaks second_captures second_goes_on second_ends
}
