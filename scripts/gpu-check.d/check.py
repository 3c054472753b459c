"""Runs all programs in order of importance, and writes the result. gpu-check.sh describes it."""
import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import traceback
from collections import Counter

import compare
import parts
import table
from kineto import Observed, Profile
from names import normal
from runs import LEAST_SECONDS, Budget, Failed, NotHere, Runner, limited

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FORMAT = 1
SECONDS, QUICK_SECONDS = 540, 150
# The longest that one run, and building a program, may take, in seconds.
RUN_SECONDS, BUILD_SECONDS = 100, 40
# The same for a call of nvidia-smi, git or gpuspy.
FACT_SECONDS = 20
MOST_ROUNDS = 15
# Rounds of the first programs before the others have one, and the share of the time that is left to the others.
FIRST_ROUNDS, FIRST_LEAVE = 5, 0.4
TIMINGS = ("off", "auto", "exact")
# The fields that nvidia-smi is queried for; an old version that does not know all of them is queried for fewer.
GPU_FACTS = (
    ("name", "uuid", "driver_version", "memory.total", "compute_cap", "mig.mode.current", "persistence_mode"),
    ("name", "uuid", "driver_version"),
)


def answer(command):
    """Returns what a command prints, or an empty text."""
    ended = limited.run(command, FACT_SECONDS)
    return ended.output.strip() if ended.code == 0 else ""


def gpus():
    for keys in GPU_FACTS:
        rows = answer(["nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader"]).splitlines()
        if rows:
            return [dict(zip(keys, (cell.strip() for cell in row.split(",")))) for row in rows]
    return []


def machine():
    cpu = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        pass
    return {
        "gpus": gpus(),
        "gpu": None,
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def gpuspy_facts(gpuspy, folder):
    """Returns gpuspy's version, and which kinds of --timing it accepts."""

    def takes(timing):
        command = [gpuspy, "run", "--quiet", "--timing", timing, "--", "true"]
        return limited.run(command, FACT_SECONDS, folder=folder).code == 0

    return {
        "version": answer([gpuspy, "--version"]),
        "commit": answer(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]),
        "modes": [timing for timing in TIMINGS if takes(timing)],
    }


class Program:
    """A program, and the findings about it."""

    def __init__(self, part, modes):
        # Modes of --timing that this gpuspy does not have are left out.
        self.part = part
        self.modes = [mode for mode in part.modes if mode not in TIMINGS or mode in modes]
        self.rounds = 0
        self.gpu = None
        self.first = {}
        self.dead = set()
        self.row = {"name": part.name, "versions": {}, "kernels": None, "runs": []}
        self.row.update(counts=[], durations=[], starts=[], slowdown={}, own_cost={}, expected=[], no_time_for=[], errors=[])

    def try_run(self, runner, mode, number):
        """Makes a run in a mode, unless the mode has failed before."""
        began = runner.budget.spent()
        entry = {"mode": mode, "round": number}
        try:
            run = runner.run(self.part, mode, read=number == 1, seconds=self.limit(mode))
            entry["step_ns"] = run.said["step_ns"]
            if number == 1:
                self.first[mode] = run
                self.row["versions"].update(run.said.get("versions", {}))
                if run.report:
                    self.row["own_cost"][mode] = compare.own_cost(run.report)
                    expect = run.said.get("expect", {}).get(mode, {})
                    self.row["expected"] += compare.expected(mode, expect, run.report)
        except Exception as error:  # whatever goes wrong with one run is recorded in its row, and the others go on
            # A program that runs without gpuspy but not with it was not skipped: it failed.
            if isinstance(error, NotHere) and mode == "plain":
                raise
            entry["error"] = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
            if tail := getattr(error, "tail", None):
                entry["stderr"] = tail
            self.dead.add(mode)
        entry["seconds"] = round(runner.budget.spent() - began, 2)
        self.row["runs"].append(entry)
        self.row["slowdown"] = compare.slowdown(self.row["runs"])

    def limit(self, mode):
        """Returns how long a run may take, judged by the first one."""
        return RUN_SECONDS if mode == "plain" else min(RUN_SECONDS, 20 + 5 * self.seconds("plain"))

    def first_round(self, runner, save=lambda: None):
        """Runs every mode once, and makes all comparisons of these runs."""
        self.rounds = 1
        for mode in self.modes:
            if runner.budget.left() < LEAST_SECONDS:
                self.row["no_time_for"].append(mode)
                self.dead.add(mode)
                continue
            self.try_run(runner, mode, 1)
            save()
            if "plain" in self.dead:
                break
        self.row["expected"] += compare.same({mode: run.said for mode, run in self.first.items()})
        comparison = self.ask(lambda: Comparison(self.first, self.row))
        if comparison:
            for question in (comparison.counts, comparison.launch_by_launch, comparison.apart, comparison.by_program):
                self.ask(question)
        reports = [run.report for run in self.first.values() if run.report]
        self.gpu = next((device["name"] for report in reports for device in report["devices"]), None)
        # A profiler's traces are large.
        self.first.clear()

    def ask(self, question):
        """Returns a comparison's result, or None after recording what went wrong; the other comparisons go on."""
        try:
            return question()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.row["errors"].append(f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})")
            return None

    def seconds(self, mode):
        """Returns how long a run of a mode takes, judged by the last one."""
        return next((run["seconds"] for run in reversed(self.row["runs"]) if run["mode"] == mode), 0)

    def another_round(self, runner):
        """Runs every mode once more, in an order that rotates. Returns whether there was anything to run and time for
        it."""
        self.rounds += 1
        number = self.rounds
        live = [mode for mode in self.modes if mode not in self.dead and mode != "profiler+exact"]
        if "plain" not in live or len(live) < 2:
            return False
        turn = number % len(live)
        for mode in live[turn:] + live[:turn]:
            if runner.budget.left() < 1.5 * self.seconds(mode) + 2:
                return False
            self.try_run(runner, mode, number)
        return True


class Comparison:
    """Compares the runs of a program's first round, by mode, with each other and with what the program knows."""

    def __init__(self, runs, row):
        self.runs, self.row = runs, row
        self.observed = {
            mode: Observed(run.operations, run.said.get("region"))
            for mode, run in runs.items()
            if run.operations is not None
        }
        self.profiles = {}
        for mode, run in runs.items():
            if run.profile is not None:
                profile = Profile(run.profile, run.said["clocks"])
                if profile.kernels or profile.graphs:
                    self.profiles[mode] = profile
                else:
                    row["errors"].append(f"{mode}: torch.profiler saw nothing on the GPU")
        if "exact" in self.observed:
            row["kernels"] = len(self.observed["exact"].kernels)

    def by_name(self, mode):
        return Counter(line["normal"] for line in self.observed[mode].kernels)

    def counts(self):
        for mode, observed in self.observed.items():
            said = self.runs[mode].said
            against = []
            if said.get("kernels") is not None:
                against.append(("program", Counter(normal_keys(said["kernels"])), None))
            elif said.get("launches") is not None:
                against.append(("program", said["launches"], None))
            # CUPTI's results of the same run, if there are any.
            profile = self.profiles.get(mode) or self.profiles.get("profiler")
            if profile:
                theirs = Counter(kernel.name for kernel in profile.kernels)
                against.append(("profiler", theirs, len(profile.in_graphs)))
            if not against and mode != "exact" and "exact" in self.observed:
                against.append(("exact", self.by_name("exact"), self.observed["exact"].in_graphs))
            coverage = self.runs[mode].report["coverage"]
            for who, theirs, in_graphs in against:
                row = compare.counts(self.by_name(mode), observed.in_graphs, theirs, in_graphs)
                untimed = {reason: count for reason, count in coverage["untimed"].items() if count}
                whole = {key: coverage[key] for key in ("dropped", "unattributed")}
                self.row["counts"].append({"mode": mode, "against": who, **row, **whole, "untimed": untimed})

    def launch_by_launch(self):
        mode = "profiler+exact"
        if mode not in self.observed or mode not in self.profiles:
            return
        observed, profile = self.observed[mode], self.profiles[mode]
        for against, ours, theirs in (
            ("profiler", observed.kernels, profile.kernels),
            ("graphs", observed.graphs, profile.graphs),
        ):
            pairs, unpaired = compare.pair(ours, theirs)
            self.add_durations(against, compare.durations(pairs, unpaired))
            if against == "profiler":
                known_to = self.runs[mode].report["clock"]["uncertainty_ns"]
                self.row["starts"] = [{**row, "uncertainty_ns": known_to} for row in compare.starts(pairs)]

    def apart(self):
        if "exact" in self.observed and "profiler" in self.profiles:
            theirs = compare.medians((kernel.name, kernel.duration) for kernel in self.profiles["profiler"].kernels)
            self.add_durations("apart", compare.medians_apart(self.our_medians(), theirs))

    def by_program(self):
        if "exact" in self.observed and self.runs["exact"].said.get("true_ns"):
            theirs = normal_keys(self.runs["exact"].said["true_ns"])
            self.add_durations("program", compare.medians_apart(self.our_medians(), theirs))

    def our_medians(self):
        timed = (line for line in self.observed["exact"].kernels if line["duration_ns"])
        return compare.medians((line["normal"], line["duration_ns"]["value"]) for line in timed)

    def add_durations(self, against, row):
        if row:
            self.row["durations"].append({"against": against, **row})


def normal_keys(by_name):
    return {normal(name): value for name, value in by_name.items()}


def check(options, runner, result, save):
    """Runs the first round of every program, then as many more as there is time for. Saves the results after each
    step."""
    build = os.path.join(runner.folder, "build")
    os.mkdir(build)
    found, result["skipped"] = parts.find_parts(build, options.program, BUILD_SECONDS)
    skip = lambda what, why: result["skipped"].append({"what": what, "why": str(why)})  # noqa: E731
    for timing in TIMINGS:
        if timing not in result["gpuspy"]["modes"]:
            skip(f"--timing {timing}", "this gpuspy does not take it")
    programs = []
    for part in found:
        if options.only and part.name not in options.only:
            continue
        if runner.budget.left() < 10:
            skip(part.name, "no time left")
            continue
        print(f"gpu-check: {part.name}", file=sys.stderr)
        program = Program(part, result["gpuspy"]["modes"])
        result["programs"].append(program.row)
        try:
            program.first_round(runner, save)
        except NotHere as why:
            skip(part.name, why)
            result["programs"].pop()
            continue
        programs.append(program)
        result["machine"]["gpu"] = result["machine"]["gpu"] or program.gpu
        save()
        if part.is_first and not options.quick:
            first_rounds(program, runner, min(FIRST_ROUNDS, options.rounds), save)
    going = [] if options.quick else programs
    while going := [program for program in going if program.rounds < options.rounds and program.another_round(runner)]:
        print(f"gpu-check: {', '.join(program.part.name for program in going)}: another round", file=sys.stderr)
        save()


def first_rounds(program, runner, most, save):
    """Runs the rounds of a program that measures slowdown, as long as most of the time is left for the others."""
    least = FIRST_LEAVE * runner.budget.seconds
    while program.rounds < most and runner.budget.left() > least and program.another_round(runner):
        save()


def parse():
    parser = argparse.ArgumentParser(prog="gpu-check.sh", description="Compares gpuspy with the truth on an NVIDIA GPU.")
    parser.add_argument("-o", "--output", default="gpu-check", metavar="FOLDER", help="where the results go [gpu-check]")
    parser.add_argument("--quick", action="store_true", help="make one round, and do less of everything")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help=f"[{SECONDS}; with --quick {QUICK_SECONDS}]")
    parser.add_argument("--gpuspy", default=os.path.join(ROOT, "target", "release", "gpuspy"), metavar="PATH")
    parser.add_argument(
        "--program", action="append", default=[], type=parts.named_part, metavar="NAME=COMMAND", help="run this too"
    )
    parser.add_argument("--rounds", type=int, default=MOST_ROUNDS, metavar="N", help=f"at most N rounds of each [{MOST_ROUNDS}]")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this program; may be repeated")
    options = parser.parse_args()
    options.gpuspy = os.path.abspath(options.gpuspy)
    if not os.access(options.gpuspy, os.X_OK):
        parser.error(f"{options.gpuspy} is missing: run cargo build --release, or name another with --gpuspy")
    options.budget = options.budget or (QUICK_SECONDS if options.quick else SECONDS)
    return options


def main():
    options = parse()
    os.makedirs(options.output, exist_ok=True)
    budget = Budget(options.budget)
    result = {
        "format": FORMAT,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": ["scripts/gpu-check.sh", *sys.argv[1:]],
        "budget_s": options.budget,
        "quick": options.quick,
        "machine": machine(),
        "skipped": [],
        "programs": [],
    }

    def save():
        result["seconds"] = round(budget.spent(), 1)
        limited.write(os.path.join(options.output, "gpu-check.json"), json.dumps(result, indent=1) + "\n")
        text = table.page(result)
        limited.write(os.path.join(options.output, "gpu-check.txt"), text)
        return text

    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        result["gpuspy"] = gpuspy_facts(options.gpuspy, folder)
        check(options, Runner(options.gpuspy, folder, budget, options.quick), result, save)
    print(save(), end="")
    runs = (run for program in result["programs"] for run in program["runs"])
    return 0 if any("step_ns" in run and run["mode"] in TIMINGS for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
