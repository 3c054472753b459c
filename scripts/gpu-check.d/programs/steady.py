"""What the Python programs share: a measured part whose begin and end are known, and the line of JSON about it."""
import argparse
import contextlib
import importlib.metadata
import json
import statistics
import sys
import time


def skip(why):
    """Ends the program: what it is about is not there."""
    print(json.dumps({"skip": why}))
    sys.exit(77)


def raw():
    """Now, on the clock that gpuspy's host times are on."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def clock_pair():
    """One moment on both clocks, [raw, real]: CUPTI's times are on the second. The tightest of a few tries."""
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

    `launches` and `kernels` (by name) are kernel launches of one step, where the program knows them. `expect` is what a report
    of the program must say at least, by mode, `same` what must come out the same in every mode (gpu-check.d/parts.py).
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
