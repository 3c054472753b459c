"""How many instructions the agent adds to a launch: its own, and those of what it calls outside the driver, counted with
valgrind (callgrind) on the simulated GPU."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

# What happens once (the session's start, first launches) is in both runs and drops out.
FEWER, MORE = 40_000, 60_000
# At 300 us for a launch the poller keeps up under valgrind, so that every launch has an event left.
SLOW_LAUNCHES, FEWER_SLOW, MORE_SLOW = "launch=300000,record=0,query=0,elapsed=0,other=0", 2_000, 4_000
FREE_LAUNCHES, FEWER_FROM_PYTHON, MORE_FROM_PYTHON = "launch=0,record=0,query=0,elapsed=0,other=0", 4_000, 12_000


def added(root, scratch):
    """Returns the instructions that the agent adds to a launch that is not timed, on the thread that launches."""
    return between(root, scratch, "off", "off", FEWER, MORE)


def added_to_runtimes(root, scratch):
    """Returns those that it adds to a launch by the runtime's API that is not timed, without its native stack, and those that the
    stack adds."""
    program = [root / "target/sim/bin/launch_rate_runtime"]
    ways = [between(root, scratch, "off", FREE_LAUNCHES, FEWER, MORE, program, stacks) for stacks in ("off", "auto")]
    return ways[0], ways[1] - ways[0]


def added_to_timed(root, scratch):
    """Returns those that it adds to a launch that is timed, without what the driver takes for the event."""
    return between(root, scratch, "exact", SLOW_LAUNCHES, FEWER_SLOW, MORE_SLOW)


def added_by_stacks(root, scratch):
    """Returns those that the stack adds to a launch from Python that is not timed, below ten frames of a package."""
    program = [sys.executable, root / "scripts/bench.d/python_package.py"]
    ways = [
        between(root, scratch, "off", FREE_LAUNCHES, FEWER_FROM_PYTHON, MORE_FROM_PYTHON, program, stacks)
        for stacks in ("auto", "off")
    ]
    return ways[0] - ways[1]


def between(root, scratch, timing, cost, fewer, more, program=None, stacks="auto"):
    program = program or [root / "target/sim/bin/launch_rate"]
    counts = [agents(profile(root, scratch, timing, cost, [*program, str(launches)], stacks)) for launches in (fewer, more)]
    return round((counts[1] - counts[0]) / (more - fewer))


def profile(root, scratch, timing, cost, program, stacks):
    """Runs a program that launches so often as its last argument says, and returns callgrind's file of its main thread."""
    run = f"{Path(program[-2]).name}-{timing}-{stacks}-{program[-1]}"
    folder, output = scratch / f"collected-{run}", scratch / f"callgrind-{run}"
    folder.mkdir()
    release, sim = root / "target/release", root / "target/sim"
    collector = subprocess.Popen([release / "gpuspy", "collect", "--quiet", "--dir", folder])
    while not (folder / "gpuspy.sock").exists() and collector.poll() is None:
        time.sleep(0.05)
    variables = {
        "LD_PRELOAD": release / "libgpuspy.so",
        "LD_LIBRARY_PATH": sim / "lib",
        "SIMCUDA_HOST_COST": cost,
        "GPUSPY_SOCKET": folder / "gpuspy.sock",
        "GPUSPY_QUIET": "1",
        "GPUSPY_TIMING": timing,
        "GPUSPY_STACKS": stacks,
    }
    # Valgrind runs one thread at a time, and unless it is fair, on a quiet machine only the first one: the ring would be full, since
    # the thread that finds a collector would have no turn. Valgrind itself runs without the agent.
    program = ["env", *(f"{name}={value}" for name, value in variables.items()), *program]
    valgrind = ["valgrind", "--tool=callgrind", "--fair-sched=yes", "--trace-children=yes", "--separate-threads=yes"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUSPY", "SIMCUDA", "LD_"))}
    command = [*valgrind, f"--callgrind-out-file={output}", *program]
    try:
        subprocess.run(command, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    finally:
        collector.send_signal(signal.SIGINT)
        collector.wait()
    return output.with_name(output.name + "-01")


def agents(path):
    """Returns the agent's own instructions in a callgrind file, with those of the functions of other libraries that it
    calls. The driver's are the program's."""
    own, called = Counter(), Counter()
    names, at = {}, {}
    in_call = False
    for line in path.read_text().splitlines():
        key, is_header, value = line.partition("=")
        if is_header and key in ("ob", "cob"):
            at[key] = name(names, value)
        elif is_header and key == "fn":
            at.pop("cob", None)
        elif is_header and key == "calls":
            in_call = True
        elif line and line[0] in "0123456789+-*" and "libgpuspy" in at.get("ob", ""):
            cost = int(line.split()[-1])
            if in_call:
                called[at.get("cob", at["ob"])] += cost
            else:
                own[at["ob"]] += cost
        if in_call and line and line[0] in "0123456789+-*":
            in_call = False
            at.pop("cob", None)
    foreign = (cost for library, cost in called.items() if not re.search("libgpuspy|libcuda", library))
    return sum(own.values()) + sum(foreign)


def name(names, value):
    """Returns an object's name; a file has it in full once, with a number that stands for it afterwards."""
    number, given = re.fullmatch(r"(\(\d+\))(?: (.*))?", value).groups()
    return names.setdefault(number, given)
