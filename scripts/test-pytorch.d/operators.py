"""operators.py PYTHON: compares what an export says of the operators of a program, from the texts of emit_nvtx, with what
torch.profiler says of the same program on the CPU: names, sequence numbers and shapes of all operators that autograd knows,
what the program records itself, and which operators launch kernels."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).resolve().parent / "programs" / "operators.py"
STEPS = 8


def events_of(file):
    return json.loads(Path(file).read_text())["traceEvents"]


def known(events):
    """Returns the operators that have a number of autograd's: on the CPU and on a GPU these are the same."""
    operators = (e for e in events if e.get("cat") == "cpu_op" and "Sequence number" in e["args"])
    return Counter((e["name"], e["args"]["Sequence number"], str(e["args"].get("Input Dims"))) for e in operators)


def annotations(events):
    names = (e["name"] for e in events if e.get("cat") == "user_annotation")
    return Counter(name for name in names if not name.startswith("ProfilerStep#"))


def main(python):
    gpuspy = ROOT / "target" / "release" / "gpuspy"
    run = lambda command, **more: subprocess.run([str(part) for part in command], check=True, timeout=300, **more)
    with tempfile.TemporaryDirectory() as scratch:
        theirs, ours, trace = f"{scratch}/torch.json", f"{scratch}/gpuspy.json", f"{scratch}/t.gspy"
        simgpu = ROOT / "scripts" / "simgpu"
        # CUPTI is only a stub here, and torch.profiler looks for it if there is a GPU.
        run([simgpu, python, "-B", PROGRAM, theirs], env={**os.environ, "SIMCUDA_DEVICES": "0"})
        run([simgpu, gpuspy, "run", "--quiet", "--timing", "exact", "-o", trace, "--", python, "-B", PROGRAM])
        run([gpuspy, "export", trace, "-o", ours], stderr=subprocess.DEVNULL)
        theirs, ours = events_of(theirs), events_of(ours)
    for what in (known, annotations):
        if what(ours) != what(theirs):
            lacking, extra = what(theirs) - what(ours), what(ours) - what(theirs)
            sys.exit(f"operators.py: {what.__name__}: torch.profiler alone has {lacking}, and gpuspy alone {extra}")
    operators = {e["args"]["External id"]: e["name"] for e in ours if e.get("cat") == "cpu_op"}
    kernels = [e for e in ours if e.get("cat") == "kernel"]
    launched = Counter(operators.get(e["args"].get("External id")) for e in kernels)
    # Two linear layers: a product each in the forward pass, and three in the backward pass, since features need no gradient.
    if (launched["aten::addmm"], launched["aten::mm"]) != (2 * STEPS, 3 * STEPS):
        sys.exit(f"operators.py: kernels by operator are {launched}")
    print(f"operators: {sum(known(ours).values())} as in torch.profiler, {len(kernels)} kernels of {len(launched)} operators")


main(*sys.argv[1:])
