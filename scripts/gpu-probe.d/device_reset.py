"""Which driver functions does cudaDeviceReset call, and what is left after it? Counted by trace.c: a reset that goes
through export tables calls no exported driver function, so a tracer of those functions cannot observe it."""
import ctypes
from ctypes import byref, c_int, c_uint, c_void_p

import native
from children import command
from cuda import Driver
from runtime_calls import runtimes, traced


def child(path, report):
    """Runs preloaded with trace.so."""
    runtime = ctypes.CDLL(path)
    driver = Driver()
    mark = ctypes.CDLL(None).probe_mark
    active, flags, current = c_int(-1), c_uint(), c_void_p()

    def state(label):
        driver.result("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(active))
        driver.result("cuCtxGetCurrent", byref(current))
        report({"label": label, "primary_context_active": active.value, "a_context_is_current": bool(current.value)})

    runtime.cudaFree(None)
    stream = c_void_p()
    runtime.cudaStreamCreateWithFlags(byref(stream), 1)
    state("before")
    mark(b"before", 0)
    code = runtime.cudaDeviceReset()
    mark(b"cudaDeviceReset", code)
    state("after")
    mark(b"after", 0)
    mark(b"cudaFree(0) again", runtime.cudaFree(None))
    state("after the next call")


def run(report):
    trace = native.build("trace.c", "trace.so", "-ldl", "-pthread")
    found = {}
    for soname, path in runtimes().items():
        found[soname] = traced(command("device_reset", path), trace)
        report(found)


def words(found):
    lines = []
    for soname, row in found.items():
        for call in row.get("calls", ()) if isinstance(row, dict) else ():
            if call.get("call") == "cudaDeviceReset":
                seen = ", ".join(f"{name} {count}" for name, count in call["driver"].items())
                lines.append(f"{soname}: {seen or 'no driver function: export tables'}")
    return lines
