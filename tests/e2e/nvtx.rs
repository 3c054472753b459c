//! NVTX: what the program says about its own work, through the injection entry.

use gpuspy_collector::trace::record::{Body, Names, Range, Record, What};
use gpuspy_collector::trace::{TraceReader, wait_until_complete};
use gpuspy_tests::{Done, Run};
use gpuspy_wire::record::{Namespace, RangeChange};
use std::collections::BTreeMap;
use std::time::Duration;

/// The records that lie inside a range of a text: kernels' names. Ranges of one thread and domain nest.
fn kernels_by_range(done: &Done) -> (BTreeMap<String, Vec<String>>, Vec<Range>) {
    // A collector that was left to itself needs a moment after its program's end.
    assert!(wait_until_complete(&done.trace(), Duration::from_secs(20)).unwrap());
    let mut reader = TraceReader::open(&done.trace()).unwrap();
    let records: Vec<Record> = reader.records().collect();
    let names = reader.names().clone();
    let mut open: BTreeMap<(u32, u32, u64), Vec<String>> = BTreeMap::new();
    let (mut inside, mut ranges): (BTreeMap<String, Vec<String>>, _) = (BTreeMap::new(), Vec::new());
    for record in &records {
        match &record.body {
            Body::Range(range) => {
                ranges.push(range.clone());
                // A range that any thread may end is no thread's.
                let thread = if range.id == 0 { record.thread } else { 0 };
                let stack = open.entry((thread, range.domain, range.id)).or_default();
                match range.change {
                    RangeChange::Push | RangeChange::Start => {
                        let text = text(&names, range);
                        inside.entry(text.clone()).or_default();
                        stack.push(text);
                    }
                    RangeChange::Pop | RangeChange::End => drop(stack.pop()),
                    RangeChange::Mark => {}
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

/// A range's text, the domain before it.
fn text(names: &Names, range: &Range) -> String {
    let text = names.get(Namespace::Range, range.text).unwrap_or("(none)");
    match range.domain {
        0 => text.to_owned(),
        domain => format!("{}:{text}", names.get(Namespace::Domain, domain).unwrap()),
    }
}

fn all_forms_are_there(done: &Done) {
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
    assert_eq!(inside, expected, "and nothing of what was said before CUDA's first call");
    let forward = ranges.iter().filter(|range| range.payload);
    let said: Vec<_> = forward.map(|range| (range.category, range.color)).collect();
    assert_eq!(said, [(7, 0xff00_ff00); 3]);
    let marks = ranges.iter().filter(|range| range.change == RangeChange::Mark).count();
    assert_eq!(marks, 3 + 2);
}

#[test]
fn ranges_of_every_form_are_recorded_with_what_lies_in_them() {
    all_forms_are_there(&Run::of("nvtx").observed().succeeded());
}

#[test]
fn a_long_text_is_cut() {
    let done = Run::of("nvtx").observed().succeeded();
    let reader = TraceReader::open(&done.trace()).unwrap();
    let longest = reader.names().0.iter().filter(|((space, _), _)| *space == Namespace::Range);
    let longest = longest.map(|(_, text)| text.clone()).max_by_key(String::len).unwrap();
    assert_eq!(longest, "x".repeat(gpuspy_wire::record::MAX_RANGE_TEXT));
}

#[test]
fn ranges_are_seen_under_bare_preload_where_the_variable_names_us() {
    let agent = gpuspy_tests::agent();
    all_forms_are_there(&Run::of("nvtx").env("NVTX_INJECTION64_PATH", agent).preloaded().succeeded());
}

#[test]
fn another_tool_keeps_the_ranges() {
    let done = Run::of("nvtx").env("NVTX_INJECTION64_PATH", "/nowhere/libtool.so").observed().succeeded();
    let (inside, ranges) = kernels_by_range(&done);
    assert!(inside.is_empty() && ranges.is_empty(), "{inside:?}");
}

#[test]
fn turned_off_the_agent_takes_no_ranges() {
    let run = Run::of("nvtx").env("NVTX_INJECTION64_PATH", gpuspy_tests::agent());
    let done = run.env("GPUSPY", "0").preloaded().succeeded();
    assert!(done.traces().is_empty());
}
