"""Runs gpu-session from start to end on the simulated GPU with a fake PyTorch: every step writes its JSON, and every
line of the scripts runs, either on a machine where everything works or on one where nothing does. Needs
scripts/build-sim.sh."""
import ast
import collections
import dis
import glob
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(os.path.dirname(HERE))
ROOT = os.path.dirname(SCRIPTS)
SIMGPU = os.path.join(SCRIPTS, "simgpu")
STEADY = os.path.join(ROOT, "target", "sim", "bin", "steady")
sys.path.append(os.path.join(SCRIPTS, "gpu-session.d"))

import limited

FOLDERS = ("gpu-probe.d", "gpu-session.d", "gpu-check.d", "gpu-check.d/programs")
WATCHED = ("gpu-probe", "gpu-session", *(f"{folder}/*.py" for folder in FOLDERS))
# There are no fakes of these packages.
NO_FAKE = re.compile(r"programs/(cupy|jax|numba|warp|taichi|pycuda)_")
NOT_REACHED = os.path.join(HERE, "not_reached.txt")


def code_lines(path):
    """Returns the lines of a file that contain instructions, without those that handle or raise an exception: these
    need a driver that fails."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    todo, found = [compile(text, path, "exec")], set()
    while todo:
        code = todo.pop()
        found |= {line for _, line in dis.findlinestarts(code) if line}
        todo.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ExceptHandler, ast.Raise)):
            found -= set(range(node.lineno, node.end_lineno + 1))
        # A docstring is stored, not run.
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            found -= set(range(body[0].lineno, body[0].end_lineno + 1))
    return {line: words.strip() for line, words in enumerate(text.splitlines(), 1) if line in found}


class Begun:
    """A running script; `wait` returns how it ended."""

    def __init__(self, command, environment):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def wait(self):
        self.stdout, self.stderr = self.process.communicate()
        self.returncode = self.process.returncode


def script(name):
    return [os.path.join(SCRIPTS, name)]


def begin(folder, script, *arguments, tools="fakes", **environment):
    """Starts a script on the simulator, with fake tools before the machine's on PATH, and records which lines it
    runs."""
    lines = os.path.join(folder, "lines")
    os.makedirs(lines, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(os.path.join(HERE, name) for name in ("lines", "fakes")),
        "PATH": os.path.join(HERE, tools) + os.pathsep + os.environ["PATH"],
        "LINES_FOLDER": lines,
        "SIM_STEADY": STEADY,
        # So that each question of a probe has an answer; a driver may crash on a destroyed event instead.
        "SIMCUDA_ASSUME": "stale_handles=refused",
        **environment,
    }
    command = [SIMGPU, sys.executable, "-B", *script, *arguments]
    return Begun(command, environment)


def steps(session):
    """Returns what a session's folder contains about each step."""
    rows = {}
    for path in sorted(glob.glob(os.path.join(session, "steps", "*.json"))):
        with open(path, encoding="utf-8") as file:
            row = json.load(file)
        rows[row["step"]] = row
    return rows


def all_steps():
    """Returns the names of steps, as gpu-session lists them."""
    with open(os.path.join(SCRIPTS, "gpu-session"), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    (steps,) = (n for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", None) == "STEPS")
    return [name.elts[0].value for name in steps.value.elts]


class DryRun(unittest.TestCase):
    """The sessions are run once, and each test looks at their results."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = place.name
        cls.good, cls.bad = (os.path.join(cls.folder, name) for name in ("good", "bad"))
        # There was a session before.
        for name in ("steps/02-earlier.json", "check/earlier.txt", "page.txt", "kept.txt"):
            path = os.path.join(cls.good, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"step": "earlier"}')
        # A busy machine takes longer than limits that are meant for a GPU machine.
        slow = ("--quick", "--patience", "8")
        cls.done = begin(cls.folder, script("gpu-session"), *slow, "--budget", "2000", "-o", cls.good)
        # No GPU, no compiler.
        nothing = {"tools": "broken", "SIMCUDA_FAIL": "cuInit:100:*"}
        cls.failed = begin(cls.folder, script("gpu-session"), *slow, "--budget", "2000", "-o", cls.bad, **nothing)
        # The probe alone, timing from Python; the check with several rounds, where captures fail; tests without a GPU.
        output = os.path.join(cls.folder, "probe.json")
        cls.probe = begin(cls.folder, script("gpu-probe"), "-o", output, "device", "costs", tools="broken")
        die = {"SIMCUDA_ASSUME": "event_create_in_capture=unsafe"}
        rounds = ("--budget", "1000", "--rounds", "2", "--only", "driver_captures", "--only", "torch_train")
        rounds += ("--program", "broken=false", "--only", "broken", "--program", "away=./away", "--only", "away")
        cls.rounds = begin(cls.folder, script("gpu-check.d/check.py"), "-o", os.path.join(cls.folder, "check"), *rounds, **die)
        units = [os.path.join(HERE, f"test_{name}.py") for name in ("compare", "programs")]
        others = [begin(cls.folder, [unit]) for unit in units]
        for begun in (cls.done, cls.failed, cls.probe, cls.rounds, *others):
            begun.wait()
        with open(output, encoding="utf-8") as file:
            cls.probed = json.load(file)

    def test_every_step_writes_its_json_and_ends_well(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        rows = steps(self.good)
        self.assertEqual(list(rows), all_steps())
        for name, row in rows.items():
            self.assertIsNone(row["ended"], row)
            if name.startswith("probe"):
                self.assertTrue(row["found"], row)
                self.assertNotIn('"error"', json.dumps({**row["found"], "nvcc": None}) if "runtime" not in name else "", name)

    def test_results_of_an_earlier_session_are_not_among_them(self):
        found = {os.path.basename(path) for path in glob.glob(os.path.join(self.good, "**"), recursive=True)}
        self.assertEqual([name for name in found if "earlier" in name], [])
        self.assertIn("kept.txt", found)

    def test_every_program_is_run_in_its_modes(self):
        with open(os.path.join(self.good, "check", "gpu-check.json"), encoding="utf-8") as file:
            result = json.load(file)
        programs = {program["name"]: program for program in result["programs"]}
        there = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(SCRIPTS, "gpu-check.d", "programs", "*.py"))}
        expected = {name for name in there if not NO_FAKE.search(f"programs/{name}")} - {"steady"}
        self.assertEqual(expected - programs.keys(), set())
        for program in programs.values():
            failed = [run for run in program["runs"] if "error" in run]
            self.assertEqual((failed, program["errors"]), ([], []), program["name"])
            self.assertTrue(program["own_cost"], program["name"])
            self.assertTrue(all(count["equal"] for count in program["counts"]), program["counts"])
        whats = {(row["mode"], row["what"]) for row in programs["driver_bound"]["expected"]}
        self.assertEqual(whats, {("exact", "timed_share"), ("exact", "busy_share"), ("auto", "busy_share")})

    def test_the_archive_holds_the_page_and_every_step(self):
        with tarfile.open(self.good + ".tar.gz") as archive:
            names = archive.getnames()
            page = archive.extractfile("good/page.txt").read().decode()
        self.assertEqual(len([name for name in names if name.startswith("good/steps/")]), len(all_steps()))
        self.assertIn("good/check/gpu-check.json", names)
        for name in all_steps():
            self.assertIn(f"\n{name} ", page)
        self.assertNotIn("cannot show this answer", page)
        self.assertEqual(self.done.stdout, page)

    def test_if_nothing_works_each_step_reports_it_and_the_next_one_runs(self):
        rows = steps(self.bad)
        self.assertEqual(list(rows), all_steps())
        self.assertIn("cuInit returned 100", rows["probe costs"]["ended"])
        self.assertIsNone(rows["facts"]["ended"])
        with open(os.path.join(self.bad, "page.txt"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("FAILED", page)
        self.assertTrue(os.path.exists(self.bad + ".tar.gz"))

    def test_the_probe_works_alone_and_without_a_compiler(self):
        self.assertEqual(self.probe.returncode, 0, self.probe.stderr)
        self.assertIn("python", self.probed["costs"]["host_calls_from"])
        self.assertIn("median", self.probed["costs"]["cuEventRecord, timing"])

    def test_every_line_runs_or_is_listed_in_not_reached(self):
        seen = collections.defaultdict(set)
        for path in glob.glob(os.path.join(self.folder, "lines", "*.json")):
            with open(path, encoding="utf-8") as file:
                for name, line in json.load(file):
                    seen[name].add(line)
        with open(NOT_REACHED, encoding="utf-8") as file:
            excused = {line.strip() for line in file if line.strip() and not line.startswith("#")}
        missed, there = [], set()
        for path in (path for pattern in WATCHED for path in sorted(glob.glob(os.path.join(SCRIPTS, pattern)))):
            name = os.path.relpath(path, ROOT)
            if NO_FAKE.search(name):
                continue
            for line, words in sorted(code_lines(path).items()):
                there.add(words)
                if line not in seen[name] and words not in excused:
                    missed.append(f"{name}:{line}: {words}")
        self.assertEqual(missed, [], "run them, or say in not_reached.txt why they cannot be")
        self.assertEqual(excused - there, set(), "there are no such lines")


class Limits(unittest.TestCase):
    """Whatever a command does, the caller goes on."""

    def shell(self, text, seconds=20.0):
        return limited.run(["sh", "-c", text], seconds)

    def test_a_command_may_hang_with_children_that_ignore_signals(self):
        ended = self.shell("echo said; trap '' TERM; (trap '' TERM; sleep 61) & sleep 61", 1)
        self.assertEqual((ended.code, ended.why, ended.output), (None, "stopped after 1 s", "said\n"))

    def test_the_caller_is_called_back_while_it_waits(self):
        beats = []
        with unittest.mock.patch.object(limited, "BEAT_SECONDS", 0.05):
            ended = limited.run(["sleep", "0.5"], 20, beat=lambda: beats.append(None))
            self.assertEqual((ended.code, bool(beats)), (0, True))
            self.assertEqual(limited.run(["sleep", "61"], 0.2).code, None)

    def test_a_command_may_crash_or_fail_or_be_missing(self):
        self.assertEqual(self.shell("kill -SEGV $$").words(), "SIGSEGV")
        self.assertEqual(self.shell("echo why >&2; exit 3").words(), "exit 3: why")
        self.assertIn("No such file", limited.run(["/nowhere"], 1).words())
        self.assertIsNone(self.shell("true").words())

    def test_the_last_line_of_json_counts(self):
        self.assertEqual(limited.last_document('{"a": 1}\n[2]\n{"a": 2}\n{"a": '), {"a": 2})
        self.assertIsNone(limited.last_document("nothing\n"))


class Interrupted(unittest.TestCase):
    def test_hanging_steps_and_steps_without_time_have_one_line_each(self):
        with tempfile.TemporaryDirectory() as folder:
            session, hangs = os.path.join(folder, "session"), os.path.join(folder, "gpuspy")
            with open(hangs, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\ntrap '' TERM\necho begun\nsleep 61\n")
            os.chmod(hangs, 0o755)
            only = ("--only", "doctor", "--only", "probe handles", "--budget", "14", "--gpuspy", hangs)
            done = begin(folder, script("gpu-session"), "-o", session, *only)
            done.wait()
            rows = steps(session)
        self.assertEqual(list(rows), ["doctor", "probe handles"], done.stderr)
        self.assertIn("stopped after", rows["doctor"]["ended"])
        self.assertEqual((rows["doctor"]["output"], rows["probe handles"]["ended"]), ("begun\n", "no time left"))
        self.assertIn("FAILED: stopped after", done.stdout)

    def test_a_session_that_is_terminated_leaves_its_results(self):
        with tempfile.TemporaryDirectory() as folder:
            session = os.path.join(folder, "session")
            # The second step takes at least a second; the signal is sent once the first one's file exists.
            command = [SIMGPU, sys.executable, "-B", os.path.join(SCRIPTS, "gpu-session"), "--quick", "-o", session]
            process = subprocess.Popen([*command, "--only", "facts", "--only", "probe elapsed"], stdout=subprocess.DEVNULL)
            while not steps(session):
                time.sleep(0.01)
            process.terminate()
            self.assertEqual(process.wait(60), 0)
            with open(os.path.join(session, "page.txt"), encoding="utf-8") as file:
                self.assertIn("interrupted", file.read())
            self.assertTrue(os.path.exists(session + ".tar.gz"))


if __name__ == "__main__":
    unittest.main()
