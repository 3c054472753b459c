//! What the driver says of kernels: as the stand-in answered it, asked once for each shape, by nobody but the launch.

use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::{Body, KernelFacts};
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::Namespace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Kernel, threads, dynamic shared bytes, device.
type Shape = (String, u32, u32, u32);

/// What was told, by shape; no shape of a handle twice.
fn told(done: &Done) -> BTreeMap<Shape, KernelFacts> {
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let names = reader.names().clone();
    let (mut devices, mut told) = (BTreeMap::new(), BTreeMap::new());
    for record in reader.records() {
        match record.body {
            Body::Context(context) => {
                devices.insert(context.context, context.device);
            }
            Body::KernelFacts(facts) => {
                let name = names.get(Namespace::Kernel, facts.kernel).unwrap().to_owned();
                let shape = (name, facts.threads, facts.shared_bytes, devices[&facts.context]);
                assert_eq!(told.insert(shape, facts.clone()), None, "{facts:?} again");
            }
            _ => {}
        }
    }
    told
}

/// What the stand-in was asked about a kernel.
fn asked<'t>(truth: &'t [Value], kernel: &str, key: &str, value: u32) -> Vec<&'t Value> {
    truth.iter().filter(|line| line["kernel"] == kernel && line[key] == value).collect()
}

/// Each value is the stand-in's answer, and each was asked once.
fn as_answered(done: &Done, told: &BTreeMap<Shape, KernelFacts>) {
    let truth = done.truth();
    let truth: Vec<Value> = truth.of("asked").cloned().collect();
    for ((name, threads, shared, _), facts) in told {
        let ours =
            [facts.max_threads.into(), facts.static_shared_bytes, facts.local_bytes, facts.registers.into()];
        for (attribute, ours) in [0, 1, 3, 4].into_iter().zip(ours) {
            let answers = asked(&truth, name, "attribute", attribute);
            assert!(
                !answers.is_empty() && answers.iter().all(|line| line["value"] == ours),
                "{facts:?}: {answers:?}"
            );
            assert_eq!(
                answers.len(),
                told.keys().filter(|(other, ..)| other == name).count(),
                "{name}: once a shape"
            );
        }
        let answers = asked(&truth, name, "threads", *threads);
        let answers: Vec<_> = answers.into_iter().filter(|line| line["shared"] == *shared).collect();
        let alike = told.keys().filter(|(kernel, t, s, _)| (kernel, t, s) == (name, threads, shared)).count();
        assert_eq!(answers.len(), alike, "{name} {threads} {shared}");
        assert!(
            answers.iter().all(|line| line["value"] == facts.blocks_per_multiprocessor),
            "{facts:?}: {answers:?}"
        );
    }
    let of_told = |line: &Value| told.keys().any(|(name, ..)| line["kernel"] == name.as_str());
    assert!(truth.iter().all(of_told), "nothing else is asked");
}

fn shapes_of_the_program() -> BTreeSet<Shape> {
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

#[test]
fn a_kernels_facts_are_the_drivers_and_asked_once_for_each_shape() {
    for timing in ["exact", "off"] {
        let run = Run::of("kernel_facts").env("SIMCUDA_DEVICES", "2").env("GPUSPY_TIMING", timing);
        let done = run.observed().succeeded();
        let told = told(&done);
        assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), shapes_of_the_program(), "{timing}");
        as_answered(&done, &told);
        let wide = &told[&("wide_regs128_smem16384_local48_5us".to_owned(), 256, 64 << 10, 0)];
        // 128 registers: 16 warps, two blocks of 8. 80 KiB and 1: two blocks of 228.
        assert_eq!((wide.registers, wide.local_bytes, wide.blocks_per_multiprocessor), (128, 48, 2));
        assert_eq!(wide.max_threads, 512);
        let apis = done.report()["apis"].clone();
        let apis: Vec<&str> =
            apis.as_array().unwrap().iter().map(|api| api["name"].as_str().unwrap()).collect();
        assert!(
            apis.iter().all(|api| !api.contains("Occupancy") && !api.contains("GetAttribute")),
            "{apis:?}"
        );
    }
}
