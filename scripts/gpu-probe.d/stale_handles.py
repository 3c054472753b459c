"""What do calls return for a handle that was destroyed? Each call runs in a process of its own, since some drivers
crash.

The handle is that of the last destroyed stream, with nothing created since, and with another stream created since
(which may have the same handle).
"""
import ctypes
from ctypes import c_uint64, c_void_p

from children import child as ask
from cuda import Context

STREAM_CALLS = ("cuStreamIsCapturing", "cuStreamGetCtx", "cuStreamGetId", "cuStreamGetFlags", "cuStreamQuery")
QUESTIONS = (*STREAM_CALLS, "cuStreamIsCapturing of another one's handle", "cuEventQuery", "cuLaunchKernel")


def child(question, report):
    cuda = Context()
    out = (c_uint64 * 8)()
    name = question.partition(" ")[0]
    if name == "cuEventQuery":
        handle = cuda.event()
        cuda.driver.call("cuEventDestroy_v2", handle)
        arguments = (handle,)
    else:
        handle = cuda.stream()
        cuda.synchronize(handle)
        cuda.driver.call("cuStreamDestroy_v2", handle)
        arguments = (handle, ctypes.addressof(out)) if name.startswith(("cuStreamIs", "cuStreamGet")) else (handle,)
    again = c_void_p(cuda.stream()).value == handle if question != name else None
    report({"result": "none: the call crashed", "handle_given_again": again})
    if name == "cuLaunchKernel":
        arguments = cuda.launch_arguments(handle)
    report({"result": cuda.driver.result(name, *arguments), "handle_given_again": again})


def run(report):
    found = {}
    for question in QUESTIONS:
        found[question] = ask("stale_handles", question, 10)
        report(found)


def words(found):
    rows = ((name, row) for name, row in found.items() if isinstance(row, dict))
    return ["; ".join(f"{name}: {row.get('error', row.get('result'))}" for name, row in rows)]
