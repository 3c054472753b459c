"""Checks that docs/hardware.md lists every assumption of the simulated GPU, and names only probes that exist."""
import ast
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(os.path.dirname(HERE))
ROOT = os.path.dirname(SCRIPTS)
sys.path.insert(0, os.path.dirname(HERE))

import parts

CUDA_PROGRAMS = {"cuda_static", "cuda_shared", "cuda_storm"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def assumptions():
    """Returns the names in assume.rs with their defaults."""
    words = r'\bword\(\s*"(\w+)",\s*&\[[^\]]*\],\s*"(\w+)"'
    numbers = r'\bnumber\(\s*"(\w+)",\s*"(\w+)"'
    text = read("sim", "cuda", "src", "assume.rs")
    return dict(re.findall(words, text) + re.findall(numbers, text))


def rows():
    """Returns the cells of each row of each table."""
    lines = read("docs", "hardware.md").splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| "))
    return [row for row in cells if row[0] != "assumption"]


def values(path, name):
    """Returns a module's constant, read without running the module."""
    for node in ast.parse(read(*path)).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no {name}")


class Hardware(unittest.TestCase):
    def test_every_assumption_of_the_simulator_has_a_row_with_its_default(self):
        reported = dict(re.match(r"`(\w+)`=(\w+)", row[0]).groups() for row in rows() if re.match(r"`\w+`=", row[0]))
        self.assertGreater(len(assumptions()), 25)
        self.assertEqual(reported, assumptions())

    def test_every_row_has_all_cells_filled(self):
        for row in rows():
            self.assertEqual(len(row), 5, row)
            self.assertTrue(all(row), row)
            self.assertTrue(row[3].startswith(("`probe ", "`check ", "none")), row)

    def test_every_named_probe_exists_and_is_run(self):
        sections = set(values(("scripts", "gpu-probe"), "SECTIONS"))
        steps = {name for name, _ in values(("scripts", "gpu-session"), "STEPS")}
        programs = {name for name, _, _ in parts.PYTHON_PROGRAMS} | CUDA_PROGRAMS
        named = [tuple(words) for row in rows() for words in re.findall(r"`(probe|check) (\w+)`", row[3])]
        self.assertTrue(named)
        for kind, name in named:
            self.assertIn(name, sections if kind == "probe" else programs)
        self.assertEqual({f"probe {section}" for section in sections}, {step for step in steps if step.startswith("probe")})

    def test_files_named_in_rows_exist(self):
        for row in rows():
            for path in re.findall(r"`((?:agent|collector|tests)/[\w./]+)`", row[1]):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)


if __name__ == "__main__":
    unittest.main()
