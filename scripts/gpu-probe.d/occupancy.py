"""What an event pair around a kernel measures: on a drained stream, queued, and beside programmatic launches."""
import ctypes

from cuda import (
    PROGRAMMATIC_STREAM_SERIALIZATION,
    PTX_TRIGGER,
    Context,
    CudaError,
    DISABLE_TIMING,
    LaunchAttribute,
    LaunchConfig,
)
from native import Sequencer, spread

ROUNDS = 60


def over_read(cuda, sequencer, stream, ns, queued):
    """Event pairs around a kernel of `ns` (None: the empty one), and the host's times of the three calls."""
    record, launch = cuda.driver.function("cuEventRecord"), cuda.driver.function("cuLaunchKernel")
    first, second = cuda.event(), cuda.event()
    calls = [(record, (first, stream)), (launch, cuda.launch_arguments(stream, ns)), (record, (second, stream))]
    rows = []
    for _ in range(ROUNDS):
        cuda.synchronize(stream)
        if queued:
            cuda.launch(stream, 300_000)
        times, results = sequencer.run(calls)
        if any(results):
            raise CudaError("record or launch", max(results))
        cuda.synchronize(stream)
        steps = [b - a for a, b in zip(times, times[1:])]
        rows.append([cuda.elapsed_ns(first, second), *steps, times[2] - times[0], times[3] - times[2]])
    names = ("pair_ns", "host_record_start_ns", "host_launch_ns", "host_record_end_ns", "lead_ns", "tail_ns")
    return {name: spread(column) for name, column in zip(names, zip(*rows))}


def bare_pair(cuda, stream):
    """Two events with nothing between them, queued behind a spin: the floor of back-to-back."""
    first, second, pairs = cuda.event(), cuda.event(), []
    for _ in range(ROUNDS):
        cuda.launch(stream, 300_000)
        cuda.record(first, stream)
        cuda.record(second, stream)
        cuda.synchronize(stream)
        pairs.append(cuda.elapsed_ns(first, second))
    return spread(pairs)


def back_to_back(cuda, stream):
    """end(N) to start(N + 1) of queued neighbours that each have their own pair."""
    gaps = []
    for _ in range(6):
        pairs = [(cuda.event(), cuda.event()) for _ in range(20)]
        cuda.launch(stream, 1_000_000)
        for start, end in pairs:
            cuda.record(start, stream)
            cuda.launch(stream, 5_000)
            cuda.record(end, stream)
        cuda.synchronize(stream)
        gaps += [cuda.elapsed_ns(a[1], b[0]) for a, b in zip(pairs, pairs[1:])]
    return spread(gaps)


def programmatic(cuda, stream):
    """Chains of four 100 us kernels that may overlap: how long with and without events between them."""
    if cuda.capability() < 90:
        return {"error": f"needs compute capability 9.0; this is {cuda.capability()}"}
    function = cuda.get_function(cuda.load(PTX_TRIGGER), b"probe_trigger_argns")
    cuda.launch(stream, 1_000, function)
    cuda.synchronize(stream)
    attribute = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
    parameters = cuda.spin_parameters(100_000)
    events = {"none": None, "timing": cuda.event(), "timing_disabled": cuda.event(DISABLE_TIMING)}

    def launch(overlapping):
        config = LaunchConfig((1, 1, 1), (1, 1, 1), 0, stream, ctypes.pointer(attribute), int(overlapping))
        cuda.driver.call("cuLaunchKernelEx", ctypes.byref(config), function, parameters, 0)

    found = {}
    for chain in ("plain", "programmatic"):
        for between, event in events.items():
            first, second, pairs = cuda.event(), cuda.event(), []
            for _ in range(20):
                cuda.launch(stream, 500_000)
                cuda.record(first, stream)
                for n in range(4):
                    launch(chain == "programmatic" and n > 0)
                    if event and n < 3:
                        cuda.record(event, stream)
                cuda.record(second, stream)
                cuda.synchronize(stream)
                pairs.append(cuda.elapsed_ns(first, second))
            found[f"{chain}, event between: {between}"] = spread(pairs)
    return {"chain_ns": found}


def run(report):
    cuda, sequencer = Context(), Sequencer()
    stream = cuda.stream()
    found = {"host_calls_from": sequencer.host, "clock_khz": cuda.khz}
    parts = {f"{label}, {how}": (lambda ns=ns, queued=how == "queued": over_read(cuda, sequencer, stream, ns, queued))
             for label, ns in (("empty", None), ("spin 5 us", 5_000), ("spin 50 us", 50_000))
             for how in ("drained", "queued")}
    parts["two events, nothing between, queued"] = lambda: bare_pair(cuda, stream)
    parts["end to next start, queued"] = lambda: back_to_back(cuda, stream)
    parts["programmatic"] = lambda: programmatic(cuda, stream)
    for name, part in parts.items():
        try:
            found[name] = part()
        except (CudaError, AttributeError) as error:
            found[name] = {"error": str(error)}
        report(found)
