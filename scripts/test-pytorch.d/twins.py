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

Other programs on the machine make each run longer and none shorter. So up to five pairs are run until the promise of the shortest run
agrees with what the shortest runs gain, beside what the two shortest of each kind differ by. A promise that is wrong agrees in none.
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


class Loops:
    """How long the loops of some runs of both programs took, ns."""

    def __init__(self):
        self.took = {"faulty": [], "fixed": []}

    def add(self, variant, account):
        self.took[variant].append(account["loop_ns"])

    def gain(self):
        """Returns what the twin gains by the shortest runs, and by how much the two shortest of each kind differ, ns."""
        faulty, fixed = (sorted(took) for took in self.took.values())
        return faulty[0] - fixed[0], sum(took[1] - took[0] for took in (faulty, fixed) if len(took) > 1)


def alone(command):
    """Runs a command without gpuspy, and returns its account of itself."""
    done = subprocess.run([SIMGPU, *command], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def agrees(promised, observed, without):
    """Returns whether a promise lies between the gains under gpuspy and without it, which are pairs of a gain and its noise."""
    gains = [gain for gain in (observed, without) if gain]
    least = min((1 - TOLERANCE) * gain - noise for gain, noise in gains)
    return least <= promised <= max((1 + TOLERANCE) * gain + noise for gain, noise in gains)


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
    wanted = finding.split("+")
    observed, without, shortest = Loops(), Loops(), None
    for _ in range(PAIRS):
        faulty, fixed = (check(f"{name}, {variant}", [*command, variant]) for variant in ("faulty", "fixed"))
        if not (faulty[0] and fixed[0]):
            return False
        if finding == "-":
            return True
        wrong = wrong_lines(faulty[2], wanted, command)
        if wrong:
            print(f"{name}: {wrong}")
            return False
        observed.add("faulty", faulty[1])
        observed.add("fixed", fixed[1])
        if shortest is None or faulty[1]["loop_ns"] < shortest[0]:
            shortest = (faulty[1]["loop_ns"], promise(faulty[2], wanted))
        # The finding is about all steps, and the loops are timed after the warm-up, whose steps are counted as the others are.
        scale = faulty[1]["steps"] / (faulty[1]["steps"] - faulty[1]["warm_up"])
        promised, gains = shortest[1] / scale, [observed.gain(), None]
        if not agrees(promised, *gains):
            for variant in ("faulty", "fixed"):
                without.add(variant, alone([*command, variant]))
            gains[1] = without.gain()
        said = [f"{gain * scale / 1e6:.0f} ms (± {noise * scale / 1e6:.0f})" for gain, noise in filter(None, gains)]
        beside = f", {said[1]} without gpuspy" if len(said) > 1 else ""
        print(f"{name}: {finding} promises {shortest[1] / 1e6:.0f} ms, and the twin gains {said[0]}{beside}", flush=True)
        if agrees(promised, *gains):
            return True
    print(f"{name}: the promise of {finding} is wrong in each of {PAIRS} pairs")
    return False


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
