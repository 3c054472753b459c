"""Reads torch.profiler's trace (Kineto's, from CUPTI): which kernels ran, when, and what launched them."""
import bisect

from names import normal

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHERS = ("cuda_runtime", "cuda_driver")


class Clock:
    """Converts CLOCK_REALTIME to CLOCK_MONOTONIC_RAW, by the line through two moments known on both."""

    def __init__(self, pairs):
        (self.raw, self.real), (last_raw, last_real) = pairs
        between = last_real - self.real
        self.rate = (last_raw - self.raw) / between if between else 1.0

    def raw_ns(self, real_ns):
        # Exact as far as possible: only the small part by which the clocks' rates differ is a float.
        since = real_ns - self.real
        return self.raw + since + round(since * (self.rate - 1.0))


class Ran:
    """Something that ran on the GPU: a kernel, or a whole graph launch. Times are ns on CLOCK_MONOTONIC_RAW."""

    def __init__(self, name, stream, start, duration):
        self.name, self.stream, self.start, self.duration = name, stream, start, duration


class Profile:
    """`kernels` that were launched one by one, `graphs`: launches of graphs, `in_graphs`: names of kernels inside
    those."""

    def __init__(self, document, clocks):
        base = int(document.get("baseTimeNanoseconds", 0))
        clock = Clock(clocks)
        events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
        launchers = {}
        for event in events:
            if event.get("cat") in LAUNCHERS and "correlation" in event.get("args", {}):
                launchers[event["args"]["correlation"]] = event["name"]
        self.kernels, self.in_graphs, graphs = [], [], {}
        for event in events:
            if event.get("cat") not in ON_GPU:
                continue
            args = event.get("args", {})
            correlation = args.get("correlation")
            # Microseconds with three decimals: whole ns again.
            start = clock.raw_ns(base + round(event["ts"] * 1000))
            duration = round(event["dur"] * 1000)
            in_graph = args.get("graph id") or launchers.get(correlation, "").startswith(GRAPH_LAUNCHES)
            is_kernel = event["cat"] == "kernel"
            if in_graph:
                first, last, stream = graphs.get(correlation, (start, start, args.get("stream")))
                graphs[correlation] = (min(first, start), max(last, start + duration), stream)
                if is_kernel:
                    self.in_graphs.append(normal(event["name"]))
            elif is_kernel:
                self.kernels.append(Ran(normal(event["name"]), args.get("stream"), start, duration))
        self.kernels.sort(key=lambda kernel: kernel.start)
        whole = (Ran("graph", stream, first, last - first) for first, last, stream in graphs.values())
        self.graphs = sorted(whole, key=lambda graph: graph.start)


class Observed:
    """The same from gpuspy's operations, for those whose calls began inside a region. A line is a dict, as printed."""

    def __init__(self, lines, region=None):
        self.kernels, self.graphs, self.in_graphs = [], [], 0
        began = [line["call_start_ns"] for line in lines]
        order = sorted(range(len(lines)), key=began.__getitem__)
        if region:
            began.sort()
            order = order[bisect.bisect_left(began, region[0]) : bisect.bisect_right(began, region[1])]
        for line in map(lines.__getitem__, order):
            if line["untimed"] == "captured":
                continue
            if line["kind"] == "kernel":
                line["normal"] = normal(line["symbol"] or line["name"] or "")
                self.kernels.append(line)
            elif line["kind"] == "graph":
                line["normal"] = "graph"
                self.graphs.append(line)
                self.in_graphs += line["launches"] or 0
