"""What NVIDIA's documents leave unclear: may one call unmap several mappings, where may an event be recorded if there
are green contexts, does a batch of copies end a capture, and when do the events of a launch fire?

Each question runs in a process of its own. An answer is "ok", "refused: " with the driver's error, or "not exported".
"""
import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from children import child as ask
from children import kept
from cuda import (
    CAPTURE_GLOBAL,
    CAPTURE_RELAXED,
    DISABLE_TIMING,
    NON_BLOCKING,
    PTX,
    PTX_TRIGGER,
    SPIN,
    Context,
    LaunchAttribute,
    LaunchConfig,
)

# cuda.h: CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOC_GRANULARITY_MINIMUM
PINNED, ON_DEVICE, LEAST_GRANULARITY = 1, 1, 0
# cuda.h: CU_DEV_RESOURCE_TYPE_SM, CU_GREEN_CTX_DEFAULT_STREAM
MULTIPROCESSORS, DEFAULT_STREAM = 1, 1
# cuda.h: CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
IN_STREAM_ORDER = 1
# cuda.h: CUlaunchAttributeID
PROGRAMMATIC_EVENT, LAUNCH_COMPLETION_EVENT = 7, 12
# A CUdevResource has 144 bytes and starts with its type; the driver fills it in. sm.smCount is at byte 96.
RESOURCE_BYTES, MULTIPROCESSOR_COUNT = 1024, 96
# How long the kernels run whose events are compared.
GREEN_NS, LAUNCH_NS = 50_000, 2_000_000
TIMES = "[fired, kernel's end] ns"


def said(cuda, name, *arguments):
    """Makes a call, and returns its answer."""
    if not cuda.driver.function(name):
        return "not exported"
    code = cuda.driver.result(name, *arguments)
    return f"refused: {code}" if code else "ok"


class Location(ctypes.Structure):
    """cuda.h: CUmemLocation."""

    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationProperties(ctypes.Structure):
    """cuda.h: CUmemAllocationProp."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("windows", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class Mapped:
    """Reserved addresses of which each part is mapped to memory of its own."""

    def __init__(self, cuda, parts):
        self.cuda, self.call = cuda, cuda.driver.call
        properties = AllocationProperties(type=PINNED, location=Location(ON_DEVICE, cuda.device))
        self.unit = cuda.driver.out(c_size_t, "cuMemGetAllocationGranularity", byref(properties), LEAST_GRANULARITY)
        self.size = self.unit * sum(parts)
        self.address = cuda.driver.out(c_uint64, "cuMemAddressReserve", self.size, 0, 0, 0)
        at = self.address
        for units in parts:
            handle = cuda.driver.out(c_uint64, "cuMemCreate", units * self.unit, byref(properties), 0)
            self.call("cuMemMap", at, units * self.unit, 0, handle, 0)
            # The mapping keeps the memory.
            self.call("cuMemRelease", handle)
            at += units * self.unit

    def unmap(self, first, units):
        return said(self.cuda, "cuMemUnmap", self.address + first * self.unit, units * self.unit)


def unmap_many(cuda, report):
    """Unmaps two mappings in one call, half of a mapping, and one mapping with half of the next. What is still mapped
    after it is shown by unmapping the parts."""
    found = {}
    for name, parts, unmapped, after in (
        ("two mappings", (1, 1), (0, 2), ((0, 1), (1, 1))),
        ("half of a mapping", (2,), (0, 1), ((0, 2), (1, 1))),
        ("a mapping and half of the next", (1, 2), (0, 2), ((0, 1), (1, 2))),
    ):
        mapped = Mapped(cuda, parts)
        found[name] = {"answer": mapped.unmap(*unmapped)}
        report(found)
        found[name]["then its parts"] = [mapped.unmap(*part) for part in after]
        found[name]["then cuMemAddressFree"] = said(cuda, "cuMemAddressFree", mapped.address, mapped.size)
        report(found)


class Green:
    """A green context on some of the multiprocessors, and streams of all kinds."""

    def __init__(self, cuda):
        self.cuda, self.driver = cuda, cuda.driver
        whole, part, rest = ((c_uint64 * (RESOURCE_BYTES // 8))() for _ in range(3))
        call, out = self.driver.call, self.driver.out
        call("cuDeviceGetDevResource", cuda.device, byref(whole), MULTIPROCESSORS)
        count = c_uint(1)
        call("cuDevSmResourceSplitByCount", byref(part), byref(count), byref(whole), byref(rest), 0, 16)
        self.multiprocessors = c_uint.from_buffer(part, MULTIPROCESSOR_COUNT).value
        description = out(c_void_p, "cuDevResourceGenerateDesc", byref(part), 1)
        self.handle = out(c_void_p, "cuGreenCtxCreate", description, cuda.device, DEFAULT_STREAM)
        self.context = out(c_void_p, "cuCtxFromGreenCtx", self.handle)
        self.contexts = {"primary": cuda.handle, "green": self.context}
        self.streams = {
            "primary": cuda.stream(),
            "green": out(c_void_p, "cuGreenCtxStreamCreate", self.handle, NON_BLOCKING, 0),
        }
        with self.current("green"):
            self.streams["made in green"] = cuda.stream()

    def current(self, name):
        return Current(self, name)


class Current:
    """Makes the primary or the green context current, and the primary one again at the end."""

    def __init__(self, green, name):
        self.green, self.name = green, name

    def __enter__(self):
        self.green.driver.call("cuCtxSetCurrent", self.green.contexts[self.name])

    def __exit__(self, *_):
        self.green.driver.call("cuCtxSetCurrent", self.green.contexts["primary"])


def label(names, handle):
    """Returns what a handle is called."""
    return {**names, None: "none"}.get(handle, "another handle")


def green_streams(cuda, report):
    """Queries what the streams of a green context are, with either context current."""
    green = Green(cuda)
    found = {"multiprocessors": green.multiprocessors, "streams": {}, "ids": {}}
    contexts, greens = {handle: name for name, handle in green.contexts.items()}, {green.handle: "green"}
    report(found)
    number, first, second = c_uint64(), c_void_p(), c_void_p()
    for name, stream in green.streams.items():
        for current in green.contexts:
            row = found["streams"][f"{name} stream, {current} context current"] = {}
            with green.current(current):
                answer = said(cuda, "cuStreamGetCtx", stream, byref(first))
                row["cuStreamGetCtx"] = [answer, label(contexts, first.value)]
                report(found)
                first.value = None
                row["cuStreamGetCtx_v2"] = [
                    said(cuda, "cuStreamGetCtx_v2", stream, byref(first), byref(second)),
                    label(contexts, first.value),
                    label(greens, second.value),
                ]
                first.value = second.value = None
                report(found)
                row["cuStreamGetId"] = [said(cuda, "cuStreamGetId", stream, byref(number)), number.value]
                number.value = 0
            report(found)
    for name, handle in green.contexts.items():
        found["ids"][f"cuCtxGetId, {name}"] = [said(cuda, "cuCtxGetId", handle, byref(number)), number.value]
    number.value = 0
    found["ids"]["cuGreenCtxGetId"] = [said(cuda, "cuGreenCtxGetId", green.handle, byref(number)), number.value]
    report(found)
    found["cuGreenCtxRecordEvent of the primary context's event"] = said(
        cuda, "cuGreenCtxRecordEvent", green.handle, cuda.event(DISABLE_TIMING)
    )
    report(found)


def green_events(cuda, report, made, streamed):
    """Records events that were made in one context on a stream of another, around a kernel, with either context
    current; then queries them with either current."""
    green = Green(cuda)
    stream = green.streams[streamed]
    with green.current("green"):
        module = cuda.load(*PTX)
        functions = {"primary": cuda.spin_function, "green": cuda.get_function(module, SPIN.encode())}
    found = {}
    for current in green.contexts:
        row = found[f"{current} context current"] = {}
        with green.current(made):
            before, first, second = cuda.event(), cuda.event(), cuda.event()
        row["record on the primary stream"] = said(cuda, "cuEventRecord", before, green.streams["primary"])
        with green.current(current):
            row["record"] = said(cuda, "cuEventRecord", first, stream)
            report(found)
            for module, function in functions.items():
                launch = cuda.launch_arguments(stream, GREEN_NS, function)
                row[f"launch of the {module} context's function"] = said(cuda, "cuLaunchKernel", *launch)
                report(found)
            row["record after it"] = said(cuda, "cuEventRecord", second, stream)
            row["wait"] = said(cuda, "cuStreamSynchronize", stream)
            report(found)
        cuda.synchronize(green.streams["primary"])
        for asking in green.contexts:
            with green.current(asking):
                row[f"query, {asking} current"] = said(cuda, "cuEventQuery", second)
                ms = ctypes.c_float(-1)
                for name, start in (("elapsed", first), ("elapsed from the primary stream", before)):
                    answer = said(cuda, "cuEventElapsedTime", byref(ms), start, second)
                    row[f"{name}, {asking} current"] = [answer, round(ms.value * 1e6)]
                    ms.value = -1
            report(found)


class CopyAttributes(ctypes.Structure):
    """cuda.h: CUmemcpyAttributes."""

    _fields_ = [("order", c_int), ("from_hint", Location), ("to_hint", Location), ("flags", c_uint)]


def batch_in_capture(cuda, report):
    """Makes a batch of two copies, outside a capture and on a captured stream, with CUDA 12.8's function and with CUDA
    13's. If the capture still ends well, it survived."""
    stream, found = cuda.stream(), {}
    memory = [cuda.driver.out(c_uint64, "cuMemAlloc_v2", 4096) for _ in range(4)]
    to, of, sizes = (c_uint64 * 2)(*memory[:2]), (c_uint64 * 2)(*memory[2:]), (c_size_t * 2)(4096, 4096)
    attributes, starts, failed = CopyAttributes(order=IN_STREAM_ORDER), c_size_t(0), c_size_t(0)
    # CUDA 13's function lacks the index of the copy that failed.
    for name, index in (("cuMemcpyBatchAsync", (byref(failed),)), ("cuMemcpyBatchAsync_v2", ())):
        batch = (byref(to), byref(of), byref(sizes), 2, byref(attributes), byref(starts), 1, *index, stream)
        row = found[name] = {"outside a capture": said(cuda, name, *batch)}
        cuda.synchronize(stream)
        report(found)
        for mode, number in (("global", CAPTURE_GLOBAL), ("relaxed", CAPTURE_RELAXED)):
            graph, status, nodes = c_void_p(), c_int(-1), c_size_t(0)
            cuda.driver.call("cuStreamBeginCapture_v2", stream, number)
            inside = row[f"in a {mode} capture"] = {}
            inside["launch"] = said(cuda, "cuLaunchKernel", *cuda.launch_arguments(stream))
            inside["batch"] = said(cuda, name, *batch)
            report(found)
            cuda.driver.result("cuStreamIsCapturing", stream, byref(status))
            inside["status"] = {0: "none", 1: "active", 2: "invalidated"}.get(status.value, status.value)
            inside["end"] = said(cuda, "cuStreamEndCapture", stream, byref(graph))
            inside["nodes"] = graph.value and [said(cuda, "cuGraphGetNodes", graph, 0, byref(nodes)), nodes.value]
            report(found)


def launch_event(cuda, function, attribute, start, other, stream):
    """Launches a kernel with an event, and returns the ns from before the kernel to what waited for the event on
    another stream, and to the kernel's end."""
    before, fired, after = cuda.event(), cuda.event(), cuda.event()
    event = cuda.event(DISABLE_TIMING)
    # CUlaunchAttributeValue: the event, its flags, and whether it fires at each block's start.
    launch = LaunchAttribute(id=attribute)
    c_uint64.from_buffer(launch, LaunchAttribute.value.offset).value = event
    c_int.from_buffer(launch, LaunchAttribute.value.offset + 12).value = start
    config = LaunchConfig((1, 1, 1), (1, 1, 1), 0, stream, ctypes.pointer(launch), int(attribute > 0))
    # All is queued before the kernel starts.
    cuda.launch(stream, LAUNCH_NS)
    cuda.record(before, stream)
    answer = said(cuda, "cuLaunchKernelEx", byref(config), function, cuda.spin_parameters(LAUNCH_NS), 0)
    if not attribute:
        cuda.record(event, stream)
    cuda.record(after, stream)
    waited = said(cuda, "cuStreamWaitEvent", other, event, 0)
    cuda.record(fired, other)
    for each in (stream, other):
        cuda.synchronize(each)
    times = [cuda.elapsed_ns(before, fired), cuda.elapsed_ns(before, after)]
    return {"launch": answer, "wait": waited, TIMES: times}


def launch_events(cuda, report):
    """Measures when the events of a launch fire: what waits for them on another stream then records its own event."""
    stream, other, found = cuda.stream(), cuda.stream(), {}
    functions = {"plain": cuda.spin_function}
    if cuda.capability() >= 90:
        functions["triggers at once"] = cuda.get_function(cuda.load(PTX_TRIGGER), b"probe_trigger1_argns")
        cuda.launch(stream, 1_000, functions["triggers at once"])
        cuda.synchronize(stream)
    for kernel, function in functions.items():
        for name, attribute, start in (
            ("a record after it", 0, 0),
            ("launch completion event", LAUNCH_COMPLETION_EVENT, 0),
            ("programmatic event", PROGRAMMATIC_EVENT, 0),
            ("programmatic event at block start", PROGRAMMATIC_EVENT, 1),
        ):
            rows = [launch_event(cuda, function, attribute, start, other, stream) for _ in range(3)]
            found[f"{kernel} kernel, {name}"] = rows
            report(found)


MADE, STREAMED = ("primary", "green"), ("primary", "green", "made in green")
QUESTIONS = {
    "unmap_many": unmap_many,
    "batch_in_capture": batch_in_capture,
    "launch_events": launch_events,
    "green_streams": green_streams,
}
for _made in MADE:
    for _streamed in STREAMED:
        QUESTIONS[f"green_events, event of {_made}, stream {_streamed}"] = (
            lambda cuda, report, made=_made, streamed=_streamed: green_events(cuda, report, made, streamed)
        )


def child(question, report):
    cuda = Context()
    kept(lambda keep: QUESTIONS[question](cuda, keep), report)


def run(report):
    found = {}
    for question in QUESTIONS:
        found[question] = ask("unclear", question, 10)
        report(found)


def refusals(rows, where=()):
    """Returns what was refused, with its place in the rows."""
    if isinstance(rows, str):
        return [f"{', '.join(where)}: {rows}"] if rows.startswith(("refused", "not exported")) else []
    inside = rows.items() if isinstance(rows, dict) else [("", row) for row in rows] if isinstance(rows, list) else ()
    return [line for name, row in inside for line in refusals(row, (*where, name) if name else where)]


def words(found):
    """Returns a line for each question: what was refused, how it ended if it did not answer all, and when events
    fired."""
    lines = []
    for question, rows in found.items():
        if isinstance(rows, dict):
            ended = [f"{why}: {rows[why]}" for why in ("error", "stopped") if why in rows]
            lines.append(f"{question}: " + "; ".join([*ended, *refusals(rows)] or ["nothing was refused"]))
            times = {name: row[-1] for name, row in rows.items() if isinstance(row, list) and row}
            lines += [f"    {name}: {row.get(TIMES)} ns" for name, row in times.items() if isinstance(row, dict)]
    return lines
