//! Compares the report of a generated trace with what the generator knows: exactly where exactness is promised, by the
//! interval where the report gives one, and within 1 % where a median comes from a sketch.

use gpuspy_collector::trace::generator::{Generator, Kind, Lengths, Options, Parts, SESSION};
use gpuspy_wire::record::{Memory, Namespace};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The relative accuracy that sketches promise.
const SKETCH: f64 = 0.01;

/// Returns the generator of the traces: two threads, all kinds of calls, and so few kernels that medians soon come from
/// sketches.
pub fn generator() -> Generator {
    let options =
        Options { kernels: 12, threads: 2, communication: 4, other_calls: true, ..Options::default() };
    Generator::new(7, options)
}

/// Lists what in a report differs from what the generator of its trace knows, one line each.
pub fn differences(report: &Value, generator: &Generator) -> Vec<String> {
    let mut check = Check { report, wrong: Vec::new() };
    let names = |wanted: Namespace| -> BTreeMap<u32, String> {
        let all = generator.names().into_iter().filter(|(space, ..)| *space == wanted);
        all.map(|(_, id, text)| (id, text)).collect()
    };
    check.coverage(generator);
    check.kernels(generator, &names(Namespace::Kernel));
    check.transfers(generator);
    check.memory(generator);
    check.calls(generator, &names(Namespace::Api));
    check.device(&generator.truth().parts());
    check.wrong
}

struct Check<'r> {
    report: &'r Value,
    wrong: Vec<String>,
}

impl Check<'_> {
    fn equal(&mut self, what: &str, ours: &Value, truth: u64) {
        if *ours != json!(truth) {
            self.wrong.push(format!("{what}: {ours}, in truth {truth}"));
        }
    }

    /// Checks that an estimate's interval, widened by a share, contains the truth, and that its value lies in it.
    fn holds(&mut self, what: &str, estimate: &Value, truth: f64, share: f64) {
        let of = |key: &str| estimate[key].as_f64().unwrap_or(f64::NAN);
        let (lo, value, hi) = (of("lo"), of("value"), of("hi"));
        let is_inside = lo * (1.0 - share) <= truth && truth <= hi * (1.0 + share);
        if !(is_inside && lo <= value && value <= hi) {
            self.wrong.push(format!("{what}: {estimate}, in truth {truth}"));
        }
    }

    fn near(&mut self, what: &str, ours: &Value, truth: u64, off_by: u64) {
        if ours.as_u64().is_none_or(|ours| ours.abs_diff(truth) > off_by) {
            self.wrong.push(format!("{what}: {ours}, in truth {truth} +/- {off_by}"));
        }
    }

    /// Returns the entry of a list by its name.
    fn entry(&mut self, list: &str, key: &str, name: &str) -> Value {
        let found = self.report[list].as_array().into_iter().flatten().find(|entry| entry[key] == name);
        found.cloned().unwrap_or_else(|| {
            self.wrong.push(format!("{list}: no {name}"));
            Value::Null
        })
    }

    fn length(&mut self, list: &str, truth: usize) {
        let ours = json!(self.report[list].as_array().map(Vec::len));
        self.equal(&format!("entries of {list}"), &ours, truth as u64);
    }

    fn coverage(&mut self, generator: &Generator) {
        let (coverage, launches) = (&self.report["coverage"], generator.truth().launches);
        for (key, truth) in [
            ("launches", launches),
            ("timed", launches),
            ("captured", 0),
            ("unattributed", 0),
            ("dropped", 0),
        ] {
            self.equal(key, &coverage[key], truth);
        }
    }

    fn kernels(&mut self, generator: &Generator, names: &BTreeMap<u32, String>) {
        let truth = generator.truth();
        self.length("kernels", truth.kernels.len());
        for (id, lengths) in &truth.kernels {
            let symbol = &names[id];
            let ours = self.entry("kernels", "symbol", symbol);
            self.equal(&format!("count of {symbol}"), &ours["count"], lengths.count);
            self.equal(&format!("timed of {symbol}"), &ours["timed"], lengths.count);
            self.lengths(symbol, &ours, lengths);
        }
    }

    fn lengths(&mut self, symbol: &str, ours: &Value, truth: &Lengths) {
        let (Some(median), Some((least, most))) = (truth.median(), truth.extremes()) else { return };
        let sketch = if ours["median_ns"]["kind"] == "sketch" { SKETCH } else { 0.0 };
        let mean = truth.total as f64 / truth.count as f64;
        for (key, truth, share) in [
            ("total_ns", truth.total as f64, 0.0),
            ("avg_ns", mean, 0.0),
            ("median_ns", median as f64, sketch),
            ("min_ns", least as f64, 0.0),
            ("max_ns", most as f64, 0.0),
            ("stddev_ns", truth.stddev(), 0.0),
        ] {
            self.holds(&format!("{key} of {symbol}"), &ours[key], truth, share);
        }
    }

    fn transfers(&mut self, generator: &Generator) {
        let truth = generator.truth();
        self.length("transfers", truth.transfers.len());
        for (kind, moved) in &truth.transfers {
            let (name, host_memory) = match kind {
                Kind::HtoD => ("HtoD", "pinned"),
                Kind::DtoH => ("DtoH", "pinned"),
                Kind::Memset => ("memset", "none"),
            };
            let ours = self.entry("transfers", "kind", name);
            if ours["host_memory"] != host_memory {
                self.wrong.push(format!("{name}: host memory {}", ours["host_memory"]));
            }
            self.equal(&format!("count of {name}"), &ours["count"], moved.count);
            self.equal(&format!("bytes of {name}"), &ours["bytes"], moved.bytes);
            self.holds(&format!("total_ns of {name}"), &ours["total_ns"], moved.total as f64, 0.0);
        }
    }

    fn memory(&mut self, generator: &Generator) {
        for (memory, held) in &generator.truth().memory {
            let mut parts = vec![&self.report["memory"]["by_kind"][memory.name()]];
            // All device memory is of this kind.
            parts.extend((*memory == Memory::Device).then_some(&self.report["memory"]));
            for ours in parts {
                for (key, truth) in
                    [("allocations", held.allocations), ("frees", held.frees), ("live_bytes", held.live)]
                {
                    self.equal(&format!("{key} of {}", memory.name()), &ours[key], truth);
                }
                let what = format!("peak_bytes of {}", memory.name());
                self.holds(&what, &ours["peak_bytes"], held.peak as f64, 0.0);
                // Where calls of the two threads overlap, the peak may be at another moment.
                if ours["peak_bytes"]["kind"] == "exact" {
                    let what = format!("peak_ns of {}", memory.name());
                    self.equal(&what, &ours["peak_ns"], held.peak_at - SESSION);
                }
            }
        }
    }

    fn calls(&mut self, generator: &Generator, names: &BTreeMap<u32, String>) {
        let truth = generator.truth();
        self.length("apis", truth.calls.len());
        self.length("syncs", 1);
        for (api, (count, host_ns)) in &truth.calls {
            let name = &names[&u32::from(*api)];
            let mut lists = vec![("apis", "name")];
            lists.extend(name.contains("Synchronize").then_some(("syncs", "api")));
            for (list, key) in lists {
                let ours = self.entry(list, key, name);
                self.equal(&format!("calls of {name}"), &ours["count"], *count);
                self.equal(&format!("host time in {name}"), &ours["host_ns"], *host_ns);
            }
        }
    }

    fn device(&mut self, truth: &Parts) {
        self.length("devices", 1);
        let device = &self.report["devices"][0];
        for (key, truth) in [
            ("compute_ns", truth.compute),
            ("exposed_comm_ns", truth.communication),
            ("exposed_copy_ns", truth.transfer),
            ("idle_ns", truth.idle),
        ] {
            self.holds(key, &device[key], truth as f64, 0.0);
        }
        let parts = ["compute", "graph", "exposed_comm", "exposed_copy", "undecided", "unobserved", "idle"];
        let sum = parts.iter().filter_map(|part| device[format!("{part}_ns")]["value"].as_u64()).sum();
        self.equal("sum of the parts", &device["span_ns"], sum);
        let gaps = &self.report["gaps"];
        self.holds("total of gaps", &gaps["total_ns"], truth.idle as f64, 0.0);
        self.holds("longest gap", &gaps["largest"][0]["duration_ns"], truth.longest_gap as f64, 0.0);
        // These are best estimates without an interval of their own: whether two streams' operations touch is a matter
        // of a few ns.
        self.near("gaps", &gaps["count"], truth.gaps, truth.gaps / 50);
        self.near("span", &device["span_ns"], truth.span, 1_000 + truth.span / 1_000_000);
    }
}
