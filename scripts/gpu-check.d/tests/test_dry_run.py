"""gpu-session from its first line to its last, on the stand-in GPU, with a stand-in PyTorch: every step writes its JSON, and every
line of the scripts runs, but for those that say what went wrong. Needs scripts/build-sim.sh."""
import dis
import glob
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SESSION = os.path.join(ROOT, "scripts", "gpu-session")
STEADY = os.path.join(ROOT, "target", "sim", "bin", "steady")

# Lines that only a machine that lacks or refuses something runs, by what stands in them; and bodies of device code.
FAILURES = re.compile(r"except |raise |error|return None|steady\.skip|continue|pass$|NotHere|Failed|No\w+Error|tail|dead|skipp")
# What other packages' programs are: there is no stand-in of those packages.
NO_STAND_IN = re.compile(r"programs/(cupy|jax|numba|warp|taichi|pycuda)_")


def code_lines(path):
    """The lines of a file that hold instructions, each with its function's first line."""
    with open(path, encoding="utf-8") as file:
        todo, found = [compile(file.read(), path, "exec")], {}
    while todo:
        code = todo.pop()
        for _, line in dis.findlinestarts(code):
            if line:
                found.setdefault(line, code.co_name)
        todo.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return found


def run(folder, *arguments, **environment):
    """A session on the stand-in, that notes which lines it runs."""
    lines = os.path.join(folder, "lines")
    os.makedirs(lines, exist_ok=True)
    tests = [os.path.join(HERE, name) for name in ("lines", "standin")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(tests),
        "PATH": tests[1] + os.pathsep + os.environ["PATH"],
        "LINES_FOLDER": lines,
        "SIM_STEADY": STEADY,
        **environment,
    }
    command = [os.path.join(ROOT, "scripts", "simgpu"), sys.executable, "-B", SESSION, "-o", os.path.join(folder, "session")]
    return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)


def steps(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "session", "steps", "*.json"))):
        with open(path, encoding="utf-8") as file:
            rows.append(json.load(file))
    return rows
