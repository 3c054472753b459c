"""Tests what the Python programs share, without a GPU: the line of JSON describes the measured part and nothing
else."""
import ast
import contextlib
import importlib.metadata
import io
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, "programs")]

import parts
import steady


class FakeProfiler:
    """Replaces torch.profiler.profile, and records when it was on."""

    def __enter__(self):
        self.began = steady.raw()
        return self

    def __exit__(self, *_):
        self.ended = steady.raw()

    def export_chrome_trace(self, path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump([self.began, self.ended], file)


class Measuring(unittest.TestCase):
    def measure(self, *arguments, **facts):
        """Returns what a program with these facts prints, and the moments of its steps and waits."""
        moments = {"step": [], "wait": []}
        note = lambda what: lambda: moments[what].append(steady.raw())  # noqa: E731
        torch = types.SimpleNamespace(profiler=types.SimpleNamespace(profile=FakeProfiler))
        output = io.StringIO()
        with mock.patch.object(sys, "argv", ["program", *arguments]), mock.patch.dict(sys.modules, torch=torch):
            with contextlib.redirect_stdout(output):
                steady.measure("program", note("step"), note("wait"), ["pip"], steps=4, groups=6, warm=2, **facts)
        return json.loads(output.getvalue()), moments

    def test_the_region_contains_exactly_the_measured_steps(self):
        said, moments = self.measure(launches=2, kernels={"a": 1, "b": 1})
        began, ended = said["region"]
        inside = [at for at in moments["step"] if began <= at <= ended]
        self.assertEqual((said["steps"], len(inside), len(moments["step"])), (24, 24, 8 + 24))
        self.assertEqual((said["launches"], said["kernels"]), (48, {"a": 24, "b": 24}))
        self.assertTrue(any(at <= began for at in moments["wait"][2:]), "what came before is over when it begins")
        self.assertEqual(said["versions"], {"pip": importlib.metadata.version("pip")})
        (first, _), (last, _) = said["clocks"]
        self.assertTrue(first <= began <= ended <= last)

    def test_quick_does_less(self):
        said, _ = self.measure("--quick")
        self.assertEqual((said["steps"], said["launches"], said["kernels"]), (12, None, None))

    def test_the_profiler_is_on_for_the_region(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.json")
            said, _ = self.measure("--profile", path)
            with open(path, encoding="utf-8") as file:
                on, off = json.load(file)
        self.assertTrue(on <= said["region"][0] <= said["region"][1] <= off)


class Listed(unittest.TestCase):
    """Most programs run only on a GPU, so they are only parsed here."""

    def test_every_program_is_tried_and_is_python(self):
        there = {name.removesuffix(".py") for name in os.listdir(parts.PROGRAMS) if name.endswith(".py")}
        listed = {name: packages for name, packages, _ in parts.PYTHON_PROGRAMS}
        self.assertEqual(there - {"steady"}, listed.keys())
        self.assertTrue({"cupy", "jax", "warp"} <= {package for packages in listed.values() for package in packages})
        for name, packages in listed.items():
            with self.subTest(program=name), open(os.path.join(parts.PROGRAMS, f"{name}.py"), encoding="utf-8") as file:
                nodes = list(ast.walk(ast.parse(file.read())))
                imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
                imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
                imported |= {name.partition(".")[0] for name in imported}
                # What it needs besides (Triton for torch.compile) is imported by the first package.
                self.assertTrue(imported >= {"steady", *packages[:1]}, imported)
                calls = [node.func for node in nodes if isinstance(node, ast.Call)]
                measured = [call for call in calls if isinstance(call, ast.Attribute) and call.attr == "measure"]
                self.assertEqual(len(measured), 1, "one measured part")


if __name__ == "__main__":
    unittest.main()
