"""Measures what calls cost the host, ns: the median over samples of the mean of a batch."""
import ctypes
from ctypes import c_uint64, c_void_p

import runtime_calls
from cuda import CAPTURE_RELAXED, DISABLE_TIMING, NOT_READY, TIMING, Context
from native import Sequencer, spread

BATCH, SAMPLES = 50, 40
# Entries before a batch that is recorded on a deep stream, how often that is measured, and how long a spin keeps the
# stream from draining.
DEEP, DEEP_SAMPLES, DEEP_NS = 500, 10, 20_000_000


class Costs:
    def __init__(self, cuda, report):
        self.cuda, self.report, self.sequencer = cuda, report, Sequencer()
        self.stream = cuda.stream()
        self.found = {"host_calls_from": self.sequencer.host, "batch": BATCH}

    def measure(self, name, address, *arguments, expected=(0,), prepare=lambda: None, count=SAMPLES):
        """Times one call; `prepare` runs before each batch and is not counted."""
        if not address:
            self.found[name] = {"error": "not there"}
        else:
            samples, results = [], set()
            for _ in range(count):
                prepare()
                times, codes = self.sequencer.run([(address, arguments, BATCH)])
                samples.append((times[1] - times[0]) / BATCH)
                results.update(codes)
            entry = spread([round(sample, 1) for sample in samples])
            if not results <= set(expected):
                entry["results"] = sorted(results)
            self.found[name] = entry
        self.report(self.found)

    def driver(self, name, function, *arguments, **options):
        self.measure(name, self.cuda.driver.function(function), *arguments, **options)

    def drain(self):
        self.cuda.synchronize(self.stream)


def deep(costs):
    """Leaves entries on the stream that stay there for the next milliseconds."""
    costs.drain()
    costs.cuda.launch(costs.stream, DEEP_NS)
    costs.sequencer.run([(costs.launch, costs.cuda.launch_arguments(costs.stream), DEEP)])


def at_depth(costs, timed, untimed):
    """Measures the cost of one more entry where hundreds wait, and of creating an event."""
    costs.launch = costs.cuda.driver.function("cuLaunchKernel")
    options = {"prepare": lambda: deep(costs), "count": DEEP_SAMPLES}
    costs.driver(f"cuEventRecord, timing, depth {DEEP}", "cuEventRecord", timed, costs.stream, **options)
    costs.driver(f"cuEventRecord, timing disabled, depth {DEEP}", "cuEventRecord", untimed, costs.stream, **options)
    arguments = costs.cuda.launch_arguments(costs.stream)
    costs.driver(f"cuLaunchKernel, empty, depth {DEEP}", "cuLaunchKernel", *arguments, **options)
    costs.drain()


def busy(costs):
    """Leaves an event on the stream that does not complete in the next milliseconds."""
    costs.drain()
    costs.cuda.launch(costs.stream, 3_000_000)
    costs.cuda.record(costs.pending, costs.stream)


def run(report):
    cuda = Context()
    costs = Costs(cuda, report)
    stream, timed, untimed = costs.stream, cuda.event(), cuda.event(DISABLE_TIMING)
    second, costs.pending = cuda.event(), cuda.event()
    out = ctypes.addressof(keep := (c_uint64 * 8)())
    for name in ("nothing", "read_clock", "read_counter"):
        costs.measure(name, costs.sequencer.address(name))
    costs.driver("cuEventRecord, timing", "cuEventRecord", timed, stream, prepare=costs.drain)
    costs.driver("cuEventRecord, timing disabled", "cuEventRecord", untimed, stream, prepare=costs.drain)
    costs.driver("cuLaunchKernel, empty", "cuLaunchKernel", *cuda.launch_arguments(stream), prepare=costs.drain)
    spin = cuda.launch_arguments(stream, 1_000)
    costs.driver("cuLaunchKernel, two parameters", "cuLaunchKernel", *spin, prepare=costs.drain)
    cuda.record(timed, stream)
    cuda.record(second, stream)
    costs.drain()
    costs.driver("cuEventQuery, ready", "cuEventQuery", timed)
    costs.driver(
        "cuEventQuery, not ready", "cuEventQuery", costs.pending, expected=(NOT_READY,), prepare=lambda: busy(costs)
    )
    costs.drain()
    costs.driver("cuEventElapsedTime", "cuEventElapsedTime", out, timed, second)
    costs.driver("cuEventElapsedTime_v2", "cuEventElapsedTime_v2", out, timed, second)
    costs.driver("cuStreamQuery, ready", "cuStreamQuery", stream)
    costs.driver("cuStreamIsCapturing", "cuStreamIsCapturing", stream, out)
    costs.driver("cuStreamGetId", "cuStreamGetId", stream, out)
    costs.driver("cuStreamGetCtx", "cuStreamGetCtx", stream, out)
    costs.driver("cuCtxGetCurrent", "cuCtxGetCurrent", out)
    costs.driver("cuCtxGetId", "cuCtxGetId", 0, out)
    costs.driver("cuFuncGetName", "cuFuncGetName", out, cuda.empty_function)
    # The call exchanges the mode in a word, which contains a valid mode from the first exchange on.
    mode = ctypes.c_int(CAPTURE_RELAXED)
    costs.driver(
        "cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode)
    )
    costs.driver("cuCtxSetCurrent", "cuCtxSetCurrent", cuda.handle)
    costs.driver("cuEventCreate, timing", "cuEventCreate", out, TIMING)
    costs.driver("cuEventCreate, timing disabled", "cuEventCreate", out, DISABLE_TIMING)
    del keep
    at_depth(costs, timed, untimed)
    runtime_launch(costs)


def runtime_launch(costs):
    """Measures cudaLaunchKernel of a CUkernel, through a shared runtime if one is found."""
    try:
        runtime = runtime_calls.load_runtime()
        kernel = runtime_calls.kernel(runtime)
    except (OSError, AttributeError, RuntimeError) as error:
        costs.found["cudaLaunchKernel, empty"] = {"error": str(error)}
        costs.report(costs.found)
        return
    # dim3 has 12 bytes and is passed by value, in two registers.
    one = (1 << 32) | 1
    address = ctypes.cast(runtime.cudaLaunchKernel, c_void_p).value
    arguments = (kernel, one, 1, one, 1, 0, 0, costs.stream)
    costs.measure("cudaLaunchKernel, empty", address, *arguments, prepare=costs.drain)


def words(found):
    row_words = [f"{name} {row['median']:.0f}" for name, row in found.items() if isinstance(row, dict) and "median" in row]
    return ["host ns, medians: " + "; ".join(row_words)]
