//! A thousand children, and programs that close what they did not open.

use super::{nothing_is_left_of, same, traces_with_content, watched};
use crate::lifecycle::launches;
use gpuspy_tests::{Run, report};

#[test]
fn a_thousand_children_have_as_many_traces_as_called_cuda() {
    let run = || watched(Run::of("children").arg("1000").arg("20")).env("GPUSPY_QUIET", "1");
    let plain = run().plain().succeeded();
    let done = run().preloaded();
    same(&plain, &done, "1000 children");
    nothing_is_left_of(&done, "1000 children");
    // A child may end before its collector has begun; then its trace is empty.
    let traces = traces_with_content(&done);
    let said = done.said();
    assert_eq!(super::names_in(done.folder()).iter().filter(|name| name.ends_with(".gspy")).count(), 50);
    let counted: u64 = traces.iter().map(|trace| launches(&report(trace))).sum();
    assert_eq!((traces.len() as u64, counted), (50, said["launches"].as_u64().unwrap()), "{}", done.stderr);
}

#[test]
fn one_collector_serves_a_thousand_children() {
    let run = || watched(Run::of("children").arg("1000").arg("5"));
    let plain = run().plain().succeeded();
    let done = run().observed_with(&["--quiet", "--no-report"]);
    same(&plain, &done, "1000 children");
    nothing_is_left_of(&done, "1000 children");
    let report = report(&done.folder().join("trace.gspy"));
    assert_eq!(report["processes"].as_array().unwrap().len(), 200);
    assert_eq!(launches(&report), done.said()["launches"]);
}

/// What it does to descriptors is done to the agent's as well, which are a connection and a segment: the trace may end there.
#[test]
fn a_program_may_close_all_descriptors_in_any_way() {
    for how in ["close", "close_range", "closefrom", "cloexec"] {
        let run = || {
            let run = watched(Run::of("close_all")).env("SIMCUDA_TRUTH", "");
            let folder = run.folder().to_owned();
            run.arg(folder).arg(how)
        };
        let plain = run().plain().succeeded();
        for done in [run().preloaded(), run().observed_with(&["--quiet", "--no-report"])] {
            same(&plain, &done, how);
            nothing_is_left_of(&done, how);
            let [trace] = &traces_with_content(&done)[..] else { panic!("{how}: {}", done.stderr) };
            assert!(launches(&report(trace)) >= 200, "{how}");
        }
    }
}
