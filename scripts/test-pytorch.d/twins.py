"""Observes a program that has a fault and its twin that has not, as against_truth.py does, and compares what the finding
promises with what the twin's loop truly took less. Where the program marks a line with the finding's id, the finding must name
that line.

    twins.py NAME FINDING[+FINDING]... COMMAND [ARGUMENT]...

The command gets one argument more, `faulty` or `fixed`. `-` stands for a finding that gains no time. Of several findings the
promises are added: where other programs hold up the thread between two launches that is a stall of the host, which a twin
that launches less is spared, too. Both programs say in their last line of output how long their loop took (account.py,
`timed`).

A promise is about the program without gpuspy, from what was seen under it. A twin that calls CUDA less is spared gpuspy's
hooks as well, so that it gains more under gpuspy than without: the promise must lie between the two gains, each with a tenth
of tolerance. The programs are run without gpuspy only where the gain under it alone does not agree.

A pair in which other programs held up one of the two says nothing about the promise, so that up to five pairs are run until
one agrees; a promise that is wrong agrees in none.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test-clients.d"))
from against_truth import SIMGPU, check  # noqa: E402

PAIRS = 5
TOLERANCE = 0.1


def promise(report, wanted):
    """Returns what these findings promise together, ns."""
    return sum(found["saves_ns"]["value"] for found in report["findings"] if found["id"] in wanted)


def gain(faulty, fixed, steps):
    """Returns what the twin gained, ns. The finding is about all steps, and the loops are timed after the warm-up: the steps of
    that are counted as the others are."""
    return (faulty["loop_ns"] - fixed["loop_ns"]) * steps / (steps - faulty["warm_up"])


def alone(command):
    """Runs a command without gpuspy, and returns its account of itself."""
    done = subprocess.run([SIMGPU, *command], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def wrong_lines(report, wanted, command):
    """Returns what is wrong with the lines that these findings name: the program ends its own line with the finding's id."""
    program = os.path.abspath(command[-1])
    with open(program, encoding="utf-8") as source:
        ends = {line.rsplit("  # ", 1)[1].strip(): at for at, line in enumerate(source, 1) if "  # " in line}
    said = {found["id"]: found["evidence"]["line"] for found in report["findings"]}
    expected = {name: f"{program}:{ends[name]}" for name in wanted if name in ends}
    return [f"{name} names {said.get(name)} and not {line}" for name, line in expected.items() if said.get(name) != line]


def main(name, finding, command):
    """Returns whether everything agrees."""
    for _ in range(PAIRS):
        faulty, fixed = (check(f"{name}, {variant}", [*command, variant]) for variant in ("faulty", "fixed"))
        if not (faulty[0] and fixed[0]):
            return False
        if finding == "-":
            return True
        wrong = wrong_lines(faulty[2], finding.split("+"), command)
        if wrong:
            print(f"{name}: {wrong}")
            return False
        promised, steps = promise(faulty[2], finding.split("+")), faulty[1]["steps"]
        gained = gain(faulty[1], fixed[1], steps)
        said = f"{name}: {finding} promises {promised / 1e6:.0f} ms, and the twin gains {gained / 1e6:.0f} ms"
        least = gained
        if abs(promised - gained) > TOLERANCE * gained:
            least = gain(alone([*command, "faulty"]), alone([*command, "fixed"]), steps)
            said += f", {least / 1e6:.0f} ms without gpuspy"
        print(said, flush=True)
        if (1 - TOLERANCE) * least <= promised <= (1 + TOLERANCE) * gained:
            return True
    print(f"{name}: the promise of {finding} is wrong in each of {PAIRS} pairs")
    return False


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
