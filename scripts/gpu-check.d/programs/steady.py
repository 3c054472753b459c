"""What the Python programs share: a measured part with a known start and end, and the line of JSON about it."""
import argparse
import contextlib
import importlib.metadata
import json
import statistics
import sys
import time


def skip(why):
    """Ends the program because something that it needs is missing."""
    print(json.dumps({"skip": why}))
    sys.exit(77)


def raw():
    """Returns the current time on the clock of gpuspy's host times."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def clock_pair():
    """Returns one moment on both clocks, [raw, real]: CUPTI's times are on the second. The tightest of a few tries."""
    tries = []
    for _ in range(9):
        before, real, after = raw(), time.time_ns(), raw()
        tries.append((after - before, [(before + after) // 2, real]))
    return min(tries)[1]


def torch_profiler():
    import torch

    return torch.profiler.profile()


def measure(
    program,
    step,
    synchronize,
    packages,
    steps=10,
    groups=10,
    warm=3,
    launches=None,
    kernels=None,
    expect=None,
    same=None,
):
    """Runs `warm` groups of steps, then `groups` that are measured; a group ends with `synchronize`.

    `launches` and `kernels` (by name) are kernel launches of one step, if the program knows them. `expect` is the least
    that a report of the program must show, by mode, and `same` what must be the same in every mode
    (gpu-check.d/parts.py).
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", help="run the measured part under torch.profiler, and write its trace here")
    options = parser.parse_args()
    groups = max(3, groups // 3) if options.quick else groups

    def group():
        began = raw()
        for _ in range(steps):
            step()
        synchronize()
        return (raw() - began) / steps

    for _ in range(warm):
        group()
    first = clock_pair()
    with torch_profiler() if options.profile else contextlib.nullcontext() as profile:
        synchronize()
        began = raw()
        samples = [group() for _ in range(groups)]
        ended = raw()
    last = clock_pair()
    if profile:
        profile.export_chrome_trace(options.profile)
    times = steps * groups
    versions = {name: importlib.metadata.version(name) for name in packages}
    print(
        json.dumps(
            {
                "program": program,
                "steps": times,
                "step_ns": statistics.median(samples),
                "region": [began, ended],
                "clocks": [first, last],
                "launches": None if launches is None else launches * times,
                "kernels": {name: count * times for name, count in kernels.items()} if kernels else None,
                "expect": expect or {},
                "same": same or {},
                "versions": versions,
            }
        )
    )
