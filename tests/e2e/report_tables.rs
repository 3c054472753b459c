//! Compares the report's tables with the simulator's truth: exactly where exactness is promised, elsewhere the interval
//! has to contain what is computed from the truth file. `random_programs.rs` checks every random program with this.

use crate::compare::{Compared, compare, slack};
use crate::random_programs::Setting;
use gpuspy_tests::truth::Operation;
use gpuspy_tests::{Done, Run, report};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Lists what is wrong with the report of a run, one line each.
pub fn violations(done: &Done, compared: &[Compared], setting: Setting) -> Vec<String> {
    let (report, truth) = (done.report(), done.truth());
    let mut check = Check { report: &report, wrong: Vec::new() };
    check.kernels(compared);
    check.transfers(compared);
    check.calls(&done.said());
    check.gaps();
    check.startup();
    check.waits(done, setting);
    check.devices(&truth.operations(), setting);
    check.wrong
}

/// Calls that wait for their context's work on the simulator, whatever it assumes except for `free`.
const WAITS_ALWAYS: [&str; 9] = [
    "cudaFree",
    "cudaFreeHost",
    "cudaHostUnregister",
    "cuLibraryUnload",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuMemUnmap",
    "cuModuleUnload",
];

struct Check<'r> {
    report: &'r Value,
    wrong: Vec<String>,
}

/// Returns a number of a report; a missing one counts as wrong, too.
fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

/// Returns whether the clocks drift faster than the collector assumes, so that their error can exceed the reported one.
fn is_wild(setting: Setting) -> bool {
    setting.iter().any(|(name, value)| *name == "SIMCUDA_CLOCK_WANDER_PPB" && *value == "2000")
}

/// Returns the sum of an object's numbers.
pub fn sum(parts: &Value) -> u64 {
    parts.as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum()
}

/// Operations that belong together: their count, and the true lengths of those that are timed.
#[derive(Default)]
struct Group {
    count: u64,
    bytes: u64,
    timed: Vec<u64>,
    untimed: u64,
}

impl Group {
    fn add(&mut self, c: &Compared) {
        self.count += 1;
        self.bytes += c.truth.bytes;
        match c.timed() {
            Some((_, truth)) => self.timed.push(truth),
            None => self.untimed += 1,
        }
    }

    fn sum(&self) -> u64 {
        self.timed.iter().sum()
    }

    /// Returns by how much sums can be off, since the GPU's clock is not the host's.
    fn slack(&self) -> u64 {
        self.timed.iter().map(|ns| slack(*ns)).sum()
    }
}

impl Check<'_> {
    fn equal(&mut self, what: &str, ours: &Value, truth: impl Into<Value>) {
        let truth = truth.into();
        if *ours != truth {
            self.wrong.push(format!("{what}: {ours}, in truth {truth}"));
        }
    }

    fn holds(&mut self, what: &str, estimate: &Value, truth: f64, slack: f64) {
        let (lo, value, hi) = (number(estimate, "lo"), number(estimate, "value"), number(estimate, "hi"));
        if !(lo - slack <= truth && truth <= hi + slack && lo <= value && value <= hi) {
            self.wrong.push(format!("{what}: {estimate}, in truth {truth}"));
        }
    }

    /// Checks the total of a group: an extrapolated total is no less than the timed part.
    fn total(&mut self, what: &str, ours: &Value, group: &Group) {
        let (sum, slack) = (group.sum() as f64, group.slack() as f64);
        match (group.timed.len(), group.untimed) {
            (0, _) => self.equal(what, ours, Value::Null),
            (_, 0) => self.holds(what, ours, sum, slack),
            _ if ours["kind"] == "extrapolated" && number(ours, "hi") + slack >= sum => {}
            _ => self.wrong.push(format!("{what}: {ours}, of which {sum} was timed")),
        }
    }

    fn kernels(&mut self, compared: &[Compared]) {
        let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
        for c in compared.iter().filter(|c| c.truth.kind == "kernel") {
            groups.entry(&c.truth.name).or_default().add(c);
        }
        let launched = |k: &&Value| k["count"] != 0;
        let ours: Vec<&Value> = self.report["kernels"].as_array().unwrap().iter().filter(launched).collect();
        self.equal("kernels", &json!(ours.len()), groups.len());
        for kernel in ours {
            let name = kernel["name"].as_str().unwrap();
            let Some(group) = groups.get_mut(name) else {
                self.wrong.push(format!("{name} was never launched"));
                continue;
            };
            self.equal(&format!("launches of {name}"), &kernel["count"], group.count);
            self.equal(&format!("timed of {name}"), &kernel["timed"], group.timed.len());
            self.total(&format!("total of {name}"), &kernel["total_ns"], group);
            self.lengths(name, kernel, group);
        }
    }

    /// Checks mean, median and extremes of the timed operations.
    fn lengths(&mut self, name: &str, kernel: &Value, group: &mut Group) {
        let timed = &mut group.timed;
        timed.sort_unstable();
        let (Some(&least), Some(&most)) = (timed.first(), timed.last()) else { return };
        let (lower, upper) = (timed[(timed.len() - 1) / 2], timed[timed.len() / 2]);
        let (mean, slacks) = (group.sum() as f64 / group.timed.len() as f64, slack(most) as f64);
        // An extrapolated mean is that of all launches. Of those that were timed, one may have waited at the head of its stream for
        // milliseconds, behind work of other streams in its hardware queue: that is rarer among all of them.
        let mean = (kernel["avg_ns"]["kind"] != "extrapolated").then_some(("avg_ns", mean));
        let others = [
            ("median_ns", (lower + (upper - lower) / 2) as f64),
            ("min_ns", least as f64),
            ("max_ns", most as f64),
        ];
        for (key, truth) in mean.into_iter().chain(others) {
            self.holds(&format!("{key} of {name}"), &kernel[key], truth, slacks);
        }
    }

    fn transfers(&mut self, compared: &[Compared]) {
        let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
        for c in compared {
            let key = match c.truth.kind.as_str() {
                // If both sides are device memory, no host memory takes part, managed or not.
                "copy" if ["DtoD", "PtoP"].contains(&c.truth.direction.as_str()) => {
                    (&*c.truth.direction, "none")
                }
                "copy" => (&*c.truth.direction, &*c.truth.host_memory),
                "memset" => ("memset", "none"),
                _ => continue,
            };
            groups.entry(key).or_default().add(c);
        }
        let ours = self.report["transfers"].as_array().unwrap();
        self.equal("rows of transfers", &json!(ours.len()), groups.len());
        for row in ours {
            let key = (row["kind"].as_str().unwrap(), row["host_memory"].as_str().unwrap());
            let Some(group) = groups.get(&key) else {
                self.wrong.push(format!("{key:?}: never moved"));
                continue;
            };
            self.equal(&format!("count of {key:?}"), &row["count"], group.count);
            self.equal(&format!("bytes of {key:?}"), &row["bytes"], group.bytes);
            self.equal(&format!("timed of {key:?}"), &row["timed"], group.timed.len());
            self.total(&format!("total of {key:?}"), &row["total_ns"], group);
        }
    }

    /// Checks the calls. The program's own counts leave out calls that failed on purpose.
    fn calls(&mut self, said: &Value) {
        let known = crate::compare::known_calls(said);
        let ours = self.report["apis"].as_array().unwrap();
        for call in ours {
            let name = call["name"].as_str().unwrap();
            let succeeded = call["count"].as_u64().unwrap() - call["failed"].as_u64().unwrap();
            let Some(count) = known.get(name) else { continue };
            self.equal(&format!("calls of {name} that succeeded"), &json!(succeeded), *count);
        }
        for sync in self.report["syncs"].as_array().unwrap() {
            let same = ours.iter().find(|call| call["name"] == sync["api"]);
            if same.is_none_or(|call| number(call, "host_ns") < number(sync, "host_ns")) {
                self.wrong.push(format!("sync {sync} among calls: {same:?}"));
            }
        }
    }

    /// Checks that the parts of start-up and of warm-up sum to their totals.
    fn startup(&mut self) {
        let startup = &self.report["startup"];
        let launched = |list: &str| self.report[list].as_array().unwrap().iter().any(|row| row["count"] != 0);
        if startup.is_null() {
            if launched("kernels") {
                self.wrong.push("kernels were launched without a start-up".to_owned());
            }
            return;
        }
        self.equal("start-up", &startup["first_kernel_ns"]["value"], sum(&startup["until_first_kernel_ns"]));
        self.equal("warm-up", &startup["warm_up_ns"], sum(&startup["until_steady_ns"]));
    }

    /// Checks that calls reported to have waited did wait, and that no other call did except those that cannot be
    /// decided.
    fn waits(&mut self, done: &Done, setting: Setting) {
        let is_set = |what: &str| setting.iter().any(|(_, value)| value.contains(what));
        if is_set("free=returns") || is_wild(setting) {
            return;
        }
        let truth = crate::waits_and_startup::truth(done);
        for row in self.report["implicit_syncs"].as_array().unwrap() {
            let api = row["api"].as_str().unwrap();
            if !WAITS_ALWAYS.contains(&api) {
                continue;
            }
            let crate::waits_and_startup::Waited { at_most: count, most: ns, .. } =
                truth.get(api).copied().unwrap_or_default();
            let (told, lo) = (number(row, "count"), number(&row["waited"], "lo"));
            // Calls also wait for host functions, for values in memory and for events of other processes, which are no
            // operations, so the reported wait is a lower bound.
            let slack = slack(ns) as f64 + 2.0 * told;
            if lo > ns as f64 + slack || told > count as f64 {
                self.wrong.push(format!("{row}, in truth {count} that waited {ns} ns"));
            }
        }
    }

    fn gaps(&mut self) {
        let gaps = &self.report["gaps"];
        let largest: Vec<f64> = gaps["largest"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gap| number(&gap["duration_ns"], "value"))
            .collect();
        let (count, total) = (gaps["count"].as_u64().unwrap(), number(&gaps["total_ns"], "value"));
        let idle = |key: &str| -> f64 {
            self.report["devices"]
                .as_array()
                .unwrap()
                .iter()
                .map(|device| number(&device["idle_ns"], key))
                .sum()
        };
        let sum: f64 = largest.iter().sum();
        let is_right = largest.is_sorted_by(|a, b| a >= b)
            && largest.len() as u64 == count.min(10)
            && (if count <= 10 { sum == total } else { sum <= total })
            && total <= idle("value")
            && number(&gaps["total_ns"], "hi") <= idle("hi");
        if !is_right {
            self.wrong.push(format!("gaps: {gaps}, idle {}", idle("value")));
        }
    }

    /// Checks each part of a device's time against the truth, computed from when operations occupied their streams.
    fn devices(&mut self, operations: &[Operation], setting: Setting) {
        for device in self.report["devices"].as_array().unwrap() {
            let ran = operations.iter().filter(|o| Some(o.device) == device["id"].as_u64());
            let truth = Parts::of(ran);
            for (part, truth) in [
                ("compute_ns", truth.classes[0]),
                ("graph_ns", truth.classes[1]),
                ("exposed_copy_ns", truth.classes[2]),
                ("idle_ns", truth.idle),
            ] {
                if !is_wild(setting) {
                    // Edges are whole ns, and each operation has two.
                    let slack = slack(truth) + 2 * operations.len() as u64;
                    self.holds(
                        &format!("{part} of {}", device["id"]),
                        &device[part],
                        truth as f64,
                        slack as f64,
                    );
                }
            }
        }
    }
}

/// How a device's time divides, by the truth: kernels, graphs, transfers, each where none of those before it ran.
#[derive(Default)]
struct Parts {
    classes: [u64; 3],
    idle: u64,
}

impl Parts {
    fn of<'o>(operations: impl Iterator<Item = &'o Operation>) -> Parts {
        let mut edges: Vec<(u64, usize, i32)> = Vec::new();
        for o in operations {
            let class = match o.kind.as_str() {
                "kernel" => 0,
                "graph" => 1,
                _ => 2,
            };
            edges.extend([(o.interval.0, class, 1), (o.interval.1, class, -1)]);
        }
        edges.sort_unstable();
        let (mut parts, mut running) = (Parts::default(), [0; 3]);
        let mut now = edges.first().map_or(0, |(time, ..)| *time);
        for (time, class, change) in edges {
            let part = match running.iter().position(|count| *count > 0) {
                Some(class) => &mut parts.classes[class],
                None => &mut parts.idle,
            };
            *part += time - now;
            now = time;
            running[class] += change;
        }
        parts
    }
}

/// Sums the additive numbers of reports, with list entries identified by their names. The work of one GPU for several
/// processes is no sum: see `processes.rs`.
fn summed(reports: &[Value]) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for report in reports {
        let coverage = ["launches", "timed", "captured", "in_graphs", "dropped"];
        coverage.iter().for_each(|key| add(&mut sums, format!("coverage {key}"), &report["coverage"][key]));
        for (list, names, keys) in [
            ("kernels", &["name"][..], &["count", "timed", "in_graphs", "total_ns"][..]),
            ("transfers", &["kind", "host_memory"], &["count", "bytes", "timed", "total_ns"]),
            ("apis", &["name"], &["count", "failed", "host_ns"]),
            ("syncs", &["api"], &["count", "host_ns"]),
        ] {
            for entry in report[list].as_array().unwrap() {
                let name: Vec<&str> = names.iter().filter_map(|name| entry[name].as_str()).collect();
                keys.iter().for_each(|key| add(&mut sums, format!("{list} {name:?} {key}"), &entry[key]));
            }
        }
        for key in ["allocations", "frees", "live_bytes"] {
            add(&mut sums, format!("memory {key}"), &report["memory"][key]);
        }
    }
    sums
}

fn add(sums: &mut BTreeMap<String, f64>, what: String, value: &Value) {
    match value.as_f64() {
        Some(value) => *sums.entry(what).or_default() += value,
        None => ["lo", "value", "hi"]
            .iter()
            .for_each(|of| *sums.entry(format!("{what} {of}")).or_default() += number(value, of)),
    }
}

/// With more launches than are kept individually, the median is read from a sketch's bins.
#[test]
fn medians_of_tens_of_thousands_of_launches_contain_the_truth() {
    let done = Run::of("mixed_kernels").arg("800").observed_with(&["--timing", "exact"]).succeeded();
    let report = done.report();
    let is_sketch = |kernel: &&Value| kernel["median_ns"]["kind"] == "sketch";
    let sketches = report["kernels"].as_array().unwrap().iter().filter(is_sketch).count();
    assert!(sketches > 0, "the test proves nothing: no kernel was launched often enough for a sketch");
    let mut check = Check { report: &report, wrong: Vec::new() };
    check.kernels(&compare(&done));
    assert!(check.wrong.is_empty(), "{}", check.wrong.join("\n"));
}

#[test]
fn the_report_of_a_run_is_the_sum_of_its_processes() {
    let done = Run::of("fork_child").arg("before").observed().succeeded();
    let folder = done.trace();
    let traces = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let parts: Vec<Value> = traces.map(|trace| report(&trace)).collect();
    assert_eq!(parts.len(), 2);
    let (whole, sums) = (summed(&[report(&folder)]), summed(&parts));
    assert_eq!(whole, sums);
    assert!(sums["coverage launches"] == 400.0 && sums.len() > 40, "{sums:?}");
}
