"""When does a promise agree with what a twin gains? (scripts/test-pytorch.d/twins.py)"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test-pytorch.d"))
from twins import Loops, agrees  # noqa: E402


def loops(faulty, fixed):
    """Loops that took so many ns."""
    all_of_them = Loops()
    for variant, took in (("faulty", faulty), ("fixed", fixed)):
        for ns in took:
            all_of_them.add(variant, {"loop_ns": ns})
    return all_of_them


class Gains(unittest.TestCase):
    def test_the_shortest_runs_are_compared_and_their_spread_is_noise(self):
        self.assertEqual(loops([500], [300]).gain(), (200, 0))
        self.assertEqual(loops([900, 500, 510], [330, 300]).gain(), (200, 40))


class Promises(unittest.TestCase):
    def test_a_promise_lies_within_a_tenth_of_the_gain(self):
        for promised, holds in ((180, True), (220, True), (179, False), (221, False)):
            self.assertEqual(agrees(promised, (200, 0), None), holds, promised)

    def test_a_promise_lies_between_the_gains_under_gpuspy_and_without_it_whichever_is_larger(self):
        for gains in (((300, 0), (200, 0)), ((200, 0), (300, 0))):
            self.assertTrue(agrees(250, *gains))
            self.assertFalse(agrees(179, *gains))
            self.assertFalse(agrees(331, *gains))

    def test_noise_is_not_the_promises_fault(self):
        self.assertTrue(agrees(250, (200, 30), None))
        self.assertFalse(agrees(251, (200, 30), None))


if __name__ == "__main__":
    unittest.main()
