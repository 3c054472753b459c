"""Runs a client under gpuspy on the simulated GPU, and compares the report with the simulator's truth: launches by
kernel, copies and memsets by direction, host memory and bytes, graphs, allocations and waits must be equal, and the
time of each kernel must lie in its interval. Numbers of the report that mean the same must agree.

    against_truth.py NAME COMMAND [ARGUMENT]...

A client's last line of output may be JSON about itself:

    at_least   lower bounds by name: launches, kernels (different ones), captured, in_graphs, graphs, copies, sets,
               allocations, frees, syncs, failed, processes. By default, at least one launch
    calls      calls that succeeded, by name, exactly
    kernels    names of kernels that must have been launched
    held_up    true: the program is GPU-bound, and the GPU must be reported busy
    findings   ids of findings that must be reported, and `first`: the one that must come first
    absent     ids of findings that must not be reported
    steps      the number of steps, which must be found to within one
    per_step   what a step contains by its name in the report's steps, to within a twentieth of one
    bound      the verdict's bound
    framework  words that the remedy of each finding of `findings` must have
    ranks      for each rank of a job, fields of its process as in the report, such as pid and parent; `gpus` are among its GPUs
    source     the path of a compiled program's source

A program may mark the lines of its own that launch kernels or graphs: `# launches` (in a compiled one `// launches`), `# backward` for those whose
backward pass does, or both. Then exactly these must have launches in the report, and no launch another line.
"""
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPUSPY = os.path.join(ROOT, "target", "release", "gpuspy")
AGREE = os.path.join(ROOT, "target", "release", "agree")
SIMGPU = os.path.join(ROOT, "scripts", "simgpu")

# The driver calls that a runtime call becomes in sim/cudart; the report names the outermost call, the truth the
# driver's.
BECOMES = {
    "cudaLaunchKernel": ["cuLaunchKernel"],
    "__cudaLaunchKernel": ["cuLaunchKernel"],
    "cudaLaunchKernelExC": ["cuLaunchKernelEx"],
    "cudaGraphLaunch": ["cuGraphLaunch"],
    "cudaGraphAddMemAllocNode": ["cuGraphAddMemAllocNode"],
    "cudaGraphAddMemFreeNode": ["cuGraphAddMemFreeNode"],
    "cudaMalloc": ["cuMemAlloc"],
    "cudaMallocAsync": ["cuMemAllocAsync"],
    "cudaMallocManaged": ["cuMemAllocManaged"],
    "cudaHostAlloc": ["cuMemHostAlloc"],
    "cudaMallocHost": ["cuMemHostAlloc"],
    "cudaHostRegister": ["cuMemHostRegister"],
    "cudaFree": ["cuMemFree"],
    "cudaFreeAsync": ["cuMemFreeAsync"],
    "cudaFreeHost": ["cuMemFreeHost"],
    "cudaHostUnregister": ["cuMemHostUnregister"],
    "cudaIpcOpenMemHandle": ["cuIpcOpenMemHandle"],
    "cudaIpcCloseMemHandle": ["cuIpcCloseMemHandle"],
    "cudaMemset": ["cuMemsetD8"],
    "cudaMemsetAsync": ["cuMemsetD8Async"],
    "cudaMemcpy": ["cuMemcpy", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD"],
    "cudaMemcpyAsync": ["cuMemcpyAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"],
    "cudaMemcpy2DAsync": ["cuMemcpy2DAsync"],
    "cudaMemcpyPeerAsync": ["cuMemcpyPeerAsync"],
    "cudaDeviceSynchronize": ["cuCtxSynchronize"],
    "cudaStreamSynchronize": ["cuStreamSynchronize"],
    "cudaEventSynchronize": ["cuEventSynchronize"],
}
# Calls that are counted as one because they share a driver call.
FAMILY = {driver: min(drivers) for drivers in BECOMES.values() for driver in drivers}
FAMILY |= {runtime: FAMILY[drivers[0]] for runtime, drivers in BECOMES.items()}

WORK = ("kernel", "copy", "memset", "graph")
DEVICE = ("device", "managed", "pool", "mapped", "array", "graph")


class Truth:
    """What happened, in the terms of the report."""

    def __init__(self, lines):
        work = [line for line in lines if line["kind"] in WORK]
        self.captured = [line for line in work if line["captured"]]
        self.own = [line for line in work if not line["captured"] and not line["in_graph"]]
        self.in_graphs = [line for line in work if line["in_graph"]]
        memory = (line for line in lines if line["kind"] in ("alloc", "free"))
        self.memory = sorted(memory, key=lambda line: (line["begin"], line.get("seq", 0)))
        self.memory_nodes = [line for line in lines if line["kind"] == "memory_node"]
        self.syncs = [line for line in lines if line["kind"] == "sync"]
        contexts = Counter(line["destroyed"] for line in lines if line["kind"] == "context")
        # Memory is freed with its context; programs here destroy all of them or none.
        self.nothing_left = contexts[True] > 0 and contexts[True] == contexts[False]
        self.failed = Counter(line["api"] for line in lines if line["kind"] == "failed")

    def kernels(self, lines):
        return Counter(line["name"] for line in lines if line["kind"] == "kernel")

    def transfers(self):
        found = {}
        for line in self.own:
            if line["kind"] in ("copy", "memset"):
                key = f"{line['direction'] or 'memset'} {line['host_memory']}"
                count, size = found.get(key, (0, 0))
                found[key] = (count + 1, size + line["bytes"])
        return found

    def occupied(self):
        """Returns, by kernel, how long its launches occupied their streams in total."""
        total = Counter()
        for line in self.own:
            if line["kind"] == "kernel" and line["end"] is not None:
                total[line["name"]] += line["end"] - line["head"]
        return total

    def busy(self):
        """Returns how long at least one kernel ran."""
        lines = (line for line in self.own if line["kind"] == "kernel" and line["end"] is not None)
        total = until = 0
        for head, end in sorted((line["head"], line["end"]) for line in lines):
            total += max(0, end - max(head, until))
            until = max(until, end)
        return total

    def blocks(self):
        """Returns, by kind of memory: allocations, frees, bytes held at the end."""
        found = {}
        for line in self.memory:
            use = found.setdefault(line["memory"], [0, 0, 0])
            use[line["kind"] == "free"] += 1
            use[2] += line["bytes"] if line["kind"] == "alloc" else -line["bytes"]
        return {kind: (came, went, 0 if self.nothing_left else held) for kind, (came, went, held) in found.items()}

    def peak(self):
        """Returns the most device memory that was held at once; for a graph launch, the most that it can hold."""
        held = most = 0
        lines = (line for line in self.memory if line["memory"] in DEVICE)
        for launch, part in itertools.groupby(lines, key=lambda line: line.get("launch")):
            largest, before = {}, held
            for line in part:
                held += line["bytes"] if line["kind"] == "alloc" else -line["bytes"]
                most = max(most, held)
                if launch is not None and line["kind"] == "alloc":
                    largest[line["address"]] = max(line["bytes"], largest.get(line["address"], 0))
            most = max(most, before + sum(largest.values()))
        return most

    def calls(self):
        """Returns calls that succeeded, by the driver's name."""
        # Memory that a graph launch allocates is no call of its own.
        memory = [line for line in self.memory if line["api"] != "cuGraphLaunch"]
        operations = [*self.own, *self.captured, *memory, *self.memory_nodes, *self.syncs]
        return Counter(FAMILY.get(line["api"], line["api"]) for line in operations)


def families(calls):
    """Returns calls that succeeded and calls that failed, by the driver's name."""
    succeeded, failed = Counter(), Counter()
    for call in calls:
        family = FAMILY.get(call["name"], call["name"])
        succeeded[family] += call["count"] - call["failed"]
        failed[family] += call["failed"]
    return succeeded, failed


class Comparison:
    """Collects every difference between the report and the truth, one sentence each."""

    def __init__(self, report, truth):
        self.report, self.truth, self.wrong = report, truth, []

    def same(self, what, ours, theirs):
        if ours != theirs:
            self.wrong.append(f"{what}: gpuspy says {ours}, the simulator {theirs}")

    def same_each(self, what, ours, theirs, absent=None):
        """Compares the values of every key of either side; `what` has {} in place of the key."""
        for key in sorted(ours.keys() | theirs.keys()):
            self.same(what.format(key), ours.get(key, absent), theirs.get(key, absent))

    def launches(self):
        coverage, kernels = self.report["coverage"], self.report["kernels"]
        launched, ran = self.truth.kernels(self.truth.own), self.truth.kernels(self.truth.in_graphs)
        for what in ("dropped", "unattributed", "pending"):
            self.same(what, coverage[what], 0)
        parts = coverage["timed"] + coverage["runs"]["launches"] + sum(coverage["untimed"].values())
        self.same("launches and their parts", coverage["launches"], parts)
        self.same("launches", coverage["launches"], launched.total())
        self.same("captured launches", coverage["captured"], self.truth.kernels(self.truth.captured).total())
        self.same("kernels in graphs", coverage["in_graphs"], ran.total())
        self.same_each("launches of {}", {k["symbol"]: k["count"] for k in kernels}, launched, 0)
        self.same_each("executions of {} in graphs", {k["symbol"]: k["in_graphs"] for k in kernels}, ran, 0)

    def times(self):
        occupied = self.truth.occupied()
        for kernel in self.report["kernels"]:
            name, total = kernel["symbol"], occupied[kernel["symbol"]]
            if name in occupied and kernel["total_ns"]:
                # The GPU's clock and the host's, which the truth uses, drift apart by 20 ppm there; ns are rounded.
                slack = total / 10_000 + 2 * kernel["count"]
                low, high = kernel["total_ns"]["lo"] - slack, kernel["total_ns"]["hi"] + slack
                if not low <= total <= high:
                    self.wrong.append(f"the time of {name}: gpuspy says {low} .. {high} ns, the simulator {total}")

    def graphs(self):
        graphs = self.report["graphs"]
        self.same("graph launches", graphs["launches"], sum(line["kind"] == "graph" for line in self.truth.own))
        for what, kind in (("copies", "copy"), ("memsets", "memset")):
            moved = [line["bytes"] for line in self.truth.in_graphs if line["kind"] == kind]
            self.same(f"{what} in graphs", graphs[what], {"count": len(moved), "bytes": sum(moved)})

    def transfers(self):
        moved = {f"{t['kind']} {t['host_memory']}": (t["count"], t["bytes"]) for t in self.report["transfers"]}
        self.same_each("{} transfers and bytes", moved, self.truth.transfers())

    def memory(self):
        memory = self.report["memory"]
        blocks = {kind: (use["allocations"], use["frees"], use["live_bytes"]) for kind, use in memory["by_kind"].items()}
        processes, held = self.report["processes"], self.truth.blocks()
        if len(processes) > 1:
            # Memory that a process holds at its end is freed with it and is in its own row. The truth does not
            # distinguish the two.
            self.same_each("{} memory: allocations, frees", {kind: use[:2] for kind, use in blocks.items()},
                           {kind: use[:2] for kind, use in held.items()})
            ends = sum(use[2] for kind, use in held.items() if kind in DEVICE)
            self.same("device memory of each at its end", sum(one["memory"]["live_bytes"] for one in processes), ends)
        else:
            self.same_each("{} memory: allocations, frees, bytes at the end", blocks, held)
            peak, truth = memory["peak_bytes"], self.truth.peak()
            if not peak["lo"] <= truth <= peak["hi"]:
                self.wrong.append(f"the peak of device memory: gpuspy says {peak}, the simulator {truth}")

    def waits(self):
        waits = Counter()
        for sync in self.report["syncs"]:
            waits[FAMILY.get(sync["api"], sync["api"])] += sync["count"]
        self.same_each("waits by {}", waits, Counter(line["api"] for line in self.truth.syncs), 0)

    def calls(self):
        succeeded, failed = families(self.report["apis"])
        for name, count in sorted(self.truth.calls().items()):
            self.same(f"calls that became {name}", succeeded[name], count)
        for name in sorted(set(FAMILY.values())):
            self.same(f"calls that became {name} and failed", failed[name], self.truth.failed[name])


def differences(report, truth):
    """Lists every difference between the report and the truth."""
    of = Comparison(report, truth)
    for part in (of.launches, of.times, of.graphs, of.transfers, of.memory, of.waits, of.calls):
        part()
    return of.wrong


def found(report, truth):
    """Returns the numbers that a client may state a minimum for, from the report."""
    copies = [line for line in truth.own if line["kind"] == "copy"]
    kernels = truth.kernels(truth.own)
    return {
        "launches": kernels.total(),
        "kernels": len(kernels),
        "captured": truth.kernels(truth.captured).total(),
        "in_graphs": truth.kernels(truth.in_graphs).total(),
        "graphs": report["graphs"]["launches"],
        "copies": len(copies),
        "sets": sum(line["kind"] == "memset" for line in truth.own),
        "allocations": sum(line["kind"] == "alloc" for line in truth.memory),
        "frees": sum(line["kind"] == "free" for line in truth.memory),
        "syncs": len(truth.syncs),
        "failed": truth.failed["cuMemAlloc"] + truth.failed["cuMemAllocAsync"],
        "processes": len(report["processes"]),
    }


def claims(said, report, truth):
    """Lists where the client's own account differs from gpuspy's."""
    wrong = []
    happened = found(report, truth)
    for what, least in said.get("at_least", {"launches": 1}).items():
        if happened[what] < least:
            wrong.append(f"{what}: {happened[what]}, and the client did {least} or more")
    counted = {call["name"]: call["count"] - call["failed"] for call in report["apis"]}
    for name, count in said.get("calls", {}).items():
        if counted.get(name, 0) != count:
            wrong.append(f"calls of {name}: gpuspy says {counted.get(name, 0)}, the client {count}")
    if said.get("held_up"):
        wrong.extend(not_reported_busy(report, truth.busy()))
    names = {kernel["name"] for kernel in report["kernels"]}
    wrong.extend(f"no kernel {name} was seen" for name in said.get("kernels", []) if name not in names)
    processes = {process["rank"]: process for process in report["processes"]}
    for rank in said.get("ranks", []):
        process = processes.get(rank["rank"], {"gpus": []})
        same = all(process.get(field) == value for field, value in rank.items() if field != "gpus")
        # Libraries create contexts on other GPUs as well.
        if not same or not set(rank["gpus"]) <= set(process["gpus"]):
            wrong.append(f"rank {rank['rank']}: gpuspy says {process}, the client {rank}")
    return wrong


def not_reported_busy(report, busy):
    """Lists what is wrong with the report of a GPU that ran kernels for `busy` ns and was the bottleneck: its time must
    be known, and some launches must have been timed alone."""
    [device] = report["devices"]
    compute, undecided = device["compute_ns"], device["undecided_ns"]["value"]
    if abs(compute["value"] / busy - 1) > 0.04 or compute["lo"] < 0.9 * busy or undecided > 0.05 * busy:
        yield f"compute: gpuspy says {compute}, {undecided} undecided, the simulator {busy}"
    coverage = report["coverage"]
    if coverage["timed"] < coverage["launches"] / 10:
        yield f"coverage: {coverage}"


def saves(finding):
    """Returns what a finding gains by the best value, in ns; 0 without one."""
    return finding["saves_ns"]["value"] if finding else 0


def misdiagnosed(said, report):
    """Lists where the diagnosis differs from the client's own."""
    findings = {finding["id"]: finding for finding in report["findings"]}
    found = ", ".join(findings) or "none"
    for name in said.get("findings", []):
        if name not in findings:
            yield f"no finding {name}: there are {found}"
        elif said.get("framework", "") not in findings[name]["fix"]:
            yield f"the remedy of {name} is not in the words of its framework: {findings[name]['fix']}"
    if "first" in said and next(iter(findings), None) != said["first"]:
        yield f"the first finding is not {said['first']}: there are {found}"
    for name in said.get("absent", []):
        # On a busy machine the thread that launches waits for a processor, which is a stall of the host, and true.
        is_of_machine = name == "host-stall" and saves(findings.get(name)) < report["identity"]["wall_ns"] / 10
        if name in findings and not is_of_machine:
            yield f"finding {name}, which the client does not have: {findings[name]['evidence']}"
    if said.get("held_up") and report["coverage"]["runs"]["launches"] == 0:
        yield "no launch is part of a run: the host was never far ahead of the GPU"
    steps, verdict = report["steps"], report["verdict"]
    if "steps" in said and abs(steps["count"] - said["steps"]) > 1:
        yield f"steps: gpuspy says {steps['count']}, the client {said['steps']}"
    for what, number in said.get("per_step", {}).items():
        if abs(steps["per_step"][what] - number) > 0.05:
            yield f"{what} per step: gpuspy says {steps['per_step'][what]}, the client {number}"
    if "bound" in said and verdict["bound"] != said["bound"]:
        yield f"the bound: gpuspy says {verdict['text']}, the client {said['bound']}"


def last_words(output):
    """Returns the client's account of itself, if its last line is one."""
    lines = output.strip().splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}


def observe(command):
    """Runs a command. Returns how it ended, what it printed, gpuspy's report, and the lines of the truth."""
    with tempfile.TemporaryDirectory() as folder:
        trace, truth_file = os.path.join(folder, "trace"), os.path.join(folder, "truth.jsonl")
        environment = {**os.environ, "SIMCUDA_TRUTH": truth_file}
        observed = [SIMGPU, GPUSPY, "run", "--quiet", "--no-report", "--timing", "exact", "-o", trace, "--", *command]
        done = subprocess.run(observed, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return done.returncode, done.stdout, None, []
        asked = subprocess.run([GPUSPY, "report", trace, "--json"], stdout=subprocess.PIPE, check=True)
        with open(truth_file, encoding="utf-8") as file:
            return 0, done.stdout, json.loads(asked.stdout), [json.loads(line) for line in file]


def disagreements(report):
    """Lists the numbers of a report that disagree with each other (tests/src/agree.rs)."""
    said = subprocess.run([AGREE], input=json.dumps(report), stdout=subprocess.PIPE, text=True, check=False)
    return said.stdout.splitlines()


def marked(source):
    """Returns the lines of a program that it marks, each with whether its backward pass is meant."""
    marks = set()
    for at, line in enumerate(source.splitlines(), 1):
        comment = re.search("  (?:#|//) (.*)$", line)
        words = comment[1].split(", ") if comment else ()
        marks |= {(at, what == "backward") for what in words if what in ("launches", "backward")}
    return marks


def wrong_lines(command, said, report):
    """Returns how the lines that have launches differ from those that the program marks: the script, or the source that the client
    names."""
    scripts = (part for part in command[1:] if part.endswith(".py") and os.path.exists(part))
    program = said.get("source", next(scripts, None))
    if program is None:
        return []
    with open(program, encoding="utf-8") as source:
        expected = marked(source.read())
    if not expected:
        return []
    told, others = set(), []
    for row in report["lines"]:
        if row["launches"] == 0 and not any("GraphLaunch" in call for call in row["calls"]):
            continue
        if row["file"] and os.path.abspath(row["file"]) == os.path.abspath(program):
            told.add((row["line"], row["function"].endswith(" (backward)")))
        else:
            others.append(f"{row['launches']} launches have the line {row['file']}:{row['line']} {row['function']}")
    shown = lambda lines: [f"{at}{' (backward)' if is_backward else ''}" for at, is_backward in sorted(lines)]
    if told != expected:
        others.append(f"the lines with launches are {shown(told)}, and the program marks {shown(expected)}")
    return others


def compare(name, command):
    """Runs a command and compares everything; prints that all is equal, or what is not. Returns what differs from what
    happened, where the diagnosis differs from the client's, the client's account of itself, and the report."""
    code, output, report, lines = observe(command)
    if code != 0:
        print(f"{name}: it ended with {code}\n{output}", end="")
        return [f"it ended with {code}"], [], {}, None
    truth, said = Truth(lines), last_words(output)
    wrong = claims(said, report, truth) + differences(report, truth) + disagreements(report)
    wrong += wrong_lines(command, said, report)
    other = list(misdiagnosed(said, report))
    happened = found(report, truth).items()
    summary = ", ".join(f"{count} {what}" for what, count in happened if count and (what, count) != ("processes", 1))
    print(f"{name}: {summary}: {'NOT EQUAL' if wrong or other else 'equal'}", *wrong, *other, sep="\n    ", flush=True)
    return wrong, other, said, report


# What bounds a program also depends on the machine: where other work holds up the simulated GPU, its kernels take longer,
# and the program is bound by them; where it holds up the host, the GPU waits for that. A diagnosis that is wrong is wrong in
# every run.
RUNS = 8


def check(name, command):
    """Compares everything, again if only the diagnosis is not the client's. Returns whether all is equal, the client's
    account of itself, and the report."""
    for _ in range(RUNS):
        wrong, other, said, report = compare(name, command)
        if wrong or not other:
            break
    return not wrong and not other, said, report


if __name__ == "__main__":
    sys.exit(0 if check(sys.argv[1], sys.argv[2:])[0] else 1)
