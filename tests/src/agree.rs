//! Checks that the numbers of one report agree. Numbers that appear in two places, as parts and their total or as two
//! expressions of the same thing, must be equal if they are exact, and within both intervals if they are not. Nothing
//! here knows what happened: a report that passes can be wrong, but one that fails certainly is.

use serde_json::Value;
use std::collections::BTreeMap;

/// Describes each disagreement in a report (`gpuspy report --json`) in one sentence; empty if there is none.
pub fn disagreements(report: &Value) -> Vec<String> {
    let (is_whole, is_of_kernels) = (is_whole(report), is_of_kernels(report));
    let mut found = Found { list: Vec::new(), is_whole, is_of_kernels };
    found.intervals("", report);
    found.coverage(report);
    found.devices(report);
    found.kernels(report);
    found.busy(report);
    found.transfers(report);
    found.gaps(report);
    found.calls(report);
    found.memory(report);
    found.ranges(report);
    found.lines(report);
    found.list
}

/// Returns whether nothing was left out by a filter, a period, capture ranges, or a damaged trace.
fn is_whole(report: &Value) -> bool {
    let is_whole = |process: &Value| {
        process["filter"].as_str().is_none_or(str::is_empty)
            && process["captured"].is_null()
            && number(&process["dropped"]) == 0
    };
    list(&report["processes"]).iter().all(is_whole)
}

/// Returns whether everything but some kernels was left out, and of these nothing (`--kernel` alone).
fn is_of_kernels(report: &Value) -> bool {
    let is_of_kernels = |process: &Value| {
        let filter = process["filter"].as_str().unwrap_or_default();
        let has_more = [", from ", ", until ", ", step"].iter().any(|more| filter.contains(more));
        filter.starts_with("kernels that match ")
            && !has_more
            && process["captured"].is_null()
            && number(&process["dropped"]) == 0
    };
    list(&report["processes"]).iter().all(is_of_kernels)
}

struct Found {
    list: Vec<String>,
    is_whole: bool,
    is_of_kernels: bool,
}

/// A value between its bounds, in ns or any other unit.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    lo: f64,
    value: f64,
    hi: f64,
}

impl Range {
    /// Reads an estimate or an exact number; a missing value counts as 0.
    fn of(value: &Value) -> Range {
        let exact = value.as_f64().unwrap_or(0.0);
        let bound = |key: &str| value[key].as_f64().unwrap_or(exact);
        Range { lo: bound("lo"), value: bound("value"), hi: bound("hi") }
    }

    fn sum(values: impl Iterator<Item = Range>) -> Range {
        values.fold(Range::default(), |sum, one| Range {
            lo: sum.lo + one.lo,
            value: sum.value + one.value,
            hi: sum.hi + one.hi,
        })
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| number(&row[key])).sum()
}

fn ranges<'v>(rows: &'v [Value], key: &str) -> impl Iterator<Item = Range> + use<'v> {
    let key = key.to_owned();
    rows.iter().map(move |row| Range::of(&row[&key]))
}

/// The share by which GPU and host clock may differ. Each duration is also rounded.
const DRIFT: f64 = 250e-6;

impl Found {
    fn equal(&mut self, what: &str, one: u64, other: u64) {
        if one != other {
            self.list.push(format!("{what}: {one} and {other}"));
        }
    }

    fn no_more(&mut self, what: &str, less: f64, more: f64) {
        if less > more * (1.0 + DRIFT) + 1_000.0 {
            self.list.push(format!("{what}: {less} is more than {more}"));
        }
    }

    fn holds(&mut self, what: &str, is_so: bool, row: &Value) {
        if !is_so {
            self.list.push(format!("{what}: {row}"));
        }
    }

    /// Checks that each value lies between its bounds.
    fn intervals(&mut self, path: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                let Range { lo, value: best, hi } = Range::of(value);
                let is_known = ["lo", "value", "hi"].iter().all(|key| value[key].is_number());
                self.holds(path, !is_known || (lo <= best && best <= hi), value);
                fields.iter().for_each(|(key, field)| self.intervals(&format!("{path}.{key}"), field));
            }
            Value::Array(rows) => rows.iter().for_each(|row| self.intervals(path, row)),
            _ => {}
        }
    }

    /// Checks that launches are the sum of timed and untimed ones, and of all kernels' launches.
    fn coverage(&mut self, report: &Value) {
        let coverage = &report["coverage"];
        let (launches, timed) = (number(&coverage["launches"]), number(&coverage["timed"]));
        let untimed: u64 = coverage["untimed"].as_object().map_or(0, |all| all.values().map(number).sum());
        let runs = number(&coverage["runs"]["launches"]);
        self.equal("launches vs. timed and untimed ones", launches, timed + runs + untimed);
        let kernels = list(&report["kernels"]);
        self.equal("launches vs. those of all kernels", launches, sum(kernels, "count"));
        self.equal("timed launches vs. those of all kernels", timed, sum(kernels, "timed"));
        let in_graphs = number(&coverage["in_graphs"]);
        self.equal("kernels in graphs vs. those by name", in_graphs, sum(kernels, "in_graphs"));
        self.equal(
            "kernels in graphs vs. those of launches",
            in_graphs,
            number(&report["graphs"]["kernels"]),
        );
        let never =
            kernels.iter().filter(|row| number(&row["timed"]) == 0).map(|row| number(&row["count"])).sum();
        self.equal("launches of kernels never timed", number(&coverage["never_timed"]), never);
        let timing = &coverage["timing"];
        self.no_more(
            "time in windows",
            Range::of(&timing["timed_ns"]).value,
            Range::of(&timing["wall_ns"]).value,
        );
        let processes = list(&report["processes"]);
        self.equal("launches vs. those of all processes", launches, sum(processes, "launches"));
        self.equal("timed launches vs. those of all processes", timed, sum(processes, "timed"));
    }

    /// Checks that the parts of a GPU's time sum to its span, which lies in the wall time of the run. (Two processes may come
    /// one after the other, with time between them.)
    fn devices(&mut self, report: &Value) {
        let wall = number(&report["wall_ns"]);
        for device in list(&report["devices"]) {
            let span = number(&device["span_ns"]);
            let parts = device.as_object().into_iter().flatten();
            let parts: Vec<Range> = parts
                .filter(|(key, value)| key.ends_with("_ns") && value.is_object())
                .map(|(_, value)| Range::of(value))
                .collect();
            self.equal("the span vs. its parts", span, parts.iter().map(|part| part.value as u64).sum());
            self.holds(
                "no part is longer than the span",
                parts.iter().all(|part| part.hi <= span as f64),
                device,
            );
            self.no_more("a GPU's span vs. the wall time", span as f64, wall as f64);
            let observed = Range::of(&device["observed_ns"]).value;
            self.no_more("the observed part of a span vs. the span", observed, span as f64);
        }
    }

    fn kernels(&mut self, report: &Value) {
        for kernel in list(&report["kernels"]) {
            let of = |key: &str| Range::of(&kernel[key]);
            let (count, timed) = (number(&kernel["count"]), number(&kernel["timed"]));
            self.holds("a kernel is timed no more often than launched", timed <= count, kernel);
            if timed == 0 {
                continue;
            }
            let [min, median, max, mean] = ["min_ns", "median_ns", "max_ns", "avg_ns"].map(of);
            // Of many launches the median is a sketch's, which is off by up to 1 %, and yet one of their times.
            let sides: [fn(&Range) -> f64; 3] = [|it| it.lo, |it| it.value, |it| it.hi];
            let in_order = sides.iter().all(|of| of(&min) <= of(&median) && of(&median) <= of(&max));
            self.holds("min, median, max of a kernel", in_order, kernel);
            let between = min.value <= mean.value + 1.0 && mean.value <= max.value + 1.0;
            self.holds("min, avg, max of a kernel", between, kernel);
            let known = mean.value * timed as f64;
            let total = of("total_ns");
            self.no_more("the timed launches of a kernel vs. all", known, total.value);
            if timed == count {
                self.no_more("all launches of a kernel vs. the timed ones", total.value, known);
            }
        }
    }

    /// Compares the totals of the tables with the time that the GPUs were busy. Several streams may work at the same
    /// time; then the busy time is less than the sum, by an unknown amount.
    fn busy(&mut self, report: &Value) {
        if !self.is_whole && !self.is_of_kernels {
            return;
        }
        let devices = list(&report["devices"]);
        let part = |key: &str| Range::sum(ranges(devices, key));
        let is_alone = sum(devices, "streams") <= sum(devices, "timelines");
        let coverage = &report["coverage"];
        let kernels = list(&report["kernels"]);
        let in_table = Range::sum(ranges(kernels, "total_ns"));
        // An extrapolated interval contains the truth in 99 of 100 cases, and misses it by little in the others.
        let is_drawn = kernels.iter().any(|kernel| kernel["total_ns"]["kind"] == "extrapolated");
        let miss = if is_drawn { in_table.hi - in_table.lo } else { 0.0 };
        let compute = Range::sum([part("compute_ns"), part("exposed_comm_ns")].into_iter());
        let none_untimed = |key: &str| number(&coverage["untimed"][key]) == 0;
        // Kernels that were never timed are in no total, and a burst's launches have no times of their own.
        if number(&coverage["never_timed"]) == 0
            && none_untimed("programmatic_chain")
            && (self.is_of_kernels || none_untimed("run") && number(&coverage["bursts"]["count"]) == 0)
        {
            self.no_more("compute vs. the kernels' total", compute.lo, in_table.hi + miss);
            if is_alone {
                self.no_more(
                    "compute (best value) vs. the kernels' total",
                    compute.value,
                    in_table.hi + miss,
                );
            }
        }
        let copies = list(&report["transfers"]);
        let all_copies = Range::sum(ranges(copies, "total_ns"));
        if copies.iter().all(|row| number(&row["timed"]) > 0) {
            self.no_more("exposed copies vs. all transfers", part("exposed_copy_ns").lo, all_copies.hi);
        }
        let graphs = Range::of(&report["graphs"]["total_ns"]);
        if number(&report["graphs"]["timed"]) > 0 {
            self.no_more("graphs vs. the launches' total", part("graph_ns").lo, graphs.hi);
        }
        // Work that was pending at the end was launched, and may never have run.
        if is_alone && number(&coverage["pending"]) == 0 && none_untimed("run") {
            self.no_more("the kernels' total vs. compute", in_table.lo - miss, compute.hi);
        }
        if is_alone {
            self.no_more("all transfers vs. exposed copies", all_copies.lo, part("exposed_copy_ns").hi);
            self.no_more("graph launches vs. graphs", graphs.lo, part("graph_ns").hi);
        }
    }

    /// Checks that transfers are the sum of all sizes.
    fn transfers(&mut self, report: &Value) {
        for row in list(&report["transfers"]) {
            for key in ["count", "timed", "bytes"] {
                self.equal(
                    &format!("{key} of transfers vs. of their sizes"),
                    number(&row[key]),
                    sum(list(&row["sizes"]), key),
                );
            }
            let timed = Range::sum(ranges(list(&row["sizes"]), "timed_ns"));
            self.no_more("the timed transfers vs. all", timed.value, Range::of(&row["total_ns"]).value);
            self.holds(
                "a transfer is in one call",
                number(&row["host"]["count"]) <= number(&row["count"]),
                row,
            );
        }
    }

    fn gaps(&mut self, report: &Value) {
        let gaps = &report["gaps"];
        let (count, total) = (number(&gaps["count"]), Range::of(&gaps["total_ns"]));
        for parts in ["bands", "by_library"] {
            let parts = list(&gaps[parts]);
            self.equal("gaps vs. their parts", count, sum(parts, "count"));
            self.equal("the gaps' total vs. their parts", total.value as u64, sum(parts, "total_ns"));
        }
        let idle = Range::sum(ranges(list(&report["devices"]), "idle_ns"));
        self.no_more("gaps vs. idle time", total.value, idle.value);
        self.no_more("gaps for certain vs. idle time", total.lo, idle.hi);
        let largest = Range::sum(ranges(list(&gaps["largest"]), "duration_ns"));
        self.no_more("the largest gaps vs. all", largest.value, total.value);
    }

    /// Checks that calls that wait are among all calls.
    fn calls(&mut self, report: &Value) {
        let apis = list(&report["apis"]);
        let all: BTreeMap<&str, &Value> =
            apis.iter().filter_map(|row| Some((row["name"].as_str()?, row))).collect();
        let of = |row: &Value, key: &str| {
            all.get(row["api"].as_str().unwrap_or_default()).map_or(0, |call| number(&call[key]))
        };
        for sync in list(&report["syncs"]) {
            // A call that failed did not wait.
            let is_whole = of(sync, "failed") == 0;
            for key in ["count", "host_ns"] {
                let (waited, all) = (number(&sync[key]), of(sync, key));
                self.holds(
                    &format!("{key} of a sync vs. of its calls"),
                    waited == all || !is_whole && waited < all,
                    sync,
                );
            }
        }
        for waited in list(&report["implicit_syncs"]) {
            self.no_more(
                "implicit waits vs. calls",
                number(&waited["count"]) as f64,
                of(waited, "count") as f64,
            );
            self.no_more(
                "the host in implicit waits vs. in calls",
                number(&waited["host_ns"]) as f64,
                of(waited, "host_ns") as f64,
            );
            let most = Range::of(&waited["waited"]).hi;
            self.no_more(
                "implicit waits vs. the host in them",
                most,
                number(&waited["host_ns"]) as f64 + Range::of(&waited["undecided"]["host_ns"]).value,
            );
        }
        self.holds(
            "no more calls fail than are made",
            apis.iter().all(|row| number(&row["failed"]) <= number(&row["count"])),
            &report["apis"],
        );
    }

    /// Checks that the lines of the program have as much GPU time together as the tables of what ran.
    fn lines(&mut self, report: &Value) {
        let lines = list(&report["lines"]);
        let tables = [list(&report["kernels"]), list(&report["transfers"])].concat();
        let graphs = &report["graphs"];
        let is_known = tables.iter().all(|row| number(&row["timed"]) > 0)
            && (number(&graphs["timed"]) > 0 || number(&graphs["launches"]) == 0);
        if lines.is_empty() || !is_known {
            return;
        }
        let ran = Range::sum(ranges(&tables, "total_ns")).value + Range::of(&graphs["total_ns"]).value;
        let caused = Range::sum(ranges(lines, "gpu_ns")).value;
        self.no_more("the GPU time of all lines vs. what ran", caused, ran);
        self.no_more("what ran vs. the GPU time of all lines", ran, caused);
    }

    fn memory(&mut self, report: &Value) {
        let memory = &report["memory"];
        let peak = |part: &Value| Range::of(&part["peak_bytes"]).hi;
        // With several processes the peak is that of one of them, and the other numbers are sums.
        if list(&report["processes"]).len() == 1 {
            let kinds = memory["by_kind"].as_object().into_iter().flatten().map(|(_, part)| part);
            for part in kinds.chain([memory]) {
                self.no_more(
                    "memory held at the end vs. its peak",
                    number(&part["live_bytes"]) as f64,
                    peak(part),
                );
            }
        }
        let libraries = list(&memory["by_library"]);
        for key in ["live_bytes", "allocations", "allocated_bytes", "frees"] {
            self.equal(&format!("{key} of memory vs. by library"), number(&memory[key]), sum(libraries, key));
        }
    }

    fn ranges(&mut self, report: &Value) {
        for range in list(&report["ranges"]) {
            let [operations, timed, launches] =
                ["operations", "timed", "launches"].map(|key| number(&range[key]));
            self.holds("operations of a range", timed <= operations && launches <= operations, range);
            self.holds(
                "projections of a range",
                number(&range["projected"]) <= number(&range["count"]) + number(&range["open"]),
                range,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn estimate(lo: u64, value: u64, hi: u64) -> Value {
        json!({ "lo": lo, "value": value, "hi": hi, "kind": "corrected" })
    }

    /// Builds a report of a GPU that ran one kernel's launches, with this total in the table of kernels.
    fn report(compute: Value, idle: u64, total: Value) -> Value {
        json!({
            "coverage": { "launches": 10, "timed": 10, "never_timed": 0 },
            "kernels": [{ "count": 10, "timed": 10, "total_ns": total, "avg_ns": { "value": 163e6 },
                "min_ns": { "value": 163e6 }, "median_ns": { "value": 163e6 }, "max_ns": { "value": 163e6 } }],
            "devices": [{ "span_ns": 5_000_000_000u64, "compute_ns": compute, "streams": 1, "timelines": 1,
                "idle_ns": estimate(0, idle, 5_000_000_000) }],
            "gaps": { "count": 0, "total_ns": 0 },
            "processes": [{ "launches": 10, "timed": 10 }],
            "wall_ns": 5_000_000_000u64,
        })
    }

    #[test]
    fn a_kernel_total_that_differs_from_compute_time_is_found() {
        let total = estimate(1_600_000_000, 1_630_000_000, 1_660_000_000);
        let agrees =
            report(estimate(1_590_000_000, 1_640_000_000, 1_700_000_000), 3_360_000_000, total.clone());
        assert_eq!(disagreements(&agrees), [""; 0]);
        let before = report(estimate(1_100_000_000, 1_150_000_000, 1_200_000_000), 3_850_000_000, total);
        let found = disagreements(&before);
        assert!(found.iter().any(|t| t.starts_with("the kernels' total vs. compute")), "{found:#?}");
    }

    /// A median above the maximum passed, as if it were an inexact one.
    #[test]
    fn a_median_that_no_launch_took_is_found() {
        let total = estimate(1_630_000_000, 1_630_000_000, 1_630_000_000);
        let mut wrong = report(estimate(1_630_000_000, 1_630_000_000, 1_630_000_000), 3_370_000_000, total);
        assert_eq!(disagreements(&wrong), [""; 0]);
        wrong["kernels"][0]["median_ns"]["value"] = json!(163_000_006);
        let found = disagreements(&wrong);
        assert!(found.iter().any(|t| t.starts_with("min, median, max of a kernel")), "{found:#?}");
    }

    #[test]
    fn wrong_sums_and_values_outside_their_bounds_are_found() {
        let total = estimate(1_630_000_000, 1_630_000_000, 1_630_000_000);
        let mut selected =
            report(estimate(4_100_000_000, 4_100_000_000, 4_100_000_000), 900_000_000, total.clone());
        selected["processes"][0]["filter"] = json!("kernels that match gemm");
        selected["coverage"]["untimed"]["run"] = json!(0);
        let found = disagreements(&selected);
        assert!(found.iter().any(|t| t.starts_with("compute vs. the kernels' total")), "{found:#?}");
        let wrong = report(estimate(1_640_000_000, 1_630_000_000, 1_700_000_000), 3_000_000_000, total);
        let found = disagreements(&wrong);
        assert!(
            found.iter().any(|t| t.starts_with("the span vs. its parts: 5000000000 and 4630000000")),
            "{found:#?}"
        );
        assert!(found.iter().any(|t| t.starts_with(".devices.compute_ns")), "{found:#?}");
    }
}
