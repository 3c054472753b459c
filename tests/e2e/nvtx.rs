//! NVTX: the ranges and markers that the program sets, recorded through NVTX's injection entry point.

use gpuspy_collector::trace::record::{Body, Names, NvtxRange, Record, What};
use gpuspy_collector::trace::{TraceReader, wait_until_complete};
use gpuspy_tests::truth::Operation;
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::{Namespace, NvtxChange};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns the names of the kernels whose records lie inside a range, by the range's text. Ranges of one thread and
/// domain nest.
fn kernels_by_range(done: &Done) -> (BTreeMap<String, Vec<String>>, Vec<NvtxRange>) {
    // A collector that the agent started may still be writing for a moment after its program ended.
    assert!(wait_until_complete(&done.trace(), Duration::from_secs(20)).unwrap());
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let records: Vec<Record> = reader.records().collect();
    let names = reader.names().clone();
    let mut open: BTreeMap<(u32, u32, u64), Vec<String>> = BTreeMap::new();
    let (mut inside, mut ranges): (BTreeMap<String, Vec<String>>, _) = (BTreeMap::new(), Vec::new());
    for record in &records {
        match &record.body {
            Body::NvtxRange(range) => {
                ranges.push(range.clone());
                // A range that any thread may end belongs to no thread.
                let thread = if range.id == 0 { record.thread } else { 0 };
                let stack = open.entry((thread, range.domain, range.id)).or_default();
                match range.change {
                    NvtxChange::Push | NvtxChange::Start => {
                        let text = text(&names, range);
                        inside.entry(text.clone()).or_default();
                        stack.push(text);
                    }
                    NvtxChange::Pop | NvtxChange::End => drop(stack.pop()),
                    NvtxChange::Mark => {}
                }
            }
            Body::Work(work) => {
                let What::Kernel { name, .. } = work.what else { continue };
                let kernel = names.get(Namespace::Kernel, name).unwrap();
                let around = open.iter().filter(|((thread, ..), _)| *thread == 0 || *thread == record.thread);
                for range in around.flat_map(|(_, stack)| stack) {
                    inside.get_mut(range).unwrap().push(kernel.to_owned());
                }
            }
            _ => {}
        }
    }
    (inside, ranges)
}

/// Returns a range's text, preceded by its domain.
fn text(names: &Names, range: &NvtxRange) -> String {
    let text = names.get(Namespace::NvtxRange, range.text).unwrap_or("(none)");
    match range.domain {
        0 => text.to_owned(),
        domain => format!("{}:{text}", names.get(Namespace::Domain, domain).unwrap()),
    }
}

fn every_form_is_recorded(done: &Done) {
    let (inside, ranges) = kernels_by_range(done);
    let kernels = |of: &[&str], times: usize| -> Vec<String> {
        std::iter::repeat_n(of, times).flatten().map(|&name| name.to_owned()).collect()
    };
    let expected: BTreeMap<String, Vec<String>> = [
        ("step", kernels(&["step_20us", "forward_10us", "forward_10us", "backward_10us", "decode_5us"], 3)),
        ("forward", kernels(&["forward_10us"], 6)),
        ("rückwärts \u{1F600}", kernels(&["backward_10us"], 3)),
        ("loader:decode", kernels(&["decode_5us"], 6)),
        ("across threads", kernels(&["across_5us"], 1)),
        ("in a library", kernels(&["library_5us"], 1)),
    ]
    .map(|(range, kernels)| (range.to_owned(), kernels))
    .into();
    assert_eq!(inside, expected, "ranges that began before the first CUDA call are not recorded");
    let forward = ranges.iter().filter(|range| range.payload);
    let said: Vec<_> = forward.map(|range| (range.category, range.color)).collect();
    assert_eq!(said, [(7, 0xff00_ff00); 3]);
    let marks = ranges.iter().filter(|range| range.change == NvtxChange::Mark).count();
    assert_eq!(marks, 3 + 2);
}

#[test]
fn every_form_of_range_is_recorded_with_the_kernels_inside_it() {
    every_form_is_recorded(&Run::of("nvtx").observed().succeeded());
}

/// Returns the time from the start of the first of these operations to the end of the last, by the truth.
fn projected(operations: &[Operation]) -> u64 {
    let start = operations.iter().map(|op| op.interval.0).min().unwrap();
    operations.iter().map(|op| op.interval.1).max().unwrap() - start
}

#[test]
fn the_report_lists_the_ranges_with_the_work_inside_them() {
    let done = Run::of("nvtx").observed().succeeded();
    let (report, (inside, _)) = (done.report(), kernels_by_range(&done));
    let operations: Vec<Operation> =
        done.truth().operations().into_iter().filter(|op| op.kind == "kernel").collect();
    assert_eq!(operations.len(), 3 * 6 + 2);
    let (steps, others) = operations.split_at(3 * 6);
    // Of each step's launches: those in each range.
    let of_steps = |launches: std::ops::Range<usize>| -> Vec<u64> {
        steps.chunks(6).map(|step| projected(&step[launches.clone()])).collect()
    };
    let truths: BTreeMap<&str, Vec<u64>> = [
        ("step", of_steps(0..5)),
        ("forward", of_steps(1..3)),
        ("rückwärts \u{1F600}", of_steps(3..4)),
        ("loader:decode", of_steps(4..6)),
        ("across threads", vec![projected(&others[..1])]),
        ("in a library", vec![projected(&others[1..])]),
    ]
    .into();
    let rows = report["ranges"].as_array().unwrap();
    assert_eq!(rows.len(), truths.len(), "{rows:?}");
    for row in rows {
        let name = match row["domain"].as_str() {
            Some(domain) => format!("{domain}:{}", row["name"].as_str().unwrap()),
            None => row["name"].as_str().unwrap().to_owned(),
        };
        let truth = &truths[name.as_str()];
        assert_eq!((&row["count"], &row["projected"]), (&json!(truth.len()), &json!(truth.len())), "{name}");
        let launches = json!(inside[&name].len());
        assert_eq!((&row["launches"], &row["operations"]), (&launches, &launches), "{name}");
        let holds = |key: &str, truth: u64| {
            let [lo, hi] = ["lo", "hi"].map(|bound| row[key][bound].as_u64().unwrap());
            assert!(
                lo <= truth && truth <= hi,
                "{name}: {key}: the true value {truth} is outside [{lo}, {hi}]"
            );
        };
        holds("gpu_ns", truth.iter().sum());
        holds("gpu_min_ns", *truth.iter().min().unwrap());
        holds("gpu_max_ns", *truth.iter().max().unwrap());
    }
    assert_eq!(
        report["coverage"]["stray_range_ends"], 2,
        "one pop ends a range from before the first CUDA call, and one ends no range"
    );
    let marks = report["markers"].as_array().unwrap();
    let end_of_step = marks.iter().find(|mark| mark["name"] == "end of step").unwrap();
    assert_eq!((marks.len(), &end_of_step["count"]), (3, &json!(3)));
}

#[test]
fn a_long_range_name_is_truncated() {
    let done = Run::of("nvtx").observed().succeeded();
    let reader = TraceReader::open(&done.trace()).unwrap();
    let longest = reader.names().0.iter().filter(|((space, _), _)| *space == Namespace::NvtxRange);
    let longest = longest.map(|(_, text)| text.clone()).max_by_key(String::len).unwrap();
    assert_eq!(longest, "x".repeat(gpuspy_wire::record::MAX_NVTX_TEXT));
}

#[test]
fn ranges_are_recorded_under_bare_preload_if_the_variable_names_the_agent() {
    let agent = gpuspy_tests::agent();
    every_form_is_recorded(&Run::of("nvtx").env("NVTX_INJECTION64_PATH", agent).preloaded().succeeded());
}

#[test]
fn another_tools_nvtx_injection_is_left_in_place() {
    let done = Run::of("nvtx").env("NVTX_INJECTION64_PATH", "/nowhere/libtool.so").observed().succeeded();
    let (inside, ranges) = kernels_by_range(&done);
    assert!(inside.is_empty() && ranges.is_empty(), "{inside:?}");
}

#[test]
fn a_disabled_agent_records_no_ranges() {
    let run = Run::of("nvtx").env("NVTX_INJECTION64_PATH", gpuspy_tests::agent());
    let done = run.env("GPUSPY", "0").preloaded().succeeded();
    assert!(done.traces().is_empty());
}
