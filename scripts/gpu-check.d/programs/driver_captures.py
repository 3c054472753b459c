"""One thread repeatedly captures a stream in GLOBAL mode while another one creates streams and launches on them, or
launches on streams that were never launched on before. Shows whether gpuspy ends captures that succeed without it.
Needs nothing but the driver."""
import ctypes
import os
import queue
import sys
import threading

import steady

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu-probe.d"))

import cuda

try:
    context = cuda.Context()
except (OSError, cuda.CudaError) as error:
    steady.skip(f"driver: {error}")

driver = context.driver
captured = context.stream()
# One stream for each possible step, quick or not; launched on only inside captures.
unused = [context.stream() for _ in range(300)]
jobs, answers = queue.Queue(), queue.Queue()
ended = {"a stream made and used": 0, "a stream used": 0}


def work():
    """The other thread: runs the jobs that it is given, and returns their results."""
    driver.call("cuCtxSetCurrent", context.handle)
    while (job := jobs.get()) is not None:
        answers.put(job())


def made_and_used():
    made = ctypes.c_void_p()
    code = driver.result("cuStreamCreate", ctypes.byref(made), cuda.NON_BLOCKING)
    return code or driver.result("cuLaunchKernel", *context.launch_arguments(made.value))


def used():
    return driver.result("cuLaunchKernel", *context.launch_arguments(unused.pop()))


def capture(what, job):
    """Makes a capture during which the other thread does the job, and counts the capture if it failed."""
    graph = ctypes.c_void_p()
    driver.call("cuStreamBeginCapture_v2", captured, cuda.CAPTURE_GLOBAL)
    context.launch(captured)
    jobs.put(job)
    answers.get()
    if driver.result("cuStreamEndCapture", captured, ctypes.byref(graph)) != cuda.SUCCESS:
        ended[what] += 1
    else:
        driver.call("cuGraphDestroy", graph)


def step():
    capture("a stream made and used", made_and_used)
    capture("a stream used", used)


thread = threading.Thread(target=work)
thread.start()
wait = lambda: driver.call("cuCtxSynchronize")  # noqa: E731
# Groups that are not measured count as well: they include the very first use.
steady.measure("driver_captures", step, wait, (), steps=5, groups=12, same=ended)
jobs.put(None)
thread.join()
