"""Launches the smallest kernels through the driver one after the other: the host is the bottleneck. Needs nothing but
the driver."""
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
cuLaunchKernel = context.driver.library.cuLaunchKernel
prepared = tuple(map(cuda.integer, context.launch_arguments(stream)))

steady.measure(
    "driver_small",
    lambda: cuLaunchKernel(*prepared),
    lambda: context.synchronize(stream),
    (),
    steps=2000,
    launches=1,
    kernels={cuda.EMPTY: 1},
)
