"""Times calls from C if there is a compiler, otherwise from Python."""
import ctypes
import os
import shutil
import time
from ctypes import c_int32, c_int64, c_uint64, c_void_p

import limited

HERE = os.path.dirname(os.path.abspath(__file__))


def compiler():
    return shutil.which("gcc") or shutil.which("cc")


def build(source, output, *options):
    """Compiles a shared object from a source beside this file. Returns its path; raises with the compiler's message."""
    if not compiler():
        raise RuntimeError("no C compiler")
    path = os.path.join(os.environ["GPU_PROBE_BUILD"], output)
    command = [compiler(), "-O2", "-shared", "-fPIC", "-o", path, os.path.join(HERE, source), *options]
    if not os.path.exists(path):
        built = limited.run(command, 30)
        if built.why:
            raise RuntimeError(f"{built.why}: {built.errors.strip()[-500:]}")
    return path


class Call(ctypes.Structure):
    """sequence.c: struct call."""

    _fields_ = [("function", c_void_p), ("repeat", c_int64), ("arguments", c_uint64 * 12)]


class Sequencer:
    """Runs calls back to back and records when each one returned (CLOCK_MONOTONIC_RAW, ns)."""

    def __init__(self):
        try:
            self.library = ctypes.CDLL(build("sequence.c", "sequence.so"))
            self.host = "c"
        except (RuntimeError, OSError) as error:
            self.library = None
            self.host = f"python ({error})"

    def address(self, name):
        """Returns the address of a function of sequence.c, which is to be timed itself; None without a compiler."""
        return self.library and ctypes.cast(getattr(self.library, name), c_void_p).value

    def run(self, calls):
        """`calls`: (address, arguments) or (address, arguments, repeat). Returns the times and the worst results."""
        table = (Call * len(calls))()
        for entry, (function, arguments, *repeat) in zip(table, calls):
            entry.function = function
            entry.repeat = repeat[0] if repeat else 1
            for n, argument in enumerate(arguments):
                entry.arguments[n] = (argument or 0) & (1 << 64) - 1
        times, results = (c_uint64 * (len(calls) + 1))(), (c_int32 * len(calls))()
        if self.library:
            self.library.sequence(table, c_int64(len(calls)), times, results)
        else:
            self._run_here(table, times, results)
        return list(times), list(results)

    @staticmethod
    def _run_here(table, times, results):
        prototype = ctypes.CFUNCTYPE(c_int32, *[c_uint64] * 12)
        ready = [(prototype(entry.function), entry.repeat, list(entry.arguments)) for entry in table]
        clock = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        times[0] = clock()
        for n, (function, repeat, arguments) in enumerate(ready):
            results[n] = max(function(*arguments) for _ in range(repeat))
            times[n + 1] = clock()


def spread(values):
    """Returns percentiles of a list of numbers."""
    ordered = sorted(values)
    at = lambda part: ordered[min(len(ordered) - 1, int(part * len(ordered)))]
    return {"n": len(ordered), "min": ordered[0], "p10": at(0.1), "median": at(0.5), "p90": at(0.9), "max": ordered[-1]}
