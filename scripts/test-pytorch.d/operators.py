"""operators.py PYTHON: compares what an export says of the operators of a program, from the texts of emit_nvtx, with what
torch.profiler says of the same program on the CPU: names, sequence numbers and shapes of all operators that autograd knows,
what the program records itself, which operators launch kernels, and the functions of Python that called the operator, of the
forward pass, which a kernel belongs to."""

import json
import os
import re
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


def inside(events, thread, moment):
    """Returns those of a thread's events that are open at a moment, the innermost first."""
    of_thread = (e for e in events if e["tid"] == thread and e["ts"] <= moment < e["ts"] + e["dur"])
    return sorted(of_thread, key=lambda e: -e["ts"])


# The name of a function of Python: its file, the line on which it begins, and its own name.
NAMED = re.compile(r"(.*\.py)\((\d+)\): (.*)")


def functions_of_torch(events):
    """Returns the functions of Python that called the last operator of the forward pass with each of autograd's numbers, as
    torch.profiler has them. On the CPU, the backward pass runs in the thread that waits for it."""
    python = [e for e in events if e.get("cat") == "python_function" and NAMED.fullmatch(e["name"])]
    operators = [e for e in events if e.get("cat") == "cpu_op" and "Sequence number" in e["args"]]
    found = {}
    for operator in sorted(operators, key=lambda e: e["ts"]):
        calls = [NAMED.fullmatch(e["name"]).groups() for e in inside(python, operator["tid"], operator["ts"])]
        if not any(file.endswith("torch/autograd/__init__.py") for file, _, _ in calls):
            found[operator["args"]["Sequence number"]] = calls
    return found


def check_functions(ours, theirs):
    """Compares the functions of Python that the kernels of both passes have. Returns how many of each pass were compared."""
    frame = re.compile(r"(\S*?)( \(backward\))? \((.*\.py):\d+\)")
    calls = {e["args"]["correlation"]: e for e in ours if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    operators = [e for e in ours if e.get("cat") == "cpu_op" and "Sequence number" in e["args"]]
    expected, compared = functions_of_torch(theirs), Counter()
    for kernel in (e for e in ours if e.get("cat") == "kernel"):
        call = calls[kernel["args"]["correlation"]]
        around = inside(operators, call["tid"], call["ts"])
        frames = [frame.fullmatch(text) for text in call["args"].get("stack", [])]
        python = [match.groups() for match in frames if match]
        is_backward = any(backward for _, backward, _ in python)
        # In the backward pass the outermost range with a number is the function that computes a gradient; sums of gradients
        # have none.
        numbers = [e["args"]["Sequence number"] for e in around]
        number = (numbers[-1] if is_backward else numbers[0]) if numbers else None
        if number not in expected or is_backward and "AccumulateGrad" in around[0]["name"]:
            continue
        found = [(name.rsplit(".", 1)[-1], file) for name, _, file in python]
        # In its place torch.profiler has the name of the module.
        found = [(name, file) for name, file in found if name != "_wrapped_call_impl"]
        names = [name for name, _ in found]
        if names != [name for _, _, name in expected[number]] or not all(
            file.endswith(suffix) for (_, file), (suffix, _, _) in zip(found, expected[number])
        ):
            sys.exit(f"operators.py: the operator with the number {number} was called by {expected[number]}, and not by {found}")
        compared["backward" if is_backward else "forward"] += 1
    return compared


def check_rows(ours, theirs):
    """Compares the functions of Python that are drawn around the launches of the forward pass, and around the operators that they
    belong to, on the thread's own row. Returns how many launches were compared."""
    python = [e for e in ours if e.get("cat") == "python_function"]
    operators = [e for e in ours if e.get("cat") == "cpu_op" and "Sequence number" in e["args"]]
    calls = {e["args"]["correlation"]: e for e in ours if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    expected, compared = functions_of_torch(theirs), 0
    for call in (calls[e["args"]["correlation"]] for e in ours if e.get("cat") == "kernel"):
        around = inside(operators, call["tid"], call["ts"])
        functions = inside(python, call["tid"], call["ts"])
        if not around or not functions or around[0]["args"]["Sequence number"] not in expected:
            continue
        outermost = inside(python, call["tid"], around[-1]["ts"])
        if outermost != functions:
            sys.exit(f"operators.py: {around[-1]['name']} does not lie inside of the functions that called it: {outermost}, {functions}")
        found = [NAMED.fullmatch(e["name"]).groups() for e in functions]
        found = [function for function in found if function[2] != "_wrapped_call_impl"]
        wanted = expected[around[0]["args"]["Sequence number"]]
        # Of the program's own files torch.profiler has the whole path, and of a function that ran when it began, the line then.
        is_same = lambda a, b: a[2] == b[2] and (a[1] == b[1] or a[2] == "<module>") and a[0].endswith(b[0].rsplit("/", 1)[-1])
        if len(found) != len(wanted) or not all(map(is_same, found, wanted)):
            sys.exit(f"operators.py: {around[0]['name']} was called by {wanted}, and is drawn inside of {found}")
        compared += 1
    return compared


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
    compared = check_functions(ours, theirs)
    # Each linear layer, relu and the loss have kernels in both passes.
    if min(compared["forward"], compared["backward"]) < 4 * STEPS:
        sys.exit(f"operators.py: functions of Python were compared for {compared}")
    drawn = check_rows(ours, theirs)
    if drawn < 4 * STEPS:
        sys.exit(f"operators.py: the functions of Python around {drawn} launches were compared")
    print(f"functions of Python: those around {drawn} launches are drawn as in torch.profiler")
    print(f"functions of Python: {compared['forward']} kernels of the forward pass and {compared['backward']} of the backward pass as in torch.profiler")
    print(f"operators: {sum(known(ours).values())} as in torch.profiler, {len(kernels)} kernels of {len(launched)} operators")


main(*sys.argv[1:])
