"""Small rules that no document states, with one test each."""
import ctypes
import threading
from ctypes import byref, c_float, c_size_t, c_uint64, c_void_p

from cuda import Context, CudaError


def without_context(cuda):
    """Makes event calls from a thread that has no current context."""
    stream, event, answers = cuda.stream(), cuda.event(), {}
    cuda.record(event, stream)
    cuda.synchronize(stream)

    def ask():
        ms = c_float()
        answers["cuEventQuery"] = cuda.driver.result("cuEventQuery", event)
        answers["cuEventSynchronize"] = cuda.driver.result("cuEventSynchronize", event)
        answers["cuEventElapsedTime"] = cuda.driver.result("cuEventElapsedTime", byref(ms), event, event)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return answers


def in_host_function(cuda):
    """Makes CUDA calls inside a function that a stream calls."""
    stream, event, answers = cuda.stream(), cuda.event(), {}
    cuda.record(event, stream)
    cuda.synchronize(stream)

    @ctypes.CFUNCTYPE(None, c_void_p)
    def function(_):
        answers["cuEventQuery"] = cuda.driver.result("cuEventQuery", event)
        answers["cuEventCreate"] = cuda.driver.result("cuEventCreate", byref(c_void_p()), 0)

    cuda.driver.call("cuLaunchHostFunc", stream, ctypes.cast(function, c_void_p), 0)
    cuda.synchronize(stream)
    return answers


def copies_in_capture(cuda):
    """Returns [the result of a copy of pageable memory on the captured stream, the result of the capture's end]."""
    stream, graph = cuda.stream(), c_void_p()
    memory = cuda.driver.out(c_uint64, "cuMemAlloc_v2", 4096)
    source = ctypes.create_string_buffer(4096)
    cuda.driver.call("cuStreamBeginCapture_v2", stream, 0)
    code = cuda.driver.result("cuMemcpyHtoDAsync_v2", memory, ctypes.addressof(source), c_size_t(4096), stream)
    return [code, cuda.driver.result("cuStreamEndCapture", stream, byref(graph))]


def context_ids(cuda):
    """Returns cuCtxGetId of the current context, streams' ids in the order of their creation, and handles that were
    reused."""
    number = c_uint64()
    context = [cuda.driver.result("cuCtxGetId", cuda.handle, byref(number)), number.value]
    streams = [cuda.stream() for _ in range(4)]
    numbers = []
    for stream in streams:
        cuda.driver.call("cuStreamGetId", stream, byref(number))
        numbers.append(number.value)
    cuda.driver.call("cuStreamDestroy_v2", streams[-1])
    return {"context": context, "streams": numbers, "handle_given_again": cuda.stream() == streams[-1]}


def copy_speed(cuda):
    """Returns MB/s of copies and memsets of 64 MiB, and the ns that small ones take, measured by events after a
    spin."""
    size, small = 64 << 20, 4096
    stream, first, second = cuda.stream(), cuda.event(), cuda.event()
    device = [cuda.driver.out(c_uint64, "cuMemAlloc_v2", size) for _ in range(2)]
    pinned = cuda.driver.out(c_void_p, "cuMemHostAlloc", size, 0)
    pageable = ctypes.addressof(keep := ctypes.create_string_buffer(size))
    call, found = cuda.driver.call, {}
    copies = {
        "pinned to device": lambda n: call("cuMemcpyHtoDAsync_v2", device[0], pinned, c_size_t(n), stream),
        "device to pinned": lambda n: call("cuMemcpyDtoHAsync_v2", pinned, device[0], c_size_t(n), stream),
        "pageable to device": lambda n: call("cuMemcpyHtoDAsync_v2", device[0], pageable, c_size_t(n), stream),
        "inside the device": lambda n: call("cuMemcpyDtoDAsync_v2", device[1], device[0], c_size_t(n), stream),
        "set": lambda n: call("cuMemsetD8Async", device[0], 0, c_size_t(n), stream),
    }
    for name, copy in copies.items():
        for bytes_ in (size, small):
            copy(bytes_)
            cuda.launch(stream, 500_000)
            cuda.record(first, stream)
            copy(bytes_)
            cuda.record(second, stream)
            cuda.synchronize(stream)
            ns = cuda.elapsed_ns(first, second)
            found.setdefault(name, {})[f"{bytes_} bytes"] = {"ns": ns, "MB/s": round(bytes_ * 1000 / max(1, ns))}
    del keep
    return found


def run(report):
    cuda, found = Context(), {}
    # The call that a driver may never return from comes last.
    for question in (without_context, copies_in_capture, context_ids, copy_speed, in_host_function):
        try:
            found[question.__name__] = question(cuda)
        except (CudaError, AttributeError) as error:
            found[question.__name__] = {"error": str(error)}
        report(found)


def words(found):
    speeds = found.get("copy_speed", {}).items()
    return [f"{name}: {answer}" for name, answer in found.items() if name != "copy_speed"] + [
        f"{name}: " + ", ".join(f"{size} {row['MB/s']} MB/s" for size, row in rows.items()) for name, rows in speeds
    ]
