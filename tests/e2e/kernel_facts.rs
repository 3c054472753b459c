//! What the driver says about kernels: the trace has the simulator's answers, the agent queries each shape once, and
//! only launches cause queries.

use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, KernelFacts};
use gpuspy_tests::{Done, Run, program};
use gpuspy_wire::record::Namespace;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Kernel, threads, dynamic shared bytes, device.
type Shape = (String, u32, u32, u32);

/// Returns the recorded facts by shape, and checks that no shape of a handle was recorded twice.
fn recorded(done: &Done) -> BTreeMap<Shape, KernelFacts> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let (mut devices, mut recorded) = (BTreeMap::new(), BTreeMap::new());
    for record in reader.records() {
        match record.body {
            Body::Context(context) => {
                devices.insert(context.context, context.device);
            }
            Body::KernelFacts(facts) => {
                let name = names.get(Namespace::Kernel, facts.kernel).unwrap().to_owned();
                let shape = (name, facts.threads, facts.shared_bytes, devices[&facts.context]);
                assert_eq!(
                    recorded.insert(shape, facts.clone()),
                    None,
                    "the same facts are recorded twice: {facts:?}"
                );
            }
            _ => {}
        }
    }
    recorded
}

/// Returns the simulator's log of queries about a kernel.
fn queries_about<'t>(truth: &'t [Value], kernel: &str, key: &str, value: u32) -> Vec<&'t Value> {
    truth.iter().filter(|line| line["kernel"] == kernel && line[key] == value).collect()
}

/// Checks that each value is the simulator's answer and that each was queried once.
fn as_answered(done: &Done, recorded: &BTreeMap<Shape, KernelFacts>) {
    let truth = done.truth();
    let truth: Vec<Value> = truth.of("asked").cloned().collect();
    for ((name, threads, shared, _), facts) in recorded {
        let ours =
            [facts.max_threads.into(), facts.static_shared_bytes, facts.local_bytes, facts.registers.into()];
        for (attribute, ours) in [0, 1, 3, 4].into_iter().zip(ours) {
            let answers = queries_about(&truth, name, "attribute", attribute);
            assert!(
                !answers.is_empty() && answers.iter().all(|line| line["value"] == ours),
                "{facts:?}: {answers:?}"
            );
            assert_eq!(
                answers.len(),
                recorded.keys().filter(|(other, ..)| other == name).count(),
                "{name}: the driver is queried once for each shape"
            );
        }
        let answers = queries_about(&truth, name, "threads", *threads);
        let answers: Vec<_> = answers.into_iter().filter(|line| line["shared"] == *shared).collect();
        let alike =
            recorded.keys().filter(|(kernel, t, s, _)| (kernel, t, s) == (name, threads, shared)).count();
        assert_eq!(answers.len(), alike, "{name} {threads} {shared}");
        assert!(
            answers.iter().all(|line| line["value"] == facts.blocks_per_multiprocessor),
            "{facts:?}: {answers:?}"
        );
    }
    let is_recorded = |line: &Value| recorded.keys().any(|(name, ..)| line["kernel"] == name.as_str());
    assert!(truth.iter().all(is_recorded), "the agent queries only kernels that it records");
}

fn expected_shapes() -> BTreeSet<Shape> {
    let list = [
        ("plain_5us", 256, 0, 0),
        ("plain_5us", 96, 4096, 0),
        ("plain_5us", 1024, 0, 0),
        ("wide_regs128_smem16384_local48_5us", 256, 64 << 10, 0),
        ("kernel_regs64_5us", 128, 0, 0),
        ("kernel_regs64_5us", 256, 0, 0),
        ("kernel_regs64_5us", 512, 0, 0),
        ("both_regs72_5us", 64, 0, 0),
        ("both_regs72_5us", 64, 0, 1),
        ("captured_regs48_5us", 192, 1024, 0),
        ("captured_kernel_regs56_5us", 160, 0, 0),
        ("node_regs40_smem512_5us", 128, 2048, 0),
        ("node_regs40_smem512_5us", 224, 2048, 0),
        ("one_regs50_5us", 256, 0, 0),
        ("two_regs60_5us", 256, 0, 0),
        ("three_regs70_5us", 256, 0, 0),
    ];
    list.into_iter()
        .map(|(name, threads, shared, device)| (name.to_owned(), threads, shared, device))
        .collect()
}

/// Returns the row of a kernel.
fn kernel(report: &Value, name: &str) -> Value {
    let kernels = report["kernels"].as_array().unwrap();
    kernels
        .iter()
        .find(|kernel| kernel["name"] == name)
        .unwrap_or_else(|| panic!("the report has no kernel {name}"))
        .clone()
}

/// Returns the path of the program's own file: for a preloaded program, as the Linux kernel reports it.
fn path(name: &str) -> Value {
    std::fs::canonicalize(program(name)).unwrap().to_str().unwrap().into()
}

#[test]
fn kernel_facts_are_the_drivers_and_queried_once_for_each_shape() {
    for timing in ["exact", "off"] {
        let run = Run::of("kernel_facts").env("SIMCUDA_DEVICES", "2").env("GPUSPY_TIMING", timing);
        let done = run.observed().succeeded();
        let recorded = recorded(&done);
        assert_eq!(recorded.keys().cloned().collect::<BTreeSet<_>>(), expected_shapes(), "{timing}");
        as_answered(&done, &recorded);
        let wide = &recorded[&("wide_regs128_smem16384_local48_5us".to_owned(), 256, 64 << 10, 0)];
        // 128 registers: 16 warps, two blocks of 8 warps. 80 KiB and 1 KiB of shared memory: two blocks in 228 KiB.
        assert_eq!((wide.registers, wide.local_bytes, wide.blocks_per_multiprocessor), (128, 48, 2));
        assert_eq!(wide.max_threads, 512);
        let report = done.report();
        in_the_report(&report);
        let apis = report["apis"].clone();
        let apis: Vec<&str> =
            apis.as_array().unwrap().iter().map(|api| api["name"].as_str().unwrap()).collect();
        assert!(
            apis.iter().all(|api| !api.contains("Occupancy") && !api.contains("GetAttribute")),
            "{apis:?}"
        );
    }
}

/// Compares with figures worked out by hand from what the program launched and from the simulator's 132 multiprocessors
/// of 64 warps.
fn in_the_report(report: &Value) {
    let keys = [
        "shapes",
        "threads",
        "registers",
        "blocks_per_multiprocessor",
        "theoretical_occupancy",
        "limited_by",
    ];
    let has = |name: &str| keys.map(|key| kernel(report, name)[key].clone()).to_vec();
    let waves = |name: &str| {
        let waves = kernel(report, name)["waves"].clone();
        (waves["min"].as_f64(), waves["max"].as_f64())
    };
    let is = |name: &str, truth: Value| assert_eq!(json!(has(name)), truth, "{name}");
    // Two of three launches of 256 threads, one of 96, one of 1024, and those of a size that no call gave.
    is("plain_5us", json!([4, 256, 32, 8, 1.0, ["warps", "registers"]]));
    assert_eq!(waves("plain_5us"), (Some(0.25), Some(0.25)));
    is("wide_regs128_smem16384_local48_5us", json!([1, 256, 128, 2, 0.25, ["registers", "shared memory"]]));
    // A CUkernel, its CUfunction, and the same function in a cooperative launch.
    is("kernel_regs64_5us", json!([3, 512, 64, 2, 0.5, ["registers"]]));
    // 72 registers: 2304 a warp, 7 warps in each part, 28 warps in blocks of two.
    is("both_regs72_5us", json!([1, 64, 72, 14, 0.4375, ["registers"]]));
    is("captured_kernel_regs56_5us", json!([1, 160, 56, 7, 35.0 / 64.0, ["registers"]]));
    assert_eq!(waves("captured_kernel_regs56_5us"), (Some(20.0 / 924.0), Some(20.0 / 924.0)));
    assert_eq!(waves("node_regs40_smem512_5us"), (None, None), "the launch of this kernel was not observed");
    for (name, registers) in [("one_regs50_5us", 50), ("two_regs60_5us", 60), ("three_regs70_5us", 70)] {
        assert_eq!(
            kernel(report, name)["registers"],
            registers,
            "{name}: three kernels had this handle in turn"
        );
    }
    for row in report["kernels"].as_array().unwrap() {
        let by = if row["name"].as_str().unwrap().contains("kernel") {
            "cuLibraryLoadData"
        } else {
            "cuModuleLoadData"
        };
        assert_eq!((&row["library"], &row["loaded_by"]), (&path("kernel_facts"), &by.into()), "{row}");
    }
}

#[test]
fn a_kernel_is_attributed_to_the_file_that_contains_it() {
    // The runtime by stubs and by handles; the driver by symbols and by pointers; a library with kernels of its own.
    let programs = [
        ("work_runtime", "work_runtime", "work_5us", Value::Null),
        ("work_driver", "work_driver", "work_5us", "cuModuleLoadData".into()),
        ("work_getproc", "work_getproc", "work_5us", "cuModuleLoadData".into()),
        ("setup_calls_runtime", "setup_calls_runtime", "library_5us", "cudaLibraryLoadFromFile".into()),
        ("plugins", "libplugin12.so", "plugin_5us", Value::Null),
        ("graphs_runtime", "graphs_runtime", "runtime_a_4us", Value::Null),
    ];
    for (name, file, symbol, loaded_by) in programs {
        let done = Run::of(name).env("SIMCUDA_DEVICES", "2").observed().succeeded();
        let kernel = kernel(&done.report(), symbol);
        assert_eq!((&kernel["library"], &kernel["loaded_by"]), (&path(file), &loaded_by), "{name}");
    }
}

#[test]
fn the_driver_is_queried_once_for_each_handle_however_often_it_is_launched() {
    let done = Run::of("work_runtime").observed().succeeded();
    let truth = done.truth();
    let (launches, mut handles) = (truth.enqueued("kernel"), BTreeMap::new());
    for line in truth.of("asked").filter(|line| line["api"].as_str().unwrap().contains("Occupancy")) {
        *handles.entry(line["function"].as_u64().unwrap()).or_insert(0) += 1;
    }
    // Three kernels, by CUfunction and by CUkernel.
    assert_eq!(
        handles.values().copied().collect::<Vec<_>>(),
        [1; 6],
        "each handle is queried once in {launches} launches"
    );
    assert_eq!(truth.of("asked").count(), 6 * 5);
    assert!(launches > 5000);
}

#[test]
fn a_driver_that_refuses_queries_costs_the_facts_and_nothing_else() {
    let silent = "cuFuncGetAttribute:999:*,cuKernelGetAttribute:999:*,cuOccupancyMaxActiveBlocksPerMultiprocessor:999:*";
    let run = Run::of("work_driver").env("SIMCUDA_FAIL", silent).env("GPUSPY_TIMING", "off");
    let done = run.observed().succeeded();
    let (report, said) = (done.report(), done.said());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    let kernel = kernel(&report, "work_5us");
    let keys = ["registers", "blocks_per_multiprocessor", "theoretical_occupancy", "waves"];
    assert!(keys.iter().all(|key| kernel[key].is_null()), "{kernel}");
    assert_eq!((&kernel["library"], &kernel["threads"]), (&path("work_driver"), &json!(64)));
}

/// The report does not show the answer; the query changes nothing in what is counted.
#[test]
fn cufunc_attributes_match_the_code_in_the_fat_binary() {
    let versions = |assumed: &str| {
        let done = Run::of("function_versions").env("SIMCUDA_ASSUME", assumed).observed().succeeded();
        assert_eq!(done.report()["coverage"]["launches"], done.said()["launches"]);
        let truth = done.truth();
        let queries_about = |kernel: &str, attribute: u64| {
            let mut lines =
                truth.of("asked").filter(|l| l["kernel"] == kernel && l["attribute"] == attribute);
            lines.next().unwrap()["value"].clone()
        };
        for (kernel, said) in done.said()["versions"].as_object().unwrap() {
            assert_eq!(*said, json!([queries_about(kernel, 5), queries_about(kernel, 6)]), "{kernel}");
        }
        done.said()["versions"].clone()
    };
    let expected = |of_80: [u32; 2]| json!({"for_80_1us": of_80, "for_90_1us": [90, 90], "text_75_1us": [75, 90], "unknown_1us": [90, 90]});
    assert_eq!(versions("other_binaries=taken"), expected([80, 80]));
    assert_eq!(versions("other_binaries=compiled"), expected([80, 90]));
}
