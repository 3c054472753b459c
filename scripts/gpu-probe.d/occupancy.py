"""What an event pair around a kernel measures: on a drained stream, queued, and around programmatic launches."""
import ctypes

from children import is_quick
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
    """Measures event pairs around a kernel of `ns` (None: the empty one), and the host times of the three calls."""
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
    """Measures two events with nothing between them, queued after a spin: the minimum for back-to-back events."""
    first, second, pairs = cuda.event(), cuda.event(), []
    for _ in range(ROUNDS):
        cuda.launch(stream, 300_000)
        cuda.record(first, stream)
        cuda.record(second, stream)
        cuda.synchronize(stream)
        pairs.append(cuda.elapsed_ns(first, second))
    return spread(pairs)


def back_to_back(cuda, stream):
    """Measures end(N) to start(N + 1) of queued neighbours that each have their own event pair."""
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


class Chains:
    """Launches of a kernel whose dependents may start as soon as it has started."""

    def __init__(self, cuda, stream, ns):
        self.cuda, self.stream = cuda, stream
        self.function = cuda.get_function(cuda.load(PTX_TRIGGER), b"probe_trigger1_argns")
        cuda.launch(stream, 1_000, self.function)
        cuda.synchronize(stream)
        self.attribute = LaunchAttribute(id=PROGRAMMATIC_STREAM_SERIALIZATION, value=1)
        self.parameters = cuda.spin_parameters(ns)

    def launch(self, overlapping):
        config = LaunchConfig((1, 1, 1), (1, 1, 1), 0, self.stream, ctypes.pointer(self.attribute), int(overlapping))
        self.cuda.driver.call("cuLaunchKernelEx", ctypes.byref(config), self.function, self.parameters, 0)

    def took(self, count, event=None, every=1, overlapping=True, ahead=500_000):
        """Returns the ns from before to after a sequence that was queued as a whole, with an event after every `every`
        launches."""
        first, second = self.cuda.event(), self.cuda.event()
        self.cuda.launch(self.stream, ahead)
        self.cuda.record(first, self.stream)
        for n in range(count):
            self.launch(overlapping and n > 0)
            if event and (n + 1) % every == 0 and n + 1 < count:
                self.cuda.record(event, self.stream)
        self.cuda.record(second, self.stream)
        self.cuda.synchronize(self.stream)
        return self.cuda.elapsed_ns(first, second)


def programmatic(cuda, stream):
    """Measures sequences of four 100 us kernels that may overlap, with and without events between them."""
    if cuda.capability() < 90:
        return {"error": f"needs compute capability 9.0; this is {cuda.capability()}"}
    chains = Chains(cuda, stream, 100_000)
    events = {"none": None, "timing": cuda.event(), "timing_disabled": cuda.event(DISABLE_TIMING)}
    found = {}
    for chain in ("plain", "programmatic"):
        for between, event in events.items():
            pairs = [chains.took(4, event, overlapping=chain == "programmatic") for _ in range(20)]
            found[f"{chain}, event between: {between}"] = spread(pairs)
    return {"chain_ns": found}


def sparse(cuda, stream):
    """Measures what a long sequence of 3 us kernels that may overlap loses by a few events, in ns and as a share of the
    time without events. The sequence is shorter than a launch queue, behind a spin that lasts until all of it is
    queued."""
    if cuda.capability() < 90:
        return {"error": f"needs compute capability 9.0; this is {cuda.capability()}"}
    chains, event, found = Chains(cuda, stream, 3_000), cuda.event(), {}
    options = {"none": (None, 1), "1 in 256": (event, 256), "1 in 32": (event, 32), "1 in 8": (event, 8)}
    rows = {name: [] for name in options}
    # Alternates between the variants, so that a changing clock affects all of them.
    for _ in range(4 if is_quick() else 12):
        for name, (each, every) in options.items():
            rows[name].append(chains.took(600, each, every, ahead=15_000_000))
    for name, values in rows.items():
        found[name] = spread(values)
    base = found["none"]["median"]
    found["lost_share"] = {name: round(found[name]["median"] / base - 1, 5) for name in options}
    return found


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
    parts["600 programmatic launches"] = lambda: sparse(cuda, stream)
    for name, part in parts.items():
        try:
            found[name] = part()
        except (CudaError, AttributeError) as error:
            found[name] = {"error": str(error)}
        report(found)


def words(found):
    lines = [f"{name}: {found[name]['pair_ns']['median']} ns" for name in found if name.startswith(("empty", "spin"))]
    for name in ("two events, nothing between, queued", "end to next start, queued"):
        lines.append(f"{name}: {found[name].get('median')} ns")
    lines.append(f"a programmatic chain loses: {found['600 programmatic launches'].get('lost_share')}")
    chains = found["programmatic"].get("chain_ns", {})
    lines.append("chains: " + "; ".join(f"{name} {row['median']}" for name, row in chains.items()))
    return lines
