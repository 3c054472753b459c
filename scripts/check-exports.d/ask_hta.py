"""ask_hta.py EXPORT OPERATIONS REPORT: has Holistic Trace Analysis read the export, and compares its results with what
follows from the operations themselves (`gpuspy report --operations`): the idle time of each stream by its cause, the
time of each kernel and of each kind of transfer, the lengths of the launch queues; and with the idle classes of the
report (`gpuspy report --json`)."""

import gzip
import json
import logging
import sys
import warnings
from collections import defaultdict

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.trace_analysis import TraceAnalysis  # noqa: E402
from hta.utils.validate_trace import validate_trace_format  # noqa: E402

# HTA's rules: a gap shorter than this many µs after a kernel that was waited for belongs to the launch; and the calls
# that it counts.
KERNEL_WAIT_US = 30
LAUNCHES = {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"}
# HTA gives idle times in µs with two decimals. Other times are sums of µs in floating point.
ROUNDED = 0.0051
CLOSE = 1e-6
HALF_NS = 0.0005


class Operation:
    """An operation that has a time, in ns."""

    def __init__(self, line):
        self.stream = (line["pid"], line["context"], line["stream"])
        self.call = line["call_start_ns"] if line["api"] else None
        self.is_counted = line["api"] in LAUNCHES
        self.start, self.end = line["start_ns"]["value"], line["finish_ns"]["value"]
        number = line["launches"]
        self.name = {
            "kernel": line["name"],
            "graph": f"Graph ({number} kernel{'' if number == 1 else 's'})",
            "burst": f"Burst ({number} launch{'' if number == 1 else 'es'})",
            "run": f"Run ({number} launch{'' if number == 1 else 'es'})",
            "memset": "Memset",
        }.get(line["kind"], f"Memcpy {line['kind']}")


def by_stream(path):
    """Returns the operations of each stream in order, laid end to end where their estimates overlap."""
    streams = defaultdict(list)
    with open(path) as lines:
        for line in map(json.loads, lines):
            if line["start_ns"] is not None:
                operation = Operation(line)
                streams[operation.stream].append(operation)
    for operations in streams.values():
        operations.sort(key=lambda o: o.start)
        last = operations[0].start - 1
        for o in operations:
            # One ns apart, so that a reader that truncates times sees no two overlap.
            o.start = max(o.start, last + 1)
            o.end = last = max(o.end, o.start)
    return sorted(streams.values(), key=lambda operations: operations[0].start)


def numbers(export):
    """Returns the numbers of the export's streams in the same order, which is that of their first operations."""
    first = {}
    with gzip.open(export) as file:
        for event in json.load(file)["traceEvents"]:
            stream = event.get("args", {}).get("stream")
            if stream is not None and event.get("cat") != "cuda_sync":
                first[stream] = min(event["ts"], first.get(stream, event["ts"]))
    return sorted(first, key=first.get)


def synchronises(export):
    """Returns the synchronizations. Each must have the correlation of a call: HTA would join those without one to all
    others without one."""
    with gzip.open(export) as file:
        events = json.load(file)["traceEvents"]
    calls = {e["args"]["correlation"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    syncs = [e["args"] for e in events if e.get("cat") == "cuda_sync"]
    for args in syncs:
        if args["correlation"] not in calls or "stream" not in args or "device" not in args:
            sys.exit(f"a synchronise without its call: {args}")
    return len(syncs)


def idle(operations):
    """Returns the µs in which a stream was idle, waiting for the host, for a launch, or for anything else; and how far
    off these may be in HTA. HTA keeps moments as µs since Kineto's base in floating point, so each can be half a ns
    off, which can also change the cause."""
    causes, doubt = [0.0, 0.0, 0.0], ROUNDED
    for before, after in zip(operations, operations[1:]):
        gap = (after.start - before.end) / 1000
        is_close = after.call is not None and abs(after.call - before.end) <= 1
        doubt += HALF_NS + (gap if is_close else 0)
        if after.call is not None and after.call > before.end:
            causes[0] += gap
        else:
            causes[1 if gap < KERNEL_WAIT_US else 2] += gap
    return causes, doubt


def queue(operations):
    """Returns the points of a stream's queue, its mean and greatest length, and how many moments can be ordered either
    way."""
    counted = [o for o in operations if o.is_counted]
    moments = sorted([(o.call, 1) for o in counted] + [(o.start, -1) for o in counted])
    length, lengths = 0, []
    for _, change in moments:
        length += change
        lengths.append(length)
    ties = sum(a[0] == b[0] and a[1] != b[1] for a, b in zip(moments, moments[1:]))
    return (len(lengths), sum(lengths) / len(lengths), max(lengths), ties) if lengths else None


def times(streams):
    """Returns the µs and the count of the operations of each name."""
    total = defaultdict(lambda: [0.0, 0])
    for o in (o for operations in streams for o in operations):
        total[o.name][0] += (o.end - o.start) / 1000
        total[o.name][1] += 1
    return total


def fail(what, ours, theirs):
    sys.exit(f"HTA and gpuspy differ in {what}:\n  gpuspy: {ours}\n  HTA:    {theirs}")


def same(what, ours, theirs, close=CLOSE):
    """Compares two lists of rows of numbers."""
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        fail(what, ours, theirs)
    for a, b in zip(ours, theirs):
        if any(abs(x - y) > max(close, CLOSE * abs(x)) for x, y in zip(a, b)):
            fail(what, a, b)


def classes(report, theirs, doubt):
    """Compares the classes of idle time in the report with the sums over HTA's streams, in µs. They may differ by 0.1 % and
    by what HTA rounds."""
    with open(report) as file:
        hta = json.load(file)["idle"]["hta"]
    ours = [hta[f"{name}_ns"] / 1000 for name in ("host_wait", "kernel_wait", "other")]
    theirs = [sum(row[cause] for row in theirs.values()) for cause in range(3)]
    for a, b in zip(ours, theirs):
        if abs(a - b) > max(doubt, 0.001 * sum(theirs)):
            fail("the report's idle classes", ours, theirs)


def main(export, operations, report):
    for level in ("standard", "complete"):
        is_valid, complaints = validate_trace_format(export, level)
        if not is_valid:
            sys.exit(f"HTA does not take the export: {complaints}")
    syncs = synchronises(export)
    hta = TraceAnalysis(trace_files={0: export})
    streams, order = by_stream(operations), numbers(export)

    found, _ = hta.get_idle_time_breakdown(ranks=[0], visualize=False, consecutive_kernel_delay=KERNEL_WAIT_US)
    theirs = defaultdict(lambda: [0.0, 0.0, 0.0])
    for _, row in found.iterrows():
        cause = ["host_wait", "kernel_wait", "other"].index(row["idle_category"])
        theirs[row["stream"]][cause] = float(row["idle_time"])
    doubts = 0
    for (causes, doubt), stream in zip(map(idle, streams), order):
        same("idle time", [causes], [theirs[stream]], doubt)
        doubts += doubt
    classes(report, theirs, doubts)

    _, found = hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1 << 20, include_memory_kernels=True)
    theirs = defaultdict(float)
    for _, row in found.iterrows():
        name = row["name"]
        prefix = len("Memcpy HtoD") if name.startswith("Memcpy") else len("Memset") if name.startswith("Memset") else None
        theirs[name[:prefix]] += row["sum (us)"]
    ours = {name: us for name, (us, _) in times(streams).items()}
    if ours.keys() != theirs.keys():
        fail("names of operations", sorted(ours), sorted(theirs))
    same("time by kernel", [[ours[name]] for name in sorted(ours)], [[theirs[name]] for name in sorted(ours)])

    ours = {stream: queue(operations) for stream, operations in zip(order, streams)}
    ours = {stream: row for stream, row in ours.items() if row}
    found = hta.get_queue_length_summary(ranks=[0])
    rows = [] if found is None else [(index[1], row["queue_length"]) for index, row in found.iterrows()]
    theirs = {stream: (int(row["count"]), float(row["mean"]), int(row["max"])) for stream, row in rows}
    if ours.keys() != theirs.keys():
        fail("streams with queues", sorted(ours), sorted(theirs))
    for stream, (count, mean, longest, ties) in ours.items():
        # If a launch and a start have the same moment, HTA orders them arbitrarily.
        same("lengths of queues", [[count, mean, longest]], [theirs[stream]], ties or CLOSE)

    for analysis in (
        lambda: hta.get_temporal_breakdown(visualize=False),
        lambda: hta.get_comm_comp_overlap(visualize=False),
        lambda: hta.get_memory_bw_summary(ranks=[0]),
        lambda: hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False),
    ):
        analysis()
    print(f"HTA agrees: {sum(map(len, streams))} operations of {len(streams)} streams, {len(ours)} queues, {syncs} synchronises")


if __name__ == "__main__":
    main(*sys.argv[1:])
