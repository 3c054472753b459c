"""The measurements of scripts/bench.sh."""

import contextlib
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import references

# The simulator charges nothing for these launches: what remains is its own work and the agent's.
FREE_CALLS = "off"
# A launch at a rate that the poller can keep up with; events cost nothing but the simulator's own work.
SLOW_LAUNCHES = "launch=5000,record=0,query=0,elapsed=0,other=0"
# How to run the same program, by the name of its row. The other rows are compared with the first.
WAYS = {
    "without gpuspy": None,
    "--timing off": ["--timing", "off"],
    "--timing exact": ["--timing", "exact"],
    "--timing auto, 5 %": ["--timing", "auto", "--budget", "5"],
}
# The program records an event behind each launch itself: what the driver takes for the events of `exact`.
OWN_EVENTS = "with its own events"
# What is measured of reading a trace, and the command.
READS = (("report", "report --json"), ("export", "export --to chrome"), ("tables", "export --to parquet"))
# Memory may grow by this share from one trace to one with ten times the launches, and by a MiB, of which heaps of libc's consist.
GROWTH, HEAP_MIB = 0.05, 1
# The memory that an export of tables may take, whatever the trace: 30 million launches took 222 MiB.
TABLES_MIB = 300


class Bench:
    def __init__(self, root, scratch):
        self.root = root
        self.scratch = scratch
        self.gpuspy = root / "target/release/gpuspy"
        self.agent = root / "target/release/libgpuspy.so"
        self.scale = root / "target/release/scale"
        self.lib = root / "target/sim/lib"
        self.programs = root / "target/sim/bin"
        self.sources = root / "tests/programs"
        self.failed = []

    def missing(self):
        needed = [self.gpuspy, self.agent, self.scale, self.lib / "libcuda.so.1"]
        needed += [self.programs / name for name in ("launch_rate", "lookup_rate", "flood")]
        return [path for path in needed if not path.exists()]

    def environment(self, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSPY", "SIMCUDA", "LD_PRELOAD"))}
        return {**kept, "LD_LIBRARY_PATH": str(self.lib), **more}

    # ---- a launch ----

    def launch(self, way, cost, launches, *more):
        """Returns the median host ns of a launch, and the share of launches that was timed."""
        trace = self.scratch / "launch.gspy"
        command = [self.programs / "launch_rate", str(launches), *more]
        if way is not None:
            command = [self.gpuspy, "run", "--quiet", "--no-report", "-o", trace, *way, "--", *command]
        environment = self.environment(SIMCUDA_HOST_COST=cost)
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        ns = json.loads(said)["median_ns"]
        if way is None:
            return ns, 0
        coverage = json.loads(run([self.gpuspy, "report", "--json", trace]))["coverage"]
        return ns, coverage["timed"] / coverage["launches"]

    def launches(self, title, cost, rounds, launches):
        measured = {name: [] for name in (*WAYS, OWN_EVENTS)}
        for _ in range(rounds):
            for name, way in WAYS.items():
                measured[name].append(self.launch(way, cost, launches))
            measured[OWN_EVENTS].append(self.launch(None, cost, launches, "events"))
        print(f"\n{title}: host ns, the median of {rounds} processes of {launches} launches (least .. most)")
        base = statistics.median(ns for ns, _ in measured["without gpuspy"])
        for name, rows in measured.items():
            ns = [ns for ns, _ in rows]
            line = f"  {name:<20}{spread(ns, '.0f'):>24}"
            median = statistics.median(ns)
            if name != "without gpuspy":
                line += f"   {median - base:+6.0f} ns   x {median / base:.3f}"
            if WAYS.get(name) is not None:
                line += f"   {statistics.median(share for _, share in rows):4.0%} timed"
            print(line)

    # ---- lookups, and a process's start ----

    def preloaded(self, folder):
        """Returns the variables under which a program is observed by the collector that listens in this folder."""
        return {"LD_PRELOAD": str(self.agent), "GPUSPY_SOCKET": str(folder / "gpuspy.sock"), "GPUSPY_QUIET": "1"}

    def lookups(self, rounds):
        with self.collecting("lookups") as folder:
            ways = ({}, self.preloaded(folder))
            measured = [[], []]
            for _ in range(rounds):
                for way, rows in zip(ways, measured):
                    said = subprocess.run([self.programs / "lookup_rate"], env=self.environment(**way), capture_output=True, check=True)
                    rows.append(json.loads(said.stdout))
        print(f"\nA lookup: host ns, the median of {rounds} processes, without gpuspy and with it")
        for name in measured[0][0]:
            without, with_it = (statistics.median(row[name] for row in rows) for rows in measured)
            print(f"  {name:<20}{without:>9.1f}{with_it:>9.1f}   {with_it - without:+6.1f} ns")

    def starts(self, rounds):
        programs = {"without CUDA": ["/bin/true"], "with 50 launches": [self.programs / "launch_rate", "50"]}
        print(f"\nA process from start to end: ms, the median of {rounds}, without gpuspy and with it")
        with self.collecting("starts") as folder:
            ways = ({}, self.preloaded(folder))
            for name, program in programs.items():
                measured = [[], []]
                for _ in range(rounds):
                    for way, rows in zip(ways, measured):
                        rows.append(duration(program, self.environment(SIMCUDA_HOST_COST=FREE_CALLS, **way)))
                without, with_it = (statistics.median(rows) for rows in measured)
                print(f"  {name:<20}{without:>9.2f}{with_it:>9.2f}   {with_it - without:+6.2f} ms")

    @contextlib.contextmanager
    def collecting(self, name):
        """Runs a collector that listens in a folder of its own."""
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        collector = subprocess.Popen([self.gpuspy, "collect", "--quiet", "--dir", folder])
        try:
            wait_for((folder / "gpuspy.sock").exists)
            yield folder
        finally:
            collector.send_signal(signal.SIGINT)
            collector.wait()

    # ---- the stack of a launch ----

    def stack(self, stacks):
        """Returns the median host ns of a launch from Python, by where it is made. Nothing is timed."""
        trace = self.scratch / "stack.gspy"
        options = ["--quiet", "--no-report", "--timing", "off", "--stacks", stacks, "-o", trace]
        program = self.sources / "python_depth.py"
        command = [self.gpuspy, "run", *options, "--", sys.executable, program]
        environment = self.environment(SIMCUDA_HOST_COST=FREE_CALLS)
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        return json.loads(said)

    def stacks(self, rounds):
        ways = ("off", "auto", "full")
        measured = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                measured[way].append(self.stack(way))
        version = ".".join(map(str, sys.version_info[:2]))
        print(f"\nA launch from CPython {version}, nothing timed: host ns that --stacks adds, the median of {rounds} processes")
        base = {where: statistics.median(one[where] for one in measured["off"]) for where in measured["off"][0]}
        for way in ways[1:]:
            added = {where: statistics.median(one[where] for one in measured[way]) - ns for where, ns in base.items()}
            print(f"  --stacks {way:<11}" + "   ".join(f"{where}: {ns:+.0f} ns" for where, ns in added.items()))
        frame = (added["43 frames"] - added["8 frames"]) / 35
        print(f"  {'':<20}{frame:.1f} ns for each frame of a whole stack")

    # ---- draining ----

    def drain(self, launches):
        """Returns the records that a collector wrote for a process that launches as fast as it can, the collector's CPU
        seconds, and the losses."""
        folder = self.scratch / "drain"
        folder.mkdir(exist_ok=True)
        collector = subprocess.Popen([self.gpuspy, "collect", "--quiet", "--dir", folder])
        socket = folder / "gpuspy.sock"
        wait_for(socket.exists)
        flood = [self.programs / "flood", str(launches)]
        preloaded = self.preloaded(folder)
        environment = self.environment(SIMCUDA_HOST_COST=FREE_CALLS, GPUSPY_TIMING="off", **preloaded)
        subprocess.run(flood, env=environment, stdout=subprocess.DEVNULL, check=True)
        collector.send_signal(signal.SIGINT)
        usage = os.wait4(collector.pid, 0)[2]
        collector.returncode = 0
        (trace,) = folder.glob("*.gspy")
        report = json.loads(run([self.gpuspy, "report", "--json", trace]))
        trace.unlink()
        return report["overhead"]["collected"], usage.ru_utime + usage.ru_stime, report["coverage"]["dropped"]

    def drains(self, rounds, launches):
        rates, lost = [], 0
        for _ in range(rounds):
            records, seconds, dropped = self.drain(launches)
            rates.append(records / seconds / 1e6)
            lost += dropped
        print(f"\nThe collector, from the rings of a process that floods them with {launches} launches, {rounds} times")
        print(f"  drained             {spread(rates, '.2f'):>24} million records per second of its processor time")
        print(f"  dropped             {lost:>11} records, because a ring was full")

    # ---- reading ----

    def read(self, launches, rounds):
        done = subprocess.run([self.scale, str(launches), str(rounds)], stdout=subprocess.PIPE, text=True)
        measured = json.loads(done.stdout)
        for line in measured["wrong"]:
            self.failed.append(f"of {launches} launches: {line}")
        return measured

    def reads(self, small, large, rounds):
        traces = [self.read(small, rounds), self.read(large, 1)]
        first = traces[0]
        print(f"\nReading a generated trace of {small} launches, {rounds} times, and of {large}")
        print(f"  on disk             {first['bytes'] / first['launches']:>11.2f} bytes a launch (and a seventh of other calls)")
        for command, does in READS:
            rates = [first["launches"] / cost["cpu_seconds"] / 1e3 for cost in first[command]]
            print(f"  {does:<20}{spread(rates, '.0f'):>24} thousand launches per second of processor time")
            walls = [cost["wall_seconds"] for cost in first[command]]
            print(f"  {'':<20}{spread(walls, '.2f'):>24} seconds from start to end")
            peaks = [max(cost["peak_kib"] for cost in trace[command]) / 1024 for trace in traces]
            print(f"  {'':<20}{peaks[0]:>11.1f} MiB at most, {peaks[1]:.1f} MiB with {large} launches")
            # Tables hold the rows of row groups that have not ended, which a short trace has fewer of.
            limit = TABLES_MIB if command == "tables" else peaks[0] * (1 + GROWTH) + HEAP_MIB
            if peaks[1] > limit:
                self.failed.append(f"{does} takes {peaks[1]:.1f} MiB for {large} launches, {peaks[0]:.1f} for {small}")
        if not any(trace["wrong"] for trace in traces):
            print("  answers             all as generated")

    def grows(self, sizes):
        """Measures traces of each size once: the time should grow as they do, and the memory not at all."""
        traces = [self.read(launches, 1) for launches in sizes]
        print("\nReading generated traces: processor seconds for each million launches, and memory at most")
        print(f"  {'launches':<20}" + "".join(f"{launches:>20}" for launches in sizes))
        for command, does in READS:
            costs = [trace[command][0] for trace in traces]
            seconds = [cost["cpu_seconds"] / launches * 1e6 for cost, launches in zip(costs, sizes)]
            peaks = [cost["peak_kib"] / 1024 for cost in costs]
            row = (f"{s:>8.2f} s {mib:>5.0f} MiB" for s, mib in zip(seconds, peaks))
            print(f"  {does:<20}" + "".join(f"{cell:>20}" for cell in row))
            tenfold = math.log10(sizes[-1] / sizes[0])
            limit = TABLES_MIB if command == "tables" else peaks[0] * (1 + GROWTH) ** tenfold + HEAP_MIB
            if max(peaks) > limit:
                self.failed.append(f"{does} takes {max(peaks):.1f} MiB for a long trace, {peaks[0]:.1f} for a short one")
        if not any(trace["wrong"] for trace in traces):
            print("  answers             all as generated")


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def duration(command, environment):
    """Returns how many ms a process takes from start to end."""
    before = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - before) * 1e3


def spread(values, form):
    median, least, most = statistics.median(values), min(values), max(values)
    return f"{median:{form}}  ({least:{form}} .. {most:{form}})"


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("bench.sh: the collector does not start listening")
        time.sleep(0.01)


def machine():
    model = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    load = os.getloadavg()[0]
    return f"{model.group(1) if model else 'unknown processor'}, {os.cpu_count()} cores, load {load:.1f}"


def everything(bench, quick):
    rounds, launches = (3, 20_000) if quick else (9, 100_000)
    bench.launches("A launch that costs nothing", FREE_CALLS, rounds, launches)
    bench.launches("A launch of 5 us", SLOW_LAUNCHES, rounds, launches)
    bench.lookups(3 if quick else 9)
    bench.starts(20 if quick else 100)
    bench.stacks(3 if quick else 9)
    bench.drains(*((3, 300_000) if quick else (7, 2_000_000)))
    reading(bench, quick)


def reading(bench, quick):
    # Below 300 000 launches the buffers whose size is bounded are not yet full.
    bench.reads(*((300_000, 600_000, 2) if quick else (1_000_000, 10_000_000, 3)))


def growth(bench, quick):
    bench.grows([300_000, 600_000, 1_200_000] if quick else [1_000_000, 10_000_000, 100_000_000])


def beside_others(bench, quick):
    rounds, launches = (3, 20_000) if quick else (9, 100_000)
    references.tracepoints(bench, FREE_CALLS, rounds, launches)
    references.analysers(bench, 20_000 if quick else 60_000)


PARTS = {"--reading": reading, "--growth": growth, "--references": beside_others}


def main():
    root, *options = sys.argv[1:]
    chosen = [PARTS[option] for option in options if option in PARTS]
    if not set(options) <= {"--quick", *PARTS} or len(chosen) > 1:
        sys.exit(f"usage: scripts/bench.sh [--quick] [{' | '.join(PARTS)}]")
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(root), Path(scratch))
        if missing := bench.missing():
            sys.exit(f"bench.sh: {missing[0]} is not built: run scripts/build-sim.sh")
        print(f"On the simulated GPU, not a real one; {machine()}")
        part = chosen[0] if chosen else everything
        part(bench, "--quick" in options)
        if bench.failed:
            sys.exit("bench.sh: " + "\nbench.sh: ".join(bench.failed))


if __name__ == "__main__":
    main()
