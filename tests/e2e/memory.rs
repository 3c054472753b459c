//! Every way to allocate a GPU's memory: the memory that the report shows, by kind, equals the simulator's.

use crate::compare::{by_name, known_calls, transfers};
use crate::export::exported;
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, report};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds that are a device's memory in use; physical memory counts while it is mapped.
const ON_DEVICE: &[&str] = &["device", "managed", "pool", "mapped", "array", "graph"];

/// Memory use as the report shows it.
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

    /// Adds a graph launch, whose lines are in an order that its dependencies allow. The report gives the most that the
    /// launch can hold: for each address, the largest block that is ever there.
    fn add_launch(&mut self, lines: &[&Value]) {
        let mut largest: BTreeMap<u64, u64> = BTreeMap::new();
        for line in lines.iter().filter(|line| line["kind"] == "alloc") {
            let bytes = largest.entry(line["address"].as_u64().unwrap()).or_default();
            *bytes = line["bytes"].as_u64().unwrap().max(*bytes);
        }
        let most = self.peak.max(self.live + largest.values().sum::<u64>());
        lines.iter().for_each(|line| self.add(line));
        assert!(self.peak <= most, "{} bytes were held at once, and {most} at most", self.peak);
        self.peak = most;
    }

    fn of(part: &Value) -> Use {
        let number = |key: &str| part[key].as_u64().unwrap_or_else(|| panic!("no {key} in {part}"));
        let [allocations, frees] = ["allocations", "frees"].map(number);
        Use { allocations, frees, live: number("live_bytes"), peak: best(&part["peak_bytes"]) }
    }
}

/// Memory use by kind, and the total of device memory.
pub type Uses = (BTreeMap<String, Use>, Use);

/// Returns the best value of an estimate.
fn best(estimate: &Value) -> u64 {
    let [lo, value, hi] = ["lo", "value", "hi"].map(|key| estimate[key].as_u64().unwrap());
    assert!(lo <= value && value <= hi, "{estimate}");
    value
}

/// Returns what really happened.
pub fn true_uses(truth: &Truth) -> Uses {
    let mut lines: Vec<&Value> = ["alloc", "free", "gone"].iter().flat_map(|kind| truth.of(kind)).collect();
    lines.sort_by_key(|line| line["seq"].as_u64().unwrap());
    let mut uses = Uses::default();
    // A launch's lines are adjacent; other lines have no launch.
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

/// Returns what the report says, after checking that the sums by library equal the totals.
pub fn reported_uses(report: &Value) -> Uses {
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

fn check_memory_and_calls(program: &str, kinds: &str) -> Done {
    let done = Run::of(program).observed().succeeded();
    let report = done.report();
    done.dropped_nothing(&report);
    let (reported, truth) = (reported_uses(&report), true_uses(&done.truth()));
    assert_eq!(reported, truth);
    assert_eq!(reported.0.keys().map(String::as_str).collect::<Vec<_>>().join(" "), kinds);
    // What a launch of a graph allocated and freed itself was missing in its line.
    let lines = report["lines"].as_array().unwrap();
    let by_line: u64 = lines.iter().map(|line| line["allocated_bytes"].as_u64().unwrap()).sum();
    assert_eq!(by_line, report["memory"]["allocated_bytes"].as_u64().unwrap());
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in known_calls(&done.said()) {
        assert_eq!(calls.get(&name), Some(&count), "{name}");
    }
    done
}

/// Returns the peak of device memory, as reported and as it was, of a program whose threads allocate and free at the
/// same time.
fn peak_of_threads(what: &str) -> (Value, u64) {
    let done = Run::of("memory_threads").arg(what).observed().succeeded();
    let report = done.report();
    done.dropped_nothing(&report);
    let ((_, reported), (_, truth)) = (reported_uses(&report), true_uses(&done.truth()));
    assert_eq!(
        (reported.allocations, reported.frees, reported.live),
        (truth.allocations, truth.frees, truth.live)
    );
    let peak = report["memory"]["peak_bytes"].clone();
    println!("{what}: reported {peak}, in truth {}", truth.peak);
    let [lo, hi] = ["lo", "hi"].map(|key| peak[key].as_u64().unwrap());
    assert!(lo <= truth.peak && truth.peak <= hi, "{peak}: in truth {}", truth.peak);
    (peak, truth.peak)
}

/// Eight free calls wait for the GPU at the same time. An earlier version reported 512 MiB as exact, since it counted a
/// block as gone when the call that frees it began.
#[test]
fn blocks_count_in_the_peak_while_their_free_calls_wait() {
    let (reported, truth) = peak_of_threads("waiting");
    let size: u64 = 256 << 20;
    assert_eq!(
        (truth, best(&reported)),
        (8 * size, 8 * size),
        "each block counts until its free has returned, and none had returned at the peak"
    );
}

/// Four threads allocate and free 1 KiB blocks as fast as they can.
#[test]
fn the_peak_of_threads_with_small_blocks_is_not_overstated() {
    let (reported, _) = peak_of_threads("storm");
    assert!(reported["hi"].as_u64().unwrap() <= 4 << 10, "each thread has one block: {reported}");
}

/// Barriers before and after each call keep the calls of different threads from overlapping.
#[test]
fn allocations_that_do_not_overlap_have_an_exact_peak() {
    let (reported, truth) = peak_of_threads("turns");
    assert_eq!((&reported["kind"], &reported["value"], truth), (&json!("exact"), &json!(truth), 4 << 10));
}

#[test]
fn every_driver_allocation_call_is_counted_as_it_happened() {
    let done = check_memory_and_calls(
        "memory_driver",
        "array device imported managed mapped pinned pool registered reserved",
    );
    let report = done.report();
    let kinds = reported_uses(&report).0;
    // What is kept: a mapping whose handle was released, and a block that outlived its pool and its context.
    assert_eq!((kinds["mapped"].live, kinds["reserved"].live), (8 << 20, 8 << 20));
    assert_eq!(kinds["pool"].live, 200_000);
    assert_eq!((kinds["device"].live, kinds["array"].live, kinds["imported"].live), (0, 0, 0));
    assert_eq!(
        kinds["mapped"].peak,
        20 << 20,
        "four mappings: a second mapping of the same memory adds nothing"
    );
    assert_eq!(report["memory"]["out_of_memory"], 1);
    // The last row of a pitched block lies inside it, and mapped memory is the device's.
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
fn every_runtime_allocation_call_is_counted_once_under_its_own_name() {
    let done = check_memory_and_calls("memory_runtime", "array device imported pool");
    let report = done.report();
    assert_eq!(report["memory"]["out_of_memory"], 1);
    let calls = by_name(&report["apis"], "name", "count");
    let of_driver: Vec<&String> =
        calls.keys().filter(|name| name.starts_with("cuM") || name.starts_with("cuArray")).collect();
    assert!(of_driver.is_empty(), "{of_driver:?}");
    // 64 × 7 layers of bytes remain of the arrays.
    assert_eq!(reported_uses(&report).0["array"].live, 64 * 7);
}

#[test]
fn memory_of_graphs_is_counted_at_their_launches() {
    let done = check_memory_and_calls("graph_memory", "device graph pool");
    let report = done.report();
    let kinds = reported_uses(&report).0;
    assert_eq!(kinds["graph"].live, 1 << 20, "one block was allocated by a graph and outlives it");
    assert_eq!((kinds["device"].live, kinds["pool"].live), (0, 0));
    // 11 and 13 MiB of a capture, beside 2 MiB of the pool and 100 000 bytes.
    assert_eq!((kinds["graph"].peak, reported_uses(&report).1.peak), (24 << 20, (26 << 20) + 100_000));
    let copies = transfers(&report["transfers"]);
    assert_eq!(
        copies[&("DtoH".to_owned(), "pageable".to_owned())],
        (1, 64),
        "the graph's memory counts as device memory: the copy is to pageable memory"
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
fn memory_of_a_captured_allocator_is_counted_once_for_each_replay() {
    let done = check_memory_and_calls("graph_memory_runtime", "graph");
    let graph = reported_uses(&done.report()).0["graph"];
    // Five launches of one block, and twice five launches of seven.
    assert_eq!((graph.allocations, graph.frees, graph.live), (75, 75, 0));
    let copies = transfers(&done.report()["transfers"]);
    assert_eq!(copies[&("DtoH".to_owned(), "pageable".to_owned())], (10, 160));
}

/// The programs query and set these objects; each program checks the results itself.
#[test]
fn memory_described_by_textures_surfaces_and_tensor_maps_is_counted_once() {
    for (program, kinds) in
        [("settings_12", "array device"), ("settings_13", "array device"), ("tensor_maps", "device")]
    {
        let done = Run::of(program).env("SIMCUDA_DEVICES", "2").observed().succeeded();
        let report = done.report();
        let (reported, truth) = (reported_uses(&report), true_uses(&done.truth()));
        assert_eq!(reported, truth, "{program}");
        assert_eq!(reported.0.keys().map(String::as_str).collect::<Vec<_>>().join(" "), kinds);
        assert_eq!(
            (reported.1.allocations, reported.1.frees, reported.1.live > 0),
            if program == "tensor_maps" { (2, 1, true) } else { (3, 2, true) }
        );
        done.dropped_nothing(&report);
        assert_eq!(report["coverage"]["launches"], u64::from(program == "tensor_maps"));
    }
}

#[test]
fn no_events_are_added_to_graphs_that_allocate_memory() {
    let done = Run::of("graph_memory").observed_with(&["--graph", "nodes"]).succeeded();
    assert_eq!(reported_uses(&done.report()), true_uses(&done.truth()));
    assert!(done.report()["processes"][0]["notes"].to_string().contains("left some graphs alone"));
}

/// A dlsym hook before the agent hides the driver calls; then the runtime calls make the records, of the same memory.
#[test]
fn the_runtime_hooks_alone_count_the_same_memory() {
    let done = Run::of("memory_runtime").preloaded_among(&["libhookdlsym.so"], &[]).succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["driver_hooked"], false);
    assert_eq!(reported_uses(&report), true_uses(&done.truth()));
    assert_eq!(report["memory"]["out_of_memory"], 1);
}

#[test]
fn imported_memory_is_counted_in_the_process_that_allocated_it() {
    let done = Run::of("memory_ipc").observed().succeeded();
    let all = report(&done.folder().join("trace.gspy"));
    assert_eq!(all["processes"].as_array().unwrap().len(), 2);
    let (kinds, device) = reported_uses(&all);
    let bytes = 3 << 20;
    assert_eq!(kinds["device"], Use { allocations: 1, frees: 1, live: 0, peak: bytes });
    assert_eq!(kinds["imported"], Use { allocations: 2, frees: 2, live: 0, peak: bytes });
    assert_eq!(device, kinds["device"], "imported memory counts only in the process that allocated it");
    let sets = transfers(&all["transfers"]);
    assert_eq!(json!(sets[&("memset".to_owned(), "none".to_owned())]), json!((1, bytes)));
}
