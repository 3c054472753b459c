//! Each call is counted once, under the name that the program called, on the stream that the work went to.

use super::{apis, assert_each_launch_is_counted_once};
use gpuspy_collector::trace::record::{Body, Record, What, Work};
use gpuspy_collector::trace::{TraceReader, wait_until_complete};
use gpuspy_tests::{Run, program, sim_lib, truth::Truth};
use gpuspy_wire::record::{Namespace, Via};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Returns a trace's kernels: their name, stream and the layer that recorded them.
fn kernels(trace: &Path) -> Vec<(String, u64, Option<Via>)> {
    assert!(wait_until_complete(trace, Duration::from_secs(10)).unwrap(), "the trace is not complete");
    let mut reader = TraceReader::open(trace).unwrap();
    let names = reader.names().clone();
    let kernel = |record: Record| match record.body {
        Body::Work(Work { what: What::Kernel { name, .. }, stream, call, .. }) => {
            Some((names.get(Namespace::Kernel, name).unwrap_or_default().to_owned(), stream, call.via))
        }
        _ => None,
    };
    reader.records().filter_map(kernel).collect()
}

/// Counts kernels by name and stream.
fn by_stream(list: impl Iterator<Item = (String, u64)>) -> BTreeMap<(String, u64), u64> {
    let mut counts = BTreeMap::new();
    for kernel in list {
        *counts.entry(kernel).or_default() += 1;
    }
    counts
}

#[test]
fn default_stream_work_is_on_the_stream_of_the_called_variant() {
    let done = Run::of("default_streams").preloaded().succeeded();
    let said = done.said();
    let expected: BTreeMap<(String, u64), u64> = said["launches"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, launches)| {
            ((name.clone(), said["streams"][name].as_u64().unwrap()), launches.as_u64().unwrap())
        })
        .collect();
    let ids: BTreeSet<u64> = expected.keys().map(|(_, stream)| *stream).collect();
    assert_eq!(ids.len(), 3, "the streams are the legacy stream and one for each of two threads");

    let of = |truth: &Truth| by_stream(truth.operations().into_iter().map(|op| (op.name, op.stream)));
    assert_eq!(of(&done.truth()), expected, "each hook called its own variant of the function");
    let recorded = kernels(&done.trace());
    assert_eq!(by_stream(recorded.into_iter().map(|(name, stream, _)| (name, stream))), expected);
}

/// Builds a map of counts: name → (calls, failed).
fn expected(counts: &[(&str, u64, u64)]) -> BTreeMap<String, (u64, u64)> {
    counts.iter().map(|(name, calls, failed)| ((*name).to_owned(), (*calls, *failed))).collect()
}

#[test]
fn calls_that_do_nothing_are_counted_as_calls_but_not_as_work() {
    let done = Run::of("calls_without_work").preloaded().succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["launches"], 0);
    let transfers: Vec<(&Value, &Value, &Value)> = report["transfers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| (&t["kind"], &t["count"], &t["bytes"]))
        .collect();
    assert_eq!(
        transfers,
        [(&json!("HtoD"), &json!(1), &json!(64)), (&json!("memset"), &json!(1), &json!(64))]
    );
    assert_eq!(report["memory"]["allocations"], 1);
    assert_eq!(report["memory"]["frees"], 1);
    assert_eq!(report["memory"]["live_bytes"], 0);
    // As in the program's source. The runtime's own initialization happens inside the first call.
    let calls = [
        ("cudaMalloc", 3, 1),
        ("cudaMemcpy", 4, 1),
        ("cudaMemcpyAsync", 1, 0),
        ("cudaMemset", 3, 0),
        ("cudaMemsetAsync", 1, 0),
        ("cudaFree", 2, 0),
        ("cudaFreeHost", 1, 0),
        ("cudaLaunchKernel", 1, 1),
    ];
    assert_eq!(apis(&report), expected(&calls));
}

#[test]
fn runtime_calls_are_counted_once_under_their_own_names() {
    let plain = Run::of("runtime_calls").plain().succeeded().said();
    let done = Run::of("runtime_calls").preloaded().succeeded();
    assert_eq!(done.said(), plain);
    let report = done.report();
    for key in ["launches", "captured", "in_graphs"] {
        assert_eq!(report["coverage"][key], plain[key], "{key}");
    }
    // As in the program's source. Names that start with "cu" are driver calls of runtime functions that are not in the
    // table: initialization, unloading.
    let calls = [
        ("cuInit", 1, 0),
        ("cuDevicePrimaryCtxRetain", 1, 0),
        ("cudaGraphInstantiate", 1, 0),
        ("cuLibraryUnload", 1, 0),
        ("cudaDeviceReset", 1, 0),
        ("cudaDeviceSynchronize", 2, 0),
        ("cudaEventCreate", 1, 0),
        ("cudaEventCreateWithFlags", 1, 0),
        ("cudaEventDestroy", 2, 0),
        ("cudaEventQuery", 1, 0),
        ("cudaEventRecord", 1, 0),
        ("cudaEventRecordWithFlags", 1, 0),
        ("cudaEventSynchronize", 1, 0),
        ("cudaFree", 3, 0),
        ("cudaFreeAsync", 1, 0),
        ("cudaFreeHost", 1, 0),
        ("cudaFuncGetAttributes", 1, 0),
        ("cudaGetKernel", 1, 0),
        ("cudaGraphExecDestroy", 1, 0),
        ("cudaGraphLaunch", 3, 0),
        ("cudaHostRegister", 1, 0),
        ("cudaHostUnregister", 1, 0),
        ("cudaLaunchHostFunc", 2, 0),
        ("cudaLaunchKernel", 12, 0),
        ("cudaMalloc", 2, 0),
        ("cudaMallocAsync", 1, 0),
        ("cudaMallocHost", 1, 0),
        ("cudaMallocManaged", 1, 0),
        ("cudaMemPoolGetAttribute", 1, 0),
        ("cudaMemPoolTrimTo", 1, 0),
        ("cudaMemcpy", 4, 0),
        ("cudaMemcpyAsync", 7, 0),
        ("cudaMemset", 1, 0),
        ("cudaMemsetAsync", 1, 0),
        ("cudaOccupancyAvailableDynamicSMemPerBlock", 1, 0),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", 1, 0),
        ("cudaOccupancyMaxActiveClusters", 1, 0),
        ("cudaOccupancyMaxPotentialClusterSize", 1, 0),
        ("cudaStreamAddCallback", 1, 0),
        ("cudaStreamBeginCapture", 1, 0),
        ("cudaStreamCreate", 1, 0),
        ("cudaStreamCreateWithFlags", 1, 0),
        ("cudaStreamCreateWithPriority", 1, 0),
        ("cudaStreamDestroy", 3, 0),
        ("cudaStreamEndCapture", 1, 0),
        ("cudaStreamQuery", 2, 0),
        ("cudaStreamSynchronize", 5, 0),
        ("cudaStreamWaitEvent", 1, 0),
    ];
    assert_eq!(apis(&report), expected(&calls));
}

/// A dlsym hook before the agent answers the runtime's lookups from libc, so its driver calls bypass the agent. Then
/// the runtime calls make the records, each once, without GPU times, and the report says so first.
#[test]
fn runtime_calls_are_recorded_by_the_runtime_hooks_if_their_driver_calls_are_hidden() {
    let seen = Run::of("work_runtime").preloaded().succeeded();
    let hidden = Run::of("work_runtime").preloaded_among(&["libhookdlsym.so"], &[]).succeeded();
    assert_each_launch_is_counted_once(&seen);
    assert_each_launch_is_counted_once(&hidden);
    let (seen_report, hidden_report) = (seen.report(), hidden.report());
    assert_eq!(seen_report["coverage"]["driver_hooked"], true);
    assert_eq!(hidden_report["coverage"]["driver_hooked"], false);
    assert_eq!(hidden_report["coverage"]["timed"], 0);
    assert_eq!(hidden_report["coverage"]["untimed"]["not_hooked"], 10_000);
    assert!(kernels(&seen.trace()).iter().all(|(_, _, via)| *via == Some(Via::RuntimeDriver)));
    assert!(kernels(&hidden.trace()).iter().all(|(_, _, via)| *via == Some(Via::Runtime)));
    for key in ["allocations", "frees", "live_bytes"] {
        assert_eq!(hidden_report["memory"][key], seen_report["memory"][key], "memory {key}");
    }
    let amounts = |report: &Value| -> Vec<[Value; 4]> {
        let list = report["transfers"].as_array().unwrap().iter();
        list.map(|t| ["kind", "host_memory", "count", "bytes"].map(|key| t[key].clone())).collect()
    };
    assert_eq!(amounts(&hidden_report), amounts(&seen_report));
    // The same calls under the same names, except for the driver calls that only one of the two runs can observe.
    let runtime_calls = |report: &Value| -> BTreeMap<String, (u64, u64)> {
        apis(report).into_iter().filter(|(name, _)| name.contains("cuda")).collect()
    };
    assert_eq!(runtime_calls(&hidden_report), runtime_calls(&seen_report));
}

/// Checks a program whose plugins use runtimes that no global symbol search finds, as Python's extension modules do.
fn check_plugins(run: Run) {
    let done = run.preloaded().succeeded();
    assert_each_launch_is_counted_once(&done);
    let (said, report) = (done.said(), done.report());
    let (launches, calls) = (said["launches"].as_u64().unwrap(), said["calls"].as_u64().unwrap());
    let apis = apis(&report);
    assert_eq!(apis["cudaLaunchKernel"], (launches, 0), "{apis:?}");
    for name in ["cudaMalloc", "cudaMemset", "cudaDeviceSynchronize", "cudaFree"] {
        assert_eq!(apis[name], (calls, 0), "{name}: {apis:?}");
    }
    assert_eq!(report["memory"]["allocations"], calls);
}

#[test]
fn a_runtime_outside_the_global_scope_is_found() {
    check_plugins(Run::of("plugins"));
}

#[test]
fn with_two_runtimes_each_caller_keeps_its_own() {
    check_plugins(Run::of("plugins").arg("both").env("SIMCUDA_DRIVER_VERSION", "13050"));
}

/// Calls from the second plugin went to the first one's runtime.
#[test]
fn a_plugin_that_is_where_another_one_was_has_its_own_runtime() {
    let run = Run::of("plugins").arg("replaced").env("SIMCUDA_DRIVER_VERSION", "13050");
    let done = run.preloaded().succeeded();
    assert_eq!(done.said()["same_place"], true, "nothing was tested");
    assert_each_launch_is_counted_once(&done);
}

/// Copies the programs of `plugins` into a folder of their own, with CUDA 12's runtime under another name, as
/// auditwheel does in wheels. Every occurrence of the name is replaced, as patchelf does; the new name may not be
/// longer than the old one.
fn plugins_with_renamed_runtime(name: &str) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let old = b"libcudart.so.12\0";
    let mut new = name.as_bytes().to_vec();
    new.resize(old.len(), 0);
    let renamed = |from: &Path, to: &str| {
        let mut bytes = std::fs::read(from).unwrap();
        let places: Vec<usize> =
            (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
        assert!(!places.is_empty(), "{}", from.display());
        for at in places {
            bytes[at..at + old.len()].copy_from_slice(&new);
        }
        std::fs::write(folder.path().join(to), bytes).unwrap();
    };
    renamed(&sim_lib().join("libcudart.so.12"), name);
    renamed(&program("libplugin12.so"), "libplugin12.so");
    for copied in ["libplugin13.so", "plugins"] {
        std::fs::copy(program(copied), folder.path().join(copied)).unwrap();
    }
    let path = std::env::join_paths([folder.path().to_owned(), sim_lib()]).unwrap();
    let run = Run::command(folder.path().join("plugins")).env("LD_LIBRARY_PATH", path);
    (folder, run.env("SIMCUDA_DRIVER_VERSION", "13050"))
}

#[test]
fn a_renamed_runtime_outside_the_global_scope_is_found() {
    for name in ["libcudart-d.so", "librenamed.so"] {
        let (_folder, run) = plugins_with_renamed_runtime(name);
        check_plugins(run);
    }
}

#[test]
fn a_renamed_runtime_is_not_mistaken_for_another() {
    let (_folder, run) = plugins_with_renamed_runtime("libcudart-d.so");
    check_plugins(run.arg("both"));
}

/// Another preload's function is called whichever runtime is meant, as without the agent.
#[test]
fn a_preloaded_wrapper_of_a_runtime_function_gets_the_calls_to_both_runtimes() {
    let done = Run::of("plugins").arg("both").env("SIMCUDA_DRIVER_VERSION", "13050");
    let done = done.preloaded_among(&[], &["libwrapsync.so"]).succeeded();
    assert!(done.stdout.contains("wrapsync 6\n"), "{}", done.stdout);
    assert_eq!(apis(&done.report())["cudaDeviceSynchronize"], (6, 0));
}

#[test]
fn a_thread_that_a_library_constructor_waits_for_can_call_cuda() {
    let run = || Run::of("constructor_thread");
    let plain = run().plain().succeeded().said();
    let done = run().preloaded().succeeded();
    assert_eq!(done.said(), plain);
    let apis = apis(&done.report());
    for name in ["cudaFree", "cudaDeviceSynchronize", "cuMemAlloc", "cuMemFree"] {
        assert_eq!(apis[name], (1, 0), "{name}: {apis:?}");
    }
}

#[test]
fn a_call_site_works_after_the_runtime_that_it_led_to_is_unloaded() {
    let done = Run::of("unload_runtime").preloaded().succeeded();
    assert_eq!(apis(&done.report())["cudaDeviceSynchronize"], (2, 0));
}

/// A call jumped to where the library had been.
#[test]
fn a_call_site_works_after_a_library_that_is_no_runtime_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let shim = folder.path().join("libshim.so");
    std::fs::copy(program("libcudart-tiny.so"), &shim).unwrap();
    let done = Run::of("unload_runtime").arg(&shim).preloaded().succeeded();
    assert_eq!(apis(&done.report())["cudaDeviceSynchronize"], (2, 0));
}
