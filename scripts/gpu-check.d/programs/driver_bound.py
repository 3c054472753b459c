"""Keeps the GPU busy with kernels launched through the driver as fast as its queue takes them, without waits:
GPU-bound, like a training loop that never synchronizes. Needs nothing but the driver."""
import os
import sys

import steady

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu-probe.d"))

import cuda

try:
    context = cuda.Context()
except (OSError, cuda.CudaError) as error:
    steady.skip(f"driver: {error}")

stream = context.stream()
launches = [context.launch_arguments(stream, ns) for ns in (50_000, 20_000)]
cuLaunchKernel = context.driver.library.cuLaunchKernel
prepared = [tuple(map(cuda.integer, arguments)) for arguments in launches]


def step():
    for arguments in prepared:
        cuLaunchKernel(*arguments)


# Timed: alone, in runs or in bursts. Busy: share of the time from the first kernel to the last.
steady.measure(
    "driver_bound",
    step,
    lambda: context.synchronize(stream),
    (),
    steps=3000,
    groups=4,
    warm=1,
    launches=2,
    kernels={cuda.SPIN: 2},
    expect={"exact": {"timed_share": 0.2, "busy_share": 0.95}, "auto": {"busy_share": 0.95}},
)
