"""Tests against_truth.py: it finds nothing if everything is equal, and every single difference. Needs
scripts/build-sim.sh."""
import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import against_truth
from against_truth import Truth, claims, differences

PROGRAM = os.path.join(against_truth.ROOT, "target", "sim", "bin", "runtime_calls")


class OneRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        code, _, cls.report, cls.lines = against_truth.observe([PROGRAM])
        assert code == 0, code

    def found(self, lines):
        return differences(self.report, Truth(lines))

    def one(self, kind, **fields):
        """Returns the index of the first line of a kind."""
        for at, line in enumerate(self.lines):
            if line["kind"] == kind and all(line[name] == value for name, value in fields.items()):
                return at
        self.fail(f"the program has no {kind} {fields}")

    def test_all_is_equal(self):
        self.assertEqual(self.found(self.lines), [])

    def test_one_line_more_or_less_is_found(self):
        own = {"captured": False, "in_graph": 0}
        kinds = [("kernel", own), ("copy", own), ("memset", own), ("graph", own), ("kernel", {"captured": True})]
        inside = self.lines[self.one("graph")]["seq"]
        kinds += [("kernel", {"in_graph": inside}), ("alloc", {}), ("free", {}), ("sync", {})]
        for kind, fields in kinds:
            at = self.one(kind, **fields)
            with self.subTest(kind=kind, fields=fields):
                self.assertTrue(self.found(self.lines[:at] + self.lines[at + 1 :]))
                self.assertTrue(self.found(self.lines + [self.lines[at]]))

    def test_a_line_that_differs_is_found(self):
        changes = [("kernel", "name", "other"), ("copy", "bytes", 1), ("copy", "host_memory", "managed")]
        changes += [("copy", "direction", "PtoP"), ("memset", "bytes", 1), ("alloc", "bytes", 1 << 40), ("alloc", "memory", "none")]
        changes += [("sync", "api", "cuCtxSynchronise"), ("kernel", "api", "cuLaunchKernelEx"), ("alloc", "api", "cuMemAllocAsync")]
        for kind, field, value in changes:
            lines = copy.deepcopy(self.lines)
            lines[self.one(kind)][field] = value
            with self.subTest(kind=kind, field=field):
                self.assertTrue(self.found(lines))

    def test_a_kernel_that_lasted_longer_than_its_interval_is_found(self):
        lines = copy.deepcopy(self.lines)
        for line in lines:
            if line["kind"] == "kernel" and not line["captured"] and line["in_graph"] == 0:
                # By more than any pause of the host, which may lie in an interval.
                line["end"] += 3_600_000_000_000
        self.assertTrue(self.found(lines))

    def test_an_unreported_failed_call_is_found(self):
        self.assertTrue(self.found(self.lines + [{"kind": "failed", "api": "cuMemAlloc", "result": 2, "tid": 1}]))

    def test_lost_records_are_never_equal(self):
        for what in ("dropped", "unattributed", "pending"):
            report = copy.deepcopy(self.report)
            report["coverage"][what] = 1
            self.assertTrue(differences(report, Truth(self.lines)), what)

    def test_wrong_accounts_of_a_client_are_found(self):
        truth = Truth(self.lines)
        launches = truth.kernels(truth.own).total()
        self.assertEqual(claims({}, self.report, truth), [])
        self.assertEqual(claims({"at_least": {"launches": launches}}, self.report, truth), [])
        self.assertTrue(claims({"at_least": {"launches": launches + 1}}, self.report, truth))
        self.assertTrue(claims({"kernels": ["nobody"]}, self.report, truth))
        self.assertTrue(claims({"calls": {"cudaMalloc": 10**6}}, self.report, truth))

    def test_ranks_must_match_their_processes(self):
        report, truth = copy.deepcopy(self.report), Truth(self.lines)
        report["processes"][0] |= {"rank": 1, "parent": 7, "gpus": ["GPU-0", "GPU-1"]}
        own = {"rank": 1, "parent": 7, "gpus": ["GPU-1"]}
        self.assertEqual(claims({"ranks": [own]}, report, truth), [])
        for field, value in (("rank", 0), ("parent", 8), ("gpus", ["GPU-2"])):
            with self.subTest(field=field):
                self.assertTrue(claims({"ranks": [own | {field: value}]}, report, truth))

    def test_a_wrong_diagnosis_is_found(self):
        report = {
            "findings": [
                {"id": "host-stall", "fix": "DataLoader(num_workers=4)", "evidence": {}, "saves_ns": {"value": 200}}
            ],
            "identity": {"wall_ns": 1_000},
            "steps": {"count": 10, "per_step": {"syncs": 1.0}},
            "verdict": {"bound": "host", "text": []},
        }
        right = {"findings": ["host-stall"], "first": "host-stall", "absent": ["tiny-kernels"], "steps": 9}
        right |= {"per_step": {"syncs": 1}, "bound": "host", "framework": "DataLoader"}
        self.assertEqual(list(against_truth.misdiagnosed(right, report)), [])
        wrong = {"findings": ["tiny-kernels"], "first": "tiny-kernels", "absent": ["host-stall"], "steps": 8}
        wrong |= {"per_step": {"syncs": 2}, "bound": "gpu", "framework": "jax"}
        for field, value in wrong.items():
            with self.subTest(field=field):
                self.assertEqual(len(list(against_truth.misdiagnosed(right | {field: value}, report))), 1)
        report["findings"][0]["saves_ns"]["value"] = 99
        self.assertEqual(list(against_truth.misdiagnosed(right | {"findings": [], "absent": ["host-stall"]}, report)), [])

    def test_a_client_that_does_nothing_fails(self):
        self.assertTrue(claims({}, self.report, Truth([])))


class Output(unittest.TestCase):
    def test_only_the_last_line_counts(self):
        self.assertEqual(against_truth.last_words('{"calls": 1}\nhello\n{"calls": {}}\n'), {"calls": {}})
        self.assertEqual(against_truth.last_words("hello\n"), {})


if __name__ == "__main__":
    unittest.main()
