"""Runs a program in one of the modes, and reads what it and gpuspy printed."""
import json
import os
import sys
import tempfile
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu-session.d"))

import limited

SKIPPED = 77
# The least time limit of a run, in seconds.
LEAST_SECONDS = 3
# How many lines of stderr are kept from a run that failed.
TAIL = 12
# The time limit for printing a trace's operations, in seconds.
READ_SECONDS = 30


class Failed(Exception):
    """A run that gave no result, and why; `tail` has the last lines of its stderr."""

    def __init__(self, why, tail=()):
        super().__init__(why)
        self.tail = list(tail)


class NotHere(Exception):
    """The program reports that it cannot run on this machine, and why."""


class Budget:
    """The seconds that are left for everything."""

    def __init__(self, seconds):
        self.began = time.monotonic()
        self.seconds = seconds

    def spent(self):
        return time.monotonic() - self.began

    def left(self):
        return self.seconds - self.spent()


def execute(command, seconds, environment, folder):
    """Runs a command in a process group of its own, for at most this many seconds."""
    if seconds < LEAST_SECONDS:
        raise Failed("no time left")
    ended = limited.run(command, seconds, environment, folder)
    if ended.code is None:
        raise Failed(ended.why, ended.errors.strip().splitlines()[-TAIL:])
    return ended


class Run:
    """A finished run: what the program printed; with gpuspy, its report and operations; with torch.profiler, its
    trace."""

    def __init__(self, said):
        self.said, self.report, self.operations, self.profile = said, None, None, None


class Runner:
    """Runs programs in modes, and writes everything into `folder`."""

    def __init__(self, gpuspy, folder, budget, quick):
        self.gpuspy, self.folder, self.budget, self.quick = gpuspy, folder, budget, quick
        caches = {
            "CUDA_CACHE_PATH": "cuda",
            "CUPY_CACHE_DIR": "cupy",
            "NUMBA_CACHE_DIR": "numba",
            "TORCHINDUCTOR_CACHE_DIR": "inductor",
            "TRITON_CACHE_DIR": "triton",
            "WARP_CACHE_PATH": "warp",
            "XDG_CACHE_HOME": "others",
        }
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GPUSPY")},
            **{name: os.path.join(folder, "cache", place) for name, place in caches.items()},
            # Compiles in the process itself: helper processes would be recorded as well.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }

    def run(self, part, mode, read, seconds):
        """Makes one run of at most this many seconds. Without `read` only the time of a step is of interest."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            profile, trace = os.path.join(place, "profile.json"), os.path.join(place, "trace.gspy")
            timing = mode.rpartition("+")[2]
            command = list(part.command)
            if self.quick:
                command.append("--quick")
            if mode.startswith("profiler"):
                command += ["--profile", profile]
            if timing not in ("plain", "profiler"):
                ours = [self.gpuspy, "run", "--timing", timing, "--quiet", "--no-report", "-o", trace]
                command = [*ours, *(["--json"] if read else []), "--", *command]
            ended = execute(command, min(seconds, self.budget.left()), self.environment, place)
            run = Run(limited.last_document(ended.output))
            if ended.code == SKIPPED:
                raise NotHere((run.said or {}).get("skip", ended.last_error() or "it says no more"))
            if ended.code != 0 or not run.said or "step_ns" not in run.said:
                how, words = ended.why or "exit 0", ended.last_error()
                tail = ended.errors.strip().splitlines()[-TAIL:]
                raise Failed(f"{how}: {words}" if words else f"{how}, and no line of JSON", tail)
            if read and os.path.exists(trace):
                with open(os.path.join(place, "trace.json"), encoding="utf-8") as file:
                    run.report = json.load(file)
                run.operations = self.read_operations(trace)
            elif read and timing not in ("plain", "profiler"):
                raise Failed("gpuspy wrote no trace")
            if read and mode.startswith("profiler"):
                with open(profile, encoding="utf-8", errors="replace") as file:
                    run.profile = json.load(file, strict=False)
            return run

    def read_operations(self, trace):
        command = [self.gpuspy, "report", trace, "--operations"]
        ended = execute(command, READ_SECONDS, self.environment, self.folder)
        if ended.code != 0:
            raise Failed(f"report --operations: {ended.words()}")
        return [json.loads(line) for line in ended.output.splitlines()]
