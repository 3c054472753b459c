"""Tests the comparisons on made-up profiles and operations with known answers."""
import os
import sys
import unittest
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import compare
from kineto import Clock, Observed, Profile
from names import normal

RAW, REAL, BASE = 5_000_000_000_000, 1_790_000_000_123_456_789, 1_790_000_000_000_000_000
CLOCKS = [[RAW, REAL], [RAW + 1_000_000_000, REAL + 1_000_000_000]]


def kernel_event(name, correlation, start, duration, stream=7, category="kernel"):
    """`start` is on the raw clock."""
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": (start - RAW + REAL - BASE) / 1000,
        "dur": duration / 1000,
        "args": {"stream": stream, "correlation": correlation},
    }


def launch_event(correlation, name="cudaLaunchKernel"):
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "ts": 0, "dur": 1, "args": {"correlation": correlation}}


def profile(*events, clocks=CLOCKS):
    return Profile({"baseTimeNanoseconds": BASE, "traceEvents": list(events)}, clocks)


def estimate(value, lo=None, hi=None):
    return {"value": value, "lo": value if lo is None else lo, "hi": value if hi is None else hi}


def line(name, begin, start=None, duration=None, stream=3, kind="kernel", untimed=None, clock="host", launches=None):
    """`start` and `duration` are estimates."""
    return {
        "kind": kind,
        "name": name,
        "symbol": name,
        "call_start_ns": begin,
        "context": 1,
        "stream": stream,
        "clock": clock if start else None,
        "start_ns": start,
        "duration_ns": duration,
        "untimed": untimed,
        "launches": launches,
    }


class Reading(unittest.TestCase):
    def test_times_are_converted_to_the_raw_clock_exactly_at_any_clock_rate(self):
        # The real clock runs 100 ppm fast.
        clock = Clock([[RAW, REAL], [RAW + 1_000_000_000, REAL + 1_000_100_000]])
        self.assertEqual(clock.raw_ns(REAL), RAW)
        self.assertEqual(clock.raw_ns(REAL + 500_050_000), RAW + 500_000_000)
        read = profile(kernel_event("a", 1, RAW + 1234, 567))
        self.assertEqual([(k.name, k.start, k.duration) for k in read.kernels], [("a", RAW + 1234, 567)])

    def test_kernels_of_a_graph_launch_are_one_graph(self):
        read = profile(
            launch_event(1),
            launch_event(2, "cudaGraphLaunch"),
            kernel_event("a", 1, RAW, 100),
            kernel_event("b", 2, RAW + 1000, 100),
            kernel_event("c", 2, RAW + 1500, 300),
            kernel_event("Memset", 2, RAW + 1550, 50, category="gpu_memset"),
            kernel_event("Memcpy", 3, RAW + 5000, 50, category="gpu_memcpy"),
        )
        self.assertEqual([kernel.name for kernel in read.kernels], ["a"])
        self.assertEqual(read.in_graphs, ["b", "c"])
        self.assertEqual([(graph.start, graph.duration) for graph in read.graphs], [(RAW + 1000, 800)])

    def test_a_kernel_that_names_its_graph_is_inside_it(self):
        inside = kernel_event("b", 2, RAW, 100)
        inside["args"]["graph id"] = 5
        read = profile(inside, kernel_event("a", 1, RAW, 100))
        self.assertEqual((read.in_graphs, [kernel.name for kernel in read.kernels]), (["b"], ["a"]))

    def test_only_operations_launched_in_the_region_that_ran_are_kept(self):
        lines = [
            line("late", 900),
            line("b", 300),
            line("a", 200),
            line("captured", 250, untimed="captured"),
            line("g", 260, kind="graph", launches=5),
            line("copy", 270, kind="HtoD"),
            line("early", 100),
        ]
        observed = Observed(lines, [200, 400])
        self.assertEqual([kernel["normal"] for kernel in observed.kernels], ["a", "b"])
        self.assertEqual((len(observed.graphs), observed.in_graphs), (1, 5))

    def test_names_are_the_same_from_every_demangler(self):
        self.assertEqual(normal("void f<4, A<int> >(int)"), normal("void f<4, A<int>>(int)"))
        self.assertEqual(normal("_Z6vecaddPKfS0_Pfi"), normal("vecadd(float const*, float const*, float*, int)"))
        self.assertEqual(normal("_Znonsense"), "_Znonsense")


class Counts(unittest.TestCase):
    def test_equal_in_number_and_by_name(self):
        row = compare.counts(Counter(a=3, b=1), 4, Counter(b=1, a=3), 4)
        self.assertTrue(row["equal"])
        self.assertEqual((row["ours"], row["differences"]), ({"launches": 4, "in_graphs": 4}, []))

    def test_differences_are_named(self):
        row = compare.counts(Counter(a=3, b=1), 0, Counter(a=2, c=2))
        self.assertFalse(row["equal"])
        expected = [("a", 3, 2), ("b", 1, 0), ("c", 0, 2)]
        self.assertEqual([(d["name"], d["ours"], d["theirs"]) for d in row["differences"]], expected)

    def test_the_same_number_of_other_kernels_is_not_equal(self):
        self.assertFalse(compare.counts(Counter(a=1), 0, Counter(b=1))["equal"])

    def test_kernels_in_graphs_count_if_the_other_side_knows_them(self):
        self.assertFalse(compare.counts(Counter(a=1), 7, Counter(a=1), 8)["equal"])
        self.assertTrue(compare.counts(Counter(a=1), 7, Counter(a=1), None)["equal"])

    def test_a_count_without_names_is_compared_as_a_total(self):
        self.assertTrue(compare.counts(Counter(a=2, b=1), 0, 3)["equal"])
        self.assertFalse(compare.counts(Counter(a=2, b=1), 0, 4)["equal"])


class Durations(unittest.TestCase):
    def launches(self, names, errors, offset=0):
        """Returns launches on both sides: gpuspy's last `errors` ns longer, and start `offset` later."""
        theirs = [kernel_event(n, at, RAW + 10_000 * at, 1000 + at) for at, n in enumerate(names)]
        ours = []
        for at, (name, error) in enumerate(zip(names, errors)):
            took, start = 1000 + at + error, RAW + 10_000 * at + offset
            ours.append(line(name, at, estimate(start, start - 50, start + 50), estimate(took, took - 10, took + 10)))
        return Observed(ours).kernels, profile(*theirs).kernels

    def test_errors_are_signed_and_have_a_spread(self):
        errors = [5] * 90 + [300] * 10
        row = compare.durations(*compare.pair(*self.launches(["a", "b"] * 50, errors)))
        self.assertEqual((row["pairs"], row["unpaired"]), (100, 0))
        self.assertEqual((row["median_ns"], row["p5_ns"], row["p95_ns"]), (5, 5, 300))
        self.assertEqual((row["inside"], row["below"], row["above"]), (0.9, 0.1, 0.0))

    def test_a_duration_that_is_too_short_has_a_negative_error(self):
        row = compare.durations(*compare.pair(*self.launches(["a"] * 10, [-40] * 10)))
        self.assertEqual((row["median_ns"], row["abs_median_ns"], row["above"]), (-40, 40, 1.0))

    def test_the_difference_of_two_good_clocks_counts_as_inside(self):
        kernel = profile(kernel_event("a", 1, RAW, 1_000_000)).kernels
        for off, inside in ((51, 1.0), (54, 0.0), (-51, 1.0), (-54, 0.0)):
            took = estimate(1_000_000 + off)
            pairs = compare.pair(Observed([line("a", 1, estimate(RAW), took)]).kernels, kernel)
            self.assertEqual(compare.durations(*pairs)["inside"], inside, off)

    def test_streams_are_matched_by_what_runs_on_them(self):
        ours = [line("ab"[at % 2], at, stream=at % 2) for at in range(20)]
        theirs = [kernel_event("ab"[at % 2], at, RAW + at, 1, stream=70 - at % 2) for at in range(20)]
        pairs, unpaired = compare.pair(Observed(ours).kernels, profile(*theirs).kernels)
        self.assertEqual((len(pairs), unpaired), (20, 0))
        self.assertTrue(all(mine["normal"] == yours.name for mine, yours in pairs))
        self.assertEqual({(mine["stream"], yours.stream) for mine, yours in pairs}, {(0, 70), (1, 69)})

    def test_a_launch_that_one_side_lacks_shifts_no_other(self):
        names = [f"k{at % 7}" for at in range(70)]
        places = compare.align(names, names[:30] + names[31:])
        self.assertEqual(len(places), 69)
        self.assertEqual(places[29:31], [(29, 29), (31, 30)])
        places = compare.align(names[:30] + names[31:], names)
        self.assertEqual((len(places), places[29:31]), (69, [(29, 29), (30, 31)]))
        self.assertEqual(compare.align(["x", *names], names)[0], (1, 0))

    def test_untimed_launches_have_no_error(self):
        pairs, unpaired = compare.pair(Observed([line("a", 1)]).kernels, profile(kernel_event("a", 1, RAW, 9)).kernels)
        self.assertEqual((len(pairs), compare.durations(pairs, unpaired)), (1, None))

    def test_starts_are_compared_on_the_hosts_clock(self):
        pairs, _ = compare.pair(*self.launches(["a"] * 10, [0] * 10, offset=40))
        (row,) = compare.starts(pairs)
        self.assertEqual((row["clock"], row["median_ns"], row["inside"]), ("host", 40, 1.0))
        pairs, _ = compare.pair(*self.launches(["a"] * 10, [0] * 10, offset=60))
        self.assertEqual(compare.starts(pairs)[0]["inside"], 0.0)

    def test_on_another_clock_only_the_spread_is_compared(self):
        pairs, _ = compare.pair(*self.launches(["a"] * 10, [0] * 10, offset=10**12))
        for mine, _ in pairs:
            mine["clock"] = "gpu 0"
        (row,) = compare.starts(pairs)
        self.assertEqual((row["median_ns"], row["p95_ns"]), (0, 0))
        self.assertNotIn("inside", row)

    def test_medians_of_different_runs_are_compared_by_name(self):
        ours = compare.medians([("a", 10), ("a", 30), ("a", 20), ("b", 5)])
        row = compare.medians_apart(ours, {"a": 15, "c": 1})
        self.assertEqual((row["pairs"], row["unpaired"], row["median_ns"]), (1, 2, 5))


class Expected(unittest.TestCase):
    def report(self, timed=0, in_runs=0, busy=0):
        coverage = {"launches": 100, "timed": timed, "runs": {"launches": in_runs}, "bursts": {"launches": 0}}
        return {"coverage": coverage, "devices": [{"compute_ns": {"value": busy}, "span_ns": 1000}]}

    def test_a_report_must_reach_the_programs_minimum(self):
        least = {"timed_share": 0.2, "busy_share": 0.95}
        rows = compare.expected("exact", least, self.report(timed=5, in_runs=14, busy=951))
        found = [(row["what"], row["found"], row["met"]) for row in rows]
        self.assertEqual(found, [("timed_share", 0.19, False), ("busy_share", 0.951, True)])
        self.assertEqual(compare.expected("exact", {}, self.report()), [])

    def test_a_report_without_a_gpu_or_launches_reaches_no_minimum(self):
        report = {**self.report(), "devices": []}
        report["coverage"]["launches"] = 0
        self.assertEqual(compare.shares(report), {"timed_share": 0.0, "busy_share": 0.0})

    def test_numbers_that_must_not_change_are_compared_with_the_plain_run(self):
        rows = compare.same({"plain": {"same": {"died": 0}}, "off": {"same": {"died": 0}}, "exact": {"same": {"died": 3}}})
        self.assertEqual([(row["mode"], row["met"]) for row in rows], [("off", True), ("exact", False)])
        self.assertEqual(compare.same({"exact": {"same": {"died": 3}}}), [])


class Slowdown(unittest.TestCase):
    def test_ratios_are_of_the_same_round(self):
        runs = []
        for number, plain in enumerate([100, 200, 400, 800], 1):
            runs.append({"mode": "plain", "round": number, "step_ns": plain})
            runs.append({"mode": "exact", "round": number, "step_ns": plain * (1 + number / 10)})
        self.assertEqual(
            compare.slowdown(runs), {"exact": {"rounds": 4, "median": 1.25, "q1": 1.175, "q3": 1.325}}
        )

    def test_a_round_without_a_plain_run_has_no_ratio(self):
        runs = [
            {"mode": "plain", "round": 1, "step_ns": 10},
            {"mode": "off", "round": 1, "step_ns": 11},
            {"mode": "off", "round": 2, "step_ns": 50},
            {"mode": "plain", "round": 2, "error": "exit 1"},
        ]
        self.assertEqual(compare.slowdown(runs), {"off": {"rounds": 1, "median": 1.1, "q1": 1.1, "q3": 1.1}})


if __name__ == "__main__":
    unittest.main()
