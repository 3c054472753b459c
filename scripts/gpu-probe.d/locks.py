"""How long do calls of one thread wait for calls of another: for the loading of a module, and for queries of events?

The calls are timed in C (threads.c), each kind in a run of its own, so that none waits for another kind.
"""
import ctypes
import threading
import time
from ctypes import c_int32, c_int64, c_uint64, c_void_p

from children import child as ask
from children import is_quick, kept
from cuda import Context
from native import build

# A loaded module has as many kernels as take this long to compile, at most MOST of them; TRIED are loaded to find out.
LOAD_SECONDS, TRIED, MOST = (0.02, 2, 8) if is_quick() else (0.8, 8, 2000)
# Between two timed calls beside a load, and the longest that they go on.
PAUSE_NS, ROUNDS = 100_000, 30_000
ALONE_SECONDS = 0.02 if is_quick() else 0.1
# Launches of a batch, which fit into a launch queue, and the batches of a run.
BATCH, BATCHES = (20, 2) if is_quick() else (300, 10)
# Keeps an event from completing while a batch is launched.
PENDING_NS = 10_000_000


class Call(ctypes.Structure):
    """threads.c: struct call."""

    _fields_ = [("function", c_void_p), ("is_read", c_int64), ("arguments", c_uint64 * 12)]


class Threads:
    """threads.c, and threads that have the context current."""

    def __init__(self, cuda):
        self.cuda = cuda
        # Where calls write their results.
        self.words = (c_uint64 * 8)()
        self.out = ctypes.addressof(self.words)
        self.library = ctypes.CDLL(build("threads.c", "threads.so"))
        for name in ("time_calls", "repeat_call"):
            getattr(self.library, name).restype = c_int64

    def call(self, name, *arguments, is_read=0):
        """Returns a call of the driver's, or one that does nothing. None if the driver does not have it."""
        address = self.cuda.driver.function(name) if name else ctypes.cast(self.library.nothing, c_void_p).value
        values = [(getattr(each, "value", each) or 0) & (1 << 64) - 1 for each in arguments]
        return Call(address, is_read, (c_uint64 * 12)(*values)) if address else None

    def timed(self, calls, rounds, pause_ns, stop):
        """Makes the calls in turn, and returns the ns that each call took, and the worst results."""
        table = (Call * len(calls))(*calls)
        took, worst = (c_uint64 * (rounds * len(calls)))(), (c_int32 * len(calls))()
        count, pause = c_int64(len(calls)), c_uint64(pause_ns)
        made = self.library.time_calls(table, count, c_int64(rounds), pause, ctypes.byref(stop), took, worst)
        return [took[n : made * len(calls) : len(calls)] for n in range(len(calls))], list(worst)

    def repeated(self, call, stop):
        """Makes a call until it is told to stop, and returns how often."""
        return self.library.repeat_call(ctypes.byref(call), ctypes.byref(stop))

    def beside(self, function, other):
        """Runs a function on a thread of its own while `other` runs here. The function gets the word that stops it,
        which is set when `other` is done. Returns both results."""
        stop, answers = c_int32(0), []

        def run():
            self.cuda.driver.call("cuCtxSetCurrent", self.cuda.handle)
            answers.append(function(stop))

        thread = threading.Thread(target=run)
        thread.start()
        try:
            # The thread is surely there.
            time.sleep(0.005)
            done = other()
        finally:
            stop.value = 1
            thread.join()
        return answers[0], done


def summary(took, worst):
    """Returns what calls took, ns."""
    ordered = sorted(took)
    at = lambda part: ordered[min(len(ordered) - 1, int(part * len(ordered)))]
    found = {"n": len(ordered), "mean": round(sum(ordered) / len(ordered)), "longest": ordered[-1]}
    found.update(median=at(0.5), p95=at(0.95), p99=at(0.99))
    return {**found, "refused": worst} if worst else found


def big_module(kernels, capability):
    """Returns PTX whose compilation takes long and which no cache has, and the name of one of its kernels."""
    seed, parts = time.monotonic_ns() & 0xFFFFFF, []
    lines = []
    for n in range(10):
        a, b, c = n % 8, (3 * n + 1) % 8, (5 * n + 2) % 8
        lines += [f"    div.rn.f64 %d{a}, %d{b}, %d{c};", f"    sqrt.rn.f64 %d{b}, %d{a};"]
    for n in range(kernels):
        loads = [f"    ld.global.f64 %d{each}, [%o + {8 * each + 64 * ((seed + n) % 4096)}];" for each in range(8)]
        parts += [f".visible .entry probe_part{n}_{seed}_1us(.param .u64 out)", "{", "    .reg .f64 %d<8>;"]
        parts += ["    .reg .u64 %o;", "    ld.param.u64 %o, [out];", *loads, *lines]
        parts += ["    st.global.f64 [%o], %d0;", "    ret;", "}"]
    version, target = ("8.0", "sm_90") if capability >= 90 else ("7.0", "sm_70")
    head = [f".version {version}", f".target {target}", ".address_size 64"]
    return "\n".join([*head, *parts, ""]).encode() + b"\0", f"probe_part0_{seed}_1us".encode()


def load(cuda, image, name):
    """Loads a module and finds a kernel of it, and returns how long each took, in seconds. The module stays."""
    began = time.monotonic()
    module = cuda.load(image)
    loaded = time.monotonic()
    cuda.get_function(module, name)
    return loaded - began, time.monotonic() - loaded


def timed_calls(cuda, threads):
    """Returns the calls to time by name: the first of each list has the name, the others undo what it does."""
    stream, first, second = cuda.stream(), cuda.event(), cuda.event()
    for event in (first, second):
        cuda.record(event, stream)
    cuda.synchronize(stream)
    out = threads.out
    calls = {
        "cuLaunchKernel": [threads.call("cuLaunchKernel", *cuda.launch_arguments(stream))],
        "cuEventRecord": [threads.call("cuEventRecord", cuda.event(), stream)],
        "cuEventQuery": [threads.call("cuEventQuery", first)],
        "cuEventElapsedTime": [threads.call("cuEventElapsedTime", out, first, second)],
        "cuStreamQuery": [threads.call("cuStreamQuery", stream)],
        "cuMemAlloc": [threads.call("cuMemAlloc_v2", out, 4096), threads.call("cuMemFree_v2", out, is_read=1)],
        "cuEventCreate": [threads.call("cuEventCreate", out, 0), threads.call("cuEventDestroy_v2", out, is_read=1)],
    }
    return {name: each for name, each in calls.items() if all(each)}, stream


def load_lock(cuda, threads, report):
    """Times each call alone, and while another thread loads a module that takes long to compile."""
    calls, stream = timed_calls(cuda, threads)
    tried = sum(load(cuda, *big_module(TRIED, cuda.capability())))
    kernels = max(TRIED, min(MOST, round(TRIED * LOAD_SECONDS / tried)))
    found = {"kernels": kernels, f"load of {TRIED} kernels, ms": round(tried * 1000, 1), "ns": {}}
    report(found)
    for name, each in calls.items():
        row = found["ns"][name] = {}
        image = big_module(kernels, cuda.capability())
        for when, other in (
            ("alone", lambda: time.sleep(ALONE_SECONDS)),
            ("beside a load", lambda image=image: [round(1000 * seconds, 1) for seconds in load(cuda, *image)]),
        ):
            ((took, *_), worst), ms = threads.beside(
                lambda stop, each=each: threads.timed(each, ROUNDS, PAUSE_NS, stop), other
            )
            row[when] = summary(took, max(worst)) if took else {"n": 0}
            if ms:
                row["[load, find a kernel] ms"] = ms
            cuda.synchronize(stream)
        report(found)


def question_lock(cuda, threads, report):
    """Times launches and records while another thread makes one call in a tight loop."""
    stream, other = cuda.stream(), cuda.stream()
    ready, later, pending = cuda.event(), cuda.event(), cuda.event()
    for event in (ready, later, pending):
        cuda.record(event, stream)
    cuda.synchronize(stream)
    timed = {
        "cuLaunchKernel": threads.call("cuLaunchKernel", *cuda.launch_arguments(stream)),
        "cuEventRecord": threads.call("cuEventRecord", cuda.event(), stream),
    }
    loops = {
        "nothing": threads.call(None),
        "cuEventQuery, ready": threads.call("cuEventQuery", ready),
        "cuEventQuery, not ready": threads.call("cuEventQuery", pending),
        "cuEventElapsedTime": threads.call("cuEventElapsedTime", threads.out, ready, later),
        "cuStreamQuery": threads.call("cuStreamQuery", other),
    }

    def batches(call):
        took, worst, began = [], 0, time.monotonic()
        for _ in range(BATCHES):
            cuda.launch(other, PENDING_NS)
            cuda.record(pending, other)
            (values,), (code,) = threads.timed([call], BATCH, 0, c_int32(0))
            took, worst = took + values, max(worst, code)
            cuda.synchronize(stream)
            cuda.synchronize(other)
        return summary(took, worst), time.monotonic() - began

    found = {}
    for name, call in timed.items():
        row = found[f"{name}, ns"] = {"alone": batches(call)[0]}
        for asked, loop in loops.items():
            times, (took, seconds) = threads.beside(
                lambda stop, loop=loop: threads.repeated(loop, stop), lambda call=call: batches(call)
            )
            row[f"beside {asked}"] = {**took, "calls a second of the other": round(times / seconds)}
            report(found)
        row["alone again"] = batches(call)[0]
        report(found)


QUESTIONS = {"load_lock": load_lock, "question_lock": question_lock}


def child(question, report):
    cuda = Context()
    kept(lambda keep: QUESTIONS[question](cuda, Threads(cuda), keep), report)


def run(report):
    found = {}
    for loading in ("LAZY", "EAGER"):
        name = f"load_lock, {loading.lower()} loading"
        found[name] = ask("locks", "load_lock", 20, CUDA_MODULE_LOADING=loading, CUDA_CACHE_DISABLE="1")
        report(found)
        # Lazy loading may put the compilation off until a kernel is first used. If it does not, one answer is enough.
        loads = [row["[load, find a kernel] ms"] for row in found[name].get("ns", {}).values() if len(row) > 2]
        if loads and min(map(sum, loads)) > 500:
            break
    found["question_lock"] = ask("locks", "question_lock", 15)
    report(found)


def words(found):
    """Returns the median and the longest of each call, and what failed."""
    rows = {question: row for question, row in found.items() if isinstance(row, dict)}
    lines = [f"{question}: {row[why]}" for question, row in rows.items() for why in ("error", "stopped") if why in row]
    for question, row in rows.items():
        for name, when in row.get("ns", row).items():
            if isinstance(when, dict):
                times = [f"{how} {took['median']}/{took['longest']}" for how, took in when.items() if "median" in took]
                lines.append(f"{question}: {name}, median/longest ns: {'; '.join(times)}")
    return lines
