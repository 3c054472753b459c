//! Every way to take a GPU's memory: what the report says is held, by kind, is what the simulator says was.

use crate::compare::{by_name, known_calls, transfers};
use crate::export::exported;
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, report};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds that are a device's memory in use; physical memory counts while it is mapped.
const ON_DEVICE: &[&str] = &["device", "managed", "pool", "mapped", "array", "graph"];

/// Use of memory, as the report has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub allocations: u64,
    pub frees: u64,
    pub live: u64,
    pub peak: u64,
}

impl Use {
    fn add(&mut self, line: &Value) {
        let bytes = line["bytes"].as_u64().unwrap();
        match line["kind"].as_str().unwrap() {
            "alloc" => {
                self.allocations += 1;
                self.live += bytes;
                self.peak = self.peak.max(self.live);
            }
            "free" => {
                self.frees += 1;
                self.live -= bytes;
            }
            _ => self.live -= bytes,
        }
    }

    /// A graph launch, whose lines stand in an order that its dependencies allow. What is reported is the most that it can
    /// hold: of each address, the largest block that is ever there.
    fn add_launch(&mut self, lines: &[&Value]) {
        let mut largest: BTreeMap<u64, u64> = BTreeMap::new();
        for line in lines.iter().filter(|line| line["kind"] == "alloc") {
            let bytes = largest.entry(line["address"].as_u64().unwrap()).or_default();
            *bytes = line["bytes"].as_u64().unwrap().max(*bytes);
        }
        let most = self.peak.max(self.live + largest.values().sum::<u64>());
        lines.iter().for_each(|line| self.add(line));
        assert!(self.peak <= most, "{} were held at once, and {most} at most", self.peak);
        self.peak = most;
    }

    fn of(part: &Value) -> Use {
        let number = |key: &str| part[key].as_u64().unwrap_or_else(|| panic!("{key}: {part}"));
        let [allocations, frees] = ["allocations", "frees"].map(number);
        Use { allocations, frees, live: number("live_bytes"), peak: best(&part["peak_bytes"]) }
    }
}

/// By kind, and device memory in all.
pub type Uses = (BTreeMap<String, Use>, Use);

/// The best value of an estimate.
fn best(estimate: &Value) -> u64 {
    let [lo, value, hi] = ["lo", "value", "hi"].map(|key| estimate[key].as_u64().unwrap());
    assert!(lo <= value && value <= hi, "{estimate}");
    value
}

/// What really happened.
pub fn true_uses(truth: &Truth) -> Uses {
    let mut lines: Vec<&Value> = ["alloc", "free", "gone"].iter().flat_map(|kind| truth.of(kind)).collect();
    lines.sort_by_key(|line| line["seq"].as_u64().unwrap());
    let mut uses = Uses::default();
    // A launch's lines stand together; others have no launch.
    for part in lines.chunk_by(|one, next| one["launch"].is_u64() && one["launch"] == next["launch"]) {
        let memory = part[0]["memory"].as_str().unwrap();
        let is_launch = part[0]["launch"].is_u64();
        let add = |uses: &mut Use| if is_launch { uses.add_launch(part) } else { uses.add(part[0]) };
        add(uses.0.entry(memory.to_owned()).or_default());
        if ON_DEVICE.contains(&memory) {
            add(&mut uses.1);
        }
    }
    uses
}

/// What the report says. Device memory by library is the same memory once more.
pub fn told_uses(report: &Value) -> Uses {
    let memory = &report["memory"];
    let rows = memory["by_library"].as_array().unwrap();
    for (of_library, whole) in [
        ("at_peak_bytes", "peak_bytes"),
        ("live_bytes", "live_bytes"),
        ("allocations", "allocations"),
        ("allocated_bytes", "allocated_bytes"),
        ("frees", "frees"),
    ] {
        let whole =
            if whole == "peak_bytes" { best(&memory[whole]) } else { memory[whole].as_u64().unwrap() };
        let sum: u64 = rows.iter().map(|row| row[of_library].as_u64().unwrap()).sum();
        assert_eq!(sum, whole, "{of_library}: {memory}");
    }
    let by_kind = memory["by_kind"].as_object().unwrap();
    (by_kind.iter().map(|(kind, part)| (kind.clone(), Use::of(part))).collect(), Use::of(memory))
}

fn all_of_it(program: &str, kinds: &str) -> Done {
    let done = Run::of(program).observed().succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["dropped"], 0, "{}", report["coverage"]);
    let (told, truth) = (told_uses(&report), true_uses(&done.truth()));
    assert_eq!(told, truth);
    assert_eq!(told.0.keys().map(String::as_str).collect::<Vec<_>>().join(" "), kinds);
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in known_calls(&done.said()) {
        assert_eq!(calls.get(&name), Some(&count), "{name}");
    }
    done
}

/// The peak of device memory, told and in truth, of a program whose threads take and free at the same time.
fn peak_of_threads(what: &str) -> (Value, u64) {
    let done = Run::of("memory_threads").arg(what).observed().succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["dropped"], 0, "{}", report["coverage"]);
    let ((_, told), (_, truth)) = (told_uses(&report), true_uses(&done.truth()));
    assert_eq!((told.allocations, told.frees, told.live), (truth.allocations, truth.frees, truth.live));
    let peak = report["memory"]["peak_bytes"].clone();
    println!("{what}: told {peak}, in truth {}", truth.peak);
    let [lo, hi] = ["lo", "hi"].map(|key| peak[key].as_u64().unwrap());
    assert!(lo <= truth.peak && truth.peak <= hi, "{peak}: in truth {}", truth.peak);
    (peak, truth.peak)
}

/// 512 MiB were told as if nothing were more certain: a block counted as gone when the call that frees it began, and here
/// eight of those calls wait for the GPU at the same time.
#[test]
fn blocks_whose_frees_wait_are_in_the_peak() {
    let (told, truth) = peak_of_threads("waiting");
    let size: u64 = 256 << 20;
    assert_eq!((truth, best(&told)), (8 * size, 8 * size), "each free takes until the last one has begun");
}

/// 1 KiB blocks of four threads, as fast as they can.
#[test]
fn threads_that_take_and_free_small_blocks_hold_no_more_than_is_told() {
    let (told, _) = peak_of_threads("storm");
    assert!(told["hi"].as_u64().unwrap() <= 4 << 10, "each thread has one block: {told}");
}

/// A barrier before and behind each call: none of two threads overlap.
#[test]
fn threads_that_take_turns_leave_no_doubt() {
    let (told, truth) = peak_of_threads("turns");
    assert_eq!((&told["kind"], &told["value"], truth), (&json!("exact"), &json!(truth), 4 << 10));
}

#[test]
fn every_way_of_the_driver_is_counted_as_it_happened() {
    let done =
        all_of_it("memory_driver", "array device imported managed mapped pinned pool registered reserved");
    let report = done.report();
    let kinds = told_uses(&report).0;
    // What is kept: a mapping whose handle was released, and a block that outlived its pool and its context.
    assert_eq!((kinds["mapped"].live, kinds["reserved"].live), (8 << 20, 8 << 20));
    assert_eq!(kinds["pool"].live, 200_000);
    assert_eq!((kinds["device"].live, kinds["array"].live, kinds["imported"].live), (0, 0, 0));
    assert_eq!(kinds["mapped"].peak, 20 << 20, "four mappings; a second one of the first takes nothing");
    assert_eq!(report["memory"]["out_of_memory"], 1);
    // The last row of a pitched block lies in it, and what is mapped is the device's.
    let copies = transfers(&report["transfers"]);
    assert_eq!(copies[&("HtoD".to_owned(), "pinned".to_owned())], (1, 1000));
    let failed = by_name(&report["apis"], "name", "failed");
    for (name, count) in
        [("cuMemAlloc", 1), ("cuMemMap", 1), ("cuMemUnmap", 1), ("cuMemRelease", 1), ("cuArrayDestroy", 1)]
    {
        assert_eq!(failed[name], count, "{name}");
    }
}

#[test]
fn every_way_of_the_runtime_is_counted_once_and_under_its_name() {
    let done = all_of_it("memory_runtime", "array device imported pool");
    let report = done.report();
    assert_eq!(report["memory"]["out_of_memory"], 1);
    let calls = by_name(&report["apis"], "name", "count");
    let of_driver: Vec<&String> =
        calls.keys().filter(|name| name.starts_with("cuM") || name.starts_with("cuArray")).collect();
    assert!(of_driver.is_empty(), "{of_driver:?}");
    // 64 × 7 layers of bytes is what is left of the arrays.
    assert_eq!(told_uses(&report).0["array"].live, 64 * 7);
}

#[test]
fn what_graphs_take_is_counted_at_their_launches() {
    let done = all_of_it("graph_memory", "device graph pool");
    let report = done.report();
    let kinds = told_uses(&report).0;
    assert_eq!(kinds["graph"].live, 1 << 20, "a block outlives its graph");
    assert_eq!((kinds["device"].live, kinds["pool"].live), (0, 0));
    // 11 and 13 of a capture, beside 2 of the pool and 100 000 bytes.
    assert_eq!((kinds["graph"].peak, told_uses(&report).1.peak), (24 << 20, (26 << 20) + 100_000));
    let copies = transfers(&report["transfers"]);
    assert_eq!(
        copies[&("DtoH".to_owned(), "pageable".to_owned())],
        (1, 64),
        "it is known to be the device's"
    );
    let failed = by_name(&report["apis"], "name", "failed");
    assert_eq!((failed["cuGraphLaunch"], failed.values().sum::<u64>()), (2, 2));
    let most = report["memory"]["timeline"]["peaks_bytes"].as_array().unwrap().iter().map(|b| b.as_u64());
    assert_eq!(most.max().unwrap(), report["memory"]["peak_bytes"]["value"].as_u64());
    let chrome = exported(&done.trace());
    let counters = chrome["traceEvents"].as_array().unwrap().iter().filter(|e| e["name"] == "device memory");
    let held: Vec<u64> = counters.map(|counter| counter["args"]["bytes"].as_u64().unwrap()).collect();
    assert_eq!(held.iter().max().copied(), report["memory"]["peak_bytes"]["value"].as_u64());
    assert_eq!(held.last().copied(), report["memory"]["live_bytes"].as_u64());
}

#[test]
fn what_a_captured_allocator_takes_is_counted_once_a_replay() {
    let done = all_of_it("graph_memory_runtime", "graph");
    let graph = told_uses(&done.report()).0["graph"];
    // Five launches of one block, and twice five of seven.
    assert_eq!((graph.allocations, graph.frees, graph.live), (75, 75, 0));
    let copies = transfers(&done.report()["transfers"]);
    assert_eq!(copies[&("DtoH".to_owned(), "pageable".to_owned())], (10, 160));
}

/// The programs ask and set, and describe what they took; that nothing is wrong they see for themselves.
#[test]
fn what_textures_surfaces_and_tensor_maps_describe_is_counted_once() {
    for (program, kinds) in
        [("settings_12", "array device"), ("settings_13", "array device"), ("tensor_maps", "device")]
    {
        let done = Run::of(program).env("SIMCUDA_DEVICES", "2").observed().succeeded();
        let report = done.report();
        let (told, truth) = (told_uses(&report), true_uses(&done.truth()));
        assert_eq!(told, truth, "{program}");
        assert_eq!(told.0.keys().map(String::as_str).collect::<Vec<_>>().join(" "), kinds);
        assert_eq!(
            (told.1.allocations, told.1.frees, told.1.live > 0),
            if program == "tensor_maps" { (2, 1, true) } else { (3, 2, true) }
        );
        assert_eq!(report["coverage"]["dropped"], 0, "{}", report["coverage"]);
        assert_eq!(report["coverage"]["launches"], u64::from(program == "tensor_maps"));
    }
}

#[test]
fn events_around_kernels_leave_graphs_with_memory_alone() {
    let done = Run::of("graph_memory").observed_with(&["--graph", "nodes"]).succeeded();
    assert_eq!(told_uses(&done.report()), true_uses(&done.truth()));
    assert!(done.report()["processes"][0]["notes"].to_string().contains("left some graphs alone"));
}

/// A dlsym hook before us hides the driver's calls: then the runtime's own make the records, of the same memory.
#[test]
fn the_runtime_layer_alone_counts_the_same() {
    let done = Run::of("memory_runtime").preloaded_among(&["libhookdlsym.so"], &[]).succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["driver_hooked"], false);
    assert_eq!(told_uses(&report), true_uses(&done.truth()));
    assert_eq!(report["memory"]["out_of_memory"], 1);
}

#[test]
fn memory_that_another_process_allocated_is_counted_there() {
    let done = Run::of("memory_ipc").observed().succeeded();
    let all = report(&done.folder().join("trace.gspy"));
    assert_eq!(all["processes"].as_array().unwrap().len(), 2);
    let (kinds, device) = told_uses(&all);
    let bytes = 3 << 20;
    assert_eq!(kinds["device"], Use { allocations: 1, frees: 1, live: 0, peak: bytes });
    assert_eq!(kinds["imported"], Use { allocations: 2, frees: 2, live: 0, peak: bytes });
    assert_eq!(device, kinds["device"], "imported memory is not this process's");
    let sets = transfers(&all["transfers"]);
    assert_eq!(json!(sets[&("memset".to_owned(), "none".to_owned())]), json!((1, bytes)));
}
