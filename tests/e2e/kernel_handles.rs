//! CUkernels and CUfunctions: the agent queries the driver about each in its own form, whatever the driver would do
//! with the other form, and all kernels have their names.

use crate::compare::by_name;
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::flag;
use serde_json::json;
use std::collections::BTreeMap;

/// What a driver may do with a handle of the other kind.
const ANSWERS: [&str; 3] = ["refused", "either", "crash"];

/// Checks that no query uses the other form, that every kernel has its name, and that CUkernels are marked as such.
fn check_queries(done: &Done, setting: &str) {
    let (said, report, truth) = (done.said(), done.report(), done.truth());
    let wrong: Vec<_> = truth.of("other_form").collect();
    assert!(wrong.is_empty(), "{setting}: {wrong:?}");
    assert_eq!(report["coverage"]["launches"], said["launches"], "{setting}");
    let [launched, in_graphs] = ["count", "in_graphs"].map(|key| by_name(&report["kernels"], "name", key));
    let ran: BTreeMap<_, _> = launched.iter().map(|(name, count)| (name, count + in_graphs[name])).collect();
    assert_eq!(json!(ran), said["kernels"], "{setting}");
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let marked = |body: &Body| matches!(body, Body::Work(work) if work.call.flags & flag::KERNEL_HANDLE != 0);
    let marked = reader.records().filter(|record| marked(&record.body)).count();
    assert_eq!(said["by_kernel_handle"], marked, "{setting}");
    // What the driver says about them: each was queried in its own form, and the driver answered.
    for row in report["kernels"].as_array().unwrap() {
        assert_eq!(row["registers"], 32, "{setting}: {row}");
    }
}

#[test]
fn a_handle_without_a_name_is_queried_as_its_own_kind() {
    for handles in ANSWERS {
        for node in ["both", "kernel", "function", "cast"] {
            let setting = format!("stale_handles=crash,kernel_handles={handles},captured_kernel={node}");
            let run = Run::of("kernel_handles").env("SIMCUDA_ASSUME", &setting);
            let done = run.env("SIMCUDA_FAIL", "cuLibraryUnload:1:1").observed().succeeded();
            check_queries(&done, &setting);
        }
    }
}

/// The handle is known to be a CUfunction, whatever the reason for the refusal.
#[test]
fn a_cufunction_whose_name_is_refused_is_not_queried_as_a_cukernel() {
    let run = Run::of("kernel_handles").env("SIMCUDA_ASSUME", "stale_handles=crash,kernel_handles=crash");
    let refused = "cuLibraryUnload:1:1,cuFuncGetName:400:*";
    let done = run.env("SIMCUDA_FAIL", refused).observed().succeeded();
    let launched = by_name(&done.report()["kernels"], "name", "count");
    assert_eq!(
        (launched.get("kernel_2us"), launched.get("enumerated_2us")),
        (Some(&10), None),
        "{launched:?}"
    );
    assert_eq!(done.report()["coverage"]["launches"], done.said()["launches"]);
}

/// Handles loaded without a hook: queried as a CUfunction first, and as a CUkernel where that is refused.
#[test]
fn a_handle_loaded_without_a_hook_is_named_by_the_driver() {
    for (handles, refused_queries) in [("refused", 1), ("either", 0)] {
        let setting = format!("stale_handles=crash,runtime_kernels=hidden,kernel_handles={handles}");
        let done = Run::of("kernel_handles_unhooked").env("SIMCUDA_ASSUME", &setting).observed().succeeded();
        let (said, report, truth) = (done.said(), done.report(), done.truth());
        assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"], "{setting}");
        let refused =
            truth.of("other_form").filter(|line| handles == "refused" && line["api"] == "cuFuncGetName");
        assert_eq!(refused.count(), refused_queries, "the CUkernel is queried as a CUfunction at most once");
        assert!(truth.of("other_form").all(|line| !line["api"].as_str().unwrap().starts_with("cuKernel")));
        assert!(report["kernels"].as_array().unwrap().iter().all(|row| row["registers"] == 32), "{report}");
    }
}

#[test]
fn a_handle_obtained_by_an_unobserved_thread_is_queried_as_its_own_kind() {
    for handles in ANSWERS {
        let setting = format!("stale_handles=crash,kernel_handles={handles}");
        let done = Run::of("kernel_handles_threads").env("SIMCUDA_ASSUME", &setting).observed().succeeded();
        assert_ne!(done.report()["coverage"]["dropped"], 0, "nothing was dropped: the test proves nothing");
        check_queries(&done, &setting);
    }
}

#[test]
fn a_handle_from_the_runtime_is_queried_as_its_own_kind() {
    for handles in ANSWERS {
        for route in ["shown", "hidden"] {
            let setting = format!("stale_handles=crash,kernel_handles={handles},runtime_kernels={route}");
            let done =
                Run::of("kernel_handles_runtime").env("SIMCUDA_ASSUME", &setting).observed().succeeded();
            check_queries(&done, &setting);
        }
    }
}
