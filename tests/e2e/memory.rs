//! Every way to take a GPU's memory: what the report says is held, by kind, is what the stand-in says was.

use crate::compare::{by_name, known_calls, transfers};
use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, report};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds that are a device's memory in use; physical memory counts while it is mapped.
const ON_DEVICE: &[&str] = &["device", "managed", "pool", "mapped", "array"];

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

    fn of(part: &Value) -> Use {
        let number = |key: &str| part[key].as_u64().unwrap_or_else(|| panic!("{key}: {part}"));
        let [allocations, frees] = ["allocations", "frees"].map(number);
        Use { allocations, frees, live: number("live_bytes"), peak: number("peak_bytes") }
    }
}

/// By kind, and device memory in all.
pub type Uses = (BTreeMap<String, Use>, Use);

/// What really happened.
pub fn true_uses(truth: &Truth) -> Uses {
    let mut lines: Vec<&Value> = ["alloc", "free", "gone"].iter().flat_map(|kind| truth.of(kind)).collect();
    lines.sort_by_key(|line| line["seq"].as_u64().unwrap());
    let mut uses = Uses::default();
    for line in lines {
        let memory = line["memory"].as_str().unwrap();
        uses.0.entry(memory.to_owned()).or_default().add(line);
        if ON_DEVICE.contains(&memory) {
            uses.1.add(line);
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
        let sum: u64 = rows.iter().map(|row| row[of_library].as_u64().unwrap()).sum();
        assert_eq!(sum, memory[whole].as_u64().unwrap(), "{of_library}: {memory}");
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
