"""Which driver functions does each runtime call make? Counted by trace.c under the shared runtimes of this machine
(from Python), and under nvcc's shared and static runtimes if there is an nvcc."""
import ctypes
import glob
import json
import os
import shutil
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

import children
import limited
import native
from cuda import PTX, Driver, Context

TO_DEVICE, TO_HOST, ON_DEVICE, DEFAULT = 1, 2, 3, 4  # driver_types.h: cudaMemcpyKind


def site_packages(pattern):
    return sorted({path for entry in sys.path for path in glob.glob(os.path.join(entry, "nvidia", "*", pattern))})


def runtimes():
    """Returns shared runtimes: by soname, as a program would find them, then from where wheels and toolkits install
    them."""
    found = {}
    for soname in ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"):
        try:
            ctypes.CDLL(soname)
            found[soname] = soname
        except OSError:
            places = site_packages(f"lib/{soname}") + glob.glob(f"/usr/local/cuda*/lib64/{soname}")
            if places:
                found[soname] = places[0]
    return found


def load_runtime():
    for path in runtimes().values():
        return ctypes.CDLL(path)
    raise RuntimeError("no shared runtime found")


def kernel(runtime):
    """Returns a cudaKernel_t of the empty kernel, which cudaLaunchKernel accepts in place of a function. CUDA 12.8 and
    later."""
    library, handle = c_void_p(), c_void_p()
    for image in PTX:
        code = runtime.cudaLibraryLoadData(byref(library), image, None, None, 0, None, None, 0)
        if code == 0:
            code = runtime.cudaLibraryGetKernel(byref(handle), library, c_char_p(b"probe_empty_1us"))
            break
    if code != 0:
        raise RuntimeError(f"cudaLibraryLoadData or cudaLibraryGetKernel returned {code}")
    return handle.value


class Dim3(ctypes.Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


def child(path, _):
    """Runs with trace.so preloaded: makes the calls one by one, which prints one line for each."""
    runtime = ctypes.CDLL(path)
    mark = ctypes.CDLL(None).probe_mark
    stream, event, untimed, device, other, pool, host = (c_void_p() for _ in range(7))
    ms = ctypes.c_float()
    pageable = ctypes.create_string_buffer(4096)
    size = c_size_t(4096)
    one = Dim3(1, 1, 1)

    def call(name, *arguments, label=None):
        function = getattr(runtime, name, None)
        if function is not None:
            mark(c_char_p((label or name).encode()), function(*arguments))

    call("cudaFree", None, label="cudaFree(0), the first call")
    call("cudaStreamCreateWithFlags", byref(stream), 1)
    call("cudaEventCreate", byref(event))
    call("cudaEventCreateWithFlags", byref(untimed), 2)
    call("cudaMalloc", byref(device), size)
    call("cudaMalloc", byref(other), size)
    call("cudaMallocHost", byref(host), size)
    call("cudaMallocAsync", byref(pool), size, stream)
    try:
        function = c_void_p(kernel(runtime))
        mark(b"cudaLibraryLoadData, cudaLibraryGetKernel", 0)
        for label, to in (("stream", stream), ("null stream", c_void_p(0)), ("cudaStreamPerThread", c_void_p(2))):
            label = f"cudaLaunchKernel of a cudaKernel_t, {label}"
            call("cudaLaunchKernel", function, one, one, None, c_size_t(0), to, label=label)
    except (AttributeError, RuntimeError) as error:
        mark(c_char_p(f"kernel: {error}".encode()), -1)
    call("cudaEventRecord", event, stream)
    call("cudaEventRecord", untimed, stream, label="cudaEventRecord, timing disabled")
    call("cudaStreamWaitEvent", stream, untimed, 0)
    call("cudaEventQuery", event)
    call("cudaEventSynchronize", event)
    call("cudaEventElapsedTime", byref(ms), event, event)
    call("cudaStreamQuery", stream)
    call("cudaStreamSynchronize", stream)
    call("cudaDeviceSynchronize")
    for to, source, kind in (
        (device, pageable, TO_DEVICE),
        (pageable, device, TO_HOST),
        (other, device, ON_DEVICE),
        (other, device, DEFAULT),
    ):
        call("cudaMemcpy", to, source, size, kind, label=f"cudaMemcpy, kind {kind}")
    call("cudaMemcpy", device, pageable, c_size_t(0), TO_DEVICE, label="cudaMemcpy of no bytes")
    for to, source, kind in ((device, host, TO_DEVICE), (host, device, TO_HOST), (other, device, ON_DEVICE)):
        call("cudaMemcpyAsync", to, source, size, kind, stream, label=f"cudaMemcpyAsync, kind {kind}")
    call("cudaMemset", device, 0, size)
    call("cudaMemsetAsync", device, 0, size, stream)
    call("cudaFreeAsync", pool, stream)
    managed = c_void_p()
    call("cudaMallocManaged", byref(managed), size, c_int(1))
    call("cudaFree", managed, label="cudaFree of managed memory")
    call("cudaFree", device)
    call("cudaFreeHost", host)
    call("cudaEventDestroy", event)
    call("cudaStreamDestroy", stream)
    call("cudaDeviceReset")


def traced(command, trace, **environment):
    """Runs a client under trace.so and returns its lines, and how it ended if it did not finish."""
    env = {**os.environ, **environment, "LD_PRELOAD": trace}
    ended = limited.run(command, 20, env)
    calls = []
    for line in ended.output.splitlines():
        try:
            calls.append(json.loads(line))
        except ValueError:
            continue
    found = {"calls": calls}
    if ended.why:
        found["error"] = ended.words()
    return found


def nvcc():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin") or next(iter(site_packages("bin/nvcc")), None)


def compiled(kind, trace):
    """Builds and traces client.cu with nvcc's runtime of this kind."""
    path = os.path.join(os.environ["GPU_PROBE_BUILD"], f"client-{kind}")
    source = os.path.join(native.HERE, "client.cu")
    home = os.path.dirname(os.path.dirname(nvcc()))
    libraries = os.path.join(home, "lib64" if os.path.isdir(os.path.join(home, "lib64")) else "lib")
    architecture = f"-arch=sm_{Context().capability()}"
    command = [nvcc(), architecture, "-cudart", kind, "-L", libraries, "-o", path, source]
    built = limited.run(command, 40)
    if built.why:
        return {"error": f"nvcc: {built.why}: {(built.output + built.errors).strip()[-400:]}"}
    search = os.pathsep.join(filter(None, (os.environ.get("LD_LIBRARY_PATH"), libraries)))
    return traced([path], trace, LD_LIBRARY_PATH=search)


def run(report):
    Driver()
    trace = native.build("trace.c", "trace.so", "-ldl", "-pthread")
    found = {}
    for soname, path in runtimes().items():
        found[f"shared {soname} ({path})"] = traced(children.command("runtime_calls", path), trace)
        report(found)
    for kind in ("shared", "static") if nvcc() else ():
        found[f"nvcc {kind} ({nvcc()})"] = compiled(kind, trace)
        report(found)
    if not found:
        report({"error": "no shared runtime and no nvcc on this machine"})


def words(found):
    rows = ((name, row) for name, row in found.items() if isinstance(row, dict))
    return [f"{name}: {row.get('error') or str(len(row['calls'])) + ' calls'}" for name, row in rows]
