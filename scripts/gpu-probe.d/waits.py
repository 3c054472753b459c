"""Which calls wait for unrelated work? A stream waits for a gate; each call is made while the gate is closed, and a
second thread opens it when the call has been stuck for some time.

Module loading is tested lazily and eagerly; the gate is a wait for a value, or a kernel that spins.
"""
import ctypes
from ctypes import c_char_p, c_size_t, c_void_p

from children import child as ask
from children import is_quick
from cuda import DISABLE_TIMING, NON_BLOCKING, PTX, TIMING, Context, CudaError
from gates import Gate, Stuck

# A call that has not returned after this many seconds is waiting for the gate.
STUCK_SECONDS = 0.03 if is_quick() else 0.15
BLOCKING = 0


class Calls:
    """The calls to test. What a call needs is created before the gate is closed."""

    def __init__(self, cuda, gated):
        self.cuda, self.driver, self.gated = cuda, cuda.driver, gated
        self.stream = cuda.stream()
        self.doomed = cuda.stream()
        self.event = cuda.event()
        cuda.record(self.event, self.stream)
        self.memory = [cuda.driver.out(ctypes.c_uint64, "cuMemAlloc_v2", 4 << 20) for _ in range(2)]
        self.pageable = ctypes.create_string_buffer(4 << 20)
        self.host = cuda.driver.out(c_void_p, "cuMemHostAlloc", 4096, 0)
        self.module = self.function = None

    def load(self):
        self.module = self.driver.out(c_void_p, "cuModuleLoadData", PTX[0])

    def get_function(self):
        self.function = self.driver.out(c_void_p, "cuModuleGetFunction", self.module, c_char_p(b"probe_spin_argns"))

    def first_launch(self):
        self.cuda.launch(self.stream, 1, self.function)

    def unload(self):
        self.driver.call("cuModuleUnload", self.module)

    def load_library(self):
        self.driver.out(c_void_p, "cuLibraryLoadData", PTX[0], None, None, 0, None, None, 0)

    def copy_pageable(self, size):
        """Makes the copy on the gated stream: a staged copy returns without waiting."""
        self.driver.call("cuMemcpyHtoDAsync_v2", self.memory[0], ctypes.addressof(self.pageable), c_size_t(size), self.gated)

    def all(self):
        """Returns the calls by name; those about modules follow each other."""
        call = self.driver.call
        return {
            "launch on another stream": lambda: self.cuda.launch(self.stream),
            "cuModuleLoadData": self.load,
            "cuModuleGetFunction": self.get_function,
            "first launch of its kernel": self.first_launch,
            "cuModuleUnload": self.unload,
            "cuLibraryLoadData": self.load_library,
            "cuStreamSynchronize of another stream": lambda: self.cuda.synchronize(self.stream),
            "cuStreamSynchronize of the legacy stream": lambda: self.cuda.synchronize(0),
            "cuEventCreate": lambda: self.cuda.event(TIMING),
            "cuEventCreate, timing disabled": lambda: self.cuda.event(DISABLE_TIMING),
            "cuEventDestroy": lambda: call("cuEventDestroy_v2", self.event),
            "cuStreamCreate": lambda: self.cuda.driver.out(c_void_p, "cuStreamCreate", NON_BLOCKING),
            "cuStreamDestroy": lambda: call("cuStreamDestroy_v2", self.doomed),
            "cuMemAlloc": lambda: self.driver.out(c_void_p, "cuMemAlloc_v2", 1 << 20),
            "cuMemcpyHtoDAsync of 32 KiB, pageable, gated": lambda: self.copy_pageable(32 << 10),
            "cuMemcpyHtoDAsync of 64 KiB, pageable, gated": lambda: self.copy_pageable(64 << 10),
            "cuMemcpyHtoDAsync of 4 MiB, pageable, gated": lambda: self.copy_pageable(4 << 20),
            "cuMemHostAlloc": lambda: self.driver.out(c_void_p, "cuMemHostAlloc", 1 << 20, 0),
            "cuMemFreeHost": lambda: call("cuMemFreeHost", self.host),
            "cuMemFree": lambda: call("cuMemFree_v2", self.memory[1]),
        }


def child(argument, report):
    """`argument`: the kind of gate."""
    cuda = Context()
    gate = Gate(cuda, argument == "kernel", 60_000_000 if is_quick() else 3_000_000_000)
    gated = cuda.driver.out(c_void_p, "cuStreamCreate", BLOCKING)
    calls = Calls(cuda, gated)
    cuda.launch(gated)
    cuda.driver.call("cuCtxSynchronize")
    found = {}
    for name, function in calls.all().items():
        try:
            with Stuck(gate, STUCK_SECONDS) as stuck:
                gate.close(gated)
                _, seconds = stuck.call(function)
                found[name] = {"waited": stuck.was_stuck, "us": round(seconds * 1e6, 1)}
        except (CudaError, AttributeError) as error:
            found[name] = {"error": str(error)}
        finally:
            cuda.synchronize(gated)
        report(found)


def run(report):
    found = {}
    for gate, loading in (("value", "LAZY"), ("kernel", "LAZY"), ("kernel", "EAGER")):
        key = f"behind a {gate}, {loading.lower()} loading"
        found[key] = ask("waits", gate, 20, CUDA_MODULE_LOADING=loading)
        report(found)


def words(found):
    lines = []
    for how, rows in found.items():
        if isinstance(rows, dict):
            waited = [name for name, row in rows.items() if isinstance(row, dict) and row.get("waited")]
            lines.append(f"{how}, these wait: {', '.join(waited) or 'none'}")
    return lines
