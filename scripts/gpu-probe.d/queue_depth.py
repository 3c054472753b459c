"""How many entries does a stream take before the next call blocks, and what counts as an entry?

The stream waits for a word in pinned memory that this program writes itself; a second thread opens that gate when a call
has been stuck for a while.
"""
import ctypes
import threading
import time
from ctypes import c_void_p

from cuda import Context, CudaError, DISABLE_TIMING

DEVICE_MAP = 2  # cuda.h: CU_MEMHOSTALLOC_DEVICEMAP
WAIT_GEQ = 0  # cuda.h: CU_STREAM_WAIT_VALUE_GEQ
MOST_CALLS = 6000
STUCK_SECONDS = 0.25


class Gate:
    """A word that a stream can be made to wait for."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.host = cuda.driver.out(c_void_p, "cuMemHostAlloc", 4096, DEVICE_MAP)
        self.device = cuda.driver.out(c_void_p, "cuMemHostGetDevicePointer_v2", self.host, 0)
        self.word = ctypes.c_uint32.from_address(self.host)
        self.word.value = 0

    def close(self, stream):
        self.word.value = 0
        name = next(n for n in ("cuStreamWaitValue32_v2", "cuStreamWaitValue32") if self.cuda.driver.function(n))
        self.cuda.driver.call(name, stream, self.device, 1, WAIT_GEQ)

    def open(self):
        self.word.value = 1


def fill(cuda, gate, steps):
    """Repeats the steps on a gated stream until one blocks. Returns how many calls of each went in before."""
    stream = cuda.stream()
    gate.close(stream)
    started, entered, stuck, done = [0.0], [0], threading.Event(), threading.Event()

    def watch():
        while not done.wait(0.02):
            if started[0] and time.monotonic() - started[0] > STUCK_SECONDS:
                stuck.set()
                gate.open()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    counts = dict.fromkeys((name for name, _ in steps), 0)
    blocked_in = None
    try:
        for n in range(MOST_CALLS):
            name, step = steps[n % len(steps)]
            started[0] = time.monotonic()
            step(stream)
            started[0] = 0.0
            entered[0] += 1
            if stuck.is_set():
                blocked_in = name
                break
            counts[name] += 1
    finally:
        done.set()
        watcher.join()
        gate.open()
        cuda.synchronize(stream)
    return {"blocked_in": blocked_in, "entered": counts, "total": sum(counts.values()), "limit": MOST_CALLS}


def run(report):
    cuda = Context()
    gate = Gate(cuda)
    events = [cuda.event() for _ in range(MOST_CALLS)]
    untimed = cuda.event(DISABLE_TIMING)
    upcoming = iter(())

    def record_next(stream):
        cuda.record(next(upcoming), stream)

    parameters = cuda.spin_parameters(1)
    launch = ("launch", lambda stream: cuda.launch(stream))
    launch_arguments = (
        "launch with parameters",
        lambda stream: cuda.driver.call(
            "cuLaunchKernel", cuda.spin_function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0
        ),
    )
    record = ("record", record_next)
    record_one = ("record of one event", lambda stream: cuda.record(events[0], stream))
    record_untimed = ("record without timing", lambda stream: cuda.record(untimed, stream))
    found = {}
    for name, steps in (
        ("launches", [launch]),
        ("launches with parameters", [launch_arguments]),
        ("records", [record]),
        ("records of one event", [record_one]),
        ("records without timing", [record_untimed]),
        ("record, launch, record", [record, launch, record]),
        ("launch, launch, launch, record", [launch, launch, launch, record]),
    ):
        upcoming = iter(events)
        try:
            found[name] = fill(cuda, gate, steps)
        except (CudaError, StopIteration) as error:
            found[name] = {"error": str(error) or type(error).__name__}
        report(found)
