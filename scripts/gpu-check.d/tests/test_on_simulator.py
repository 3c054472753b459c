"""Runs the whole check on the simulated GPU, whose truth replaces torch.profiler's trace. Needs
scripts/build-sim.sh."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.dirname(HERE))

import check
import parts
from runs import Budget, Runner

STEADY = os.path.join(ROOT, "target", "sim", "bin", "steady")
GPUSPY = os.path.join(ROOT, "target", "release", "gpuspy")
PROFILED = [sys.executable, "-B", os.path.join(HERE, "truth_as_profile.py"), STEADY]


def run_check(folder, *arguments):
    """Returns (exit code, result, table) of scripts/gpu-check.sh on the simulator."""
    command = [os.path.join(ROOT, "scripts", "simgpu"), os.path.join(ROOT, "scripts", "gpu-check.sh")]
    done = subprocess.run([*command, "-o", folder, *arguments], capture_output=True, text=True, check=False)
    with open(os.path.join(folder, "gpu-check.json"), encoding="utf-8") as file:
        return done.returncode, json.load(file), done.stdout


class OnTheSimulator(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name

    def program(self, command, limit=30):
        """Returns a profiled program's row after a first round of runs of at most this many seconds."""
        library = os.path.join(ROOT, "target", "sim", "lib")
        runner = Runner(GPUSPY, self.folder, Budget(60), True)
        runner.environment["LD_LIBRARY_PATH"] = library
        modes = ("plain", "exact", "auto", "off", "profiler", "profiler+exact")
        program = check.Program(parts.Part("program", command, modes), ["off", "exact"])
        program.limit = lambda mode: limit
        program.first_round(runner)
        return program.row

    def test_counts_durations_and_starts_agree_with_the_truth(self):
        row = self.program(PROFILED)
        modes = ["plain", "exact", "off", "profiler", "profiler+exact"]
        self.assertEqual([run["mode"] for run in row["runs"]], modes)
        self.assertEqual([run.get("error") for run in row["runs"]], [None] * 5)
        self.assertEqual((row["errors"], row["kernels"]), ([], 810))
        for count in row["counts"]:
            self.assertTrue(count["equal"], count)
        pairs = {(count["mode"], count["against"]) for count in row["counts"]}
        observed = ("off", "exact", "profiler+exact")
        self.assertEqual(pairs, {(mode, who) for mode in observed for who in ("program", "profiler")})
        durations = {found["against"]: found for found in row["durations"]}
        launches = durations["profiler"]
        self.assertEqual((launches["unpaired"], launches["inside"]), (0, 1.0), launches)
        self.assertGreaterEqual(launches["pairs"], 700)
        self.assertLess(launches["abs_median_ns"], 500, launches)
        self.assertLess(durations["program"]["abs_median_ns"], 500)
        self.assertEqual(durations["apart"]["pairs"], 3)
        self.assertEqual(sum(found["pairs"] for found in row["starts"]), launches["pairs"])
        self.assertEqual(set(row["slowdown"]), {"off", "exact", "profiler", "profiler+exact"})
        self.assertEqual(set(row["own_cost"]), {"off", "exact", "profiler+exact"})
        for cost in row["own_cost"].values():
            self.assertGreater(cost["agent_ns"], 0, cost)
            self.assertGreaterEqual(cost["launches"], 810)
        self.assertEqual(row["own_cost"]["off"]["timed"], 0)

    def test_a_profiler_without_kernels_is_not_compared_with(self):
        blind = """
for last; do :; done
case $last in *profile.json) echo '{"traceEvents":[]}' >"$last";; esac
exec "$0" --quick"""
        row = self.program(["bash", "-c", blind, STEADY])
        self.assertEqual(
            row["errors"],
            ["profiler: torch.profiler saw nothing on the GPU", "profiler+exact: torch.profiler saw nothing on the GPU"],
        )
        self.assertEqual({count["against"] for count in row["counts"]}, {"program"})

    def test_a_program_that_launches_more_than_it_reports_is_detected(self):
        lies = """
import json, subprocess, sys
said = json.loads(subprocess.run([sys.argv[1], "--quick"], stdout=subprocess.PIPE, check=True).stdout)
said["kernels"]["alone_10us"] -= 1
print(json.dumps(said))
"""
        row = self.program([sys.executable, "-c", lies, STEADY])
        exact = next(c for c in row["counts"] if (c["mode"], c["against"]) == ("exact", "program"))
        self.assertFalse(exact["equal"])
        self.assertEqual(exact["differences"], [{"name": "alone_10us", "ours": 10, "theirs": 9}])

    def test_a_run_that_hangs_is_ended_and_the_others_go_on(self):
        hangs = 'case "$*" in *--profile*) sleep 60;; *) exec "$0" "$@";; esac'
        row = self.program(["bash", "-c", hangs, STEADY], limit=4)
        errors = {run["mode"]: run.get("error") for run in row["runs"]}
        self.assertIn("stopped after", errors["profiler"])
        self.assertEqual((errors["plain"], errors["exact"]), (None, None))
        self.assertTrue(any(count["equal"] for count in row["counts"]))

    def test_a_program_that_does_not_run_only_under_gpuspy_has_failed(self):
        refuses = 'case "$LD_PRELOAD" in *gpuspy*) echo {\\"skip\\":\\"no GPU\\"}; exit 77;; *) exec "$0" "$@";; esac'
        row = self.program(["bash", "-c", refuses, *PROFILED])
        errors = {run["mode"]: run.get("error") for run in row["runs"]}
        self.assertEqual((errors["plain"], errors["exact"]), (None, "NotHere: no GPU"))

    def test_a_program_that_fails_without_gpuspy_is_tried_once(self):
        row = self.program(["false"])
        self.assertEqual([(run["mode"], run["error"]) for run in row["runs"]], [("plain", "exit 1, and no line of JSON")])

    def test_the_script_makes_rounds_until_its_time_is_over_and_writes_both_files(self):
        steady = ("--program", f"steady={STEADY}", "--only", "steady")
        # On a busy machine a round takes longer, so this finds a time that suffices for several.
        for budget in (14, 28, 56):
            code, result, table = run_check(self.folder, "--budget", str(budget), *steady)
            self.assertEqual((code, result["format"]), (0, check.FORMAT))
            (program,) = [program for program in result["programs"] if program["name"] == "steady"]
            if program["slowdown"]["exact"]["rounds"] >= 2:
                break
        self.assertGreaterEqual(program["slowdown"]["exact"]["rounds"], 2)
        # It ends with the round in which the time runs out.
        self.assertLess(result["seconds"], 2 * budget)
        errors = {run["error"] for p in result["programs"] for run in p["runs"] if "error" in run}
        self.assertLessEqual(errors, {"no time left"}, "on a busy machine the time may be over before the last run of a round")
        with open(os.path.join(self.folder, "gpu-check.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), table)
        for words in ("Simulated GPU", "steady", "are they equal?", "multiple of that without tracing"):
            self.assertIn(words, table)
        self.assertEqual(sorted(os.listdir(self.folder)), ["gpu-check.json", "gpu-check.txt"])

    def test_skipped_programs_are_reported_and_a_check_without_runs_fails(self):
        only = ("--only", "away", "--only", "broken")
        away = ("--program", f"away={STEADY} --no-gpu")
        code, result, table = run_check(self.folder, "--quick", "--budget", "30", *away, "--program", "broken=false", *only)
        self.assertEqual(code, 1)
        self.assertIn({"what": "away", "why": "asked to"}, result["skipped"])
        self.assertIn("broken, plain, round 1: exit 1", table)

    def test_programs_without_time_are_reported(self):
        _, result, _ = run_check(self.folder, "--budget", "5", "--program", f"steady={STEADY}")
        self.assertIn({"what": "steady", "why": "no time left"}, result["skipped"])


class Options(unittest.TestCase):
    def test_a_program_is_a_name_and_a_command(self):
        part = parts.named_part("mine=./tool --fast 'a b'")
        self.assertEqual((part.name, part.command), ("mine", [os.path.abspath("tool"), "--fast", "a b"]))
        with self.assertRaises(ValueError), contextlib.redirect_stderr(io.StringIO()):
            parts.named_part("mine")


if __name__ == "__main__":
    unittest.main()
