//! Several GPUs in one process: each has its own part of the report, and a clock by which its operations are placed.

use crate::compare::{by_name, compare, intervals_contain_the_truth, transfers};
use crate::gpu_clock::causality_holds;
use gpuspy_collector::model::gpu_interval::{Basis, GpuInterval};
use gpuspy_tests::Run;
use serde_json::json;
use std::collections::BTreeMap;

#[test]
fn two_devices_are_counted_and_timed_separately() {
    let done = Run::of("two_devices").env("SIMCUDA_DEVICES", "2").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    let number = |key: &str| said[key].as_u64().unwrap();
    let each_way = (number("copies_each_way"), number("bytes_each_way"));
    let expected = ["DtoH", "HtoD"].map(|way| ((way.to_owned(), "pinned".to_owned()), each_way));
    assert_eq!(transfers(&report["transfers"]), BTreeMap::from(expected));

    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    let timed = compared.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, compared.len(), 0.99), "{timed} of {}", compared.len());
    assert_eq!(causality_holds(&done) as usize, timed);
    assert_eq!(report["processes"][0]["causality_broken"], 0);

    // A device's compute time is that of its own kernels, which run one after the other on one stream.
    let truth = done.truth();
    let devices = report["devices"].as_array().unwrap();
    let ids: Vec<u64> = devices.iter().map(|d| d["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [0, 1]);
    for (id, device) in ids.into_iter().zip(devices) {
        let time = |key: &str| {
            truth.of("kernel").filter(|k| k["device"] == id).map(|k| k[key].as_u64().unwrap()).sum::<u64>()
        };
        let truth = time("end") - time("head");
        let [lo, value, hi] = ["lo", "value", "hi"].map(|key| device["compute_ns"][key].as_u64().unwrap());
        let of_own = compared.iter().filter(|c| c.truth.device == id && c.truth.kind == "kernel");
        let own: Vec<&GpuInterval> = of_own.filter_map(|c| c.timed()).map(|(interval, _)| interval).collect();
        println!("device {id}: {truth} ns, reported {lo} .. {value} .. {hi}");
        // The clocks drift apart by 20 ppm.
        assert!(
            lo <= truth + truth / 10_000 && truth <= hi + truth / 10_000,
            "device {id}: {truth}: {device}"
        );
        // Its compute time comes from this device's launches only, even where another device's lengths are known
        // better.
        let known = own.iter().filter(|o| o.basis != Basis::BoundsOnly);
        let expected: u64 = known.map(|o| o.value()).sum();
        // With those that have no time it is more, and no more than what ran.
        let range = expected - expected / 50..=expected.max(truth) + expected / 50;
        assert!(range.contains(&value), "device {id}: {range:?}: {device}");
    }
}
