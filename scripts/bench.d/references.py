"""What other tracers and analysers cost, beside gpuspy in one run: a tracepoint of LTTng-UST beside what the agent adds to a
launch, and Holistic Trace Analysis (HTA) beside a report, of the same trace."""

import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
SESSION = "gpuspy-bench"
CHANNEL = "launches"
# Reads a trace as HTA's users do: it is loaded, and two tables are asked for.
ASK_HTA = """
import logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
trace.get_idle_time_breakdown(ranks=[0], visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False)
"""


class Lttng:
    """A session of LTTng-UST whose tracepoint has as many fields as a launch's record. As a context: while it traces."""

    def __init__(self, bench):
        self.sources = bench.sources
        self.program = bench.scratch / "tracepoint_rate"
        self.environment = {**os.environ, "LTTNG_HOME": str(bench.scratch)}
        self.output = bench.scratch / "lttng"
        self.daemon = None

    def build(self):
        """Builds the program with the tracepoint. Says why it cannot be measured; None if it can."""
        if shutil.which("lttng") is None or shutil.which("lttng-sessiond") is None:
            return "lttng is not installed: apt-get install lttng-tools liblttng-ust-dev"
        source = HERE / "tracepoint_rate.c"
        options = ["-O2", f"-I{HERE}", f"-I{self.sources}", "-o", self.program]
        if subprocess.run(["gcc", *options, source, "-llttng-ust", "-ldl"], stderr=subprocess.DEVNULL).returncode != 0:
            return "liblttng-ust-dev is not installed"
        return None

    def lttng(self, *words):
        subprocess.run(["lttng", "--no-sessiond", *words], env=self.environment, stdout=subprocess.DEVNULL, check=True)

    def __enter__(self):
        # It ends at once if one runs already, which serves as well.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=self.environment, **quiet)
        listens = ["lttng", "--no-sessiond", "list"]
        deadline = time.monotonic() + 10
        while subprocess.run(listens, env=self.environment, **quiet).returncode != 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.lttng("create", SESSION, f"--output={self.output}")
        self.lttng("enable-channel", "--userspace", "--num-subbuf=8", "--subbuf-size=4M", CHANNEL)
        self.lttng("enable-event", "--userspace", "gpuspy_bench:*", "-c", CHANNEL)
        self.lttng("start")
        return self

    def __exit__(self, *_):
        self.lttng("destroy", SESSION)
        self.daemon.terminate()
        self.daemon.wait()

    def tracepoint(self, count):
        """Returns the median host ns of a tracepoint."""
        said = subprocess.run([self.program, str(count)], env=self.environment, capture_output=True, check=True)
        return json.loads(said.stdout)["median_ns"]


def tracepoints(bench, cost, rounds, launches):
    """Prints what `--timing off` adds to a launch that costs nothing, as a share of what a tracepoint takes."""
    print(f"\nA launch with --timing off, and a tracepoint of LTTng-UST with 10 fields: host ns, {rounds} rounds of {launches}")
    lttng = Lttng(bench)
    if reason := lttng.build():
        print(f"  not measured: {reason}")
        return
    added, took = [], []
    with lttng:
        for _ in range(rounds):
            without, _ = bench.launch(None, cost, launches)
            with_it, _ = bench.launch(["--timing", "off"], cost, launches)
            added.append(with_it - without)
            took.append(lttng.tracepoint(launches))
    ours, theirs = statistics.median(added), statistics.median(took)
    print(f"  added to a launch   {ours:>11.0f}  ({min(added):.0f} .. {max(added):.0f})")
    print(f"  a tracepoint        {theirs:>11.0f}  ({min(took):.0f} .. {max(took):.0f})")
    print(f"  ratio               {ours / theirs:>11.2f}  (rounds: {ratios(added, took)})")


def analysers(bench, launches):
    """Prints the time and the memory of HTA and of a report of the same trace."""
    print(f"\nA generated trace of {launches} launches: from start to end, memory at most")
    python = bench.root / "downloads/hta-0.5.0/bin/python"
    if not python.exists():
        print("  not measured: HTA is not installed; scripts/check-exports.sh installs it")
        return
    trace, export = bench.scratch / "analysed.gspy", bench.scratch / "analysed.json.gz"
    subprocess.run([bench.scale, "--generate", str(launches), trace], check=True)
    subprocess.run([bench.gpuspy, "export", trace, "--to", "chrome", "-o", export], check=True, stderr=subprocess.DEVNULL)
    ways = {
        "gpuspy report": [bench.gpuspy, "report", "--json", trace],
        "HTA 0.5.0": [python, "-c", ASK_HTA, export],
    }
    took = {name: spent(command) for name, command in ways.items()}
    for name, (seconds, mib) in took.items():
        print(f"  {name:<20}{seconds:>11.2f} s   {mib:>7.0f} MiB")
    (ours, our_mib), (theirs, their_mib) = took.values()
    print(f"  ratio               {theirs / ours:>11.0f}     {their_mib / our_mib:>7.0f}")


def spent(command):
    """Returns the seconds from a command's start to its end, and the most memory that it had, MiB."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return seconds, usage.ru_maxrss / 1024


def ratios(ours, theirs):
    return ", ".join(f"{a / b:.2f}" for a, b in zip(ours, theirs))
